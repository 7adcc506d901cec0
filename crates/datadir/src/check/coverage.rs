//! What was looked at, and what was not.
use core::fmt;
use std::sync::Arc;

use pgtoast_fsm::DiffCounts;

use super::{Severity, Subject};
use crate::{Consistency, DatadirError};

/// What a check has looked at, what it has not, and how much it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// Relations of which at least one file was read.
    pub relations: u64,
    /// Blocks that were read, of all forks.
    pub blocks: u64,
    /// Blocks of zeros among them: relations are extended with such ahead of use.
    pub zero_blocks: u64,
    /// Bytes that were read; of a file that took several passes, in each of them.
    pub bytes: u64,
    /// Tuples that were looked into, chunks of TOAST relations among them.
    pub tuples: u64,
    /// Pointers to out-of-line values that were followed to their chunks.
    pub values: u64,
    /// Pointers of dead row versions: their chunks may be gone, and are not looked for.
    pub dead_values: u64,
    /// Values that were decompressed.
    pub decompressed: u64,
    /// Pages whose checksum was verified.
    pub checksums: u64,
    /// How many of those were wrong, and how many of the wrong ones carry 0, as pages do that were
    /// written without checksums.
    pub bad_checksums: u64,
    /// See [`bad_checksums`](Self::bad_checksums).
    pub zero_checksums: u64,
    /// How the free space maps compare with the blocks. A map is a hint: a difference is no damage.
    pub free_space: DiffCounts,
    /// How many findings there were, by severity.
    pub findings: FindingCounts,
    /// What was left out, and why; the first thousand.
    pub skipped: Vec<Skipped>,
}

impl Coverage {
    /// Adds what another part of the same check has covered.
    pub fn add(&mut self, other: &Self) {
        self.relations += other.relations;
        self.blocks += other.blocks;
        self.zero_blocks += other.zero_blocks;
        self.bytes += other.bytes;
        self.tuples += other.tuples;
        self.values += other.values;
        self.dead_values += other.dead_values;
        self.decompressed += other.decompressed;
        self.checksums += other.checksums;
        self.bad_checksums += other.bad_checksums;
        self.zero_checksums += other.zero_checksums;
        self.free_space.equal += other.free_space.equal;
        self.free_space.too_high += other.free_space.too_high;
        self.free_space.too_low += other.free_space.too_low;
        for (mine, others) in self.findings.0.iter_mut().zip(other.findings.0) {
            *mine += others;
        }
        let room = MOST_SKIPPED.saturating_sub(self.skipped.len());
        self.skipped.extend(other.skipped.iter().take(room).cloned());
    }

    pub(super) fn skip(&mut self, subject: Option<&Arc<Subject>>, reason: SkipReason) {
        if self.skipped.len() < MOST_SKIPPED {
            self.skipped.push(Skipped { subject: subject.cloned(), reason });
        }
    }
}

const MOST_SKIPPED: usize = 1000;

/// How many findings there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FindingCounts([u64; 5]);

impl FindingCounts {
    /// Those of one severity.
    #[must_use]
    pub const fn of(&self, severity: Severity) -> u64 {
        self.0[severity as usize]
    }

    /// The worst there was; `None` if there was none.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        use Severity::{Derived, Lost, Note, Suspect, Waste};
        [Lost, Suspect, Derived, Waste, Note].into_iter().find(|severity| self.of(*severity) > 0)
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) const fn count(&mut self, severity: Severity) {
        self.0[severity as usize] += 1;
    }
}

/// Something that was not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Of which relation; `None` for the data directory as a whole.
    pub subject: Option<Arc<Subject>>,
    /// What, and why.
    pub reason: SkipReason,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Some(subject) => write!(f, "{subject}: {}", self.reason),
            None => self.reason.fmt(f),
        }
    }
}

/// What was not checked, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum SkipReason {
    /// Checksums: pages have none.
    ChecksumsOff,
    /// A part of the catalogs could not be read, so relations may be missing here.
    Catalog { error: DatadirError },
    /// The columns could not be found out, so attributes and values were not looked at.
    Columns { error: DatadirError },
    /// The database could not be opened.
    Database { name: String, error: DatadirError },
    /// Decompression was not asked for.
    Deep,
    /// Indexes other than those of TOAST relations were looked at page by page, not entry by entry.
    IndexEntries,
    /// The rows of tables with another access method than heap.
    AccessMethod,
    /// The directory is not consistent: ids were not compared with the control file, and what is
    /// found may be gone after replay.
    NotConsistent(Consistency),
    /// `values` values that no row leads to were not told, because rows are broken that may do so.
    Orphans { values: u64 },
    /// The map is larger than the memory that was allowed.
    MapMemory { bytes: u64 },
    /// Temporary relations have no files that a catalog names.
    Temporary,
    /// The TOAST relation has another shape than those of releases 14 to 18.
    ToastShape,
    /// Values were not followed to their chunks, because those could not be read.
    ToastUnreadable,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChecksumsOff => f.write_str("checksums are off, so pages were not verified"),
            Self::Catalog { error } => write!(f, "catalogs: {error}"),
            Self::Columns { error } => write!(f, "attributes were not checked: {error}"),
            Self::Database { name, error } => write!(f, "database {name}: {error}"),
            Self::Deep => f.write_str("compressed values were not decompressed"),
            Self::IndexEntries => {
                f.write_str("entries of indexes other than TOAST's were not checked")
            }
            Self::AccessMethod => f.write_str("not a heap, so rows were not checked"),
            Self::NotConsistent(consistency) => {
                write!(f, "{consistency}; ids were not compared with the control file")
            }
            Self::Orphans { values } => {
                write!(f, "{values} values may belong to rows that are broken")
            }
            Self::MapMemory { bytes } => write!(f, "a map of {bytes} bytes was not compared"),
            Self::Temporary => f.write_str("temporary relations were not checked"),
            Self::ToastShape => f.write_str("its chunks have a shape of another release"),
            Self::ToastUnreadable => {
                f.write_str("values were not followed: the TOAST relation cannot be read")
            }
        }
    }
}
