//! Chunks lie in a relation in whatever order space was free. A dumper that read the file from front to
//! back and took that order for the value's gave wrong output or crashed; its cure was to read the file
//! again for every chunk.
//!
//! The file is a PostgreSQL 15 server's: twelve values of 4000 bytes, some deleted and vacuumed away,
//! then one of 30 000 bytes whose chunk 15 lies on block 6, ahead of chunk 7 on block 8.
mod common;

use std::collections::HashMap;

use common::{chunks, external, pages, pointer};
use pgtoast_base::Oid8;
use pgtoast_toast::{
    Assembler, ByteSlice, Chunk, ChunkIndex, ChunkOrder, ChunkPlan, ChunkSize, Detoaster,
    ToastError, Value, ValueIdWidth, ValueScan, page_chunks,
};
use pgtoast_varlena::ToastPointer;

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
fn a_scan_hands_out_each_value_when_its_last_chunk_has_come() {
    let wanted = SMALL.iter().map(|&(hex, first)| (hex, first, 4000));
    let wanted: HashMap<_, _> = wanted
        .chain([(BIG, 100_000, 30_000)])
        .map(|(hex, first, len)| (pointer(hex).value_id().unwrap(), text(first, len)))
        .collect();
    let pointers = SMALL.iter().map(|(hex, _)| pointer(hex)).chain([pointer(BIG), pointer(BIG)]);
    let mut scan = ValueScan::new(pointers, ChunkSize::default()).unwrap();
    let mut order = Vec::new();
    for chunk in chunks(FILE) {
        scan.accept(&chunk, |pointer, stored| {
            let value = Value::of_stored(pointer, stored).unwrap();
            let value_id = pointer.value_id().unwrap();
            assert!(value.as_bytes() == wanted[&value_id], "value {value_id}");
            order.push(value_id.get());
        })
        .unwrap();
    }
    assert_eq!(scan.finish().next(), None);
    // The last one begins on block 1 and is complete on the last block.
    assert_eq!(order.len(), 10);
    assert_eq!(order.last(), Some(&16_518));
}

#[test]
fn a_fault_in_a_scan_costs_its_value_only() {
    let pointers: Vec<_> = SMALL.iter().map(|(hex, _)| pointer(hex)).collect();
    let mut scan = ValueScan::new(pointers.clone(), ChunkSize::default()).unwrap();
    let (mut complete, mut faults) = (0, Vec::new());
    for mut chunk in chunks(FILE) {
        match (chunk.value_id.get(), chunk.seq) {
            (16_509, 1) => continue,                         // a hole
            (16_510, 2) => continue,                         // cut off
            (16_511, 1) => chunk.data = &chunk.data[..1992], // a wrong size
            (16_513, 2) => chunk.seq = 0x6032_e974,          // nonsense
            (16_514, _) => continue,                         // nothing at all
            (16_515, 2) => chunk.seq = 1,                    // ... which has 1996 bytes, not 8
            _ => {}
        }
        let verdict = scan.accept(&chunk, |_, _| complete += 1);
        faults.extend(verdict.err());
    }
    assert_eq!(complete, 3);
    let id = Oid8::new;
    assert!(
        matches!(faults[..], [
        ToastError::ChunkSize { value_id: a, chunk: 1, .. },
        ToastError::ChunkOutOfRange { value_id: b, found: 0x6032_e974, .. },
        ToastError::ChunkSize { value_id: c, chunk: 1, found: 8, expected: 1996, .. },
    ] if [a, b, c] == [id(16_511), id(16_513), id(16_515)]),
        "{faults:?}"
    );
    let missing = |value_id, chunk| {
        let value_id = id(value_id);
        ToastError::MissingChunk { value_id, chunk, chunk_count: 3 }
    };
    let left: Vec<_> = scan.finish().map(|(_, error)| error).collect();
    let [hole, rest @ ..] = &left[..] else { panic!("{left:?}") };
    assert!(matches!(hole, ToastError::ChunkNumber { found: 2, expected: 1, .. }), "{hole}");
    assert_eq!(rest, [missing(16_510, 2), missing(16_514, 0)]);

    // A chunk that comes again when its value is complete.
    let mut scan = ValueScan::new(pointers, ChunkSize::default()).unwrap();
    let all = chunks(FILE);
    all.iter().for_each(|chunk| scan.accept(chunk, |_, _| ()).unwrap());
    let again = scan.accept(&all[0], |_, _| panic!("handed out again"));
    assert!(matches!(again, Err(ToastError::ChunkNumber { found: 0, expected: 1, .. })));
    // Said once.
    assert_eq!(scan.accept(&all[0], |_, _| panic!("handed out again")), Ok(()));
    assert_eq!(scan.finish().next(), None);
}

