//! `pgtoast check`
use std::collections::BTreeMap;
use std::io::Write;

use pgtoast_base::Oid;

use super::arguments::{CheckArguments, ChecksumsArgument};
use super::cluster::{Context, Named, main_bytes};
use super::failure::Failure;
use super::output::{Color, Output};
use super::progress::Progress;
use super::size::{ByteCount, Grouped};
use super::{ERROR, Outcome};
use crate::datadir::check::{Check, Checksums, Coverage, Finding, Findings, Severity};
use crate::datadir::{Database, Relation};
use crate::report::check::{CoverageReport, FindingReport};

pub(super) fn run(
    context: &Context,
    arguments: &CheckArguments,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let started = std::time::Instant::now();
    let directory = context.directory()?;
    let check = Check::new()
        .with_threads(context.threads())
        .with_memory(context.memory_bytes())
        .with_deep(arguments.deep)
        .with_online(context.arguments.online)
        .with_checksums(match arguments.checksums {
            ChecksumsArgument::Auto => Checksums::Auto,
            ChecksumsArgument::Off => Checksums::Off,
            ChecksumsArgument::On => Checksums::On,
        });
    let tables = named_tables(context, &directory, &arguments.tables)?;
    let databases = if tables.is_empty() { context.databases(&directory)? } else { Vec::new() };
    let total = if tables.is_empty() {
        databases.iter().enumerate().map(|(at, one)| database_bytes(one, at == 0)).sum()
    } else {
        tables.values().map(|(database, oids)| tables_bytes(database, oids)).sum()
    };
    if output.json {
        output.begin_list("check", "findings")?;
    } else {
        writeln!(output, "PostgreSQL {}, {}", directory.version().major, directory.consistency())?;
    }
    // Above the bar, if there is one.
    output.flush()?;
    let mut printer = Printer {
        output: &mut *output,
        progress: context.progress(total),
        left: arguments.limit.unwrap_or(u64::MAX),
        worst: None,
        failure: None,
    };
    let coverage = if !tables.is_empty() {
        let mut coverage = Coverage::default();
        for (database, oids) in tables.values() {
            let relations: Vec<_> = oids.iter().filter_map(|oid| database.relation(*oid)).collect();
            coverage.add(&check.relations(database, relations, &mut printer));
        }
        coverage
    } else if context.arguments.database.is_some() {
        let mut coverage = Coverage::default();
        for database in &databases {
            coverage.add(&check.database(database, &mut printer));
        }
        coverage
    } else {
        drop(databases);
        check.directory(&directory, &mut printer)
    };
    let Printer { failure, progress, .. } = printer;
    drop(progress);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let report = CoverageReport::from(&coverage);
    if output.json {
        output.end_list("coverage", &report)?;
    } else {
        print_coverage(&report, started.elapsed(), output)?;
    }
    Ok(outcome(coverage.findings.worst()))
}

fn outcome(worst: Option<Severity>) -> Outcome {
    match worst {
        None | Some(Severity::Note) => Outcome::Clean,
        Some(Severity::Lost) => Outcome::Lost,
        Some(_) => Outcome::Findings,
    }
}

/// The tables that were named, by database.
type Tables = BTreeMap<Oid, (Database, Vec<Oid>)>;

fn named_tables(
    context: &Context,
    directory: &crate::datadir::DataDirectory,
    names: &[String],
) -> Result<Tables, Failure> {
    let mut tables = Tables::new();
    for name in names {
        let named = context.table(directory, name)?;
        if !named.relation()?.kind.has_storage() {
            named.heap()?;
        }
        let Named { database, oid } = named;
        tables.entry(database.entry().oid).or_insert_with(|| (database, Vec::new())).1.push(oid);
    }
    Ok(tables)
}

/// About how much a check will read; maps are small.
fn database_bytes(database: &Database, with_shared: bool) -> u64 {
    let relations = database.relations().filter(|one| with_shared || !one.is_shared);
    relations.filter(|one| one.files.is_some()).map(|one| main_bytes(database, one)).sum()
}

fn tables_bytes(database: &Database, oids: &[Oid]) -> u64 {
    let with_others = |relation: &Relation| {
        let toast = database.toast_of(relation);
        let indexes = [Some(relation.oid), toast.map(|toast| toast.oid)]
            .into_iter()
            .flatten()
            .flat_map(|oid| database.indexes_of(oid))
            .filter_map(|index| database.relation(index.oid))
            .map(|index| main_bytes(database, index))
            .sum::<u64>();
        main_bytes(database, relation) + toast.map_or(0, |one| main_bytes(database, one)) + indexes
    };
    oids.iter().filter_map(|oid| database.relation(*oid)).map(with_others).sum()
}

