use alloc::vec::Vec;

use super::TwinFigures;
use crate::sizes::maxalign;

/// What a [`Cohorts`](crate::Cohorts) does with pages and leaves, one number for each.
#[derive(Clone, Debug, Default)]
pub struct TwinCohorts {
    /// By number; none where one was given back.
    pages: Vec<Option<TwinPage>>,
    /// The numbers of the pages of each span.
    spans: Vec<core::ops::Range<usize>>,
    /// Spans that the table of them has room for.
    table: usize,
    /// Numbers of free pages; the last one is taken first.
    free_pages: Vec<usize>,
    /// Pages with free leaves; those of the last one are taken first.
    with_free_leaves: Vec<usize>,
    /// Where chunks of small cohorts go, and those of none.
    shared: Option<TwinLane>,
    live_bytes: usize,
    /// Of blocks with a single chunk.
    external_bytes: usize,
    externals: usize,
}

/// A cohort of a [`TwinCohorts`].
#[derive(Clone, Debug, Default)]
pub struct TwinCohort {
    /// Bytes of its chunks among those of others, and of all leaves and pages it had.
    had_bytes: usize,
    lane: Option<TwinLane>,
}

/// Where a chunk is: in which page, in which part of it, and how many bytes into the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwinPlace {
    /// The number of the page.
    pub page: usize,
    /// The number of the leaf; 0 in a page that is not divided.
    pub leaf: usize,
    /// Bytes from the start of the page.
    pub offset: usize,
}

/// A leaf that is being filled, or a page that is not divided.
#[derive(Clone, Copy, Debug)]
struct TwinLane {
    page: usize,
    leaf: usize,
    left: usize,
}

#[derive(Clone, Debug)]
struct TwinPage {
    leaf_bytes: usize,
    leaves: Vec<TwinLeaf>,
}

#[derive(Clone, Copy, Debug, Default)]
struct TwinLeaf {
    live_bytes: usize,
    state: LeafState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LeafState {
    /// Nobody's.
    #[default]
    Free,
    /// A lane fills it.
    Open,
    /// It goes when its last chunk does.
    Left,
}

const PAGE: usize = 64 << 10;
const LEAF: usize = 8 << 10;
/// Two links, how the page is divided, which leaves are free, and a number for each.
const PAGE_HEADER: usize = maxalign(2 * size_of::<usize>() + 4 + 4 + 8 * 4);
/// Two links, the size, the rest.
const EXTERNAL_HEADER: usize = maxalign(4 * size_of::<usize>());
/// An address and two numbers.
const SPAN: usize = size_of::<usize>() + 8;

impl TwinCohorts {
    /// As a new context.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Places a chunk of no cohort; `None` for one with a block of its own.
    pub fn allocate(&mut self, size: usize) -> Option<TwinPlace> {
        if size > LEAF / 8 {
            return self.place_external(size);
        }
        Some(self.place_shared(chunk_bytes(size)))
    }

    /// Places a chunk of a cohort.
    pub fn allocate_for(&mut self, cohort: &mut TwinCohort, size: usize) -> Option<TwinPlace> {
        let bytes = chunk_bytes(size);
        if let Some(lane) = &mut cohort.lane
            && lane.left >= bytes
        {
            return Some(self.place(lane, bytes));
        }
        let is_small = cohort.lane.is_none() && cohort.had_bytes + bytes <= LEAF;
        if is_small && self.shared.is_some_and(|lane| lane.left >= bytes) {
            cohort.had_bytes += bytes;
            return Some(self.place_shared(bytes));
        }
        let has_pages = cohort.had_bytes > 8 * PAGE;
        if size > if has_pages { PAGE / 16 } else { LEAF / 8 } {
            return self.place_external(size);
        }
        if is_small {
            cohort.had_bytes += bytes;
            return Some(self.place_shared(bytes));
        }
        let mut lane = self.next_lane(cohort.lane, bytes, has_pages);
        cohort.had_bytes += if has_pages { PAGE } else { LEAF };
        let place = self.place(&mut lane, bytes);
        cohort.lane = Some(lane);
        Some(place)
    }

    /// Frees a chunk of that size.
    pub fn free(&mut self, place: Option<TwinPlace>, size: usize) {
        let Some(TwinPlace { page, leaf, .. }) = place else {
            self.external_bytes -= maxalign(size) + EXTERNAL_HEADER;
            self.externals -= 1;
            return;
        };
        self.live_bytes -= chunk_bytes(size);
        let leaf_of = self.leaf(page, leaf);
        leaf_of.live_bytes -= chunk_bytes(size);
        if leaf_of.live_bytes == 0 && leaf_of.state == LeafState::Left {
            self.give_leaf(page, leaf);
        }
    }

    /// Lets go of a cohort's last page.
    pub fn close(&mut self, cohort: TwinCohort) {
        if let Some(lane) = cohort.lane {
            self.leave(lane);
        }
    }

    /// What it comes to.
    #[must_use]
    pub fn figures(&self) -> TwinFigures {
        let page_bytes = self.page_count() * PAGE;
        TwinFigures {
            mem_allocated: page_bytes + self.table * SPAN + self.external_bytes,
            blocks: self.spans.len() + self.externals,
            free_bytes: page_bytes - self.live_bytes,
        }
    }

    /// Pages that are nobody's.
    #[must_use]
    pub fn free_pages(&self) -> usize {
        self.free_pages.len()
    }

    fn page_count(&self) -> usize {
        self.spans.iter().map(|span| span.len()).sum()
    }

