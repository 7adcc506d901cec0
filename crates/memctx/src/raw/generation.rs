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

use super::{
    BlockHeader, BlockList, BlockRef, ChunkHeader, Cursor, Engine, Supply, checked_large, hand_out,
    sanitizer, wipe,
};
use crate::sizes::maxalign;
use crate::{Account, BlockSizes, Headers, MemoryError};

/// The kind of context for chunks of about the same age: queues, buffers.
#[derive(Debug)]
pub struct Generation {
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
    /// An empty block that is kept for when the current one is full.
    spare: Cell<Option<BlockRef<BlockHeader>>>,
    blocks: BlockList<BlockHeader>,
}

// SAFETY: its pointers lead to blocks that are its own, and no two threads have it at once.
unsafe impl Send for Generation {}

impl Generation {
    pub(crate) fn create(
        account: Account,
        sizes: BlockSizes,
        huge: bool,
    ) -> Result<Self, MemoryError> {
        let sizes = sizes.checked()?;
        let headers = account.release().generation();
        let supply = Supply::new(account, headers.block, true);
        // The context's structure is in front of the first block, but not counted with it.
        let keeper = supply.take_new(sizes.first(headers) - headers.context)?;
        supply.account.tally().uncounted.set(headers.context);
        let generation = Self {
            limit: sizes.generation_limit(headers) & !7,
            next_bytes: Cell::new(sizes.init),
            cursor: Cursor::new(),
            current: Cell::new(keeper),
            keeper,
            spare: Cell::new(None),
            blocks: BlockList::new(),
            supply,
            sizes,
            headers,
            huge,
        };
        generation.blocks.push(keeper);
        generation.enter(keeper);
        Ok(generation)
    }

    /// Makes an empty block the current one.
    fn enter(&self, block: BlockRef<BlockHeader>) {
        self.cursor.enter(self.account(), block, self.room(block));
        self.current.set(block);
    }

    /// What a block has for chunks and their headers.
    fn room(&self, block: BlockRef<BlockHeader>) -> usize {
        block.size() - self.headers.block
    }

    /// Writes the header of a chunk in the current block; and where the chunk begins.
    #[inline]
    fn chunk_at(&self, start: NonNull<u8>, size: usize) -> NonNull<u8> {
        let current = self.current.get();
        sanitizer::unpoison(start, self.headers.chunk);
        // SAFETY: the caller carved a chunk with its header.
        let chunk = unsafe { start.add(self.headers.chunk) };
        let distance = chunk.addr().get() - current.start().addr().get();
        // SAFETY: the header's bytes are before it, and the caller's.
        unsafe { ChunkHeader::new(ChunkHeader::GENERATION, size, distance).put_before(chunk) };
        current.set_chunks(current.chunks() + 1);
        self.account().tally().chunks.add(1);
        hand_out(chunk, size)
    }

    #[cold]
    #[inline(never)]
    fn allocate_from_other_block(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        let need = self.headers.chunk + size;
        let tally = self.account().tally();
        let spare = self.spare.get().filter(|spare| self.room(*spare) >= need);
        let block = if let Some(spare) = spare {
            self.spare.set(None);
            tally.tails.subtract(spare.tail());
            tally.empty.subtract(1);
            spare
        } else {
            let mut bytes = self.next_bytes.get();
            self.next_bytes.set((bytes * 2).min(self.sizes.max));
            if bytes < need + self.headers.block {
                bytes = (need + self.headers.block).next_power_of_two();
            }
            let block = self.supply.take(need + self.headers.block, bytes)?;
            self.blocks.push(block);
            block
        };
        let rest = tally.remaining.get();
        self.current.get().set_tail(rest);
        tally.tails.add(rest);
        self.enter(block);
        let start = self.cursor.carve(self.account(), need);
        let start = start.ok_or(MemoryError::OutOfMemory { requested: need })?;
        Ok(self.chunk_at(start, size))
    }

    #[cold]
    #[inline(never)]
    fn allocate_external(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        let size = checked_large(size, self.huge)?;
        let block = self.supply.take_new(size + self.headers.chunk + self.headers.block)?;
        self.blocks.push(block);
        block.set_chunks(1);
        self.account().tally().chunks.add(1);
        // SAFETY: the block has both headers and the chunk.
        let chunk = unsafe { block.at(self.headers.block + self.headers.chunk) };
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
        if block == self.current.get() {
            tally.freed_bytes.subtract(self.room(block) - tally.remaining.get());
            self.enter(block);
            return;
        }
        tally.freed_bytes.subtract(self.room(block) - block.tail());
        if !is_external && (block == self.keeper || self.spare.get().is_none()) {
            tally.tails.add(self.room(block) - block.tail());
            block.set_tail(self.room(block));
            if block != self.keeper {
                tally.empty.add(1);
                self.spare.set(Some(block));
            }
            return;
        }
        tally.tails.subtract(block.tail());
        self.blocks.remove(block);
        // SAFETY: it is out of the list, neither current nor keeper nor spare; its chunks are freed.
        unsafe { self.supply.release(block) };
    }
}

// SAFETY: chunks are carved from the current block, of which each part is carved once until all its
// chunks are freed; sizes are multiples of 8 in blocks that are aligned to 8. Blocks stay as long as they
// have chunks, and do not move with the engine.
unsafe impl Engine for Generation {
    const REDIRECTS: bool = true;

    fn account(&self) -> &Account {
        &self.supply.account
    }

    #[inline]
    fn allocate(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        if size > self.limit {
            return self.allocate_external(size);
        }
        let size = maxalign(size);
        match self.cursor.carve(self.account(), self.headers.chunk + size) {
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
            if is_external { self.headers.block + self.headers.chunk } else { header.distance() };
        // SAFETY: the chunk begins that far into its block.
        let block = BlockRef::<BlockHeader>(unsafe { chunk.sub(distance) }.cast());
        let bytes = if is_external { block.size() - distance } else { header.value() };
        // SAFETY: the chunk has so many bytes, and is the context's from here on.
        unsafe { wipe(chunk, bytes) };
        let tally = self.account().tally();
        tally.freed_chunks.add(1);
        tally.freed_bytes.add(self.headers.chunk + bytes);
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
        // It stays in a block of its own, so that giving a part back needs no other memory.
        let bytes = checked_large(new.max(self.limit + 1), self.huge)?
            + self.headers.chunk
            + self.headers.block;
        // SAFETY: the chunk begins that far into its block.
        let block = unsafe { chunk.sub(self.headers.block + self.headers.chunk) };
        // SAFETY: the only other reference to the block is in the list, and is mended.
        let block = unsafe { BlockRef(block.cast()).resize(self.account(), bytes) }?;
        self.blocks.mend(block);
        // SAFETY: the block has both headers and the chunk.
        Ok(Some(unsafe { block.at(self.headers.block + self.headers.chunk) }))
    }

    fn reset(&mut self, keep_bytes: usize) {
        // SAFETY: the keeper is left out, spare and current are set below, and no chunk is reached any
        // more.
        unsafe { self.supply.take_back(&self.blocks, Some(self.keeper), keep_bytes) };
        if self.spare.take().is_some() {
            self.account().tally().empty.subtract(1);
        }
        let tally = self.account().tally();
        for figure in [&tally.chunks, &tally.freed_chunks, &tally.freed_bytes] {
            figure.set(0);
        }
        self.keeper.set_chunks(0);
        self.keeper.set_freed(0);
        self.next_bytes.set(self.sizes.init);
        self.enter(self.keeper);
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        // SAFETY: nothing is used any more.
        unsafe { self.supply.take_back(&self.blocks, None, 0) };
    }
}
