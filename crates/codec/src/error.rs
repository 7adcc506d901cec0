use core::fmt;

use pgtoast_pglz::PglzError;

/// Why a stream does not decompress.
///
/// `source_offset` counts bytes from the start of the stream and names the token of the lz4 sequence
/// at fault; `target_offset` is how many bytes of the value had been produced before the faulty step.
/// Nothing in `target` counts after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum CodecError {
    /// An lz4 match looks back by nothing, or to before the start of the value.
    Distance { source_offset: usize, target_offset: usize, distance: u16 },
    /// A value of `raw_len` bytes is claimed; no stream of `stream_len` bytes gives more than `limit`.
    Expansion { stream_len: usize, raw_len: usize, limit: usize },
    /// An lz4 sequence produces `produced` bytes where the value has only `room` left.
    Overrun { source_offset: usize, target_offset: usize, produced: usize, room: usize },
    /// A pglz stream is broken.
    Pglz(PglzError),
    /// The lz4 stream ended, and the value has only `target_offset` of its `expected` bytes.
    Short { target_offset: usize, expected: usize },
    /// The lz4 stream ends inside the sequence, or where its last one should be.
    Truncated { source_offset: usize, target_offset: usize },
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Distance { source_offset, target_offset, distance } => {
                write!(
                    f,
                    "lz4 match of the sequence at byte {source_offset} looks {distance} back, \
                     {target_offset} are there"
                )
            }
            Self::Expansion { stream_len, raw_len, limit } => {
                write!(f, "{raw_len} bytes claimed from {stream_len}, {limit} are the most")
            }
            Self::Overrun { source_offset, target_offset, produced, room } => {
                write!(
                    f,
                    "lz4 sequence at byte {source_offset} produces {produced} bytes at value byte \
                     {target_offset}, {room} are left"
                )
            }
            Self::Pglz(error) => write!(f, "pglz: {error}"),
            Self::Short { target_offset, expected } => {
                write!(f, "lz4 stream ends after {target_offset} of {expected} value bytes")
            }
            Self::Truncated { source_offset, target_offset } => {
                write!(
                    f,
                    "lz4 stream ends inside the sequence at byte {source_offset}, value byte \
                     {target_offset}"
                )
            }
        }
    }
}

impl core::error::Error for CodecError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Pglz(error) => Some(error),
            _ => None,
        }
    }
}

impl From<PglzError> for CodecError {
    fn from(error: PglzError) -> Self {
        Self::Pglz(error)
    }
}
