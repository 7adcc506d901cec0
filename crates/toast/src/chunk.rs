//! One row of a TOAST relation.
//!
//! ```text
//! byte 0          18          20         22     23        hoff       +4 or +8    +4
//!      | header … | infomask2 | infomask | hoff | bitmap  | chunk_id | chunk_seq | len << 2 | data … |
//!                   `- 11 bits: attributes, 3 or 5                                 `- or a short header
//! ```
//! A relation made for direct values has five columns. A plain chunk there has nulls in the last two,
//! or was written before they were added; a direct value's tuple has a null `chunk_id`.
//!
//! Source: `toast_internals.c`, `toast_save_datum`; `htup_details.h` (REL_18).
use pgtoast_base::{Alignment, ItemPointer, Oid8, maxalign};
use pgtoast_page::{
    AttributeDescriptor, AttributeLen, HeapTuple, HeapTupleMut, Infomask, Storage, TupleDescriptor,
    TupleError, TupleHeader, Value,
};
use pgtoast_varlena::{LONG_HEADER_LEN, Varlena, long_header};

use crate::{ToastError, ValueIdWidth};

/// The columns of a plain relation, and of one made for direct values.
const PLAIN_ATTRIBUTES: u16 = 3;
const DIRECT_ATTRIBUTES: u16 = 5;

/// A piece of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Which value.
    pub value_id: Oid8,
    /// Which piece, from 0; what a broken tuple holds may be anything.
    #[doc(alias = "chunk_seq")]
    pub seq: i32,
    /// The payload, no header in it.
    #[doc(alias = "chunk_data")]
    pub data: &'a [u8],
    /// Where the tuple is, for errors.
    pub tid: Option<ItemPointer>,
}

impl<'a> Chunk<'a> {
    /// The chunk of a heap tuple, `None` for a tuple of a direct value. `tid` is where the tuple is,
    /// if the caller knows.
    ///
    /// # Errors
    /// [`ToastError::ChunkTuple`] for a tuple of another shape, [`ToastError::ChunkToasted`],
    /// [`ToastError::ChunkData`].
    #[inline]
    pub fn parse(
        tuple: &'a [u8],
        width: ValueIdWidth,
        tid: Option<ItemPointer>,
    ) -> Result<Option<Self>, ToastError> {
        let Ok(heap_tuple) = HeapTuple::new(tuple) else {
            return Err(ToastError::ChunkTuple { attributes: 0, tid });
        };
        let header = heap_tuple.header();
        let attributes = header.natts();
        let bad_tuple = ToastError::ChunkTuple { attributes, tid };
        if attributes != PLAIN_ATTRIBUTES && attributes != DIRECT_ATTRIBUTES {
            return Err(bad_tuple);
        }
        let hoff = usize::from(header.hoff());
        let mut data_starts = TupleHeader::LEN;
        if header.infomask().contains(Infomask::HAS_NULL) {
            // One byte has the bits of up to five columns, set where the column is not null.
            let Some(bitmap) = tuple.get(TupleHeader::LEN) else { return Err(bad_tuple) };
            match bitmap & 0b111 {
                0b111 => {}
                bits if bits & 1 == 0 => return Ok(None),
                _ => return Err(bad_tuple),
            }
            data_starts += 1;
        }
        if hoff < data_starts {
            return Err(bad_tuple);
        }
        let Some(columns) = tuple.get(hoff..) else { return Err(bad_tuple) };
        let (value_id, rest) = match width {
            ValueIdWidth::Oid => match columns.split_first_chunk() {
                Some((id, rest)) => (u64::from(u32::from_le_bytes(*id)), rest),
                None => return Err(bad_tuple),
            },
            ValueIdWidth::Oid8 => match columns.split_first_chunk() {
                Some((id, rest)) => (u64::from_le_bytes(*id), rest),
                None => return Err(bad_tuple),
            },
        };
        let value_id = Oid8::new(value_id);
        let Some((seq, data)) = rest.split_first_chunk() else { return Err(bad_tuple) };
        let seq = i32::from_le_bytes(*seq);
        match Varlena::parse(data, 0) {
            Ok((Varlena::Long(data) | Varlena::Short(data), _)) => {
                Ok(Some(Self { value_id, seq, data, tid }))
            }
            Ok((Varlena::Compressed(_) | Varlena::External(_), _)) => {
                Err(ToastError::ChunkToasted { value_id, chunk: seq, tid })
            }
            Err(error) => Err(ToastError::ChunkData { tid, error }),
        }
    }

    /// Makes the tuple of a plain relation at the start of `target`, as long as
    /// [`tuple_len`](Self::tuple_len) says. Who inserts it, and where, its header does not say yet, as with
    /// [`TupleDescriptor::form`].
    ///
    /// # Errors
    /// [`ToastError::ValueId`], [`ToastError::Varlena`] for more bytes than a datum has, and
    /// [`ToastError::Tuple`] for a target that is too short.
    pub fn form<'t>(
        &self,
        width: ValueIdWidth,
        target: &'t mut [u8],
    ) -> Result<HeapTupleMut<'t>, ToastError> {
        width.check(self.value_id)?;
        let (needed, room) = (self.tuple_len(width), target.len());
        let header = long_header(self.data.len())?;
        let Some(target) = target.get_mut(..needed) else {
            return Err(TupleError::TargetRoom { needed, room }.into());
        };
        // Formed without data, which is then copied once, to its place.
        let (id, seq) = (self.value_id.get().to_le_bytes(), self.seq.to_le_bytes());
        let values = [&id[..width.bytes()], &seq, &NO_DATA].map(Value::stored);
        let columns = columns(width);
        let data_start = TupleDescriptor::new(&columns)?.form(&values, target)?.bytes().len();
        target[data_start - LONG_HEADER_LEN..data_start].copy_from_slice(&header);
        target[data_start..].copy_from_slice(self.data);
        Ok(HeapTupleMut::new(target)?)
    }

    /// How long its tuple is in a plain relation, in bytes.
    #[must_use]
    pub const fn tuple_len(&self, width: ValueIdWidth) -> usize {
        let columns = width.bytes() + size_of::<i32>() + LONG_HEADER_LEN;
        maxalign(TupleHeader::LEN) + columns + self.data.len()
    }
}

/// A datum with a long header and nothing behind it.
const NO_DATA: [u8; LONG_HEADER_LEN] = [16, 0, 0, 0];

/// `chunk_id`, `chunk_seq`, `chunk_data`. All are plain, so no header becomes short.
const fn columns(width: ValueIdWidth) -> [AttributeDescriptor<'static>; 3] {
    let id = match width {
        ValueIdWidth::Oid => (AttributeLen::Fixed(4), Alignment::Int),
        ValueIdWidth::Oid8 => (AttributeLen::Fixed(8), Alignment::Double),
    };
    [
        plain(id.0, id.1),
        plain(AttributeLen::Fixed(4), Alignment::Int),
        plain(AttributeLen::Varlena, Alignment::Int),
    ]
}

const fn plain(len: AttributeLen, alignment: Alignment) -> AttributeDescriptor<'static> {
    let by_value = matches!(len, AttributeLen::Fixed(_));
    let storage = Storage::Plain;
    AttributeDescriptor { len, by_value, alignment, storage, is_dropped: false, missing: None }
}
