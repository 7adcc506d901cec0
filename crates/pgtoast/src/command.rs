//! The command `pgtoast`.
//!
//! One module a command: its arguments, and how the values of its report become text. [`run`] is the whole
//! program; what it prints besides text is described by [`crate::report`].
mod arguments;
mod check;
mod cluster;
mod columns;
mod each_table;
mod extras;
mod failure;
mod free_space;
mod get;
mod ids;
mod info;
mod map;
mod output;
mod page;
mod problems;
mod progress;
mod size;
mod tables;
mod values;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use cluster::Context;
use failure::Failure;
use output::Output;

/// How a command ended, if it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// All is well.
    Clean,
    /// Something was found, or could not be read.
    Findings,
    /// Data is lost.
    Lost,
}

/// The exit codes, as the manual page has them.
const ERROR: u8 = 1;
const USAGE: u8 = 2;

impl Outcome {
    const fn code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Findings => 3,
            Self::Lost => 4,
        }
    }
}

/// Runs the command with these arguments, of which the first is the program's own name.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help is no failure, and whoever closed the pipe has read enough of it.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
    };
    let mut output = Output::new(arguments.global.json, arguments.global.color);
    let outcome = execute(&arguments, &mut output).and_then(|outcome| {
        output.flush()?;
        Ok(outcome)
    });
    match outcome {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            // What was printed so far is right, and belongs before the complaint.
            let _ = output.flush();
            let _ = writeln!(std::io::stderr(), "pgtoast: {failure}");
            ExitCode::from(match failure {
                Failure::Usage(_) => USAGE,
                Failure::Lost(_) => Outcome::Lost.code(),
                _ => ERROR,
            })
        }
    }
}

fn execute(arguments: &Arguments, output: &mut Output) -> Result<Outcome, Failure> {
    let context = Context::new(&arguments.global);
    match &arguments.command {
        Command::Info => info::run(&context, output),
        Command::Check(arguments) => check::run(&context, arguments, output),
        Command::Tables(arguments) => tables::run(&context, arguments, output),
        Command::Columns(arguments) => columns::run(&context, arguments, output),
        Command::Values(arguments) => values::run(&context, arguments, output),
        Command::Get(arguments) => get::run(&context, arguments, output),
        Command::Fsm(arguments) => free_space::run(&context, arguments, output),
        Command::Map(arguments) => map::run(&context, arguments, output),
        Command::Page(arguments) => page::run(&context, arguments, output),
        Command::Ids(arguments) => ids::run(&context, arguments, output),
        Command::Schema => extras::schema(output),
        Command::Completions(arguments) => extras::completions(arguments, output),
        Command::Man(arguments) => extras::man(arguments, output),
    }
}
