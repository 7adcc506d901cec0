//! Map pages are hints, hardly logged, written torn and read back as zeros: whatever is in them, a
//! search ends, names no block past the end, and one vacuum sets everything right.
//!
//! Servers have looped on such pages, rebuilt them forever, and sent inserts to blocks that were
//! cut off long ago. How many maps are spoiled: `PGTOAST_FSM_IMAGES`, by default few.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small, or cut on purpose")]
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_fsm::{Category, Finding, FreeSpaceMap, FsmPageMut, Geometry, SearchReport, VecPages};

type Map = FreeSpaceMap<VecPages>;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// A sound map of so many blocks, few of which have space.
fn sound(geometry: Geometry, nblocks: u32, random: &mut Random) -> Map {
    let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let with_space = random.below(20);
    let block = |random: &mut Random| BlockNumber::new(random.below(nblocks as usize) as u32);
    let blocks: Vec<_> =
        (0..with_space).map(|_| (block(random), Category::new(random.next() as u8))).collect();
    let Ok(()) = map.rebuild(nblocks, blocks);
    map
}

/// Spoils the pages in one of the ways that were met; gives the length that the relation has now.
fn spoil(geometry: Geometry, pages: &mut Vec<Vec<u8>>, nblocks: u32, random: &mut Random) -> u32 {
    let inner = 4..4 + geometry.inner_nodes();
    let number = random.below(pages.len());
    let way = random.below(11);
    match way {
        8 => {
            // The fork lost pages, or was never written.
            let len = random.below(pages.len() + 1);
            pages.truncate(len);
        }
        9 => {
            // The heap was cut, the map was not: 62 phantom blocks, or a page of them and more.
            let phantoms = [62, geometry.slots(), geometry.slots() + 62][random.below(3)];
            let from = nblocks.saturating_sub(phantoms);
            let bytes = pages.iter_mut().map(Vec::as_mut_slice);
            for (at, bytes) in (0..).zip(bytes) {
                let Some(address) = geometry.address_of(at) else { continue };
                let mut page = FsmPageMut::parse(geometry, bytes).expect("whole pages");
                for slot in (0..geometry.slots()).filter(|_| address.level == 0) {
                    if geometry.first_block(address, slot) >= from.into() {
                        page.set(slot, Category::MAX);
                    }
                }
            }
            for page in pages.iter_mut().take(usize::from(geometry.levels()) - 1) {
                page[inner.start..].fill(255);
            }
            return from;
        }
        10 => {
            // Pages behind the end.
            for _ in 0..3 {
                pages.push((0..geometry.content_bytes()).map(|_| random.next() as u8).collect());
            }
        }
        _ => {
            let Some(page) = pages.get_mut(number) else { return nblocks };
            let len = page.len();
            match way {
                0 => page.fill(0),
                1 => page[inner].fill(255),
                2 => page[inner].fill(0),
                3 => page[len / 2..].fill(random.next() as u8),
                4 => {
                    let next = [2_000_000_000, -1, i32::MIN, i32::MAX][random.below(4)];
                    page[..4].copy_from_slice(&next.to_le_bytes());
                }
                5 => page.iter_mut().for_each(|byte| *byte = random.next() as u8),
                6 => {
                    for _ in 0..=random.below(40) {
                        page[random.below(len)] = random.next() as u8;
                    }
                }
                _ => page.fill(255),
            }
        }
    }
    nblocks
}

#[derive(Default)]
struct Worst {
    restarts: u32,
    restarts_a_page: f64,
    cleared_pages: u32,
}

fn search_within_bounds(map: &mut Map, min: Category, nblocks: u32, worst: &mut Worst) {
    let pages = map.geometry().page_count(nblocks).max(u64::from(map.geometry().levels()));
    let Ok(report) = map.search(min, nblocks);
    if let Some(block) = report.block {
        assert!(block.get() < nblocks, "{block} is past the end, at {nblocks}");
        let Ok(category) = map.category(block);
        assert!(category >= min, "{block} has {category}, {min} was asked for");
    }
    let a_page = f64::from(report.restarts) / pages as f64;
    assert!(a_page <= 2.0, "{report:?} with {pages} pages");
    assert!(u64::from(report.cleared_pages) <= 2 * pages, "{report:?} with {pages} pages");
    assert!(report.restarts <= SearchReport::MAX_RESTARTS);
    worst.restarts = worst.restarts.max(report.restarts);
    worst.restarts_a_page = worst.restarts_a_page.max(a_page);
    worst.cleared_pages = worst.cleared_pages.max(report.cleared_pages);
}

