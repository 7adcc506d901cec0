//! How much a stream can grow, which is how much memory it can ask for.
use pgtoast_varlena::CompressionMethod;

use crate::{CodecError, lz4};

/// The most bytes any stream of `stream_len` bytes can decompress to.
///
/// For pglz eight longest matches of 273 bytes from every 25, for lz4 255 from each byte. A claimed
/// length above it is a lie that needs no buffer to be found out.
#[must_use]
pub fn maximum_raw_len(method: CompressionMethod, stream_len: usize) -> usize {
    match method {
        CompressionMethod::Pglz => {
            let raw_len = pgtoast_pglz::maximum_raw_size(stream_len as u64);
            usize::try_from(raw_len).unwrap_or(usize::MAX)
        }
        CompressionMethod::Lz4 => lz4::maximum_raw_len(stream_len),
    }
}

/// Refuses a claimed length that the stream cannot reach.
pub(crate) fn check(
    method: CompressionMethod,
    stream_len: usize,
    raw_len: usize,
) -> Result<(), CodecError> {
    let limit = maximum_raw_len(method, stream_len);
    if raw_len > limit {
        return Err(CodecError::Expansion { stream_len, raw_len, limit });
    }
    Ok(())
}
