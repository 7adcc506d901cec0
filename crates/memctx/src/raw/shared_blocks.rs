//! The blocks that chunks share, filled one after the other and each twice as large as the one before; and
//! what is alike about chunks that have a block to themselves.
//!
//! ```text
//! keeper | header | structure | chunk | chunk | tail |        current | header | chunk | remaining |
//! ```
use core::cell::Cell;
use core::ptr::NonNull;

use super::{
    BlockHeader, BlockList, BlockRef, ChunkHeader, Cursor, Supply, checked_large, sanitizer,
};
use crate::{Account, BlockSizes, Headers, MemoryError};

#[derive(Debug)]
pub(super) struct SharedBlocks {
    pub(super) supply: Supply,
    pub(super) sizes: BlockSizes,
    pub(super) headers: Headers,
    huge: bool,
    /// The largest chunk without a block of its own: a multiple of 8.
    pub(super) limit: usize,
    /// What the next block has.
    pub(super) next_bytes: Cell<usize>,
    pub(super) cursor: Cursor,
    pub(super) current: Cell<BlockRef<BlockHeader>>,
    /// The first block, which a reset leaves, and the bytes of it that the context's structure has.
    pub(super) keeper: BlockRef<BlockHeader>,
    structure_bytes: usize,
    /// All of them, and blocks of a single chunk where they have no list of their own.
    pub(super) list: BlockList<BlockHeader>,
}

/// What a kind of context has it do.
pub(super) struct Rules {
    /// The largest chunk that goes into a block of those sizes, up to a part of 8 bytes.
    pub(super) limit: fn(BlockSizes, Headers) -> usize,
    /// Whether blocks count their chunks.
    pub(super) counted: bool,
    /// Whether the context's structure counts as a part of the first block.
    pub(super) has_structure: bool,
}

impl SharedBlocks {
    /// With the first block, which is the current one.
    pub(super) fn create(
        account: Account,
        sizes: BlockSizes,
        headers: Headers,
        huge: bool,
        rules: Rules,
    ) -> Result<Self, MemoryError> {
        let sizes = sizes.checked()?;
        let supply = Supply::new(account, headers.block, rules.counted);
        let outside_bytes = if rules.has_structure { 0 } else { headers.context };
        let keeper = supply.take_new(sizes.first(headers) - outside_bytes)?;
        let blocks = Self {
            limit: (rules.limit)(sizes, headers) & !7,
            next_bytes: Cell::new(sizes.init),
            cursor: Cursor::new(),
            current: Cell::new(keeper),
            keeper,
            structure_bytes: headers.context - outside_bytes,
            list: BlockList::new(),
            supply,
            sizes,
            headers,
            huge,
        };
        let tally = blocks.account().tally();
        tally.overhead.add(blocks.structure_bytes);
        tally.uncounted.set(outside_bytes);
        blocks.list.push(keeper);
        blocks.enter_keeper();
        Ok(blocks)
    }

    #[inline]
    pub(super) fn account(&self) -> &Account {
        &self.supply.account
    }

    /// What a block has for chunks and their headers.
    #[inline]
    pub(super) fn room(&self, block: BlockRef<BlockHeader>) -> usize {
        block.size() - self.headers.block
    }

    /// Makes a block the current one, of which `remaining` bytes at its end are for chunks.
    #[inline]
    pub(super) fn enter(&self, block: BlockRef<BlockHeader>, remaining: usize) {
        self.cursor.enter(self.account(), block, remaining);
        self.current.set(block);
    }

    fn enter_keeper(&self) {
        self.enter(self.keeper, self.room(self.keeper) - self.structure_bytes);
    }

    #[inline]
    pub(super) fn carve(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.cursor.carve(self.account(), bytes)
    }

    /// The bytes of the next block, and twice as many of the one after it.
    #[inline]
    pub(super) fn double(&self) -> usize {
        let bytes = self.next_bytes.get();
        self.next_bytes.set((bytes * 2).min(self.sizes.max));
        bytes
    }

