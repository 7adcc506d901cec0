//! Chunks of one size.
//!
//! ```text
//! byte 0          8      16     24      28        32                              on a 64-bit machine
//!      | previous | next | free | fresh | written | chunk header, chunk | ... | fresh ... |
//!                         `- how many, and which is the first: one word
//!
//! lists, by how many chunks of a block are free:    none | up to a half | more | all: some are kept
//! ```
//! Chunks come from one block until it has no more: first a run of those that nobody has had since the
//! block was empty, which costs no look at their memory, then those that were freed, the last one first. A
//! freed chunk keeps the block's word as it was before, which is what the word is again when the chunk is
//! taken: one store is both the list of free chunks and their number.
//!
//! The next block is one of the fullest, so that the others become empty. Source: `slab.c` (REL_18; in 15
//! there is a list for each number of free chunks). A server takes from another block as soon as that is
//! fuller, and with a server's headers so do we, which takes the same blocks.
use alloc::boxed::Box;
use core::cell::Cell;
use core::ptr::NonNull;

use super::{BlockList, BlockRef, ChunkHeader, Engine, Header, Links, hand_out, sanitizer, wipe};
use crate::sizes::maxalign;
use crate::{Account, BlockSizes, Headers, MemoryError, Release};

/// The kind of context for many chunks of one size.
#[derive(Debug)]
pub struct Slab {
    account: Account,
    headers: Headers,
    /// The largest request.
    chunk_size: usize,
    /// A chunk with its header.
    full_bytes: usize,
    /// How far into a block its first chunk begins.
    first: usize,
    /// The most chunks of a run: all that come to about 8 kB, or one where blocks are sorted at once.
    longest_run: u32,
    /// The last chunk of the run that chunks are taken from, of which the tally's `remaining` are left.
    run_end: Cell<NonNull<u8>>,
    /// Empty blocks that are kept, and of how many blocks one more is.
    kept_blocks: usize,
    kept_part: usize,
    /// Whether a block changes lists as soon as its number of free chunks says so, as a server does.
    /// Otherwise it does when a block is looked for.
    sorts_at_once: bool,
    block_bytes: usize,
    chunks_per_block: u32,
    /// Shifts a number of free chunks, rounded up, to the number of its list.
    shift: u32,
    /// A block with 1 free chunk and up to so many more needs not be looked at when another is freed.
    unsorted: u32,
    /// The lists of 16 and later: none free, a few, more.
    few: [BlockList<SlabHeader>; 3],
    /// Those of 15, one for each number of free chunks; empty otherwise.
    each: Box<[BlockList<SlabHeader>]>,
    /// The block that chunks are taken from, if there is one; it is in no list.
    current: Cell<Option<BlockRef<SlabHeader>>>,
    empty: BlockList<SlabHeader>,
}

// SAFETY: its pointers lead to blocks that are its own, and no two threads have it at once.
unsafe impl Send for Slab {}

#[repr(C)]
#[derive(Debug)]
struct SlabHeader {
    links: Links<Self>,
    free: Free,
    /// How far into the block the first chunk begins that nobody has had since all were free. Those from
    /// there on count as free, and are in no list.
    fresh: u32,
    /// And the first of those that have no header yet.
    written: u32,
}

const _: () = assert!(size_of::<SlabHeader>() <= 32);

/// The free chunks of a block.
///
/// ```text
/// bit 0       32      34               64
///     | count | zeros | first          |
///                       `- how far into the block it begins, 0 if none is in the list
/// ```
#[derive(Clone, Copy, Debug)]
struct Free(u64);

impl Free {
    #[inline]
    fn new(first: usize, count: u32) -> Self {
        Self((first as u64) << 34 | u64::from(count))
    }

    #[inline]
    fn first(self) -> usize {
        (self.0 >> 34) as usize
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "as drawn")]
    fn count(self) -> u32 {
        self.0 as u32
    }
}

// SAFETY: as it is declared.
unsafe impl Header for SlabHeader {}

const _: () = assert!(size_of::<SlabHeader>() <= 32);

