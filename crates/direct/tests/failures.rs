//! What goes wrong in a store or in a tree is an error that says where, and a value that cannot be written
//! leaves nothing behind.
mod common;

use std::cell::Cell;

use common::{RELATION, store, value};
use pgtoast_base::{ItemPointer, Oid};
use pgtoast_direct::{
    ChunkFault, ChunkStore, DirectError, DirectRelation, Failure, MemoryStore, Parameters,
};

/// A store that is full after some inserts.
struct Limited {
    inner: MemoryStore,
    inserts: Cell<usize>,
}

#[derive(Debug, PartialEq)]
struct Full;

impl ChunkStore for Limited {
    type Error = Full;
    type Tuple<'s> = &'s [u8];

    fn insert_with(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<ItemPointer, Full> {
        let left = self.inserts.get().checked_sub(1).ok_or(Full)?;
        self.inserts.set(left);
        self.inner.insert_with(len, fill).map_err(|_| Full)
    }

    fn fetch(&self, tid: ItemPointer) -> Result<&[u8], Full> {
        self.inner.fetch(tid).map_err(|_| Full)
    }

    fn delete(&mut self, tid: ItemPointer) -> Result<(), Full> {
        self.inner.delete(tid).map_err(|_| Full)
    }
}

#[test]
fn a_full_store_is_left_without_a_tuple_of_the_value() {
    let value = value(210_000); // 106 leaves, 3 nodes, a root
    for inserts in [0, 1, 50, 99, 100, 105, 106, 107, 109] {
        let mut store = Limited { inner: store(), inserts: Cell::new(inserts) };
        assert_eq!(RELATION.write(&mut store, &value), Err(Failure::Store(Full)));
        assert_eq!(store.inner.tuples().count(), 0, "after {inserts}");
    }
    let mut store = Limited { inner: store(), inserts: Cell::new(110) };
    RELATION.write(&mut store, &value).unwrap();
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing_and_one_that_failed_writes_no_more() {
    let mut store = store();
    let mut writer = RELATION.writer(&mut store);
    writer.write(&value(100_000)).unwrap();
    drop(writer);
    assert_eq!(store.tuples().count(), 0);

    let mut store = Limited { inner: common::store(), inserts: Cell::new(3) };
    let mut writer = RELATION.writer(&mut store);
    assert_eq!(writer.write(&value(100_000)), Err(Failure::Store(Full)));
    assert_eq!(writer.write(b"x"), Err(DirectError::WriterClosed.into()));
    assert_eq!(writer.finish().unwrap_err(), DirectError::WriterClosed.into());
}

#[test]
fn no_bytes_and_too_many_bytes_are_refused() {
    let mut store = store();
    assert_eq!(RELATION.write(&mut store, b"").unwrap_err(), DirectError::Empty.into());
    // The deepest tree of tiny chunks is short enough to try.
    let parameters = Parameters::default()
        .with_chunk_bytes(16)
        .and_then(|it| it.with_fanout(2))
        .and_then(|it| it.with_flat_chunks(1))
        .unwrap();
    let relation = DirectRelation::new(Oid::new(1), parameters);
    let limit = 16 << 16;
    let pointer = relation.write(&mut store, &value(limit)).unwrap();
    assert_eq!(relation.read(&store, &pointer).unwrap(), value(limit));
    let (len, tuples) = (limit + 1, store.tuples().count());
    let error = DirectError::TooLong { len, limit };
    assert_eq!(relation.write(&mut store, &value(len)).unwrap_err(), error.into());
    assert_eq!(store.tuples().count(), tuples);
}

#[test]
fn a_pointer_into_another_relation_or_to_another_length_is_refused() {
    let mut store = store();
    let pointer = RELATION.write(&mut store, &value(5000)).unwrap();
    let other = DirectRelation::new(Oid::new(7), Parameters::default());
    let error = DirectError::Relation { found: Oid::new(16_560), expected: Oid::new(7) };
    assert_eq!(other.read(&store, &pointer).unwrap_err(), error.into());
    for len in [4999, 5001, 3992, 1, 199_000] {
        let pointer = RELATION.pointer(pointer.root(), len).unwrap();
        assert!(matches!(RELATION.read(&store, &pointer), Err(Failure::Direct(_))), "{len}");
        let mut target = vec![0; len];
        assert!(RELATION.read_into(&store, &pointer, &mut target).is_err());
    }
    let error = DirectError::TargetLen { found: 3, expected: 5000 };
    assert_eq!(RELATION.read_into(&store, &pointer, &mut [0; 3]), Err(error.into()));
    let error = DirectError::Range { offset: 4998, len: 3, value_len: 5000 };
    assert_eq!(RELATION.slice_into(&store, &pointer, 4998, &mut [0; 3]), Err(error.into()));
}

/// The tuples of a value of 101 chunks, to be broken: leaves, nodes and root by their number.
fn broken(number: i32, change: impl FnOnce(&mut [u8])) -> Failure<pgtoast_direct::MemoryError> {
    let mut store = store();
    let pointer = RELATION.write(&mut store, &value(201_000)).expect("a sound store");
    let tid = store
        .tuples()
        .find(|(_, tuple)| tuple[24..28] == number.to_le_bytes())
        .map(|(tid, _)| tid)
        .expect("a sound store");
    change(store.tuple_mut(tid).expect("a sound store"));
    let error = RELATION.read(&store, &pointer).expect_err("a broken tree");
    let mut target = vec![0; 201_000];
    assert_eq!(RELATION.read_into(&store, &pointer, &mut target), Err(error));
    // Where a bound is wrong, the search from leaf to leaf may come upon another child first.
    let last =
        RELATION.leaves(&store, &pointer).map(|leaves| leaves.last().expect("a sound store"));
    let (Ok(Err(found)) | Err(found)) = last else { panic!("read in spite of {error}") };
    match (found, error) {
        (Failure::Direct(found), Failure::Direct(expected)) => {
            assert_eq!(std::mem::discriminant(&found), std::mem::discriminant(&expected));
        }
        other => panic!("{other:?}"),
    }
    error
}

#[test]
fn each_fault_of_a_tree_has_its_error() {
    // In a leaf: its number, its length, its kind.
    let error = broken(7, |tuple| tuple[24] = 8);
    assert!(matches!(
        error,
        Failure::Direct(DirectError::ChunkNumber { found: 8, expected: 7, .. })
    ));
    let error = broken(7, |tuple| tuple[28] -= 4);
    assert!(matches!(
        error,
        Failure::Direct(DirectError::ChunkLen { found: 1995, expected: 1996, .. })
    ));
    let error = broken(7, |tuple| tuple[23] |= 1);
    assert!(matches!(
        error,
        Failure::Direct(DirectError::Chunk { fault: ChunkFault::PlainValue, .. })
    ));
    // In a node, of which 101 is the first: its number, a child, a bound.
    let error = broken(101, |tuple| tuple[24..28].copy_from_slice(&104_i32.to_le_bytes()));
    assert!(matches!(
        error,
        Failure::Direct(DirectError::ParentNumber { found: 104, parent: 104, .. })
    ));
    let error = broken(101, |tuple| tuple.copy_within(28 + 24..28 + 30, 28 + 30));
    assert!(matches!(
        error,
        Failure::Direct(DirectError::ChunkNumber { found: 0, expected: 1, .. })
    ));
    let bound = |child: usize| 352 + 24 + 8 * child;
    let error = broken(101, |tuple| tuple[bound(3)] += 1);
    assert!(matches!(
        error,
        Failure::Direct(DirectError::ChunkLen { found: 1997, expected: 1996, .. })
    ));
    let error = broken(101, |tuple| tuple[bound(3) + 7] = 0x80);
    assert!(matches!(error, Failure::Direct(DirectError::Bounds { child: 2, .. })));
    let error = broken(101, |tuple| tuple[bound(50)] += 1);
    assert!(matches!(error, Failure::Direct(DirectError::Bounds { child: 50, .. })));
    // The root leads to itself.
    let error = broken(104, |tuple| {
        let own: [u8; 6] = tuple[12..18].try_into().unwrap();
        tuple[28 + 24..28 + 30].copy_from_slice(&own);
    });
    assert!(matches!(error, Failure::Direct(DirectError::ParentNumber { .. })));
}

#[test]
fn a_tuple_that_is_gone_is_the_stores_error() {
    let mut store = store();
    let pointer = RELATION.write(&mut store, &value(100_000)).unwrap();
    let (tid, _) = store.tuples().nth(20).unwrap();
    store.delete(tid).unwrap();
    match RELATION.read(&store, &pointer) {
        Err(Failure::Store(error)) => assert_eq!(error.tid, tid),
        other => panic!("{other:?}"),
    }
}
