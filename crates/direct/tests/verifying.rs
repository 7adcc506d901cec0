//! Every fault of a value is found and located, and what values leave of a relation is found, too.
mod common;

use common::{RELATION, store, value};
use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Oid};
use pgtoast_codec::CompressionMethod;
use pgtoast_direct::{
    ChunkFault, ChunkTuple, DirectError, DirectRelation, Failure, GroupOptions, MemoryError,
    MemoryStore, Parameters,
};
use pgtoast_varlena::DirectPointer;

fn faults(store: &MemoryStore, pointer: &DirectPointer) -> Vec<Failure<MemoryError>> {
    let mut faults = Vec::new();
    RELATION.verify(store, pointer, |fault| faults.push(fault));
    faults
}

#[test]
fn sound_values_have_no_faults_and_their_tuples_are_counted() {
    for len in [1, 1996, 1997, 199_600, 199_601, 1_000_000] {
        let mut store = store();
        let pointer = RELATION.write(&mut store, &value(len)).unwrap();
        let tuples = RELATION.verify(&store, &pointer, |fault| panic!("{len}: {fault}"));
        assert_eq!(tuples as u64, store.counts().inserts);
    }
    let text = vec![b'a'; 500_000];
    let mut store = store();
    let options = GroupOptions::new(CompressionMethod::Pglz);
    let grouped = RELATION.write_grouped(&mut store, options, &text).unwrap().unwrap();
    RELATION.verify(&store, &grouped, |fault| panic!("{fault}"));
}

#[test]
fn faults_in_several_places_are_all_found() {
    let mut store = store();
    let pointer = RELATION.write(&mut store, &value(1_000_000)).unwrap(); // 502 leaves, 11 nodes
    let by_number = |store: &MemoryStore, number: i32| {
        let is_it = |(tid, tuple): &(ItemPointer, &[u8])| {
            ChunkTuple::parse(tuple, *tid).is_ok_and(|chunk| chunk.seq == number)
        };
        store.tuples().find(is_it).map(|(tid, _)| tid).unwrap()
    };
    let tids: Vec<_> = [3, 60, 400, 503, 505].map(|number| by_number(&store, number)).to_vec();
    store.tuple_mut(tids[0]).unwrap()[24] = 9; // leaf 3 says 9
    store.tuple_mut(tids[1]).unwrap()[28] -= 4; // leaf 60 is a byte off
    store.tuple_mut(tids[2]).unwrap()[23] |= 1; // leaf 400 is a plain value's
    store.tuple_mut(tids[3]).unwrap()[352 + 24 + 8] += 1; // node 503's first child a byte too long
    store.tuple_mut(tids[4]).unwrap().copy_within(52..58, 58); // node 505's second child is its first
    let found = faults(&store, &pointer);
    let direct: Vec<_> = found
        .into_iter()
        .map(|fault| match fault {
            Failure::Direct(error) => error,
            Failure::Store(error) => panic!("{error}"),
        })
        .collect();
    let has = |wanted: &dyn Fn(&DirectError) -> bool| direct.iter().any(wanted);
    assert!(has(
        &|e| matches!(e, DirectError::ChunkNumber { tid, found: 9, expected: 3 } if *tid == tids[0])
    ));
    assert!(has(&|e| matches!(e, DirectError::ChunkLen { tid, .. } if *tid == tids[1])));
    assert!(has(&|e| matches!(
        e,
        DirectError::Chunk { tid, fault: ChunkFault::PlainValue } if *tid == tids[2]
    )));
    assert!(has(&|e| matches!(e, DirectError::ChunkLen { found: 1997, .. })));
    assert!(has(&|e| matches!(e, DirectError::DoublyReferenced { .. })));
    assert!(direct.len() >= 6, "{direct:?}");
}

#[test]
fn a_value_in_a_tree_of_another_shape_is_a_fault_though_it_reads() {
    let other = Parameters::default().with_fanout(40).unwrap();
    let writer = DirectRelation::new(RELATION.id(), other);
    let mut store = store();
    let pointer = writer.write(&mut store, &value(300_000)).unwrap();
    assert!(RELATION.read(&store, &pointer).unwrap() == value(300_000));
    let found = faults(&store, &pointer);
    assert!(found.iter().any(|fault| matches!(
        fault,
        Failure::Direct(DirectError::NodeChildren { found: 40, least: 50, most: 50, .. })
    )));
    let flat =
        DirectRelation::new(RELATION.id(), Parameters::default().with_flat_chunks(9).unwrap());
    let pointer = flat.write(&mut store, &value(30_000)).unwrap();
    assert!(matches!(
        faults(&store, &pointer)[..],
        [Failure::Direct(DirectError::RootForm { chunks: 16, flat_chunks: 100, .. })]
    ));
}

#[test]
fn all_values_together_leave_no_tuple_without_an_owner_and_none_with_two() {
    let mut store = store();
    let first = RELATION.write(&mut store, &value(300_000)).unwrap();
    let second = RELATION.write(&mut store, &value(5000)).unwrap();
    let all = |store: &MemoryStore, pointers: &[DirectPointer]| {
        let mut found = Vec::new();
        let (pointers, tuples) = (pointers.iter().copied(), store.tuples());
        RELATION.verify_all(store, pointers, tuples, |root, fault| found.push((root, fault)));
        found
    };
    assert_eq!(all(&store, &[first, second]), []);
    // Two versions of a row with the same pointer are one value, once.
    assert_eq!(all(&store, &[first, second, first]), []);
    // A value nobody points to: each of its tuples.
    let orphans = all(&store, &[first]);
    assert_eq!(orphans.len(), 3);
    assert!(orphans.iter().all(|(root, fault)| root.is_none()
        && matches!(fault, Failure::Direct(DirectError::Orphan { .. }))));
    // An edited version may share with the one before it, and with another edited one.
    let edited = RELATION.patch(&mut store, &first, 1000, b"x").unwrap().pointer;
    let again = RELATION.patch(&mut store, &first, 9000, b"x").unwrap().pointer;
    assert_eq!(all(&store, &[first, second, edited, again]), []);
    // Two values that were not edited may not.
    let root =
        store.tuples().find(|(tid, _)| *tid == second.root()).map(|(_, tuple)| tuple.to_vec());
    let root = root.unwrap();
    let copy = pgtoast_direct::ChunkStore::insert_with(&mut store, root.len(), |target| {
        target.copy_from_slice(&root);
    });
    let copy = RELATION.pointer(copy.unwrap(), 5000).unwrap();
    let found = all(&store, &[first, second, edited, again, copy]);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|(root, fault)| *root == Some(copy.root())
        && matches!(fault, Failure::Direct(DirectError::DoublyReferenced { .. }))));
    // A pointer into another relation.
    let stray = DirectRelation::new(Oid::new(5), Parameters::default())
        .pointer(ItemPointer::new(BlockNumber::new(0), OffsetNumber::new(1)), 7)
        .unwrap();
    let found = all(&store, &[first, second, edited, again, copy, stray]);
    assert!(found.iter().any(|(_, fault)| matches!(
        fault,
        Failure::Direct(DirectError::Relation { found, .. }) if *found == Oid::new(5)
    )));
}