    /// One block more, with room for `need` bytes.
    #[inline]
    pub(super) fn add(&self, need: usize) -> Result<BlockRef<BlockHeader>, MemoryError> {
        let (mut bytes, need) = (self.double(), need + self.headers.block);
        if bytes < need {
            bytes = need.next_power_of_two();
        }
        let block = self.supply.take(need, bytes)?;
        self.list.push(block);
        Ok(block)
    }

    /// Leaves the current block for an empty one, and takes the first `need` bytes of it.
    #[inline]
    pub(super) fn go_on(
        &self,
        block: BlockRef<BlockHeader>,
        need: usize,
    ) -> Result<NonNull<u8>, MemoryError> {
        let tally = self.account().tally();
        let rest = tally.remaining.get();
        self.current.get().set_tail(rest);
        tally.tails.add(rest);
        self.enter(block, self.room(block));
        self.carve(need).ok_or(MemoryError::OutOfMemory { requested: need })
    }

    /// Writes the header of a chunk that was carved from a block with it; and where the chunk begins.
    #[inline]
    pub(super) fn put_header(
        &self,
        block: BlockRef<BlockHeader>,
        start: NonNull<u8>,
        id: u64,
        value: usize,
    ) -> NonNull<u8> {
        sanitizer::unpoison(start, self.headers.chunk);
        // SAFETY: the caller carved a chunk with its header.
        let chunk = unsafe { start.add(self.headers.chunk) };
        let distance = chunk.addr().get() - block.start().addr().get();
        // SAFETY: the header's bytes are before it, and the caller's.
        unsafe { ChunkHeader::new(id, value, distance).put_before(chunk) };
        chunk
    }

    /// How far into a block of its own a chunk begins.
    #[inline]
    pub(super) fn external_distance(&self) -> usize {
        self.headers.block + self.headers.chunk
    }

    /// A block for one chunk of `size` bytes, in no list, and where the chunk begins. Its header is yet to
    /// be written.
    pub(super) fn take_external(
        &self,
        size: usize,
    ) -> Result<(BlockRef<BlockHeader>, NonNull<u8>), MemoryError> {
        let bytes = checked_large(size, self.huge)? + self.external_distance();
        let block = self.supply.take_new(bytes)?;
        // SAFETY: the block has both headers and the chunk.
        Ok((block, unsafe { block.at(self.external_distance()) }))
    }

    /// The block that a chunk is alone in.
    ///
    /// # Safety
    /// The chunk is live and external.
    pub(super) unsafe fn block_of_external(&self, chunk: NonNull<u8>) -> BlockRef<BlockHeader> {
        // SAFETY: it begins that far into its block.
        BlockRef(unsafe { chunk.sub(self.external_distance()) }.cast())
    }

    /// Another size for a chunk that is alone in its block, at another place perhaps. It stays in a block
    /// of its own, so that giving a part back needs no other memory.
    ///
    /// # Safety
    /// The chunk is live and external, and its block is in the list.
    pub(super) unsafe fn resize_external(
        &self,
        chunk: NonNull<u8>,
        new: usize,
    ) -> Result<NonNull<u8>, MemoryError> {
        let bytes = checked_large(new.max(self.limit + 1), self.huge)? + self.external_distance();
        // SAFETY: it is live and external.
        let block = unsafe { self.block_of_external(chunk) };
        // SAFETY: the only other reference to it is in the list, and is mended.
        let block = unsafe { block.resize(self.account(), bytes) }?;
        self.list.mend(block);
        // SAFETY: the block has both headers and the chunk.
        Ok(unsafe { block.at(self.external_distance()) })
    }

    /// Takes all blocks but the first back, and keeps up to so many bytes of them.
    ///
    /// # Safety
    /// None but the first and the current one is referred to from elsewhere, nor any of their chunks.
    pub(super) unsafe fn reset(&mut self, keep_bytes: usize) {
        // SAFETY: the keeper is left out, the current block is set below, the rest is this function's
        // contract.
        unsafe { self.supply.take_back(&self.list, Some(self.keeper), keep_bytes) };
        self.next_bytes.set(self.sizes.init);
        self.enter_keeper();
    }
}

impl Drop for SharedBlocks {
    fn drop(&mut self) {
        // SAFETY: nothing is used any more.
        unsafe { self.supply.take_back(&self.list, None, 0) };
    }
}
