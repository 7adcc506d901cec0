//! Entries and pages that go, and pages that come back.
mod support;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pgtoast_base::{BlockNumber, BlockSize, OffsetNumber};
use pgtoast_nbtree::{Index, IndexPages, Insertion, KeyWidth, MemoryPages};
use pgtoast_testkit::Rng;
use support::{entries, key, tid};

#[test]
fn what_a_vacuum_leaves_is_what_was_not_gone() {
    for (seed, width) in [(1, KeyWidth::Oid), (2, KeyWidth::Oid8)] {
        for size in [BlockSize::KIB_1, BlockSize::KIB_8] {
            let mut index = Index::create(MemoryPages::new(size), width).unwrap();
            let mut rng = Rng::new(seed);
            let mut model = BTreeMap::new();
            let mut next = 0;
            for round in 0..30 {
                for _ in 0..1500 {
                    let key = key(rng.below(3000) as u64, i32::try_from(rng.below(4)).unwrap());
                    if let Entry::Vacant(place) = model.entry(key) {
                        assert_eq!(index.insert(key, tid(next)), Ok(Insertion::Done));
                        place.insert(tid(next));
                        next += 1;
                    }
                }
                // Ranges go as a whole, so that pages become empty, and others are thinned out.
                let (from, len) = (rng.below(3000) as u64, 1 + rng.below(1500) as u64);
                let thin = rng.below(60);
                let gone: Vec<_> = model
                    .iter()
                    .filter(|(key, _)| {
                        (from..from + len).contains(&key.chunk_id.get()) || rng.chance(thin)
                    })
                    .map(|(key, tid)| (*tid, *key))
                    .collect();
                let tids: std::collections::HashSet<_> = gone.iter().map(|(tid, _)| *tid).collect();
                for (_, key) in &gone {
                    model.remove(key);
                }
                let report = index.vacuum(|tid| tids.contains(&tid)).unwrap();
                assert_eq!(report.deleted_tids, gone.len() as u64);
                assert_eq!(report.left_tids, model.len() as u64);
                let check = index.check().unwrap();
                assert_eq!((check.entries, check.half_dead_pages), (model.len() as u64, 0));
                let expected: Vec<_> = model.iter().map(|(key, tid)| (*key, *tid)).collect();
                assert_eq!(entries(&index), expected, "round {round}");
                let blocks = index.pages().block_count().unwrap();
                let out = report.free_pages + report.waiting_pages;
                assert_eq!(check.leaf_pages + check.inner_pages + out + 1, blocks);
                index.pages_mut().settle();
            }
        }
    }
}

#[test]
fn an_emptied_index_keeps_one_leaf_on_each_level_and_uses_its_pages_again() {
    let rows = || (0..20_000u32).map(|n| (key(u64::from(n) + 20_000, 0), tid(n)));
    let build = || Index::build(MemoryPages::new(BlockSize::KIB_1), KeyWidth::Oid, rows());
    let mut index = build().unwrap();
    let blocks = index.pages().block_count().unwrap();
    let levels = index.check().unwrap().levels;
    assert!(levels >= 3);
    let report = index.vacuum(|_| true).unwrap();
    assert_eq!((report.deleted_tids, report.free_pages), (20_000, 0));
    let check = index.check().unwrap();
    assert_eq!((check.levels, check.leaf_pages, check.inner_pages), (levels, 1, levels - 1));
    // Searches start at the one leaf there is.
    assert_eq!(index.meta().unwrap().fast_root().unwrap().1, 0);
    // Not yet free: a search may still be on its way.
    assert_eq!(report.waiting_pages, blocks - 1 - levels);
    index.pages_mut().settle();
    let report = index.vacuum(|_| true).unwrap();
    assert_eq!((report.free_pages, report.waiting_pages), (blocks - 1 - levels, 0));
    for (key, tid) in rows() {
        assert_eq!(index.insert(key, tid), Ok(Insertion::Done));
    }
    assert_eq!(index.check().unwrap().entries, 20_000);
    assert!(index.pages().block_count().unwrap() <= blocks + 60);
}

#[test]
fn a_scan_passes_over_pages_that_go_while_it_rests() {
    let rows = (0..3000u32).map(|n| (key(u64::from(n), 0), tid(n)));
    let index = Index::build(MemoryPages::new(BlockSize::KIB_1), KeyWidth::Oid, rows).unwrap();
    let mut scan = index.range(key(0, 0)..=key(9999, 0));
    assert_eq!(scan.next(), Some(Ok((key(0, 0), tid(0)))));
    let (first, last) = (tid(40), tid(2700));
    index.vacuum(|tid| (first..last).contains(&tid)).unwrap();
    let rest: Vec<_> = scan.map(|entry| entry.unwrap().0.chunk_id.get()).collect();
    let (before, after) = rest.split_at(rest.partition_point(|id| *id < 100));
    assert_eq!(before, (1..1 + before.len() as u64).collect::<Vec<_>>());
    assert_eq!(after, (2700..3000).collect::<Vec<_>>());
}

/// The server may merge rows of one key into one entry when old versions pile up.
#[test]
fn posting_lists_are_read_and_shortened() {
    let index = Index::create(MemoryPages::new(BlockSize::KIB_8), KeyWidth::Oid).unwrap();
    for n in 0..3 {
        assert_eq!(index.insert(key(n, 0), tid(100)), Ok(Insertion::Done));
    }
    let tids = [1, 5, 9].map(tid);
    let mut tuple = Vec::new();
    tuple.extend(
        pgtoast_base::ItemPointer::new(BlockNumber::new(16), OffsetNumber::new(0x2003)).to_bytes(),
    );
    tuple.extend((0x2000u16 | 40).to_le_bytes());
    tuple.extend(7u32.to_le_bytes());
    tuple.extend(0i32.to_le_bytes());
    tuple.extend(tids.iter().flat_map(|tid| tid.to_bytes()));
    tuple.resize(40, 0);
    {
        let leaf = index.meta().unwrap().root().unwrap().0;
        let mut page = index.pages().write(leaf).unwrap().unwrap();
        let mut page = pgtoast_page::PageMut::open(&mut page, BlockSize::KIB_8).unwrap();
        page.insert_item(OffsetNumber::new(4), &tuple).unwrap();
    }
    index.check().unwrap();
    let rows = |index: &Index<MemoryPages>| -> Vec<_> {
        let rows = index.range(key(7, 0)..=key(7, 0));
        rows.map(|entry| entry.unwrap().1).collect()
    };
    assert_eq!(rows(&index), tids);
    assert_eq!(index.insert(key(7, 0), tid(3)), Ok(Insertion::Duplicate(tid(1))));
    let refused = index.insert_unless(key(7, 0), tid(3), |_| false);
    assert!(matches!(
        refused,
        Err(pgtoast_nbtree::IndexError::Index(pgtoast_nbtree::NbtreeError::PostingList {
            item: 4,
            ..
        }))
    ));
    let done = index.insert_unless(key(7, 0), tid(20), |_| false);
    assert_eq!(done, Ok(Insertion::Done));
    let report = index.vacuum(|one| one == tid(5) || one == tid(20)).unwrap();
    assert_eq!((report.deleted_tids, report.left_tids), (2, 5));
    index.check().unwrap();
    assert_eq!(rows(&index), [tid(1), tid(9)]);
    index.vacuum(|one| one == tid(1)).unwrap();
    index.check().unwrap();
    assert_eq!(rows(&index), [tid(9)]);
    index.vacuum(|one| one == tid(9)).unwrap();
    assert_eq!((rows(&index), index.check().unwrap().entries), (Vec::new(), 3));
}
