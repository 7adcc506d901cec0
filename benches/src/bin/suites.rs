//! Runs benchmark suites: tables on stdout, progress on stderr, JSON and an HTML report on request.
//!
//! The exit status is 1 when a suite gave a wrong answer and 0 otherwise: being slow, or having
//! nothing to compare with, is a result.
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use pgtoast_benches::{
    Bench, Effort, Machine, Row, Run, Suite, WrongAnswer, all, named, print_tables, write_json,
    write_report,
};

/// Compares pgtoast with PostgreSQL and others, side by side in one run.
#[derive(Parser)]
#[command(name = "bench", version)]
struct Options {
    /// Suites to run; all of them when none is named.
    #[arg(value_name = "SUITE")]
    suites: Vec<String>,
    /// At most 15 seconds a suite. This is the default.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// A few minutes a suite, and larger data.
    #[arg(long)]
    full: bool,
    /// Also write the rows as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the HTML report goes [default: bench-report in the target directory].
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// A file to work on in place of generated values, in suites that can.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Count instructions as well, in suites that can; needs valgrind.
    #[arg(long)]
    instructions: bool,
    /// Do one piece of work for the instructions to be counted: suite:workload.
    #[arg(long, hide = true)]
    workload: Option<String>,
    /// Name the suites and stop.
    #[arg(long)]
    list: bool,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let mut out = stdout().lock();
    if options.list {
        for suite in all() {
            writeln!(out, "{:10} {}", suite.name(), suite.about())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(workload) = &options.workload {
        let (suite, name) = workload.split_once(':').context("no suite")?;
        let suite = named(suite).context("no such suite")?;
        suite.workload(name, options.input.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let suites = chosen(&options.suites)?;
    let mut run = Run { schema: 1, machine: Machine::current(), rows: Vec::new() };
    writeln!(
        out,
        "{}, {} cores, {}, {}",
        run.machine.cpu, run.machine.cores, run.machine.rustc, run.machine.date
    )?;
    let mut wrong = false;
    for suite in suites {
        let (rows, answered_wrong) = measured(suite, &options);
        print_tables(&mut out, suite.name(), suite.about(), &rows)?;
        wrong |= answered_wrong;
        run.rows.extend(rows);
    }
    if let Some(path) = &options.json {
        write_json(&run, path)?;
    }
    let directory = match options.report {
        Some(directory) => directory,
        None => default_report_directory()?,
    };
    let path = write_report(&run, &directory)?;
    writeln!(out, "\nreport: {}", path.display())?;
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Beside the build that this program is of, wherever it is started from.
fn default_report_directory() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).unwrap_or(Path::new("target"));
    Ok(target.join("bench-report"))
}

fn chosen(names: &[String]) -> Result<Vec<&'static dyn Suite>> {
    if names.is_empty() {
        return Ok(all().to_vec());
    }
    let find = |name: &String| match named(name) {
        Some(suite) => Ok(suite),
        None => {
            let known: Vec<_> = all().iter().map(|suite| suite.name()).collect();
            bail!("no suite is called {name:?}; there are {}", known.join(", "))
        }
    };
    names.iter().map(find).collect()
}

/// The rows of a suite, and whether one of its answers was wrong. A suite that cannot run here leaves
/// a row that says why.
fn measured(suite: &'static dyn Suite, options: &Options) -> (Vec<Row>, bool) {
    let effort = if options.full { Effort::Full } else { Effort::Quick };
    let bench = Bench::start(suite.name(), effort, options.input.clone(), options.instructions);
    let result = suite.run(&bench);
    bench.finish();
    match result {
        Ok(rows) => (rows, false),
        Err(error) => {
            let wrong = error.downcast_ref::<WrongAnswer>().is_some();
            (vec![Row::skipped(suite.name(), "suite", format!("{error:#}"))], wrong)
        }
    }
}
