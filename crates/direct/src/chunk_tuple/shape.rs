//! Where the parts of a tuple are that somebody else wrote.
use core::ops::Range;

use pgtoast_base::{Alignment, ItemPointer, ItemPointerData};
use pgtoast_page::{
    AttributeDescriptor, AttributeLen, HeapTuple, Infomask, Storage, TupleDescriptor, TupleHeader,
    Value,
};
use pgtoast_varlena::Varlena;
use zerocopy::little_endian::I64;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::ChunkTuple;
use super::layout::{
    ATTRIBUTES, BITMAP_MASK, COUNT_MASK, HOFF, Head, INT8_TYPE, LEAF_BITMAP, LEAF_HEAD_LEN,
    OLD_ATTRIBUTES, TID_TYPE,
};
use crate::tree::to_i64;
use crate::{ChunkFault, DirectError};

/// Where the parts of a tuple are, so that it can be held and looked into again and again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) seq: i32,
    pub(crate) data: Option<Range<usize>>,
    pub(crate) tids: Option<Range<usize>>,
    pub(crate) bounds: Option<Range<usize>>,
}

impl Shape {
    #[inline]
    pub(crate) fn of(tuple: &[u8], tid: ItemPointer) -> Result<Self, DirectError> {
        match plain_leaf(tuple) {
            Some(seq) => {
                Ok(Self { seq, data: Some(LEAF_HEAD_LEN..tuple.len()), tids: None, bounds: None })
            }
            None => Self::of_any(tuple).map_err(|fault| DirectError::Chunk { tid, fault }),
        }
    }

    fn of_any(tuple: &[u8]) -> Result<Self, ChunkFault> {
        let heap_tuple = HeapTuple::parse(tuple).map_err(ChunkFault::Tuple)?;
        let header = heap_tuple.header();
        let natts = header.natts();
        if !(OLD_ATTRIBUTES..=ATTRIBUTES).contains(&natts) {
            return Err(ChunkFault::Attributes { found: natts });
        }
        let bitmap = tuple.get(TupleHeader::LEN).copied().unwrap_or_default();
        if !header.infomask().contains(Infomask::HAS_NULL) || bitmap & 1 == 1 {
            return Err(ChunkFault::PlainValue);
        }
        let descriptor = TupleDescriptor::new(&DESCRIPTOR).map_err(ChunkFault::Tuple)?;
        let mut values = [Value::Null; 5];
        heap_tuple.deform_into(descriptor, &mut values).map_err(ChunkFault::Tuple)?;
        let [_, seq, data, tids, bounds] = values;
        let Value::Stored(seq) = seq else { return Err(ChunkFault::NoNumber) };
        let seq = i32::from_le_bytes(seq.fixed().ok_or(ChunkFault::NoNumber)?);
        let data = match data {
            Value::Stored(datum) => Some(payload(3, datum.bytes, datum.offset)?),
            _ => None,
        };
        let array = |column, value, element_type, element_len| match value {
            Value::Stored(datum) => {
                let payload = payload(column, datum.bytes, datum.offset)?;
                elements(column, tuple, payload, element_type, element_len).map(Some)
            }
            _ => Ok(None),
        };
        let tids = array(4, tids, TID_TYPE, 6)?;
        let bounds = array(5, bounds, INT8_TYPE, 8)?;
        Ok(Self { seq, data, tids, bounds })
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.tids.is_none()
    }

    pub(crate) fn view<'t>(&self, tuple: &'t [u8]) -> ChunkTuple<'t> {
        ChunkTuple {
            seq: self.seq,
            data: self.data.clone().map(|range| &tuple[range]),
            tids: self.tids.as_ref().map(|_| self.tids(tuple)),
            bounds: self.bounds.as_ref().map(|_| self.bounds(tuple)),
        }
    }

    /// The ids of the children; none where there is no such column.
    #[inline]
    pub(crate) fn tids<'t>(&self, tuple: &'t [u8]) -> &'t [ItemPointerData] {
        slice_of(tuple, self.tids.as_ref())
    }

    /// The bounds; none where there is no such column.
    #[inline]
    pub(crate) fn bounds<'t>(&self, tuple: &'t [u8]) -> &'t [I64] {
        slice_of(tuple, self.bounds.as_ref())
    }
}

