//! Pages of 64 KiB and their eighths, out of spans from the system, and which of them a chunk is in.
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use super::super::{BlockList, BlockRef, Header, Links, sanitizer};
use super::Lane;
use crate::sizes::maxalign;
use crate::{Account, MemoryError};

/// Pages that are somebody's, and free ones.
#[derive(Debug)]
pub(super) struct PagePool {
    pub(super) account: Account,
    /// By address.
    spans: RefCell<Vec<Span>>,
    pages: Cell<usize>,
    /// The page that was found last, or an address that is in none.
    found: Cell<NonNull<u8>>,
    free_pages: BlockList<PageHeader>,
    /// Pages of leaves, of which some are free.
    with_free_leaves: BlockList<PageHeader>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: NonNull<u8>,
    pages: u32,
    free_pages: u32,
}

/// ```text
/// byte 0          8      16      20              24           56        on a 64-bit machine
///      | previous | next | shift | free leaves   | live bytes | chunk, ...
/// ```
#[repr(C)]
#[derive(Debug)]
pub(super) struct PageHeader {
    links: Links<Self>,
    /// An offset in the page, shifted by this, is its leaf: 0 where the page is not divided.
    shift: u32,
    /// Leaves that are nobody's, by bits.
    free_leaves: u8,
    /// Bytes of live chunks of each leaf; of one that is in a lane, [`OPEN`] less those that were freed
    /// since.
    live: [u32; LEAVES],
}

// SAFETY: as it is declared.
unsafe impl Header for PageHeader {}

const LEAVES: usize = 8;
const LEAF_SHIFT: u32 = 13;
const PAGE_SHIFT: u32 = LEAF_SHIFT + LEAVES.ilog2();
pub(super) const LEAF: usize = 1 << LEAF_SHIFT;
pub(super) const PAGE: usize = 1 << PAGE_SHIFT;
const PAGE_HEADER: usize = maxalign(size_of::<PageHeader>());
const ALL_LEAVES: u8 = u8::MAX;
/// A span has such a part of all pages, so that the last one costs little.
const SPAN_PART: usize = 256;
/// Pages of the largest span.
const LARGEST_SPAN: usize = 128;
/// Free pages that are kept, at least; and the part of all that is.
const KEPT_PAGES: usize = 16;
const KEPT_PART: usize = 8;
/// More than the bytes of a page, so that one that is in a lane does not look empty.
const OPEN: u32 = 1 << 31;
const _: () = assert!(PAGE < OPEN as usize && LEAVES == u8::BITS as usize);

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

    /// Bytes of a leaf's live chunks.
    fn live(self, leaf: usize) -> u32 {
        // SAFETY: as for `shift`; the array is read in place.
        unsafe { (*self.0.as_ptr()).live[leaf & (LEAVES - 1)] }
    }

    fn set_live(self, leaf: usize, live: u32) {
        // SAFETY: as for `live`.
        unsafe { (*self.0.as_ptr()).live[leaf & (LEAVES - 1)] = live };
    }

    /// Where they are counted.
    ///
    /// # Safety
    /// The page has that leaf.
    #[inline]
    unsafe fn live_place(self, leaf: usize) -> *mut u32 {
        debug_assert!(leaf < LEAVES);
        // SAFETY: a live page has a header.
        let first = unsafe { &raw mut (*self.0.as_ptr()).live };
        // SAFETY: by this function's contract, it is one of the array.
        unsafe { first.cast::<u32>().add(leaf) }
    }

    /// Bytes of a leaf that are for chunks.
    fn room(self, leaf: usize) -> usize {
        (1 << self.shift()) - if leaf == 0 { PAGE_HEADER } else { 0 }
    }

    /// A lane that fills a leaf from its start, or a page that is not divided.
    fn lane(self, leaf: usize) -> Lane {
        let room = self.room(leaf);
        // SAFETY: the page has that leaf.
        let end = unsafe { self.at((leaf + 1) << self.shift()) };
        self.set_live(leaf, OPEN);
        // SAFETY: so much is between the header and the end.
        sanitizer::poison(unsafe { end.sub(room) }, room);
        Lane { end, remaining: room }
    }

    /// Bytes of live chunks of a leaf that is in a lane.
    #[expect(clippy::cast_possible_truncation, reason = "no more than a page")]
    fn live_in_lane(self, leaf: usize, lane: Lane) -> u32 {
        let freed = OPEN - self.live(leaf);
        (self.room(leaf) - lane.remaining) as u32 - freed
    }
}

impl PagePool {
    pub(super) fn new(account: Account) -> Self {
        Self {
            account,
            spans: RefCell::new(Vec::new()),
            pages: Cell::new(0),
            found: Cell::new(NonNull::<u64>::dangling().cast()),
            free_pages: BlockList::new(),
            with_free_leaves: BlockList::new(),
        }
    }