/// Prints findings as they come.
struct Printer<'a> {
    output: &'a mut Output,
    progress: Progress,
    /// How many may still be printed.
    left: u64,
    worst: Option<Severity>,
    failure: Option<Failure>,
}

impl Findings for Printer<'_> {
    fn report(&mut self, finding: Finding) {
        self.worst = self.worst.max(Some(finding.severity()));
        if self.left == 0 || self.failure.is_some() {
            return;
        }
        self.left -= 1;
        let Self { output, progress, .. } = self;
        let printed = progress.suspend(|| {
            if output.json {
                output.element(&FindingReport::from(&finding))?;
            } else {
                print_finding(&finding, output)?;
            }
            // Whoever watches sees it at once, and whoever has seen enough is noticed.
            Ok::<(), Failure>(output.flush()?)
        });
        match printed {
            Ok(()) => {}
            // Nobody reads on; hours of checking would be for nothing.
            Err(Failure::ClosedPipe) => std::process::exit(outcome(self.worst).code().into()),
            Err(failure) => {
                super::cluster::warn(&failure);
                std::process::exit(ERROR.into());
            }
        }
    }

    fn progress(&mut self, bytes: u64) {
        self.progress.add(bytes);
    }
}

fn print_finding(finding: &Finding, output: &mut Output) -> Result<(), Failure> {
    let color = match finding.severity() {
        Severity::Lost => Color::Red,
        Severity::Suspect | Severity::Derived => Color::Yellow,
        Severity::Waste | Severity::Note => Color::Dim,
    };
    let severity = output.paint(color, finding.severity().to_string()).to_string();
    let subject = output.paint(Color::Bold, &finding.subject).to_string();
    write!(output, "{severity}: {subject}")?;
    match (finding.block, finding.item) {
        (Some(block), Some(item)) => write!(output, " ({block},{item})")?,
        (Some(block), None) => write!(output, " block {block}")?,
        _ => {}
    }
    if let Some(column) = &finding.column {
        write!(output, " column {}", column.name)?;
    }
    if let Some(value_id) = finding.value_id {
        write!(output, " value {value_id}")?;
    }
    writeln!(output, "\n    {} [{}]", finding.kind, finding.kind.name())?;
    writeln!(output, "    in {}; {}", finding.file, finding.readable)?;
    if let Some(cure) = finding.cure() {
        let warning = if cure.gives_up_data { " -- gives up what cannot be read" } else { "" };
        writeln!(output, "    {}{warning}", cure.sql)?;
    }
    Ok(())
}

fn print_coverage(
    report: &CoverageReport,
    elapsed: core::time::Duration,
    output: &mut Output,
) -> Result<(), Failure> {
    for skipped in &report.not_checked {
        writeln!(output, "{} {skipped}", output.paint(Color::Dim, "not checked:"))?;
    }
    let many = |count, what: &str| {
        format!("{} {what}{}", Grouped(count), if count == 1 { "" } else { "s" })
    };
    writeln!(
        output,
        "checked {}, {} ({} of zeros), {}, {}: {} in {elapsed:.2?}",
        many(report.relations, "relation"),
        many(report.blocks, "block"),
        Grouped(report.zero_blocks),
        many(report.tuples, "tuple"),
        many(report.values, "value"),
        ByteCount(report.bytes),
    )?;
    if report.dead_values > 0 {
        let values = many(report.dead_values, "value");
        writeln!(output, "{values} of dead row versions not followed: vacuum may have been there")?;
    }
    let totals = report.findings;
    let counts = [
        (totals.lost, "lost", Color::Red),
        (totals.suspect, "suspect", Color::Yellow),
        (totals.derived, "can be rebuilt", Color::Yellow),
        (totals.waste, "waste", Color::Dim),
        (totals.note, "note", Color::Dim),
    ];
    let found: Vec<_> = counts
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, name, color)| {
            output.paint(color, format!("{} {name}", Grouped(count))).to_string()
        })
        .collect();
    if found.is_empty() {
        writeln!(output, "{}", output.paint(Color::Green, "nothing found"))?;
    } else {
        writeln!(output, "found: {}", found.join(", "))?;
    }
    Ok(())
}
