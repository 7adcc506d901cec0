//! Threads that do all that can be done to a store at once, and check all that they see.
//! `cargo run --release --example stress -- [OPERATIONS [SECONDS [THREADS [SEED]]]]`: at least so many
//! calls of the store, and at least so long.
#[path = "../tests/soak/mod.rs"]
mod soak;

use std::error::Error;
use std::time::{Duration, Instant};

use soak::Plan;

#[expect(clippy::print_stdout, reason = "a command-line example")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |usual| arguments.next().unwrap_or(Ok(usual));
    let plan = Plan {
        operations: next(1_000_000)?,
        time: Duration::from_secs(next(0)?),
        threads: usize::try_from(next(8)?)?,
        seed: next(1)?,
    };
    let directory = tempfile::tempdir()?;
    let started = Instant::now();
    let counts = soak::run(directory.path(), plan)?;
    println!("{plan:?}: {:?}\n{counts:#?}", started.elapsed());
    Ok(())
}