fn spoil_and_mend(seed: u64, worst: &mut Worst) {
    let mut random = Random(seed);
    let geometry = match random.below(8) {
        0 => Geometry::of(BlockSize::KIB_8),
        1 => Geometry::of(BlockSize::KIB_1),
        _ => {
            let (slots, levels) = (1 + random.below(40) as u32, 1 + random.below(4) as u8);
            Geometry::custom(slots, levels).expect("in range")
        }
    };
    let most =
        geometry.slots().saturating_pow(geometry.levels().into()).min(2 * geometry.slots() + 9);
    let nblocks = 1 + random.below(most as usize) as u32;
    let map = sound(geometry, nblocks, &mut random);
    let mut pages: Vec<_> = map.into_pages().iter().map(<[u8]>::to_vec).collect();
    let mut nblocks = nblocks;
    for _ in 0..=random.below(3) {
        nblocks = spoil(geometry, &mut pages, nblocks, &mut random);
    }
    let mut map = FreeSpaceMap::new(
        geometry,
        VecPages::from_pages(geometry, pages.iter().map(Vec::as_slice)),
    );
    for _ in 0..3 {
        let min = Category::new([1, 255, random.next() as u8][random.below(3)].max(1));
        search_within_bounds(&mut map, min, nblocks, worst);
    }
    let Ok(()) = map.vacuum_all(nblocks);
    let Ok(()) = map.check(nblocks, |finding| match finding {
        // Nothing is vacuumed behind the last page that the relation needs.
        Finding::PastEnd { page, .. }
        | Finding::InnerNode { page, .. }
        | Finding::NextSlot { page, .. }
        | Finding::ParentSlot { page, .. } => panic!("seed {seed}, page {page}: {finding}"),
        _ => panic!("seed {seed}: {finding}"),
    });
    let mut highest = Category::NONE;
    for block in 0..nblocks {
        let Ok(category) = map.category(BlockNumber::new(block));
        highest = highest.max(category);
    }
    let Ok(found) = map.search(highest, nblocks);
    assert_eq!(
        found.block.is_some(),
        highest > Category::NONE,
        "seed {seed}: what there is is found"
    );
    assert_eq!((found.restarts, found.cleared_pages), (0, 0), "seed {seed}: at the first look");
}

#[test]
fn spoiled_maps_end_every_search_within_the_relation_and_mend_in_one_vacuum() {
    let count = std::env::var("PGTOAST_FSM_IMAGES").ok();
    let count: u64 = count.map_or(20_000, |count| count.parse().expect("a number of images"));
    let mut worst = Worst::default();
    for seed in 0..count {
        spoil_and_mend(seed, &mut worst);
    }
    println!(
        "pgtoast-count: spoiled_maps: {count} maps, at most {} restarts, {:.2} a page, {} pages cleared",
        worst.restarts, worst.restarts_a_page, worst.cleared_pages
    );
    assert!(worst.restarts > 0 && worst.cleared_pages > 0, "the maps were spoiled");
}

const SPACE: Category = Category::new(200);

/// 9000 blocks of the usual size, and what the pages of the map look like: two levels above three pages.
fn nine_thousand() -> Vec<Vec<u8>> {
    let geometry = Geometry::default();
    let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let Ok(()) = map.rebuild(9000, [(BlockNumber::new(8999), SPACE), (BlockNumber::new(5), SPACE)]);
    map.into_pages().iter().map(<[u8]>::to_vec).collect()
}

fn map_of(pages: &[Vec<u8>]) -> Map {
    let geometry = Geometry::default();
    FreeSpaceMap::new(geometry, VecPages::from_pages(geometry, pages.iter().map(Vec::as_slice)))
}

fn findings(map: &mut Map, nblocks: u32) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Ok(()) = map.check(nblocks, |finding| findings.push(finding));
    findings
}

#[test]
fn a_zeroed_page_under_parents_that_still_promise_costs_one_restart() {
    let mut pages = nine_thousand();
    pages[2].fill(0);
    let mut map = map_of(&pages);
    let expected = Finding::ParentSlot { page: 1, slot: 0, found: 200, expected: 0 };
    assert_eq!(findings(&mut map, 9000), [expected]);
    let Ok(report) = map.search(SPACE, 9000);
    assert_eq!(report.block, Some(BlockNumber::new(8999)), "the other block with space");
    assert_eq!(report.restarts, 1);
    assert_eq!(findings(&mut map, 9000), [], "and the promise is taken back");
}

