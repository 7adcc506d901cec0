//! From stream to value.
//!
//! In plain words: take a control byte; for each of its bits, lowest first, copy the next byte to the
//! value, or read a match and copy its length from as far back as it says, byte by byte, so that a
//! match may overlap what it writes. Stop when the stream or the room is used up.
//!
//! Two readers do that here with the same answers: `safe` in safe Rust, and `raw`, which checks
//! bounds once for several copies. Where they depart from the plain words, and why nothing changes:
//!
//! - Literals are copied in runs. Zero bits below the next one bit are counted at once, eight bytes are
//!   copied whatever the count, and the next copy overwrites what was too much.
//! - A ninth control bit, always one, marks the end of the group, so that "how many literals" and "is the
//!   group over" are one question.
//! - Matches from at least 16 back are copied in blocks of 16, which never read a byte that the same
//!   block writes. Nearer ones are a pattern that repeats: it is put into one register and stored again
//!   and again.
//! - A match of the greatest length is often followed by its own continuation, a match from the same
//!   distance. Such matches are one, and one copy, which doubles what it copies with each step.
//! - Near either end the copies are exact.
//!
//! What bounds it: prose takes 8 instructions a byte and XML 2, half of what C takes; the time goes into
//! mispredicted branches, one or two for each group: how many literals, and where the group ends. Fetching
//! the next control byte without a branch gave JSON a tenth and took more from Cyrillic text.
use crate::PglzError;
use crate::format::GROUP_END;
#[cfg(feature = "unsafe-fast")]
pub(crate) use crate::raw as reader;
#[cfg(not(feature = "unsafe-fast"))]
pub(crate) use crate::safe as reader;

/// Where a reader is: bytes of the stream consumed, bytes of the value produced, and what is left of the
/// group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) source_offset: usize,
    pub(crate) target_offset: usize,
    /// The control bits of the items to come, and a one above them.
    pub(crate) control: u32,
}

impl State {
    /// Before the first group.
    pub(crate) const START: Self = Self { source_offset: 0, target_offset: 0, control: GROUP_END };

    /// Whether stream and value ended together, each at its end.
    pub(crate) fn complete(self, source_len: usize, target_len: usize) -> Result<(), PglzError> {
        if self.target_offset < target_len {
            let target_offset = self.target_offset;
            return Err(PglzError::Short { target_offset, expected: target_len });
        }
        if self.source_offset < source_len {
            return Err(PglzError::Trailing { source_offset: self.source_offset, source_len });
        }
        Ok(())
    }
}

/// Decompresses a whole value: the stream must end exactly where `target` is full.
///
/// The value's length is not in the stream; PostgreSQL keeps it beside it, and `target` must have
/// that many bytes. After an error the content of `target` means nothing.
///
/// # Errors
/// [`PglzError::Truncated`], [`PglzError::Distance`], [`PglzError::Short`] or [`PglzError::Trailing`],
/// wherever PostgreSQL would say "compressed pglz data is corrupt".
///
/// Source: `pg_lzcompress.c`, `pglz_decompress` with `check_complete` (REL_18).
#[doc(alias = "pglz_decompress")]
pub fn decompress(source: &[u8], target: &mut [u8]) -> Result<(), PglzError> {
    reader::run(source, target)?.complete(source.len(), target.len())
}

/// Decompresses the start of a value, from the whole stream or from a prefix of it
/// ([`maximum_compressed_size`](crate::maximum_compressed_size) bytes are enough), and says how many
/// bytes it produced.
///
/// It stops where `target` is full or the stream ends between two items, whichever comes first: as
/// the server, it takes no offence at a stream that ends early. Only the bytes counted are the value's;
/// what `target` holds behind them, or after an error, means nothing.
///
/// # Errors
/// [`PglzError::Truncated`] or [`PglzError::Distance`].
///
/// Source: `pg_lzcompress.c`, `pglz_decompress` without `check_complete` (REL_18).
#[doc(alias = "pglz_decompress")]
pub fn decompress_prefix(source: &[u8], target: &mut [u8]) -> Result<usize, PglzError> {
    Ok(reader::run(source, target)?.target_offset)
}

/// Decompresses a whole value of `raw_len` bytes and appends it to `target`, without writing zeros first
/// where the `unsafe-fast` feature is on. After an error `target` is as long as it was.
///
/// No memory is asked for that the stream could not fill.
///
/// # Errors
/// Those of [`decompress`], and [`PglzError::Expansion`] where `raw_len` is beyond
/// [`maximum_raw_size`](crate::maximum_raw_size).
#[cfg(feature = "alloc")]
pub fn decompress_append(
    source: &[u8],
    raw_len: usize,
    target: &mut alloc::vec::Vec<u8>,
) -> Result<(), PglzError> {
    let source_len = source.len();
    if raw_len as u64 > crate::maximum_raw_size(source_len as u64) {
        return Err(PglzError::Expansion { source_len, expected: raw_len });
    }
    reader::extend(source, raw_len, target)
}

/// As [`decompress_append`], into a vector of its own.
///
/// # Errors
/// As there.
#[cfg(feature = "alloc")]
pub fn decompress_to_vec(source: &[u8], raw_len: usize) -> Result<alloc::vec::Vec<u8>, PglzError> {
    let mut target = alloc::vec::Vec::new();
    decompress_append(source, raw_len, &mut target)?;
    Ok(target)
}
