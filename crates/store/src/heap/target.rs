//! Which page a tuple goes to.
//!
//! ```text
//! the block this writer filled last -> no room: what the free space map says -> ... -> one more block
//! none yet: what the map says, or else the last block
//! ```
//! One session alone makes relations as long as a server does, to the block. Several get blocks of
//! their own, as the map sends no two of them to the same one.
//!
//! Source: `hio.c`, `RelationGetBufferForTuple` (REL_15).
use core::ops::Range;

use crossbeam_utils::CachePadded;
use pgtoast_base::{BlockNumber, maxalign};
use pgtoast_fsm::shared::Cursor;
use pgtoast_page::{Page, PageMut};

use super::relation::{Relation, free_bytes, new_page_bytes};
use crate::StoreError;
use crate::buffer::PageWrite;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Mutex, mutated};

/// What the writers of a relation remember, and how they take turns at its end.
#[derive(Debug)]
pub(super) struct Writers {
    writers: Box<[CachePadded<Writer>]>,
    /// Held by who moves the end of the relation.
    pub(super) extension: Mutex<()>,
    /// Writers that have a cursor. The first one looks from the first block on, as a server does;
    /// others begin elsewhere.
    looking: AtomicU32,
    /// Writers that wait for the lock on extension.
    waiting: AtomicU32,
}

/// What a writer remembers between two inserts.
#[derive(Debug)]
struct Writer {
    /// The block that it put its last tuple in.
    block: AtomicU32,
    /// Where it looks next; `None` until it looks for the first time.
    cursor: Mutex<Option<Cursor>>,
}

impl Writers {
    pub(super) fn new() -> Self {
        let writer = |_| {
            let block = AtomicU32::new(BlockNumber::INVALID.get());
            CachePadded::new(Writer { block, cursor: Mutex::new(None) })
        };
        let writers = (0..WRITERS).map(writer).collect();
        let (looking, waiting) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { writers, extension: Mutex::new(()), looking, waiting }
    }

    #[inline]
    fn writer(&self, slot: usize) -> &Writer {
        &self.writers[slot % self.writers.len()]
    }

    /// Runs `work` with a writer's cursor.
    fn with_cursor<R>(&self, slot: usize, work: impl FnOnce(&mut Cursor) -> R) -> R {
        let mut cursor = self.writer(slot).cursor.lock();
        let new = || Cursor::new(self.looking.fetch_add(1, Ordering::Relaxed));
        work(cursor.get_or_insert_with(new))
    }

    /// The blocks that writers remember.
    pub(super) fn blocks(&self) -> impl Iterator<Item = BlockNumber> {
        self.writers.iter().filter_map(|writer| writer.block())
    }

    /// Has nobody remember any block, and everybody look from the beginning on.
    pub(super) fn forget(&self) {
        for writer in &self.writers {
            writer.forget();
            *writer.cursor.lock() = None;
        }
        self.looking.store(0, Ordering::Relaxed);
    }

    /// Has nobody remember a block from `nblocks` on.
    pub(super) fn forget_from(&self, nblocks: u32) {
        for writer in &self.writers {
            if writer.block().is_some_and(|block| block.get() >= nblocks) {
                writer.forget();
            }
        }
    }
}

impl Writer {
    #[inline]
    fn block(&self) -> Option<BlockNumber> {
        let block = BlockNumber::new(self.block.load(Ordering::Relaxed));
        block.is_valid().then_some(block)
    }

    #[inline]
    fn remember(&self, block: BlockNumber) {
        if self.block.load(Ordering::Relaxed) != block.get() {
            self.block.store(block.get(), Ordering::Relaxed);
        }
    }

    fn forget(&self) {
        self.block.store(BlockNumber::INVALID.get(), Ordering::Relaxed);
    }
}

/// Blocks that were added at once for many tuples, and that nobody else knows of. What is left
/// goes to the free space map in the end, whatever ends it.
#[derive(Debug)]
pub(super) struct Reserve<'a> {
    relation: &'a Relation,
    blocks: Range<u32>,
}

impl<'a> Reserve<'a> {
    pub(super) fn none(relation: &'a Relation) -> Self {
        Self { relation, blocks: 0..0 }
    }
}

impl Drop for Reserve<'_> {
    fn drop(&mut self) {
        for block in self.blocks.clone() {
            let free = new_page_bytes(self.relation.block_size);
            self.relation.free.record(BlockNumber::new(block), free);
        }
    }
}

