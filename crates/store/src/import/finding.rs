//! What is wrong, and where.
use core::fmt;

use pgtoast_base::{BlockNumber, ItemPointer, Oid8};
use pgtoast_varlena::ToastPointer;

use crate::{RelationKind, StoreError, StoreFile};

/// Something that is wrong with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// In which file.
    pub file: StoreFile,
    /// In which block of it.
    pub block: BlockNumber,
    /// Which row or chunk.
    pub tid: Option<ItemPointer>,
    /// Which of the row's columns, from 1.
    pub column: Option<u16>,
    /// The value that is in it, if it is out of line.
    pub value_id: Option<Oid8>,
    /// What it is.
    pub error: StoreError,
}

impl Default for Finding {
    /// Nothing in particular, in the heap that is imported.
    fn default() -> Self {
        Self {
            file: StoreFile::Import { kind: RelationKind::Heap },
            block: BlockNumber::new(0),
            tid: None,
            column: None,
            value_id: None,
            error: StoreError::TableMissing,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        match self.tid {
            Some(tid) => write!(f, " {tid}")?,
            None => write!(f, " block {}", self.block)?,
        }
        if let Some(column) = self.column {
            write!(f, " column {column}")?;
        }
        if let Some(value_id) = self.value_id {
            write!(f, " value {value_id}")?;
        }
        write!(f, ": {}", self.error)
    }
}

/// The id in a pointer.
pub(crate) fn value_id(bytes: &[u8]) -> Option<Oid8> {
    ToastPointer::parse(bytes, 0).ok()?.value_id()
}
