//! Changes on their way out of memory and back.
//!
//! ```text
//! file     | header            | record | record | ...          one for each transaction or subtransaction
//!
//! header   0           8         10      12    16
//!          | pgtspill  | version | zeros | xid |
//!
//! record   0     4          8
//!          | len | checksum | change, len bytes |      CRC-32C of len, the record's number and the change
//! ```
//! The change is what it was in memory. Records count from 0, and their number is in the sum and nowhere else, so
//! that none can be lost or stand twice. How many there are, and how many bytes, the transaction knows: a file that was cut, even between two
//! records, is not taken for a shorter one. All numbers are little-endian; the same changes make the same
//! bytes on any machine and in any run.
mod cursor;
#[cfg(feature = "std")]
mod files;
mod memory;

pub(crate) use cursor::{RecordPlace, SpillCursor, read_record};
#[cfg(feature = "std")]
pub use files::SpillFiles;
pub use memory::MemorySpill;

use alloc::vec::Vec;

use pgtoast_base::Xid;

use crate::crc32c::crc32c;
use crate::{ReorderError, SpillFault};

/// A place for what memory has no room for: one growing file for each transaction or subtransaction.
pub trait SpillStore {
    /// Writes bytes at `offset` of a transaction's file. That is its end, or before it where an earlier write
    /// failed midway: what is there is written over then.
    ///
    /// # Errors
    /// What the system says. The file is then whole up to `offset`.
    fn write_at(&mut self, xid: Xid, offset: u64, bytes: &[u8]) -> Result<(), StoreError>;

    /// Reads what there is at `offset`, up to the length of `target`, and says how much that was: less only
    /// at the end of the file.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&mut self, xid: Xid, offset: u64, target: &mut [u8]) -> Result<usize, StoreError>;

    /// A transaction's file is not needed any more. It may not have one.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&mut self, xid: Xid) -> Result<(), StoreError>;
}

/// A store failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreError {
    /// The system's number for it, where there is one.
    pub os_error: Option<i32>,
}

impl StoreError {
    /// At that place.
    pub(crate) const fn at(self, xid: Xid, offset: u64) -> ReorderError {
        ReorderError::Store { xid, offset, os_error: self.os_error }
    }
}

/// How much of a transaction is in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The header counted; 0 where there is no file.
    pub(crate) bytes: u64,
    pub(crate) records: u64,
}

pub(crate) const FILE_HEADER: usize = 16;
pub(crate) const RECORD_HEADER: usize = 8;
const MAGIC: [u8; 8] = *b"pgtspill";
const VERSION: u16 = 1;

/// What a transaction's file begins with.
pub(crate) fn file_header(xid: Xid) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..10].copy_from_slice(&VERSION.to_le_bytes());
    header[12..].copy_from_slice(&xid.get().to_le_bytes());
    header
}

/// Appends a record.
pub(crate) fn encode_record(number: u64, change: &[u8], target: &mut Vec<u8>) {
    let len = u32::try_from(change.len()).expect("changes are far below 4 GiB");
    target.extend_from_slice(&len.to_le_bytes());
    target.extend_from_slice(&checksum(len, number, change).to_le_bytes());
    target.extend_from_slice(change);
}

fn checksum(len: u32, number: u64, change: &[u8]) -> u32 {
    let sum = crc32c(crc32c(0, &len.to_le_bytes()), &number.to_le_bytes());
    crc32c(sum, change)
}

/// The length and the checksum of a record.
fn parse_record_header(header: [u8; RECORD_HEADER]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = header;
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
}

/// Whether a record is the one that was written.
fn verify(header: [u8; RECORD_HEADER], number: u64, change: &[u8]) -> Result<(), SpillFault> {
    let (len, expected) = parse_record_header(header);
    let found = checksum(len, number, change);
    if found == expected { Ok(()) } else { Err(SpillFault::Checksum { found, expected }) }
}
