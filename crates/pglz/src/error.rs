//! What can be wrong with a stream or a buffer.
use core::fmt;

/// Why a stream does not decompress, or a buffer does not do.
///
/// `source_offset` counts bytes from the start of the stream and names the first byte of the item at
/// fault; `target_offset` is how many bytes of the value had been produced before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum PglzError {
    /// A match looks back by nothing, or to before the start of the value.
    Distance { source_offset: usize, target_offset: usize, distance: u16 },
    /// No stream of `source_len` bytes holds `expected` bytes of value.
    Expansion { source_len: usize, expected: usize },
    /// The stream ended, and the value has only `target_offset` of its `expected` bytes.
    Short { target_offset: usize, expected: usize },
    /// The compressor needs room for `needed` bytes; `available` were given.
    TargetTooSmall { needed: usize, available: usize },
    /// The value is complete at `source_offset`, and the stream has `source_len` bytes.
    Trailing { source_offset: usize, source_len: usize },
    /// The stream ends inside a match tag.
    Truncated { source_offset: usize, target_offset: usize },
}

impl fmt::Display for PglzError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            // No writer of this format can start with a match; one that does marks something else.
            Self::Distance { source_offset, target_offset: 0, distance } => {
                write!(
                    f,
                    "not classic pglz: starts with a match {distance} back, at byte {source_offset}"
                )
            }
            Self::Distance { source_offset, target_offset, distance } => {
                write!(
                    f,
                    "match at byte {source_offset} looks {distance} back, {target_offset} are there"
                )
            }
            Self::Expansion { source_len, expected } => {
                write!(f, "{expected} value bytes cannot come from a stream of {source_len}")
            }
            Self::Short { target_offset, expected } => {
                write!(f, "stream ends after {target_offset} of {expected} value bytes")
            }
            Self::TargetTooSmall { needed, available } => {
                write!(f, "target has {available} bytes, {needed} needed")
            }
            Self::Trailing { source_offset, source_len } => {
                write!(f, "value complete at byte {source_offset} of a stream of {source_len}")
            }
            Self::Truncated { source_offset, target_offset } => {
                write!(
                    f,
                    "stream ends inside the match at byte {source_offset}, value byte {target_offset}"
                )
            }
        }
    }
}

impl core::error::Error for PglzError {}

#[cfg(feature = "std")]
impl From<PglzError> for std::io::Error {
    fn from(error: PglzError) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, error)
    }
}

impl PglzError {
    /// A match that looks back too far, or not at all; `distance` has 12 bits.
    #[expect(clippy::cast_possible_truncation, reason = "the tag has 12 bits for it")]
    pub(crate) const fn distance(
        source_offset: usize,
        target_offset: usize,
        distance: usize,
    ) -> Self {
        Self::Distance { source_offset, target_offset, distance: distance as u16 }
    }
    /// The same error in a value whose first `bytes` came before.
    pub(crate) const fn behind(self, bytes: usize) -> Self {
        match self {
            Self::Distance { source_offset, target_offset, distance } => {
                Self::Distance { source_offset, target_offset: target_offset + bytes, distance }
            }
            Self::Truncated { source_offset, target_offset } => {
                Self::Truncated { source_offset, target_offset: target_offset + bytes }
            }
            other => other,
        }
    }
}
