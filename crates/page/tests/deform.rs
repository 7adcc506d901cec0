//! Attributes of tuples: those of a real server against `tuple_data_split`, every form of value and
//! alignment, and every way a tuple can lie about them.
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]
mod support;

use pgtoast_base::{Alignment, BlockSize, OffsetNumber};
use pgtoast_page::{
    AttributeDescriptor, Datum, HeapTuple, Item, Page, TupleDescriptor, TupleError, Value,
};
use pgtoast_varlena::{Varlena, VarlenaError};
use support::*;

/// Every attribute, once through each of the two ways, which have to agree.
fn deform<'a>(
    bytes: &'a [u8],
    columns: &'a [AttributeDescriptor<'a>],
) -> Result<Vec<Value<'a>>, TupleError> {
    let tuple = HeapTuple::new(bytes).unwrap();
    let descriptor = TupleDescriptor::new(columns).unwrap();
    let walked = tuple.deform(descriptor).and_then(|walk| {
        walk.map(|attribute| attribute.map(|attribute| attribute.value)).collect()
    });
    let mut target = vec![Value::Null; columns.len()];
    let filled = tuple.deform_into(descriptor, &mut target).map(|count| target[..count].to_vec());
    assert_eq!(walked, filled);
    walked
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

// The table has "char", int8, a dropped int4, texts with short, long and compressed headers, int2[],
// an empty text, an array aligned to 8, uuid, name, a PLAIN text, bool, and two columns added later.
#[test]
fn every_attribute_is_what_tuple_data_split_says() {
    let page = Page::parse(FORMS, BlockSize::KIB_8).unwrap();
    let columns = forms_columns();
    let mut expected = include_str!("../testdata/forms.attributes").lines();
    for (item, _) in page.items() {
        let Ok(Item::Normal(bytes)) = page.item(item) else { panic!("five stored tuples") };
        for (index, value) in deform(bytes, &columns).unwrap().into_iter().enumerate() {
            let value = match value {
                Value::Null | Value::Missing(_) => "NULL".to_owned(),
                Value::Stored(datum) => {
                    assert_eq!(&bytes[datum.offset..][..datum.bytes.len()], datum.bytes);
                    hex(datum.bytes)
                }
            };
            assert_eq!(expected.next().unwrap(), format!("{item} {} {value}", index + 1));
        }
    }
    assert_eq!(expected.next(), None);
}

#[test]
fn columns_added_later_are_missing_from_older_tuples_only() {
    let page = Page::parse(FORMS, BlockSize::KIB_8).unwrap();
    let columns = forms_columns();
    let later = |item| {
        let Ok(Item::Normal(bytes)) = page.item(OffsetNumber::new(item)) else { panic!("stored") };
        deform(bytes, &columns).unwrap()[13..].to_vec()
    };
    let old = [Value::Missing(Some(b"\x0dlater")), Value::Missing(Some(&[42, 0, 0, 0]))];
    assert_eq!(later(1), old);
    assert_eq!(later(4), old);
    let Value::Stored(Datum { bytes: b"\x09now", .. }) = later(5)[0] else { panic!("stored") };
    assert_eq!(later(5)[1], Value::Null);
}

#[test]
fn a_dropped_column_is_walked_past_and_flagged() {
    let page = Page::parse(FORMS, BlockSize::KIB_8).unwrap();
    let columns = forms_columns();
    let Ok(Item::Normal(bytes)) = page.item(OffsetNumber::FIRST) else { panic!("stored") };
    let tuple = HeapTuple::parse(bytes).unwrap();
    let walk = tuple.deform(TupleDescriptor::new(&columns).unwrap()).unwrap();
    assert_eq!(walk.len(), 15);
    let dropped: Vec<_> = walk.map(Result::unwrap).filter(|it| it.is_dropped).collect();
    let [gone] = dropped[..] else { panic!("one dropped column") };
    assert_eq!(gone.number, 3);
    let Value::Stored(datum) = gone.value else { panic!("the value is still there") };
    assert_eq!(datum.fixed().map(i32::from_le_bytes), Some(77));
    assert_eq!(datum.fixed().map(i64::from_le_bytes), None);
}

// The same text with a one-byte and with a four-byte header is the same value; a reader that aligned
// by type alone, or stopped at the first short header, lost the rest of the row.
#[test]
fn short_and_long_headers_of_one_value_compare_equal_and_the_next_attribute_is_found() {
    let columns =
        [column(1, Alignment::Char), column(-1, Alignment::Int), column(2, Alignment::Short)];
    for (datum, at, next) in [(&b"\x05x"[..], 25, 28), (b"\x14\0\0\0x", 28, 34)] {
        let mut bytes = tuple_header(3, &[]);
        append(&mut bytes, Alignment::Char, b"c");
        let alignment = if datum.len() == 2 { Alignment::Char } else { Alignment::Int };
        assert_eq!(append(&mut bytes, alignment, datum), at);
        assert_eq!(append(&mut bytes, Alignment::Short, &[1, 2]), next);
        let values = deform(&bytes, &columns).unwrap();
        let Value::Stored(text) = values[1] else { panic!("stored") };
        assert_eq!((text.bytes, text.offset), (datum, at));
        let (Varlena::Short(payload) | Varlena::Long(payload)) = text.varlena().unwrap() else {
            panic!("a plain value")
        };
        assert_eq!(payload, b"x");
        assert_eq!(values[2], Value::Stored(Datum { bytes: &[1, 2], offset: next }));
    }
}

