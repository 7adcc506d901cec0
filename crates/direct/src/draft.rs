//! A tuple that is about to be stored, its data in several places still.
use pgtoast_base::{Alignment, ItemPointer, ItemPointerData};
use zerocopy::IntoBytes;
use zerocopy::little_endian::I64;

use crate::chunk_tuple::{
    Columns, INT8_TYPE, TID_TYPE, encode_array, encode_data_head, encode_head, flat_root_len,
    leaf_len, node_len, pad,
};
use crate::trailer::{TRAILER_LEN, TrailerDraft};
use crate::{ChunkStore, Failure};

/// The root of an edited tree has this bit in its number: the mark that its rules are the weaker ones.
pub(crate) const EDITED: i32 = 1 << 30;

/// A leaf with a trailer has this bit in its number if it was written by an edit that moved the bytes behind
/// it: its number does not say where it belongs, and nor do those of leaves behind it.
pub(crate) const SHIFTED: u32 = 1 << 29;

/// A tuple in the making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) seq: i32,
    /// The pieces of the data, one after the other.
    pub(crate) data: Option<&'a [&'a [u8]]>,
    pub(crate) trailer: Option<TrailerDraft>,
    pub(crate) tids: Option<&'a [ItemPointerData]>,
    pub(crate) bounds: Option<&'a [I64]>,
}

impl Draft<'_> {
    /// Stores the tuple, its data copied straight to where they stay.
    #[inline]
    pub(crate) fn insert<S: ChunkStore>(
        &self,
        store: &mut S,
    ) -> Result<ItemPointer, Failure<S::Error>> {
        let pieces = self.data.unwrap_or_default();
        let trailer = if self.trailer.is_some() { TRAILER_LEN } else { 0 };
        let data_len = pieces.iter().map(|piece| piece.len()).sum::<usize>() + trailer;
        let len = match (self.tids, self.bounds) {
            (Some(tids), Some(_)) => node_len(self.data.map(|_| data_len), tids.len()),
            (Some(tids), None) => flat_root_len(data_len, tids.len()),
            (None, _) => leaf_len(data_len),
        };
        store.insert_with(len, |target| self.fill(target, data_len)).map_err(Failure::Store)
    }

    /// Writes the tuple over all of `target`, which is as long as it; its data, the trailer included, have
    /// `data_len` bytes.
    #[inline]
    pub(crate) fn fill(&self, target: &mut [u8], data_len: usize) {
        let columns = Columns {
            data: self.data.is_some(),
            tids: self.tids.is_some(),
            bounds: self.bounds.is_some(),
        };
        let mut end = encode_head(target, columns, self.seq);
        if let Some(pieces) = self.data {
            encode_data_head(&mut target[end..], data_len);
            end += 4;
            for piece in pieces {
                target[end..end + piece.len()].copy_from_slice(piece);
                end += piece.len();
            }
            if let Some(draft) = self.trailer {
                let number = (self.seq & !EDITED).cast_unsigned();
                let trailer = draft.trailer(number, pieces.iter().copied());
                target[end..end + TRAILER_LEN].copy_from_slice(trailer.as_bytes());
                end += TRAILER_LEN;
            }
        }
        if let Some(tids) = self.tids {
            end = pad(target, end, Alignment::Int);
            end = encode_array(target, end, TID_TYPE, tids.len(), tids.as_bytes());
        }
        if let Some(bounds) = self.bounds {
            end = pad(target, end, Alignment::Double);
            encode_array(target, end, INT8_TYPE, bounds.len(), bounds.as_bytes());
        }
    }
}
