//! Pages for chunks that die together, pooled, so that what lives long does not keep what does not.
//!
//! ```text
//! span, from the system    | page 64 KiB | page | page | ...      the spans' table, by address
//!
//! page of one cohort       | header | chunk | chunk | chunk | ... | remaining |
//! page of eight leaves     | header, leaf 0 | leaf 1 | ... | leaf 7 |
//!                            `- how many bytes live, in the page or in each leaf
//!
//! a cohort has placed      up to 8 KiB        up to 512 KiB       more
//! its chunks go to         a leaf of all      leaves of its own   pages of its own
//! ```
//! Chunks have no header. Freeing finds the page by the chunk's address: nearly always the page of the
//! chunk freed before, otherwise by binary search in the table of spans.
mod page_pool;

use core::cell::Cell;
use core::ptr::NonNull;

use super::{BlockHeader, BlockList, BlockRef, Engine, checked_large, hand_out, wipe};
use crate::sizes::maxalign;
use crate::{Account, MemoryError};

use page_pool::{LEAF, PAGE, PagePool};

/// The kind of context for chunks that belong to transactions or the like, many of which are open at
/// once: each cohort's chunks share no page with those of others, as soon as it has a few kilobytes of
/// them.
#[derive(Debug)]
pub struct Cohorts {
    pool: PagePool,
    huge: bool,
    external: BlockList<BlockHeader>,
    /// Where chunks of small cohorts, and of none, go. What remains of it is in the tally.
    shared: Cell<Lane>,
    epoch: Cell<u64>,
}

// SAFETY: its pointers lead to blocks that are its own, and no two threads have it at once.
unsafe impl Send for Cohorts {}

/// Chunks that are expected to be freed at about the same time: those of a transaction. A new one costs
/// nothing, and is of no context before it has a leaf of its own.
///
/// One that is dropped without having been closed keeps its last page, until the context is reset.
#[derive(Debug, Default)]
pub struct Cohort {
    /// Of the context that its leaf or page is of; 0 before it has one.
    epoch: u64,
    /// Bytes of its chunks in the shared lane, and of all leaves and pages it had of its own.
    had_bytes: usize,
    lane: Lane,
}

// SAFETY: its pointers are followed only with the context at hand, which is on one thread.
unsafe impl Send for Cohort {}
// SAFETY: nothing is done through a shared reference to it.
unsafe impl Sync for Cohort {}

/// A page or leaf that is being filled.
#[derive(Clone, Copy, Debug)]
struct Lane {
    end: NonNull<u8>,
    /// Bytes before `end` that no chunk has had.
    remaining: usize,
}

// A cohort is made and closed for each transaction, and moved about.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Cohort>() == 32);

/// A cohort that has placed so much has leaves of its own.
const OWN_LEAVES: usize = LEAF;
/// And so much, pages: what the last of them has left is then a small part.
const OWN_PAGES: usize = 8 * PAGE;
/// The largest chunk that goes into a leaf: the rest of one that is left is less than an eighth.
const LARGEST_IN_LEAF: usize = LEAF / 8;
const LARGEST_IN_PAGE: usize = PAGE / 16;
/// Header of a block with a single chunk.
const EXTERNAL_HEADER: usize = maxalign(size_of::<BlockHeader>());

impl Lane {
    #[inline]
    fn carve(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let left = self.remaining;
        self.remaining = left.checked_sub(bytes)?;
        // SAFETY: `remaining` bytes before `end` are in the lane's leaf, or there are none.
        Some(unsafe { self.end.sub(left) })
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self { end: NonNull::<u64>::dangling().cast(), remaining: 0 }
    }
}

impl Cohort {
    /// One without chunks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of chunks that were taken for it, freed or not, and of what it could not use of its pages;
    /// chunks too large for pages left out.
    #[must_use]
    pub fn placed_bytes(&self) -> usize {
        self.had_bytes - self.lane.remaining
    }
}

impl Cohorts {
    pub(crate) fn create(account: Account, huge: bool) -> Self {
        Self {
            pool: PagePool::new(account),
            huge,
            external: BlockList::new(),
            shared: Cell::default(),
            epoch: Cell::new(0),
        }
    }

