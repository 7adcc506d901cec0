//! A heap: its forks, and what its writers remember between two inserts.
use core::fmt;
use std::sync::Arc;

use pgtoast_base::{BlockNumber, BlockSize, Xid};
use pgtoast_page::{
    Page, PageError, PageFlags, PageMut, TransactionStatus, VisibilityBits, XidStatus,
};

use super::free_space::FreeSpace;
use super::prune;
use super::target::Writers;
use super::visibility::VisibilityMap;
use crate::buffer::{BufferPool, ForkId, PageWrite};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, mutated};
use crate::transaction::Transactions;
use crate::{Fork, RelationId, RelationKind, StoreError, StoreFile};

/// A heap in the buffer pool: the rows of a table, or the chunks of its values.
///
/// Whoever uses one in a transaction holds its lock there,
/// [shared](crate::transaction::LockMode::Shared), from the first use to the end, or until that use is
/// rolled back: else vacuum may cut off the blocks that it reads.
pub struct Relation {
    pub(super) id: RelationId,
    pub(super) kind: RelationKind,
    pub(super) main: ForkId,
    pub(super) block_size: BlockSize,
    pub(super) pool: Arc<BufferPool>,
    pub(super) transactions: Arc<Transactions>,
    pub(super) free: FreeSpace,
    pub(super) visibility: VisibilityMap,
    pub(super) writers: Writers,
    /// No tuple holds an older id that is not frozen; 64 bits wide.
    #[doc(alias = "relfrozenxid")]
    pub(super) oldest_unfrozen: AtomicU64,
    /// Held by the one vacuum that is at work.
    pub(super) vacuuming: Mutex<()>,
}

