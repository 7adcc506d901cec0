//! What a relation is, and how long it stays.
//!
//! Source: `pg_class.h` (REL_18).
use core::fmt;

/// What a relation is.
#[doc(alias = "relkind")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RelationKind {
    /// `c`: the columns of a composite type.
    CompositeType,
    /// `f`: a table elsewhere.
    ForeignTable,
    /// `i`: an index.
    Index,
    /// `m`: a materialized view.
    MaterializedView,
    /// `I`: an index whose entries are in its partitions.
    PartitionedIndex,
    /// `p`: a table whose rows are in its partitions.
    PartitionedTable,
    /// `S`: a sequence.
    Sequence,
    /// `r`: a table.
    Table,
    /// `t`: the long values of another.
    Toast,
    /// `v`: a view.
    View,
    /// Any other letter.
    Unknown(u8),
}

impl RelationKind {
    /// From the letter in the catalog.
    #[must_use]
    pub const fn from_letter(letter: u8) -> Self {
        match letter {
            b'c' => Self::CompositeType,
            b'f' => Self::ForeignTable,
            b'i' => Self::Index,
            b'm' => Self::MaterializedView,
            b'I' => Self::PartitionedIndex,
            b'p' => Self::PartitionedTable,
            b'S' => Self::Sequence,
            b'r' => Self::Table,
            b't' => Self::Toast,
            b'v' => Self::View,
            other => Self::Unknown(other),
        }
    }

    /// The letter in the catalog.
    #[must_use]
    pub const fn letter(self) -> u8 {
        match self {
            Self::CompositeType => b'c',
            Self::ForeignTable => b'f',
            Self::Index => b'i',
            Self::MaterializedView => b'm',
            Self::PartitionedIndex => b'I',
            Self::PartitionedTable => b'p',
            Self::Sequence => b'S',
            Self::Table => b'r',
            Self::Toast => b't',
            Self::View => b'v',
            Self::Unknown(other) => other,
        }
    }

    /// Whether such a relation has files of its own.
    #[must_use]
    pub const fn has_storage(self) -> bool {
        matches!(
            self,
            Self::Index | Self::MaterializedView | Self::Sequence | Self::Table | Self::Toast
        )
    }
}

impl fmt::Display for RelationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CompositeType => "composite type",
            Self::ForeignTable => "foreign table",
            Self::Index => "index",
            Self::MaterializedView => "materialized view",
            Self::PartitionedIndex => "partitioned index",
            Self::PartitionedTable => "partitioned table",
            Self::Sequence => "sequence",
            Self::Table => "table",
            Self::Toast => "TOAST relation",
            Self::View => "view",
            Self::Unknown(_) => "relation of an unknown kind",
        })
    }
}

/// What becomes of a relation after a crash and after its session.
#[doc(alias = "relpersistence")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Persistence {
    /// `p`: it stays.
    Permanent,
    /// `u`: a crash empties it.
    Unlogged,
    /// `t`: it ends with its session. A cold directory has at most its remains.
    Temporary,
}

impl Persistence {
    /// From the letter in the catalog.
    #[must_use]
    pub const fn from_letter(letter: u8) -> Option<Self> {
        match letter {
            b'p' => Some(Self::Permanent),
            b'u' => Some(Self::Unlogged),
            b't' => Some(Self::Temporary),
            _ => None,
        }
    }
}
