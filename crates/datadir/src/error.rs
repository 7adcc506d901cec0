//! What can be wrong with a data directory.
use core::fmt;
use std::io::ErrorKind;

use pgtoast_base::{BlockNumber, ItemPointer, Oid};
use pgtoast_page::{PageError, TupleError};
use pgtoast_toast::ToastError;

use crate::{DataFile, Folder, Slru};

/// Why a data directory, or a file of it, could not be read.
///
/// A file prints as its path from the data directory. `offset` is bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum DatadirError {
    /// The fork has `blocks` blocks, and block `block` was asked for.
    BlockMissing { file: DataFile, block: BlockNumber, blocks: u32 },
    /// The catalog's row does not have the column, or in another form than every release so far.
    CatalogColumn { file: DataFile, column: &'static str },
    /// A catalog has no file that could be read.
    CatalogMissing { catalog: Oid },
    /// A row of a TOAST relation is no chunk; `error` says which.
    Chunk { file: DataFile, error: ToastError },
    /// The catalog lacks column `column` of the relation.
    ColumnMissing { relation: Oid, column: u16 },
    /// A column's text at byte `offset` of the specification is no column.
    ColumnSpec { offset: usize },
    /// The control file says that its checksum is `found`; it is `expected`.
    ControlChecksum { expected: u32, found: u32 },
    /// A field of the control file is `found`, which no server writes.
    ControlField { field: &'static str, found: u64 },
    /// It is a folder, a pipe, or anything else but a file.
    FileKind { file: DataFile },
    /// There is no such file.
    FileMissing { file: DataFile },
    /// Of `needed` bytes from `offset` on, `found` are there.
    FileShort { file: DataFile, offset: u64, needed: usize, found: usize },
    /// The system could not list the folder.
    FolderIo { folder: Folder, kind: ErrorKind },
    /// The system could not read the file.
    Io { file: DataFile, offset: u64, kind: ErrorKind },
    /// The relation map says that its checksum is `found`; it is `expected`.
    MapChecksum { file: DataFile, expected: u32, found: u32 },
    /// A field of the relation map is `found`, which no server writes.
    MapField { file: DataFile, field: &'static str, found: u64 },
    /// Multixact `multi` has its members at `start..end` of all members, which cannot be.
    MultiXactMembers { multi: u32, start: u32, end: u32 },
    /// The block is no page, or the page does not have the item.
    Page { file: DataFile, block: BlockNumber, error: PageError },
    /// The state file of a prepared transaction says `found` in a field.
    PreparedField { file: DataFile, field: &'static str, found: u64 },
    /// No relation of that id is in the catalog.
    RelationMissing { relation: Oid },
    /// The relation has no file of its own: a view, a partitioned table, or temporary.
    RelationWithoutFile { relation: Oid },
    /// The segment is longer than segments are.
    SegmentLength { file: DataFile, len: u64, maximum: u64 },
    /// A server runs on the directory, so what is read may be half written.
    ServerRunning { pid: u32 },
    /// What became of `id`, a transaction or a multixact, is in a file or in a part of it that is not
    /// there.
    StatusMissing { log: Slru, id: u32, file: DataFile },
    /// A pointer leads to another TOAST relation, `found`, than the table's own.
    ToastRelation { expected: Oid, found: Oid },
    /// The tuple is broken.
    Tuple { file: DataFile, tid: ItemPointer, error: TupleError },
    /// The release is none that this crate knows.
    Version { control_version: u32, catalog_version: u32 },
}

impl fmt::Display for DatadirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BlockMissing { file, block, blocks } => {
                write!(f, "{file}: no block {block}: there are {blocks}")
            }
            Self::CatalogColumn { file, column } => {
                write!(f, "{file}: the catalog has no usable column {column}")
            }
            Self::CatalogMissing { catalog } => write!(f, "no file of catalog {catalog}"),
            Self::Chunk { file, error } => write!(f, "{file}: {error}"),
            Self::ColumnMissing { relation, column } => {
                write!(f, "relation {relation}: the catalog lacks column {column}")
            }
            Self::ColumnSpec { offset } => write!(f, "byte {offset} begins no column"),
            Self::ControlChecksum { expected, found } => write!(
                f,
                "{}: checksum {found:#010x}, expected {expected:#010x}",
                DataFile::Control
            ),
            Self::ControlField { field, found } => {
                write!(f, "{}: {field} is {found}", DataFile::Control)
            }
            Self::FileKind { file } => write!(f, "{file}: not a regular file"),
            Self::FileMissing { file } => write!(f, "{file}: no such file"),
            Self::FileShort { file, offset, needed, found } => {
                write!(f, "{file}: {needed} bytes needed at byte {offset}, {found} there")
            }
            Self::FolderIo { folder, kind } => write!(f, "{folder}: cannot list: {kind}"),
            Self::Io { file, offset, kind } => {
                write!(f, "{file}: cannot read at byte {offset}: {kind}")
            }
            Self::MapChecksum { file, expected, found } => {
                write!(f, "{file}: checksum {found:#010x}, expected {expected:#010x}")
            }
            Self::MapField { file, field, found } | Self::PreparedField { file, field, found } => {
                write!(f, "{file}: {field} is {found}")
            }
            Self::MultiXactMembers { multi, start, end } => {
                write!(f, "multixact {multi}: members from {start} to {end}")
            }
            Self::Page { file, block, error } => write!(f, "{file}: block {block}: {error}"),
            Self::RelationMissing { relation } => write!(f, "no relation {relation}"),
            Self::RelationWithoutFile { relation } => {
                write!(f, "relation {relation} has no file of its own")
            }
            Self::SegmentLength { file, len, maximum } => {
                write!(f, "{file}: {len} bytes, at most {maximum} make a segment")
            }
            Self::ServerRunning { pid } => {
                write!(f, "a server runs on the data directory: process {pid}")
            }
            Self::StatusMissing { log, id, file } => {
                let what = match log {
                    Slru::Xact | Slru::Subtrans => "transaction",
                    Slru::MultiXactOffsets | Slru::MultiXactMembers => "multixact",
                };
                write!(f, "{file}: nothing there about {what} {id}")
            }
            Self::ToastRelation { expected, found } => {
                write!(f, "pointer into TOAST relation {found}, expected {expected}")
            }
            Self::Tuple { file, tid, error } => write!(f, "{file}: tuple {tid}: {error}"),
            Self::Version { control_version, catalog_version } => write!(
                f,
                "{}: no release from 14 to 18: control version {control_version}, catalogs \
                 {catalog_version}",
                DataFile::Control
            ),
        }
    }
}

impl core::error::Error for DatadirError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Chunk { error, .. } => Some(error),
            Self::Page { error, .. } => Some(error),
            Self::Tuple { error, .. } => Some(error),
            _ => None,
        }
    }
}