/// The relation in parts, each read by a scan of its own, put together in any order: the values that lie across
/// a border come, and each once.
#[test]
fn parts_of_a_relation_make_the_values_of_the_whole() {
    let all = chunks(FILE);
    let pointers: Vec<_> =
        SMALL.iter().map(|(hex, _)| pointer(hex)).chain([pointer(BIG)]).collect();
    let scan = ValueScan::new(pointers, ChunkSize::default()).unwrap();
    for part_len in 1..=all.len() {
        for order in [false, true] {
            let mut came = Vec::new();
            let mut take = |pointer: &ToastPointer, stored: &[u8]| {
                let value = Value::of_stored(pointer, stored).unwrap().into_vec();
                came.push((pointer.value_id().unwrap(), value));
            };
            let mut parts: Vec<_> = all
                .chunks(part_len)
                .map(|part| {
                    let mut scan = scan.clone();
                    part.iter().for_each(|chunk| scan.accept(chunk, &mut take).unwrap());
                    scan
                })
                .collect();
            if order {
                parts.reverse();
            }
            let mut whole = scan.clone();
            for part in parts {
                assert_eq!(whole.absorb(part, &mut take), []);
            }
            assert_eq!(whole.finish().next(), None);
            came.sort();
            let expected = SMALL.iter().map(|&(hex, first)| (hex, first, 4000));
            let mut expected: Vec<_> = expected
                .chain([(BIG, 100_000, 30_000)])
                .map(|(hex, first, len)| (pointer(hex).value_id().unwrap(), text(first, len)))
                .collect();
            expected.sort();
            assert!(came == expected, "parts of {part_len} chunks");
        }
    }
}

#[test]
fn what_two_parts_have_too_much_of_is_found_when_they_are_put_together() {
    let pointers = SMALL.iter().map(|(hex, _)| pointer(hex));
    let scan = ValueScan::new(pointers, ChunkSize::default()).unwrap();
    let (first, second) = (SMALL[0].0, SMALL[1].0);
    let of = |hex: &str| {
        let value_id = pointer(hex).value_id();
        chunks(FILE).into_iter().filter(move |chunk| Some(chunk.value_id) == value_id)
    };
    let read = |chunks: &mut dyn Iterator<Item = Chunk<'static>>| {
        let mut scan = scan.clone();
        chunks.for_each(|chunk| scan.accept(&chunk, |_, _| ()).unwrap());
        scan
    };
    // The first value is whole in both; of the second both have chunk 1.
    let mut one = read(&mut of(first).chain(of(second).take(2)));
    let other = read(&mut of(first).chain(of(second).skip(1)));
    let faults = one.absorb(other, |_, _| panic!("nothing is sound"));
    let faults: Vec<_> =
        faults.iter().map(|(pointer, error)| (pointer.value_id(), *error)).collect();
    let id = |hex| pointer(hex).value_id();
    assert!(
        matches!(
            faults[..],
            [
                (a, ToastError::ChunkNumber { found: 0, expected: 1, .. }),
                (b, ToastError::ChunkNumber { found: 1, expected: 2, .. }),
            ] if a == id(first) && b == id(second)
        ),
        "{faults:?}"
    );
    // Said once; of the others no chunk came.
    assert_eq!(one.finish().count(), SMALL.len() - 2);

    // Whole in one, begun in the other.
    for (left, right) in [(3, 1), (1, 3)] {
        let mut one = read(&mut of(first).take(left));
        let faults = one.absorb(read(&mut of(first).take(right)), |_, _| panic!("not sound"));
        assert!(
            matches!(faults[..], [(_, ToastError::ChunkNumber { found: 0, .. })]),
            "{faults:?}"
        );
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
