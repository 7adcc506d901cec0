//! What is wrong, and where.
use core::fmt;
use core::ops::ControlFlow;

use pgtoast_base::{BlockNumber, ItemPointer, Oid8};
use pgtoast_varlena::ToastPointer;

use crate::{StoreError, StoreFile};

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

impl Finding {
    /// What is wrong with a block.
    pub(crate) fn of_block(file: StoreFile, block: BlockNumber, error: StoreError) -> Self {
        Self { file, block, tid: None, column: None, value_id: None, error }
    }

    /// What is wrong with a tuple.
    pub(crate) fn of_tuple(file: StoreFile, tid: ItemPointer, error: StoreError) -> Self {
        Self { tid: Some(tid), ..Self::of_block(file, tid.block, error) }
    }

    /// What is wrong with a value of a row.
    pub(crate) fn of_value(
        file: StoreFile,
        tid: ItemPointer,
        column: u16,
        value_id: Option<Oid8>,
        error: StoreError,
    ) -> Self {
        Self { column: Some(column), value_id, ..Self::of_tuple(file, tid, error) }
    }
}

/// Tells of something that is wrong; the error, if that is to be the end.
pub(crate) fn told(
    tell: &mut dyn FnMut(Finding) -> ControlFlow<()>,
    finding: Finding,
) -> Result<(), StoreError> {
    let error = finding.error;
    if tell(finding).is_break() { Err(error) } else { Ok(()) }
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
        // The row and the column are said already.
        match self.error {
            StoreError::Row { error, .. } => write!(f, ": {error}"),
            error => write!(f, ": {error}"),
        }
    }
}

/// The id in a pointer.
pub(crate) fn value_id(bytes: &[u8]) -> Option<Oid8> {
    ToastPointer::parse(bytes, 0).ok()?.value_id()
}
