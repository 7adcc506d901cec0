//! Looks for damage in a data directory: `cargo run --release --example check DIRECTORY [deep]`.
use std::process::ExitCode;
use std::time::Instant;

use pgtoast_datadir::DataDirectory;
use pgtoast_datadir::check::{Check, Finding, Severity};

#[expect(clippy::print_stdout, reason = "a command-line example")]
fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: check DIRECTORY [deep]")?;
    let is_deep = arguments.next().is_some_and(|word| word == "deep");
    let started = Instant::now();
    let directory = DataDirectory::open(path)?;
    println!("{}, {}", directory.version(), directory.consistency());

    let check = Check::new().with_deep(is_deep);
    let coverage = check.directory(&directory, &mut |finding: Finding| {
        println!("{finding}");
        if let Some(cure) = finding.cure() {
            println!("    {cure}");
        }
    });
    for skipped in &coverage.skipped {
        println!("not checked: {skipped}");
    }
    println!(
        "{} relations, {} blocks, {} tuples, {} values in {:.2?}",
        coverage.relations,
        coverage.blocks,
        coverage.tuples,
        coverage.values,
        started.elapsed()
    );
    Ok(match coverage.findings.worst() {
        None | Some(Severity::Note) => ExitCode::SUCCESS,
        Some(Severity::Lost) => ExitCode::from(4),
        Some(_) => ExitCode::from(3),
    })
}