#[test]
fn every_kind_of_value_lies_at_its_alignment_behind_any_number_of_bytes() {
    use Alignment::{Char, Double, Int, Short};
    let long = b"\x20\x00\x00\x00data"; // its first byte is not zero, so it is found where it lies
    let huge = [&[0, 4, 0, 0][..], &[7; 252]].concat(); // and here it is zero: 256 bytes
    let pointer = [&[1, 18][..], &[9; 16]].concat();
    let compressed = b"\x32\x00\x00\x00\x64\x00\x00\x00zzzz";
    for lead in 0..9 {
        for (attlen, alignment, placed, datum) in [
            (1, Char, Char, &b"1"[..]),
            (2, Short, Short, b"22"),
            (4, Int, Int, b"4444"),
            (8, Double, Double, b"88888888"),
            (16, Char, Char, b"0123456789abcdef"),
            (6, Short, Short, b"666666"),
            (12, Double, Double, b"twelve bytes"),
            (-2, Char, Char, b"c string\0"),
            (-2, Char, Char, b"\0"),
            (-1, Int, Char, b"\x03"),
            (-1, Double, Char, b"\x0bshort"),
            (-1, Int, Int, long),
            (-1, Double, Double, long),
            (-1, Int, Int, &huge),
            (-1, Double, Double, &huge),
            (-1, Int, Char, &pointer),
            (-1, Int, Int, compressed),
        ] {
            let datum = if attlen == -1 && datum == b"\x0bshort" { &datum[..5] } else { datum };
            let mut columns = vec![column(1, Char); lead];
            columns.extend([column(attlen, alignment), column(1, Char)]);
            let natts = u16::try_from(columns.len()).unwrap();
            let mut bytes = tuple_header(natts, &[]);
            bytes.extend(vec![0xee; lead]);
            let offset = append(&mut bytes, placed, datum);
            append(&mut bytes, Char, b"e");
            let values = deform(&bytes, &columns).unwrap();
            assert_eq!(values[lead], Value::Stored(Datum { bytes: datum, offset }), "{attlen}");
            let end = offset + datum.len();
            assert_eq!(values[lead + 1], Value::Stored(Datum { bytes: b"e", offset: end }));
        }
    }
}

#[test]
fn nulls_take_no_room_and_missing_attributes_no_bit() {
    let mut columns = vec![column(4, Alignment::Int); 12];
    columns[10].missing = Some(b"late");
    let mut bytes = tuple_header(10, &[1, 2, 8, 9]);
    for number in [3, 4, 5, 6, 7, 10_u8] {
        bytes.extend([number; 4]);
    }
    let values = deform(&bytes, &columns).unwrap();
    for (number, value) in (1..).zip(&values) {
        match number {
            1 | 2 | 8 | 9 => assert_eq!(*value, Value::Null),
            11 => assert_eq!(*value, Value::Missing(Some(b"late"))),
            12 => assert_eq!(*value, Value::Missing(None)),
            _ => {
                let Value::Stored(datum) = value else { panic!("attribute {number} is stored") };
                assert_eq!(datum.bytes, [number; 4]);
            }
        }
    }
}

#[test]
fn an_all_null_row_and_a_row_without_columns_are_rows() {
    let bytes = tuple_header(3, &[1, 2, 3]);
    assert_eq!(bytes.len(), 24);
    let columns =
        [column(4, Alignment::Int), column(-1, Alignment::Int), column(-2, Alignment::Char)];
    assert_eq!(deform(&bytes, &columns), Ok(vec![Value::Null; 3]));
    assert_eq!(deform(&tuple_header(0, &[]), &[]), Ok(vec![]));
    assert_eq!(deform(&tuple_header(0, &[]), &columns), Ok(vec![Value::Missing(None); 3]));
}

#[test]
fn more_attributes_than_the_table_has_are_an_error() {
    let error = TupleError::AttributeCount { stored: 3, table: 2 };
    assert_eq!(deform(&tuple_header(3, &[]), &[column(1, Alignment::Char); 2]), Err(error));
}

#[test]
fn no_more_columns_than_a_tuple_can_have_make_a_descriptor() {
    let columns = vec![column(1, Alignment::Char); 1665];
    assert!(TupleDescriptor::new(&columns[1..]).is_ok());
    let error = TupleError::ColumnCount { count: 1665 };
    assert_eq!(TupleDescriptor::new(&columns).unwrap_err(), error);
}

/// One attribute behind a byte; its bytes from byte 25 on.
fn lie(attlen: i16, alignment: Alignment, data: &[u8]) -> TupleError {
    let mut bytes = tuple_header(2, &[]);
    append(&mut bytes, Alignment::Char, b"c");
    bytes.extend(data);
    deform(&bytes, &[column(1, Alignment::Char), column(attlen, alignment)]).unwrap_err()
}

