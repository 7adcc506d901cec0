//! One command for each thing a contributor does: `cargo xtask`, run bare, lists them.
//!
//! It launches cargo, the suites and a few tools, reads what they print, and sums it up. It depends
//! on none of the workspace's crates, so it works while they do not compile.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod arrows;
mod bench;
mod cargo;
mod fixtures;
mod fuzz;
mod libtest;
mod lint;
mod loom;
mod oracle;
mod pg;
mod readme;
mod report;
mod sanitize;
mod test;
mod tidy;
mod toolchain;
mod workspace;

/// One command for each thing a contributor does.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare this code with its peers: tables, JSON and an HTML report
    Bench(bench::Arguments),
    /// Remake the files under testdata/ with real servers
    Fixtures,
    /// Fuzz one target, or each of them in turn (needs nightly and cargo-fuzz)
    Fuzz(fuzz::Arguments),
    /// Check format, clippy, docs, dependencies, no_std builds, packages
    Lint,
    /// Run the loom models of every crate that has some
    Loom,
    /// Run only the tests against live servers
    Oracle,
    /// Real PostgreSQL binaries for the tests
    #[command(arg_required_else_help = true)]
    Pg {
        #[command(subcommand)]
        command: pg::Command,
    },
    /// Run unsafe code under the address sanitizer, the store under the thread sanitizer (needs nightly)
    Sanitize(sanitize::Arguments),
    /// Run every test there is and say what was skipped and why
    Test,
    /// List the longest source files, as a mirror
    Tidy(tidy::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Fixtures => fixtures::run(),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Lint => lint::run(),
        Command::Loom => loom::run(),
        Command::Oracle => oracle::run(),
        Command::Pg { command } => pg::run(&command),
        Command::Sanitize(arguments) => sanitize::run(&arguments),
        Command::Test => test::run(),
        Command::Tidy(arguments) => tidy::run(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
