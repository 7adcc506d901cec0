//! Chunks lie in a relation in whatever order space was free. A dumper that read the file from front to
//! back and took that order for the value's gave wrong output or crashed; its cure was to read the file
//! again for every chunk.
//!
//! The file is a PostgreSQL 15 server's: twelve values of 4000 bytes, some deleted and vacuumed away,
//! then one of 30 000 bytes whose chunk 15 lies on block 6, ahead of chunk 7 on block 8.
mod common;

use std::collections::HashMap;

use common::{chunks, external, pages, pointer};
use pgtoast_toast::{
    Assembler, ByteSlice, ChunkIndex, ChunkOrder, ChunkPlan, ChunkSize, Detoaster, ValueIdWidth,
    page_chunks,
};

const FILE: &[u8] = include_bytes!("data/out_of_order.toast");
const BIG: &str = "011234750000307500008640000076400000";
/// The others that are left, and the number their first line starts with.
const SMALL: [(&str, u32); 9] = [
    ("0112a40f0000a00f00007840000076400000", 1_000),
    ("0112a40f0000a00f00007d40000076400000", 6_000),
    ("0112a40f0000a00f00007e40000076400000", 7_000),
    ("0112a40f0000a00f00007f40000076400000", 8_000),
    ("0112a40f0000a00f00008140000076400000", 10_000),
    ("0112a40f0000a00f00008240000076400000", 11_000),
    ("0112a40f0000a00f00008340000076400000", 12_000),
    ("0112a40f0000a00f00008440000076400000", 50_000),
    ("0112a40f0000a00f00008540000076400000", 51_000),
];

/// Numbers from `first` on, eight characters each.
fn text(first: u32, len: usize) -> Vec<u8> {
    (first..).flat_map(|number| format!("{number:.>8}").into_bytes()).take(len).collect()
}

#[test]
fn the_file_is_out_of_order() {
    let Some(value_id) = pointer(BIG).value_id() else { panic!("has an id") };
    let seqs: Vec<i32> =
        chunks(FILE).iter().filter(|chunk| chunk.value_id == value_id).map(|c| c.seq).collect();
    assert_eq!(seqs, [0, 1, 2, 3, 4, 5, 6, 15, 7, 8, 9, 10, 11, 12, 13, 14]);
}

#[test]
fn one_pass_over_the_file_puts_every_value_together() {
    let mut values = HashMap::new();
    for (hex, first, len) in
        SMALL.iter().map(|&(hex, first)| (hex, first, 4000)).chain([(BIG, 100_000, 30_000)])
    {
        let plan = ChunkPlan::new(&pointer(hex), ChunkSize::default()).unwrap();
        let assembler = Assembler::new(plan, ChunkOrder::Any);
        values.insert(plan.value_id(), (assembler, vec![0_u8; plan.len()], text(first, len)));
    }
    let mut reads = 0;
    for (block, page) in pages(FILE) {
        reads += 1;
        for chunk in page_chunks(&page, block, ValueIdWidth::Oid) {
            let chunk = chunk.unwrap();
            // Vacuum took every chunk of the deleted values, so each belongs to one of these.
            let (assembler, target, _) = values.get_mut(&chunk.value_id).unwrap();
            assembler.accept(&chunk, target).unwrap();
        }
    }
    assert_eq!(reads, FILE.len() / 8192);
    for (assembler, target, expected) in values.values() {
        assert_eq!(assembler.finish(), Ok(()));
        assert!(target == expected, "value {}", assembler.plan().value_id());
    }
}

#[test]
fn the_same_value_comes_from_a_source_in_any_order_and_through_an_index() {
    let expected = text(100_000, 30_000);
    let big = external(BIG);
    let mut by_index =
        Detoaster::new(chunks(FILE).into_iter().collect::<ChunkIndex<'_>>(), ChunkSize::default());
    let source = common::Listed::new(chunks(FILE), ChunkOrder::Any);
    let mut in_file_order = Detoaster::new(source, ChunkSize::default());
    assert!(by_index.detoast(&big).unwrap().as_bytes() == expected);
    assert!(in_file_order.detoast(&big).unwrap().as_bytes() == expected);
    let mut target = vec![0; 30_000];
    in_file_order.detoast_into(&big, &mut target).unwrap();
    assert!(target == expected);
    for slice in [ByteSlice::new(29_900, 100), ByteSlice::new(13_000, 3000), ByteSlice::new(0, 9)] {
        let expected = &expected[slice.of(30_000)];
        assert!(by_index.slice_bytes(&big, slice).unwrap().as_bytes() == expected);
        assert!(in_file_order.slice_bytes(&big, slice).unwrap().as_bytes() == expected);
    }
    // Each chunk found by going through all of the file: the order of the file is no index order.
    let source = common::Listed::new(chunks(FILE), ChunkOrder::Index);
    assert!(Detoaster::new(source, ChunkSize::default()).detoast(&big).is_err());
}
