//! How many slots a page has, how many levels the pages form, and where each page lies in the fork.
//!
//! ```text
//! level 2                root                      fork block 0
//!                 /       |        \
//! level 1      (1,0)    (1,1)      ...             1, 2 + F, ...
//!              / | \      |                        F: slots of a page, 4069 with 8 KiB
//! level 0  (0,0)(0,1).. (0,F) ...                  2, 3, ..., 3 + F, ...
//!            |                                     depth first: a page, then all below it
//! heap     blocks 0..F, F..2F, ...
//! ```
//! Pages of 1 and 2 KiB need a fourth level to reach every block number there is.
//! Source: `fsm_internals.h`, `freespace.c` (REL_18).
use core::ops::Range;

use pgtoast_base::{BlockNumber, BlockSize, maxalign};

use crate::category::PAGE_HEADER_BYTES;

/// The measures of a map: the tree in each page, and the levels of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    shape: Shape,
    levels: u8,
    /// Heap blocks that one slot of a page of a level stands for.
    blocks_below: [u64; MAX_LEVELS as usize + 1],
    /// Pages of a whole tree with so many levels.
    pages_below: [u64; MAX_LEVELS as usize + 1],
}

impl Geometry {
    /// The map of a cluster with blocks of that size.
    #[must_use]
    pub const fn of(block_size: BlockSize) -> Self {
        let bytes = block_size.bytes();
        let inner_nodes = bytes / 2 - 1;
        let nodes = bytes - maxalign(PAGE_HEADER_BYTES) - NEXT_SLOT_BYTES;
        let slots = nodes - inner_nodes;
        // Three levels as soon as they reach every block number.
        let levels = if slots >= 1626 { 3 } else { 4 };
        #[expect(clippy::cast_possible_truncation, reason = "a page has at most 32768 bytes")]
        Self::measured((bytes / 2).ilog2() as u8, slots as u32, levels)
    }

