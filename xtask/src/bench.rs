//! `cargo xtask bench`: builds the suites' runner for speed and passes it the arguments.
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::cargo::passes;
use crate::workspace;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The suites to run; all of them if none is named
    suites: Vec<String>,
    /// At most 15 seconds a suite (as without it)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// As long as steady figures take
    #[arg(long)]
    full: bool,
    /// Write the rows as JSON as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the HTML report goes instead of target/bench-report
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Work on this file in place of generated values, in suites that can
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Count instructions as well, in suites that can (needs valgrind)
    #[arg(long)]
    instructions: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    // Not moved to the workspace's root: paths are the caller's.
    let mut command = Command::new("cargo");
    command.args(["run", "--release", "--package", "pgtoast-benches", "--bin", "suites"]);
    command.arg("--manifest-path").arg(workspace::root().join("Cargo.toml"));
    command.arg("--").args(&arguments.suites);
    for (flag, given) in [
        ("--quick", arguments.quick),
        ("--full", arguments.full),
        ("--instructions", arguments.instructions),
    ] {
        command.args(given.then_some(flag));
    }
    for (flag, path) in [
        ("--json", &arguments.json),
        ("--report", &arguments.report),
        ("--input", &arguments.input),
    ] {
        if let Some(path) = path {
            command.arg(flag).arg(path);
        }
    }
    Ok(passes(&mut command)?.0)
}
