//! `pgtoast values`
use std::io::Write;

use pgtoast_base::Oid8;

use super::Outcome;
use super::arguments::ValuesArguments;
use super::cluster::{Context, main_bytes};
use super::failure::Failure;
use super::output::{Color, Output, go_on_if};
use super::problems;
use super::size::{ByteCount, Grouped};
use crate::report::values::{
    ChunkPlaces, LogLine, Selection, ValueRow, ValuesSummary, column_number, each, table_of,
};

pub(super) fn run(
    context: &Context,
    arguments: &ValuesArguments,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let (name, value_id) = wanted(arguments)?;
    let directory = context.directory()?;
    let named = context.table(&directory, &name)?;
    let database = &named.database;
    let relation = table_of(database, named.heap()?);
    // A table that cannot be opened is an error before anything is printed.
    let table = database.table(relation)?;
    let column = match &arguments.column {
        None => None,
        Some(column) => {
            let number = column_number(&table, column);
            Some(number.ok_or_else(|| {
                let table = database.qualified_name(relation);
                Failure::Other(format!("{table} has no column {column}"))
            })?)
        }
    };
    let selection = Selection { column, value_id, inline: arguments.inline, dead: arguments.dead };
    if output.json {
        output.begin_list("values", "values")?;
    } else {
        writeln!(output, "{}", output.paint(Color::Bold, heading()))?;
    }
    let mut printed = Ok(());
    let summary = context.while_watched(main_bytes(database, relation), |budget| {
        each(database, relation, selection, budget, &mut |value| {
            printed = if output.json {
                output.element(&value)
            } else {
                writeln!(output, "{}", line(&value)).map_err(Failure::from)
            };
            go_on_if(printed.is_ok())
        })
    })?;
    printed?;
    if output.json {
        output.end_list("summary", &summary)?;
    } else {
        print_summary(&summary, value_id, output)?;
    }
    problems::tell(summary.problem_count, &summary.problems, output)
}

/// The table's name, and the value's id if one is asked for.
fn wanted(arguments: &ValuesArguments) -> Result<(String, Option<Oid8>), Failure> {
    if let Some(line) = &arguments.log_line {
        let found = LogLine::parse(line).ok_or_else(|| {
            let example = "missing chunk number 0 for toast value 8675309 in pg_toast_2619";
            Failure::Usage(format!("the line names no TOAST value: one that does is `{example}`"))
        })?;
        return Ok((found.toast_relation, Some(found.value_id)));
    }
    let name = arguments.table.clone().unwrap_or_default();
    Ok((name, arguments.value_id.map(Oid8::new)))
}

fn heading() -> String {
    format!(
        "{:<14} {:<20} {:<11} {:<6} {:>12} {:>12} {:>8} {:>12}",
        "row", "column", "form", "method", "raw bytes", "stored", "chunks", "value id"
    )
}

fn line(value: &ValueRow) -> String {
    let or_dash = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let tid = if value.is_dead { format!("{} dead", value.tid) } else { value.tid.clone() };
    format!(
        "{tid:<14} {:<20} {:<11} {:<6} {:>12} {:>12} {:>8} {:>12}",
        value.column,
        value.form.name(),
        value.method.as_deref().unwrap_or("-"),
        value.raw_bytes,
        value.stored_bytes,
        or_dash(value.chunks.map(u64::from)),
        or_dash(value.value_id)
    )
}

fn print_summary(
    summary: &ValuesSummary,
    value_id: Option<Oid8>,
    output: &mut Output,
) -> Result<(), Failure> {
    if let (Some(value_id), 0) = (value_id, summary.values) {
        writeln!(output, "no row of {} points to value {value_id}", summary.table)?;
    } else {
        writeln!(
            output,
            "{} value{}, {} raw, {} stored",
            Grouped(summary.values),
            if summary.values == 1 { "" } else { "s" },
            ByteCount(summary.raw_bytes),
            ByteCount(summary.stored_bytes)
        )?;
    }
    match &summary.chunks {
        Some(chunks) => print_chunks(summary, chunks, output),
        None => Ok(()),
    }
}

fn print_chunks(
    summary: &ValuesSummary,
    chunks: &ChunkPlaces,
    output: &mut Output,
) -> Result<(), Failure> {
    let toast = summary.toast.as_ref().map_or("", |toast| toast.name.as_str());
    match chunks.expected {
        Some(expected) => {
            writeln!(output, "{} of {expected} chunks found in {toast}", chunks.found)?;
        }
        None => writeln!(output, "{} chunks found in {toast}", chunks.found)?,
    }
    let numbers = |first: i64, last: i64| {
        if first == last { first.to_string() } else { format!("{first} to {last}") }
    };
    for range in &chunks.missing {
        let missing = output.paint(Color::Red, "missing").to_string();
        writeln!(output, "  {missing} {}", numbers(range.first, range.last))?;
    }
    for run in chunks.runs.iter().take(20) {
        writeln!(output, "  {} at {}", numbers(run.first.into(), run.last.into()), run.tid)?;
    }
    if chunks.runs.len() > 20 {
        writeln!(output, "  and on; --json has more")?;
    }
    Ok(())
}
