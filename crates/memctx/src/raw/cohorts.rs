//! Pages for chunks that die together, pooled, so that what lives long does not keep what does not.
//!
//! ```text
//! span, from the system    | page 64 KiB | page | page | ...      the spans' table, by address
//!
//! page of one cohort       | header | chunk | chunk | chunk | ... | remaining |
//! page of eight leaves     | header, leaf 0 | leaf 1 | ... | leaf 7 |
//!                            `- how many live, in the page or in each leaf
//!
//! a cohort has placed      up to 8 KiB        up to 512 KiB       more
//! its chunks go to         a leaf of all      leaves of its own   pages of its own
//! ```
//! Chunks have no header. Freeing finds the page by the chunk's address: nearly always the page of the
//! chunk freed before, otherwise by binary search in the table of spans.
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use super::{
    BlockHeader, BlockList, BlockRef, Engine, Header, Links, checked_large, hand_out, sanitizer,
    wipe,
};
use crate::sizes::maxalign;
use crate::{Account, MemoryError};

/// The kind of context for chunks that belong to transactions or the like, many of which are open at
/// once: each cohort's chunks share no page with those of others, as soon as it has a few kilobytes of
/// them.
#[derive(Debug)]
pub struct Cohorts {
    account: Account,
    huge: bool,
    /// By address.
    spans: RefCell<Vec<Span>>,
    pages: Cell<usize>,
    /// The page that was looked for last, or an address that is in none.
    hot: Cell<NonNull<u8>>,
    free_pages: BlockList<PageHeader>,
    /// Pages of leaves, of which some are free.
    with_free_leaves: BlockList<PageHeader>,
    external: BlockList<BlockHeader>,
    /// Where chunks of small cohorts, and of none, go.
    shared: Lane,
    epoch: Cell<u64>,
}

// SAFETY: its pointers lead to blocks that are its own, and no two threads have it at once.
unsafe impl Send for Cohorts {}

/// Chunks that are expected to be freed at about the same time: those of a transaction. A new one costs
/// nothing.
///
/// One that is dropped without having been closed keeps its last page, until the context is reset.
#[derive(Debug, Default)]
pub struct Cohort {
    /// Of the context that it is of; 0 before its first chunk.
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
#[derive(Debug)]
struct Lane {
    page: Cell<Option<BlockRef<PageHeader>>>,
    end: Cell<NonNull<u8>>,
    /// Bytes before `end` that no chunk has had.
    remaining: Cell<u32>,
    leaf: Cell<u16>,
    /// Chunks that were carved from it; the page is told when the lane leaves it.
    carved: Cell<u16>,
}

// A cohort is made and closed for each transaction, and moved about.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Cohort>() == 40);

#[derive(Clone, Copy, Debug)]
struct Span {
    start: NonNull<u8>,
    pages: u32,
    free_pages: u32,
}

/// ```text
/// byte 0          8      16      20               24            40        on a 64-bit machine
///      | previous | next | shift | free leaves    | live counts | padding to 48
/// ```
#[repr(C)]
#[derive(Debug)]
struct PageHeader {
    links: Links<Self>,
    /// An offset in the page, shifted by this, is its leaf: 0 where the page is not divided.
    shift: u32,
    /// Leaves that are nobody's, by bits.
    free_leaves: u8,
    /// Live chunks of each leaf; of one that is in a lane, [`OPEN`] less those that were freed since.
    live: [u16; LEAVES],
}

// SAFETY: as it is declared.
unsafe impl Header for PageHeader {}

const LEAVES: usize = 8;
const LEAF_SHIFT: u32 = 13;
const PAGE_SHIFT: u32 = LEAF_SHIFT + LEAVES.ilog2();
const LEAF: usize = 1 << LEAF_SHIFT;
const PAGE: usize = 1 << PAGE_SHIFT;
const PAGE_HEADER: usize = maxalign(size_of::<PageHeader>());
const ALL_LEAVES: u8 = u8::MAX;
/// A cohort that has placed so much has leaves of its own.
const OWN_LEAVES: usize = LEAF;
/// And so much, pages: what the last of them has left is then a small part.
const OWN_PAGES: usize = 8 * PAGE;
/// The largest chunk that goes into a leaf: the rest of one that is left is less than an eighth.
const LARGEST_IN_LEAF: usize = LEAF / 8;
const LARGEST_IN_PAGE: usize = PAGE / 16;
/// Header of a block with a single chunk.
const EXTERNAL_HEADER: usize = maxalign(size_of::<BlockHeader>());
/// A span has such a part of all pages, so that the last one costs little.
const SPAN_PART: usize = 256;
/// Pages of the largest span.
const LARGEST_SPAN: usize = 128;
/// Free pages that are kept, at least; and the part of all that is.
const KEPT_PAGES: usize = 16;
const KEPT_PART: usize = 8;
/// More than the chunks of a page, so that one that is in a lane does not look empty.
const OPEN: u16 = 1 << 15;
const _: () = assert!(PAGE / 8 < OPEN as usize && LEAVES == u8::BITS as usize);

impl BlockRef<PageHeader> {
    #[inline]
    fn shift(self) -> u32 {
        // SAFETY: a live page has a header, which nobody has a reference to.
        unsafe { (*self.0.as_ptr()).shift }
    }

