//! `pgtoast tables`
use std::io::Write;

use super::Outcome;
use super::arguments::TablesArguments;
use super::cluster::{Context, main_bytes, toast_bytes};
use super::each_table::{self, OfTable};
use super::failure::Failure;
use super::info::percent;
use super::output::{Output, print_table, table};
use super::size::{ByteCount, Grouped};
use crate::datadir::{Database, DatadirError, Relation};
use crate::report::Budget;
use crate::report::tables::{HeapReport, TableReport};

pub(super) fn run(
    context: &Context,
    arguments: &TablesArguments,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    each_table::run(context, &context.directory()?, arguments, output, print)
}

impl OfTable for TableReport {
    const NAMES: (&str, &str) = ("tables", "tables");

    fn bytes(database: &Database, relation: &Relation) -> u64 {
        main_bytes(database, relation) + toast_bytes(database, relation)
    }

    fn of(
        database: &Database,
        relation: &Relation,
        budget: &Budget<'_>,
    ) -> Result<Option<Self>, DatadirError> {
        Self::of(database, relation, budget).map(Some)
    }

    fn subject(&self) -> String {
        self.table.to_string()
    }

    fn problems(&self) -> (u64, &[String]) {
        (self.problem_count, &self.problems)
    }
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
