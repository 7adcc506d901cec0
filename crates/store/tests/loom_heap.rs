//! A heap under the model checker, with its pool and its transactions: pages of 1 KiB, four frames,
//! two threads, every interleaving up to the bound on preemptions that each model states. The code
//! is that which ships.
//!
//! Each model runs sound, and again with the bug that it is there for seeded into the code: that run
//! must fail, or the model shows nothing.
#![cfg(pgtoast_loom)]

use std::sync::Arc;

use explore::explore;
use loom::thread;
use pgtoast_base::{BlockNumber, BlockSize, ItemPointer};
use pgtoast_page::{HeapTupleMut, Page, PageFlags, VisibilityBits};
use pgtoast_store::buffer::{BufferPool, PoolOptions};
use pgtoast_store::heap::{Modified, Relation, VacuumOptions};
use pgtoast_store::transaction::{CommitLog, Isolation, TransactionCore, Transactions};
use pgtoast_store::{Fork, Mutant, RelationKind};
use support::{MemoryDisk, RELATION};

mod explore;
mod support;

const SIZE: BlockSize = BlockSize::KIB_1;

#[derive(Clone)]
struct Shared {
    pool: Arc<BufferPool>,
    transactions: Arc<Transactions>,
    heap: Arc<Relation>,
}

/// A row: a header and a payload of one byte over and over.
fn row(mark: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; 24];
    (bytes[18], bytes[22]) = (1, 24);
    bytes.resize(24 + len, mark);
    bytes
}

impl Shared {
    fn new() -> Self {
        let disk = Arc::new(MemoryDisk::new());
        let pool = Arc::new(BufferPool::new(disk, PoolOptions::new(SIZE, 4 * SIZE.bytes())));
        let transactions = Transactions::new(3, CommitLog::new());
        let heap =
            Relation::create(pool.clone(), transactions.clone(), RELATION, RelationKind::Heap);
        Self { pool, transactions, heap: Arc::new(heap.expect("a disk")) }
    }

    fn spawn<T: 'static>(
        &self,
        work: impl FnOnce(Self) -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let shared = self.clone();
        thread::spawn(move || work(shared))
    }

    fn begin(&self) -> TransactionCore {
        self.transactions.begin(Isolation::ReadCommitted)
    }

    fn insert(&self, mark: u8, len: usize) -> ItemPointer {
        let mut transaction = self.begin();
        let mut bytes = row(mark, len);
        let tuple = HeapTupleMut::new(&mut bytes).expect("a tuple");
        let tid = self.heap.insert(&mut transaction, tuple).expect("room");
        transaction.commit().expect("no log");
        tid
    }

    fn update(&self, tid: ItemPointer, mark: u8, len: usize) {
        let mut transaction = self.begin();
        let mut bytes = row(mark, len);
        let tuple = HeapTupleMut::new(&mut bytes).expect("a tuple");
        let updated = self.heap.update(&mut transaction, tid, tuple);
        assert_eq!(updated, Ok(Modified::Done(tid)));
        transaction.commit().expect("no log");
    }

    fn fetch(&self, tid: ItemPointer) -> Option<(u8, usize)> {
        let transaction = self.begin();
        let seen =
            self.heap.fetch_with(&transaction, tid, |_, tuple| (tuple[24], tuple.len() - 24));
        seen.expect("a page")
    }

    /// Every page is sound, and what the map promises the page does too.
    fn check(&self) {
        let kind = RelationKind::Heap;
        let fork = self.pool.open_fork(RELATION, kind, Fork::Main, false).expect("open");
        for block in (0..self.heap.blocks()).map(BlockNumber::new) {
            let bits = self.heap.visibility(block).expect("a map");
            let bytes = self.pool.read(fork, block).expect("a page");
            let page = Page::new(&bytes, SIZE).expect("as long as a block");
            page.check().expect("sound");
            let says_so = page.header().flags().contains(PageFlags::ALL_VISIBLE);
            assert!(bits.is_empty() || says_so, "the map says more than the page");
        }
    }
}

/// Both find no page, or both find the one that the other adds, with room for two rows.
fn two_writers_at_the_end() {
    let shared = Shared::new();
    let other = shared.spawn(|shared| shared.insert(1, 400));
    let mine = shared.insert(2, 400);
    let theirs = other.join().expect("no panic");
    assert_ne!(mine, theirs);
    assert_eq!((shared.fetch(theirs), shared.fetch(mine)), (Some((1, 400)), Some((2, 400))));
    assert!(shared.heap.blocks() <= 2);
    shared.check();
}

#[test]
fn extension_and_insert_get_rows_of_their_own() {
    explore(2, Mutant::None, two_writers_at_the_end);
    explore(2, Mutant::InitUnlatched, two_writers_at_the_end);
}

/// A page that is short of space, with an old version that nobody sees: a reader comes by and prunes,
/// another one reads, or writes.
fn prepared() -> (Shared, ItemPointer) {
    let shared = Shared::new();
    let tid = shared.insert(1, 430);
    shared.update(tid, 2, 430);
    (shared, tid)
}

fn a_pruning_reader_and_another_reader() {
    let (shared, tid) = prepared();
    let other = shared.spawn(move |shared| shared.fetch(tid));
    assert_eq!(shared.fetch(tid), Some((2, 430)));
    assert_eq!(other.join().expect("no panic"), Some((2, 430)));
    shared.check();
}

fn a_pruning_reader_and_a_writer() {
    let (shared, tid) = prepared();
    let other = shared.spawn(|shared| shared.insert(3, 20));
    assert_eq!(shared.fetch(tid), Some((2, 430)));
    let inserted = other.join().expect("no panic");
    assert_eq!((shared.fetch(inserted), shared.fetch(tid)), (Some((3, 20)), Some((2, 430))));
    shared.check();
}

#[test]
fn pruning_disturbs_nobody_who_looks() {
    explore(2, Mutant::None, a_pruning_reader_and_another_reader);
}

#[test]
fn pruning_loses_nothing_that_is_written() {
    explore(2, Mutant::None, a_pruning_reader_and_a_writer);
    explore(2, Mutant::PruneCopy, a_pruning_reader_and_a_writer);
}

/// One says of a page that everybody sees all of it, another deletes a row of it.
fn a_vacuum_and_a_deletion() {
    let shared = Shared::new();
    let tid = shared.insert(1, 100);
    let other = shared.spawn(move |shared| {
        let mut transaction = shared.begin();
        assert_eq!(shared.heap.delete(&mut transaction, tid), Ok(Modified::Done(tid)));
        transaction.commit().expect("no log");
    });
    let options = VacuumOptions { truncate: false, ..VacuumOptions::default() };
    shared.heap.vacuum(None, &options).expect("a page");
    let promised = shared.heap.visibility(tid.block).expect("a map");
    other.join().expect("no panic");
    assert_eq!(shared.fetch(tid), None);
    let after = shared.heap.visibility(tid.block).expect("a map");
    // Promised before the deletion, and taken back; or never promised, unless of an empty page.
    assert!(after.is_empty() || (after == promised && after == VisibilityBits::all()));
    shared.check();
}

#[test]
fn what_vacuum_promises_a_deletion_takes_back() {
    explore(2, Mutant::None, a_vacuum_and_a_deletion);
    explore(2, Mutant::PromiseUnlatched, a_vacuum_and_a_deletion);
}
