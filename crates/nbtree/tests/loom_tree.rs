//! The tree under the model checker, on pages of 1 KiB: every interleaving of latches, up to the bound
//! on preemptions that each model states. The code is that which ships; only the latches are loom's.
//!
//! Each model runs sound, and again with each bug that it is there for seeded into the code: those runs
//! must fail, or the model shows nothing.
#![cfg(pgtoast_loom)]

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use loom::sync::Arc;
use loom::thread;
use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber, Oid8};
use pgtoast_nbtree::{
    Entry, Index, IndexPages, Insertion, Key, KeyWidth, MemoryPages, Mutant, NodePage, SharedPages,
    seed,
};
use pgtoast_testkit::models;

/// Runs a model with that bug seeded, trying at most so many preemptions in one run of it.
fn explore(preemptions: usize, mutant: Mutant, model: impl Fn() + Sync + Send + 'static) {
    models::explore(seed, preemptions, mutant, model);
}

fn key(id: u64) -> Key {
    Key::new(Oid8::new(id), 0)
}

fn tid(n: u64) -> ItemPointer {
    let block = BlockNumber::new(u32::try_from(n).expect("few rows"));
    ItemPointer::new(block, OffsetNumber::FIRST)
}

/// Entries that are there from the beginning, their ids ten apart.
fn ids(count: u64) -> impl Iterator<Item = u64> + Clone {
    (1..=count).map(|n| 10 * n)
}

/// A leaf that is full: the next insert splits it.
const FULL: u64 = 49;

/// An index that inserts have made, for threads.
fn index(image: &[u8], width: KeyWidth) -> Arc<Index<SharedPages>> {
    let pages = SharedPages::from_bytes(BlockSize::KIB_1, image, 12).expect("few pages");
    Arc::new(Index::open(pages, width).expect("a sound index"))
}

fn inserted(ids: impl Iterator<Item = u64>) -> Vec<u8> {
    let pages = MemoryPages::new(BlockSize::KIB_1);
    let index = Index::create(pages, KeyWidth::Oid).expect("an empty store");
    for id in ids {
        assert_eq!(index.insert(key(id), tid(id)), Ok(Insertion::Done));
    }
    index.into_pages().to_bytes()
}

/// At rest the index is sound and holds just these.
fn assert_holds(index: &Index<SharedPages>, ids: impl Iterator<Item = u64>) {
    index.check().expect("a sound index");
    let mut held = Vec::new();
    index
        .visit(key(0)..=key(u64::MAX), |key, _| {
            held.push(key.chunk_id.get());
            ControlFlow::Continue(())
        })
        .expect("a sound index");
    let expected: BTreeSet<_> = ids.collect();
    assert!(held.iter().eq(&expected), "{held:?}");
    for id in expected {
        assert_eq!(index.get(key(id)), Ok(Some(tid(id))));
    }
}

/// Two inserts into the only leaf, which is full, and a search for what the split moves.
fn search_races_the_first_split() {
    let index = index(&inserted(ids(FULL)), KeyWidth::Oid);
    let writers = [255, 485].map(|id| {
        let index = index.clone();
        thread::spawn(move || assert_eq!(index.insert(key(id), tid(id)), Ok(Insertion::Done)))
    });
    assert_eq!(index.get(key(490)), Ok(Some(tid(490))));
    for writer in writers {
        writer.join().expect("no panic");
    }
    assert_holds(&index, ids(FULL).chain([255, 485]));
}

#[test]
fn what_a_split_moves_is_found_while_it_is_under_way() {
    explore(2, Mutant::None, search_races_the_first_split);
    explore(2, Mutant::NoMoveRight, search_races_the_first_split);
}