    /// A lane with room for `bytes`, which are not more than a leaf or page has, in place of one that has
    /// less: on a leaf, or on a page that is not divided.
    #[inline]
    pub(super) fn next_lane(
        &self,
        lane: Lane,
        bytes: usize,
        on_page: bool,
    ) -> Result<Lane, MemoryError> {
        let left = self.leaf_of(lane);
        let live = left.map_or(0, |(page, leaf)| page.live_in_lane(leaf, lane));
        if let Some((page, leaf)) = left
            && live == 0
            && page.room(leaf) >= bytes
        {
            // All its chunks were freed meanwhile.
            return Ok(page.lane(leaf));
        }
        // The next one first: if there is none, the lane is as it was.
        let (page, leaf) = if on_page {
            let page = self.take_page()?;
            page.set_shift(PAGE_SHIFT);
            (page, 0)
        } else {
            self.take_leaf()?
        };
        if let Some((page, leaf)) = left {
            self.leave_leaf(page, leaf, live);
        }
        Ok(page.lane(leaf))
    }

    /// Takes a lane's leaf from it. Its chunks stay.
    pub(super) fn leave(&self, lane: Lane) {
        if let Some((page, leaf)) = self.leaf_of(lane) {
            self.leave_leaf(page, leaf, page.live_in_lane(leaf, lane));
        }
    }

    fn leave_leaf(&self, page: BlockRef<PageHeader>, leaf: usize, live: u32) {
        page.set_live(leaf, live);
        if live == 0 {
            self.recycle(page, leaf);
        }
    }

    /// The leaf that a lane is on, if it is on one.
    fn leaf_of(&self, lane: Lane) -> Option<(BlockRef<PageHeader>, usize)> {
        let last = NonNull::new(lane.end.as_ptr().wrapping_sub(1))?;
        let offset = self.find(last)?;
        let page = self.found();
        Some((page, offset >> page.shift()))
    }

    /// Counts bytes at some offset of the page that was found last as no chunk's any more.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "no more than a page")]
    pub(super) fn free(&self, offset: usize, bytes: usize) {
        let page = self.found();
        self.account.tally().freed_bytes.add(bytes);
        let leaf = offset >> page.shift();
        // SAFETY: the offset is one in the page, and shifted by 13 at least.
        let place = unsafe { page.live_place(leaf) };
        // SAFETY: nobody has a reference to a header.
        let live = unsafe { place.read() } - bytes as u32;
        // SAFETY: the same.
        unsafe { place.write(live) };
        if live == 0 {
            self.recycle(page, leaf);
        }
    }

    /// A leaf that is nobody's any more, or a page that is not divided.
    #[inline(never)]
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

    /// A leaf that was nobody's.
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
        let rest = free & (free - 1);
        page.set_free_leaves(rest);
        if rest == 0 {
            self.with_free_leaves.remove(page);
        }
        Ok((page, free.trailing_zeros() as usize))
    }

    /// A page that is in no list, with no leaf free.
    #[inline(never)]
    fn take_page(&self) -> Result<BlockRef<PageHeader>, MemoryError> {
        if self.free_pages.first().is_none() {
            self.add_span()?;
        }
        let page = self.free_pages.pop().ok_or(MemoryError::OutOfMemory { requested: PAGE })?;
        self.account.tally().empty.subtract(1);
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
        self.found.set(NonNull::<u64>::dangling().cast());
        self.pages.set(self.pages.get() - pages);
        let tally = self.account.tally();
        tally.blocks.subtract(1);
        tally.empty.subtract(span.free_pages as usize);
        tally.freed_bytes.subtract(pages * PAGE);
        let first = BlockRef::<PageHeader>(span.start.cast());
        // SAFETY: spans are acquired with this size. Its pages are in no list; no lane has one, since they
        // are free, or the lanes were emptied; the page that was found last is forgotten.
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

    /// How far into a page a chunk is, if it is in one. It is the one that was found last then.
    #[inline]
    pub(super) fn find(&self, chunk: NonNull<u8>) -> Option<usize> {
        let offset = chunk.addr().get().wrapping_sub(self.found.get().addr().get());
        if offset < PAGE { Some(offset) } else { self.look_up(chunk) }
    }

    #[cold]
    #[inline(never)]
    fn look_up(&self, chunk: NonNull<u8>) -> Option<usize> {
        let address = chunk.addr().get();
        let span = self.spans.borrow()[self.span_of(address)?];
        let offset = address - span.start.addr().get();
        // SAFETY: the span has that page.
        self.found.set(unsafe { span.start.add(offset & !(PAGE - 1)) });
        Some(offset & (PAGE - 1))
    }

    /// The page that was found last.
    #[inline]
    fn found(&self) -> BlockRef<PageHeader> {
        BlockRef(self.found.get().cast())
    }

    /// Takes all pages back, and keeps up to so many bytes of spans. No lane goes on with its leaf.
    pub(super) fn reset(&mut self, keep_bytes: usize) {
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
