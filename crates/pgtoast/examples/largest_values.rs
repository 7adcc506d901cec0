//! The ten largest values of a table, and their rows: `cargo run --example largest_values DIRECTORY DATABASE TABLE`.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use pgtoast::datadir::DataDirectory;
use pgtoast::report::Budget;
use pgtoast::report::values::{Selection, each};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line example")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, database, table] = arguments.as_slice() else {
        return Err("usage: largest_values DIRECTORY DATABASE TABLE".into());
    };
    let directory = DataDirectory::open(path)?;
    let database = directory.database(database)?.ok_or("no such database")?;
    let table = database.relation_named(table).ok_or("no such table")?;
    let selection = Selection { inline: true, ..Selection::default() };
    let mut largest = BinaryHeap::new();
    let summary = each(&database, table, selection, &Budget::new(), &mut |value| {
        largest.push(Reverse((value.raw_bytes, value.tid, value.column)));
        if largest.len() > 10 {
            largest.pop();
        }
        ControlFlow::Continue(())
    })?;
    for Reverse((bytes, tid, column)) in largest.into_sorted_vec() {
        println!("{bytes:>12} bytes  {tid} {column}");
    }
    summary.problems.iter().for_each(|problem| eprintln!("{problem}"));
    Ok(())
}