    fn set_shift(self, shift: u32) {
        // SAFETY: as for `shift`.
        unsafe { (*self.0.as_ptr()).shift = shift };
    }

    fn free_leaves(self) -> u8 {
        // SAFETY: as for `shift`.
        unsafe { (*self.0.as_ptr()).free_leaves }
    }

    fn set_free_leaves(self, leaves: u8) {
        // SAFETY: as for `shift`.
        unsafe { (*self.0.as_ptr()).free_leaves = leaves };
    }

    /// Live chunks of a leaf.
    #[inline]
    fn live(self, leaf: usize) -> u16 {
        // SAFETY: as for `shift`; the array is read in place.
        unsafe { (*self.0.as_ptr()).live[leaf & (LEAVES - 1)] }
    }

    #[inline]
    fn set_live(self, leaf: usize, live: u16) {
        // SAFETY: as for `live`.
        unsafe { (*self.0.as_ptr()).live[leaf & (LEAVES - 1)] = live };
    }
}

impl Lane {
    fn new() -> Self {
        Self {
            page: Cell::new(None),
            leaf: Cell::new(0),
            end: Cell::new(NonNull::<u64>::dangling().cast()),
            remaining: Cell::new(0),
            carved: Cell::new(0),
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "no more than what is left")]
    fn carve(&self, bytes: usize) -> Option<NonNull<u8>> {
        let left = self.remaining.get();
        if bytes > left as usize {
            return None;
        }
        self.remaining.set(left - bytes as u32);
        self.carved.set(self.carved.get().wrapping_add(1));
        // SAFETY: `remaining` bytes before `end` are in the lane's leaf, or there are none.
        Some(unsafe { self.end.get().sub(left as usize) })
    }