impl BlockRef<SlabHeader> {
    #[inline]
    fn free(self) -> Free {
        // SAFETY: a live block has a header, which nobody has a reference to.
        unsafe { (*self.0.as_ptr()).free }
    }

    #[inline]
    fn set_free(self, free: Free) {
        // SAFETY: as for `free`.
        unsafe { (*self.0.as_ptr()).free = free };
    }

    fn fresh(self) -> usize {
        // SAFETY: as for `free`.
        unsafe { (*self.0.as_ptr()).fresh as usize }
    }

    #[expect(clippy::cast_possible_truncation, reason = "blocks are smaller than 1 GB")]
    fn set_fresh(self, fresh: usize) {
        // SAFETY: as for `free`.
        unsafe { (*self.0.as_ptr()).fresh = fresh as u32 };
    }

    fn written(self) -> usize {
        // SAFETY: as for `free`.
        unsafe { (*self.0.as_ptr()).written as usize }
    }

    #[expect(clippy::cast_possible_truncation, reason = "blocks are smaller than 1 GB")]
    fn set_written(self, written: usize) {
        // SAFETY: as for `free`.
        unsafe { (*self.0.as_ptr()).written = written as u32 };
    }
}

impl Slab {
    /// Chunks of a run have about so many bytes, so that those that were freed are used again soon.
    const RUN_BYTES: usize = 8 << 10;
    /// One of so many blocks is kept when it is empty, so that a large context does not go to the system for
    /// every block.
    const KEPT_PART: usize = 4;

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
        u32::try_from(room / full).ok().filter(|count| *count > 0).ok_or(shape)
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
        account.tally().uncounted.set(headers.context);
        account.tally().chunk_bytes.set(full);
        account.tally().chunks.set(chunks_per_block as usize);
        let sorts_at_once = release != Release::Ours;
        let longest_run = if sorts_at_once { 1 } else { (Self::RUN_BYTES / full).max(1) };
        Ok(Self {
            headers,
            chunk_size,
            full_bytes: full,
            first: block_bytes - all + headers.chunk,
            longest_run: u32::try_from(longest_run).unwrap_or(u32::MAX),
            run_end: Cell::new(NonNull::<u64>::dangling().cast()),
            kept_blocks: release.slab_keeps(block_bytes),
            kept_part: if sorts_at_once { usize::MAX } else { Self::KEPT_PART },
            sorts_at_once,
            block_bytes,
            chunks_per_block,
            shift,
            unsorted: if sorts_at_once { 0 } else { chunks_per_block.saturating_sub(2) },
            few: [const { BlockList::new() }; 3],
            each: (0..each).map(|_| BlockList::new()).collect(),
            current: Cell::new(None),
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

    /// Puts the current block into a list; then there is none.
    fn leave(&self) {
        if let Some(block) = self.current.take() {
            self.lists()[self.list_of(block.free().count())].push(block);
        }
    }

    /// Takes one of the fullest blocks that have room out of its list. Sorts those that it meets on the way.
    fn take_fullest(&self) -> Option<BlockRef<SlabHeader>> {
        for (list, blocks) in self.lists().iter().enumerate().skip(1) {
            while let Some(block) = blocks.pop() {
                let right = self.list_of(block.free().count());
                if right == list {
                    return Some(block);
                }
                self.lists()[right].push(block);
            }
        }
        None
    }

    /// A chunk of a block was freed, and it belongs to another list now, or to none.
    #[cold]
    #[inline(never)]
    fn sort_in(&self, block: BlockRef<SlabHeader>, before: u32) {
        if self.sorts_at_once {
            self.sort_at_once(block, before);
        } else if self.current.get() != Some(block) {
            let [full, few, more] = &self.few;
            // Where it has been since it was left, or was met by who looked for one.
            let list = match before {
                0 => full,
                _ if more.first() == Some(block) => more,
                _ => few,
            };
            list.remove(block);
            self.place(block, few);
        }
    }

    /// The same as a server does it: then chunks may have to come from another block.
    fn sort_at_once(&self, block: BlockRef<SlabHeader>, before: u32) {
        let free = block.free().count();
        if self.list_of(before) == self.list_of(free) && free < self.chunks_per_block {
            return;
        }
        if self.current.get() == Some(block) {
            self.current.set(None);
        } else {
            self.leave();
            self.lists()[self.list_of(before)].remove(block);
        }
        self.place(block, &self.lists()[self.list_of(free)]);
        self.current.set(self.take_fullest());
    }

    /// Puts a block that is in no list into this one, or if all its chunks are free, keeps it or gives it
    /// back.
    fn place(&self, block: BlockRef<SlabHeader>, list: &BlockList<SlabHeader>) {
        let tally = self.account.tally();
        if block.free().count() < self.chunks_per_block {
            list.push(block);
        } else if tally.empty.get() < self.kept_blocks.max(tally.blocks.get() / self.kept_part) {
            self.keep(block);
        } else {
            self.release(block);
        }
    }

    /// Bytes of all chunks of a block.
    fn chunk_bytes(&self) -> usize {
        self.chunks_per_block as usize * self.full_bytes
    }

    /// Keeps a block that is in no list, and whose chunks are all free. None of them is in its list then: to
    /// take one, its memory is not even looked at.
    fn keep(&self, block: BlockRef<SlabHeader>) {
        self.account.tally().empty.add(1);
        block.set_free(Free::new(0, self.chunks_per_block));
        block.set_fresh(self.first);
        self.empty.push(block);
    }

    /// A block that was kept; it is in no list.
    fn take_kept(&self) -> Option<BlockRef<SlabHeader>> {
        let block = self.empty.pop()?;
        self.account.tally().empty.subtract(1);
        Some(block)
    }

    /// A block with room after one that has none: one of the fullest, one that was kept, or a new one.
    fn next_block(&self) -> Result<BlockRef<SlabHeader>, MemoryError> {
        self.leave();
        let block = match self.take_fullest().or_else(|| self.take_kept()) {
            Some(block) => block,
            None => self.new_block()?,
        };
        self.current.set(Some(block));
        Ok(block)
    }

    /// What a chunk has without its header.
    fn room(&self) -> usize {
        self.full_bytes - self.headers.chunk
    }

    /// The next chunk of the run, unless it is over.
    #[inline]
    fn take_of_run(&self) -> Option<NonNull<u8>> {
        let remaining = &self.account.tally().remaining;
        let left = remaining.get().checked_sub(self.full_bytes)?;
        remaining.set(left);
        // SAFETY: so far before the last chunk of the run one begins that nobody has had.
        let chunk = unsafe { self.run_end.get().sub(left) };
        Some(hand_out(chunk, self.room()))
    }

    /// A chunk of a block's list, unless it has none.
    #[inline]
    fn take_of_list(&self, block: BlockRef<SlabHeader>) -> Option<NonNull<u8>> {
        let first = block.free().first();
        if first == 0 {
            return None;
        }
        // SAFETY: a chunk that is free begins there.
        let chunk = hand_out(unsafe { block.at(first) }, self.room());
        // SAFETY: a chunk in a list is the context's, and holds what was free without it.
        block.set_free(unsafe { chunk.cast::<Free>().read() });
        self.account.tally().freed_chunks.subtract(1);
        Some(chunk)
    }

    #[cold]
    #[inline(never)]
    fn take_of_next(&self) -> Result<NonNull<u8>, MemoryError> {
        let block = match self.current.get() {
            Some(block) if block.free().count() > 0 => block,
            _ => self.next_block()?,
        };
        if block.free().first() == 0 {
            self.begin_run(block);
        }
        let chunk = self.take_of_run().or_else(|| self.take_of_list(block));
        chunk.ok_or(MemoryError::OutOfMemory { requested: self.chunk_size })
    }

    /// Goes on with chunks of a block that nobody has had; its list is empty.
    fn begin_run(&self, block: BlockRef<SlabHeader>) {
        let left = block.free().count();
        let count = left.min(self.longest_run);
        let (first, bytes) = (block.fresh(), count as usize * self.full_bytes);
        let end = first + bytes;
        let mut unwritten = block.written().max(first);
        while unwritten < end {
            // SAFETY: a chunk that nobody has had begins there.
            let chunk = unsafe { block.at(unwritten) };
            // SAFETY: the chunk's header is before it.
            sanitizer::unpoison(unsafe { chunk.sub(self.headers.chunk) }, self.headers.chunk);
            // SAFETY: the same.
            unsafe { ChunkHeader::new(ChunkHeader::SLAB, 0, unwritten).put_before(chunk) };
            unwritten += self.full_bytes;
        }
        block.set_written(unwritten);
        block.set_fresh(end);
        block.set_free(Free::new(0, left - count));
        let tally = self.account.tally();
        tally.freed_chunks.subtract(count as usize);
        tally.remaining.set(bytes);
        // SAFETY: the last of so many chunks begins there.
        self.run_end.set(unsafe { block.at(end - self.full_bytes) });
    }

    fn new_block(&self) -> Result<BlockRef<SlabHeader>, MemoryError> {
        let header = SlabHeader {
            links: Links { previous: None, next: None },
            free: Free::new(0, self.chunks_per_block),
            fresh: 0,
            written: 0,
        };
        let block = BlockRef::acquire_with(&self.account, self.block_bytes, header)?;
        let tally = self.account.tally();
        tally.blocks.add(1);
        tally.overhead.add(self.block_bytes - self.chunk_bytes());
        tally.freed_chunks.add(self.chunks_per_block as usize);
        block.set_fresh(self.first);
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
        tally.freed_chunks.subtract(block.free().count() as usize);
        // SAFETY: all blocks have this size; the caller has taken it out of its list, and its chunks are
        // free or not reached any more.
        unsafe { block.release_sized(&self.account, self.block_bytes) };
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
        if let Some(chunk) = self.take_of_run() {
            return Ok(chunk);
        }
        match self.current.get().and_then(|block| self.take_of_list(block)) {
            Some(chunk) => Ok(chunk),
            None => self.take_of_next(),
        }
    }

    // SAFETY: what the caller promises stands at the trait's method.
    #[inline]
    unsafe fn free(&self, chunk: NonNull<u8>, _size: usize) {
        // SAFETY: the chunk is live.
        let header = unsafe { ChunkHeader::before(chunk) };
        debug_assert_eq!(header.id(), ChunkHeader::SLAB, "not a chunk of a Slab");
        // SAFETY: the chunk begins that far into its block.
        let block = BlockRef::<SlabHeader>(unsafe { chunk.sub(header.distance()) }.cast());
        // SAFETY: it has so many bytes, and is the context's from here on.
        unsafe { wipe(chunk, self.room()) };
        sanitizer::unpoison(chunk, size_of::<Free>());
        let free = block.free();
        // SAFETY: the same; it is aligned and of at least 8 bytes.
        unsafe { chunk.cast::<Free>().write(free) };
        sanitizer::poison(chunk, size_of::<Free>());
        let before = free.count();
        block.set_free(Free::new(header.distance(), before + 1));
        self.account.tally().freed_chunks.add(1);
        if before.wrapping_sub(1) >= self.unsorted {
            self.sort_in(block, before);
        }
    }

    // SAFETY: what the caller promises stands at the trait's method.
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
        self.account.tally().remaining.set(0);
        self.leave();
        while let Some(block) = self.take_kept() {
            self.lists()[self.list_of(self.chunks_per_block)].push(block);
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
            let lost = self.chunks_per_block - block.free().count();
            self.account.tally().freed_chunks.add(lost as usize);
            // SAFETY: the block has so many bytes after its header.
            let first = unsafe { block.at(self.block_bytes - self.chunk_bytes()) };
            sanitizer::poison(first, self.chunk_bytes());
            block.set_written(0);
            self.keep(block);
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.reset(0);
    }
}
