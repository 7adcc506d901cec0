//! A long transaction among short ones, in three layouts: what each holds for the same live rows.
//!
//! `cargo run --release -p pgtoast-memctx --example decoding`
#![expect(clippy::print_stdout, reason = "an example prints")]
use pgtoast_memctx::{BlockSizes, Chunk, Cohort, Cohorts, Context, Generation, MemoryError, root};

/// Rounds of a few rows of the long transaction and many of a short one.
const ROUNDS: usize = 100;
const LONG_ROWS: usize = 300;
const SHORT_ROWS: usize = 10_000;
const ROW: [u8; 160] = [7; 160];

fn main() -> Result<(), MemoryError> {
    let small = shared(&root("8 KiB blocks").generation(BlockSizes::fixed(8 << 10))?)?;
    let large = shared(&root("8 MiB blocks").generation(BlockSizes::fixed(8 << 20))?)?;
    let cohorts = by_cohort(&root("Cohorts").cohorts()?)?;
    let live = (ROUNDS * LONG_ROWS + SHORT_ROWS) * ROW.len();
    println!("{live:>11} bytes of rows");
    for (bytes, layout) in [(small, "8 KiB blocks"), (large, "8 MiB blocks"), (cohorts, "cohorts")]
    {
        println!("{bytes:>11} bytes held at most: {layout}");
    }
    Ok(())
}

fn shared(tuples: &Context<'_, Generation>) -> Result<usize, MemoryError> {
    let mut long: Vec<Chunk<Generation>> = Vec::new();
    for _ in 0..ROUNDS {
        for _ in 0..LONG_ROWS {
            long.push(tuples.take(&ROW)?);
        }
        let short: Result<Vec<_>, _> = (0..SHORT_ROWS).map(|_| tuples.take(&ROW)).collect();
        short?.into_iter().try_for_each(|row| tuples.give_back(row))?;
    }
    Ok(tuples.account().peak())
}

fn by_cohort(tuples: &Context<'_, Cohorts>) -> Result<usize, MemoryError> {
    let mut long_cohort = Cohort::new();
    let mut long = Vec::new();
    for _ in 0..ROUNDS {
        for _ in 0..LONG_ROWS {
            long.push(tuples.take_for(&mut long_cohort, &ROW)?);
        }
        let mut cohort = Cohort::new();
        let short: Result<Vec<_>, _> =
            (0..SHORT_ROWS).map(|_| tuples.take_for(&mut cohort, &ROW)).collect();
        short?.into_iter().try_for_each(|row| tuples.give_back(row))?;
        tuples.close(cohort)?;
    }
    Ok(tuples.account().peak())
}
