//! Powers of two, a list of free chunks for each, and blocks that are kept until a reset.
//!
//! ```text
//! block | header | chunk header, chunk | chunk header, chunk | ... | remaining |
//!                  `- 8, 16, ... 8192 bytes; freed ones hang together by their first words
//! ```
//! Source: `aset.c` (REL_18).
use core::cell::Cell;
use core::ptr::NonNull;

use super::{
    BlockHeader, BlockList, BlockRef, ChunkHeader, Cursor, Engine, Supply, checked_large, hand_out,
    sanitizer, wipe,
};
use crate::sizes::{CLASSES, class_of};
use crate::{Account, BlockSizes, Headers, MemoryError};

/// The kind of context for anything: chunks of all sizes, freed in any order.
#[derive(Debug)]
pub struct AllocSet {
    supply: Supply,
    sizes: BlockSizes,
    headers: Headers,
    huge: bool,
    /// The largest chunk without a block of its own: a multiple of 8.
    limit: usize,
    /// What the next block has.
    next_bytes: Cell<usize>,
    cursor: Cursor,
    current: Cell<BlockRef<BlockHeader>>,
    keeper: BlockRef<BlockHeader>,
    blocks: BlockList<BlockHeader>,
    free: [Cell<Option<NonNull<u8>>>; CLASSES],
}

// SAFETY: its pointers lead to blocks that are its own, and no two threads have it at once.
unsafe impl Send for AllocSet {}

impl AllocSet {
    /// Blocks over this are asked for in halves when the system refuses.
    const HALVED: usize = 1 << 20;

    pub(crate) fn create(
        account: Account,
        sizes: BlockSizes,
        huge: bool,
    ) -> Result<Self, MemoryError> {
        let sizes = sizes.checked()?;
        let headers = account.release().alloc_set();
        let supply = Supply::new(account, headers.block, true);
        let keeper = supply.take_new(sizes.first(headers))?;
        supply.account.tally().overhead.add(headers.context);
        let set = Self {
            limit: sizes.alloc_set_limit(headers),
            next_bytes: Cell::new(sizes.init),
            cursor: Cursor::new(),
            current: Cell::new(keeper),
            keeper,
            blocks: BlockList::new(),
            free: [const { Cell::new(None) }; CLASSES],
            supply,
            sizes,
            headers,
            huge,
        };
        set.blocks.push(keeper);
        set.enter_keeper();
        Ok(set)
    }

    fn enter_keeper(&self) {
        let remaining = self.keeper.size() - self.headers.context - self.headers.block;
        self.cursor.enter(self.account(), self.keeper, remaining);
        self.current.set(self.keeper);
    }

    /// Writes the header of a chunk whose block, as it is not external, is the current one; and where
    /// the chunk begins.
    #[inline]
    fn chunk_at(&self, start: NonNull<u8>, class: usize) -> NonNull<u8> {
        sanitizer::unpoison(start, self.headers.chunk);
        // SAFETY: the caller carved a chunk with its header.
        let chunk = unsafe { start.add(self.headers.chunk) };
        let distance = chunk.addr().get() - self.current.get().start().addr().get();
        // SAFETY: the header's bytes are before it, and the caller's.
        unsafe { ChunkHeader::new(ChunkHeader::ALLOC_SET, class, distance).put_before(chunk) };
        chunk
    }

    #[inline]
    fn put_on_list(&self, chunk: NonNull<u8>, class: usize) {
        let next = self.free[class].replace(Some(chunk));
        // SAFETY: a free chunk is the context's, aligned, and of at least 8 bytes.
        unsafe { chunk.cast::<Option<NonNull<u8>>>().write(next) };
        sanitizer::poison(chunk, 8 << class);
    }

    #[inline]
    fn take_off_list(&self, class: usize) -> Option<NonNull<u8>> {
        let chunk = self.free[class].get()?;
        sanitizer::unpoison(chunk, 8 << class);
        // SAFETY: a chunk on a list is the context's and holds what `put_on_list` wrote.
        self.free[class].set(unsafe { chunk.cast::<Option<NonNull<u8>>>().read() });
        Some(chunk)
    }

    #[cold]
    #[inline(never)]
    fn allocate_from_new_block(&self, class: usize) -> Result<NonNull<u8>, MemoryError> {
        let need = self.headers.chunk + (8 << class);
        self.split_rest();
        let mut bytes = self.next_bytes.get();
        self.next_bytes.set((bytes * 2).min(self.sizes.max));
        while bytes < need + self.headers.block {
            bytes *= 2;
        }
        let block = loop {
            match self.supply.take(need + self.headers.block, bytes) {
                Err(_) if bytes > Self::HALVED && bytes / 2 >= need + self.headers.block => {
                    bytes /= 2;
                }
                result => break result?,
            }
        };
        let tally = self.account().tally();
        let rest = tally.remaining.get();
        self.current.get().set_tail(rest);
        tally.tails.add(rest);
        self.blocks.push(block);
        self.current.set(block);
        self.cursor.enter(self.account(), block, block.size() - self.headers.block);
        let start = self.cursor.carve(self.account(), need);
        let start = start.ok_or(MemoryError::OutOfMemory { requested: need })?;
        Ok(self.chunk_at(start, class))
    }

