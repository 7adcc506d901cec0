//! The map written the plain way: one node, one slot, one page at a time, in memory. The fast one
//! answers to it in tests, and is compared with it in benchmarks.
//!
//! It does what the server does, step by step: what the server leaves wrong, this leaves wrong too.
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use pgtoast_base::BlockNumber;

use crate::{Category, Geometry, PageAddress};

/// A page's tree in the plain way. Nodes and slots as drawn in `page_tree`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwinPage {
    inner_nodes: usize,
    /// Where the next search starts.
    pub next_slot: i32,
    /// Inner nodes, then slots.
    pub nodes: Vec<u8>,
}

impl TwinPage {
    /// A page that knows of no space.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        let inner_nodes = geometry.inner_nodes();
        let nodes = vec![0; inner_nodes + geometry.slots() as usize];
        Self { inner_nodes, next_slot: 0, nodes }
    }

    /// Sets a slot; says whether anything changed.
    pub fn set(&mut self, slot: usize, value: u8) -> bool {
        let mut at = self.inner_nodes + slot;
        if self.nodes[at] == value && value <= self.nodes[0] {
            return false;
        }
        self.nodes[at] = value;
        while at > 0 {
            at = (at - 1) / 2;
            let expected = self.greater_child(at);
            if self.nodes[at] == expected {
                break;
            }
            self.nodes[at] = expected;
        }
        if value > self.nodes[0] {
            self.rebuild();
        }
        true
    }

    /// The first slot with at least `min`, from `next_slot` on and round.
    pub fn search(&mut self, min: u8, advance: bool) -> Option<usize> {
        loop {
            if self.nodes[0] < min {
                return None;
            }
            let slots = self.nodes.len() - self.inner_nodes;
            let start = usize::try_from(self.next_slot).ok().filter(|&slot| slot < slots);
            let mut at = self.inner_nodes + start.unwrap_or(0);
            // To the right and up, so that what is looked at doubles with each step.
            while at > 0 && self.nodes[at] < min {
                at = (right_neighbour(at) - 1) / 2;
            }
            if let Some(slot) = self.descend(at, min) {
                self.next_slot = i32::try_from(slot).expect("few slots") + i32::from(advance);
                return Some(slot);
            }
            self.rebuild();
        }
    }

    /// The leftmost slot with `min` below a node that has it; `None` if the node lied.
    fn descend(&self, mut at: usize, min: u8) -> Option<usize> {
        while at < self.inner_nodes {
            let left = 2 * at + 1;
            let reaches = |child: &usize| self.nodes.get(*child).is_some_and(|&node| node >= min);
            at = [left, left + 1].into_iter().find(reaches)?;
        }
        Some(at - self.inner_nodes)
    }

    /// Works out all inner nodes.
    pub fn rebuild(&mut self) {
        for at in (0..self.inner_nodes).rev() {
            self.nodes[at] = self.greater_child(at);
        }
    }

    /// Clears the slots from `slots` on.
    pub fn truncate(&mut self, slots: usize) {
        let tail = &mut self.nodes[self.inner_nodes + slots..];
        if tail.iter().any(|&slot| slot != 0) {
            tail.fill(0);
            self.rebuild();
        }
    }

    fn greater_child(&self, at: usize) -> u8 {
        let child = |at: usize| self.nodes.get(at).copied().unwrap_or(0);
        child(2 * at + 1).max(child(2 * at + 2))
    }
}

/// The next node in the same row, round to its first: the rows start one before a power of two.
fn right_neighbour(at: usize) -> usize {
    let next = at + 1;
    if (next + 1).is_power_of_two() { (next - 1) / 2 } else { next }
}

/// The map in the plain way.
#[derive(Clone, Debug)]
pub struct TwinMap {
    geometry: Geometry,
    /// The pages, in the order of the fork.
    pub pages: Vec<TwinPage>,
}

