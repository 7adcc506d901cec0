//! A heap over a pool in a directory of its own, and rows to put into it.
#![allow(dead_code, clippy::unwrap_used, reason = "tests, of which each uses a part of it")]
use std::sync::Arc;

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber};
use pgtoast_page::{
    AttributeDescriptor, HeapTuple, HeapTupleMut, Page, PageFlags, Snapshot, TransactionStatus,
    TupleDescriptor, Value, VisibilityBits, XidStatus,
};
use pgtoast_store::buffer::{BufferPool, ForkId, PoolOptions};
use pgtoast_store::disk::FileDisk;
use pgtoast_store::heap::{Modified, Relation};
use pgtoast_store::transaction::{CommitLog, Isolation, TransactionCore, Transactions};
use pgtoast_store::{Fork, RelationId, RelationKind, StoreError};
use tempfile::TempDir;

pub(crate) const ID: RelationId = RelationId::new(16_384);

/// One heap, and all that it needs.
pub(crate) struct Bed {
    pub(crate) directory: TempDir,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) transactions: Arc<Transactions>,
    pub(crate) heap: Relation,
    pub(crate) block_size: BlockSize,
}

impl Bed {
    pub(crate) fn new(block_size: BlockSize, frames: usize) -> Self {
        Self::of_kind(block_size, frames, RelationKind::Heap)
    }

    pub(crate) fn of_kind(block_size: BlockSize, frames: usize, kind: RelationKind) -> Self {
        let directory = TempDir::new().unwrap();
        let disk = Arc::new(FileDisk::new(directory.path()));
        let options = PoolOptions::new(block_size, frames * block_size.bytes());
        let pool = Arc::new(BufferPool::new(disk, options));
        let transactions = Transactions::new(1000, CommitLog::new());
        let heap = Relation::create(pool.clone(), transactions.clone(), ID, kind).unwrap();
        Self { directory, pool, transactions, heap, block_size }
    }

    pub(crate) fn kib_8() -> Self {
        Self::new(BlockSize::KIB_8, 64)
    }

    pub(crate) fn begin(&self) -> TransactionCore {
        self.transactions.begin(Isolation::ReadCommitted)
    }

    pub(crate) fn repeatable_read(&self) -> TransactionCore {
        self.transactions.begin(Isolation::RepeatableRead)
    }

    /// Inserts a row in a statement of its own.
    pub(crate) fn insert(&self, transaction: &mut TransactionCore, payload: &[u8]) -> ItemPointer {
        transaction.begin_statement().unwrap();
        let mut bytes = tuple(payload);
        self.heap.insert(transaction, HeapTupleMut::new(&mut bytes).unwrap()).unwrap()
    }

    /// Inserts rows in a transaction of their own.
    pub(crate) fn insert_committed(&self, payloads: &[&[u8]]) -> Vec<ItemPointer> {
        let mut transaction = self.begin();
        let tids = payloads.iter().map(|payload| self.insert(&mut transaction, payload)).collect();
        transaction.commit().unwrap();
        tids
    }

    pub(crate) fn try_update(
        &self,
        transaction: &mut TransactionCore,
        tid: ItemPointer,
        payload: &[u8],
    ) -> Result<Modified, StoreError> {
        transaction.begin_statement().unwrap();
        let mut bytes = tuple(payload);
        self.heap.update(transaction, tid, HeapTupleMut::new(&mut bytes).unwrap())
    }

    pub(crate) fn update(
        &self,
        transaction: &mut TransactionCore,
        tid: ItemPointer,
        payload: &[u8],
    ) -> ItemPointer {
        match self.try_update(transaction, tid, payload).unwrap() {
            Modified::Done(tid) => tid,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn try_delete(
        &self,
        transaction: &mut TransactionCore,
        tid: ItemPointer,
    ) -> Result<Modified, StoreError> {
        transaction.begin_statement().unwrap();
        self.heap.delete(transaction, tid)
    }

    pub(crate) fn delete(&self, transaction: &mut TransactionCore, tid: ItemPointer) {
        assert_eq!(self.try_delete(transaction, tid).unwrap(), Modified::Done(tid));
    }

    /// Deletes rows in a transaction of their own.
    pub(crate) fn delete_committed<'a>(&self, tids: impl IntoIterator<Item = &'a ItemPointer>) {
        let mut transaction = self.begin();
        tids.into_iter().for_each(|tid| self.delete(&mut transaction, *tid));
        transaction.commit().unwrap();
    }

    /// What the transaction sees at an address.
    pub(crate) fn fetch(&self, transaction: &TransactionCore, tid: ItemPointer) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let found = self.heap.fetch(transaction, tid, &mut bytes).unwrap();
        found.map(|_| payload(&bytes))
    }

    /// All rows that the transaction sees.
    pub(crate) fn scan(&self, transaction: &TransactionCore) -> Vec<(ItemPointer, Vec<u8>)> {
        let mut scan = self.heap.scan(transaction);
        let mut rows = Vec::new();
        while let Some((tid, bytes)) = scan.next().unwrap() {
            rows.push((tid, payload(bytes)));
        }
        rows
    }

