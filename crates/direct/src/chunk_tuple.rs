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
mod layout;
mod shape;

use pgtoast_base::{Alignment, ItemPointer, ItemPointerData};
use zerocopy::little_endian::I64;

use crate::DirectError;
use crate::draft::Draft;

use self::layout::{ARRAY_HEAD_LEN, FIXED_LEN};
pub(crate) use self::layout::{
    Columns, INT8_TYPE, LEAF_HEAD_LEN, TID_TYPE, encode_array, encode_data_head, encode_head,
    flat_root_len, leaf_len, node_len, pad,
};
pub(crate) use self::shape::{Shape, plain_leaf};

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
        let data = self.data.as_ref().map(core::slice::from_ref);
        let Self { seq, tids, bounds, .. } = *self;
        let data_len = self.data.map_or(0, <[u8]>::len);
        Draft { seq, data, trailer: None, tids, bounds }.fill(target, data_len);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use pgtoast_base::{BlockNumber, OffsetNumber};
    use pgtoast_page::{TupleDescriptor, Value};
    use zerocopy::IntoBytes;

    use super::shape::DESCRIPTOR;
    use super::*;
    use crate::ChunkFault;

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
