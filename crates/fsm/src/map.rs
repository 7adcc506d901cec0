//! The map of a relation: pages of slots, and pages of their maxima above.
//!
//! Looking goes down from the root: on each page to a slot that promises enough, to the page that the
//! slot stands for, and from level 0 to a heap block. Where a page has less than the slot above it
//! promised, that slot is set right and the search goes on from there. Most searches come to the page
//! that the last one came to: that way is tried first, see `trail`. Recording touches the page
//! of level 0 alone, so that writers do not meet at the root; the pages above follow when the
//! relation is vacuumed, or when a search that found nothing compares them with the pages below.
//!
//! **Invariant:** no answer is a block at or past the length that the caller gives. Slots that promise
//! one are cleared, all of a page at once.
//!
//! **Invariant:** every search ends: each step back up lowers a slot for good, and there are at most
//! [`SearchReport::MAX_RESTARTS`] of them, whatever is in the pages.
//!
//! Source: `freespace.c` (REL_18).
use core::ops::Range;

use pgtoast_base::BlockNumber;

use crate::geometry::Shape;
use crate::pages::{Access, MapPages};
use crate::trail::Trail;
use crate::{Category, FsmPageMut, Geometry, PageAddress};

/// Which block of a relation has room? See [`MapPages`] for where the pages are.
///
/// # Panics
/// Every method does if the storage hands over a page whose contents are not
/// [`Geometry::content_bytes`] long.
#[derive(Clone, Debug)]
pub struct FreeSpaceMap<P> {
    geometry: Geometry,
    pages: P,
    sweep: Sweep,
    trail: Trail,
}

/// What a search found, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchReport {
    /// The block; `None` if there is none with so much space, as far as could be seen.
    pub block: Option<BlockNumber>,
    /// Times that a page had less than was promised of it, and the search went back up.
    pub restarts: u32,
    /// Pages of which slots past the end of the relation were cleared.
    pub cleared_pages: u32,
    /// Pages of level 0 that were compared with the slot above them, after nothing had been found.
    pub swept_pages: u32,
}

impl SearchReport {
    /// After so many steps back up a search gives up: the map is wrong beyond what one search should
    /// mend.
    pub const MAX_RESTARTS: u32 = 10_000;
}

/// What is left of a walk over the pages of level 0, in search of space the pages above do not know
/// of. Kept in memory only: after a start nothing is known, so everything is to be walked.
#[derive(Clone, Copy, Debug)]
struct Sweep {
    enabled: bool,
    next_page: u32,
    pages_left: u32,
    /// Pages of level 0 when the walk last went on.
    page_count: u32,
    /// No page that was not walked can have more than this.
    highest: Category,
}

impl<P: MapPages> FreeSpaceMap<P> {
    /// The map that is in the pages; an empty one if there are none.
    pub fn new(geometry: Geometry, pages: P) -> Self {
        let sweep = Sweep {
            enabled: true,
            next_page: 0,
            pages_left: u32::MAX,
            page_count: 0,
            highest: Category::MAX,
        };
        Self { geometry, pages, sweep, trail: Trail::to(geometry, 0) }
    }

    /// The same, but a search that finds nothing takes the upper pages' word for it, as the server
    /// does.
    #[must_use]
    pub fn without_sweep(mut self) -> Self {
        self.sweep.enabled = false;
        self
    }

    /// The map's measures.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The storage.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// The storage back.
    pub fn into_pages(self) -> P {
        self.pages
    }

    /// What the map says of a block; [`Category::NONE`] if it has not heard of it.
    ///
    /// # Errors
    /// The storage's.
    #[doc(alias = "GetRecordedFreeSpace")]
    pub fn category(&mut self, block: BlockNumber) -> Result<Category, P::Error> {
        let Some((address, slot)) = self.geometry.locate(block) else { return Ok(Category::NONE) };
        let category = self.with(address, Access::Read, |page| page.as_page().slot(slot))?;
        Ok(category.unwrap_or_default())
    }

