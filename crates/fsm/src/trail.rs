//! The way down to the page of level 0 where the last search ended.
//!
//! Searches end in the same page for as long as it has what they ask for, and what is found there is
//! recorded there. Going the same way again needs no arithmetic, only a look at each page, and no look
//! has to wait for the one before it.
//!
//! **Invariant:** a trail is numbers that the geometry fixes, and is never out of date; whether
//! a search would go that way today, the pages say.
use pgtoast_base::BlockNumber;

use crate::geometry::MAX_LEVELS;
use crate::{Geometry, PageAddress};

/// The way to a page of level 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trail {
    address: PageAddress,
    physical: u64,
    /// The first block that the page stands for, and the end of those that exist.
    first_block: u32,
    end_block: u32,
    /// The pages above, from that of level 1 to the root.
    above: [Step; MAX_LEVELS as usize - 1],
    step_count: u8,
}

/// A page above level 0 on the way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// Its number in the fork.
    pub(crate) physical: u64,
    /// The slot that leads on.
    pub(crate) slot: u32,
}

impl Trail {
    /// The way to page `page` of level 0, which the geometry has.
    #[cold]
    pub(crate) fn to(geometry: Geometry, page: u32) -> Self {
        let address = PageAddress { level: 0, page };
        let block = |slot| u32::try_from(geometry.first_block(address, slot)).unwrap_or(u32::MAX);
        let mut trail = Self {
            address,
            physical: geometry.physical(address),
            first_block: block(0),
            // No block has the highest number.
            end_block: block(geometry.slots()),
            above: [Step::default(); _],
            step_count: 0,
        };
        let mut below = address;
        for step in &mut trail.above {
            let Some((parent, slot)) = geometry.parent(below) else { break };
            *step = Step { physical: geometry.physical(parent), slot };
            trail.step_count += 1;
            below = parent;
        }
        trail
    }

    /// The page it leads to.
    #[inline]
    pub(crate) const fn address(&self) -> PageAddress {
        self.address
    }

    /// That page's number in the fork.
    #[inline]
    pub(crate) const fn physical(&self) -> u64 {
        self.physical
    }

    /// The first block that the page stands for.
    #[inline]
    pub(crate) const fn first_block(&self) -> u32 {
        self.first_block
    }

    /// The slot of that page that stands for a block; `None` if another page's does.
    #[inline]
    pub(crate) fn slot_of(&self, block: BlockNumber) -> Option<u32> {
        (self.first_block..self.end_block)
            .contains(&block.get())
            .then(|| block.get() - self.first_block)
    }

    /// The pages above it.
    #[inline]
    pub(crate) fn above(&self) -> impl Iterator<Item = Step> + use<'_> {
        self.above.iter().take(self.step_count.into()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_leads_where_the_geometry_does() {
        for (slots, levels) in [(1, 4), (3, 1), (4, 2), (5, 3), (3, 4)] {
            let geometry = Geometry::custom(slots, levels).expect("in range");
            for page in 0..slots.pow(u32::from(levels) - 1) {
                let trail = Trail::to(geometry, page);
                assert_eq!(trail.above().count(), usize::from(levels) - 1);
                let mut below = trail.address();
                for step in trail.above() {
                    let (parent, slot) = geometry.parent(below).expect("not the root yet");
                    assert_eq!((step.physical, step.slot), (geometry.physical(parent), slot));
                    assert_eq!(geometry.child(parent, slot), Some(below));
                    below = parent;
                }
                assert_eq!(below, geometry.root());
                assert_eq!(trail.physical(), geometry.physical(trail.address()));
            }
        }
    }

    #[test]
    fn a_trail_knows_the_slots_of_its_page_and_no_others() {
        let geometry = Geometry::custom(5, 3).expect("in range");
        let trail = Trail::to(geometry, 7);
        for block in 0..125 {
            let block = BlockNumber::new(block);
            let expected = geometry.locate(block).expect("in range");
            let here = (expected.0 == trail.address()).then_some(expected.1);
            assert_eq!(trail.slot_of(block), here, "{block}");
        }
        let geometry = Geometry::default();
        let (last, slot) = geometry.locate(BlockNumber::MAX).expect("every block");
        let trail = Trail::to(geometry, last.page);
        assert_eq!(trail.slot_of(BlockNumber::MAX), Some(slot));
        assert_eq!(trail.slot_of(BlockNumber::INVALID), None);
    }
}
