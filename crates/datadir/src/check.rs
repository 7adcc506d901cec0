//! What is wrong in a data directory, and in which row.
//!
//! ```text
//!   TOAST relation ──one pass──▶ runs of chunks by value ─┐
//!     pages, tuples, chunks                               ├─▶ each pointer: whole, or which chunk is at fault
//!   table ──────────one pass──▶ pointers ─────────────────┘   each value: which row leads to it, or none
//!     pages, tuples, attributes        against both: free space map, visibility map
//! ```
//! A healthy directory gives no finding: a stopped server's, whatever was aborted, prepared, dropped or
//! interrupted in it before. What a crash may leave behind is a [`Severity::Note`] at most.
//!
//! ```no_run
//! use pgtoast_datadir::DataDirectory;
//! use pgtoast_datadir::check::{Check, Finding};
//!
//! let directory = DataDirectory::open("/var/lib/postgresql/15/main")?;
//! let coverage = Check::new().directory(&directory, &mut |finding: Finding| {
//!     println!("{finding}");
//!     if let Some(cure) = finding.cure() {
//!         println!("    {cure}");
//!     }
//! });
//! println!("{} blocks, worst: {:?}", coverage.blocks, coverage.findings.worst());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
mod chains;
mod columns_plan;
mod coverage;
mod crew;
mod cure;
mod deep;
mod finding;
mod heap;
mod kind;
mod maps;
mod pages;
mod pieces;
mod relation;
mod report;
mod runs;
mod severity;
mod statuses;
mod target;
mod toast_index;
mod value_table;

use std::sync::Mutex;
use std::sync::PoisonError;

use pgtoast_base::Oid;

use crate::{Consistency, DataDirectory, Database, Persistence, Relation};
use relation::Unit;
use report::Report;

pub use coverage::{Coverage, FindingCounts, SkipReason, Skipped};
pub use cure::Cure;
pub use finding::{ColumnName, Finding, Readable, Subject};
pub use kind::{Bound, FindingKind, XidField};
pub use report::Findings;
pub use severity::Severity;

/// How to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    threads: usize,
    memory_bytes: usize,
    checksums: Checksums,
    is_deep: bool,
    is_online: bool,
}

/// Whether to verify the checksums of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksums {
    /// If the control file says that pages have them.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Whatever the control file says.
    On,
}

impl Default for Check {
    fn default() -> Self {
        Self::new()
    }
}

