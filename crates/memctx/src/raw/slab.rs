//! Chunks of one size.
//!
//! ```text
//! byte 0          8      16           24     28      32                        on a 64-bit machine
//!      | previous | next | first free | free | fresh | ...  chunk header, chunk | ... | fresh ... |
//!
//! lists, by how many chunks of a block are free:    none | up to a half | more | all: a few are kept
//! ```
//! Chunks come from the blocks that are fullest, so that the others become empty. Source: `slab.c`
//! (REL_18; in 15 there is a list for each number of free chunks).
use alloc::boxed::Box;
use core::cell::Cell;
use core::ptr::NonNull;

use super::{BlockList, BlockRef, ChunkHeader, Engine, Header, Links, sanitizer, wipe};
use crate::sizes::maxalign;
use crate::{Account, BlockSizes, Headers, MemoryError, Release};

/// The kind of context for many chunks of one size.
#[derive(Debug)]
pub struct Slab {
    account: Account,
    headers: Headers,
    /// The largest request.
    chunk_size: usize,
    /// A chunk with its header; both fit, as a block does.
    full_bytes: u32,
    /// How far into a block its first chunk begins.
    first: u32,
    /// And where one behind its last would.
    end: u32,
    block_bytes: usize,
    chunks_per_block: u32,
    /// Shifts a number of free chunks, rounded up, to the number of its list.
    shift: u32,
    /// The bits of a number of free chunks that do not tell the list: a block changes lists when they
    /// become or cease to be 0.
    same_list: u32,
    /// The lists of 16 and later: none free, a few, more.
    few: [BlockList<SlabHeader>; 3],
    /// Those of 15, one for each number of free chunks; empty otherwise.
    each: Box<[BlockList<SlabHeader>]>,
    /// The first of the fullest blocks that have room, if there are any. Chunks are taken from it until
    /// it has none; meanwhile it stays in the list where it was found.
    fullest: Cell<Option<BlockRef<SlabHeader>>>,
    /// That list.
    fullest_list: Cell<usize>,
    empty: BlockList<SlabHeader>,
}

// SAFETY: its pointers lead to blocks that are its own, and no two threads have it at once.
unsafe impl Send for Slab {}

#[repr(C)]
#[derive(Debug)]
struct SlabHeader {
    links: Links<Self>,
    first_free: Option<NonNull<u8>>,
    free: u32,
    /// How far into the block the first of the chunks begins that are in no list, of which there are any
    /// as long as some are free and none is first; and [`UNWRITTEN`] as long as their headers are.
    fresh: u32,
}

const UNWRITTEN: u32 = 1 << 31;

// SAFETY: as it is declared.
unsafe impl Header for SlabHeader {}

const _: () = assert!(size_of::<SlabHeader>() <= 32);

impl BlockRef<SlabHeader> {
    #[inline]
    fn first_free(self) -> Option<NonNull<u8>> {
        // SAFETY: a live block has a header, which nobody has a reference to.
        unsafe { (*self.0.as_ptr()).first_free }
    }

    #[inline]
    fn set_first_free(self, chunk: Option<NonNull<u8>>) {
        // SAFETY: as for `first_free`.
        unsafe { (*self.0.as_ptr()).first_free = chunk };
    }

    #[inline]
    fn free(self) -> u32 {
        // SAFETY: as for `first_free`.
        unsafe { (*self.0.as_ptr()).free }
    }

    #[inline]
    fn set_free(self, free: u32) {
        // SAFETY: as for `first_free`.
        unsafe { (*self.0.as_ptr()).free = free };
    }

    #[inline]
    fn fresh(self) -> u32 {
        // SAFETY: as for `first_free`.
        unsafe { (*self.0.as_ptr()).fresh }
    }

    #[inline]
    fn set_fresh(self, fresh: u32) {
        // SAFETY: as for `first_free`.
        unsafe { (*self.0.as_ptr()).fresh = fresh };
    }
}

impl Slab {
    /// Bytes of the header, which may be less than this one takes.
    fn header_bytes(headers: Headers) -> usize {
        headers.block.max(maxalign(size_of::<SlabHeader>()))
    }

