//! The rows of a TOAST relation: three columns, or five in one made for direct values; ids of 32 or 64
//! bits; and everything a row can be instead.
use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Oid8};
use pgtoast_toast::{Chunk, ToastError, ValueIdWidth};
use pgtoast_varlena::VarlenaError;

/// A heap tuple: its attribute count, its null bitmap if it has one, and its columns.
fn tuple(attributes: u8, bitmap: Option<u8>, columns: &[&[u8]]) -> Vec<u8> {
    let mut tuple = vec![0; 18];
    tuple.extend([attributes, 0, u8::from(bitmap.is_some()), 0x09, 24, bitmap.unwrap_or(0)]);
    columns.iter().for_each(|column| tuple.extend(*column));
    tuple
}

fn tid() -> Option<ItemPointer> {
    Some(ItemPointer::new(BlockNumber::new(3), OffsetNumber::new(2)))
}

const ID: [u8; 4] = 16_562_u32.to_le_bytes();
const ID8: [u8; 8] = ((7 << 32) + 16_562_u64).to_le_bytes();
const SEQ: [u8; 4] = 9_i32.to_le_bytes();
const DATA: [u8; 7] = [7 << 2, 0, 0, 0, b'a', b'b', b'c'];

fn parse(tuple: &[u8]) -> Result<Option<Chunk<'_>>, ToastError> {
    Chunk::parse(tuple, ValueIdWidth::Oid, tid())
}

#[test]
fn a_chunk_has_an_id_of_either_width_a_number_and_data() {
    let expected = |id| Chunk { value_id: Oid8::new(id), seq: 9, data: b"abc", tid: tid() };
    let narrow = tuple(3, None, &[&ID, &SEQ, &DATA]);
    assert_eq!(parse(&narrow), Ok(Some(expected(16_562))));
    let wide = tuple(3, None, &[&ID8, &SEQ, &DATA]);
    let chunk = Chunk::parse(&wide, ValueIdWidth::Oid8, tid());
    assert_eq!(chunk, Ok(Some(expected((7 << 32) + 16_562))));
}

#[test]
fn a_short_header_is_read_though_servers_write_long_ones() {
    let short = tuple(3, None, &[&ID, &SEQ, &[4 << 1 | 1, b'a', b'b', b'c']]);
    assert_eq!(parse(&short).unwrap().unwrap().data, b"abc");
}

#[test]
fn a_plain_chunk_among_five_columns_has_nulls_in_two_or_lacks_them() {
    let upgraded = tuple(3, None, &[&ID, &SEQ, &DATA]);
    let with_nulls = tuple(5, Some(0b00111), &[&ID, &SEQ, &DATA]);
    assert_eq!(parse(&with_nulls), parse(&upgraded));
    assert_eq!(parse(&with_nulls).unwrap().unwrap().data, b"abc");
}

#[test]
fn a_tuple_of_a_direct_value_is_no_plain_chunk_and_no_error() {
    let leaf = tuple(5, Some(0b00110), &[&SEQ, &DATA]);
    let node = tuple(5, Some(0b11010), &[&SEQ]);
    assert_eq!((parse(&leaf), parse(&node)), (Ok(None), Ok(None)));
}

#[test]
fn data_that_is_toasted_itself_is_told_apart() {
    let compressed = [14 << 2 | 2, 0, 0, 0, 32, 0, 0, 0, 2, b'a', 0x0f, 1, 0x0d, 0];
    let pointer = [0x01, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for data in [&compressed[..], &pointer] {
        let error = ToastError::ChunkToasted { value_id: Oid8::new(16_562), chunk: 9, tid: tid() };
        assert_eq!(parse(&tuple(3, None, &[&ID, &SEQ, data])), Err(error));
    }
}

#[test]
fn data_that_is_no_varlena_says_what_is_wrong_with_it() {
    let long = [0xfc, 0xff, 0xff, 0xff, 1, 2, 3];
    let error = VarlenaError::Truncated { offset: 0, needed: 0x3fff_ffff, available: 7 };
    let error = ToastError::ChunkData { tid: tid(), error };
    assert_eq!(parse(&tuple(3, None, &[&ID, &SEQ, &long])), Err(error));
    let none = [1 << 2, 0, 0, 0];
    let error = VarlenaError::HeaderLength { offset: 0, len: 1, header: 4 };
    let error = ToastError::ChunkData { tid: tid(), error };
    assert_eq!(parse(&tuple(3, None, &[&ID, &SEQ, &none])), Err(error));
}

#[test]
fn any_other_tuple_is_no_chunk() {
    let whole = tuple(3, None, &[&ID, &SEQ, &DATA]);
    for attributes in [0, 1, 2, 4, 6, 255] {
        let error = ToastError::ChunkTuple { attributes: attributes.into(), tid: tid() };
        assert_eq!(parse(&tuple(attributes, None, &[&ID, &SEQ, &DATA])), Err(error));
    }
    let error = ToastError::ChunkTuple { attributes: 3, tid: tid() };
    // A null in the number or the data; a header that says it ends inside itself, or behind the tuple.
    assert_eq!(parse(&tuple(3, Some(0b101), &[&ID, &DATA])), Err(error));
    assert_eq!(parse(&tuple(3, Some(0b011), &[&ID, &SEQ])), Err(error));
    for hoff in [0, 22, 36, 255] {
        let mut tuple = whole.clone();
        tuple[22] = hoff;
        assert!(parse(&tuple).is_err(), "hoff {hoff}");
    }
    for len in 0..whole.len() {
        assert!(parse(&whole[..len]).is_err(), "cut to {len} bytes");
    }
}
