//! Tuples made of values: those of a server made again byte for byte, every rule of placement, and
//! every way in which bytes are no value.
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]
mod support;

use pgtoast_base::{Alignment, BlockNumber, BlockSize, ItemPointer, OffsetNumber, Xid};
use pgtoast_page::{
    AttributeDescriptor, HeapTuple, HeapTupleMut, Infomask, Infomask2, Item, Page, Storage,
    TupleDescriptor, TupleError, Value,
};
use pgtoast_varlena::VarlenaError;
use support::*;

fn form(columns: &[AttributeDescriptor<'_>], values: &[Value<'_>]) -> Result<Vec<u8>, TupleError> {
    let descriptor = TupleDescriptor::new(columns).unwrap();
    let mut target = vec![0xee; 9000];
    let len = descriptor.form(values, &mut target)?.bytes().len();
    assert_eq!(descriptor.tuple_len(values), Ok(len));
    assert!(target[len..].iter().all(|byte| *byte == 0xee), "nothing is written past the tuple");
    target.truncate(len);
    // The same into a buffer that just holds it, and into one that does not.
    let mut exact = vec![0x11; len];
    descriptor.form(values, &mut exact).unwrap();
    assert_eq!(exact, target);
    let error = TupleError::TargetRoom { needed: len, room: len - 1 };
    assert_eq!(descriptor.form(values, &mut exact[..len - 1]).err(), Some(error));
    Ok(target)
}

fn plain(attlen: i16, alignment: Alignment) -> AttributeDescriptor<'static> {
    AttributeDescriptor { storage: Storage::Plain, ..column(attlen, alignment) }
}

/// Attributes of a tuple, those that it has.
fn values<'a>(bytes: &'a [u8], columns: &'a [AttributeDescriptor<'a>]) -> Vec<Value<'a>> {
    let tuple = HeapTuple::parse(bytes).unwrap();
    let mut values = vec![Value::Null; columns.len()];
    tuple.deform_into(TupleDescriptor::new(columns).unwrap(), &mut values).unwrap();
    values.truncate(tuple.header().natts().into());
    values
}

fn same_but_for_transactions(formed: &[u8], original: &[u8]) {
    let (ours, theirs) = (HeapTuple::parse(formed).unwrap(), HeapTuple::parse(original).unwrap());
    assert_eq!(formed[22..], original[22..]);
    assert_eq!(ours.header().natts(), theirs.header().natts());
    let held = theirs.header().infomask().difference(Infomask::TRANSACTION_MASK);
    assert_eq!(ours.header().infomask(), held);
}

#[test]
fn the_tuples_of_a_server_come_out_byte_for_byte() {
    let columns = forms_columns();
    let chunk = [plain(4, Alignment::Int), plain(4, Alignment::Int), plain(-1, Alignment::Int)];
    let mut count = 0;
    for (page, columns) in [(FORMS, &columns[..]), (TOAST, &chunk)] {
        let page = Page::parse(page, BlockSize::KIB_8).unwrap();
        for (item, _) in page.items() {
            let Ok(Item::Normal(original)) = page.item(item) else { continue };
            let formed = form(columns, &values(original, columns)).unwrap();
            same_but_for_transactions(&formed, original);
            count += 1;
        }
    }
    assert!(count >= 8, "{count} tuples");
}

#[test]
fn a_missing_value_is_stored_in_the_new_tuple() {
    let mut late = column(4, Alignment::Int);
    late.missing = Some(&[42, 0, 0, 0]);
    let columns = [column(1, Alignment::Char), late, column(-1, Alignment::Int)];
    let values = [Value::stored(b"x"), Value::Missing(late.missing), Value::Missing(None)];
    let mut expected = tuple_header(3, &[3]);
    expected.extend(b"x\0\0\0\x2a\0\0\0");
    assert_eq!(form(&columns, &values).unwrap()[22..], expected[22..]);
}

