//! Values that lost their roots and nodes come back from the trailers of their leaves, or are refused.
mod common;

use common::value;
use pgtoast_base::{BlockSize, ItemPointer, Oid};
use pgtoast_codec::CompressionMethod;
use pgtoast_direct::{
    ChunkStore, ChunkTuple, DirectError, DirectRelation, Failure, GroupOptions, MemoryStore,
    Parameters, Rebuild, ValueTag,
};
use pgtoast_testkit::Rng;

fn relation(value: u64) -> DirectRelation {
    DirectRelation::new(Oid::new(1), Parameters::resilient(BlockSize::KIB_8))
        .with_tag(ValueTag::new(value))
}

/// Deletes every tuple that has children.
fn lose_nodes(store: &mut MemoryStore) -> usize {
    let has_children = |(tid, tuple): (ItemPointer, &[u8])| {
        let chunk = ChunkTuple::parse(tuple, tid).expect("a sound tuple");
        chunk.tids.map(|_| tid)
    };
    let nodes: Vec<_> = store.tuples().filter_map(has_children).collect();
    for tid in &nodes {
        store.delete(*tid).expect("it is there");
    }
    nodes.len()
}

fn scan(store: &MemoryStore) -> Rebuild {
    let mut rebuild = Rebuild::new(relation(0));
    for (tid, tuple) in store.tuples() {
        rebuild.add(tid, tuple);
    }
    rebuild
}

#[test]
fn a_thousand_values_come_back_whole() {
    let mut rng = Rng::new(1);
    let mut store = MemoryStore::new(BlockSize::KIB_8);
    let mut model = Vec::new();
    for id in 0..1000 {
        let len = rng.pick(&[1, 500, 1984, 1985, 5000, 40_000, 300_000]) + rng.below(50);
        let (relation, mut bytes) = (relation(id), rng.bytes(len));
        let mut pointer = relation.write(&mut store, &bytes).unwrap();
        // Some were edited since, in ways that leave numbers where they are.
        for _ in 0..id % 3 {
            let at = rng.below(bytes.len());
            bytes[at] ^= 0xff;
            let edited = relation.patch(&mut store, &pointer, at, &bytes[at..=at]).unwrap();
            for tid in edited.retired {
                // What old versions had may be there or not.
                if rng.chance(50) {
                    store.delete(tid).unwrap();
                }
            }
            bytes.extend_from_slice(b"more");
            pointer = relation.append(&mut store, &edited.pointer, b"more").unwrap().pointer;
        }
        model.push(bytes);
    }
    assert!(lose_nodes(&mut store) > 500);
    let rebuild = scan(&store);
    assert_eq!(rebuild.values().len(), 1000);
    for (id, bytes) in (0..).zip(&model) {
        let pointer = rebuild.restore(&mut store, id).unwrap();
        assert!(relation(id).read(&store, &pointer).unwrap() == *bytes, "{id}");
        relation(id).verify(&store, &pointer, |fault| panic!("{fault}"));
    }
}

#[test]
fn compressed_values_come_back_too() {
    let text: Vec<u8> =
        (0..400_000_u32).map(|at| b"some words again "[at as usize / 5 % 17]).collect();
    let mut store = MemoryStore::new(BlockSize::KIB_8);
    let small = GroupOptions::new(CompressionMethod::Lz4).with_group_bytes(4096).unwrap();
    relation(1).write_compressed(&mut store, CompressionMethod::Pglz, &text).unwrap().unwrap();
    relation(2).write_compressed(&mut store, CompressionMethod::Lz4, &text).unwrap().unwrap();
    relation(3).write_grouped(&mut store, small, &text).unwrap().unwrap();
    relation(4).write_grouped(&mut store, small, &text[..4000]).unwrap().unwrap();
    lose_nodes(&mut store);
    let rebuild = scan(&store);
    for id in 1..=4 {
        let pointer = rebuild.restore(&mut store, id).unwrap();
        let expected = if id == 4 { &text[..4000] } else { &text };
        assert!(relation(id).read(&store, &pointer).unwrap() == expected, "{id}");
    }
}

#[test]
fn a_value_that_lacks_a_leaf_or_was_shifted_is_refused() {
    let mut store = MemoryStore::new(BlockSize::KIB_8);
    let first = relation(1).write(&mut store, &value(20_000)).unwrap();
    let second = relation(2).write(&mut store, &value(20_000)).unwrap();
    let leaf = relation(1).tuples(&store, &first).unwrap()[4];
    store.delete(leaf).unwrap();
    // A full leaf goes here and another comes in there: as many leaves, all full, and none in its place.
    let cut = relation(2).remove_range(&mut store, &second, 1984 * 2, 1984).unwrap().pointer;
    relation(2).insert_range(&mut store, &cut, 1984 * 7, &[7; 1984]).unwrap();
    relation(3).write(&mut store, &value(20_000)).unwrap();
    let third = relation(3).writer(&mut store).stored_len();
    assert_eq!(third, 0);
    lose_nodes(&mut store);
    let tuples = store.tuples().count();
    let rebuild = scan(&store);
    let missing = DirectError::LeafMissing { value: 1, number: 4, count: 11 };
    assert_eq!(rebuild.restore(&mut store, 1), Err(Failure::Direct(missing)));
    let ambiguous = DirectError::LeavesAmbiguous { value: 2 };
    assert_eq!(rebuild.restore(&mut store, 2), Err(Failure::Direct(ambiguous)));
    assert_eq!(store.tuples().count(), tuples);
    assert_eq!(rebuild.newest(2).map(ValueTag::generation), Some(2));
    rebuild.restore(&mut store, 3).unwrap();
}

#[test]
fn a_flipped_bit_in_a_leaf_is_found_by_its_trailer_and_without_a_tag_nothing_is_written() {
    let mut store = MemoryStore::new(BlockSize::KIB_8);
    let pointer = relation(1).write(&mut store, &value(20_000)).unwrap();
    let leaf = relation(1).tuples(&store, &pointer).unwrap()[4];
    store.tuple_mut(leaf).unwrap()[1000] ^= 1;
    let error = relation(1).read(&store, &pointer).unwrap_err();
    assert!(matches!(error, Failure::Direct(DirectError::Trailer { tid, .. }) if tid == leaf));
    let untagged = DirectRelation::new(Oid::new(1), Parameters::resilient(BlockSize::KIB_8));
    let error = Failure::Direct(DirectError::TagMissing);
    assert_eq!(untagged.write(&mut store, b"x"), Err(error));
    assert!(!scan(&store).add(pointer.root(), b"no tuple"));
}