#[test]
fn every_way_an_attribute_can_lie_has_its_located_error() {
    use Alignment::{Char, Double, Int};
    let end = |offset, needed, available| TupleError::AttributeEnd {
        attribute: 2,
        offset,
        needed,
        available,
    };
    let start = |offset, len| TupleError::AttributeStart { attribute: 2, offset, len };
    let varlena = |error| TupleError::Varlena { attribute: 2, error };

    assert_eq!(lie(4, Int, b""), start(28, 25));
    assert_eq!(lie(8, Double, b"123456"), start(32, 31));
    assert_eq!(lie(1, Char, b""), end(25, 1, 0));
    assert_eq!(lie(16, Char, b"0123456789abcde"), end(25, 16, 15));
    assert_eq!(lie(-1, Int, b""), start(28, 25));
    assert_eq!(lie(-1, Int, b"\0\0\0"), end(28, 1, 0));
    assert_eq!(lie(-1, Int, b"\x0babc"), end(25, 5, 4));
    assert_eq!(lie(-1, Int, b"\0\0\0\x20\0\0"), end(28, 4, 3));
    assert_eq!(lie(-1, Int, b"\0\0\0\x24\0\0\0data"), end(28, 9, 8));
    assert_eq!(lie(-1, Int, &[1]), end(25, 2, 1));
    assert_eq!(lie(-1, Int, &[1, 18, 0]), end(25, 18, 3));
    assert_eq!(lie(-2, Char, b"abc"), TupleError::Unterminated { attribute: 2, offset: 25 });
    assert_eq!(lie(-2, Char, b""), TupleError::Unterminated { attribute: 2, offset: 25 });
    for tag in [1, 2, 3] {
        let error = VarlenaError::MemoryOnlyTag { offset: 26, tag };
        assert_eq!(lie(-1, Int, &[1, tag, 0, 0, 0, 0, 0, 0, 0, 0]), varlena(error));
    }
    let error = VarlenaError::UnknownTag { offset: 26, tag: 99 };
    assert_eq!(lie(-1, Int, &[1, 99, 0, 0]), varlena(error));
}

// A value's header was overwritten with a length of 1, with nearly 1 GiB, with one byte past the
// tuple's end. The server crashed on the first. The attributes before it are still there, those
// behind it are named, and nothing as long as the header says is ever allocated.
#[test]
fn a_nonsense_length_spares_the_attributes_before_it_and_names_those_behind() {
    let columns = [
        column(4, Alignment::Int),
        column(-1, Alignment::Int),
        column(4, Alignment::Int),
        column(4, Alignment::Int),
        column(4, Alignment::Int),
    ];
    let row = |header: u32| {
        let mut bytes = tuple_header(4, &[3]);
        append(&mut bytes, Alignment::Int, &[5, 0, 0, 0]);
        append(&mut bytes, Alignment::Int, &header.to_le_bytes());
        bytes.extend([b'v'; 600]);
        append(&mut bytes, Alignment::Int, &[6, 0, 0, 0]);
        bytes
    };
    assert!(deform(&row(604 << 2), &columns).is_ok());
    let too_short = VarlenaError::HeaderLength { offset: 28, len: 1, header: 4 };
    for (header, error) in [
        (1 << 2, TupleError::Varlena { attribute: 2, error: too_short }),
        (0xffff_fffc, end(0x3fff_ffff)),
        (609 << 2, end(609)),
    ] {
        let bytes = row(header);
        let tuple = HeapTuple::parse(&bytes).unwrap();
        let walk = tuple.deform(TupleDescriptor::new(&columns).unwrap()).unwrap();
        let values: Vec<_> = walk.map(|it| it.map(|it| it.value)).collect();
        let first = Value::Stored(Datum { bytes: &[5, 0, 0, 0], offset: 24 });
        let expected = [
            Ok(first),
            Err(error),
            Ok(Value::Null),
            Err(TupleError::AttributeUnreachable { attribute: 4, broken: 2 }),
            Ok(Value::Missing(None)),
        ];
        assert_eq!(values, expected);
    }
    fn end(needed: usize) -> TupleError {
        TupleError::AttributeEnd { attribute: 2, offset: 28, needed, available: 608 }
    }
}

#[test]
fn a_target_with_too_little_room_is_an_error_and_one_with_more_is_fine() {
    let columns = [column(1, Alignment::Char); 3];
    let descriptor = TupleDescriptor::new(&columns).unwrap();
    let mut bytes = tuple_header(3, &[]);
    bytes.extend(b"abc");
    let tuple = HeapTuple::parse(&bytes).unwrap();
    let error = TupleError::Room { found: 3, room: 2 };
    assert_eq!(tuple.deform_into(descriptor, &mut [Value::Null; 2]), Err(error));
    assert_eq!(tuple.deform_into(descriptor, &mut [Value::Null; 9]), Ok(3));
}