// A value of 126 bytes is the longest that takes a short header, and starts anywhere; a server does so
// for every column whose storage is not plain, and never for a compressed value.
#[test]
fn a_header_is_shortened_where_storage_allows_and_the_payload_is_at_most_126_bytes() {
    for (payload_len, storage, stored_len) in [
        (0, Storage::Extended, 1),
        (126, Storage::Extended, 127),
        (126, Storage::Main, 127),
        (126, Storage::External, 127),
        (127, Storage::Extended, 131),
        (126, Storage::Plain, 130),
        (0, Storage::Plain, 4),
    ] {
        let mut text = column(-1, Alignment::Int);
        text.storage = storage;
        let columns = [column(1, Alignment::Char), text];
        let payload = vec![b'a'; payload_len];
        let mut datum = u32::try_from((payload_len + 4) << 2).unwrap().to_le_bytes().to_vec();
        datum.extend(&payload);
        let formed = form(&columns, &[Value::stored(b"c"), Value::stored(&datum)]).unwrap();
        let pad = if stored_len == payload_len + 1 { 0 } else { 3 };
        assert_eq!(formed.len(), 24 + 1 + pad + stored_len, "{payload_len} {storage:?}");
        assert_eq!(formed[formed.len() - payload_len..], payload);
        assert_eq!(formed[25..25 + pad], [0; 3][..pad]);
    }
    let compressed = [0x32, 0, 0, 0, 0x64, 0, 0, 0, 1, 2, 3, 4];
    let columns = [column(1, Alignment::Char), column(-1, Alignment::Double)];
    let formed = form(&columns, &[Value::stored(b"c"), Value::stored(&compressed)]).unwrap();
    assert_eq!(formed[24..], [b"c\0\0\0\0\0\0\0", &compressed[..]].concat());
}

// Inserted by SQL, a column of plain storage can hold a short header: the value came so.
#[test]
fn a_short_header_stays_short_whatever_the_storage() {
    let columns = [plain(-1, Alignment::Int), plain(-1, Alignment::Int)];
    let formed = form(&columns, &[Value::stored(b"\x05x"), Value::stored(b"\x07xy")]).unwrap();
    assert_eq!(formed[24..], *b"\x05x\x07xy");
}

#[test]
fn flags_say_what_the_tuple_holds() {
    let columns =
        [column(4, Alignment::Int), column(-1, Alignment::Int), column(-2, Alignment::Char)];
    let (number, text, pointer) =
        (&[1, 2, 3, 4][..], &b"\x05x"[..], [&[1, 18][..], &[9; 16]].concat());
    let (null, value) = (Value::Null, Value::stored);
    let (fixed, varwidth) = (Infomask::empty(), Infomask::HAS_VARWIDTH);
    for (values, flags, hoff) in [
        (&[][..], fixed, 24),
        (&[value(number)], fixed, 24),
        (&[value(number), value(text)], varwidth, 24),
        (&[value(number), null, value(b"c\0")], varwidth | Infomask::HAS_NULL, 24),
        (&[value(number), value(&pointer)], varwidth | Infomask::HAS_EXTERNAL, 24),
        (&[null, null, null], Infomask::HAS_NULL, 24),
    ] {
        let formed = form(&columns, values).unwrap();
        let header = *HeapTuple::parse(&formed).unwrap().header();
        assert_eq!((header.infomask(), header.hoff()), (flags, hoff), "{values:?}");
        assert_eq!(
            (usize::from(header.natts()), header.infomask2()),
            (values.len(), Infomask2::empty())
        );
        assert_eq!(header.ctid(), ItemPointer::INVALID);
    }
}

#[test]
fn the_bitmap_grows_the_header_from_the_ninth_attribute_on() {
    for (count, hoff) in [(1, 24), (8, 24), (9, 32), (72, 32), (73, 40), (1600, 224), (1664, 232)] {
        let columns = vec![column(1, Alignment::Char); count];
        let values: Vec<_> = (0..count)
            .map(|at| if at % 3 == 1 { Value::Null } else { Value::stored(b"x") })
            .collect();
        let nulls: Vec<_> =
            (0..count).filter(|at| at % 3 == 1).map(|at| u16::try_from(at + 1).unwrap()).collect();
        let formed = form(&columns, &values).unwrap();
        let header = tuple_header(u16::try_from(count).unwrap(), &nulls);
        let hoff = if nulls.is_empty() { 24 } else { hoff };
        assert_eq!((formed[22], header.len()), (hoff, hoff.into()), "{count}");
        assert_eq!(formed[22..header.len()], header[22..]);
        assert_eq!(formed.len(), header.len() + count - nulls.len());
    }
}

