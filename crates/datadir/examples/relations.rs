//! What is in a data directory?
//! `cargo run --example relations -- /var/lib/postgresql/15/main [DATABASE]`
use std::error::Error;
use std::process::ExitCode;

use pgtoast_datadir::{DataDirectory, Fork};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line example")]
fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: relations DATA_DIRECTORY [DATABASE]");
        return Ok(ExitCode::FAILURE);
    };
    let directory = DataDirectory::open(path)?;
    println!("PostgreSQL {}, {}", directory.version().major, directory.consistency());
    let wanted = arguments.next();
    for entry in directory.databases() {
        println!("database {} ({})", entry.name, entry.oid);
        if wanted.as_deref() != Some(entry.name.as_str()) {
            continue;
        }
        let database = pgtoast_datadir::Database::open(&directory, entry)?;
        for relation in database.relations().filter(|one| one.files.is_some()) {
            let blocks = database.fork(relation, Fork::Main)?.map_or(0, |fork| fork.block_count());
            println!(
                "  {:>8} blocks  {} {}",
                blocks,
                relation.kind,
                database.qualified_name(relation)
            );
        }
        database.problems().iter().for_each(|problem| eprintln!("{problem}"));
    }
    directory.problems().iter().for_each(|problem| eprintln!("{problem}"));
    Ok(ExitCode::SUCCESS)
}
