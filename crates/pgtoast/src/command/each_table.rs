//! Commands that say the same of each of many tables.
use pgtoast_base::Oid;
use serde::Serialize;

use super::Outcome;
use super::arguments::TablesArguments;
use super::cluster::Context;
use super::failure::Failure;
use super::output::Output;
use super::problems;
use crate::datadir::{DataDirectory, Database, DatadirError, Relation, RelationKind};
use crate::report::Budget;

/// What a command says of one table.
pub(super) trait OfTable: Serialize + Sized {
    /// The command's name, and that of the list in its JSON.
    const NAMES: (&str, &str);

    /// How much is read for it.
    fn bytes(database: &Database, relation: &Relation) -> u64;

    /// Makes it; `None` if there is nothing to say.
    fn of(
        database: &Database,
        relation: &Relation,
        budget: &Budget<'_>,
    ) -> Result<Option<Self>, DatadirError>;

    /// Whether it has its line in the text.
    fn is_shown(&self) -> bool {
        true
    }

    /// The relation it is about.
    fn subject(&self) -> String;

    /// How much could not be read, and the first of it in words.
    fn problems(&self) -> (u64, &[String]);
}

/// Says it of all tables that were named: as JSON one by one, as text all together.
pub(super) fn run<R: OfTable>(
    context: &Context,
    directory: &DataDirectory,
    arguments: &TablesArguments,
    output: &mut Output,
    print: impl FnOnce(Vec<R>, &mut Output) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let chosen = chosen(context, directory, arguments)?;
    let relations = || {
        chosen.iter().flat_map(|(database, oids)| {
            oids.iter().filter_map(move |oid| Some((database, database.relation(*oid)?)))
        })
    };
    let bytes = relations().map(|(database, relation)| R::bytes(database, relation)).sum();
    let (mut shown, mut problems, mut problem_count) = (Vec::new(), Vec::new(), 0);
    if output.json {
        output.begin_list(R::NAMES.0, R::NAMES.1)?;
    }
    context.while_watched(bytes, |budget| -> Result<(), Failure> {
        for (database, relation) in relations() {
            match R::of(database, relation, budget) {
                Ok(None) => {}
                Ok(Some(report)) => {
                    let (count, first) = report.problems();
                    problem_count += count;
                    problems.extend(first.iter().map(|one| format!("{}: {one}", report.subject())));
                    if output.json {
                        output.element(&report)?;
                    } else if report.is_shown() {
                        shown.push(report);
                    }
                }
                Err(error) => {
                    problem_count += 1;
                    problems.push(format!("{}: {error}", database.qualified_name(relation)));
                }
            }
        }
        Ok(())
    })?;
    if output.json {
        output.end_list("problem_count", &problem_count)?;
    } else {
        print(shown, output)?;
    }
    problems::tell(problem_count, &problems, output)
}

/// The tables that were named, or all, by database.
fn chosen(
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
