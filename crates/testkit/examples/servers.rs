//! Lists the PostgreSQL servers that tests would compare with, and what each of them can do.
//!
//! `cargo run -p pgtoast-testkit --features server --example servers`
#![expect(clippy::print_stdout, reason = "a list is what it is for")]
use anyhow::Result;
use pgtoast_testkit::{Server, ServerOptions, Survey};

fn main() -> Result<()> {
    let survey = Survey::new();
    for installation in &survey.found {
        let server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        let lz4 = server.has_lz4(&mut client)?;
        let pageinspect = server.has_extension(&mut client, "pageinspect")?;
        let checksums = installation.program("pg_checksums").is_some();
        println!("{installation}: lz4 {lz4}, pageinspect {pageinspect}, pg_checksums {checksums}");
    }
    for major in &survey.missing {
        println!("PostgreSQL {major}: not found");
    }
    Ok(())
}
