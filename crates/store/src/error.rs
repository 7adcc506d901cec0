//! What can go wrong with a store.
use core::fmt;
use std::io::ErrorKind;

use pgtoast_base::{BlockNumber, ItemPointer, Xid};
use pgtoast_nbtree::NbtreeError;
use pgtoast_page::{PageError, TupleError};
use pgtoast_toast::ToastError;

use crate::file::{RelationId, StoreFile};

/// Why the store could not do it.
///
/// A file prints as its path from the store's directory; offsets are bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum StoreError {
    /// The fork has `blocks` blocks, and block `block` was asked for.
    BlockMissing { file: StoreFile, block: BlockNumber, blocks: u32 },
    /// The store was made with blocks of `stored` bytes, and opened for blocks of `asked`.
    BlockSize { stored: u32, asked: u32 },
    /// The control file's value at byte `offset` of its content is `found`, which no store writes.
    Control { offset: u32, found: u64 },
    /// Waiting for that would never end: who has it waits, directly or not, for the one that asks.
    Deadlock { awaited: Awaited },
    /// The file has `bytes` bytes: more than `limit`, or no whole number of `block_bytes`.
    FileLength { file: StoreFile, bytes: u64, block_bytes: u16, limit: u64 },
    /// The relation has as many blocks as there are numbers for.
    Full { file: StoreFile },
    /// The index is broken.
    Index { file: StoreFile, error: NbtreeError },
    /// The system could not do it.
    Io { file: StoreFile, offset: u64, kind: ErrorKind },
    /// The directory is open already, in this process or another.
    Locked,
    /// None of the pool's `frames` frames came free: threads hold pages in all of them.
    NoFrame { frames: usize },
    /// The savepoint is not open in the transaction.
    NoSavepoint,
    /// The directory was not closed: its files may contradict each other.
    NotClosed,
    /// The block is no page, or the page does not have the item.
    Page { file: StoreFile, block: BlockNumber, error: PageError },
    /// The file's bytes make the checksum `expected`, and it carries `found`.
    SealBroken { file: StoreFile, expected: u32, found: u32 },
    /// The file says that its content has `expected` bytes, and has `found`.
    SealLength { file: StoreFile, expected: u64, found: u64 },
    /// The file does not begin as it must.
    SealMissing { file: StoreFile },
    /// A row was changed by a transaction that committed after the snapshot was taken.
    SerializationFailure { tid: ItemPointer, by: Xid },
    /// A value of a row.
    Toast(ToastError),
    /// The transaction has had as many statements as can be numbered.
    TooManyCommands,
    /// A tuple of `len` bytes is longer than the `limit` that a page takes.
    TupleTooLong { len: usize, limit: usize },
    /// The tuple is broken.
    Tuple { file: StoreFile, tid: ItemPointer, error: TupleError },
    /// The system once failed to make the file durable, so what it holds is not known.
    Unsynced { file: StoreFile },
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

impl core::error::Error for StoreError {}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BlockMissing { file, block, blocks } => {
                write!(f, "{file}: no block {block}: there are {blocks}")
            }
            Self::BlockSize { stored, asked } => {
                write!(f, "the store has blocks of {stored} bytes, not of {asked}")
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
            Self::Index { file, error } => write!(f, "{file}: {error}"),
            Self::Io { file, offset, kind } => write!(f, "{file}, byte {offset}: {kind}"),
            Self::NoFrame { frames } => {
                write!(f, "all {frames} pages of the buffer pool are in use at once")
            }
            Self::Page { file, block, error } => write!(f, "{file}, block {block}: {error}"),
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
            Self::Locked => {
                f.write_str("the directory is open already, here or in another process")
            }
            Self::NoSavepoint => f.write_str("no such savepoint is open"),
            Self::NotClosed => {
                f.write_str("the store was not closed, and has no log to mend it by")
            }
            Self::Toast(error) => error.fmt(f),
            Self::Unsynced { file } => {
                write!(f, "{file}: an earlier sync failed, so what the file holds is not known")
            }
            Self::TupleTooLong { len, limit } => {
                write!(f, "a tuple of {len} bytes, and a page takes {limit} at most")
            }
            Self::XidWraparound { oldest } => {
                write!(f, "no transaction id is left while transaction {oldest} is not frozen")
            }
            Self::TooManyCommands => f.write_str("too many statements in one transaction"),
            Self::Tuple { file, tid, error } => write!(f, "{file}, tuple {tid}: {error}"),
        }
    }
}