#[inline]
fn slice_of<'t, T: FromBytes + Immutable + KnownLayout + Unaligned>(
    tuple: &'t [u8],
    range: Option<&Range<usize>>,
) -> &'t [T] {
    let bytes = range.and_then(|range| tuple.get(range.clone())).unwrap_or_default();
    <[T]>::ref_from_bytes(bytes).unwrap_or_default()
}

/// The number of a leaf as our writers make it, whose data fill the tuple from byte 32 on; `None` for
/// every other tuple. Nearly every tuple that is read is such a leaf, so that this is all there is to do.
#[inline]
pub(crate) fn plain_leaf(tuple: &[u8]) -> Option<i32> {
    let (head, rest) = Head::ref_from_prefix(tuple).ok()?;
    let word = *rest.first_chunk::<4>()?;
    let is_leaf = head.hoff == HOFF
        && head.bitmap & BITMAP_MASK == LEAF_BITMAP
        && head.infomask.get() & Infomask::HAS_NULL.bits() != 0
        && head.infomask2.get() & COUNT_MASK == ATTRIBUTES
        && u64::from(u32::from_le_bytes(word)) == (rest.len() as u64) << 2;
    is_leaf.then(|| head.seq.get())
}

/// Where the payload of a plain varlena is in the tuple; `offset` is where the datum starts.
fn payload(column: u16, datum: &[u8], offset: usize) -> Result<Range<usize>, ChunkFault> {
    match Varlena::parse(datum, 0) {
        Ok((Varlena::Long(payload) | Varlena::Short(payload), len)) => {
            Ok(offset + len - payload.len()..offset + len)
        }
        Ok((Varlena::Compressed(_) | Varlena::External(_), _)) => {
            Err(ChunkFault::Toasted { column })
        }
        Err(error) => Err(ChunkFault::Varlena { column, error }),
    }
}

/// Where the elements of an array are in the tuple, `payload` being all of it but the length.
fn elements(
    column: u16,
    tuple: &[u8],
    payload: Range<usize>,
    element_type: u32,
    element_len: usize,
) -> Result<Range<usize>, ChunkFault> {
    let fault =
        |part, found: i64, expected: i64| Err(ChunkFault::Array { column, part, found, expected });
    let bytes = &tuple[payload.clone()];
    let Some((words, rest)) = bytes.split_first_chunk::<20>() else {
        return fault("bytes", to_i64(bytes.len()), 20);
    };
    let word = |index: usize| {
        let at = 4 * index;
        i64::from(i32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]))
    };
    let fields = [("dimensions", 1), ("data offset", 0), ("element type", i64::from(element_type))];
    for (index, (part, expected)) in fields.into_iter().enumerate() {
        if word(index) != expected {
            return fault(part, word(index), expected);
        }
    }
    if word(4) != 1 {
        return fault("lower bound", word(4), 1);
    }
    let expected = to_i64(rest.len() / element_len);
    if word(3) < 1 || word(3) != expected || !rest.len().is_multiple_of(element_len) {
        return fault("elements", word(3), expected.max(1));
    }
    Ok(payload.end - rest.len()..payload.end)
}

/// The columns of a chunk relation, as the tuples of direct values need them described: `chunk_id` is null
/// in them, so that its width does not matter.
pub(super) const DESCRIPTOR: [AttributeDescriptor<'static>; 5] = [
    column(AttributeLen::Fixed(4), true, Alignment::Int),
    column(AttributeLen::Fixed(4), true, Alignment::Int),
    column(AttributeLen::Varlena, false, Alignment::Int),
    column(AttributeLen::Varlena, false, Alignment::Int),
    column(AttributeLen::Varlena, false, Alignment::Double),
];

const fn column(
    len: AttributeLen,
    by_value: bool,
    alignment: Alignment,
) -> AttributeDescriptor<'static> {
    AttributeDescriptor {
        len,
        by_value,
        alignment,
        storage: Storage::Plain,
        is_dropped: false,
        missing: None,
    }
}