/// Two inserts with the same key: one of them must be refused.
fn two_inserts_of_one_key() {
    let index = index(&inserted(ids(FULL)), KeyWidth::Oid);
    let writer = {
        let index = index.clone();
        thread::spawn(move || index.insert(key(495), tid(1)).expect("a sound index"))
    };
    let ours = index.insert(key(495), tid(2)).expect("a sound index");
    let theirs = writer.join().expect("no panic");
    let expected = match ours {
        Insertion::Done => Insertion::Duplicate(tid(2)),
        Insertion::Duplicate(row) => {
            assert_eq!(row, tid(1));
            Insertion::Done
        }
    };
    assert_eq!(theirs, expected);
    assert_eq!(index.check().expect("a sound index").entries, FULL + 1);
}

#[test]
fn one_of_two_inserts_of_a_key_is_refused() {
    explore(3, Mutant::None, two_inserts_of_one_key);
}

/// Ascending inserts at the end by two threads, who both know where the last leaf is.
fn two_inserts_at_the_end() {
    let image = inserted(ids(FULL - 1));
    let index = index(&image, KeyWidth::Oid);
    assert_eq!(index.insert(key(490), tid(490)), Ok(Insertion::Done));
    let writer = {
        let index = index.clone();
        thread::spawn(move || assert_eq!(index.insert(key(500), tid(500)), Ok(Insertion::Done)))
    };
    assert_eq!(index.insert(key(510), tid(510)), Ok(Insertion::Done));
    writer.join().expect("no panic");
    assert_holds(&index, ids(FULL + 2));
}

#[test]
fn the_hint_to_the_last_leaf_is_only_a_hint() {
    explore(3, Mutant::None, two_inserts_at_the_end);
    explore(3, Mutant::TrustHint, two_inserts_at_the_end);
}

/// Two leaves that are full, next to each other under one parent.
fn splits_of_two_leaves_meet_in_their_parent() {
    let (image, ids) = two_full_leaves();
    let index = index(&image, KeyWidth::Oid);
    let (low, high) = (5, 495);
    let writer = {
        let index = index.clone();
        thread::spawn(move || assert_eq!(index.insert(key(low), tid(low)), Ok(Insertion::Done)))
    };
    assert_eq!(index.insert(key(high), tid(high)), Ok(Insertion::Done));
    writer.join().expect("no panic");
    let report = index.check().expect("a sound index");
    assert_eq!((report.levels, report.leaf_pages), (2, 4));
    assert_holds(&index, ids.into_iter().chain([low, high]));
}

/// The first split leaves most on the left, and both sides are then filled up.
fn two_full_leaves() -> (Vec<u8>, Vec<u64>) {
    let index = Index::create(MemoryPages::new(BlockSize::KIB_1), KeyWidth::Oid);
    let index = index.expect("an empty store");
    let mut held = Vec::new();
    let mut insert = |id| {
        assert_eq!(index.insert(key(id), tid(id)), Ok(Insertion::Done));
        held.push(id);
    };
    ids(FULL + 1).for_each(&mut insert);
    for (block, from) in [(1, 11), (2, 501)] {
        for id in from.. {
            let page =
                index.pages().read(BlockNumber::new(block)).expect("memory").expect("a leaf");
            let leaf = NodePage::parse(&page, BlockNumber::new(block), KeyWidth::Oid);
            if leaf.expect("a leaf").free_bytes() < 20 {
                break;
            }
            drop(page);
            insert(id);
        }
    }
    assert_eq!(index.check().expect("a sound index").leaf_pages, 2);
    (index.into_pages().to_bytes(), held)
}

#[test]
fn downlinks_of_two_splits_find_their_places() {
    explore(2, Mutant::None, splits_of_two_leaves_meet_in_their_parent);
    explore(2, Mutant::TrustRememberedParent, splits_of_two_leaves_meet_in_their_parent);
}