#[test]
fn bytes_that_are_no_value_are_refused_and_the_attribute_named() {
    let columns =
        [column(4, Alignment::Int), column(-1, Alignment::Int), column(-2, Alignment::Char)];
    let good = [Value::stored(&[1, 2, 3, 4]), Value::stored(b"\x05x"), Value::stored(b"c\0")];
    let length =
        |attribute, expected, found| TupleError::DatumLength { attribute, expected, found };
    let varlena = |error| TupleError::Varlena { attribute: 2, error };
    for (index, bytes, error) in [
        (0, &[1, 2, 3][..], length(1, 4, 3)),
        (0, &[1, 2, 3, 4, 5], length(1, 4, 5)),
        (1, b"\x05x!", length(2, 2, 3)),
        (1, b"", varlena(VarlenaError::Truncated { offset: 0, needed: 1, available: 0 })),
        (1, b"\x07x", varlena(VarlenaError::Truncated { offset: 0, needed: 3, available: 2 })),
        (
            1,
            &[1, 3, 0, 0, 0, 0, 0, 0, 0, 0],
            varlena(VarlenaError::MemoryOnlyTag { offset: 1, tag: 3 }),
        ),
        (1, &[1, 99], varlena(VarlenaError::UnknownTag { offset: 1, tag: 99 })),
        (1, &[8, 0, 0, 0], varlena(VarlenaError::HeaderLength { offset: 0, len: 2, header: 4 })),
        (2, b"c", TupleError::Unterminated { attribute: 3, offset: 0 }),
        (2, b"c\0d\0", length(3, 2, 4)),
        (2, b"", TupleError::Unterminated { attribute: 3, offset: 0 }),
    ] {
        let mut values = good;
        values[index] = Value::stored(bytes);
        assert_eq!(form(&columns, &values), Err(error), "{bytes:?}");
        assert_eq!(TupleDescriptor::new(&columns).unwrap().data_len(&values), Err(error));
        // A buffer that is too small as well does not hide what is wrong.
        let descriptor = TupleDescriptor::new(&columns).unwrap();
        assert_eq!(descriptor.form(&values, &mut [0; 10]).err(), Some(error));
    }
    let error = TupleError::AttributeCount { stored: 3, table: 2 };
    assert_eq!(form(&columns[..2], &good), Err(error));
}

// Frozen, deleted, deleted under a lock: the flag words that pageinspect shows for such tuples.
#[test]
fn a_header_is_stamped_as_a_server_stamps_it() {
    let columns = [plain(4, Alignment::Int), plain(4, Alignment::Int), plain(-1, Alignment::Int)];
    let chunk = [&[9, 0, 0, 0][..], &[0; 4], b"\x38\0\0\x000123456789"];
    let mut target = [0; 64];
    let descriptor = TupleDescriptor::new(&columns).unwrap();
    let tuple = descriptor.form(&chunk.map(Value::stored), &mut target).unwrap();
    assert_eq!(tuple.bytes().len(), 46);
    let mut tuple = HeapTupleMut::new(tuple.into_bytes()).unwrap();
    tuple.header_mut().set_inserted(Xid::new(730), 5);
    let words = |tuple: &HeapTupleMut<'_>| {
        let header = *tuple.tuple().header();
        (header.infomask().bits(), header.infomask2().bits() | header.natts())
    };
    assert_eq!(words(&tuple), (0x0802, 0x0003));
    tuple.header_mut().set_frozen();
    assert_eq!(words(&tuple), (0x0b02, 0x0003));
    assert!(tuple.tuple().header().is_frozen());
    let tid = ItemPointer::new(BlockNumber::new(7), OffsetNumber::new(3));
    tuple.header_mut().set_deleted(Xid::new(731), 6, tid);
    assert_eq!(words(&tuple), (0x0302, 0x2003));
    let header = *tuple.tuple().header();
    assert_eq!((header.xmin(), header.xmax(), header.field3()), (Xid::new(730), Xid::new(731), 6));
    assert_eq!(header.ctid(), tid);
    // Inserting it anew forgets all of that.
    tuple.header_mut().set_inserted(Xid::new(740), 0);
    assert_eq!(words(&tuple), (0x0802, 0x0003));
}