impl Relation {
    /// Makes an empty heap.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn create(
        pool: Arc<BufferPool>,
        transactions: Arc<Transactions>,
        id: RelationId,
        kind: RelationKind,
    ) -> Result<Self, StoreError> {
        Self::with_forks(pool, transactions, id, kind, true)
    }

    /// Opens a heap that is there.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn open(
        pool: Arc<BufferPool>,
        transactions: Arc<Transactions>,
        id: RelationId,
        kind: RelationKind,
    ) -> Result<Self, StoreError> {
        Self::with_forks(pool, transactions, id, kind, false)
    }

    fn with_forks(
        pool: Arc<BufferPool>,
        transactions: Arc<Transactions>,
        id: RelationId,
        kind: RelationKind,
        create: bool,
    ) -> Result<Self, StoreError> {
        let block_size = pool.options().block_size;
        let main = pool.open_fork(id, kind, Fork::Main, create)?;
        // The maps come into being when there is something to say; they may be missing.
        let free_fork = pool.open_fork(id, kind, Fork::FreeSpaceMap, true)?;
        let visibility_fork = pool.open_fork(id, kind, Fork::VisibilityMap, true)?;
        let free = FreeSpace::load(&pool, free_fork, block_size, pool.block_count(main))?;
        let visibility = VisibilityMap::new(visibility_fork, block_size);
        let (writers, vacuuming) = (Writers::new(), Mutex::new(()));
        // Who writes to a new one runs still, or will. Of one that was there it is only known what
        // is so of all.
        let oldest = if create {
            transactions.full(transactions.horizon())
        } else {
            transactions.oldest_unfrozen()
        };
        Ok(Self {
            id,
            kind,
            main,
            block_size,
            pool,
            transactions,
            free,
            visibility,
            writers,
            oldest_unfrozen: AtomicU64::new(oldest),
            vacuuming,
        })
    }

    /// No tuple of it holds an older id that is not frozen; 64 bits wide.
    pub(crate) fn oldest_unfrozen(&self) -> u64 {
        self.oldest_unfrozen.load(Ordering::Acquire)
    }

    /// Which relation it is.
    #[must_use]
    pub fn id(&self) -> RelationId {
        self.id
    }

    /// What it is for.
    #[must_use]
    pub fn kind(&self) -> RelationKind {
        self.kind
    }

    /// Its length in blocks.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.pool.block_count(self.main)
    }

    /// The longest tuple that it takes, in bytes, header included.
    #[must_use]
    pub fn max_tuple_len(&self) -> usize {
        Page::max_tuple_len(self.block_size).into()
    }

    /// Bytes that the free space map remembers of a block, rounded down; 0 where it knows of none.
    #[must_use]
    pub fn free_bytes(&self, block: BlockNumber) -> usize {
        self.free.free_bytes(block)
    }

    /// What the visibility map promises of a block.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Page`].
    pub fn visibility(&self, block: BlockNumber) -> Result<VisibilityBits, StoreError> {
        self.visibility.bits(&self.pool, block)
    }

    /// Writes the free space map into its fork. The pool's flush makes it durable, as all else.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn save(&self) -> Result<(), StoreError> {
        self.record_targets()?;
        self.free.save(&self.pool)
    }

    /// Has the free space map know of the blocks that writers are at work on: they were taken out
    /// of it.
    pub(super) fn record_targets(&self) -> Result<(), StoreError> {
        for block in self.writers.blocks() {
            if block.get() < self.blocks() {
                let bytes = self.pool.read(self.main, block)?;
                let free = self.heap_free_bytes(&bytes);
                drop(bytes);
                self.free.record(block, free);
            }
        }
        Ok(())
    }

    /// Takes back what page and visibility map promise of a page that is about to change.
    #[inline]
    pub(super) fn before_change(&self, page: &mut PageWrite<'_>) -> Result<(), StoreError> {
        let promised = Page::new(page, self.block_size)
            .is_ok_and(|page| page.header().flags().contains(PageFlags::ALL_VISIBLE));
        if promised { self.take_back(page) } else { Ok(()) }
    }

    #[cold]
    fn take_back(&self, page: &mut PageWrite<'_>) -> Result<(), StoreError> {
        let block = page.block();
        self.visibility.set(&self.pool, block, VisibilityBits::empty())?;
        self.open_page(page)?.set_flags(PageFlags::ALL_VISIBLE, false);
        Ok(())
    }

    /// A latched page, to be changed.
    #[inline]
    pub(super) fn open_page<'a>(
        &self,
        page: &'a mut PageWrite<'_>,
    ) -> Result<PageMut<'a>, StoreError> {
        let block = page.block();
        page.open(self.block_size).map_err(|error| self.page_error(block, error))
    }

    /// A latched page, to be read.
    #[inline]
    pub(crate) fn view_page<'a>(
        &self,
        bytes: &'a [u8],
        block: BlockNumber,
    ) -> Result<Page<'a>, StoreError> {
        Page::new(bytes, self.block_size).map_err(|error| self.page_error(block, error))
    }

    /// Prunes a page that is latched exclusively, if that may give room.
    #[inline]
    pub(super) fn prune_latched(&self, page: &mut PageWrite<'_>) -> Result<(), StoreError> {
        if !Page::new(page, self.block_size).is_ok_and(prune::is_worth_it) {
            return Ok(());
        }
        let block = page.block();
        let Some(horizon) = self.horizon_past(self.view_page(page, block)?.header().prune_xid())
        else {
            return Ok(());
        };
        self.before_change(page)?;
        let mut opened = self.open_page(page)?;
        prune::prune(&mut opened, horizon, &Outcomes(&self.transactions))
            .map_err(|error| self.page_error(block, error))?;
        Ok(())
    }

    /// Prunes a page that is about to be read, if that may give room and nobody else is at it.
    #[inline]
    pub(super) fn prune_on_access(&self, block: BlockNumber) -> Result<(), StoreError> {
        let copy = if mutated!(PruneCopy) {
            Some(self.pool.read(self.main, block)?.to_vec())
        } else {
            None
        };
        if let Some(mut page) = self.pool.try_write(self.main, block)? {
            if let Some(copy) = copy {
                page.copy_from_slice(&copy);
            }
            self.prune_latched(&mut page)?;
        }
        Ok(())
    }

    /// Whether the horizon allows for pruning a page that says it may be worth it.
    #[inline]
    pub(super) fn may_prune(&self, page: Page<'_>) -> bool {
        prune::is_worth_it(page) && self.horizon_past(page.header().prune_xid()).is_some()
    }

    /// A horizon that is past that transaction, if it is.
    fn horizon_past(&self, xid: Xid) -> Option<Xid> {
        let is_past = |horizon: &Xid| xid.precedes(*horizon);
        let recent = Some(self.transactions.recent_horizon()).filter(is_past);
        recent.or_else(|| Some(self.transactions.horizon()).filter(is_past))
    }

    pub(super) fn file(&self) -> StoreFile {
        StoreFile::Relation { relation: self.id, fork: Fork::Main }
    }

    #[cold]
    pub(super) fn page_error(&self, block: BlockNumber, error: PageError) -> StoreError {
        StoreError::Page { file: self.file(), block, error }
    }
}

impl fmt::Debug for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relation")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("blocks", &self.blocks())
            .finish_non_exhaustive()
    }
}

/// What became of transactions, for those who clear away: nobody's own changes are special.
pub(super) struct Outcomes<'a>(pub(super) &'a Transactions);

impl TransactionStatus for Outcomes<'_> {
    #[inline]
    fn status(&self, xid: Xid) -> XidStatus {
        self.0.status(xid)
    }

    fn update_xid(&self, _multi: Xid) -> Option<Xid> {
        None
    }
}

/// Bytes a page has for one more tuple; a new page counts as initialised but for one line pointer,
/// as a server records it.
pub(super) fn free_bytes(page: Page<'_>) -> usize {
    if page.is_new() { new_page_bytes(page.block_size()) } else { page.heap_free_bytes().into() }
}

/// Bytes that a server records for a page that was never initialised.
pub(super) fn new_page_bytes(block_size: BlockSize) -> usize {
    block_size.bytes() - pgtoast_page::PageHeader::LEN
}
