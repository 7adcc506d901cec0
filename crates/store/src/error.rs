//! What can go wrong with a store.
mod from;

use core::fmt;
use std::io::ErrorKind;

use pgtoast_base::{BlockNumber, ItemPointer, Oid8, Xid};
use pgtoast_nbtree::NbtreeError;
use pgtoast_page::{PageError, TupleError};
use pgtoast_toast::ToastError;

use crate::file::{RelationId, StoreFile};

/// Why the store could not do it.
///
/// A file prints as its path from the store's directory; offsets are bytes from its start. Columns are
/// numbered from 1, as in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum StoreError {
    /// The fork has `blocks` blocks, and block `block` was asked for.
    BlockMissing { file: StoreFile, block: BlockNumber, blocks: u32 },
    /// The store was made with blocks of `stored` bytes, and opened for blocks of `asked`.
    BlockSize { stored: u32, asked: u32 },
    /// The chunks that values have are `found`; their pointers make it `expected`.
    ChunkCount { expected: u64, found: u64 },
    /// The index says that `tid` is that chunk of that value, and it is not.
    ChunkEntry { value_id: Oid8, chunk: i32, tid: ItemPointer },
    /// There is a chunk of that value and number, at `tid`, when one is to be inserted.
    ChunkTaken { value_id: Oid8, chunk: i32, tid: ItemPointer },
    /// The index does not lead to chunk `chunk` of that value, which is at `tid`.
    ChunkUnindexed { value_id: Oid8, chunk: i32, tid: ItemPointer },
    /// Chunk `chunk` of that value, at `tid`, is not seen by who sees a row that has the value.
    ChunkUnseen { value_id: Oid8, chunk: i32, tid: ItemPointer },
    /// A row or a table has `found` columns; `expected` are what the table has, or the most there
    /// can be.
    ColumnCount { expected: usize, found: usize },
    /// A value for `column` has `found` bytes; all its values have `expected`.
    ColumnLength { column: u16, expected: usize, found: usize },
    /// There is no column `column`; the table has `count`.
    ColumnMissing { column: u16, count: usize },
    /// `column` is never null.
    ColumnNull { column: u16 },
    /// `found` was given for `column`, which holds `expected`.
    ColumnType { column: u16, expected: &'static str, found: &'static str },
    /// The text for `column` has a zero at byte `offset`, which no text has.
    ColumnZero { column: u16, offset: usize },
    /// The control file's value at byte `offset` of its content is `found`, which no store writes.
    Control { offset: u32, found: u64 },
    /// Waiting for that would never end: who has it waits, directly or not, for the one that asks.
    Deadlock { awaited: Awaited },
    /// The file has `bytes` bytes: more than `limit`, or no whole number of `block_bytes`.
    FileLength { file: StoreFile, bytes: u64, block_bytes: u16, limit: u64 },
    /// The relation has as many blocks as there are numbers for.
    Full { file: StoreFile },
    /// The store, or a transaction of it, is still in use by another.
    InUse,
    /// The index is broken.
    Index { file: StoreFile, error: NbtreeError },
    /// The system could not do it.
    Io { file: StoreFile, offset: u64, kind: ErrorKind },
    /// The directory is open already, in this process or another.
    Locked,
    /// The manifest is none: what is wrong is at byte `offset` of its line `line`, or missing if that
    /// is 0.
    Manifest { line: usize, offset: usize },
    /// None of the pool's `frames` frames came free: threads hold pages in all of them.
    NoFrame { frames: usize },
    /// The savepoint is not open in the transaction.
    NoSavepoint,
    /// The directory was not closed: its files may contradict each other.
    NotClosed,
    /// The block is no page, or the page does not have the item.
    Page { file: StoreFile, block: BlockNumber, error: PageError },
    /// The value in `column` of the row at `tid`.
    Row { tid: ItemPointer, column: u16, error: ToastError },
    /// There is no such table: `column` is the one that cannot be.
    Schema { column: u16, problem: &'static str },
    /// The file's bytes make the checksum `expected`, and it carries `found`.
    SealBroken { file: StoreFile, expected: u32, found: u32 },
    /// The file says that its content has `expected` bytes, and has `found`.
    SealLength { file: StoreFile, expected: u64, found: u64 },
    /// The file does not begin as it must.
    SealMissing { file: StoreFile },
    /// A row was changed by a transaction that committed after the snapshot was taken.
    SerializationFailure { tid: ItemPointer, by: Xid },
    /// There is a table of that name.
    TableExists,
    /// There is no table of that name, or no more.
    TableMissing,
    /// A value of a row.
    Toast(ToastError),
    /// The transaction has had as many statements as can be numbered.
    TooManyCommands,
    /// An earlier call failed half way and could not be undone: the transaction can only be aborted.
    TransactionFailed,
    /// The tuple is broken.
    Tuple { file: StoreFile, tid: ItemPointer, error: TupleError },
    /// A tuple of `len` bytes is longer than the `limit` that a page takes.
    TupleTooLong { len: usize, limit: usize },
    /// The system once failed to make the file durable, so what it holds is not known.
    Unsynced { file: StoreFile },
    /// Every id that a value of the relation can have is taken.
    ValueIdsTaken,
    /// No row has that value: `chunks` of its chunks are there, the first at `tid`.
    ValueOrphaned { value_id: Oid8, chunks: u64, tid: ItemPointer },
    /// No transaction id can be given out, because `oldest` may still be in a tuple: vacuum all
    /// tables.
    XidWraparound { oldest: Xid },
}

