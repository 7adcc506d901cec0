//! Names of files: what a relation, a fork and any other file of a store is called.
use core::fmt;

/// Names a relation, and the files of it: `base/16384`, `base/16384_fsm`.
#[doc(alias = "relfilenode")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationId(u32);

impl RelationId {
    /// The relation of that number.
    #[must_use]
    pub fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for RelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a relation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RelationKind {
    /// Rows of a table.
    Heap,
    /// Chunks of a table's values out of line.
    Toast,
    /// The B-tree over those chunks.
    ToastIndex,
}

/// One of the files of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fork {
    /// Its rows.
    Main,
    /// Where there is space.
    FreeSpaceMap,
    /// Which pages everybody sees whole.
    VisibilityMap,
}

impl Fork {
    /// What its file names end in.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::FreeSpaceMap => "_fsm",
            Self::VisibilityMap => "_vm",
        }
    }
}

/// A file of a store, printed as its path from the store's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreFile {
    /// What became of transactions.
    CommitLog {
        /// The number of the segment.
        segment: u32,
    },
    /// What the store is, and whether it was closed.
    Control,
    /// Held by the process that has the directory open.
    Lock,
    /// The tables.
    Manifest,
    /// A relation's.
    Relation {
        /// Whose.
        relation: RelationId,
        /// Which.
        fork: Fork,
    },
}

impl fmt::Display for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommitLog { segment } => write!(f, "pg_xact/{segment:04X}"),
            Self::Control => f.write_str("control"),
            Self::Lock => f.write_str("lock"),
            Self::Manifest => f.write_str("manifest"),
            Self::Relation { relation, fork } => write!(f, "base/{relation}{}", fork.suffix()),
        }
    }
}
