//! Blocks that are filled front to back and given back when the last of their chunks is freed; for
//! chunks that are freed about in the order they were made.
//!
//! ```text
//! block | header: chunks 5, freed 3 | chunk | chunk | chunk | chunk | chunk | remaining |
//!         freed = chunks: current -> rewound; none spare -> spare; else -> the system's
//! ```
//! One chunk that stays keeps its whole block. Source: `generation.c` (REL_18).
use core::cell::Cell;
use core::ptr::NonNull;

use super::shared_blocks::{Rules, SharedBlocks};
use super::{BlockHeader, BlockRef, ChunkHeader, Engine, hand_out, wipe};
use crate::sizes::maxalign;
use crate::{Account, BlockSizes, MemoryError};

/// The kind of context for chunks of about the same age: queues, buffers.
#[derive(Debug)]
pub struct Generation {
    blocks: SharedBlocks,
    /// An empty block that is kept for when the current one is full.
    spare: Cell<Option<BlockRef<BlockHeader>>>,
}

// SAFETY: its pointers lead to blocks that are its own, and no two threads have it at once.
unsafe impl Send for Generation {}

impl Generation {
    pub(crate) fn create(
        account: Account,
        sizes: BlockSizes,
        huge: bool,
    ) -> Result<Self, MemoryError> {
        let headers = account.release().generation();
        let rules =
            Rules { limit: BlockSizes::generation_limit, counted: true, has_structure: false };
        let blocks = SharedBlocks::create(account, sizes, headers, huge, rules)?;
        Ok(Self { blocks, spare: Cell::new(None) })
    }

    /// Writes the header of a chunk that was carved from the current block; and where the chunk begins.
    #[inline]
    fn chunk_at(&self, start: NonNull<u8>, size: usize) -> NonNull<u8> {
        let current = self.blocks.current.get();
        let chunk = self.blocks.put_header(current, start, ChunkHeader::GENERATION, size);
        current.set_chunks(current.chunks() + 1);
        self.account().tally().chunks.add(1);
        hand_out(chunk, size)
    }

    #[cold]
    #[inline(never)]
    fn allocate_from_other_block(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        let need = self.blocks.headers.chunk + size;
        let spare = self.spare.get().filter(|spare| self.blocks.room(*spare) >= need);
        let block = if let Some(spare) = spare {
            self.spare.set(None);
            let tally = self.account().tally();
            tally.tails.subtract(spare.tail());
            tally.empty.subtract(1);
            spare
        } else {
            self.blocks.add(need)?
        };
        Ok(self.chunk_at(self.blocks.go_on(block, need)?, size))
    }

    #[cold]
    #[inline(never)]
    fn allocate_external(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        let (block, chunk) = self.blocks.take_external(size)?;
        self.blocks.list.push(block);
        block.set_chunks(1);
        self.account().tally().chunks.add(1);
        // SAFETY: the chunk's header is before it.
        unsafe { ChunkHeader::external(ChunkHeader::GENERATION).put_before(chunk) };
        Ok(chunk)
    }

    /// All chunks of the block are freed.
    #[cold]
    #[inline(never)]
    fn block_is_empty(&self, block: BlockRef<BlockHeader>, is_external: bool) {
        let tally = self.account().tally();
        let chunks = block.chunks() as usize;
        tally.chunks.subtract(chunks);
        tally.freed_chunks.subtract(chunks);
        block.set_chunks(0);
        block.set_freed(0);
        let room = self.blocks.room(block);
        if block == self.blocks.current.get() {
            tally.freed_bytes.subtract(room - tally.remaining.get());
            self.blocks.enter(block, room);
            return;
        }
        tally.freed_bytes.subtract(room - block.tail());
        let is_keeper = block == self.blocks.keeper;
        if !is_external && (is_keeper || self.spare.get().is_none()) {
            tally.tails.add(room - block.tail());
            block.set_tail(room);
            if !is_keeper {
                tally.empty.add(1);
                self.spare.set(Some(block));
            }
            return;
        }
        tally.tails.subtract(block.tail());
        self.blocks.list.remove(block);
        // SAFETY: it is out of the list, neither current nor keeper nor spare; its chunks are freed.
        unsafe { self.blocks.supply.release(block) };
    }
}

// SAFETY: chunks are carved from the current block, of which each part is carved once until all its
// chunks are freed; sizes are multiples of 8 in blocks that are aligned to 8. Blocks stay as long as they
// have chunks, and do not move with the engine.
unsafe impl Engine for Generation {
    const REDIRECTS: bool = true;

    fn account(&self) -> &Account {
        self.blocks.account()
    }

    #[inline]
    fn allocate(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        if size > self.blocks.limit {
            return self.allocate_external(size);
        }
        let size = maxalign(size);
        match self.blocks.carve(self.blocks.headers.chunk + size) {
            Some(start) => Ok(self.chunk_at(start, size)),
            None => self.allocate_from_other_block(size),
        }
    }

    // SAFETY: what the caller promises stands at the trait's method.
    #[inline]
    unsafe fn free(&self, chunk: NonNull<u8>, _size: usize) {
        // SAFETY: the chunk is live.
        let header = unsafe { ChunkHeader::before(chunk) };
        debug_assert_eq!(header.id(), ChunkHeader::GENERATION, "not a chunk of a Generation");
        let is_external = header.is_external();
        let distance =
            if is_external { self.blocks.external_distance() } else { header.distance() };
        // SAFETY: the chunk begins that far into its block.
        let block = BlockRef::<BlockHeader>(unsafe { chunk.sub(distance) }.cast());
        let bytes = if is_external { block.size() - distance } else { header.value() };
        // SAFETY: the chunk has so many bytes, and is the context's from here on.
        unsafe { wipe(chunk, bytes) };
        let tally = self.account().tally();
        tally.freed_chunks.add(1);
        tally.freed_bytes.add(self.blocks.headers.chunk + bytes);
        let freed = block.freed() + 1;
        block.set_freed(freed);
        if freed == block.chunks() {
            self.block_is_empty(block, is_external);
        }
    }

    // SAFETY: what the caller promises stands at the trait's method.
    unsafe fn resize(
        &self,
        chunk: NonNull<u8>,
        _old: usize,
        new: usize,
    ) -> Result<Option<NonNull<u8>>, MemoryError> {
        // SAFETY: the chunk is live.
        let header = unsafe { ChunkHeader::before(chunk) };
        if !header.is_external() {
            return Ok((new <= header.value()).then_some(chunk));
        }
        // SAFETY: it is live and external, and those are all in the list.
        unsafe { self.blocks.resize_external(chunk, new) }.map(Some)
    }

    fn reset(&mut self, keep_bytes: usize) {
        if self.spare.take().is_some() {
            self.account().tally().empty.subtract(1);
        }
        let tally = self.account().tally();
        for figure in [&tally.chunks, &tally.freed_chunks, &tally.freed_bytes] {
            figure.set(0);
        }
        self.blocks.keeper.set_chunks(0);
        self.blocks.keeper.set_freed(0);
        // SAFETY: there is no spare one any more, and no chunk is reached.
        unsafe { self.blocks.reset(keep_bytes) };
    }
}