    /// A map of other measures, such as a model checker can exhaust: pages of `slots` slots under
    /// the smallest tree that holds them, `levels` of them. `None` unless there are 1 to 32 768
    /// slots and 1 to 4 levels.
    #[must_use]
    pub const fn custom(slots: u32, levels: u8) -> Option<Self> {
        if slots == 0 || slots > 1 << 15 || levels == 0 || levels > MAX_LEVELS {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "a logarithm of at most 32768")]
        let height = slots.next_power_of_two().ilog2() as u8;
        Some(Self::measured(height, slots, levels))
    }

    const fn measured(height: u8, slots: u32, levels: u8) -> Self {
        let (mut blocks_below, mut pages_below) = ([1; _], [0; _]);
        let mut level = 0;
        while level < MAX_LEVELS as usize {
            blocks_below[level + 1] = blocks_below[level] * slots as u64;
            pages_below[level + 1] = pages_below[level] * slots as u64 + 1;
            level += 1;
        }
        Self { shape: Shape { height, slots }, levels, blocks_below, pages_below }
    }

    /// Slots of a page: the heap blocks that a page of level 0 knows of.
    #[inline]
    #[doc(alias = "SlotsPerFSMPage")]
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.shape.slots
    }

    /// Nodes of a page above its slots.
    #[inline]
    #[doc(alias = "NonLeafNodesPerPage")]
    #[must_use]
    pub const fn inner_nodes(&self) -> usize {
        self.shape.inner_nodes()
    }

    /// The measures of one page.
    #[inline]
    pub(crate) const fn shape(&self) -> Shape {
        self.shape
    }

    /// Levels of pages.
    #[inline]
    #[doc(alias = "FSM_TREE_DEPTH")]
    #[must_use]
    pub const fn levels(&self) -> u8 {
        self.levels
    }

    /// The bytes of a page behind its header.
    #[inline]
    #[must_use]
    pub const fn content_bytes(&self) -> usize {
        self.shape.content_bytes()
    }

    /// The page at the top.
    #[inline]
    #[must_use]
    pub const fn root(&self) -> PageAddress {
        PageAddress { level: self.levels - 1, page: 0 }
    }

    /// The page of level 0 and the slot in it that stand for a heap block; `None` for a block that
    /// is beyond what the map reaches.
    #[inline]
    #[doc(alias = "fsm_get_location")]
    #[must_use]
    pub const fn locate(&self, block: BlockNumber) -> Option<(PageAddress, u32)> {
        if !block.is_valid() || block.get() as u64 >= self.blocks_below(self.levels) {
            return None;
        }
        let (page, slot) = (block.get() / self.shape.slots, block.get() % self.shape.slots);
        Some((PageAddress { level: 0, page }, slot))
    }

    /// The page above, and the slot in it that stands for this one; `None` for the root.
    #[inline]
    #[doc(alias = "fsm_get_parent")]
    #[must_use]
    pub const fn parent(&self, address: PageAddress) -> Option<(PageAddress, u32)> {
        if address.level + 1 >= self.levels {
            return None;
        }
        let parent =
            PageAddress { level: address.level + 1, page: address.page / self.shape.slots };
        Some((parent, address.page % self.shape.slots))
    }

    /// The page that a slot stands for; `None` on level 0, where it stands for a heap block, and
    /// where every block below would have a number too high.
    #[inline]
    #[doc(alias = "fsm_get_child")]
    #[must_use]
    pub const fn child(&self, address: PageAddress, slot: u32) -> Option<PageAddress> {
        if address.level == 0 || self.first_block(address, slot) > BlockNumber::MAX.get() as u64 {
            return None;
        }
        Some(PageAddress { level: address.level - 1, page: address.page * self.shape.slots + slot })
    }

    /// The first heap block that a slot stands for, however high its number would be.
    #[inline]
    #[must_use]
    pub const fn first_block(&self, address: PageAddress, slot: u32) -> u64 {
        let slots_before = address.page as u64 * self.shape.slots as u64 + slot as u64;
        slots_before.saturating_mul(self.blocks_below(address.level))
    }

    /// Slots of a page that stand for blocks of a relation with `nblocks` of them.
    #[inline]
    pub(crate) const fn slots_within(&self, address: PageAddress, nblocks: u32) -> u32 {
        let first = self.first_block(address, 0);
        if nblocks as u64 <= first {
            return 0;
        }
        let count = (nblocks as u64 - first).div_ceil(self.blocks_below(address.level));
        if count > self.shape.slots as u64 {
            return self.shape.slots;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most the slots of a page")]
        return count as u32;
    }

    /// Slots of a page that stand for blocks in a range, given by its first block and its end.
    pub(crate) const fn slots_touching(
        &self,
        address: PageAddress,
        blocks: &Range<u32>,
    ) -> Range<u32> {
        let end = self.slots_within(address, blocks.end);
        let below = self.blocks_below(address.level);
        let skipped = (blocks.start as u64).saturating_sub(self.first_block(address, 0)) / below;
        #[expect(clippy::cast_possible_truncation, reason = "a number of slots before `end`")]
        let start = if skipped < end as u64 { skipped as u32 } else { end };
        start..end
    }

    /// The number of a page in the fork.
    #[inline]
    #[doc(alias = "fsm_logical_to_physical")]
    #[must_use]
    pub const fn physical(&self, address: PageAddress) -> u64 {
        // Down the leftmost path to the leaf below, then count the pages up to it on each level.
        let slots = self.shape.slots as u64;
        let mut of_level = (address.page as u64).saturating_mul(self.blocks_below(address.level));
        let (mut count, mut level) = (0, 0);
        while level < self.levels {
            count += of_level + 1;
            // Most maps have one page above level 0, and no division is needed to see it.
            of_level = if of_level < slots { 0 } else { of_level / slots };
            level += 1;
        }
        count - address.level as u64 - 1
    }

    /// The same as [`physical`](Self::physical), at once for the pages that nearly all maps have.
    #[inline]
    pub(crate) const fn physical_leaf(&self, address: PageAddress) -> u64 {
        if address.level == 0 && address.page < self.shape.slots {
            // Behind one page of each level above.
            return address.page as u64 + self.levels as u64 - 1;
        }
        self.physical(address)
    }

    /// The number in the fork of the page that a slot stands for, from that of the slot's own page.
    #[inline]
    pub(crate) const fn physical_child(&self, level: u8, physical: u64, slot: u32) -> u64 {
        physical + 1 + slot as u64 * self.pages_below(level)
    }

    /// The page that has a number in the fork; `None` past the last page a map can have.
    #[must_use]
    pub const fn address_of(&self, physical: u64) -> Option<PageAddress> {
        let (mut level, mut page, mut left) = (self.levels - 1, 0u64, physical);
        if left >= self.pages_below(self.levels) {
            return None;
        }
        while left > 0 {
            let below = self.pages_below(level);
            page = page * self.shape.slots as u64 + (left - 1) / below;
            left = (left - 1) % below;
            level -= 1;
        }
        if page > u32::MAX as u64 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "just compared")]
        let address = PageAddress { level, page: page as u32 };
        if self.first_block(address, 0) > BlockNumber::MAX.get() as u64 {
            return None;
        }
        Some(address)
    }

    /// Pages that the fork of a relation with `nblocks` blocks has, once all of them are recorded.
    #[must_use]
    pub const fn page_count(&self, nblocks: u32) -> u64 {
        match nblocks.checked_sub(1) {
            None => 0,
            Some(last) => match self.locate(BlockNumber::new(last)) {
                Some((address, _)) => self.physical(address) + 1,
                None => self.pages_below(self.levels),
            },
        }
    }

    /// Heap blocks that one slot of a page of that level stands for.
    #[inline]
    pub(crate) const fn blocks_below(&self, level: u8) -> u64 {
        self.blocks_below[level as usize]
    }

    /// Pages of a whole tree with so many levels.
    #[inline]
    const fn pages_below(&self, levels: u8) -> u64 {
        self.pages_below[levels as usize]
    }
}