impl Relation {
    /// A page with room for a tuple of `len` bytes, latched and initialised. If blocks have to be
    /// added, `blocks` of them are, and those that are not used at once are kept in reserve.
    #[doc(alias = "RelationGetBufferForTuple")]
    #[inline]
    pub(super) fn page_for<'a>(
        &'a self,
        slot: usize,
        len: usize,
        blocks: u32,
        reserve: &mut Reserve<'a>,
    ) -> Result<PageWrite<'a>, StoreError> {
        let wanted = maxalign(len);
        if let Some(block) = self.writers.writer(slot).block()
            && block.get() < self.blocks()
        {
            let page = self.pool.write(self.main, block)?;
            if self.heap_free_bytes(&page) >= wanted && !self.is_new(&page) {
                return Ok(page);
            }
            return self.other_page_for(slot, len, blocks, reserve, Some(page));
        }
        self.other_page_for(slot, len, blocks, reserve, None)
    }

    /// The same when the block that was remembered is full, or there was none.
    #[cold]
    fn other_page_for<'a>(
        &'a self,
        slot: usize,
        len: usize,
        blocks: u32,
        reserve: &mut Reserve<'a>,
        mut found: Option<PageWrite<'a>>,
    ) -> Result<PageWrite<'a>, StoreError> {
        let wanted = maxalign(len);
        let writer = self.writers.writer(slot);
        let mut candidate = None;
        if found.is_none() {
            let mapped = self.writers.with_cursor(slot, |cursor| self.free.take(cursor, wanted));
            let last = self.blocks().checked_sub(1).map(BlockNumber::new);
            candidate = mapped.or(last);
        }
        loop {
            if let Some(block) = candidate.take()
                && block.get() < self.blocks()
            {
                found = Some(self.pool.write(self.main, block)?);
            }
            if let Some(mut page) = found.take() {
                let block = page.block();
                if self.is_new(&page) {
                    self.init(&mut page)?;
                }
                let free = self.heap_free_bytes(&page);
                if wanted <= free {
                    writer.remember(block);
                    return Ok(page);
                }
                drop(page);
                self.free.record(block, free);
                if let Some(next) = reserve.blocks.next() {
                    candidate = Some(BlockNumber::new(next));
                    continue;
                }
                candidate = self.writers.with_cursor(slot, |cursor| self.free.take(cursor, wanted));
                if candidate.is_some() {
                    continue;
                }
            }
            match self.add_blocks(slot, len, blocks, reserve)? {
                Added::Page(page) => {
                    writer.remember(page.block());
                    return Ok(page);
                }
                Added::Other(block) => candidate = Some(block),
            }
        }
    }

    /// Makes the relation longer, unless another one just did so while this one waited.
    fn add_blocks<'a>(
        &'a self,
        slot: usize,
        len: usize,
        blocks: u32,
        reserve: &mut Reserve<'a>,
    ) -> Result<Added<'a>, StoreError> {
        let writers = &self.writers;
        let alone = match writers.extension.try_lock() {
            Some(alone) => alone,
            None => {
                writers.waiting.fetch_add(1, Ordering::Relaxed);
                let alone = writers.extension.lock();
                writers.waiting.fetch_sub(1, Ordering::Relaxed);
                let wanted = maxalign(len);
                let taken = writers.with_cursor(slot, |cursor| self.free.take(cursor, wanted));
                if let Some(block) = taken {
                    return Ok(Added::Other(block));
                }
                alone
            }
        };
        let waiting = writers.waiting.load(Ordering::Relaxed);
        let own = blocks.clamp(1, MAX_ADDED);
        let count = own.saturating_mul(waiting + 1).min(MAX_ADDED);
        let (first, mut page) = self.pool.extend(self.main, count)?;
        let end = first.get() + count;
        self.free.extend(end);
        let own_end = first.get() + own;
        for block in own_end..end {
            self.free.record(BlockNumber::new(block), new_page_bytes(self.block_size));
        }
        drop(alone);
        reserve.blocks = first.get() + 1..own_end;
        if mutated!(InitUnlatched) {
            drop(page);
            page = self.pool.write(self.main, first)?;
            page.fill(0);
        }
        self.init(&mut page)?;
        Ok(Added::Page(page))
    }

    fn init(&self, page: &mut PageWrite<'_>) -> Result<(), StoreError> {
        let block = page.block();
        match PageMut::init_new(page, self.block_size, 0) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.page_error(block, error)),
        }
    }

    fn is_new(&self, bytes: &[u8]) -> bool {
        Page::new(bytes, self.block_size).is_ok_and(|page| page.is_new())
    }

    /// Bytes that a latched page has for a tuple.
    #[inline]
    pub(super) fn heap_free_bytes(&self, bytes: &[u8]) -> usize {
        Page::new(bytes, self.block_size).map_or(0, free_bytes)
    }

    /// A page that turned out to be broken is not tried again.
    pub(super) fn forget_target(&self, slot: usize) {
        self.writers.writer(slot).forget();
    }
}

/// What making a relation longer came to.
enum Added<'a> {
    /// A new page, initialised.
    Page(PageWrite<'a>),
    /// Another writer added blocks; this is one of them.
    Other(BlockNumber),
}

/// Writers that remember a block each; more share.
const WRITERS: u32 = if cfg!(pgtoast_loom) { 2 } else { 64 };
/// The most blocks that are added at once.
const MAX_ADDED: u32 = 64;
