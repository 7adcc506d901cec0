//! Powers of two, a list of free chunks for each, and blocks that are kept until a reset.
//!
//! ```text
//! block | header | chunk header, chunk | chunk header, chunk | ... | remaining |
//!                  `- 8, 16, ... 8192 bytes; freed ones hang together by their first words
//! ```
//! Source: `aset.c` (REL_18).
use core::cell::Cell;
use core::ptr::NonNull;

use super::shared_blocks::{Rules, SharedBlocks};
use super::{ChunkHeader, Engine, hand_out, sanitizer, wipe};
use crate::sizes::{CLASSES, class_of};
use crate::{Account, BlockSizes, MemoryError};

/// The kind of context for anything: chunks of all sizes, freed in any order.
#[derive(Debug)]
pub struct AllocSet {
    blocks: SharedBlocks,
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
        let headers = account.release().alloc_set();
        let rules =
            Rules { limit: BlockSizes::alloc_set_limit, counted: true, has_structure: true };
        let blocks = SharedBlocks::create(account, sizes, headers, huge, rules)?;
        Ok(Self { blocks, free: [const { Cell::new(None) }; CLASSES] })
    }

    /// A chunk with its header.
    #[inline]
    fn full_bytes(&self, class: usize) -> usize {
        self.blocks.headers.chunk + (8 << class)
    }

    /// Writes the header of a chunk that was carved from the current block; and where the chunk begins.
    #[inline]
    fn chunk_at(&self, start: NonNull<u8>, class: usize) -> NonNull<u8> {
        self.blocks.put_header(self.blocks.current.get(), start, ChunkHeader::ALLOC_SET, class)
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
        let need = self.full_bytes(class);
        let block_need = need + self.blocks.headers.block;
        self.split_rest();
        let mut bytes = self.blocks.double();
        while bytes < block_need {
            bytes *= 2;
        }
        let block = loop {
            match self.blocks.supply.take(block_need, bytes) {
                Err(_) if bytes > Self::HALVED && bytes / 2 >= block_need => bytes /= 2,
                result => break result?,
            }
        };
        self.blocks.list.push(block);
        Ok(self.chunk_at(self.blocks.go_on(block, need)?, class))
    }

    /// Makes what remains of the current block into free chunks, the largest first, so that it is not
    /// lost when the block is left.
    fn split_rest(&self) {
        let tally = self.account().tally();
        while let Some(room) = tally.remaining.get().checked_sub(self.blocks.headers.chunk)
            && room >= 8
        {
            // The rest was too small for a chunk of the largest class, but may be larger than the class
            // before it.
            let class = (room.ilog2() as usize - 3).min(CLASSES - 1);
            let bytes = self.full_bytes(class);
            let Some(start) = self.blocks.carve(bytes) else { break };
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
        let (block, chunk) = self.blocks.take_external(size)?;
        self.blocks.list.push_behind(self.blocks.current.get(), block);
        // SAFETY: the chunk's header is before it.
        unsafe { ChunkHeader::external(ChunkHeader::ALLOC_SET).put_before(chunk) };
        Ok(chunk)
    }
}

// SAFETY: chunks are carved from blocks, of which each part is carved once, or taken off lists of freed
// ones; sizes are multiples of 8 in blocks that are aligned to 8. Blocks stay until a reset, external ones
// until they are freed. Blocks do not move with the engine.
unsafe impl Engine for AllocSet {
    const REDIRECTS: bool = true;

    fn account(&self) -> &Account {
        self.blocks.account()
    }

    #[inline]
    fn allocate(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        if size > self.blocks.limit {
            return self.allocate_external(size);
        }
        let class = class_of(size);
        if let Some(chunk) = self.take_off_list(class) {
            let tally = self.account().tally();
            tally.freed_chunks.subtract(1);
            tally.freed_bytes.subtract(self.full_bytes(class));
            return Ok(hand_out(chunk, 8 << class));
        }
        let chunk = match self.blocks.carve(self.full_bytes(class)) {
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
            let block = unsafe { self.blocks.block_of_external(chunk) };
            self.blocks.list.remove(block);
            // SAFETY: it is out of the list, and never was current; its one chunk is freed.
            unsafe { self.blocks.supply.release(block) };
            return;
        }
        let class = header.value();
        // SAFETY: it has so many bytes, and is the context's from here on.
        unsafe { wipe(chunk, 8 << class) };
        sanitizer::unpoison(chunk, 8);
        self.put_on_list(chunk, class);
        let tally = self.account().tally();
        tally.freed_chunks.add(1);
        tally.freed_bytes.add(self.full_bytes(class));
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
        // SAFETY: it is live and external, and those are all in the list.
        unsafe { self.blocks.resize_external(chunk, new) }.map(Some)
    }

    fn reset(&mut self, keep_bytes: usize) {
        // SAFETY: the lists of free chunks are emptied below, and no chunk is reached any more.
        unsafe { self.blocks.reset(keep_bytes) };
        for class in &self.free {
            class.set(None);
        }
        self.account().tally().freed_chunks.set(0);
        self.account().tally().freed_bytes.set(0);
    }
}