    /// Fills a leaf from its start, or a page that is not divided.
    #[expect(clippy::cast_possible_truncation, reason = "no more than a page")]
    fn enter(&self, page: BlockRef<PageHeader>, leaf: usize) {
        let bytes = 1 << page.shift();
        let header = if leaf == 0 { PAGE_HEADER } else { 0 };
        // SAFETY: the page has that leaf.
        let end = unsafe { page.at((leaf + 1) * bytes) };
        self.page.set(Some(page));
        self.leaf.set(leaf as u16);
        self.end.set(end);
        self.remaining.set((bytes - header) as u32);
        self.carved.set(0);
        page.set_live(leaf, OPEN);
        // SAFETY: so much is between the header and the end.
        sanitizer::poison(unsafe { end.sub(bytes - header) }, bytes - header);
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self::new()
    }
}

impl Cohorts {
    pub(crate) fn create(account: Account, huge: bool) -> Self {
        Self {
            account,
            huge,
            spans: RefCell::new(Vec::new()),
            pages: Cell::new(0),
            hot: Cell::new(NonNull::<u64>::dangling().cast()),
            free_pages: BlockList::new(),
            with_free_leaves: BlockList::new(),
            external: BlockList::new(),
            shared: Lane::new(),
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
        let bytes = maxalign(size.min(PAGE)).max(8);
        if cohort.epoch == self.epoch.get()
            && let Some(chunk) = cohort.lane.carve(bytes)
        {
            return Ok(self.handed_out(chunk, bytes));
        }
        self.allocate_for_small(cohort, size, bytes)
    }

    /// Of a cohort that has no leaf of its own, or no room in it.
    #[inline]
    fn allocate_for_small(
        &self,
        cohort: &mut Cohort,
        size: usize,
        bytes: usize,
    ) -> Result<NonNull<u8>, MemoryError> {
        if cohort.epoch != self.epoch.get() {
            if cohort.epoch != 0 {
                return Err(MemoryError::Foreign);
            }
            cohort.epoch = self.epoch.get();
        }
        if cohort.had_bytes + bytes <= OWN_LEAVES
            && let Some(chunk) = self.shared.carve(bytes)
        {
            cohort.had_bytes += bytes;
            return Ok(self.handed_out(chunk, bytes));
        }
        self.allocate_for_slowly(cohort, size, bytes)
    }

    #[cold]
    #[inline(never)]
    fn allocate_for_slowly(
        &self,
        cohort: &mut Cohort,
        size: usize,
        bytes: usize,
    ) -> Result<NonNull<u8>, MemoryError> {
        let has_pages = cohort.had_bytes > OWN_PAGES;
        let largest = if has_pages { LARGEST_IN_PAGE } else { LARGEST_IN_LEAF };
        if size > largest {
            return self.allocate_external(size);
        }
        if cohort.had_bytes + bytes <= OWN_LEAVES {
            let chunk = self.allocate_in_next(&self.shared, bytes, false)?;
            cohort.had_bytes += bytes;
            return Ok(chunk);
        }
        let chunk = self.allocate_in_next(&cohort.lane, bytes, has_pages)?;
        cohort.had_bytes += if has_pages { PAGE } else { LEAF };
        Ok(chunk)
    }

    /// Lets go of the cohort's last page. Its chunks stay until they are freed.
    #[inline]
    pub(crate) fn close(&self, cohort: Cohort) -> Result<(), MemoryError> {
        if cohort.epoch != self.epoch.get() && cohort.epoch != 0 {
            return Err(MemoryError::Foreign);
        }
        if cohort.lane.page.get().is_some() {
            self.leave(&cohort.lane);
        }
        Ok(())
    }

    #[inline]
    fn handed_out(&self, chunk: NonNull<u8>, bytes: usize) -> NonNull<u8> {
        self.account.tally().freed_bytes.subtract(bytes);
        hand_out(chunk, bytes)
    }

    #[inline]
    fn allocate_in(
        &self,
        lane: &Lane,
        bytes: usize,
        has_pages: bool,
    ) -> Result<NonNull<u8>, MemoryError> {
        match lane.carve(bytes) {
            Some(chunk) => Ok(self.handed_out(chunk, bytes)),
            None => self.allocate_in_next(lane, bytes, has_pages),
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_in_next(
        &self,
        lane: &Lane,
        bytes: usize,
        has_pages: bool,
    ) -> Result<NonNull<u8>, MemoryError> {
        if let Some(page) = lane.page.get()
            && page.live(usize::from(lane.leaf.get())) + lane.carved.get() == OPEN
            && (1 << page.shift()) - PAGE_HEADER >= bytes
        {
            // All its chunks were freed meanwhile.
            lane.enter(page, usize::from(lane.leaf.get()));
        } else {
            // The next one first: if there is none, the lane is as it was.
            let (page, leaf) = if has_pages { (self.take_page()?, 0) } else { self.take_leaf()? };
            if has_pages {
                page.set_shift(PAGE_SHIFT);
            }
            page.set_free_leaves(page.free_leaves() & !(1 << leaf));
            self.leave(lane);
            lane.enter(page, leaf);
        }
        let chunk = lane.carve(bytes).ok_or(MemoryError::OutOfMemory { requested: bytes })?;
        Ok(self.handed_out(chunk, bytes))
    }

    /// Takes its leaf from a lane, which then has none.
    #[inline(never)]
    fn leave(&self, lane: &Lane) {
        lane.remaining.set(0);
        if let Some(page) = lane.page.take() {
            let leaf = usize::from(lane.leaf.get());
            let live = page.live(leaf) + lane.carved.get() - OPEN;
            page.set_live(leaf, live);
            if live == 0 {
                self.recycle(page, leaf);
            }
        }
    }

    /// A leaf that is nobody's any more, or a page that is not divided.
    fn recycle(&self, page: BlockRef<PageHeader>, leaf: usize) {
        if page.shift() == PAGE_SHIFT {
            self.give_page(page);
            return;
        }
        let before = page.free_leaves();
        let after = before | 1 << leaf;
        page.set_free_leaves(after);
        match (before, after) {
            (_, ALL_LEAVES) => {
                if before != 0 {
                    self.with_free_leaves.remove(page);
                }
                self.give_page(page);
            }
            (0, _) => self.with_free_leaves.push(page),
            _ => {}
        }
    }

    /// A leaf that is nobody's; the caller marks it.
    fn take_leaf(&self) -> Result<(BlockRef<PageHeader>, usize), MemoryError> {
        let page = match self.with_free_leaves.first() {
            Some(page) => page,
            None => {
                let page = self.take_page()?;
                page.set_shift(LEAF_SHIFT);
                page.set_free_leaves(ALL_LEAVES);
                self.with_free_leaves.push(page);
                page
            }
        };
        let free = page.free_leaves();
        let leaf = free.trailing_zeros() as usize;
        if free & (free - 1) == 0 {
            // It is the last one.
            self.with_free_leaves.remove(page);
        }
        Ok((page, leaf))
    }

    /// A page that is in no list, with no leaf free.
    fn take_page(&self) -> Result<BlockRef<PageHeader>, MemoryError> {
        if self.free_pages.first().is_none() {
            self.add_span()?;
        }
        let page = self.free_pages.pop().ok_or(MemoryError::OutOfMemory { requested: PAGE })?;
        let tally = self.account.tally();
        tally.empty.subtract(1);
        if let Some(index) = self.span_of(page.start().addr().get()) {
            self.spans.borrow_mut()[index].free_pages -= 1;
        }
        page.set_free_leaves(0);
        Ok(page)
    }

    /// Takes a page back that has no chunks and is in no list and no lane.
    fn give_page(&self, page: BlockRef<PageHeader>) {
        page.set_free_leaves(0);
        self.free_pages.push(page);
        let tally = self.account.tally();
        tally.empty.add(1);
        let Some(index) = self.span_of(page.start().addr().get()) else { return };
        let span = {
            let span = &mut self.spans.borrow_mut()[index];
            span.free_pages += 1;
            *span
        };
        let kept = KEPT_PAGES.max(self.pages.get() / KEPT_PART);
        if span.free_pages == span.pages && tally.empty.get() > kept {
            self.release_span(index);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_span(&self) -> Result<(), MemoryError> {
        let mut pages = (self.pages.get() / SPAN_PART).clamp(1, LARGEST_SPAN);
        self.reserve_table()?;
        let header = || PageHeader {
            links: Links { previous: None, next: None },
            shift: PAGE_SHIFT,
            free_leaves: 0,
            live: [0; LEAVES],
        };
        let first = loop {
            match BlockRef::acquire_with(&self.account, pages * PAGE, header()) {
                Err(_) if pages > 1 => pages /= 2,
                result => break result?,
            }
        };
        let start = first.start();
        for index in (0..pages).rev() {
            // SAFETY: the span has so many pages.
            let page = BlockRef::<PageHeader>(unsafe { first.at(index * PAGE) }.cast());
            // SAFETY: nobody has the page yet; it is aligned and has room for a header.
            unsafe { page.0.write(header()) };
            self.free_pages.push(page);
        }
        let count = u32::try_from(pages).unwrap_or(u32::MAX);
        let mut spans = self.spans.borrow_mut();
        let at = spans.partition_point(|span| span.start < start);
        spans.insert(at, Span { start, pages: count, free_pages: count });
        self.pages.set(self.pages.get() + pages);
        let tally = self.account.tally();
        tally.blocks.add(1);
        tally.empty.add(pages);
        tally.freed_bytes.add(pages * PAGE);
        Ok(())
    }

    /// Makes room for one more span in the table, which is counted.
    fn reserve_table(&self) -> Result<(), MemoryError> {
        let mut spans = self.spans.borrow_mut();
        if spans.len() < spans.capacity() {
            return Ok(());
        }
        let before = spans.capacity() * size_of::<Span>();
        let capacity = spans.capacity() + (spans.capacity() / 8).max(16);
        let bytes = capacity * size_of::<Span>();
        self.account.charge(bytes - before)?;
        let additional = capacity - spans.len();
        if spans.try_reserve_exact(additional).is_err() {
            self.account.discharge(bytes - before);
            return Err(MemoryError::OutOfMemory { requested: bytes });
        }
        self.account.tally().overhead.add(bytes - before);
        Ok(())
    }

    /// Gives a span back to the system whose pages are all free.
    fn release_span(&self, index: usize) {
        let span = self.spans.borrow_mut().remove(index);
        let pages = span.pages as usize;
        let first = BlockRef::<PageHeader>(span.start.cast());
        for index in 0..pages {
            // SAFETY: the span has so many pages.
            self.free_pages.remove(BlockRef(unsafe { first.at(index * PAGE) }.cast()));
        }
        self.let_go(span);
    }

    /// Gives a span back that is in no table, with pages that are in no list.
    fn let_go(&self, span: Span) {
        let pages = span.pages as usize;
        self.hot.set(NonNull::<u64>::dangling().cast());
        self.pages.set(self.pages.get() - pages);
        let tally = self.account.tally();
        tally.blocks.subtract(1);
        tally.empty.subtract(span.free_pages as usize);
        tally.freed_bytes.subtract(pages * PAGE);
        let first = BlockRef::<PageHeader>(span.start.cast());
        // SAFETY: spans are acquired with this size. Its pages are in no list; no lane has one, since they
        // are free, or the lanes were emptied; the page that was looked for last is forgotten.
        unsafe { first.release_sized(&self.account, pages * PAGE) };
    }

    /// Which span an address is in.
    fn span_of(&self, address: usize) -> Option<usize> {
        let spans = self.spans.borrow();
        let after = spans.partition_point(|span| span.start.addr().get() <= address);
        let index = after.checked_sub(1)?;
        let offset = address - spans[index].start.addr().get();
        (offset >> PAGE_SHIFT < spans[index].pages as usize).then_some(index)
    }

    /// The page that a chunk is in, if it is in one, and how far.
    #[inline]
    fn page_of(&self, chunk: NonNull<u8>) -> Option<(BlockRef<PageHeader>, usize)> {
        let hot = self.hot.get();
        let offset = chunk.addr().get().wrapping_sub(hot.addr().get());
        if offset < PAGE {
            return Some((BlockRef(hot.cast()), offset));
        }
        self.look_up_page(chunk)
    }

    #[cold]
    #[inline(never)]
    fn look_up_page(&self, chunk: NonNull<u8>) -> Option<(BlockRef<PageHeader>, usize)> {
        let address = chunk.addr().get();
        let span = self.spans.borrow()[self.span_of(address)?];
        let offset = address - span.start.addr().get();
        // SAFETY: the span has that page.
        let page = unsafe { span.start.add(offset & !(PAGE - 1)) };
        self.hot.set(page);
        Some((BlockRef(page.cast()), offset & (PAGE - 1)))
    }

    #[cold]
    #[inline(never)]
    fn allocate_external(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        let size = checked_large(size, self.huge)?;
        let block = BlockRef::acquire(&self.account, size + EXTERNAL_HEADER, false)?;
        self.external.push(block);
        let tally = self.account.tally();
        tally.blocks.add(1);
        tally.overhead.add(EXTERNAL_HEADER);
        // SAFETY: the block has its header and the chunk.
        Ok(unsafe { block.at(EXTERNAL_HEADER) })
    }

    #[cold]
    #[inline(never)]
    fn release_external(&self, block: BlockRef<BlockHeader>) {
        self.external.remove(block);
        let tally = self.account.tally();
        tally.blocks.subtract(1);
        tally.overhead.subtract(EXTERNAL_HEADER);
        // SAFETY: it is out of the list; its one chunk is freed or not reached any more.
        unsafe { block.release(&self.account) };
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
        self.had_bytes - self.lane.remaining.get() as usize
    }
}

// SAFETY: chunks are carved from leaves and pages that are open in one lane, of which each part is carved
// once until all chunks in it are freed; sizes are multiples of 8 in blocks that are aligned to 8, whose
// headers are multiples of 8. Spans stay as long as a page of theirs has chunks or is open, and do not
// move with the engine. A cohort whose lane is of another epoch is not used.
unsafe impl Engine for Cohorts {
    const REDIRECTS: bool = true;

    fn account(&self) -> &Account {
        &self.account
    }

    #[inline]
    fn allocate(&self, size: usize) -> Result<NonNull<u8>, MemoryError> {
        if size > LARGEST_IN_LEAF {
            return self.allocate_external(size);
        }
        self.allocate_in(&self.shared, maxalign(size).max(8), false)
    }

    #[inline]
    unsafe fn free(&self, chunk: NonNull<u8>, size: usize) {
        let Some((page, offset)) = self.page_of(chunk) else {
            // SAFETY: a live chunk that is in no page is after the header of its own block.
            let block = unsafe { chunk.sub(EXTERNAL_HEADER) };
            self.release_external(BlockRef(block.cast()));
            return;
        };
        let bytes = maxalign(size).max(8);
        // SAFETY: it has so many bytes, and is the context's from here on.
        unsafe { wipe(chunk, bytes) };
        self.account.tally().freed_bytes.add(bytes);
        let leaf = offset >> page.shift();
        let live = page.live(leaf) - 1;
        page.set_live(leaf, live);
        if live == 0 {
            self.recycle(page, leaf);
        }
    }

    fn shrunk_in_place(&self, chunk: NonNull<u8>, old: usize, new: usize) {
        if self.page_of(chunk).is_some() {
            let bytes = maxalign(old).max(8) - maxalign(new).max(8);
            self.account.tally().freed_bytes.add(bytes);
        }
    }

    unsafe fn resize(
        &self,
        chunk: NonNull<u8>,
        old: usize,
        new: usize,
    ) -> Result<Option<NonNull<u8>>, MemoryError> {
        if self.page_of(chunk).is_some() {
            let (old, new) = (maxalign(old).max(8), maxalign(new.min(old + 8)).max(8));
            if new > old {
                return Ok(None);
            }
            self.account.tally().freed_bytes.add(old - new);
            return Ok(Some(chunk));
        }
        let bytes = checked_large(new, self.huge)? + EXTERNAL_HEADER;
        // SAFETY: a live chunk that is in no page is after the header of its own block.
        let block = unsafe { chunk.sub(EXTERNAL_HEADER) };
        // SAFETY: the only other reference to the block is in the list, and is mended.
        let block = unsafe { BlockRef(block.cast()).resize(&self.account, bytes) }?;
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
        self.shared = Lane::new();
        self.free_pages = BlockList::new();
        self.with_free_leaves = BlockList::new();
        let tally = self.account.tally();
        tally.empty.set(0);
        tally.freed_bytes.set(self.pages.get() * PAGE);
        let mut keep_pages = keep_bytes / PAGE;
        let mut kept = Vec::new();
        core::mem::swap(&mut kept, self.spans.get_mut());
        kept.retain_mut(|span| {
            span.free_pages = 0;
            let Some(rest) = keep_pages.checked_sub(span.pages as usize) else {
                self.let_go(*span);
                return false;
            };
            keep_pages = rest;
            span.free_pages = span.pages;
            tally.empty.add(span.pages as usize);
            for index in 0..span.pages as usize {
                // SAFETY: the span has so many pages.
                let page = unsafe { span.start.add(index * PAGE) };
                sanitizer::unpoison(page, PAGE);
                let page = BlockRef::<PageHeader>(page.cast());
                (0..LEAVES).for_each(|leaf| page.set_live(leaf, 0));
                self.free_pages.push(page);
            }
            true
        });
        if kept.is_empty() {
            let bytes = kept.capacity() * size_of::<Span>();
            kept = Vec::new();
            tally.overhead.subtract(bytes);
            self.account.discharge(bytes);
        }
        *self.spans.get_mut() = kept;
    }
}

impl Drop for Cohorts {
    fn drop(&mut self) {
        self.reset(0);
    }
}