impl Check {
    /// One thread for each processor, 128 MiB, checksums as the control file has it, compressed values
    /// left compressed.
    #[must_use]
    pub fn new() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: 128 << 20,
            checksums: Checksums::Auto,
            is_deep: false,
            is_online: false,
        }
    }

    /// So many threads, at least one.
    #[must_use]
    pub const fn with_threads(mut self, threads: usize) -> Self {
        self.threads = if threads == 0 { 1 } else { threads };
        self
    }

    /// About so many bytes of memory for what grows with a relation: its value ids and its maps. What
    /// does not fit takes more passes over the files, or is left out and listed as
    /// [`skipped`](Coverage::skipped). Catalogs come on top, and half a MiB a thread.
    #[must_use]
    pub const fn with_memory(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Whether to verify the checksums of pages.
    #[must_use]
    pub const fn with_checksums(mut self, checksums: Checksums) -> Self {
        self.checksums = checksums;
        self
    }

    /// Whether to decompress every compressed value of a living row. It costs another pass over TOAST
    /// relations.
    #[must_use]
    pub const fn with_deep(mut self, is_deep: bool) -> Self {
        self.is_deep = is_deep;
        self
    }

    /// Whether somebody may be writing: a page that looks broken is then read once more.
    #[must_use]
    pub const fn with_online(mut self, is_online: bool) -> Self {
        self.is_online = is_online;
        self
    }

    /// Checks everything: all databases, and what they share.
    pub fn directory(&self, directory: &DataDirectory, findings: &mut dyn Findings) -> Coverage {
        let report = Report::new(findings);
        self.skip_of_directory(directory, &report);
        for (number, entry) in directory.databases().iter().enumerate() {
            match Database::open(directory, entry) {
                Ok(database) => {
                    // What all databases share is listed in each of them.
                    let is_first = number == 0;
                    let relations = database.relations().filter(|one| is_first || !one.is_shared);
                    self.units(&database, units_of(&database, relations), &report);
                }
                Err(error) => {
                    let name = entry.name.clone();
                    report.skip(None, SkipReason::Database { name, error });
                }
            }
        }
        report.into_coverage()
    }

    /// Checks one database, and what all databases share.
    pub fn database(&self, database: &Database, findings: &mut dyn Findings) -> Coverage {
        let report = Report::new(findings);
        self.skip_of_directory(database.directory(), &report);
        self.units(database, units_of(database, database.relations()), &report);
        report.into_coverage()
    }

    /// Checks some relations of a database; with a table its TOAST relation and the indexes of both.
    pub fn relations<'d>(
        &self,
        database: &'d Database,
        relations: impl IntoIterator<Item = &'d Relation>,
        findings: &mut dyn Findings,
    ) -> Coverage {
        let report = Report::new(findings);
        self.skip_of_directory(database.directory(), &report);
        let mut units = Vec::new();
        for relation in relations {
            // Values can only be judged together with the rows that lead to them.
            let relation = database.toast_owner(relation.oid).unwrap_or(relation);
            units.push(relation.oid);
            let toast = database.toast_of(relation).map(|toast| toast.oid);
            for table in [Some(relation.oid), toast].into_iter().flatten() {
                units.extend(database.indexes_of(table).map(|index| index.oid));
            }
        }
        units.sort_unstable();
        units.dedup();
        self.units(database, units, &report);
        report.into_coverage()
    }

    /// What no part of the check can look at.
    fn skip_of_directory(&self, directory: &DataDirectory, report: &Report<'_>) {
        if directory.consistency() != Consistency::Clean {
            report.skip(None, SkipReason::NotConsistent(directory.consistency()));
        }
        if !self.verifies_checksums(directory) {
            report.skip(None, SkipReason::ChecksumsOff);
        }
        if !self.is_deep {
            report.skip(None, SkipReason::Deep);
        }
        report.skip(None, SkipReason::IndexEntries);
        for error in directory.problems() {
            report.skip(None, SkipReason::Catalog { error: *error });
        }
    }

    fn verifies_checksums(&self, directory: &DataDirectory) -> bool {
        match self.checksums {
            Checksums::Auto => directory.control().has_checksums(),
            Checksums::Off => false,
            Checksums::On => true,
        }
    }

    /// Small units are shared out among the threads, each of the large ones is for all of them.
    fn units(&self, database: &Database, units: Vec<Oid>, report: &Report<'_>) {
        for error in database.problems() {
            report.skip(None, SkipReason::Catalog { error: *error });
        }
        let waiting = Mutex::new(units.into_iter());
        let large = Mutex::new(Vec::new());
        let lock = |mutex: &Mutex<Vec<_>>, unit| {
            mutex.lock().unwrap_or_else(PoisonError::into_inner).push(unit);
        };
        let work = || {
            let mut buffer = Vec::new();
            loop {
                let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(oid) = next else { break };
                let Some(unit) = Unit::open(self, database, oid, report) else { continue };
                if unit.blocks() > LARGE_BLOCKS && self.threads > 1 {
                    lock(&large, unit);
                } else {
                    unit.check(1, &mut buffer, report);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(work);
            }
            work();
        });
        let mut buffer = Vec::new();
        for unit in large.into_inner().unwrap_or_else(PoisonError::into_inner) {
            unit.check(self.threads, &mut buffer, report);
        }
    }
}

/// From here on a relation is worth several threads.
const LARGE_BLOCKS: u64 = 2048;

/// The relations that are checked by themselves: all that have files, but TOAST relations with a table.
fn units_of<'d>(database: &Database, relations: impl Iterator<Item = &'d Relation>) -> Vec<Oid> {
    let is_unit = |relation: &&Relation| {
        relation.kind.has_storage()
            && relation.persistence != Persistence::Temporary
            && database.toast_owner(relation.oid).is_none()
    };
    relations.filter(is_unit).map(|relation| relation.oid).collect()
}
