//! The headers that are written: lengths, their limits, and the bytes.
//!
//! ```text
//! short       | len << 1 | 1 |                                                len = 1 + payload
//! long        | len << 2           u32 |                                      len = 4 + payload
//! compressed  | len << 2 | 2       u32 | raw payload length, method  u32 |    len = 8 + stream
//! ```
#[cfg(feature = "alloc")]
use alloc::vec::Vec;

use crate::{CompressionInfo, CompressionMethod, VarlenaError};

/// The header byte of a short datum.
#[doc(alias = "VARHDRSZ_SHORT")]
pub const SHORT_HEADER_LEN: usize = 1;
/// The length word of a long datum.
#[doc(alias = "VARHDRSZ")]
pub const LONG_HEADER_LEN: usize = 4;
/// The length word and the compression info of a compressed datum.
#[doc(alias = "VARHDRSZ_COMPRESSED")]
pub const COMPRESSED_HEADER_LEN: usize = 8;
/// The most payload bytes behind a short header: 7 bits of length, itself included.
#[doc(alias = "VARATT_SHORT_MAX")]
pub const MAX_SHORT_PAYLOAD_LEN: usize = 126;
/// The most bytes of any datum, header included: 30 bits of length.
#[doc(alias = "MaxAllocSize")]
pub const MAX_DATUM_LEN: usize = 0x3fff_ffff;
/// The most payload bytes behind a long header.
pub const MAX_PAYLOAD_LEN: usize = MAX_DATUM_LEN - LONG_HEADER_LEN;

/// The header byte for so many bytes of payload.
///
/// # Errors
/// [`VarlenaError::TooLong`] for more than [`MAX_SHORT_PAYLOAD_LEN`].
#[doc(alias = "SET_VARSIZE_SHORT")]
pub const fn short_header(payload_len: usize) -> Result<u8, VarlenaError> {
    if payload_len > MAX_SHORT_PAYLOAD_LEN {
        return Err(VarlenaError::TooLong { len: payload_len, limit: MAX_SHORT_PAYLOAD_LEN });
    }
    #[expect(clippy::cast_possible_truncation, reason = "7 bits, checked above")]
    Ok(((payload_len + SHORT_HEADER_LEN) as u8) << 1 | 1)
}

/// The four header bytes for so many bytes of payload.
///
/// # Errors
/// [`VarlenaError::TooLong`] for more than [`MAX_PAYLOAD_LEN`].
#[doc(alias = "SET_VARSIZE")]
pub const fn long_header(payload_len: usize) -> Result<[u8; 4], VarlenaError> {
    length_word(payload_len, LONG_HEADER_LEN, 0)
}

/// The eight header bytes of a compressed datum: `raw_len` payload bytes became `stream_len`.
///
/// # Errors
/// [`VarlenaError::TooLong`] if either length is more than 30 bits hold.
#[doc(alias = "SET_VARSIZE_COMPRESSED")]
pub const fn compressed_header(
    raw_len: usize,
    method: CompressionMethod,
    stream_len: usize,
) -> Result<[u8; 8], VarlenaError> {
    let (length, info) = match (
        length_word(stream_len, COMPRESSED_HEADER_LEN, 2),
        CompressionInfo::new(raw_len, method),
    ) {
        (Ok(length), Ok(info)) => (length, info.word().to_le_bytes()),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    Ok([length[0], length[1], length[2], length[3], info[0], info[1], info[2], info[3]])
}

const fn length_word(len: usize, header: usize, flag: u32) -> Result<[u8; 4], VarlenaError> {
    if len > MAX_DATUM_LEN - header {
        return Err(VarlenaError::TooLong { len, limit: MAX_DATUM_LEN - header });
    }
    #[expect(clippy::cast_possible_truncation, reason = "30 bits, checked above")]
    let word = ((len + header) as u32) << 2 | flag;
    Ok(word.to_le_bytes())
}

/// Appends a short datum.
///
/// # Errors
/// As [`short_header`]; `target` is then unchanged.
#[cfg(feature = "alloc")]
pub fn encode_short(payload: &[u8], target: &mut Vec<u8>) -> Result<(), VarlenaError> {
    target.push(short_header(payload.len())?);
    target.extend_from_slice(payload);
    Ok(())
}

/// Appends a long datum. Aligning `target` first is the caller's business.
///
/// # Errors
/// As [`long_header`]; `target` is then unchanged.
#[cfg(feature = "alloc")]
pub fn encode_long(payload: &[u8], target: &mut Vec<u8>) -> Result<(), VarlenaError> {
    target.extend_from_slice(&long_header(payload.len())?);
    target.extend_from_slice(payload);
    Ok(())
}

/// Appends a compressed datum: `raw_len` payload bytes, compressed to `stream` by `method`.
///
/// # Errors
/// As [`compressed_header`]; `target` is then unchanged.
#[cfg(feature = "alloc")]
pub fn encode_compressed(
    raw_len: usize,
    method: CompressionMethod,
    stream: &[u8],
    target: &mut Vec<u8>,
) -> Result<(), VarlenaError> {
    target.extend_from_slice(&compressed_header(raw_len, method, stream.len())?);
    target.extend_from_slice(stream);
    Ok(())
}