impl TwinMap {
    /// A map without pages.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        Self { geometry, pages: Vec::new() }
    }

    /// Records a block's category on its page of level 0, and nowhere else.
    pub fn record(&mut self, block: u32, category: Category) {
        let (address, slot) = self.locate(block);
        let page = self.extended_page(address);
        page.set(slot as usize, category.get());
    }

    /// Records, then looks on the same page, then everywhere.
    pub fn record_and_search(
        &mut self,
        block: u32,
        category: Category,
        min: Category,
        nblocks: u32,
    ) -> Option<u32> {
        let (address, slot) = self.locate(block);
        let page = self.extended_page(address);
        page.set(slot as usize, category.get());
        let found = page.search(min.get(), true);
        let found = found.map(|slot| self.block(address, slot)).filter(|&block| block < nblocks);
        found.or_else(|| self.search(min, nblocks))
    }

    /// A block with at least `min`.
    pub fn search(&mut self, min: Category, nblocks: u32) -> Option<u32> {
        let mut address = self.geometry.root();
        let mut restarts = 0;
        while restarts < 10_000 {
            let level = address.level;
            let (found, root) = match self.page(address) {
                Some(page) => (page.search(min.get(), level == 0), page.nodes[0]),
                None => (None, 0),
            };
            match (found, self.geometry.parent(address)) {
                (Some(slot), _) if level > 0 => {
                    let slot = u32::try_from(slot).expect("few slots");
                    address = self.geometry.child(address, slot)?;
                }
                (Some(slot), _) => {
                    let block = self.block(address, slot);
                    if block < nblocks {
                        return Some(block);
                    }
                    self.page(address)?.set(slot, 0);
                    address = self.geometry.root();
                    restarts += 1;
                }
                (None, None) => return None,
                (None, Some((parent, slot))) => {
                    self.page(parent)?.set(slot as usize, root);
                    address = self.geometry.root();
                    restarts += 1;
                }
            }
        }
        None
    }

    /// Carries what the pages of level 0 say upwards, for the blocks of a range.
    pub fn vacuum(&mut self, blocks: Range<u32>) {
        if blocks.start < blocks.end {
            self.vacuum_page(self.geometry.root(), &blocks);
        }
    }

    fn vacuum_page(&mut self, address: PageAddress, blocks: &Range<u32>) -> Option<u8> {
        self.page(address)?;
        if address.level > 0 {
            let mut missing = false;
            for slot in 0..self.geometry.slots() {
                let first = self.geometry.first_block(address, slot);
                let end = self.geometry.first_block(address, slot + 1);
                if end <= u64::from(blocks.start) || first >= u64::from(blocks.end) {
                    continue;
                }
                let mut child = None;
                if !missing {
                    let below = self.geometry.child(address, slot);
                    child = below.and_then(|below| self.vacuum_page(below, blocks));
                    missing = child.is_none();
                }
                self.page(address)?.set(slot as usize, child.unwrap_or(0));
            }
        }
        let page = self.page(address)?;
        page.next_slot = 0;
        Some(page.nodes[0])
    }

    /// Forgets the blocks from `nblocks` on.
    pub fn truncate(&mut self, nblocks: u32) {
        let (address, slot) = self.locate(nblocks);
        let mut keep = self.physical(address);
        if slot > 0 {
            let Some(page) = self.page(address) else { return };
            page.truncate(slot as usize);
            keep += 1;
        } else if self.pages.len() <= keep {
            return;
        }
        self.pages.truncate(keep);
        self.vacuum(nblocks..u32::MAX);
    }

    /// A block's category.
    #[must_use]
    pub fn category(&self, block: u32) -> Category {
        let (address, slot) = self.locate(block);
        let page = self.pages.get(self.physical(address));
        let at = self.geometry.inner_nodes() + slot as usize;
        page.map_or(Category::NONE, |page| Category::new(page.nodes[at]))
    }

    /// The contents of the pages as they are on disk, headers left out.
    #[must_use]
    pub fn image(&self) -> Vec<u8> {
        let contents = |page: &TwinPage| [&page.next_slot.to_le_bytes()[..], &page.nodes].concat();
        self.pages.iter().flat_map(contents).collect()
    }

    fn locate(&self, block: u32) -> (PageAddress, u32) {
        self.geometry.locate(BlockNumber::new(block)).expect("a block the map reaches")
    }

    fn block(&self, address: PageAddress, slot: usize) -> u32 {
        let slot = u32::try_from(slot).expect("few slots");
        u32::try_from(self.geometry.first_block(address, slot)).unwrap_or(u32::MAX)
    }

    fn physical(&self, address: PageAddress) -> usize {
        usize::try_from(self.geometry.physical(address)).expect("a map that fits in memory")
    }

    fn page(&mut self, address: PageAddress) -> Option<&mut TwinPage> {
        let at = self.physical(address);
        self.pages.get_mut(at)
    }

    fn extended_page(&mut self, address: PageAddress) -> &mut TwinPage {
        let at = self.physical(address);
        let geometry = self.geometry;
        if self.pages.len() <= at {
            self.pages.resize_with(at + 1, || TwinPage::new(geometry));
        }
        &mut self.pages[at]
    }
}
