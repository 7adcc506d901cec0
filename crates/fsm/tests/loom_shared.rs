//! The shared map under the model checker, with pages of 16 slots in groups of 8: every interleaving
//! and every allowed reordering, up to the bound on preemptions that each model states.
//!
//! Each model runs sound, and again with each bug that it is there for seeded into the code: those runs
//! must fail, or the model shows nothing.
#![cfg(pgtoast_loom)]

use loom::sync::Arc;
use loom::thread;
use pgtoast_base::BlockNumber;
use pgtoast_fsm::shared::{Cursor, Mutant, SharedMap, seed};
use pgtoast_fsm::{Category, FreeSpaceMap, Geometry, VecPages};
use pgtoast_testkit::models;

/// Runs a model with that bug seeded, trying at most so many preemptions in one run of it.
fn explore(preemptions: usize, mutant: Mutant, model: impl Fn() + Sync + Send + 'static) {
    models::explore(seed, preemptions, mutant, model);
}

#[test]
#[should_panic(expected = "StopAtHigher was not noticed")]
fn a_seeded_bug_that_a_model_does_not_notice_fails_it() {
    explore(1, Mutant::StopAtHigher, || {});
}

fn block(number: u32) -> BlockNumber {
    BlockNumber::new(number)
}

fn category(category: u8) -> Category {
    Category::new(category)
}

/// A map of one level: one page.
fn small(nblocks: u32) -> SharedMap {
    SharedMap::new(Geometry::custom(16, 1).expect("in range"), nblocks, 16)
}

/// A map of two levels: two pages and the root.
fn tall(nblocks: u32) -> SharedMap {
    SharedMap::new(Geometry::custom(16, 2).expect("in range"), nblocks, 32)
}

/// At rest every maximum is right, and the pages written are those of the sequential map.
fn assert_settled(map: &SharedMap) {
    assert_eq!(map.disagreements(), 0);
    let geometry = Geometry::custom(16, if map.capacity() > 16 { 2 } else { 1 }).expect("in range");
    let mut ours = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let Ok(()) = map.write_to(&mut ours);
    let mut sequential = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let blocks = (0..map.nblocks()).map(|at| (block(at), map.category(block(at))));
    let Ok(()) = sequential.rebuild(map.nblocks(), blocks);
    assert_eq!(ours.pages(), sequential.pages());
}

/// One lowers the highest slot of a group while another raises one, and a third looks.
fn two_writers_and_a_searcher() {
    let map = Arc::new(small(16));
    map.record(block(0), category(9));
    let writers = [(0, 2), (1, 5)].map(|(number, free)| {
        let map = map.clone();
        thread::spawn(move || map.record(block(number), category(free)))
    });
    let found = map.search(&mut Cursor::new(0), category(4));
    if let Some((block, free)) = found {
        assert!(block.get() < 2 && free >= category(4), "{block} {free}");
    }
    for writer in writers {
        assert!(writer.join().expect("no panic"));
    }
    assert_settled(&map);
    let found = map.search(&mut Cursor::new(0), category(4));
    assert_eq!(found, Some((block(1), category(5))), "what was recorded is found");
}

#[test]
fn two_writers_and_a_searcher_leave_every_maximum_right() {
    explore(3, Mutant::None, two_writers_and_a_searcher);
}

#[test]
fn two_writers_and_a_searcher_notice_seeded_bugs() {
    explore(2, Mutant::StopAtHigher, two_writers_and_a_searcher);
}

/// Two writers in two pages, so that they meet at the page above alone.
fn writers_of_two_pages_meet_above() {
    let map = Arc::new(tall(32));
    map.record(block(3), category(7));
    let lower = {
        let map = map.clone();
        thread::spawn(move || map.record(block(3), category(0)))
    };
    map.record(block(20), category(6));
    lower.join().expect("no panic");
    assert_settled(&map);
    let found = map.search(&mut Cursor::new(0), category(1));
    assert_eq!(found, Some((block(20), category(6))));
}

#[test]
fn writers_of_two_pages_agree_on_the_page_above() {
    explore(3, Mutant::None, writers_of_two_pages_meet_above);
}

/// One lowers the highest slot while another raises its neighbour to less than that.
fn lowering_races_raising() {
    let map = Arc::new(small(16));
    map.record(block(0), category(9));
    map.record(block(1), category(4));
    let lower = {
        let map = map.clone();
        thread::spawn(move || map.record(block(0), category(1)))
    };
    map.record(block(1), category(2));
    lower.join().expect("no panic");
    assert_settled(&map);
}

