//! From stream to value, whole or its start, whatever the method.
use pgtoast_varlena::CompressionMethod;

use crate::{CodecError, expansion, lz4};

/// Decompresses a whole value: the stream must end exactly where `target` is full.
///
/// The value's length is not in the stream; PostgreSQL keeps it in the compression info beside it, and
/// `target` must have that many bytes. After an error the content of `target` means nothing.
///
/// # Errors
/// [`CodecError::Pglz`] for a pglz stream; any other variant for an lz4 one. Wherever the server would
/// call compressed data corrupt, this does too.
#[doc(alias = "toast_decompress_datum")]
pub fn decompress(
    method: CompressionMethod,
    stream: &[u8],
    target: &mut [u8],
) -> Result<(), CodecError> {
    expansion::check(method, stream.len(), target.len())?;
    match method {
        CompressionMethod::Pglz => Ok(pgtoast_pglz::decompress(stream, target)?),
        CompressionMethod::Lz4 => decompress_lz4(stream, target),
    }
}

/// As [`decompress`], into a vector of `raw_len` bytes, which is only made once the stream is known
/// to be long enough to fill it.
///
/// # Errors
/// As [`decompress`]; [`CodecError::Expansion`] if no such stream gives `raw_len` bytes.
#[cfg(feature = "alloc")]
pub fn decompress_to_vec(
    method: CompressionMethod,
    stream: &[u8],
    raw_len: usize,
) -> Result<alloc::vec::Vec<u8>, CodecError> {
    expansion::check(method, stream.len(), raw_len)?;
    let mut target = alloc::vec![0; raw_len];
    decompress(method, stream, &mut target)?;
    Ok(target)
}

/// Decompresses the first `target.len()` bytes of a value of `raw_len`, and says how many bytes it
/// produced. The stream may be a prefix of the stored one; [`stored_prefix_len`](crate::stored_prefix_len)
/// says how much of it is enough.
///
/// As the server does for slices, a target for the whole value or more makes it a whole value, with
/// the stream checked to its end; a shorter target stops where it is full and takes no offence at what
/// follows. A stream that ends early between two steps then gives fewer bytes and no error: compare
/// the count. Only the bytes counted are the value's.
///
/// # Errors
/// As [`decompress`] for a whole value; else what is wrong before the prefix is complete.
#[doc(alias = "toast_decompress_datum_slice")]
pub fn decompress_prefix(
    method: CompressionMethod,
    stream: &[u8],
    raw_len: usize,
    target: &mut [u8],
) -> Result<usize, CodecError> {
    if target.len() >= raw_len {
        decompress(method, stream, &mut target[..raw_len])?;
        return Ok(raw_len);
    }
    match method {
        CompressionMethod::Pglz => Ok(pgtoast_pglz::decompress_prefix(stream, target)?),
        CompressionMethod::Lz4 => lz4::decompress_prefix(stream, target),
    }
}

/// `lz4_flex` for speed. It does not say where a stream is broken, so one it refuses, or which ends
/// early, goes through our own decoder from the start, and that verdict counts.
fn decompress_lz4(stream: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
    // Lengths are summed from bytes of at most 255: on a 32-bit machine a longer stream could wrap
    // them, and only our own decoder looks out for that.
    let sums_fit = stream.len() < usize::MAX / 512;
    if sums_fit
        && lz4_flex::block::decompress_into(stream, target).is_ok_and(|len| len == target.len())
    {
        return Ok(());
    }
    lz4::decompress(stream, target)
}
