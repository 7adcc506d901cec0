//! `pgtoast fsm`
use std::io::Write;

use super::Outcome;
use super::arguments::{FsmArguments, FsmCommand};
use super::cluster::{Context, main_bytes};
use super::failure::Failure;
use super::output::{Color, Output, go_on_if};
use super::problems;
use super::size::{ByteCount, Grouped};
use crate::report::free_space::{BlockSpace, compare};

pub(super) fn run(
    context: &Context,
    arguments: &FsmArguments,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let (table, shows_all, is_rebuild) = match &arguments.command {
        FsmCommand::Check { table, all } => (table, *all, false),
        FsmCommand::Rebuild { table, dry_run: true } => (table, false, true),
        FsmCommand::Rebuild { .. } => {
            return Err(Failure::Usage(
                "this program never writes to a data directory: with --dry-run it says what a rebuild \
                 would change; VACUUM rebuilds"
                    .to_owned(),
            ));
        }
    };
    let directory = context.directory()?;
    let named = context.table(&directory, table)?;
    let (database, relation) = (&named.database, named.heap()?);
    // A table that cannot be opened is an error before anything is printed.
    database.table(relation)?;
    let name = if is_rebuild { "fsm rebuild" } else { "fsm check" };
    if output.json {
        output.begin_list(name, "blocks")?;
    } else {
        let heading = format!("{:>10} {:>10} {:>10}", "block", "recorded", "actual");
        writeln!(output, "{}", output.paint(Color::Bold, heading))?;
    }
    let mut printed = Ok(());
    let report = context.while_watched(main_bytes(database, relation), |budget| {
        compare(database, relation, is_rebuild, budget, &mut |space| {
            if shows_all || space.recorded_bytes != space.actual_bytes {
                printed = print_block(&space, output);
            }
            go_on_if(printed.is_ok())
        })
    })?;
    printed?;
    if output.json {
        output.end_list("summary", &report)?;
    } else {
        writeln!(
            output,
            "{}: {} blocks, {} pages of map",
            report.table,
            Grouped(report.blocks.into()),
            report.map_pages
        )?;
        writeln!(
            output,
            "right of {}, too high of {}, too low of {} ({} hidden), {} contradictions",
            Grouped(report.equal),
            Grouped(report.too_high),
            Grouped(report.too_low),
            ByteCount(report.hidden_bytes),
            report.contradictions
        )?;
        if let Some(rebuild) = &report.rebuild {
            writeln!(
                output,
                "a rebuild would make {} pages, change {} and drop {}; nothing was written",
                rebuild.pages, rebuild.changed_pages, rebuild.dropped_pages
            )?;
        }
    }
    problems::tell(report.problem_count, &report.problems, output)
}

fn print_block(space: &BlockSpace, output: &mut Output) -> Result<(), Failure> {
    if output.json {
        return output.element(space);
    }
    let BlockSpace { block, recorded_bytes, actual_bytes } = space;
    Ok(writeln!(output, "{block:>10} {recorded_bytes:>10} {actual_bytes:>10}")?)
}
