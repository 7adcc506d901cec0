//! From datum to compressed datum, by the server's rule for what is worth keeping.
//!
//! ```text
//! short   | len << 1 | 1 | payload |          \
//! long    | len << 2         u32   | payload | / -> | len << 2 | 2 | raw_len, method | stream |   or nothing
//! ```
//! Source: `toast_internals.c`, `toast_compress_datum` (REL_18).
use alloc::vec::Vec;
use core::fmt;

use lz4_flex::block::CompressTable;
use pgtoast_pglz::{Compressor, Strategy};
use pgtoast_varlena::{COMPRESSED_HEADER_LEN, CompressionMethod, Varlena, compressed_header};

use crate::saves_enough;

/// Compresses datums, and keeps its tables from one to the next: with a target that has grown enough
/// it asks for no memory. About 75 KiB; on the heap where that is too much for a stack.
pub struct DatumCompressor {
    pglz: Compressor,
    lz4: CompressTable,
}

impl DatumCompressor {
    /// Empty tables.
    #[must_use]
    pub fn new() -> Self {
        Self { pglz: Compressor::new(), lz4: CompressTable::small() }
    }

    /// Appends `datum` compressed to `target`, eight header bytes first, and says how many bytes that
    /// were. `None` where a server keeps the datum as it is, with `target` as it was: the method
    /// refuses it, [`saves_enough`] does, or it is no plain value but compressed already or a pointer.
    ///
    /// pglz streams are those of a server on x86-64, byte for byte; lz4 streams are valid and may
    /// differ in length from those of the C library.
    #[doc(alias = "toast_compress_datum")]
    pub fn compress(
        &mut self,
        method: CompressionMethod,
        datum: &Varlena<'_>,
        target: &mut Vec<u8>,
    ) -> Option<usize> {
        let (Varlena::Short(raw) | Varlena::Long(raw)) = *datum else { return None };
        let start = target.len();
        let kept = self.append(method, raw, target);
        target.truncate(start + kept.unwrap_or(0));
        kept
    }

    /// As [`compress`](Self::compress), but that `target` holds more behind what is kept.
    fn append(
        &mut self,
        method: CompressionMethod,
        raw: &[u8],
        target: &mut Vec<u8>,
    ) -> Option<usize> {
        let room = match method {
            CompressionMethod::Pglz => pgtoast_pglz::maximum_output_size(raw.len()),
            CompressionMethod::Lz4 => lz4_flex::block::get_maximum_output_size(raw.len()),
        };
        let start = target.len();
        target.resize(start + COMPRESSED_HEADER_LEN + room, 0);
        let (header, stream) = target[start..].split_at_mut(COMPRESSED_HEADER_LEN);
        let stream_len = match method {
            CompressionMethod::Pglz => {
                self.pglz.compress(raw, &Strategy::DEFAULT, stream).ok()??
            }
            CompressionMethod::Lz4 => {
                lz4_flex::block::compress_into_with_table(raw, stream, &mut self.lz4).ok()?
            }
        };
        if !saves_enough(raw.len(), stream_len) {
            return None;
        }
        header.copy_from_slice(&compressed_header(raw.len(), method, stream_len).ok()?);
        Some(COMPRESSED_HEADER_LEN + stream_len)
    }
}

impl Default for DatumCompressor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for DatumCompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatumCompressor").finish_non_exhaustive()
    }
}
