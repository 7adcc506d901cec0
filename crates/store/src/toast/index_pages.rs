//! The pages of a TOAST index, which are the buffer pool's.
use std::sync::Arc;

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_nbtree::IndexPages;

use super::ToastShared;
use crate::buffer::{BufferPool, ForkId, PageRead, PageWrite};
use crate::sync::Mutex;
use crate::transaction::Transactions;
use crate::{Fork, RelationId, RelationKind, StoreError};

/// Where an index is.
///
/// Pages that left the tree are known again after the next vacuum; until then a store that was opened anew
/// makes new ones.
#[derive(Debug)]
pub(crate) struct PoolIndexPages {
    pool: Arc<BufferPool>,
    transactions: Arc<Transactions>,
    fork: ForkId,
    free: Mutex<Vec<BlockNumber>>,
}

impl PoolIndexPages {
    pub(crate) fn new(
        shared: &ToastShared,
        id: RelationId,
        create: bool,
    ) -> Result<Self, StoreError> {
        let fork = shared.pool.open_fork(id, RelationKind::ToastIndex, Fork::Main, create)?;
        let (pool, transactions) = (Arc::clone(&shared.pool), Arc::clone(&shared.transactions));
        Ok(Self { pool, transactions, fork, free: Mutex::new(Vec::new()) })
    }

    /// Forgets which pages are free: a vacuum is about to find out.
    pub(crate) fn forget_free(&self) {
        self.free.lock().clear();
    }

    pub(crate) fn block_count(&self) -> u32 {
        self.pool.block_count(self.fork)
    }

    fn has(&self, block: BlockNumber) -> bool {
        block.get() < self.pool.block_count(self.fork)
    }
}

impl IndexPages for PoolIndexPages {
    type Error = StoreError;
    type Read<'a> = PageRead<'a>;
    type Write<'a> = PageWrite<'a>;

    fn block_size(&self) -> BlockSize {
        self.pool.options().block_size
    }

    fn block_count(&self) -> Result<u32, StoreError> {
        Ok(self.pool.block_count(self.fork))
    }

    #[inline]
    fn read(&self, block: BlockNumber) -> Result<Option<PageRead<'_>>, StoreError> {
        if !self.has(block) {
            return Ok(None);
        }
        self.pool.read(self.fork, block).map(Some)
    }

    #[inline]
    fn write(&self, block: BlockNumber) -> Result<Option<PageWrite<'_>>, StoreError> {
        if !self.has(block) {
            return Ok(None);
        }
        self.pool.write(self.fork, block).map(Some)
    }

    #[inline]
    fn try_write(&self, block: BlockNumber) -> Result<Option<PageWrite<'_>>, StoreError> {
        if !self.has(block) {
            return Ok(None);
        }
        self.pool.try_write(self.fork, block)
    }

    fn extend(&self) -> Result<(BlockNumber, PageWrite<'_>), StoreError> {
        self.pool.extend(self.fork, 1)
    }

    fn take_free(&self) -> Option<BlockNumber> {
        self.free.lock().pop()
    }

    fn put_free(&self, block: BlockNumber) {
        self.free.lock().push(block);
    }

    fn next_xid(&self) -> u64 {
        self.transactions.next_full_xid()
    }

    fn is_past(&self, xid: u64) -> bool {
        self.transactions.is_past(xid)
    }
}
