use core::fmt;

use crate::MAX_DATUM_LEN;

/// Why some bytes are no varlena, or why a value cannot become one.
///
/// `offset` is in bytes from the start of the slice that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum VarlenaError {
    /// The header at `offset` states a length of `len` bytes, less than the `header` itself takes.
    HeaderLength { offset: usize, len: usize, header: usize },
    /// The tag at `offset` holds an address of some server's memory and must not be on disk.
    MemoryOnlyTag { offset: usize, tag: u8 },
    /// The datum at `offset` is no TOAST pointer: it starts with `found` instead of `0x01`.
    NotPointer { offset: usize, found: u8 },
    /// The two bytes that end the direct pointer at `offset` are not zero.
    PointerPadding { offset: usize, found: [u8; 2] },
    /// A pointer's raw length, `raw_len`, is not that of a datum: 4..2^30.
    RawLength { raw_len: i32 },
    /// `len` bytes do not fit; `limit` do.
    TooLong { len: usize, limit: usize },
    /// What starts at `offset` takes `needed` bytes, and `available` are there.
    Truncated { offset: usize, needed: usize, available: usize },
    /// The method bits name no compression method.
    UnknownMethod { bits: u8 },
    /// The tag at `offset` is none that is known, so not even the datum's length is.
    UnknownTag { offset: usize, tag: u8 },
}

impl fmt::Display for VarlenaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::HeaderLength { offset, len, header } => {
                write!(f, "varlena at byte {offset}: length {len}, its header takes {header}")
            }
            Self::MemoryOnlyTag { offset, tag } => {
                write!(f, "toast pointer tag {tag} at byte {offset} is a memory address")
            }
            Self::NotPointer { offset, found } => {
                write!(f, "byte {offset}: expected a toast pointer (0x01), found {found:#04x}")
            }
            Self::PointerPadding { offset, found: [a, b] } => {
                write!(f, "direct pointer at byte {offset} ends in {a:#04x} {b:#04x}, not zeros")
            }
            Self::RawLength { raw_len } => {
                write!(f, "toast pointer's raw length {raw_len}, expected 4 to {MAX_DATUM_LEN}")
            }
            Self::TooLong { len, limit } => write!(f, "{len} bytes, {limit} are the most"),
            Self::Truncated { offset, needed, available } => {
                write!(f, "varlena at byte {offset}: {needed} bytes needed, {available} there")
            }
            Self::UnknownMethod { bits } => write!(f, "compression method {bits} is unknown"),
            Self::UnknownTag { offset, tag } => {
                write!(f, "toast pointer tag {tag} at byte {offset} is unknown")
            }
        }
    }
}

impl core::error::Error for VarlenaError {}
