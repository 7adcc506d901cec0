//! One row of a chunk relation, made for a direct value.
//!
//! ```text
//! byte 0       12     18          20         22   23       24    28             32
//! leaf | xacts | ctid | infomask2 | infomask | 24 | bitmap | seq | len << 2     | data …      |
//! flat |                                                   | seq | len << 2     | data …      | pad | tids |
//! node |                                                   | seq | tids | pad   | bounds      |
//!                       `- 5 attributes       `- 0x06 leaf, 0x0e flat root, 0x1a node, 0x1e node with data
//!
//! array  0          4            8             12        16         20            24
//!        | len << 2 | dimensions | data offset | element | elements | lower bound | elements …
//!                     `- 1         `- 0         `- 27, 20  `- count   `- 1
//! ```
//! The columns are `chunk_id oid|oid8` (always null here), `chunk_seq int4`, `chunk_data bytea`,
//! `chunk_tids tid[]` and `chunk_tid_offsets int8[]`; `tids` is aligned to 4, `bounds` to 8. All are stored
//! plain, so that writers give every datum a 4-byte header. Relations that were filled by SQL, or before
//! the last two columns were added, hold short headers and tuples of three attributes, and are read too.
//!
//! Sources: the Direct TOAST proposal; `htup_details.h`, `array.h`, `pg_type.dat` (REL_18).
use core::ops::Range;

use pgtoast_base::{Alignment, ItemPointer, ItemPointerData};
use pgtoast_page::{
    AttributeDescriptor, AttributeLen, HeapTuple, Infomask, Storage, TupleDescriptor, TupleHeader,
    Value,
};
use pgtoast_varlena::Varlena;
use zerocopy::little_endian::{I32, I64, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::tree::to_i64;
use crate::{ChunkFault, DirectError};

/// A tuple of a direct value: a leaf has data alone, an interior node the ids of its children and the
/// bounds of the bytes below them, a flat root the ids of all chunks but the last and that one's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkTuple<'a> {
    /// Its number in its value, from 0.
    #[doc(alias = "chunk_seq")]
    pub seq: i32,
    /// Bytes of the value, no header among them.
    #[doc(alias = "chunk_data")]
    pub data: Option<&'a [u8]>,
    /// Where its children are.
    #[doc(alias = "chunk_tids")]
    pub tids: Option<&'a [ItemPointerData]>,
    /// Which bytes below this node each child holds: one bound more than there are children. Nothing
    /// has checked them.
    #[doc(alias = "chunk_tid_offsets")]
    pub bounds: Option<&'a [I64]>,
}

impl<'a> ChunkTuple<'a> {
    /// The parts of a heap tuple. `tid` is where it is, for errors.
    ///
    /// # Errors
    /// [`DirectError::Chunk`] for anything but a tuple of a direct value.
    pub fn parse(tuple: &'a [u8], tid: ItemPointer) -> Result<Self, DirectError> {
        Ok(Shape::of(tuple, tid)?.view(tuple))
    }