    /// Memory for a chunk of that cohort.
    #[inline]
    pub(crate) fn allocate_for(
        &self,
        cohort: &mut Cohort,
        size: usize,
    ) -> Result<NonNull<u8>, MemoryError> {
        let bytes = chunk_bytes(size.min(PAGE));
        if cohort.epoch == 0 {
            if cohort.had_bytes + bytes <= OWN_LEAVES
                && let Some(chunk) = self.carve_shared(bytes)
            {
                cohort.had_bytes += bytes;
                return Ok(hand_out(chunk, bytes));
            }
        } else if cohort.epoch == self.epoch.get()
            && let Some(chunk) = cohort.lane.carve(bytes)
        {
            return Ok(self.handed_out(chunk, bytes));
        }
        // By value, so that a cohort that is not asked for much need never be in memory.
        let Cohort { epoch, had_bytes, lane } = *cohort;
        let (chunk, after) =
            self.allocate_for_slowly(Cohort { epoch, had_bytes, lane }, size, bytes)?;
        *cohort = after;
        Ok(chunk)
    }

    /// And the cohort as it is then.
    #[cold]
    #[inline(never)]
    fn allocate_for_slowly(
        &self,
        mut cohort: Cohort,
        size: usize,
        bytes: usize,
    ) -> Result<(NonNull<u8>, Cohort), MemoryError> {
        if cohort.epoch != self.epoch.get() && cohort.epoch != 0 {
            return Err(MemoryError::Foreign);
        }
        let has_pages = cohort.had_bytes > OWN_PAGES;
        let largest = if has_pages { LARGEST_IN_PAGE } else { LARGEST_IN_LEAF };
        if size > largest {
            return Ok((self.allocate_external(size)?, cohort));
        }
        if cohort.had_bytes + bytes <= OWN_LEAVES {
            let chunk = self.allocate_in_next(bytes)?;
            cohort.had_bytes += bytes;
            return Ok((chunk, cohort));
        }
        cohort.lane = self.pool.next_lane(cohort.lane, bytes, has_pages)?;
        cohort.epoch = self.epoch.get();
        cohort.had_bytes += if has_pages { PAGE } else { LEAF };
        let chunk = cohort.lane.carve(bytes);
        let chunk = chunk.ok_or(MemoryError::OutOfMemory { requested: bytes })?;
        Ok((self.handed_out(chunk, bytes), cohort))
    }

    /// Lets go of the cohort's last page. Its chunks stay until they are freed.
    #[inline]
    pub(crate) fn close(&self, cohort: Cohort) -> Result<(), MemoryError> {
        // By parts, as it need not be in memory for that.
        if cohort.epoch == 0 { Ok(()) } else { self.close_lane(cohort.epoch, cohort.lane) }
    }

    #[inline(never)]
    fn close_lane(&self, epoch: u64, lane: Lane) -> Result<(), MemoryError> {
        if epoch != self.epoch.get() {
            return Err(MemoryError::Foreign);
        }
        self.pool.leave(lane);
        Ok(())
    }

    #[inline]
    fn handed_out(&self, chunk: NonNull<u8>, bytes: usize) -> NonNull<u8> {
        self.account().tally().freed_bytes.subtract(bytes);
        hand_out(chunk, bytes)
    }

    /// A part of the shared lane, which counts as handed out.
    #[inline]
    fn carve_shared(&self, bytes: usize) -> Option<NonNull<u8>> {
        let remaining = &self.account().tally().remaining;
        let left = remaining.get();
        remaining.set(left.checked_sub(bytes)?);
        // SAFETY: `remaining` bytes before `end` are in the lane's leaf, or there are none.
        Some(unsafe { self.shared.get().end.sub(left) })
    }

    /// A chunk of the shared lane, after it got another leaf.
    #[inline]
    fn allocate_in_next(&self, bytes: usize) -> Result<NonNull<u8>, MemoryError> {
        let tally = self.account().tally();
        let remaining = tally.remaining.get();
        let lane = Lane { remaining, ..self.shared.get() };
        let next = self.pool.next_lane(lane, bytes, false)?;
        tally.freed_bytes.add(remaining);
        tally.freed_bytes.subtract(next.remaining);
        tally.remaining.set(next.remaining);
        self.shared.set(next);
        let chunk = self.carve_shared(bytes);
        Ok(hand_out(chunk.ok_or(MemoryError::OutOfMemory { requested: bytes })?, bytes))
    }

    #[cold]
    #[inline(never)]
    fn allocate_slowly(&self, bytes: usize) -> Result<NonNull<u8>, MemoryError> {
        self.allocate_in_next(bytes)
    }