    /// The rows that a transaction that begins now sees, in the order of their bytes.
    pub(crate) fn committed(&self) -> Vec<Vec<u8>> {
        let rows = self.scan(&self.begin());
        let mut payloads: Vec<_> = rows.into_iter().map(|(_, payload)| payload).collect();
        payloads.sort();
        payloads
    }

    /// The heap as its files have it, in a pool of its own.
    pub(crate) fn reopened(&self) -> (Arc<BufferPool>, Relation) {
        let disk = Arc::new(FileDisk::new(self.directory.path()));
        let pool = Arc::new(BufferPool::new(disk, *self.pool.options()));
        let transactions = self.transactions.clone();
        let heap = Relation::open(pool.clone(), transactions, ID, self.heap.kind()).unwrap();
        (pool, heap)
    }

    fn main(&self) -> ForkId {
        self.pool.open_fork(ID, self.heap.kind(), Fork::Main, false).unwrap()
    }

    /// A copy of a page.
    pub(crate) fn page(&self, block: u32) -> Vec<u8> {
        self.pool.read(self.main(), BlockNumber::new(block)).unwrap().to_vec()
    }

    /// Every page is sound, and the visibility map claims no more than what is so.
    pub(crate) fn check(&self) {
        for block in 0..self.heap.blocks() {
            let bytes = self.page(block);
            let page = Page::parse(&bytes, self.block_size).unwrap();
            page.check().unwrap_or_else(|error| panic!("block {block}: {error}"));
            let bits = self.heap.visibility(BlockNumber::new(block)).unwrap();
            let says_so = page.header().flags().contains(PageFlags::ALL_VISIBLE);
            assert!(bits.is_empty() || bits.contains(VisibilityBits::ALL_VISIBLE));
            assert!(bits.is_empty() || says_so, "block {block}: the map says more than the page");
            if says_so {
                self.check_promise(page, block, bits);
            }
        }
    }

    fn check_promise(&self, page: Page<'_>, block: u32, bits: VisibilityBits) {
        let everybody = self.transactions.horizon();
        let snapshot = Snapshot { xmin: everybody, xmax: everybody, in_progress: &[], command: 0 };
        for (item, _) in page.items() {
            let bytes = match page.item(item).unwrap() {
                pgtoast_page::Item::Normal(bytes) => bytes,
                pgtoast_page::Item::Dead(_) => panic!("block {block}, item {item}: dead"),
                _ => continue,
            };
            let tuple = HeapTuple::new(bytes).unwrap();
            let header = tuple.header();
            // Seen by the oldest snapshot there is, and ended by nobody who is not undone.
            assert!(header.is_visible(&snapshot, &Status(&self.transactions)), "block {block}");
            let ended = header.xmax().is_normal()
                && !header.infomask().contains(pgtoast_page::Infomask::XMAX_INVALID)
                && self.transactions.status(header.xmax()) != XidStatus::Aborted;
            assert!(!ended, "block {block}, item {item}: ended by {}", header.xmax());
            if bits.contains(VisibilityBits::ALL_FROZEN) {
                assert!(header.is_frozen() && !header.xmax().is_normal(), "block {block}");
            }
        }
    }

    /// The states of a page's line pointers: `.` unused, `n` normal, `r` redirect, `d` dead.
    pub(crate) fn lines(&self, block: u32) -> String {
        let bytes = self.page(block);
        let page = Page::parse(&bytes, self.block_size).unwrap();
        let letter = |pointer: pgtoast_page::LinePointer| match pointer.state() {
            pgtoast_page::LineState::Unused => '.',
            pgtoast_page::LineState::Normal => 'n',
            pgtoast_page::LineState::Redirect => 'r',
            pgtoast_page::LineState::Dead => 'd',
        };
        page.items().map(|(_, pointer)| letter(pointer)).collect()
    }
}

pub(crate) struct Status<'a>(pub(crate) &'a Transactions);

impl TransactionStatus for Status<'_> {
    fn status(&self, xid: pgtoast_base::Xid) -> XidStatus {
        self.0.status(xid)
    }

    fn update_xid(&self, _: pgtoast_base::Xid) -> Option<pgtoast_base::Xid> {
        None
    }
}

pub(crate) fn tid(block: u32, item: u16) -> ItemPointer {
    ItemPointer::new(BlockNumber::new(block), OffsetNumber::new(item))
}

/// A row of one column of bytes: 28 bytes and the payload.
pub(crate) fn tuple(payload: &[u8]) -> Vec<u8> {
    let columns = [AttributeDescriptor::from_catalog(-1, false, b'i', b'p').unwrap()];
    let descriptor = TupleDescriptor::new(&columns).unwrap();
    let len = u32::try_from(payload.len() + 4).unwrap();
    let mut value = (len << 2).to_le_bytes().to_vec();
    value.extend_from_slice(payload);
    let mut buffer = vec![0; payload.len() + 32];
    let formed = descriptor.form(&[Value::stored(&value)], &mut buffer).unwrap();
    formed.bytes().to_vec()
}

pub(crate) fn payload(tuple: &[u8]) -> Vec<u8> {
    assert_eq!(HeapTuple::parse(tuple).unwrap().header().hoff(), 24);
    tuple[28..].to_vec()
}