    /// Chunks of a block, by the header that the release has.
    pub(crate) fn chunks_per_block(
        release: Release,
        block_bytes: usize,
        chunk_size: usize,
    ) -> Result<u32, MemoryError> {
        let shape = MemoryError::SlabShape { chunk: chunk_size, block: block_bytes };
        if chunk_size > BlockSizes::LARGEST
            || block_bytes > BlockSizes::LARGEST
            || !block_bytes.is_multiple_of(8)
        {
            return Err(shape);
        }
        let headers = release.slab(0);
        let full = headers.chunk + maxalign(chunk_size.max(1));
        let room = block_bytes.checked_sub(Self::header_bytes(headers)).ok_or(shape)?;
        u32::try_from(room / full).ok().filter(|count| (1..UNWRITTEN).contains(count)).ok_or(shape)
    }

    pub(crate) fn create(
        account: Account,
        block_bytes: usize,
        chunk_size: usize,
    ) -> Result<Self, MemoryError> {
        let release = account.release();
        let chunks_per_block = Self::chunks_per_block(release, block_bytes, chunk_size)?;
        let headers = release.slab(chunks_per_block as usize);
        let each = if release == Release::V15 { chunks_per_block as usize + 1 } else { 0 };
        let mut shift = 0;
        while chunks_per_block >> shift >= 2 {
            shift += 1;
        }
        let full = headers.chunk + maxalign(chunk_size.max(1));
        let all = chunks_per_block as usize * full;
        let shape = |_| MemoryError::SlabShape { chunk: chunk_size, block: block_bytes };
        let full_bytes = u32::try_from(full).map_err(shape)?;
        let first = u32::try_from(block_bytes - all + headers.chunk).map_err(shape)?;
        account.tally().uncounted.set(headers.context);
        account.tally().chunk_bytes.set(full);
        account.tally().chunks.set(chunks_per_block as usize);
        Ok(Self {
            headers,
            chunk_size,
            full_bytes,
            first,
            end: first + chunks_per_block * full_bytes,
            block_bytes,
            chunks_per_block,
            shift,
            same_list: if each == 0 { (1 << shift) - 1 } else { 0 },
            few: [const { BlockList::new() }; 3],
            each: (0..each).map(|_| BlockList::new()).collect(),
            fullest: Cell::new(None),
            fullest_list: Cell::new(0),
            empty: BlockList::new(),
            account,
        })
    }

    /// The size of the largest request.
    pub(crate) fn chunk_size(&self) -> usize {
        self.chunk_size
    }

    fn lists(&self) -> &[BlockList<SlabHeader>] {
        if self.each.is_empty() { &self.few } else { &self.each }
    }

    /// The list for blocks with so many free chunks.
    fn list_of(&self, free: u32) -> usize {
        if self.each.is_empty() {
            ((free + (1 << self.shift) - 1) >> self.shift) as usize
        } else {
            free as usize
        }
    }

    /// Puts the block that chunks were taken from into the list that it belongs to now. To be done before
    /// any list is looked at or changed.
    fn settle(&self) {
        let (from, Some(block)) = (self.fullest_list.get(), self.fullest.get()) else { return };
        let to = self.list_of(block.free());
        if to != from {
            self.lists()[from].remove(block);
            self.lists()[to].push(block);
            self.fullest_list.set(to);
        }
    }

    fn look_for_fullest(&self) {
        let mut lists = self.lists().iter().enumerate().skip(1);
        let found = lists.find_map(|(list, blocks)| Some((list, blocks.first()?)));
        self.fullest.set(found.map(|(_, block)| block));
        self.fullest_list.set(found.map_or(0, |(list, _)| list));
    }

    /// A chunk of a block was freed, and it belongs to another list now, or to none.
    #[cold]
    #[inline(never)]
    fn sort_in(&self, block: BlockRef<SlabHeader>, before: u32) {
        let from = if self.fullest.get() == Some(block) {
            self.fullest_list.get()
        } else {
            self.settle();
            self.list_of(before)
        };
        self.lists()[from].remove(block);
        if block.free() == self.chunks_per_block {
            self.keep_or_release(block);
        } else {
            self.lists()[self.list_of(block.free())].push(block);
        }
        self.look_for_fullest();
    }