/// The measures of the tree in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Its height: its bottom row has room for `2^height` slots.
    height: u8,
    /// Slots that are there, at most `2^height`: the page ends before the row does.
    slots: u32,
}

impl Shape {
    #[inline]
    pub(crate) const fn slots(self) -> u32 {
        self.slots
    }

    /// Nodes above the slots.
    #[inline]
    pub(crate) const fn inner_nodes(self) -> usize {
        (1 << self.height) - 1
    }

    /// Rows of nodes above the slots.
    #[inline]
    pub(crate) const fn height(self) -> u32 {
        self.height as u32
    }

    #[inline]
    pub(crate) const fn content_bytes(self) -> usize {
        NEXT_SLOT_BYTES + self.inner_nodes() + self.slots as usize
    }
}

impl Default for Geometry {
    /// That of 8 KiB blocks.
    fn default() -> Self {
        Self::of(BlockSize::default())
    }
}

/// A page by its place in the tree of pages.
#[doc(alias = "FSMAddress")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageAddress {
    /// 0 for the pages whose slots stand for heap blocks; the root has the highest.
    pub level: u8,
    /// Which page of its level, from 0.
    #[doc(alias = "logpageno")]
    pub page: u32,
}

const NEXT_SLOT_BYTES: usize = 4;
pub(crate) const MAX_LEVELS: u8 = 4;
const _: () = {
    let eight = Geometry::of(BlockSize::KIB_8);
    assert!(eight.inner_nodes() == 4095 && eight.slots() == 4069 && eight.levels() == 3);
    assert!(eight.content_bytes() == 8192 - 24);
    assert!(Geometry::of(BlockSize::KIB_2).levels() == 4);
};
