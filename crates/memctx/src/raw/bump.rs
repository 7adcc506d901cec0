//! Chunks without headers, one after the other, given back all at once.
//!
//! ```text
//! block | header | chunk | chunk | chunk | remaining |       a checkpoint: which block, how much of it
//! ```
//! Source: `bump.c` (REL_17).
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ptr::NonNull;

use super::shared_blocks::{Rules, SharedBlocks};
use super::{BlockHeader, BlockList, BlockRef, Engine, hand_out, wipe};
use crate::sizes::maxalign;
use crate::{Account, BlockSizes, MemoryError};

/// The kind of context for chunks that go all at once: nothing is freed alone, and nothing is spent on
/// being able to.
#[derive(Debug)]
pub struct Bump {
    /// Each block before those it was made after.
    blocks: SharedBlocks,
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
        let headers = account.release().bump();
        let rules =
            Rules { limit: BlockSizes::generation_limit, counted: false, has_structure: true };
        let blocks = SharedBlocks::create(account, sizes, headers, huge, rules)?;
        Ok(Self { blocks, external: BlockList::new(), marks: RefCell::new(Vec::new()) })
    }

    #[cold]
    #[inline(never)]
    fn allocate_from_new_block(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        let start = self.blocks.go_on(self.blocks.add(size)?, size)?;
        Ok(hand_out(start, size))
    }

    #[cold]
    #[inline(never)]
    fn allocate_external(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        let (block, chunk) = self.blocks.take_external(size)?;
        self.external.push(block);
        Ok(chunk)
    }

    /// Remembers what there is, under a serial that is larger than all before it.
    pub(crate) fn checkpoint(&self, serial: u64, epoch: u64) {
        self.marks.borrow_mut().push(Mark {
            serial,
            epoch,
            current: self.blocks.current.get(),
            remaining: self.account().tally().remaining.get(),
            next_bytes: self.blocks.next_bytes.get(),
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
            unsafe { self.blocks.supply.release(block) };
        }
        while let Some(block) = self.blocks.list.first()
            && block != mark.current
        {
            self.blocks.list.remove(block);
            if block != self.blocks.current.get() {
                tally.tails.subtract(block.tail());
            }
            // SAFETY: as above, and `current` is set below.
            unsafe { self.blocks.supply.release(block) };
        }
        if mark.current != self.blocks.current.get() {
            tally.tails.subtract(mark.current.tail());
        }
        self.blocks.enter(mark.current, mark.remaining);
        self.blocks.next_bytes.set(mark.next_bytes);
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
        self.blocks.account()
    }

    #[inline]
    fn allocate(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        if size > self.blocks.limit {
            return self.allocate_external(size);
        }
        let size = maxalign(size);
        match self.blocks.carve(size) {
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
        if old > self.blocks.limit || new > self.blocks.limit {
            return Ok(None);
        }
        let (old, new) = (maxalign(old), maxalign(new));
        let remaining = self.account().tally().remaining.get();
        // The last chunk of the current block ends where the rest begins, and may take more of it.
        let is_last = chunk.addr().get() + old == self.blocks.cursor.rest(remaining).addr().get();
        if is_last && new - old <= remaining {
            let added = self.blocks.carve(new - old);
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
        // SAFETY: there are no marks any more, and no chunk is reached.
        unsafe { self.blocks.reset(keep_bytes) };
        while let Some(block) = self.external.pop() {
            // SAFETY: it is out of the list, and its chunk is not reached any more.
            unsafe { self.blocks.supply.release(block) };
        }
    }
}

impl Drop for Bump {
    fn drop(&mut self) {
        self.reset(0);
    }
}
