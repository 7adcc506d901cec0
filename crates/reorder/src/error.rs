use core::fmt;

use pgtoast_base::{Lsn, Oid, Oid8, Xid};
use pgtoast_memctx::MemoryError;
use pgtoast_page::TupleError;
use pgtoast_toast::ToastError;

/// Why a record was not taken, or a transaction not replayed.
///
/// `offset` is bytes from the start of a transaction's spill file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum ReorderError {
    /// A chunk of a TOAST value came out of turn: number `found` instead of `expected`.
    ChunkNumber { relation: Oid, value_id: Oid8, found: i32, expected: i32 },
    /// Subtransaction `xid` was made one of `top` before, or is a transaction with subtransactions
    /// itself, and is now said to be one of `found`.
    Family { xid: Xid, top: Xid, found: Xid },
    /// A record at `found` after one of the same transaction at `last`.
    LsnOrder { xid: Xid, found: Lsn, last: Lsn },
    /// No memory.
    Memory(MemoryError),
    /// The catalog knows no such relation.
    Relation { relation: Oid, lsn: Lsn },
    /// What is at `offset` of a spill file is not what was written there.
    Spill { xid: Xid, offset: u64, fault: SpillFault },
    /// A spill file ends early: `needed` bytes at `offset`, and `available` are there.
    SpillTruncated { xid: Xid, offset: u64, needed: usize, available: usize },
    /// The store of spilled changes failed; `os_error` is the system's number where it gave one.
    Store { xid: Xid, offset: u64, os_error: Option<i32> },
    /// A change of `len` bytes, more than can be held; `limit` is the most.
    TooLong { len: usize, limit: usize },
    /// A value out of line is broken.
    Toast(ToastError),
    /// A tuple of that relation is broken.
    Tuple { relation: Oid, error: TupleError },
    /// The bytes of a value, the first wrong one at `at` in it, are none of its type.
    Type { type_id: Oid, at: usize },
}

/// What is wrong with spilled bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum SpillFault {
    /// The bytes of a record do not sum up to what was noted.
    Checksum { found: u32, expected: u32 },
    /// The sum is right and the change makes no sense, at that byte of it.
    Change { at: usize },
    /// The file does not begin as one of this transaction does.
    Header,
    /// A record says that it has `found` bytes, and the file has `limit` more.
    Length { found: u32, limit: u64 },
    /// Bytes follow the last record.
    Rest { bytes: u64 },
}

impl fmt::Display for ReorderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ChunkNumber { relation, value_id, found, expected } => write!(
                f,
                "toast relation {relation}: chunk {found} of value {value_id}, expected {expected}"
            ),
            Self::Family { xid, top, found } => {
                write!(f, "transaction {xid} is of {top} and cannot be a subtransaction of {found}")
            }
            Self::LsnOrder { xid, found, last } => {
                write!(f, "transaction {xid}: record at {found} after one at {last}")
            }
            Self::Memory(error) => error.fmt(f),
            Self::Relation { relation, lsn } => write!(f, "no relation {relation} at {lsn}"),
            Self::Spill { xid, offset, fault } => {
                write!(f, "spilled changes of {xid}, byte {offset}: {fault}")
            }
            Self::SpillTruncated { xid, offset, needed, available } => write!(
                f,
                "spilled changes of {xid} end early: {needed} bytes needed at {offset}, {available} \
                 are there"
            ),
            Self::Store { xid, offset, os_error } => {
                write!(f, "spilled changes of {xid}, byte {offset}: the store failed")?;
                os_error.map_or(Ok(()), |number| write!(f, " with os error {number}"))
            }
            Self::TooLong { len, limit } => {
                write!(f, "change of {len} bytes, {limit} are the most")
            }
            Self::Toast(error) => error.fmt(f),
            Self::Tuple { relation, error } => write!(f, "tuple of relation {relation}: {error}"),
            Self::Type { type_id, at } => write!(f, "no value of type {type_id} from byte {at} on"),
        }
    }
}

impl fmt::Display for SpillFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Checksum { found, expected } => {
                write!(f, "checksum {found:#010x}, expected {expected:#010x}")
            }
            Self::Change { at } => write!(f, "no change, from its byte {at} on"),
            Self::Header => f.write_str("not the header of this transaction's file"),
            Self::Length { found, limit } => write!(f, "record of {found} bytes, {limit} are left"),
            Self::Rest { bytes } => write!(f, "{bytes} bytes behind the last record"),
        }
    }
}

impl core::error::Error for ReorderError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Memory(error) => Some(error),
            Self::Toast(error) => Some(error),
            Self::Tuple { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<MemoryError> for ReorderError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl From<ToastError> for ReorderError {
    fn from(error: ToastError) -> Self {
        Self::Toast(error)
    }
}