    /// Records what a block has, adding pages as needed. A number that no block has is left alone.
    ///
    /// # Errors
    /// The storage's.
    #[doc(alias = "RecordPageWithFreeSpace")]
    #[inline]
    pub fn record(&mut self, block: BlockNumber, category: Category) -> Result<(), P::Error> {
        let Some((physical, slot)) = self.locate(block) else { return Ok(()) };
        let set = |page: &mut FsmPageMut<'_>| {
            let before = page.root();
            page.set(slot, category);
            (before, page.root())
        };
        let (before, after) = self.with_extended(physical, Access::Change, set)?;
        self.sweep.notice(before, after);
        Ok(())
    }

    /// Records what a block has and looks for another, first on the same page of the map.
    ///
    /// # Errors
    /// The storage's.
    #[doc(alias = "RecordAndGetPageWithFreeSpace")]
    pub fn record_and_search(
        &mut self,
        block: BlockNumber,
        category: Category,
        min: Category,
        nblocks: u32,
    ) -> Result<SearchReport, P::Error> {
        if let Some((address, slot)) = self.geometry.locate(block) {
            let physical = self.geometry.physical_leaf(address);
            let set_and_search = |page: &mut FsmPageMut<'_>| {
                let before = page.root();
                page.set(slot, category);
                (before, page.root(), page.search(min, true))
            };
            let (before, after, found) =
                self.with_extended(physical, Access::Change, set_and_search)?;
            self.sweep.notice(before, after);
            let found = found.map(|slot| self.geometry.first_block(address, slot));
            if let Some(block) = found.and_then(|block| block_within(block, nblocks)) {
                return Ok(SearchReport { block: Some(block), ..SearchReport::default() });
            }
        }
        self.search(min, nblocks)
    }

    /// A block with at least `min`, of a relation with `nblocks` blocks.
    ///
    /// # Errors
    /// The storage's.
    #[doc(alias = "GetPageWithFreeSpace")]
    pub fn search(&mut self, min: Category, nblocks: u32) -> Result<SearchReport, P::Error> {
        let min = min.max(Category::new(1));
        let block = self.search_again(min, nblocks)?;
        if block.is_some() {
            return Ok(SearchReport { block, ..SearchReport::default() });
        }
        self.search_anew(min, nblocks)
    }

    /// A search that goes where the last one ended, if one from the root would; `None` to have that
    /// done in full, with what may have to be mended on the way.
    #[inline]
    fn search_again(
        &mut self,
        min: Category,
        nblocks: u32,
    ) -> Result<Option<BlockNumber>, P::Error> {
        let (shape, trail, pages) = (self.geometry.shape(), &self.trail, &mut self.pages);
        let Some(within) = nblocks.checked_sub(trail.first_block()) else { return Ok(None) };
        for step in trail.above() {
            let look = |page: &mut FsmPageMut<'_>| page.as_page().leads_to(step.slot, min);
            if with_page(pages, shape, step.physical, Access::Read, look)? != Some(true) {
                return Ok(None);
            }
        }
        let look = |page: &mut FsmPageMut<'_>| {
            let slot = page.find(min).filter(|&slot| slot < within)?;
            page.set_next_slot((slot + 1).cast_signed());
            Some(BlockNumber::new(trail.first_block() + slot))
        };
        Ok(with_page(pages, shape, trail.physical(), Access::Hint, look)?.flatten())
    }

    #[cold]
    fn search_anew(&mut self, min: Category, nblocks: u32) -> Result<SearchReport, P::Error> {
        let mut report = SearchReport::default();
        self.search_tree(min, nblocks, &mut report)?;
        if report.block.is_none() && self.sweep(min, nblocks, &mut report)? {
            self.search_tree(min, nblocks, &mut report)?;
        }
        Ok(report)
    }

    /// Carries what the pages of level 0 say upwards, for the blocks of a range, and sets right
    /// whatever is wrong with the pages on the way: after a whole pass, nothing is.
    ///
    /// # Errors
    /// The storage's.
    #[doc(alias = "FreeSpaceMapVacuumRange")]
    pub fn vacuum(&mut self, blocks: Range<BlockNumber>, nblocks: u32) -> Result<(), P::Error> {
        let blocks = blocks.start.get()..blocks.end.get();
        if blocks.start < blocks.end {
            self.vacuum_page(self.geometry.root(), &blocks, nblocks)?;
        }
        Ok(())
    }

    /// [`vacuum`](Self::vacuum) of every block.
    ///
    /// # Errors
    /// The storage's.
    #[doc(alias = "FreeSpaceMapVacuum")]
    pub fn vacuum_all(&mut self, nblocks: u32) -> Result<(), P::Error> {
        self.vacuum(BlockNumber::new(0)..BlockNumber::INVALID, nblocks)
    }

    /// Forgets the blocks from `nblocks` on and the pages that only they needed.
    ///
    /// # Errors
    /// The storage's.
    #[doc(alias = "FreeSpaceMapPrepareTruncateRel")]
    pub fn truncate(&mut self, nblocks: u32) -> Result<(), P::Error> {
        let end = BlockNumber::new(nblocks);
        let Some((address, slot)) = self.geometry.locate(end) else { return Ok(()) };
        let mut keep = self.geometry.physical(address);
        if slot > 0 {
            if self.with(address, Access::Change, |page| page.truncate(slot))?.is_none() {
                return Ok(());
            }
            keep += 1;
        } else if u64::from(self.pages.page_count()?) <= keep {
            return Ok(());
        }
        self.pages.truncate(u32::try_from(keep).unwrap_or(u32::MAX))?;
        self.vacuum(end..BlockNumber::INVALID, nblocks)
    }

    fn search_tree(
        &mut self,
        min: Category,
        nblocks: u32,
        report: &mut SearchReport,
    ) -> Result<(), P::Error> {
        let slots = u64::from(self.geometry.slots());
        let (mut address, mut physical) = (self.geometry.root(), 0);
        while report.restarts <= SearchReport::MAX_RESTARTS {
            let at_bottom = address.level == 0;
            let look = |page: &mut FsmPageMut<'_>| match page.search(min, at_bottom) {
                Some(slot) => Ok(slot),
                None => Err(page.root()),
            };
            let looked = self.with_physical(physical, Access::Hint, look)?;
            match looked.unwrap_or(Err(Category::NONE)) {
                Ok(slot) => {
                    // No number here is past the blocks of a whole map, so nothing overflows.
                    let child = u64::from(address.page) * slots + u64::from(slot);
                    if child * self.geometry.blocks_below(address.level) >= u64::from(nblocks) {
                        // This slot and all behind it stand for blocks that are not there.
                        let within = self.geometry.slots_within(address, nblocks);
                        self.with_physical(physical, Access::Change, |page| page.truncate(within))?;
                        report.cleared_pages += 1;
                        continue;
                    }
                    // What stands before a block of the relation has no higher number than that.
                    let child = u32::try_from(child).unwrap_or(u32::MAX);
                    if at_bottom {
                        if address != self.trail.address() {
                            self.trail = Trail::to(self.geometry, address.page);
                        }
                        report.block = Some(BlockNumber::new(child));
                        return Ok(());
                    }
                    physical = self.geometry.physical_child(address.level, physical, slot);
                    address = PageAddress { level: address.level - 1, page: child };
                }
                Err(root) => {
                    // What is here is less than was promised: say so above and go on there.
                    let Some((parent, slot)) = self.geometry.parent(address) else { return Ok(()) };
                    physical = self.geometry.physical(parent);
                    address = parent;
                    self.with_physical(physical, Access::Change, |page| page.set(slot, root))?;
                    report.restarts += 1;
                }
            }
        }
        Ok(())
    }

    /// The number in the fork of the page of level 0 that knows of a block, and the block's slot there.
    #[inline]
    fn locate(&self, block: BlockNumber) -> Option<(u64, u32)> {
        if let Some(slot) = self.trail.slot_of(block) {
            return Some((self.trail.physical(), slot));
        }
        let (address, slot) = self.geometry.locate(block)?;
        Some((self.geometry.physical_leaf(address), slot))
    }

    /// Compares some pages of level 0 with the slots above them; says whether one has `min`.
    fn sweep(
        &mut self,
        min: Category,
        nblocks: u32,
        report: &mut SearchReport,
    ) -> Result<bool, P::Error> {
        if !self.sweep.enabled || min > self.sweep.highest {
            return Ok(false);
        }
        let page_count = nblocks.div_ceil(self.geometry.slots());
        // Pages that were added meanwhile come before the walk is round.
        let added = page_count.saturating_sub(self.sweep.page_count);
        self.sweep.pages_left = self.sweep.pages_left.saturating_add(added).min(page_count);
        self.sweep.page_count = page_count;
        let mut found = false;
        for _ in 0..self.sweep.pages_left.min(SWEEP_PAGES) {
            let page = if self.sweep.next_page < page_count { self.sweep.next_page } else { 0 };
            self.sweep.next_page = page + 1;
            self.sweep.pages_left -= 1;
            report.swept_pages += 1;
            found |= self.carry_up(PageAddress { level: 0, page }, nblocks)? >= min;
            if found {
                break;
            }
        }
        if self.sweep.pages_left == 0 && !found {
            self.sweep.highest = Category::NONE;
        }
        Ok(found)
    }

    /// Makes a page and the slots above it agree; gives its root.
    fn carry_up(&mut self, address: PageAddress, nblocks: u32) -> Result<Category, P::Error> {
        let within = self.geometry.slots_within(address, nblocks);
        let mend = |page: &mut FsmPageMut<'_>| {
            page.truncate(within);
            page.rebuild();
            page.root()
        };
        let Some(root) = self.with(address, Access::Change, mend)? else {
            return Ok(Category::NONE);
        };
        let mut below = (address, root);
        while let Some((parent, slot)) = self.geometry.parent(below.0) {
            let set = |page: &mut FsmPageMut<'_>| {
                page.set(slot, below.1);
                page.root()
            };
            let Some(parent_root) = self.with(parent, Access::Change, set)? else { break };
            below = (parent, parent_root);
        }
        Ok(root)
    }

    /// The root of a page after it and all below it that stand for the range were set right; `None`
    /// if there is no such page.
    fn vacuum_page(
        &mut self,
        address: PageAddress,
        blocks: &Range<u32>,
        nblocks: u32,
    ) -> Result<Option<Category>, P::Error> {
        let geometry = self.geometry;
        let within = geometry.slots_within(address, nblocks);
        let mend = |page: &mut FsmPageMut<'_>| {
            page.truncate(within);
            page.rebuild();
            page.set_next_slot(0);
            page.root()
        };
        let Some(root) = self.with(address, Access::Change, mend)? else { return Ok(None) };
        if address.level == 0 {
            return Ok(Some(root));
        }
        let touched = geometry.slots_touching(address, blocks);
        let mut first_missing = touched.end;
        for slot in touched.clone() {
            let below = match geometry.child(address, slot) {
                Some(child) => self.vacuum_page(child, blocks, nblocks)?,
                None => None,
            };
            // Pages lie in the order of their blocks: behind a missing one all are.
            let Some(below) = below else {
                first_missing = slot;
                break;
            };
            self.with(address, Access::Change, |page| page.set(slot, below))?;
        }
        self.with(address, Access::Change, |page| {
            page.clear(first_missing..touched.end);
            page.root()
        })
    }

    /// Runs `work` on a page, if there is such a page.
    #[inline]
    pub(crate) fn with<R>(
        &mut self,
        address: PageAddress,
        access: Access,
        work: impl FnOnce(&mut FsmPageMut<'_>) -> R,
    ) -> Result<Option<R>, P::Error> {
        self.with_physical(self.geometry.physical_leaf(address), access, work)
    }

    /// The same for a page by its number in the fork.
    #[inline]
    fn with_physical<R>(
        &mut self,
        physical: u64,
        access: Access,
        work: impl FnOnce(&mut FsmPageMut<'_>) -> R,
    ) -> Result<Option<R>, P::Error> {
        with_page(&mut self.pages, self.geometry.shape(), physical, access, work)
    }

    /// The same for a page that is made if it is not there.
    #[inline]
    fn with_extended<R>(
        &mut self,
        physical: u64,
        access: Access,
        work: impl FnOnce(&mut FsmPageMut<'_>) -> R + Copy,
    ) -> Result<R, P::Error> {
        loop {
            if let Some(result) = self.with_physical(physical, access, work)? {
                return Ok(result);
            }
            self.extend_past(physical)?;
        }
    }

    #[cold]
    fn extend_past(&mut self, physical: u64) -> Result<(), P::Error> {
        let page_count = u32::try_from(physical + 1).unwrap_or(u32::MAX);
        let before = self.pages.page_count()?;
        assert!(
            before < page_count,
            "the storage broke its contract: a page it counts is not there"
        );
        self.pages.extend(page_count)
    }

    pub(crate) fn pages_mut(&mut self) -> &mut P {
        &mut self.pages
    }
}

impl Sweep {
    /// A page of level 0 whose root rose may have more than the slot above it says.
    #[inline]
    fn notice(&mut self, before: Category, after: Category) {
        if after > before {
            self.pages_left = u32::MAX;
            self.highest = self.highest.max(after);
        }
    }
}

#[inline]
fn with_page<P: MapPages, R>(
    pages: &mut P,
    shape: Shape,
    physical: u64,
    access: Access,
    work: impl FnOnce(&mut FsmPageMut<'_>) -> R,
) -> Result<Option<R>, P::Error> {
    let Ok(number) = u32::try_from(physical) else { return Ok(None) };
    pages.with(number, access, |contents| match FsmPageMut::with_shape(shape, contents) {
        Ok(mut page) => work(&mut page),
        Err(error) => panic!("the storage broke its contract: {error}"),
    })
}

#[inline]
fn block_within(block: u64, nblocks: u32) -> Option<BlockNumber> {
    u32::try_from(block).ok().filter(|&block| block < nblocks).map(BlockNumber::new)
}

/// Pages of level 0 that one search that found nothing looks at, at most.
const SWEEP_PAGES: u32 = 64;
