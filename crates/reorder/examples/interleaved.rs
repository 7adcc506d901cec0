//! One long transaction among many short ones: what each layout holds for what it is asked to.
//! `cargo run --release --example interleaved -- [ROUNDS]`
use std::error::Error;

use pgtoast_base::{Lsn, Oid, Xid};
use pgtoast_memctx::BlockSizes;
use pgtoast_page::Value;
use pgtoast_reorder::{
    Action, BuiltinType, BumpPerTransaction, Change, CohortPages, Column, InsertFlags, Layout,
    MemorySpill, Options, Record, Relation, RelationMap, ReorderBuffer, SharedGeneration,
    TextOptions, TextOutput,
};

const TABLE: Oid = Oid::new(16_384);
const LONG: Xid = Xid::new(700);
const ROWS_OF_LONG: usize = 326;
const ROWS_OF_SHORT: usize = 25_359;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(40), |rounds| rounds.parse())?;
    run("one Bump a transaction", BumpPerTransaction::new(BlockSizes::DEFAULT), rounds)?;
    run("pages of cohorts", CohortPages::new()?, rounds)?;
    for size in [8 << 10, 64 << 10, 1 << 20, 8 << 20] {
        let layout = SharedGeneration::new(BlockSizes::fixed(size))?;
        run(&format!("blocks of {} kB", size >> 10), layout, rounds)?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a command-line example")]
fn run(name: &str, layout: impl Layout, rounds: u32) -> Result<(), Box<dyn Error>> {
    let columns = vec![Column::new("id", BuiltinType::INT4), Column::new("pad", BuiltinType::TEXT)];
    let table = Relation::table(TABLE, "public", "t", columns)?;
    let mut pad = Vec::new();
    pgtoast_varlena::encode_long(&[b'x'; 107], &mut pad)?;
    let mut tuple = [0; 256];
    let values = [Value::stored(&[1, 0, 0, 0]), Value::stored(&pad)];
    let new = table.descriptor()?.form(&values, &mut tuple)?.bytes().to_vec();

    let options = Options { work_mem: 256 << 20, ..Options::default() };
    let mut buffer = ReorderBuffer::new(layout, MemorySpill::new(), options);
    let (catalog, mut lines, mut lsn) = (RelationMap::new([table]), 0_u64, 0);
    let mut output = TextOutput::new(TextOptions::default(), |_: &str| lines += 1);
    let mut apply = |xid, action| {
        lsn += 8;
        let record = Record { lsn: Lsn::new(lsn), xid, action };
        buffer.apply(&record, &catalog, &mut output)
    };
    let insert =
        Change::Insert { relation: TABLE, new: Some(&new), tid: None, flags: InsertFlags::empty() };
    for short in (0..rounds).map(|round| Xid::new(LONG.get() + 1 + round)) {
        for _ in 0..ROWS_OF_LONG {
            apply(LONG, Action::Change(insert))?;
        }
        for _ in 0..ROWS_OF_SHORT {
            apply(short, Action::Change(insert))?;
        }
        apply(short, Action::Commit { subtransactions: &[] })?;
    }
    apply(LONG, Action::Commit { subtransactions: &[] })?;
    let stats = buffer.stats();
    println!(
        "{name:24} accounted for at most {:>11} bytes, held at most {:>13}",
        stats.peak_accounted_bytes, stats.peak_allocated_bytes
    );
    Ok(())
}