/// What a transaction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Awaited {
    /// A relation to itself, or one that another has to itself.
    Relation(RelationId),
    /// The end of a transaction.
    Transaction(Xid),
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relation(relation) => write!(f, "relation {relation}"),
            Self::Transaction(xid) => write!(f, "the end of transaction {xid}"),
        }
    }
}

impl StoreError {
    pub(crate) fn io(file: StoreFile, offset: u64, error: &std::io::Error) -> Self {
        Self::Io { file, offset, kind: error.kind() }
    }
}

impl core::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Index { error, .. } => Some(error),
            Self::Page { error, .. } => Some(error),
            Self::Row { error, .. } | Self::Toast(error) => Some(error),
            Self::Tuple { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BlockMissing { file, block, blocks } => {
                write!(f, "{file}: no block {block}: there are {blocks}")
            }
            Self::BlockSize { stored, asked } => {
                write!(f, "the store has blocks of {stored} bytes, not of {asked}")
            }
            Self::ChunkCount { expected, found } => {
                write!(f, "{found} chunks of values, expected {expected}")
            }
            Self::ChunkEntry { value_id, chunk, tid } => {
                write!(f, "toast value {value_id}: {tid} is not chunk {chunk}, as the index says")
            }
            Self::ChunkTaken { value_id, chunk, tid } => {
                write!(f, "toast value {value_id}: there is a chunk {chunk} at {tid} already")
            }
            Self::ChunkUnindexed { value_id, chunk, tid } => {
                write!(f, "toast value {value_id}: the index does not know chunk {chunk} at {tid}")
            }
            Self::ChunkUnseen { value_id, chunk, tid } => {
                write!(
                    f,
                    "toast value {value_id}: chunk {chunk} at {tid} is not seen, as its row is"
                )
            }
            Self::ColumnCount { expected, found } => {
                write!(f, "{found} columns, expected {expected}")
            }
            Self::ColumnLength { column, expected, found } => {
                write!(f, "column {column}: {found} bytes, expected {expected}")
            }
            Self::ColumnMissing { column, count } => {
                write!(f, "no column {column}: there are {count}")
            }
            Self::ColumnNull { column } => write!(f, "column {column}: null, expected a value"),
            Self::ColumnType { column, expected, found } => {
                write!(f, "column {column}: {found}, expected {expected}")
            }
            Self::ColumnZero { column, offset } => {
                write!(f, "column {column}: a zero at byte {offset} of a text")
            }
            Self::Control { offset, found } => {
                write!(f, "{}, byte {offset}: no such value: {found}", StoreFile::Control)
            }
            Self::Deadlock { awaited } => {
                write!(f, "deadlock: {awaited} is not to be had before the one that waits ends")
            }
            Self::FileLength { file, bytes, block_bytes, limit } => write!(
                f,
                "{file}: {bytes} bytes, expected a multiple of {block_bytes} up to {limit}"
            ),
            Self::Full { file } => write!(f, "{file}: no further block: it has as many as can be"),
            Self::InUse => f.write_str("the store is in use: another handle, or a transaction"),
            Self::Index { file, error } => write!(f, "{file}: {error}"),
            Self::Io { file, offset, kind } => write!(f, "{file}, byte {offset}: {kind}"),
            Self::Locked => {
                f.write_str("the directory is open already, here or in another process")
            }
            Self::Manifest { line, offset } => {
                write!(f, "manifest, line {line}, byte {offset}: no description of tables")
            }
            Self::NoFrame { frames } => {
                write!(f, "all {frames} pages of the buffer pool are in use at once")
            }
            Self::NoSavepoint => f.write_str("no such savepoint is open"),
            Self::NotClosed => {
                f.write_str("the store was not closed, and has no log to mend it by")
            }
            Self::Page { file, block, error } => write!(f, "{file}, block {block}: {error}"),
            Self::Row { tid, column, error } => write!(f, "row {tid} column {column}: {error}"),
            Self::Schema { column, problem } => write!(f, "column {column} {problem}"),
            Self::SealBroken { file, expected, found } => {
                write!(f, "{file}: checksum {found:#010x}, expected {expected:#010x}")
            }
            Self::SealLength { file, expected, found } => {
                write!(f, "{file}: {found} bytes of content, expected {expected}")
            }
            Self::SealMissing { file } => write!(f, "{file}: not a file of a store"),
            Self::SerializationFailure { tid, by } => {
                write!(f, "row {tid}: changed by transaction {by} after the snapshot was taken")
            }
            Self::TableExists => f.write_str("there is a table of that name"),
            Self::TableMissing => f.write_str("there is no such table"),
            Self::Toast(error) => error.fmt(f),
            Self::TooManyCommands => f.write_str("too many statements in one transaction"),
            Self::TransactionFailed => {
                f.write_str("an earlier call failed half way: the transaction can only be aborted")
            }
            Self::Tuple { file, tid, error } => write!(f, "{file}, tuple {tid}: {error}"),
            Self::TupleTooLong { len, limit } => {
                write!(f, "a tuple of {len} bytes, and a page takes {limit} at most")
            }
            Self::Unsynced { file } => {
                write!(f, "{file}: an earlier sync failed, so what the file holds is not known")
            }
            Self::ValueIdsTaken => f.write_str("every id that a value can have is taken"),
            Self::ValueOrphaned { value_id, chunks, tid } => {
                write!(
                    f,
                    "toast value {value_id}: no row has it, and {chunks} chunks from {tid} on"
                )
            }
            Self::XidWraparound { oldest } => {
                write!(f, "no transaction id is left while transaction {oldest} is not frozen")
            }
        }
    }
}
