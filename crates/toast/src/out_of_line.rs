//! A value on its way out of the row: the bytes that go into chunks, and the pointer that stays.
//!
//! ```text
//! datum        short | payload        long | payload        compressed | info | stream
//! stored bytes         payload               payload                     info | stream    info = 4 bytes
//! raw_len      4 + payload            4 + payload           4 + the length in the info
//! ext_info     stored length, 0       stored length, 0      stored length, the method of the info
//! chunks       0: C bytes | 1: C bytes | … | the rest       C = the relation's chunk size
//! ```
//! Source: `toast_internals.c`, `toast_save_datum` (REL_18).
use core::iter::FusedIterator;

use pgtoast_base::{Oid, Oid8};
use pgtoast_varlena::{
    COMPRESSED_HEADER_LEN, CompressionInfo, Kind, LONG_HEADER_LEN, Oid8Pointer, OidPointer,
    SHORT_HEADER_LEN, ToastPointer, datum_len,
};

use crate::{ChunkSize, ToastError, ValueIdWidth};

/// A datum to be stored out of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfLine<'a> {
    stored: &'a [u8],
    raw_len: i32,
    ext_info: CompressionInfo,
}

impl<'a> OutOfLine<'a> {
    /// All bytes of a datum that is here: short, long, or compressed.
    ///
    /// # Errors
    /// [`ToastError::StorePointer`] for a pointer, whose value is elsewhere already;
    /// [`ToastError::Varlena`] for bytes that are not one whole datum, and for methods that no server
    /// knows.
    pub fn new(datum: &'a [u8]) -> Result<Self, ToastError> {
        let len = datum_len(datum, 0)?;
        let datum = &datum[..len];
        let (stored, raw_payload_len, method_bits) = match Kind::of(datum[0]) {
            Kind::Pointer => return Err(ToastError::StorePointer),
            Kind::Short => (&datum[SHORT_HEADER_LEN..], len - SHORT_HEADER_LEN, 0),
            Kind::Pad | Kind::Long => (&datum[LONG_HEADER_LEN..], len - LONG_HEADER_LEN, 0),
            Kind::LongCompressed => {
                let word = [datum[4], datum[5], datum[6], datum[7]];
                let info = CompressionInfo::from_word(u32::from_le_bytes(word));
                info.method()?;
                (&datum[COMPRESSED_HEADER_LEN - 4..], info.len(), info.method_bits())
            }
        };
        // Both lengths are from words of 30 bits.
        #[expect(clippy::cast_possible_truncation, reason = "stored lengths have 30 bits")]
        let word = stored.len() as u32 | u32::from(method_bits) << 30;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            reason = "raw lengths have 30 bits, and 2^30 + 3 is far below the most"
        )]
        let raw_len = (raw_payload_len + LONG_HEADER_LEN) as i32;
        Ok(Self { stored, raw_len, ext_info: CompressionInfo::from_word(word) })
    }

    /// The bytes for the chunks, in one piece.
    #[must_use]
    pub const fn stored(&self) -> &'a [u8] {
        self.stored
    }

    /// The chunks: their numbers from 0, and their bytes. All but the last have the relation's chunk size.
    #[must_use]
    pub fn chunks(&self, chunk_size: ChunkSize) -> Chunks<'a> {
        Chunks { seq: 0, pieces: self.stored.chunks(chunk_size.bytes()) }
    }

    /// The pointer to keep in the row, with a 32-bit id.
    #[must_use]
    pub const fn pointer(&self, value_id: Oid, toast_rel_id: Oid) -> ToastPointer {
        let pointer = OidPointer::new(self.raw_len, self.ext_info, value_id, toast_rel_id);
        ToastPointer::Oid(pointer)
    }

    /// The pointer to keep in the row, with an id of a given width.
    ///
    /// # Errors
    /// [`ToastError::ValueId`] for 0, and for an id that is too wide.
    pub fn pointer_of(
        &self,
        width: ValueIdWidth,
        value_id: Oid8,
        toast_rel_id: Oid,
    ) -> Result<ToastPointer, ToastError> {
        width.check(value_id)?;
        Ok(match (width, u32::try_from(value_id.get())) {
            (ValueIdWidth::Oid, Ok(id)) => self.pointer(Oid::new(id), toast_rel_id),
            _ => self.pointer_oid8(value_id, toast_rel_id),
        })
    }

    /// The pointer to keep in the row, with a 64-bit id.
    #[must_use]
    pub const fn pointer_oid8(&self, value_id: Oid8, toast_rel_id: Oid) -> ToastPointer {
        let pointer = Oid8Pointer::new(self.raw_len, self.ext_info, value_id, toast_rel_id);
        ToastPointer::Oid8(pointer)
    }
}

/// The chunks of a value to be stored; made by [`OutOfLine::chunks`].
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    seq: i32,
    pieces: core::slice::Chunks<'a, u8>,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = (i32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.pieces.next()?;
        let seq = self.seq;
        self.seq += 1; // a value has fewer than 2^30 bytes, and so of chunks
        Some((seq, piece))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.pieces.size_hint()
    }
}

impl ExactSizeIterator for Chunks<'_> {}
impl FusedIterator for Chunks<'_> {}
