//! The map of pages, against the plain version of it.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small, or cut on purpose")]
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_fsm::twin::TwinMap;
use pgtoast_fsm::{Category, FreeSpaceMap, Geometry, VecPages};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Record(u32, u8),
    RecordAndSearch(u32, u8, u8),
    Search(u8),
    Vacuum(u32, u32),
    Truncate(u32),
    Extend(u32),
}

fn ops(blocks: u32) -> impl Strategy<Value = Vec<Op>> {
    let value = prop_oneof![Just(0u8), Just(255), any::<u8>()];
    let block = 0..blocks;
    let op = prop_oneof![
        8 => (block.clone(), value.clone()).prop_map(|(block, value)| Op::Record(block, value)),
        4 => (block.clone(), value.clone(), 1u8..)
            .prop_map(|(block, value, min)| Op::RecordAndSearch(block, value, min)),
        4 => (1u8..).prop_map(Op::Search),
        2 => (block.clone(), block.clone()).prop_map(|(a, b)| Op::Vacuum(a, b)),
        1 => block.clone().prop_map(Op::Truncate),
        2 => block.prop_map(Op::Extend),
    ];
    prop::collection::vec(op, 1..120)
}

fn image(map: &FreeSpaceMap<VecPages>) -> Vec<u8> {
    map.pages().iter().flatten().copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]
    /// Without the sweep the map is the server's in every step, so also in every byte.
    #[test]
    fn the_map_and_its_plain_twin_stay_equal_byte_for_byte(
        slots in prop_oneof![1u32..9, Just(70u32)], levels in 1u8..=4, ops in ops(200)
    ) {
        let geometry = Geometry::custom(slots, levels).expect("in range");
        let reach = slots.pow(levels.into());
        // Truncation looks at the block behind the last one, which a twin must be able to locate.
        let most = reach.min(200) - 1;
        prop_assume!(most > 0);
        let mut nblocks = 0;
        let mut twin = TwinMap::new(geometry);
        let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry)).without_sweep();
        for op in ops {
            let block = |block: u32| BlockNumber::new(block % nblocks.max(1));
            match op {
                Op::Record(..) | Op::RecordAndSearch(..) if nblocks == 0 => continue,
                Op::Record(number, value) => {
                    let Ok(()) = map.record(block(number), Category::new(value));
                    twin.record(block(number).get(), Category::new(value));
                }
                Op::RecordAndSearch(number, value, min) => {
                    let (number, value) = (block(number), Category::new(value));
                    let min = Category::new(min);
                    let Ok(report) = map.record_and_search(number, value, min, nblocks);
                    let expected = twin.record_and_search(number.get(), value, min, nblocks);
                    prop_assert_eq!(report.block.map(BlockNumber::get), expected);
                }
                Op::Search(min) => {
                    let Ok(report) = map.search(Category::new(min), nblocks);
                    let expected = twin.search(Category::new(min), nblocks);
                    prop_assert_eq!(report.block.map(BlockNumber::get), expected);
                }
                Op::Vacuum(a, b) => {
                    let (start, end) = (a % (most + 1), b % (most + 1));
                    let Ok(()) = map.vacuum(BlockNumber::new(start)..BlockNumber::new(end), nblocks);
                    twin.vacuum(start..end);
                }
                Op::Truncate(number) => {
                    nblocks = nblocks.min(number);
                    let Ok(()) = map.truncate(nblocks);
                    twin.truncate(nblocks);
                }
                Op::Extend(number) => nblocks = nblocks.max(number.min(most)),
            }
            prop_assert!(image(&map) == twin.image());
            let mut wrong = 0;
            let Ok(()) = map.check(nblocks, |finding| {
                wrong += u32::from(!matches!(finding, pgtoast_fsm::Finding::ParentSlot { .. }));
            });
            prop_assert_eq!(wrong, 0, "only slots above level 0 may lag behind");
        }
    }
}

/// A map of `nblocks` blocks with these categories, made by the server's way: record each, vacuum.
fn recorded(geometry: Geometry, categories: &[Category]) -> FreeSpaceMap<VecPages> {
    let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    for (number, &category) in (0..).zip(categories) {
        let Ok(()) = map.record(BlockNumber::new(number), category);
    }
    let Ok(()) = map.vacuum_all(categories.len() as u32);
    map
}

