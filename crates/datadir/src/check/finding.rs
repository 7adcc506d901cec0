//! One thing that is wrong, where it is, and what to do about it.
use core::fmt;
use std::sync::Arc;

use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Oid, Oid8};

use super::{Cure, FindingKind, Severity};
use crate::{DataFile, RelationKind};

/// Something that is wrong in a data directory.
///
/// It prints in one line: where, what, and what can be read all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The relation that it is in. What is wrong with an out-of-line value is told of the row that
    /// points to it, so this is the table and not its TOAST relation.
    pub subject: Arc<Subject>,
    /// The file that it is in.
    pub file: DataFile,
    /// The block, counted through all segments of the fork; `None` for a file as a whole.
    pub block: Option<BlockNumber>,
    /// The line pointer.
    pub item: Option<OffsetNumber>,
    /// The column.
    pub column: Option<ColumnName>,
    /// The value's id in the TOAST relation.
    pub value_id: Option<Oid8>,
    /// What it is.
    pub kind: FindingKind,
    /// What can be read all the same.
    pub readable: Readable,
}

impl Finding {
    /// Where the tuple is, if it is about one.
    #[must_use]
    pub fn tid(&self) -> Option<ItemPointer> {
        Some(ItemPointer::new(self.block?, self.item?))
    }

    /// How bad it is.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.kind.severity()
    }

    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn cure(&self) -> Option<Cure> {
        Cure::of(self)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.subject)?;
        match (self.block, self.item) {
            (Some(block), Some(item)) => write!(f, " ({block},{item})")?,
            (Some(block), None) => write!(f, " block {block}")?,
            _ => {}
        }
        if let Some(column) = &self.column {
            write!(f, " column {}", column.name)?;
        }
        if let Some(value_id) = self.value_id {
            write!(f, " value {value_id}")?;
        }
        write!(f, ": {} [{}; {}]", self.kind, self.severity(), self.readable)
    }
}

/// Which relation a finding is about, by all of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subject {
    /// The database's name.
    pub database: String,
    /// The relation's id.
    pub oid: Oid,
    /// The schema's name.
    pub schema: String,
    /// The relation's name within it.
    pub name: String,
    /// What the relation is.
    pub kind: RelationKind,
    /// The table that the TOAST relation or index serves, as `schema` and `name`; that of a TOAST
    /// relation's index is the table whose values these are.
    pub owner: Option<(String, String)>,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}.{}", self.database, self.schema, self.name)
    }
}

/// A column, by number and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnName {
    /// Its number, from 1.
    pub number: u16,
    /// Its name.
    pub name: Arc<str>,
}

/// What can be read in spite of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// Everything: what is wrong holds no data, or does not keep data from being read.
    All,
    /// The columns in front of this one, of the row at hand; all of other rows.
    ColumnsBefore(u16),
    /// Nothing of this block; all others.
    OtherBlocks,
    /// All of the row but this column.
    OtherColumns,
    /// All of the block but this item.
    OtherItems,
    /// Of the value's `of` stored bytes the first `bytes`; all other columns.
    Prefix {
        /// How many bytes come before the first fault.
        bytes: u64,
        /// How many there should be.
        of: u64,
    },
}

impl fmt::Display for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::All => f.write_str("all is readable"),
            Self::ColumnsBefore(number) => write!(f, "columns before {number} are readable"),
            Self::OtherBlocks => f.write_str("other blocks are readable"),
            Self::OtherColumns => f.write_str("other columns are readable"),
            Self::OtherItems => f.write_str("other items are readable"),
            Self::Prefix { bytes, of } => write!(f, "{bytes} of {of} stored bytes are readable"),
        }
    }
}
