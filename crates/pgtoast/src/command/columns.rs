//! `pgtoast columns`
use std::io::Write;

use super::Outcome;
use super::arguments::TableArgument;
use super::cluster::{Context, main_bytes, toast_bytes};
use super::failure::Failure;
use super::info::percent;
use super::output::{Color, Output, print_table, table};
use super::problems;
use super::size::{ByteCount, Grouped};
use crate::report::Spread;
use crate::report::columns::{ColumnReport, ColumnsReport};
use crate::report::values::table_of;

pub(super) fn run(
    context: &Context,
    arguments: &TableArgument,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let directory = context.directory()?;
    let named = context.table(&directory, &arguments.table)?;
    let database = &named.database;
    let relation = table_of(database, named.heap()?);
    let bytes = main_bytes(database, relation) + toast_bytes(database, relation);
    let report =
        context.while_watched(bytes, |budget| ColumnsReport::of(database, relation, budget))?;
    if output.json {
        output.document("columns", &report)?;
    } else {
        print(&report, output)?;
    }
    problems::tell(report.problem_count, &report.problems, output)
}

fn print(report: &ColumnsReport, output: &mut Output) -> Result<(), Failure> {
    let name = output.paint(Color::Bold, &report.table).to_string();
    writeln!(output, "{name}, {} rows", Grouped(report.rows))?;
    writeln!(output)?;
    let header = [
        "column", "type", "storage", "null", "fixed", "short", "long", "pglz", "lz4", "out",
        "out pglz", "out lz4",
    ];
    let mut forms = table(&header, 3);
    for column in &report.columns {
        let counts = &column.forms;
        let storage = match &column.compression {
            Some(method) => format!("{} {method}", column.storage),
            None => column.storage.clone(),
        };
        let numbers = [
            column.nulls,
            counts.fixed,
            counts.short,
            counts.long,
            counts.compressed_pglz,
            counts.compressed_lz4,
            counts.out_of_line,
            counts.out_of_line_pglz,
            counts.out_of_line_lz4,
        ];
        let type_name = column.type_name.clone().unwrap_or_default();
        let numbers = numbers.map(|number| match number {
            0 => "-".to_owned(),
            number => Grouped(number).to_string(),
        });
        forms.add_row([column.name.clone(), type_name, storage].into_iter().chain(numbers));
    }
    print_table(output, &forms)?;
    writeln!(output)?;
    print_sizes(report, output)?;
    if let Some(toast) = &report.toast {
        writeln!(
            output,
            "\n{}: {} values in {} chunks, {}",
            toast.relation.name,
            Grouped(toast.values),
            Grouped(toast.chunks),
            ByteCount(toast.bytes)
        )?;
        if toast.orphan_values > 0 {
            let text = format!(
                "orphans: {} values in {} chunks, {}, that no row leads to",
                Grouped(toast.orphan_values),
                Grouped(toast.orphan_chunks),
                ByteCount(toast.orphan_bytes)
            );
            writeln!(output, "{}", output.paint(Color::Yellow, text))?;
        }
    }
    Ok(())
}

fn print_sizes(report: &ColumnsReport, output: &mut Output) -> Result<(), Failure> {
    let header = [
        "column",
        "raw",
        "mean",
        "p50",
        "p99",
        "most",
        "stored",
        "mean",
        "p50",
        "p99",
        "share out",
        "chunks",
        "p99",
        "blocks",
        "p99",
    ];
    let mut sizes = table(&header, 1);
    for column in &report.columns {
        let bytes = |spread: Option<Spread>| match spread {
            None => ["-"; 4].map(str::to_owned),
            Some(one) => [
                ByteCount(one.total).to_string(),
                format!("{:.1}", one.mean),
                one.p50.to_string(),
                one.p99.to_string(),
            ],
        };
        let few = |spread: Option<Spread>| match spread {
            None => ["-"; 2].map(str::to_owned),
            Some(one) => [format!("{:.1}", one.mean), one.p99.to_string()],
        };
        let most = column.raw.map_or_else(|| "-".to_owned(), |one| one.most.to_string());
        let row = core::iter::once(column.name.clone())
            .chain(bytes(column.raw))
            .chain([most])
            .chain(bytes(column.stored))
            .chain([share_out(column)])
            .chain(few(column.chunks))
            .chain(few(column.blocks));
        sizes.add_row(row);
    }
    Ok(print_table(output, &sizes)?)
}

fn share_out(column: &ColumnReport) -> String {
    let counts = &column.forms;
    let inline =
        counts.fixed + counts.short + counts.long + counts.compressed_pglz + counts.compressed_lz4;
    percent(counts.all_out_of_line(), counts.all_out_of_line() + inline)
}