/// Three leaves, packed; the rows of the middle one are gone.
fn three_leaves() -> (Vec<u8>, u64, u64) {
    let rows = || ids(120).map(|id| (key(id), tid(id)));
    let index = Index::build(MemoryPages::new(BlockSize::KIB_1), KeyWidth::Oid, rows())
        .expect("an empty store");
    let report = index.check().expect("a sound index");
    assert_eq!((report.leaf_pages, report.inner_pages), (3, 1));
    let image = index.into_pages().to_bytes();
    // The second leaf is block 2.
    let bytes = &image[2 * BlockSize::KIB_1.bytes()..][..BlockSize::KIB_1.bytes()];
    let leaf = NodePage::parse(bytes, BlockNumber::new(2), KeyWidth::Oid).expect("a leaf");
    let ids: Vec<_> = leaf
        .entries()
        .filter_map(|(_, entry)| match entry {
            Ok(Entry::Row { key, .. }) => Some(key.chunk_id.get()),
            _ => None,
        })
        .collect();
    let (low, high) = (ids[0], ids[ids.len() - 1]);
    assert!(low < 555 && high > 555);
    (image, low, high)
}

/// A vacuum that takes the middle leaf away, and an insert that belongs there.
fn insert_races_the_end_of_its_leaf() {
    let (image, low, high) = three_leaves();
    let index = index(&image, KeyWidth::Oid);
    let gone = move |tid: ItemPointer| (low..=high).contains(&u64::from(tid.block.get()));
    let vacuum = {
        let index = index.clone();
        thread::spawn(move || index.vacuum(gone).expect("a sound index").deleted_pages)
    };
    assert_eq!(index.insert(key(555), tid(5)), Ok(Insertion::Done));
    let deleted = vacuum.join().expect("no panic");
    assert!(deleted <= 1);
    let report = index.check().expect("a sound index");
    assert_eq!(report.leaf_pages, 3 - deleted);
    assert_eq!(index.get(key(555)), Ok(Some(tid(5))));
    assert_eq!(report.entries, 120 - (high - low) / 10 - 1 + 1);
}

#[test]
fn an_insert_into_a_leaf_that_goes_is_not_lost() {
    explore(2, Mutant::None, insert_races_the_end_of_its_leaf);
    explore(2, Mutant::NoSecondLook, insert_races_the_end_of_its_leaf);
    explore(2, Mutant::IgnoreHalfDead, insert_races_the_end_of_its_leaf);
}

/// A scan over all leaves, while a vacuum takes the middle one away and another page is needed.
fn scan_races_the_end_of_a_leaf() {
    let (image, low, high) = three_leaves();
    let index = index(&image, KeyWidth::Oid);
    let gone = move |tid: ItemPointer| (low..=high).contains(&u64::from(tid.block.get()));
    let vacuum = {
        let index = index.clone();
        thread::spawn(move || {
            assert_eq!(index.vacuum(gone).expect("a sound index").deleted_pages, 1);
            // The last leaf has room for so many, and is split then.
            for id in 1201..=1201 + (FULL - 32) {
                assert_eq!(index.insert(key(id), tid(id)), Ok(Insertion::Done));
            }
        })
    };
    let mut seen = BTreeSet::new();
    index
        .visit(key(0)..=key(1200), |key, _| {
            assert!(seen.insert(key.chunk_id.get()), "twice");
            ControlFlow::Continue(())
        })
        .expect("a sound index");
    let stayed = ids(120).filter(|id| !(low..=high).contains(id));
    assert!(stayed.clone().all(|id| seen.contains(&id)), "{seen:?}");
    let last = 1190;
    assert_eq!(index.get(key(last)), Ok(Some(tid(last))));
    assert_eq!(index.get(key(555)), Ok(None));
    vacuum.join().expect("no panic");
    assert_holds(&index, stayed.chain(1201..=1201 + (FULL - 32)));
}

#[test]
fn a_scan_sees_what_stays_while_a_leaf_goes() {
    explore(2, Mutant::None, scan_races_the_end_of_a_leaf);
    explore(2, Mutant::ForgetLinks, scan_races_the_end_of_a_leaf);
    explore(2, Mutant::ReuseAtOnce, scan_races_the_end_of_a_leaf);
}
