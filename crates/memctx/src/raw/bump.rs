//! Chunks without headers, one after the other, given back all at once.
//!
//! ```text
//! block | header | chunk | chunk | chunk | remaining |       a checkpoint: which block, how much of it
//! ```
//! Source: `bump.c` (REL_17).
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use super::{
    BlockHeader, BlockList, BlockRef, Cursor, Engine, Supply, checked_large, hand_out, wipe,
};
use crate::sizes::maxalign;
use crate::{Account, BlockSizes, Headers, MemoryError};

/// The kind of context for chunks that go all at once: nothing is freed alone, and nothing is spent on
/// being able to.
#[derive(Debug)]
pub struct Bump {
    supply: Supply,
    sizes: BlockSizes,
    headers: Headers,
    huge: bool,
    /// The largest chunk without a block of its own: a multiple of 8.
    limit: usize,
    next_bytes: Cell<usize>,
    cursor: Cursor,
    current: Cell<BlockRef<BlockHeader>>,
    keeper: BlockRef<BlockHeader>,
    /// Each block before those it was made after.
    blocks: BlockList<BlockHeader>,
    /// Blocks of a single chunk; the same order.
    external: BlockList<BlockHeader>,
    /// Those that can be gone back to, the oldest first. Their blocks are not given back before them.
    marks: RefCell<Vec<Mark>>,
}

// SAFETY: its pointers lead to blocks that are its own, and no two threads have it at once.
unsafe impl Send for Bump {}

/// What a [`Bump`] held at some time, to go back to.
#[derive(Debug)]
struct Mark {
    /// What tells the checkpoint from all others.
    serial: u64,
    /// The epoch of the chunks that were taken last before it.
    epoch: u64,
    current: BlockRef<BlockHeader>,
    remaining: usize,
    next_bytes: usize,
    external: Option<BlockRef<BlockHeader>>,
}

impl Bump {
    pub(crate) fn create(
        account: Account,
        sizes: BlockSizes,
        huge: bool,
    ) -> Result<Self, MemoryError> {
        let sizes = sizes.checked()?;
        let headers = account.release().bump();
        let supply = Supply::new(account, headers.block, false);
        let keeper = supply.take_new(sizes.first(headers))?;
        supply.account.tally().overhead.add(headers.context);
        let bump = Self {
            limit: sizes.generation_limit(headers) & !7,
            next_bytes: Cell::new(sizes.init),
            cursor: Cursor::new(),
            current: Cell::new(keeper),
            keeper,
            blocks: BlockList::new(),
            external: BlockList::new(),
            marks: RefCell::new(Vec::new()),
            supply,
            sizes,
            headers,
            huge,
        };
        bump.blocks.push(keeper);
        bump.enter_keeper();
        Ok(bump)
    }

    fn enter_keeper(&self) {
        let remaining = self.keeper.size() - self.headers.context - self.headers.block;
        self.cursor.enter(self.account(), self.keeper, remaining);
        self.current.set(self.keeper);
    }

    #[cold]
    #[inline(never)]
    fn allocate_from_new_block(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        let mut bytes = self.next_bytes.get();
        self.next_bytes.set((bytes * 2).min(self.sizes.max));
        let need = size + self.headers.block;
        if bytes < need {
            bytes = need.next_power_of_two();
        }
        let block = self.supply.take(need, bytes)?;
        let tally = self.account().tally();
        let rest = tally.remaining.get();
        self.current.get().set_tail(rest);
        tally.tails.add(rest);
        self.blocks.push(block);
        self.current.set(block);
        self.cursor.enter(self.account(), block, block.size() - self.headers.block);
        let start = self.cursor.carve(self.account(), size);
        Ok(hand_out(start.ok_or(MemoryError::OutOfMemory { requested: size })?, size))
    }

    #[cold]
    #[inline(never)]
    fn allocate_external(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        let size = checked_large(size, self.huge)?;
        let block = self.supply.take_new(size + self.headers.block)?;
        self.external.push(block);
        // SAFETY: the block has its header and the chunk.
        Ok(unsafe { block.at(self.headers.block) })
    }

    /// Remembers what there is, under a serial that is larger than all before it.
    pub(crate) fn checkpoint(&self, serial: u64, epoch: u64) {
        self.marks.borrow_mut().push(Mark {
            serial,
            epoch,
            current: self.current.get(),
            remaining: self.account().tally().remaining.get(),
            next_bytes: self.next_bytes.get(),
            external: self.external.first(),
        });
    }

