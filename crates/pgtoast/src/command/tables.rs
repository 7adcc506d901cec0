//! `pgtoast tables`
use std::io::Write;

use pgtoast_base::Oid;

use super::Outcome;
use super::arguments::TablesArguments;
use super::cluster::{Context, main_bytes};
use super::failure::Failure;
use super::info::percent;
use super::output::{Output, print_table, table};
use super::size::{ByteCount, Grouped};
use super::values::report_problems;
use crate::datadir::{DataDirectory, Database, Relation, RelationKind};
use crate::report::tables::{HeapReport, TableReport};

pub(super) fn run(
    context: &Context,
    arguments: &TablesArguments,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let directory = context.directory()?;
    let chosen = chosen(context, &directory, arguments)?;
    let each =
        || chosen.iter().flat_map(|(database, oids)| oids.iter().map(move |oid| (database, *oid)));
    let relations =
        || each().filter_map(|(database, oid)| Some((database, database.relation(oid)?)));
    let bytes = |(database, relation): (&Database, &Relation)| {
        let toast = database.toast_of(relation).map_or(0, |toast| main_bytes(database, toast));
        main_bytes(database, relation) + toast
    };
    let progress = context.progress(relations().map(bytes).sum());
    let listen = |bytes| progress.add(bytes);
    let budget = context.budget(&listen);
    let (mut reports, mut problems, mut problem_count) = (Vec::new(), Vec::new(), 0);
    if output.json {
        output.begin_list("tables", "tables")?;
    }
    for (database, relation) in relations() {
        match TableReport::of(database, relation, &budget) {
            Ok(report) => {
                problem_count += report.problem_count;
                problems
                    .extend(report.problems.iter().map(|one| format!("{}: {one}", report.table)));
                if output.json {
                    output.element(&report)?;
                } else {
                    reports.push(report);
                }
            }
            Err(error) => {
                problem_count += 1;
                problems.push(format!("{}: {error}", database.qualified_name(relation)));
            }
        }
    }
    drop(progress);
    if output.json {
        output.end_list("problem_count", &problem_count)?;
    } else {
        print(reports, output)?;
    }
    report_problems(problem_count, &problems, output)
}

/// The tables that were named, or all, by database.
pub(super) fn chosen(
    context: &Context,
    directory: &DataDirectory,
    arguments: &TablesArguments,
) -> Result<Vec<(Database, Vec<Oid>)>, Failure> {
    if arguments.tables.is_empty() {
        let with_tables = context.databases(directory)?.into_iter().map(|database| {
            let oids = all_tables(&database, arguments.system).map(|one| one.oid).collect();
            (database, oids)
        });
        return Ok(with_tables.collect());
    }
    let mut chosen = Vec::new();
    for name in &arguments.tables {
        let named = context.table(directory, name)?;
        named.heap()?;
        chosen.push((named.database, vec![named.oid]));
    }
    Ok(chosen)
}

fn all_tables(database: &Database, with_system: bool) -> impl Iterator<Item = &Relation> {
    database.relations().filter(move |relation| {
        let is_table =
            matches!(relation.kind, RelationKind::Table | RelationKind::MaterializedView);
        let schema = database.schema_name(relation.schema).unwrap_or_default();
        let is_system = matches!(schema, "pg_catalog" | "information_schema");
        is_table && relation.is_heap() && relation.files.is_some() && (with_system || !is_system)
    })
}

fn print(mut reports: Vec<TableReport>, output: &mut Output) -> Result<(), Failure> {
    if reports.is_empty() {
        writeln!(output, "no tables; --system has those of the catalogs")?;
        return Ok(());
    }
    reports.sort_by_key(|report| core::cmp::Reverse(report.total_bytes));
    let header = ["table", "part", "bytes", "live", "bytes", "dead", "bytes", "free", "unused"];
    let mut rows = table(&header, 2);
    for report in &reports {
        let name =
            format!("{}.{}.{}", report.table.database, report.table.schema, report.table.name);
        rows.add_row(heap_row(name, "heap", &report.heap));
        if let Some(toast) = report.toast.filter(|toast| toast.bytes > 0) {
            rows.add_row(heap_row(String::new(), "toast", &toast));
        }
        for (part, bytes) in [
            ("indexes", report.index_bytes),
            ("toast index", report.toast_index_bytes),
            ("maps", report.other_bytes),
        ] {
            if bytes > 0 {
                rows.add_row([String::new(), part.to_owned(), ByteCount(bytes).to_string()]);
            }
        }
    }
    Ok(print_table(output, &rows)?)
}

fn heap_row(name: String, part: &str, heap: &HeapReport) -> [String; 9] {
    [
        name,
        part.to_owned(),
        ByteCount(heap.bytes).to_string(),
        Grouped(heap.live_tuples).to_string(),
        ByteCount(heap.live_bytes).to_string(),
        Grouped(heap.dead_tuples).to_string(),
        ByteCount(heap.dead_bytes).to_string(),
        ByteCount(heap.free_bytes).to_string(),
        percent(heap.unused_bytes(), heap.bytes),
    ]
}
