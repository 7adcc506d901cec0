//! `pgtoast ids`
use std::io::Write;

use super::Outcome;
use super::arguments::TablesArguments;
use super::cluster::{Context, main_bytes};
use super::failure::Failure;
use super::output::{Output, print_table, table};
use super::size::Grouped;
use super::tables::chosen;
use super::values::report_problems;
use crate::report::ids::IdsReport;

pub(super) fn run(
    context: &Context,
    arguments: &TablesArguments,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let directory = context.directory()?;
    let chosen = chosen(context, &directory, arguments)?;
    let relations = || {
        chosen.iter().flat_map(|(database, oids)| {
            oids.iter().filter_map(move |oid| Some((database, database.relation(*oid)?)))
        })
    };
    let toast_bytes = |(database, relation)| {
        let database: &crate::datadir::Database = database;
        database.toast_of(relation).map_or(0, |toast| main_bytes(database, toast))
    };
    let progress = context.progress(relations().map(toast_bytes).sum());
    let listen = |bytes| progress.add(bytes);
    let budget = context.budget(&listen);
    let (mut reports, mut problems, mut problem_count) = (Vec::new(), Vec::new(), 0);
    if output.json {
        output.begin_list("ids", "relations")?;
    }
    for (database, relation) in relations() {
        match IdsReport::of(database, relation, &budget) {
            Ok(None) => {}
            Ok(Some(report)) => {
                problem_count += report.problem_count;
                problems
                    .extend(report.problems.iter().map(|one| format!("{}: {one}", report.toast)));
                if output.json {
                    output.element(&report)?;
                } else if report.values > 0 {
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
        print(reports, directory.control().next_oid.get(), output)?;
    }
    report_problems(problem_count, &problems, output)
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