#[test]
fn rebuilding_gives_the_map_that_recording_every_block_and_vacuuming_gives() {
    for (size, nblocks) in [
        (BlockSize::KIB_1, 485 * 485 + 3u32),
        (BlockSize::KIB_8, 1),
        (BlockSize::KIB_8, 4069),
        (BlockSize::KIB_8, 9000),
        (BlockSize::KIB_32, 40_000),
    ] {
        let geometry = Geometry::of(size);
        let category = |block: u32| Category::new((block.wrapping_mul(2_654_435_761) >> 24) as u8);
        let categories: Vec<_> = (0..nblocks).map(category).collect();
        let expected = image(&recorded(geometry, &categories));
        let blocks = || (0..nblocks).map(|block| (BlockNumber::new(block), category(block)));
        let garbage = vec![0xa5; geometry.content_bytes()];
        // Over nothing, over garbage that is too short, over garbage that is too long.
        for pages_before in [0, 2, geometry.page_count(nblocks) as usize + 3] {
            let before = vec![&garbage[..]; pages_before];
            let pages = VecPages::from_pages(geometry, before);
            let mut map = FreeSpaceMap::new(geometry, pages);
            let Ok(()) = map.rebuild(nblocks, blocks());
            assert!(image(&map) == expected, "{size}, {nblocks} blocks");
            let Ok(()) = map.rebuild(nblocks, blocks().collect::<Vec<_>>().into_iter().rev());
            assert!(image(&map) == expected, "{size}, {nblocks} blocks from the last");
            let Ok(counts) = map.diff(blocks(), |difference| panic!("{difference:?}"));
            assert_eq!(counts.equal, nblocks.into());
        }
    }
}

#[test]
fn diff_tells_each_block_that_differs_and_which_way() {
    let geometry = Geometry::default();
    let mut map = recorded(geometry, &[10, 20, 30].map(Category::new));
    let truth = [10, 25, 5, 40].map(Category::new);
    let truth = (0..).map(BlockNumber::new).zip(truth);
    let mut told = Vec::new();
    let Ok(counts) = map.diff(truth, |d| told.push((d.block.get(), d.recorded, d.actual)));
    assert_eq!((counts.equal, counts.too_high, counts.too_low), (1, 1, 2));
    let expected = [(1, 20, 25), (2, 30, 5), (3, 0, 40)];
    assert_eq!(told, expected.map(|(b, r, a)| (b, Category::new(r), Category::new(a))));
}

#[test]
fn a_map_without_pages_knows_nothing_and_finds_nothing() {
    let geometry = Geometry::default();
    let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let Ok(report) = map.search(Category::new(1), 1_000_000);
    assert_eq!(report.block, None);
    let Ok(category) = map.category(BlockNumber::new(5));
    assert_eq!(category, Category::NONE);
    let Ok(()) = map.record(BlockNumber::INVALID, Category::MAX);
    assert_eq!(map.into_pages().iter().len(), 0, "a number that no block has makes no page");
}

#[test]
fn the_last_block_there_can_be_is_recorded_and_found() {
    // Three pages in place of a quarter of a million: storage that keeps only what is asked for.
    let geometry = Geometry::default();
    let mut map = FreeSpaceMap::new(geometry, sparse::SparsePages::new(geometry));
    let Ok(()) = map.record(BlockNumber::MAX, Category::new(7));
    let last = BlockNumber::MAX..BlockNumber::INVALID;
    let Ok(()) = map.vacuum(last, u32::MAX);
    let Ok(report) = map.search(Category::new(7), u32::MAX);
    assert_eq!(report.block, Some(BlockNumber::MAX));
    let Ok(report) = map.search(Category::new(7), u32::MAX - 1);
    assert_eq!(report.block, None, "one block less and it is past the end");
}

mod sparse {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use pgtoast_fsm::{Access, Geometry, MapPages};

    pub(super) struct SparsePages {
        content_bytes: usize,
        count: u32,
        pages: BTreeMap<u32, Vec<u8>>,
    }

    impl SparsePages {
        pub(super) fn new(geometry: Geometry) -> Self {
            Self { content_bytes: geometry.content_bytes(), count: 0, pages: BTreeMap::new() }
        }
    }

    impl MapPages for SparsePages {
        type Error = Infallible;

        fn page_count(&self) -> Result<u32, Infallible> {
            Ok(self.count)
        }

        fn with<R>(
            &mut self,
            page: u32,
            _: Access,
            work: impl FnOnce(&mut [u8]) -> R,
        ) -> Result<Option<R>, Infallible> {
            let there = page < self.count;
            let zeros = || vec![0; self.content_bytes];
            Ok(there.then(|| work(self.pages.entry(page).or_insert_with(zeros))))
        }

        fn extend(&mut self, page_count: u32) -> Result<(), Infallible> {
            self.count = self.count.max(page_count);
            Ok(())
        }

        fn truncate(&mut self, page_count: u32) -> Result<(), Infallible> {
            self.count = self.count.min(page_count);
            self.pages.retain(|&page, _| page < page_count);
            Ok(())
        }
    }
}