    /// Goes back to a checkpoint, and forgets those after it; whether there is such a checkpoint.
    pub(crate) fn rewind(&mut self, serial: u64) -> bool {
        let Ok(index) = self.marks.get_mut().binary_search_by_key(&serial, |mark| mark.serial)
        else {
            return false;
        };
        self.marks.get_mut().truncate(index + 1);
        let Some(mark) = self.marks.get_mut().pop() else { return false };
        let tally = self.account().tally();
        while self.external.first() != mark.external {
            let Some(block) = self.external.pop() else { break };
            // SAFETY: it is out of the list, and younger than the mark and so than all marks that are left;
            // its chunk is not reached any more.
            unsafe { self.supply.release(block) };
        }
        while let Some(block) = self.blocks.first()
            && block != mark.current
        {
            self.blocks.remove(block);
            if block != self.current.get() {
                tally.tails.subtract(block.tail());
            }
            // SAFETY: as above, and `current` is set below.
            unsafe { self.supply.release(block) };
        }
        if mark.current != self.current.get() {
            tally.tails.subtract(mark.current.tail());
            self.current.set(mark.current);
        }
        self.cursor.enter(self.account(), mark.current, mark.remaining);
        self.next_bytes.set(mark.next_bytes);
        self.marks.get_mut().push(mark);
        true
    }
}

// SAFETY: chunks are carved from the current block, of which each part is carved once, sizes are
// multiples of 8 in blocks that are aligned to 8. Blocks stay until a reset or a rewind past them, and do
// not move with the engine.
unsafe impl Engine for Bump {
    const REDIRECTS: bool = false;

    fn account(&self) -> &Account {
        &self.supply.account
    }

    #[inline]
    fn allocate(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        if size > self.limit {
            return self.allocate_external(size);
        }
        let size = maxalign(size);
        match self.cursor.carve(self.account(), size) {
            Some(chunk) => Ok(hand_out(chunk, size)),
            None => self.allocate_from_new_block(size),
        }
    }

    /// Nothing happens: the memory stays until the reset.
    // SAFETY: what the caller promises stands at the trait's method.
    #[inline]
    unsafe fn free(&self, chunk: NonNull<u8>, size: usize) {
        // SAFETY: it is a live chunk of so many bytes, which nobody uses any more.
        unsafe { wipe(chunk, size) };
    }

    // SAFETY: what the caller promises stands at the trait's method.
    unsafe fn resize(
        &self,
        chunk: NonNull<u8>,
        old: usize,
        new: usize,
    ) -> Result<Option<NonNull<u8>>, MemoryError> {
        if new <= maxalign(old) {
            return Ok(Some(chunk));
        }
        if old > self.limit || new > self.limit {
            return Ok(None);
        }
        let (old, new) = (maxalign(old), maxalign(new));
        let remaining = self.account().tally().remaining.get();
        // The last chunk of the current block ends where the rest begins, and may take more of it.
        let is_last = chunk.addr().get() + old == self.cursor.rest(remaining).addr().get();
        if is_last && new - old <= remaining {
            let added = self.cursor.carve(self.account(), new - old);
            return Ok(added.map(|added| {
                hand_out(added, new - old);
                chunk
            }));
        }
        Ok(None)
    }

    fn knows_epoch(&self, epoch: u64) -> bool {
        self.marks.borrow().binary_search_by_key(&epoch, |mark| mark.epoch).is_ok()
    }

    fn reset(&mut self, keep_bytes: usize) {
        self.marks.get_mut().clear();
        // SAFETY: the keeper is left out; the current block is set below, and no chunk is reached any
        // more.
        unsafe { self.supply.take_back(&self.blocks, Some(self.keeper), keep_bytes) };
        while let Some(block) = self.external.pop() {
            // SAFETY: it is out of the list, and its chunk is not reached any more.
            unsafe { self.supply.release(block) };
        }
        self.next_bytes.set(self.sizes.init);
        self.enter_keeper();
    }
}

impl Drop for Bump {
    fn drop(&mut self) {
        self.reset(0);
        // SAFETY: nothing is used any more.
        unsafe { self.supply.take_back(&self.blocks, None, 0) };
    }
}
