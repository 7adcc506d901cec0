//! From stream to value.
use crate::PglzError;
use crate::naive;

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
    naive::decompress(source, target)
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
    naive::decompress_prefix(source, target)
}
