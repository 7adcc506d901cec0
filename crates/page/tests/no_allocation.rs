//! Whoever loads rows by the million brings a buffer, and then no row costs an allocation: neither making
//! it nor placing it, nor looking for room, nor reading it back.
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]
use allocation_counter::measure;
use pgtoast_base::{BlockNumber, BlockSize, OffsetNumber, Xid, maxalign};
use pgtoast_page::{
    AttributeDescriptor, HeapTuple, Item, PageMut, TrailingPointers, TupleDescriptor, Value,
    set_checksum,
};

const SIZE: BlockSize = BlockSize::KIB_8;
const ROWS: u32 = if cfg!(miri) { 300 } else { 10_000 };

fn columns() -> [AttributeDescriptor<'static>; 6] {
    let column = |len, by_value, align, storage| {
        AttributeDescriptor::from_catalog(len, by_value, align, storage).unwrap()
    };
    [
        column(4, true, b'i', b'p'),
        column(8, true, b'd', b'p'),
        column(1, true, b'c', b'p'),
        column(-1, false, b'i', b'x'),
        column(-1, false, b'i', b'm'),
        column(-2, false, b'c', b'p'),
    ]
}

#[test]
fn the_counter_counts() {
    assert_eq!(measure(|| drop(std::hint::black_box(vec![0_u8; 100]))).count_total, 1);
}

#[test]
fn forming_and_adding_ten_thousand_rows_allocates_nothing() {
    let columns = columns();
    let descriptor = TupleDescriptor::new(&columns).unwrap();
    let (mut bytes, mut buffer) = (vec![0; SIZE.bytes()], vec![0; SIZE.bytes()]);
    let text = [&[0x28, 0, 0, 0][..], b"seven "].concat();
    let long = [&[0x00, 4, 0, 0][..], &[b'x'; 252]].concat();
    let (mut rows, mut pages) = (0, 0);
    let info = measure(|| {
        let mut page = PageMut::init(&mut bytes, SIZE, 0).unwrap();
        for row in 0..ROWS {
            let (id, at, flag) = (row.to_le_bytes(), u64::from(row).to_le_bytes(), [1]);
            let text = if row % 3 == 0 { Value::Null } else { Value::stored(&text) };
            let long = if row % 5 == 0 { Value::stored(&long) } else { Value::Null };
            let [id, at, flag] = [&id[..], &at, &flag].map(Value::stored);
            let values = [id, at, flag, text, long, Value::stored(b"name\0")];
            let mut tuple = descriptor.form(&values, &mut buffer).unwrap();
            tuple.header_mut().set_inserted(Xid::FROZEN, 0);
            if maxalign(tuple.bytes().len()) > usize::from(page.page().heap_free_bytes()) {
                pages += 1;
                set_checksum(page.into_bytes(), SIZE, BlockNumber::new(pages)).unwrap();
                page = PageMut::init(&mut bytes, SIZE, 0).unwrap();
            }
            let tid = page.insert_tuple(BlockNumber::new(pages), tuple.bytes()).unwrap();
            let Ok(Item::Normal(stored)) = page.page().item(tid.item) else {
                panic!("just put there")
            };
            let mut read = [Value::Null; 6];
            HeapTuple::parse(stored).unwrap().deform_into(descriptor, &mut read).unwrap();
            rows += 1;
        }
    });
    assert!(rows == ROWS && pages > 1, "{rows} rows, {pages} pages");
    assert_eq!((info.count_total, info.bytes_total), (0, 0));
}

/// Compaction moves what is in the way through a page on the stack.
#[test]
fn changing_a_page_allocates_nothing() {
    let (mut heap, mut index) = (vec![0; SIZE.bytes()], vec![0; SIZE.bytes()]);
    let tuple = {
        let mut buffer = vec![0; 100];
        let columns = columns();
        let descriptor = TupleDescriptor::new(&columns).unwrap();
        descriptor.form(&[Value::stored(&[1; 4])], &mut buffer).unwrap().bytes().to_vec()
    };
    let info = measure(|| {
        let mut page = PageMut::init(&mut heap, SIZE, 0).unwrap();
        while page.add_tuple(&tuple).is_ok() {}
        for item in (1..100).step_by(3).map(OffsetNumber::new) {
            page.set_unused(item).unwrap();
        }
        page.compact(TrailingPointers::Drop).unwrap();
        page.add_tuple(&tuple).unwrap();
        page.compact(TrailingPointers::Drop).unwrap();
        let mut page = PageMut::init(&mut index, SIZE, 16).unwrap();
        for _ in 0..100 {
            page.insert_item(OffsetNumber::FIRST, &[1; 20]).unwrap();
        }
        page.delete_items(&[3, 5, 50, 99].map(OffsetNumber::new)).unwrap();
        page.delete_item(OffsetNumber::new(7)).unwrap();
    });
    assert_eq!((info.count_total, info.bytes_total), (0, 0));
}