    /// Bytes of all chunks of a block.
    fn chunk_bytes(&self) -> usize {
        self.chunks_per_block as usize * self.full_bytes as usize
    }

    /// Keeps a block that is in no list, and whose chunks are all free. They are in no list either then: to
    /// take one, its memory is not even looked at, as it has its header if all have.
    fn keep(&self, block: BlockRef<SlabHeader>) {
        self.account.tally().empty.add(1);
        let unwritten = if block.fresh() & !UNWRITTEN == self.end { 0 } else { UNWRITTEN };
        let unwritten = unwritten & block.fresh();
        block.set_first_free(None);
        block.set_fresh(self.first | unwritten);
        self.empty.push(block);
    }

    /// A block that was kept; it is in no list.
    #[inline]
    fn take_kept(&self) -> Option<BlockRef<SlabHeader>> {
        let block = self.empty.pop()?;
        self.account.tally().empty.subtract(1);
        Some(block)
    }

    /// The fullest block after one that has no room: another, one that was kept, or a new one.
    fn next_block(&self) -> Result<BlockRef<SlabHeader>, MemoryError> {
        self.settle();
        self.look_for_fullest();
        if let Some(block) = self.fullest.get() {
            return Ok(block);
        }
        let block = match self.take_kept() {
            Some(kept) => kept,
            None => self.new_block()?,
        };
        self.lists()[self.list_of(self.chunks_per_block)].push(block);
        self.look_for_fullest();
        Ok(block)
    }

    /// A chunk of a block, unless it has none.
    #[inline]
    fn take(&self, block: BlockRef<SlabHeader>) -> Option<NonNull<u8>> {
        let chunk = if let Some(chunk) = block.first_free() {
            sanitizer::unpoison(chunk, self.chunk_size);
            // SAFETY: a free chunk is the context's and holds what `free` wrote.
            block.set_first_free(unsafe { chunk.cast::<Option<NonNull<u8>>>().read() });
            chunk
        } else {
            let fresh = block.fresh();
            let distance = fresh & !UNWRITTEN;
            if distance == self.end {
                return None;
            }
            block.set_fresh(fresh + self.full_bytes);
            let distance = distance as usize;
            // SAFETY: a chunk that is free and in no list begins there.
            let chunk = unsafe { block.at(distance) };
            sanitizer::unpoison(chunk, self.full_bytes as usize - self.headers.chunk);
            if fresh & UNWRITTEN != 0 {
                // SAFETY: the chunk's header is before it.
                let header = unsafe { chunk.sub(self.headers.chunk) };
                sanitizer::unpoison(header, self.headers.chunk);
                // SAFETY: the same.
                unsafe { ChunkHeader::new(ChunkHeader::SLAB, 0, distance).put_before(chunk) };
            }
            chunk
        };
        block.set_free(block.free() - 1);
        self.account.tally().freed_chunks.subtract(1);
        Some(chunk)
    }

    #[cold]
    #[inline(never)]
    fn take_from_next(&self) -> Result<NonNull<u8>, MemoryError> {
        let chunk = self.take(self.next_block()?);
        chunk.ok_or(MemoryError::OutOfMemory { requested: self.chunk_size })
    }

    fn new_block(&self) -> Result<BlockRef<SlabHeader>, MemoryError> {
        let header = SlabHeader {
            links: Links { previous: None, next: None },
            first_free: None,
            free: self.chunks_per_block,
            fresh: self.first | UNWRITTEN,
        };
        let block = BlockRef::acquire_with(&self.account, self.block_bytes, header)?;
        let tally = self.account.tally();
        tally.blocks.add(1);
        tally.overhead.add(self.block_bytes - self.chunk_bytes());
        tally.freed_chunks.add(self.chunks_per_block as usize);
        // SAFETY: the block has so many bytes after its header.
        let first = unsafe { block.at(self.block_bytes - self.chunk_bytes()) };
        sanitizer::poison(first, self.chunk_bytes());
        Ok(block)
    }