    /// How many bytes [`encode`](Self::encode) takes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let mut end = FIXED_LEN;
        if let Some(data) = self.data {
            end += 4 + data.len();
        }
        if let Some(tids) = self.tids {
            end = Alignment::Int.up(end) + ARRAY_HEAD_LEN + size_of_val(tids);
        }
        if let Some(bounds) = self.bounds {
            end = Alignment::Double.up(end) + ARRAY_HEAD_LEN + size_of_val(bounds);
        }
        end
    }

    /// Writes the tuple over all of `target`, which has exactly [`encoded_len`](Self::encoded_len) bytes. Of
    /// the header, everything about transactions is left zero, and the tuple has no place yet.
    ///
    /// # Panics
    /// When `target` is of another length.
    pub fn encode(&self, target: &mut [u8]) {
        assert_eq!(target.len(), self.encoded_len(), "made for this tuple");
        let columns = Columns {
            data: self.data.is_some(),
            tids: self.tids.is_some(),
            bounds: self.bounds.is_some(),
        };
        let mut end = encode_head(target, columns, self.seq);
        if let Some(data) = self.data {
            encode_data_head(&mut target[end..], data.len());
            target[end + 4..end + 4 + data.len()].copy_from_slice(data);
            end += 4 + data.len();
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

/// The columns of a chunk relation, as the tuples of direct values need them described: `chunk_id` is null
/// in them, so that its width does not matter.
pub(crate) const DESCRIPTOR: [AttributeDescriptor<'static>; 5] = [
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

/// `pg_type.oid` of `tid` and `int8`.
pub(crate) const TID_TYPE: u32 = 27;
pub(crate) const INT8_TYPE: u32 = 20;

/// Header, bitmap and `chunk_seq`: where the first column starts that may be absent.
const FIXED_LEN: usize = size_of::<Head>();
/// Of an array with one dimension and no nulls.
const ARRAY_HEAD_LEN: usize = size_of::<ArrayHead>();
/// Where the data of a leaf with a 4-byte header starts.
pub(crate) const LEAF_HEAD_LEN: usize = FIXED_LEN + 4;

/// The bytes of a tuple before its first varlena.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    transactions: [u8; 12],
    ctid: ItemPointerData,
    infomask2: U16,
    infomask: U16,
    hoff: u8,
    bitmap: u8,
    seq: I32,
}
const _: () = assert!(size_of::<Head>() == 28 && HOFF as usize + 4 == size_of::<Head>());

const HOFF: u8 = 24;
const ATTRIBUTES: u16 = 5;
/// Before the last two columns were added.
const OLD_ATTRIBUTES: u16 = 3;
const COUNT_MASK: u16 = pgtoast_page::Infomask2::NATTS_MASK;
const BITMAP_MASK: u8 = 0x1f;
const SEQ_BIT: u8 = 0x02;
const DATA_BIT: u8 = 0x04;
const TIDS_BIT: u8 = 0x08;
const BOUNDS_BIT: u8 = 0x10;
const LEAF_BITMAP: u8 = SEQ_BIT | DATA_BIT;

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ArrayHead {
    length_word: U32,
    dimensions: I32,
    data_offset: I32,
    element_type: U32,
    count: I32,
    lower_bound: I32,
}
const _: () = assert!(size_of::<ArrayHead>() == 24);

/// How long the tuple of a leaf with so many bytes of data is.
pub(crate) const fn leaf_len(data: usize) -> usize {
    LEAF_HEAD_LEN + data
}

/// How long the tuple of a flat root with so many bytes of data and children is.
pub(crate) const fn flat_root_len(data: usize, children: usize) -> usize {
    Alignment::Int.up(leaf_len(data)) + ARRAY_HEAD_LEN + 6 * children
}

/// How long the tuple of an interior node is; only roots may have data.
pub(crate) const fn node_len(data: Option<usize>, children: usize) -> usize {
    let start = match data {
        Some(data) => Alignment::Int.up(leaf_len(data)),
        None => FIXED_LEN,
    };
    let tids = Alignment::Double.up(start + ARRAY_HEAD_LEN + 6 * children);
    tids + ARRAY_HEAD_LEN + 8 * (children + 1)
}

/// Which of the columns that may be null are not.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    pub(crate) data: bool,
    pub(crate) tids: bool,
    pub(crate) bounds: bool,
}

/// Writes header, bitmap and number, and says where they end.
#[inline]
pub(crate) fn encode_head(target: &mut [u8], columns: Columns, seq: i32) -> usize {
    let bit = |is_there: bool, bit| if is_there { bit } else { 0 };
    let head = Head {
        transactions: [0; 12],
        ctid: ItemPointerData::new(ItemPointer::INVALID),
        infomask2: U16::new(ATTRIBUTES),
        infomask: U16::new(Infomask::HAS_NULL.union(Infomask::HAS_VARWIDTH).bits()),
        hoff: HOFF,
        bitmap: SEQ_BIT
            | bit(columns.data, DATA_BIT)
            | bit(columns.tids, TIDS_BIT)
            | bit(columns.bounds, BOUNDS_BIT),
        seq: I32::new(seq),
    };
    target[..FIXED_LEN].copy_from_slice(head.as_bytes());
    FIXED_LEN
}

/// Writes the length word of so many bytes of data.
#[inline]
pub(crate) fn encode_data_head(target: &mut [u8], len: usize) {
    target[..4].copy_from_slice(&length_word(len + 4));
}

/// A datum's length with its header, shifted as a 4-byte header has it.
#[expect(clippy::cast_possible_truncation, reason = "a tuple has at most 32 KiB")]
fn length_word(len: usize) -> [u8; 4] {
    ((len as u32) << 2).to_le_bytes()
}

/// Zeros up to the alignment, and where they end.
pub(crate) fn pad(target: &mut [u8], end: usize, alignment: Alignment) -> usize {
    let start = alignment.up(end);
    target[end..start].fill(0);
    start
}

/// Writes an array at `start` and says where it ends.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a tuple has at most 32 KiB"
)]
pub(crate) fn encode_array(
    target: &mut [u8],
    start: usize,
    element_type: u32,
    count: usize,
    elements: &[u8],
) -> usize {
    let head = ArrayHead {
        length_word: U32::from_bytes(length_word(ARRAY_HEAD_LEN + elements.len())),
        dimensions: I32::new(1),
        data_offset: I32::new(0),
        element_type: U32::new(element_type),
        count: I32::new(count as i32),
        lower_bound: I32::new(1),
    };
    let (data, end) = (start + ARRAY_HEAD_LEN, start + ARRAY_HEAD_LEN + elements.len());
    target[start..data].copy_from_slice(head.as_bytes());
    target[data..end].copy_from_slice(elements);
    end
}

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

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use pgtoast_base::{BlockNumber, OffsetNumber};

    use super::*;

    fn tid(block: u32) -> ItemPointer {
        ItemPointer::new(BlockNumber::new(block), OffsetNumber::new(1))
    }

    fn form(values: &[Value<'_>]) -> Vec<u8> {
        let descriptor = TupleDescriptor::new(&DESCRIPTOR).unwrap();
        let mut target = vec![0xee; 4096];
        descriptor.form(values, &mut target).unwrap().bytes().to_vec()
    }

    fn array(element: u32, count: i32, elements: &[u8]) -> Vec<u8> {
        let words = [1, 0, element.cast_signed(), count, 1].map(i32::to_le_bytes).concat();
        let len = u32::try_from(24 + elements.len()).unwrap() << 2;
        [&len.to_le_bytes(), &words[..], elements].concat()
    }

    #[test]
    fn what_is_encoded_is_what_a_server_forms() {
        let tids: Vec<_> = [7, 70_000, 9].map(tid).map(ItemPointerData::new).to_vec();
        let bounds: Vec<_> = [0, 1996, 3992, 4000].map(I64::new).to_vec();
        let tid_array = array(27, 3, tids.as_bytes());
        let bound_array = array(20, 4, bounds.as_bytes());
        for data in [None, Some(&b""[..]), Some(b"a"), Some(&[7; 1996])] {
            for (tids, bounds) in
                [(None, None), (Some(&tids[..]), None), (Some(&tids[..]), Some(&bounds[..]))]
            {
                let chunk = ChunkTuple { seq: 5, data, tids, bounds };
                let bytea = data.map(|data| {
                    let len = u32::try_from(data.len() + 4).unwrap() << 2;
                    [&len.to_le_bytes(), data].concat()
                });
                let expected = form(&[
                    Value::Null,
                    Value::stored(&5_i32.to_le_bytes()),
                    bytea.as_deref().map_or(Value::Null, Value::stored),
                    tids.map_or(Value::Null, |_| Value::stored(&tid_array)),
                    bounds.map_or(Value::Null, |_| Value::stored(&bound_array)),
                ]);
                let mut target = vec![0xee; chunk.encoded_len()];
                chunk.encode(&mut target);
                if data.is_some() || tids.is_some() {
                    assert_eq!(target, expected);
                }
                assert_eq!(ChunkTuple::parse(&target, tid(1)), Ok(chunk));
            }
        }
        assert_eq!(node_len(None, 50), 784);
        assert_eq!(flat_root_len(1996, 99), 2646);
    }

    #[test]
    fn short_headers_and_three_attributes_are_read() {
        let number = 3_i32.to_le_bytes();
        let tuple = form(&[Value::Null, Value::stored(&number), Value::stored(b"\x07hi")]);
        let chunk = ChunkTuple::parse(&tuple, tid(1)).unwrap();
        assert_eq!((chunk.seq, chunk.data, chunk.tids), (3, Some(&b"hi"[..]), None));

        let long = array(27, 1, &tid(4).to_bytes());
        let short = [&[0x1b_u8 * 2 + 1][..], &long[4..]].concat();
        let tuple = form(&[
            Value::Null,
            Value::stored(&number),
            Value::stored(b"\x05x"),
            Value::stored(&short),
        ]);
        let chunk = ChunkTuple::parse(&tuple, tid(1)).unwrap();
        assert_eq!(chunk.tids, Some(&[ItemPointerData::new(tid(4))][..]));
    }

    #[test]
    fn an_array_of_another_kind_is_refused_with_its_column() {
        let number = 3_i32.to_le_bytes();
        let sound = array(27, 1, &tid(4).to_bytes());
        for (at, byte, part) in [
            (4, 2, "dimensions"),
            (8, 28, "data offset"),
            (12, 20, "element type"),
            (16, 2, "elements"),
            (20, 0, "lower bound"),
        ] {
            let mut bad = sound.clone();
            bad[at] = byte;
            let tuple =
                form(&[Value::Null, Value::stored(&number), Value::Null, Value::stored(&bad)]);
            match ChunkTuple::parse(&tuple, tid(1)) {
                Err(DirectError::Chunk {
                    fault: ChunkFault::Array { column: 4, part: found, .. },
                    ..
                }) => assert_eq!(found, part),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_tuple_of_a_plain_value_is_told_apart_by_its_id_alone() {
        let number = 3_i32.to_le_bytes();
        let tuple =
            form(&[Value::stored(&number), Value::stored(&number), Value::stored(b"\x05x")]);
        let error = DirectError::Chunk { tid: tid(1), fault: ChunkFault::PlainValue };
        assert_eq!(ChunkTuple::parse(&tuple, tid(1)), Err(error));
    }
}