    /// Makes what remains of the current block into free chunks, the largest first, so that it is not
    /// lost when the block is left.
    fn split_rest(&self) {
        let tally = self.account().tally();
        while let Some(room) = tally.remaining.get().checked_sub(self.headers.chunk)
            && room >= 8
        {
            // The rest was too small for a chunk of the largest class, but may be larger than the class
            // before it.
            let class = (room.ilog2() as usize - 3).min(CLASSES - 1);
            let bytes = self.headers.chunk + (8 << class);
            let Some(start) = self.cursor.carve(self.account(), bytes) else { break };
            let chunk = self.chunk_at(start, class);
            sanitizer::unpoison(chunk, 8 << class);
            self.put_on_list(chunk, class);
            tally.freed_chunks.add(1);
            tally.freed_bytes.add(bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_external(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        let size = checked_large(size, self.huge)?;
        let bytes = size + self.headers.chunk + self.headers.block;
        let block = self.supply.take_new(bytes)?;
        self.blocks.push_behind(self.current.get(), block);
        // SAFETY: the block has both headers and the chunk.
        let chunk = unsafe { block.at(self.headers.block + self.headers.chunk) };
        // SAFETY: the chunk's header is before it.
        unsafe { ChunkHeader::external(ChunkHeader::ALLOC_SET).put_before(chunk) };
        Ok(chunk)
    }

    /// The block that a chunk is alone in.
    ///
    /// # Safety
    /// The chunk is live and external.
    unsafe fn block_of_external(&self, chunk: NonNull<u8>) -> BlockRef<BlockHeader> {
        // SAFETY: it begins that far into its block.
        BlockRef(unsafe { chunk.sub(self.headers.chunk + self.headers.block) }.cast())
    }
}

// SAFETY: chunks are carved from blocks, of which each part is carved once, or taken off lists of freed
// ones; sizes are multiples of 8 in blocks that are aligned to 8. Blocks stay until a reset, external ones
// until they are freed. Blocks do not move with the engine.
unsafe impl Engine for AllocSet {
    const REDIRECTS: bool = true;

    fn account(&self) -> &Account {
        &self.supply.account
    }

    #[inline]
    fn allocate(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        if size > self.limit {
            return self.allocate_external(size);
        }
        let class = class_of(size);
        if let Some(chunk) = self.take_off_list(class) {
            let tally = self.account().tally();
            tally.freed_chunks.subtract(1);
            tally.freed_bytes.subtract(self.headers.chunk + (8 << class));
            return Ok(hand_out(chunk, 8 << class));
        }
        let chunk = match self.cursor.carve(self.account(), self.headers.chunk + (8 << class)) {
            Some(start) => self.chunk_at(start, class),
            None => self.allocate_from_new_block(class)?,
        };
        Ok(hand_out(chunk, 8 << class))
    }

    // SAFETY: what the caller promises stands at the trait's method.
    #[inline]
    unsafe fn free(&self, chunk: NonNull<u8>, _size: usize) {
        // SAFETY: the chunk is live.
        let header = unsafe { ChunkHeader::before(chunk) };
        debug_assert_eq!(header.id(), ChunkHeader::ALLOC_SET, "not a chunk of an AllocSet");
        if header.is_external() {
            // SAFETY: it is live and external.
            let block = unsafe { self.block_of_external(chunk) };
            self.blocks.remove(block);
            // SAFETY: it is out of the list, and never was current; its one chunk is freed.
            unsafe { self.supply.release(block) };
            return;
        }
        let class = header.value();
        // SAFETY: it has so many bytes, and is the context's from here on.
        unsafe { wipe(chunk, 8 << class) };
        sanitizer::unpoison(chunk, 8);
        self.put_on_list(chunk, class);
        let tally = self.account().tally();
        tally.freed_chunks.add(1);
        tally.freed_bytes.add(self.headers.chunk + (8 << class));
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
            return Ok((new <= 8 << header.value()).then_some(chunk));
        }
        // It stays in a block of its own, so that giving a part back needs no other memory.
        let bytes = checked_large(new.max(self.limit + 1), self.huge)?
            + self.headers.chunk
            + self.headers.block;
        // SAFETY: it is live and external.
        let block = unsafe { self.block_of_external(chunk) };
        // SAFETY: the only other reference to it is in the list, and is mended.
        let block = unsafe { block.resize(self.account(), bytes) }?;
        self.blocks.mend(block);
        // SAFETY: the block has both headers and the chunk.
        Ok(Some(unsafe { block.at(self.headers.block + self.headers.chunk) }))
    }

    fn reset(&mut self, keep_bytes: usize) {
        // SAFETY: the keeper is left out; the current block is set below, and no chunk is reached any more.
        unsafe { self.supply.take_back(&self.blocks, Some(self.keeper), keep_bytes) };
        for class in &self.free {
            class.set(None);
        }
        self.account().tally().freed_chunks.set(0);
        self.account().tally().freed_bytes.set(0);
        self.next_bytes.set(self.sizes.init);
        self.enter_keeper();
    }
}

impl Drop for AllocSet {
    fn drop(&mut self) {
        // SAFETY: nothing is used any more.
        unsafe { self.supply.take_back(&self.blocks, None, 0) };
    }
}
