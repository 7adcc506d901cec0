//! Deleting a value takes exactly its tuples, and reads no leaf.
mod common;

use common::{RELATION, store, value};
use pgtoast_base::{BlockSize, Oid};
use pgtoast_direct::{DirectRelation, MemoryStore, Parameters};

#[test]
fn every_tuple_goes_and_others_stay() {
    for (len, fetches) in [
        (1, 1),
        (1997, 1),
        (199_600, 1),
        (199_601, 4), // the root and three nodes
        (1_000_000, 12),
    ] {
        let mut store = store();
        let before = RELATION.write(&mut store, &value(3000)).unwrap();
        let tuples = store.counts().inserts;
        let pointer = RELATION.write(&mut store, &value(len)).unwrap();
        let written = store.counts().inserts - tuples;
        let after = RELATION.write(&mut store, &value(3001)).unwrap();
        store.reset_counts();
        assert_eq!(RELATION.delete(&mut store, &pointer).unwrap() as u64, written);
        assert_eq!(store.counts().fetches, fetches, "{len}");
        assert_eq!(store.counts().deletes, written);
        assert_eq!(RELATION.read(&store, &before).unwrap(), value(3000));
        assert_eq!(RELATION.read(&store, &after).unwrap(), value(3001));
        assert!(RELATION.read(&store, &pointer).is_err());
        assert!(RELATION.delete(&mut store, &pointer).is_err());
    }
}

#[test]
fn a_level_that_ends_in_a_node_of_one_child_is_no_leaf() {
    let parameters = Parameters::oid(BlockSize::KIB_8).with_chunk_bytes(16).unwrap();
    let relation = DirectRelation::new(Oid::new(1), parameters);
    // 2501 leaves: of the 51 nodes above them the last has one child, and so has the one above it.
    let mut store = MemoryStore::new(BlockSize::KIB_8);
    let pointer = relation.write(&mut store, &value(2501 * 16)).unwrap();
    assert_eq!(relation.delete(&mut store, &pointer), Ok(2501 + 51 + 2 + 1));
    assert_eq!(store.tuples().count(), 0);
}

#[test]
fn a_broken_node_is_found_before_anything_is_deleted() {
    let mut store = store();
    let pointer = RELATION.write(&mut store, &value(1_000_000)).unwrap();
    let tuples = store.tuples().count();
    let tids = RELATION.tuples(&store, &pointer).unwrap();
    let node = tids[tids.len() - 2];
    store.tuple_mut(node).unwrap()[24] = 0xff;
    assert!(RELATION.delete(&mut store, &pointer).is_err());
    assert_eq!(store.tuples().count(), tuples);
}