#[test]
fn a_lowered_and_a_raised_slot_leave_the_maximum_right() {
    explore(3, Mutant::None, lowering_races_raising);
}

#[test]
fn a_weakened_order_leaves_a_wrong_maximum() {
    explore(3, Mutant::WeakLoads, lowering_races_raising);
}

#[test]
fn without_a_second_look_the_maximum_stays_wrong() {
    explore(3, Mutant::NoSecondLook, lowering_races_raising);
}

/// Two take from a map with two blocks that have enough, and one of them gives its back.
fn takers_never_get_the_same_block() {
    let map = Arc::new(small(16));
    map.record(block(2), category(8));
    map.record(block(12), category(8));
    let other = {
        let map = map.clone();
        thread::spawn(move || map.take(&mut Cursor::new(0), category(8)))
    };
    let ours = map.take(&mut Cursor::new(0), category(8));
    let theirs = other.join().expect("no panic");
    let (ours, theirs) = (ours.expect("one each").0, theirs.expect("one each").0);
    assert_ne!(ours, theirs, "both were sent to block {ours}");
    assert_eq!(map.take(&mut Cursor::new(0), category(1)), None);
    map.record(ours, category(3));
    assert_eq!(map.take(&mut Cursor::new(0), category(1)), Some((ours, category(3))));
    assert_settled(&map);
}

#[test]
fn two_takers_never_get_the_same_block() {
    explore(3, Mutant::None, takers_never_get_the_same_block);
}

#[test]
fn a_take_by_store_hands_a_block_out_twice() {
    explore(3, Mutant::TakeByStore, takers_never_get_the_same_block);
}

/// A writer of a block that is being cut off, a searcher, and the one who cuts.
fn writer_searcher_and_truncation() {
    let map = Arc::new(small(14));
    map.record(block(12), category(6));
    let writer = {
        let map = map.clone();
        thread::spawn(move || map.record(block(13), category(9)))
    };
    let searcher = {
        let map = map.clone();
        thread::spawn(move || {
            let before = map.nblocks();
            let found = map.search(&mut Cursor::new(0), category(5));
            assert!(found.is_none_or(|(block, _)| block.get() < before));
        })
    };
    map.truncate(12);
    let found = map.search(&mut Cursor::new(0), category(1));
    assert_eq!(found, None, "nothing past the end once the truncation is over");
    writer.join().expect("no panic");
    searcher.join().expect("no panic");
    for number in 12..16 {
        assert_eq!(
            map.category(block(number)),
            Category::NONE,
            "block {number} is set past the end"
        );
    }
    assert_settled(&map);
}

#[test]
fn a_truncation_leaves_nothing_past_the_end() {
    explore(2, Mutant::None, writer_searcher_and_truncation);
}

#[test]
fn looking_at_the_length_too_early_leaves_a_slot_past_the_end() {
    explore(2, Mutant::LengthBeforeSlot, writer_searcher_and_truncation);
}

#[test]
fn clearing_before_the_length_is_published_leaves_a_slot_past_the_end() {
    explore(2, Mutant::ClearBeforeLength, writer_searcher_and_truncation);
}

/// Vacuuming works maxima out while slots below them change.
fn vacuum_races_setters() {
    let map = Arc::new(tall(32));
    map.record(block(0), category(9));
    let setter = {
        let map = map.clone();
        thread::spawn(move || {
            map.record(block(0), category(1));
            map.record(block(1), category(3));
        })
    };
    map.vacuum(block(0)..block(16));
    setter.join().expect("no panic");
    assert_settled(&map);
    let found = map.search(&mut Cursor::new(0), category(3));
    assert_eq!(found, Some((block(1), category(3))));
}

#[test]
fn a_vacuum_among_setters_leaves_every_maximum_right() {
    explore(3, Mutant::None, vacuum_races_setters);
}

#[test]
fn a_vacuum_that_does_not_look_again_leaves_a_wrong_maximum() {
    explore(3, Mutant::NoSecondLook, vacuum_races_setters);
}

/// The map is dropped by whichever thread is last, while the other still records.
#[test]
fn the_map_outlives_every_thread_that_uses_it() {
    explore(2, Mutant::None, || {
        let map = Arc::new(small(16));
        let other = map.clone();
        let writer = thread::spawn(move || other.record(block(3), category(9)));
        map.record(block(4), category(8));
        drop(map);
        assert!(writer.join().expect("no panic"));
    });
}