#[test]
fn nodes_that_contradict_their_children_are_told_and_mended() {
    for (byte, found) in [(4 + 100, 255), (4, 3)] {
        let mut pages = nine_thousand();
        pages[2][byte] = found;
        let mut map = map_of(&pages);
        let told = findings(&mut map, 9000);
        let inner = |finding: &&Finding| matches!(finding, Finding::InnerNode { page: 2, .. });
        assert!(told.iter().any(|finding| inner(&finding)), "{told:?}");
        let Ok(()) = map.vacuum_all(9000);
        assert_eq!(findings(&mut map, 9000), []);
    }
}

#[test]
fn a_page_whose_second_half_is_older_than_its_first_is_mended() {
    let mut pages = nine_thousand();
    // Block 5 has its slot past the middle's nodes; its page comes back with an older second half.
    let half = pages[2].len() / 2;
    pages[2][half..].fill(0);
    let mut map = map_of(&pages);
    assert!(!findings(&mut map, 9000).is_empty());
    let Ok(report) = map.search(SPACE, 9000);
    assert_eq!(report.block, Some(BlockNumber::new(8999)));
    assert!(report.restarts <= 2);
    let Ok(()) = map.vacuum_all(9000);
    assert_eq!(findings(&mut map, 9000), []);
}

#[test]
fn a_missing_fork_is_an_empty_map_and_no_finding() {
    let mut map = map_of(&[]);
    let Ok(report) = map.search(SPACE, 9000);
    assert_eq!((report.block, report.restarts), (None, 0));
    assert_eq!(findings(&mut map, 9000), []);
}

#[test]
fn an_absurd_next_slot_is_told_and_does_no_harm() {
    for next in [2_000_000_000, -7] {
        let mut pages = nine_thousand();
        pages[0][..4].copy_from_slice(&i32::to_le_bytes(next));
        let mut map = map_of(&pages);
        assert_eq!(findings(&mut map, 9000), [Finding::NextSlot { page: 0, found: next }]);
        let Ok(report) = map.search(SPACE, 9000);
        assert_eq!((report.block, report.restarts), (Some(BlockNumber::new(5)), 0));
        assert_eq!(findings(&mut map, 9000), []);
    }
}

#[test]
fn phantom_blocks_are_cleared_a_page_at_a_time() {
    for (phantoms, most_cleared) in [(62, 1), (4069, 2), (8000, 3)] {
        let geometry = Geometry::default();
        let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
        let blocks = (9000 - phantoms..9000).map(|block| (BlockNumber::new(block), SPACE));
        let Ok(()) = map.rebuild(9000, blocks);
        let nblocks = 9000 - phantoms;
        assert!(findings(&mut map, nblocks).len() >= phantoms as usize);
        let Ok(report) = map.search(SPACE, nblocks);
        assert_eq!(report.block, None);
        assert!(report.cleared_pages <= most_cleared, "{phantoms}: {report:?}");
        assert!(report.restarts <= 3, "{phantoms}: {report:?}");
        let Ok(()) = map.vacuum_all(nblocks);
        assert_eq!(findings(&mut map, nblocks), []);
    }
}

/// What decides is the root of each page on the way, wherever the searches before have ended.
#[test]
fn a_root_that_says_too_little_is_believed_on_every_level_until_a_vacuum() {
    let geometry = Geometry::of(BlockSize::KIB_8);
    let min = Category::new(100);
    for block in [3, 5000] {
        let block = BlockNumber::new(block);
        for number in [0, 1] {
            let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry)).without_sweep();
            let Ok(()) = map.rebuild(6000, [(block, Category::new(200))]);
            let mut pages = map.into_pages();
            pages.page_mut(number).expect("there are four")[4] = 99;
            let mut map = FreeSpaceMap::new(geometry, pages).without_sweep();
            let Ok(report) = map.search(Category::new(99), 6000);
            assert_eq!(report.block, Some(block), "page {number}");
            let Ok(report) = map.search(min, 6000);
            assert_eq!(report.block, None, "page {number}");
            let Ok(()) = map.vacuum_all(6000);
            let Ok(report) = map.search(min, 6000);
            assert_eq!(report.block, Some(block), "page {number}");
        }
    }
}
