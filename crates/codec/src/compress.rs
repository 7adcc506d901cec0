//! From value to stream.
use alloc::vec::Vec;

use pgtoast_pglz::Strategy;
use pgtoast_varlena::{COMPRESSED_HEADER_LEN, CompressionMethod};

/// Compresses `raw`, or `None` where the server's compressor would refuse: pglz under its default
/// strategy (less than 32 bytes, less than a quarter saved, nothing found in the first kilobyte), lz4
/// when the stream would be longer than the value.
///
/// pglz streams are those of a server on x86-64, byte for byte; lz4 streams are valid and may differ,
/// as they do between releases of the C library. A stream is no more than half the decision:
/// [`saves_enough`] is the rest. Whoever compresses many values with pglz can keep the tables of one
/// [`pgtoast_pglz::Compressor`] instead.
#[doc(alias = "toast_compress_datum")]
#[must_use]
pub fn compress(method: CompressionMethod, raw: &[u8]) -> Option<Vec<u8>> {
    match method {
        CompressionMethod::Pglz => pgtoast_pglz::compress(raw, &Strategy::DEFAULT),
        CompressionMethod::Lz4 => {
            let mut stream = alloc::vec![0; lz4_flex::block::get_maximum_output_size(raw.len())];
            let len = lz4_flex::block::compress_into(raw, &mut stream).ok()?;
            if len > raw.len() {
                return None;
            }
            stream.truncate(len);
            stream.shrink_to_fit();
            Some(stream)
        }
    }
}

/// Whether the server keeps a stream of `stream_len` bytes in place of `raw_len` bytes of payload: the
/// compressed datum with its 8 header bytes must be more than two bytes shorter than the payload.
///
/// Source: `toast_internals.c`, `toast_compress_datum` (REL_18).
#[must_use]
pub const fn saves_enough(raw_len: usize, stream_len: usize) -> bool {
    stream_len.saturating_add(COMPRESSED_HEADER_LEN + 2) < raw_len
}
