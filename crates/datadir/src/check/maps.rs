//! The two maps of a heap: where there is space, and which blocks all can see.
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_fsm::{Category, FreeSpaceMap, Geometry, VecPages};
use pgtoast_page::{Page, PageHeader, VisibilityAddress, VisibilityBits};

use super::pages::PageFaults;
use super::report::Report;
use super::target::Target;
use super::{Coverage, FindingKind, Readable, SkipReason, pages};

/// A map's pages in memory.
pub(super) struct MapFork {
    bytes: Vec<u8>,
    block_size: BlockSize,
}

impl MapFork {
    /// Reads a map, tells what is wrong with its pages, and keeps those that are sound; the others are
    /// zeros, which promise nothing. `None` if it is larger than `most_bytes`.
    pub(super) fn read(
        target: &Target,
        most_bytes: usize,
        buffer: &mut Vec<u8>,
        report: &Report<'_>,
        coverage: &mut Coverage,
    ) -> Option<Self> {
        let block_size = target.fork.block_size();
        let block_count = target.fork.block_count();
        let map_bytes = block_count as usize * block_size.bytes();
        let keeps = map_bytes <= most_bytes;
        if !keeps {
            let reason = SkipReason::MapMemory { bytes: map_bytes as u64 };
            report.skip(Some(&target.subject), reason);
        }
        let mut bytes = vec![0; if keeps { map_bytes } else { 0 }];
        let take =
            |block: BlockNumber, page: Page<'_>, faults: PageFaults<'_>, _: &mut Coverage| {
                let start = block.get() as usize * page.bytes().len();
                if let Some(place) = bytes.get_mut(start..start + page.bytes().len())
                    && !faults.is_distrusted
                {
                    place.copy_from_slice(page.bytes());
                }
            };
        let all = core::iter::once(0..block_count);
        pages::each_page(target, all, buffer, report, coverage, take);
        keeps.then_some(Self { bytes, block_size })
    }

    fn page(&self, number: u32) -> Option<Page<'_>> {
        let start = (number as usize).checked_mul(self.block_size.bytes())?;
        let bytes = self.bytes.get(start..)?.get(..self.block_size.bytes())?;
        Page::new(bytes, self.block_size).ok()
    }
}

/// What the visibility map promises.
pub(super) struct VisibilityMap(MapFork);

impl VisibilityMap {
    /// The promises of a map of a heap with `heap_blocks` blocks; those of blocks behind the end are
    /// told, and those that contradict themselves.
    pub(super) fn new(
        map: MapFork,
        target: &Target,
        heap_blocks: u32,
        report: &Report<'_>,
    ) -> Self {
        let per_page = VisibilityAddress::blocks_per_page(map.block_size);
        for number in 0..target.fork.block_count() {
            let Some(page) = map.page(number) else { break };
            let first = u64::from(number) * u64::from(per_page);
            // Bits beyond the end are told once a page: there are as many as blocks were cut off.
            let mut past_end_told = false;
            let bytes = page.bytes().get(PageHeader::LEN..).unwrap_or_default();
            for (group, byte) in (0_u64..).zip(bytes).filter(|(_, byte)| **byte != 0) {
                let blocks = first + group * 4..;
                for (heap_block, shift) in blocks.zip([0, 2, 4, 6]) {
                    let bits = VisibilityBits::from_bits_truncate(byte >> shift);
                    let Ok(heap_block) = u32::try_from(heap_block) else { break };
                    let heap_block = BlockNumber::new(heap_block);
                    let is_past_end = !bits.is_empty() && heap_block.get() >= heap_blocks;
                    let kind = if is_past_end && !past_end_told {
                        past_end_told = true;
                        FindingKind::VisibilityPastEnd
                    } else if bits == VisibilityBits::ALL_FROZEN {
                        FindingKind::VisibilityBits
                    } else {
                        continue;
                    };
                    // The heap's block is named, in the file of the map.
                    let mut finding = target.of_block(heap_block, kind, Readable::All);
                    finding.file = target.fork.place(BlockNumber::new(number)).0;
                    report.tell(finding);
                }
            }
        }
        Self(map)
    }

    #[inline]
    pub(super) fn of(&self, heap_block: BlockNumber) -> VisibilityBits {
        let map = &self.0;
        let per_page = VisibilityAddress::blocks_per_page(map.block_size);
        match map.page(heap_block.get() / per_page) {
            Some(page) => page.visibility(heap_block),
            None => VisibilityBits::empty(),
        }
    }
}

/// What the free space map says.
pub(super) struct FreeSpace {
    pages: VecPages,
    geometry: Geometry,
    block_size: BlockSize,
}

impl FreeSpace {
    /// The map of a heap with `heap_blocks` blocks, and what contradicts itself in it.
    ///
    /// That a page says something else of the page below than that does itself is no contradiction:
    /// only vacuum carries changes upwards.
    pub(super) fn new(
        map: &MapFork,
        target: &Target,
        heap_blocks: u32,
        report: &Report<'_>,
    ) -> Self {
        let geometry = Geometry::of(map.block_size);
        let contents = map.bytes.chunks_exact(map.block_size.bytes());
        let pages = contents.map(|page| page.get(PageHeader::LEN..).unwrap_or_default());
        let pages = VecPages::from_pages(geometry, pages);
        let mut whole = FreeSpaceMap::new(geometry, pages);
        let mut last = None;
        let checked = whole.check(heap_blocks, |finding| {
            use pgtoast_fsm::Finding;
            let page = match finding {
                Finding::InnerNode { page, .. }
                | Finding::NextSlot { page, .. }
                | Finding::PastEnd { page, .. } => page,
                _ => return,
            };
            // One of a kind for each page: a page that is off is off in hundreds of nodes.
            let this = (page, core::mem::discriminant(&finding));
            if last.replace(this) != Some(this) {
                let kind = FindingKind::FreeSpace(finding);
                report.tell(target.of_block(BlockNumber::new(page), kind, Readable::All));
            }
        });
        let Ok(()) = checked;
        Self { pages: whole.into_pages(), geometry, block_size: map.block_size }
    }

    /// Counts whether the map is right about a block.
    #[inline]
    pub(super) fn compare(&self, block: BlockNumber, page: Page<'_>, coverage: &mut Coverage) {
        let actual = Category::of_free(page.heap_free_bytes().into(), self.block_size);
        let counts = &mut coverage.free_space;
        match self.recorded(block).cmp(&actual) {
            core::cmp::Ordering::Equal => counts.equal += 1,
            core::cmp::Ordering::Greater => counts.too_high += 1,
            core::cmp::Ordering::Less => counts.too_low += 1,
        }
    }

    fn recorded(&self, block: BlockNumber) -> Category {
        let recorded = || {
            let (address, slot) = self.geometry.locate(block)?;
            let number = usize::try_from(self.geometry.physical(address)).ok()?;
            let contents = self.pages.iter().nth(number)?;
            Some(pgtoast_fsm::FsmPage::parse(self.geometry, contents).ok()?.slot(slot))
        };
        recorded().unwrap_or(Category::NONE)
    }
}