    fn leaf(&mut self, page: usize, leaf: usize) -> &mut TwinLeaf {
        &mut self.page(page).leaves[leaf]
    }

    fn page(&mut self, page: usize) -> &mut TwinPage {
        self.pages[page].get_or_insert_with(|| TwinPage::divided(PAGE))
    }

    fn place_external(&mut self, size: usize) -> Option<TwinPlace> {
        self.external_bytes += maxalign(size) + EXTERNAL_HEADER;
        self.externals += 1;
        None
    }

    /// Places a chunk that goes into a leaf among those of others.
    fn place_shared(&mut self, bytes: usize) -> TwinPlace {
        let mut lane = match self.shared {
            Some(lane) if lane.left >= bytes => lane,
            lane => self.next_lane(lane, bytes, false),
        };
        let place = self.place(&mut lane, bytes);
        self.shared = Some(lane);
        place
    }

    /// Places a chunk in a lane that has room for it.
    fn place(&mut self, lane: &mut TwinLane, bytes: usize) -> TwinPlace {
        let TwinLane { page, leaf, left } = *lane;
        let end = (leaf + 1) * self.page(page).leaf_bytes;
        lane.left -= bytes;
        self.live_bytes += bytes;
        self.leaf(page, leaf).live_bytes += bytes;
        TwinPlace { page, leaf, offset: end - left }
    }

    /// Goes on with another leaf or page, or with the same one from its start if all of it was freed.
    fn next_lane(&mut self, lane: Option<TwinLane>, bytes: usize, on_page: bool) -> TwinLane {
        if let Some(TwinLane { page, leaf, .. }) = lane
            && self.leaf(page, leaf).live_bytes == 0
            && self.page(page).room(leaf) >= bytes
        {
            return self.open(page, leaf);
        }
        let (page, leaf) = if on_page { (self.take_page(PAGE), 0) } else { self.take_leaf() };
        if let Some(lane) = lane {
            self.leave(lane);
        }
        self.open(page, leaf)
    }

    fn open(&mut self, page: usize, leaf: usize) -> TwinLane {
        self.leaf(page, leaf).state = LeafState::Open;
        TwinLane { page, leaf, left: self.page(page).room(leaf) }
    }

    fn leave(&mut self, TwinLane { page, leaf, .. }: TwinLane) {
        let leaf_of = self.leaf(page, leaf);
        leaf_of.state = LeafState::Left;
        if leaf_of.live_bytes == 0 {
            self.give_leaf(page, leaf);
        }
    }

    fn take_leaf(&mut self) -> (usize, usize) {
        let page = match self.with_free_leaves.last() {
            Some(page) => *page,
            None => {
                let page = self.take_page(LEAF);
                self.with_free_leaves.push(page);
                page
            }
        };
        let mut free = (0..8).filter(|leaf| self.leaf(page, *leaf).state == LeafState::Free);
        let (first, is_last) = (free.next().unwrap_or_default(), free.next().is_none());
        if is_last {
            self.with_free_leaves.retain(|other| *other != page);
        }
        (page, first)
    }

    /// Takes a leaf back, and the page with its last one.
    fn give_leaf(&mut self, page: usize, leaf: usize) {
        let had_free = self.page(page).has_free();
        self.leaf(page, leaf).state = LeafState::Free;
        if self.page(page).is_free() {
            self.with_free_leaves.retain(|other| *other != page);
            self.give_page(page);
        } else if !had_free {
            self.with_free_leaves.push(page);
        }
    }

    fn take_page(&mut self, leaf_bytes: usize) -> usize {
        if self.free_pages.is_empty() {
            self.add_span();
        }
        let page = self.free_pages.pop().unwrap_or_default();
        self.pages[page] = Some(TwinPage::divided(leaf_bytes));
        page
    }

    /// A span has a 256th of all pages, 128 at most; the table of them grows by an eighth, 16 at least.
    fn add_span(&mut self) {
        if self.spans.len() == self.table {
            self.table += (self.table / 8).max(16);
        }
        let first = self.pages.len();
        let count = (self.page_count() / 256).clamp(1, 128);
        self.pages.resize(first + count, None);
        self.spans.push(first..first + count);
        self.free_pages.extend((first..first + count).rev());
    }

    /// Spans that are free go back to the system as long as more than an eighth of all pages is free, and
    /// more than 16.
    fn give_page(&mut self, page: usize) {
        self.pages[page] = None;
        self.free_pages.push(page);
        let Some(index) = self.spans.iter().position(|span| span.contains(&page)) else { return };
        let is_free = self.spans[index].clone().all(|page| self.pages[page].is_none());
        if is_free && self.free_pages.len() > (self.page_count() / 8).max(16) {
            let span = self.spans.remove(index);
            self.free_pages.retain(|page| !span.contains(page));
        }
    }
}

impl TwinPage {
    fn divided(leaf_bytes: usize) -> Self {
        Self { leaf_bytes, leaves: alloc::vec![TwinLeaf::default(); PAGE / leaf_bytes] }
    }

    /// Bytes for chunks.
    fn room(&self, leaf: usize) -> usize {
        self.leaf_bytes - if leaf == 0 { PAGE_HEADER } else { 0 }
    }

    fn has_free(&self) -> bool {
        self.leaves.iter().any(|leaf| leaf.state == LeafState::Free)
    }

    fn is_free(&self) -> bool {
        self.leaves.iter().all(|leaf| leaf.state == LeafState::Free)
    }
}

/// What a request takes.
fn chunk_bytes(size: usize) -> usize {
    maxalign(size.max(1))
}
