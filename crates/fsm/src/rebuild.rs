//! The whole map from the blocks themselves, and how far a map is from them.
use pgtoast_base::BlockNumber;

use crate::pages::{Access, MapPages};
use crate::{Category, DiffCounts, Difference, FreeSpaceMap};

impl<P: MapPages> FreeSpaceMap<P> {
    /// Makes the map anew from what the blocks of a relation with `nblocks` of them have: the map
    /// that vacuuming every block leaves, byte for byte. Blocks may come in any order; those past the
    /// end are left out, and those that do not come have nothing.
    ///
    /// # Errors
    /// The storage's.
    pub fn rebuild(
        &mut self,
        nblocks: u32,
        blocks: impl IntoIterator<Item = (BlockNumber, Category)>,
    ) -> Result<(), P::Error> {
        let page_count = self.geometry().page_count(nblocks);
        let page_count = u32::try_from(page_count).unwrap_or(u32::MAX);
        self.pages_mut().truncate(page_count)?;
        for page in 0..self.pages_mut().page_count()? {
            self.pages_mut().with(page, Access::Change, |contents| contents.fill(0))?;
        }
        self.pages_mut().extend(page_count)?;
        let mut blocks = blocks.into_iter().filter(|(block, _)| block.get() < nblocks).peekable();
        while let Some((block, category)) = blocks.next() {
            let Some((address, slot)) = self.geometry().locate(block) else { continue };
            // All blocks of one page that come one after the other, while the page is at hand.
            let first = self.geometry().first_block(address, 0);
            let end = first + u64::from(self.geometry().slots());
            self.with(address, Access::Change, |page| {
                let slots = page.slots_mut();
                put(slots, slot.into(), category);
                let is_here = |block: BlockNumber| (first..end).contains(&block.get().into());
                while let Some((block, category)) = blocks.next_if(|(block, _)| is_here(*block)) {
                    put(slots, u64::from(block.get()) - first, category);
                }
            })?;
        }
        self.vacuum_all(nblocks)
    }

    /// Compares the map with what the blocks have and tells every difference.
    ///
    /// # Errors
    /// The storage's.
    pub fn diff(
        &mut self,
        blocks: impl IntoIterator<Item = (BlockNumber, Category)>,
        mut tell: impl FnMut(Difference),
    ) -> Result<DiffCounts, P::Error> {
        let mut counts = DiffCounts::default();
        for (block, actual) in blocks {
            let recorded = self.category(block)?;
            counts.add(recorded, actual);
            if recorded != actual {
                tell(Difference { block, recorded, actual });
            }
        }
        Ok(counts)
    }
}

#[inline]
fn put(slots: &mut [u8], slot: u64, category: Category) {
    let slot = usize::try_from(slot).ok().and_then(|slot| slots.get_mut(slot));
    if let Some(slot) = slot {
        *slot = category.get();
    }
}
