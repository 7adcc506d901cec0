//! Recording a block touches its page of level 0 alone; pages above follow when the relation is
//! vacuumed. A server whose vacuum was cancelled before that, or that was promoted from a standby,
//! has space that no search from the root can see, and lets the table grow beside it.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small, or cut on purpose")]
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_fsm::{Category, FreeSpaceMap, Geometry, VecPages};

const BLOCKS: u32 = 20_000;
const FREED: Category = Category::new(100);

/// A full relation of which 30 % was freed, with nothing above level 0 knowing of it.
fn freed_in_leaves_only() -> VecPages {
    let geometry = Geometry::of(BlockSize::KIB_8);
    let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let Ok(()) = map.rebuild(BLOCKS, []);
    for block in (0..BLOCKS).filter(|block| block % 10 < 3) {
        let Ok(()) = map.record(BlockNumber::new(block), FREED);
    }
    map.into_pages()
}

/// Fills a block for each that was freed; gives by how many blocks the relation grew.
fn insert_as_much_again(mut map: FreeSpaceMap<VecPages>) -> u32 {
    let mut nblocks = BLOCKS;
    for _ in 0..BLOCKS * 3 / 10 {
        let Ok(report) = map.search(FREED, nblocks);
        match report.block {
            Some(block) => {
                let Ok(category) = map.category(block);
                assert_eq!(category, FREED);
                let Ok(()) = map.record(block, Category::NONE);
            }
            None => nblocks += 1,
        }
    }
    nblocks - BLOCKS
}

#[test]
fn space_freed_in_leaves_only_is_used_before_the_relation_grows() {
    let geometry = Geometry::of(BlockSize::KIB_8);
    let grown = insert_as_much_again(FreeSpaceMap::new(geometry, freed_in_leaves_only()));
    println!("pgtoast-count: space_in_leaves: grew by {grown} of {BLOCKS} blocks");
    assert!(grown <= BLOCKS / 50, "grew by {grown} blocks, 2 % are {}", BLOCKS / 50);
}

#[test]
fn the_servers_way_grows_by_all_of_it() {
    let geometry = Geometry::of(BlockSize::KIB_8);
    let map = FreeSpaceMap::new(geometry, freed_in_leaves_only()).without_sweep();
    assert_eq!(insert_as_much_again(map), BLOCKS * 3 / 10);
}

#[test]
fn space_recorded_after_a_miss_is_found_by_the_next_search() {
    let geometry = Geometry::of(BlockSize::KIB_8);
    let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let Ok(()) = map.rebuild(BLOCKS, []);
    for block in [0, 4069, 19_999, 8137] {
        let Ok(report) = map.search(FREED, BLOCKS);
        assert_eq!(report.block, None);
        let Ok(()) = map.record(BlockNumber::new(block), FREED);
        let Ok(report) = map.search(FREED, BLOCKS);
        assert_eq!(report.block, Some(BlockNumber::new(block)));
        let Ok(()) = map.record(BlockNumber::new(block), Category::NONE);
    }
    let Ok(report) = map.search(FREED, BLOCKS);
    assert_eq!(report.block, None);
    let Ok(report) = map.search(FREED, BLOCKS);
    assert_eq!(report.swept_pages, 0, "a walk that found nothing is not repeated for nothing");
}

#[test]
fn a_walk_over_a_large_relation_is_spread_over_searches() {
    // 100 pages of level 0: more than one search looks at.
    let geometry = Geometry::custom(50, 3).unwrap();
    let nblocks = 5000;
    let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let Ok(()) = map.rebuild(nblocks, []);
    let Ok(()) = map.record(BlockNumber::new(4990), FREED);
    let searches: Vec<_> = (0..3)
        .map(|_| {
            let Ok(report) = map.search(FREED, nblocks);
            (report.block.map(BlockNumber::get), report.swept_pages)
        })
        .collect();
    assert_eq!(searches, [(None, 64), (Some(4990), 36), (Some(4990), 0)]);
}

/// A walk that found something stops there. When the relation grew before it went on, it once took
/// the new pages for those it had still to see, and left the first ones out for good.
#[test]
fn a_walk_goes_round_even_if_the_relation_grows_before_it_is_over() {
    let geometry = Geometry::custom(50, 3).unwrap();
    let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let mut search = |block: Option<u32>, min: u8, nblocks| {
        if let Some(block) = block {
            let Ok(()) = map.record(BlockNumber::new(block), Category::new(min));
        }
        let Ok(report) = map.search(Category::new(min), nblocks);
        report.block.map(BlockNumber::get)
    };
    // The walk stops at page 7, and is to go on with page 8.
    assert_eq!(search(Some(399), 90, 600), Some(399));
    // Space in page 8, where it stops next, and less of it in page 2, which it has still to see.
    assert_eq!(search(Some(149), 50, 600), Some(399));
    assert_eq!(search(Some(449), 200, 600), Some(449));
    assert_eq!(search(Some(599), 220, 600), Some(599));
    let Ok(()) = map.record(BlockNumber::new(399), Category::NONE);
    let Ok(()) = map.record(BlockNumber::new(449), Category::NONE);
    let Ok(()) = map.record(BlockNumber::new(599), Category::NONE);
    let Ok(report) = map.search(Category::new(40), 2000);
    assert_eq!(report.block, Some(BlockNumber::new(149)));
}
