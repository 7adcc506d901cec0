//! `pgtoast schema`, `pgtoast completions`, `pgtoast man`
use std::io::Write;

use clap::CommandFactory;

use super::Outcome;
use super::arguments::{Arguments, CompletionsArguments, ManArguments};
use super::failure::Failure;
use super::output::Output;
use crate::report::SCHEMA;

pub(super) fn schema(output: &mut Output) -> Result<Outcome, Failure> {
    output.write_all(SCHEMA.as_bytes())?;
    Ok(Outcome::Clean)
}

pub(super) fn completions(
    arguments: &CompletionsArguments,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    // Made in memory: the generator panics where a pipe is closed.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "pgtoast", &mut script);
    output.write_all(&script)?;
    Ok(Outcome::Clean)
}

pub(super) fn man(arguments: &ManArguments, output: &mut Output) -> Result<Outcome, Failure> {
    let mut command = Arguments::command();
    command.build();
    match &arguments.directory {
        None => clap_mangen::Man::new(command).render(output)?,
        Some(directory) => clap_mangen::generate_to(command, directory)?,
    }
    Ok(Outcome::Clean)
}