    /// Gives a block back that is in no list, and whose chunks are all free or not reached any more.
    fn release(&self, block: BlockRef<SlabHeader>) {
        let tally = self.account.tally();
        tally.blocks.subtract(1);
        tally.overhead.subtract(self.block_bytes - self.chunk_bytes());
        tally.freed_chunks.subtract(block.free() as usize);
        // SAFETY: all blocks have this size; the caller has taken it out of its list, and its chunks are
        // free or not reached any more.
        unsafe { block.release_sized(&self.account, self.block_bytes) };
    }

    /// What becomes of a block that is in no list, and whose chunks are all free.
    fn keep_or_release(&self, block: BlockRef<SlabHeader>) {
        let tally = self.account.tally();
        if tally.empty.get() < self.account.release().slab_keeps(tally.blocks.get()) {
            self.keep(block);
        } else {
            self.release(block);
        }
    }
}

// SAFETY: a chunk is either the next that was never used in its block or one that was freed; all have the
// largest request's size, rounded up, in blocks that are aligned to 8. Blocks stay as long as they have
// chunks, and do not move with the engine.
unsafe impl Engine for Slab {
    const REDIRECTS: bool = true;

    fn account(&self) -> &Account {
        &self.account
    }

    #[inline]
    fn allocate(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        if size > self.chunk_size {
            return Err(MemoryError::TooLarge { requested: size, limit: self.chunk_size });
        }
        match self.fullest.get().and_then(|block| self.take(block)) {
            Some(chunk) => Ok(chunk),
            None => self.take_from_next(),
        }
    }

    #[inline]
    unsafe fn free(&self, chunk: NonNull<u8>, _size: usize) {
        // SAFETY: the chunk is live.
        let header = unsafe { ChunkHeader::before(chunk) };
        debug_assert_eq!(header.id(), ChunkHeader::SLAB, "not a chunk of a Slab");
        // SAFETY: the chunk begins that far into its block.
        let block = BlockRef::<SlabHeader>(unsafe { chunk.sub(header.distance()) }.cast());
        let bytes = self.full_bytes as usize - self.headers.chunk;
        // SAFETY: it has so many bytes, and is the context's from here on.
        unsafe { wipe(chunk, bytes) };
        sanitizer::unpoison(chunk, 8);
        // SAFETY: the same; it is aligned and of at least 8 bytes.
        unsafe { chunk.cast::<Option<NonNull<u8>>>().write(block.first_free()) };
        sanitizer::poison(chunk, bytes);
        block.set_first_free(Some(chunk));
        let before = block.free();
        block.set_free(before + 1);
        self.account.tally().freed_chunks.add(1);
        if before & self.same_list == 0 || before + 1 == self.chunks_per_block {
            self.sort_in(block, before);
        }
    }

    unsafe fn resize(
        &self,
        chunk: NonNull<u8>,
        _old: usize,
        new: usize,
    ) -> Result<Option<NonNull<u8>>, MemoryError> {
        if new > self.chunk_size {
            return Err(MemoryError::TooLarge { requested: new, limit: self.chunk_size });
        }
        Ok(Some(chunk))
    }

    fn reset(&mut self, keep_bytes: usize) {
        let keep = keep_bytes / self.block_bytes;
        let kept = BlockList::new();
        let mut count = 0;
        while let Some(block) = self.take_kept() {
            self.lists()[self.list_of(block.free())].push(block);
        }
        for list in self.lists() {
            while let Some(block) = list.pop() {
                if count < keep {
                    count += 1;
                    kept.push(block);
                } else {
                    self.release(block);
                }
            }
        }
        while let Some(block) = kept.pop() {
            let lost = self.chunks_per_block - block.free();
            self.account.tally().freed_chunks.add(lost as usize);
            block.set_free(self.chunks_per_block);
            self.keep(block);
        }
        self.fullest.set(None);
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.reset(0);
    }
}
