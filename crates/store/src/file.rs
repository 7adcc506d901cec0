//! Files of a store: what they are called, and those that are not made of pages: sealed files, of
//! which the control file is one, and the lock.
use core::fmt;
use std::path::PathBuf;

mod control;
mod directory_lock;
mod fork_file;
mod sealed;

pub use control::{ControlFile, ControlState};
pub use directory_lock::DirectoryLock;
pub(crate) use fork_file::{DIRECTORY, ForkFile};
pub use sealed::SealedFile;

/// Names a relation, and the files of it: `base/16384`, `base/16384_fsm`.
#[doc(alias = "relfilenode")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationId(u32);

impl RelationId {
    /// The relation of that number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u32 {
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

impl RelationKind {
    /// What its files are called where they have no number.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Toast => "toast",
            Self::ToastIndex => "toast_index",
        }
    }
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
    /// A file of an export, which is outside of the directory.
    Export {
        /// What it holds.
        kind: RelationKind,
    },
    /// A file of a server that is imported.
    Import {
        /// What it holds.
        kind: RelationKind,
    },
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
    /// The directory of relations' files.
    Relations,
    /// One of the files that a relation's fork is cut into.
    Segment {
        /// Whose.
        relation: RelationId,
        /// Which fork.
        fork: Fork,
        /// Which file of it, from 0.
        segment: u32,
    },
}

impl StoreFile {
    /// Its path from the store's directory; of a fork, that of its first file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.to_string().into()
    }
}

impl fmt::Display for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommitLog { segment } => write!(f, "pg_xact/{segment:04X}"),
            Self::Control => f.write_str("control"),
            Self::Export { kind } => write!(f, "export's {}", kind.name()),
            Self::Import { kind } => write!(f, "import's {}", kind.name()),
            Self::Lock => f.write_str("lock"),
            Self::Manifest => f.write_str("manifest"),
            Self::Relation { relation, fork } | Self::Segment { relation, fork, segment: 0 } => {
                write!(f, "{DIRECTORY}/{relation}{}", fork.suffix())
            }
            Self::Relations => f.write_str(DIRECTORY),
            Self::Segment { relation, fork, segment } => {
                write!(f, "{DIRECTORY}/{relation}{}.{segment}", fork.suffix())
            }
        }
    }
}
