//! `pgtoast ids`
use std::io::Write;

use super::Outcome;
use super::arguments::TablesArguments;
use super::cluster::{Context, toast_bytes};
use super::each_table::{self, OfTable};
use super::failure::Failure;
use super::output::{Output, print_table, table};
use super::size::Grouped;
use crate::datadir::{Database, DatadirError, Relation};
use crate::report::Budget;
use crate::report::ids::IdsReport;

pub(super) fn run(
    context: &Context,
    arguments: &TablesArguments,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let directory = context.directory()?;
    let counter = directory.control().next_oid.get();
    let print = |reports, output: &mut Output| print(reports, counter, output);
    each_table::run(context, &directory, arguments, output, print)
}

impl OfTable for IdsReport {
    const NAMES: (&str, &str) = ("ids", "relations");

    fn bytes(database: &Database, relation: &Relation) -> u64 {
        toast_bytes(database, relation)
    }

    fn of(
        database: &Database,
        relation: &Relation,
        budget: &Budget<'_>,
    ) -> Result<Option<Self>, DatadirError> {
        Self::of(database, relation, budget)
    }

    fn is_shown(&self) -> bool {
        self.values > 0
    }

    fn subject(&self) -> String {
        self.toast.to_string()
    }

    fn problems(&self) -> (u64, &[String]) {
        (self.problem_count, &self.problems)
    }
}

fn print(mut reports: Vec<IdsReport>, counter: u32, output: &mut Output) -> Result<(), Failure> {
    writeln!(output, "the counter stands at {counter}")?;
    if reports.is_empty() {
        writeln!(output, "no values out of line; --system has those of the catalogs")?;
        return Ok(());
    }
    reports.sort_by_key(|report| core::cmp::Reverse(report.values));
    let header = [
        "table",
        "values",
        "of all ids",
        "lowest",
        "highest",
        "run ahead",
        "of next million",
        "fullest stretch",
    ];
    let mut rows = table(&header, 1);
    for report in &reports {
        let or_dash = |id: Option<u64>| id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let name =
            format!("{}.{}.{}", report.table.database, report.table.schema, report.table.name);
        rows.add_row([
            name,
            Grouped(report.values).to_string(),
            format!("{:.4} %", report.taken_share * 100.0),
            or_dash(report.lowest),
            or_dash(report.highest),
            Grouped(report.taken_run.into()).to_string(),
            Grouped(report.taken_of_next_million.into()).to_string(),
            match report.fullest_start {
                Some(start) => format!("{} from {start} on", report.fullest_taken),
                None => "-".to_owned(),
            },
        ]);
    }
    Ok(print_table(output, &rows)?)
}