    #[cold]
    #[inline(never)]
    fn allocate_external(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        let size = checked_large(size, self.huge)?;
        let block = BlockRef::acquire(self.account(), size + EXTERNAL_HEADER, false)?;
        self.external.push(block);
        let tally = self.account().tally();
        tally.blocks.add(1);
        tally.overhead.add(EXTERNAL_HEADER);
        // SAFETY: the block has its header and the chunk.
        Ok(unsafe { block.at(EXTERNAL_HEADER) })
    }

    #[cold]
    #[inline(never)]
    fn release_external(&self, block: BlockRef<BlockHeader>) {
        self.external.remove(block);
        let tally = self.account().tally();
        tally.blocks.subtract(1);
        tally.overhead.subtract(EXTERNAL_HEADER);
        // SAFETY: it is out of the list; its one chunk is freed or not reached any more.
        unsafe { block.release(self.account()) };
    }
}

/// What a request takes.
#[inline]
fn chunk_bytes(size: usize) -> usize {
    maxalign(size + usize::from(size == 0))
}

// SAFETY: chunks are carved from leaves and pages that are open in one lane, of which each part is carved
// once until all chunks in it are freed; sizes are multiples of 8 in blocks that are aligned to 8, whose
// headers are multiples of 8. Spans stay as long as a page of theirs has chunks or is open, and do not
// move with the engine. A cohort whose lane is of another epoch is not used.
unsafe impl Engine for Cohorts {
    const REDIRECTS: bool = true;

    fn account(&self) -> &Account {
        &self.pool.account
    }

    #[inline]
    fn allocate(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        if size > LARGEST_IN_LEAF {
            return self.allocate_external(size);
        }
        let bytes = chunk_bytes(size);
        match self.carve_shared(bytes) {
            Some(chunk) => Ok(hand_out(chunk, bytes)),
            None => self.allocate_slowly(bytes),
        }
    }

    // SAFETY: what the caller promises stands at the trait's method.
    #[inline]
    unsafe fn free(&self, chunk: NonNull<u8>, size: usize) {
        let Some(offset) = self.pool.find(chunk) else {
            // SAFETY: a live chunk that is in no page is after the header of its own block.
            let block = unsafe { chunk.sub(EXTERNAL_HEADER) };
            self.release_external(BlockRef(block.cast()));
            return;
        };
        let bytes = chunk_bytes(size);
        // SAFETY: it has so many bytes, and is the context's from here on.
        unsafe { wipe(chunk, bytes) };
        self.pool.free(offset, bytes);
    }

    fn shrunk_in_place(&self, chunk: NonNull<u8>, old: usize, new: usize) {
        if let Some(offset) = self.pool.find(chunk) {
            self.pool.free(offset, chunk_bytes(old) - chunk_bytes(new));
        }
    }

    // SAFETY: what the caller promises stands at the trait's method.
    unsafe fn resize(
        &self,
        chunk: NonNull<u8>,
        old: usize,
        new: usize,
    ) -> Result<Option<NonNull<u8>>, MemoryError> {
        if let Some(offset) = self.pool.find(chunk) {
            let (old, new) = (chunk_bytes(old), chunk_bytes(new.min(old + 8)));
            if new > old {
                return Ok(None);
            }
            self.pool.free(offset, old - new);
            return Ok(Some(chunk));
        }
        let bytes = checked_large(new, self.huge)? + EXTERNAL_HEADER;
        // SAFETY: a live chunk that is in no page is after the header of its own block.
        let block = unsafe { chunk.sub(EXTERNAL_HEADER) };
        // SAFETY: the only other reference to the block is in the list, and is mended.
        let block = unsafe { BlockRef(block.cast()).resize(self.account(), bytes) }?;
        self.external.mend(block);
        // SAFETY: the block has its header and the chunk.
        Ok(Some(unsafe { block.at(EXTERNAL_HEADER) }))
    }

    /// Cohorts of other epochs are not this engine's, or not any more.
    fn epoch_begins(&self, epoch: u64) {
        self.epoch.set(epoch);
    }

    fn reset(&mut self, keep_bytes: usize) {
        while let Some(block) = self.external.first() {
            self.release_external(block);
        }
        self.shared.take();
        self.account().tally().remaining.set(0);
        self.pool.reset(keep_bytes);
    }
}

impl Drop for Cohorts {
    fn drop(&mut self) {
        self.reset(0);
    }
}
