//! Inserts against a map of the standard library, and the sizes of a server's files.
//! Source: index sizes of three loads, measured on PostgreSQL 15.
mod support;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pgtoast_base::{BlockSize, OffsetNumber, Oid8};
use pgtoast_nbtree::{Index, IndexError, Insertion, KeyWidth, MemoryPages, Meta, NbtreeError};
use pgtoast_testkit::Rng;
use support::{entries, key, tid};

#[test]
fn chunks_in_order_of_id_take_as_many_bytes_as_on_a_server() {
    for (values, chunks, file_len) in [(5000, 2, 245_760), (1000, 12, 294_912), (100, 161, 385_024)]
    {
        let pages = MemoryPages::new(BlockSize::KIB_8);
        let index = Index::create(pages, KeyWidth::Oid).unwrap();
        let keys =
            (0..values).flat_map(|value| (0..chunks).map(move |seq| key(20_000 + value, seq)));
        let mut count = 0;
        for key in keys {
            assert_eq!(index.insert(key, tid(count)), Ok(Insertion::Done));
            count += 1;
        }
        assert_eq!(index.check().unwrap().entries, u64::from(count));
        assert_eq!(index.into_pages().to_bytes().len(), file_len, "{values} of {chunks} chunks");
    }
}

#[test]
fn any_order_of_inserts_leaves_what_a_map_has() {
    for (seed, width) in [(1, KeyWidth::Oid), (2, KeyWidth::Oid8)] {
        for size in BlockSize::ALL {
            let index = Index::create(MemoryPages::new(size), width).unwrap();
            let mut rng = Rng::new(seed);
            let mut model = BTreeMap::new();
            for n in 0..12_000 {
                // Ids on both sides of the middle of the range, where signs go wrong.
                let id = 0x7fff_fc00 + rng.below(2000) as u64;
                let key = key(id, i32::try_from(rng.below(9)).unwrap() - 1);
                let insertion = index.insert(key, tid(n)).unwrap();
                match model.entry(key) {
                    Entry::Occupied(row) => assert_eq!(insertion, Insertion::Duplicate(*row.get())),
                    Entry::Vacant(place) => {
                        place.insert(tid(n));
                        assert_eq!(insertion, Insertion::Done);
                    }
                }
            }
            let report = index.check().unwrap();
            assert_eq!(report.entries, model.len() as u64);
            let expected: Vec<_> = model.iter().map(|(key, tid)| (*key, *tid)).collect();
            assert_eq!(entries(&index), expected, "{width:?}, {size}");
            for (key, tid) in &model {
                assert_eq!(index.get(*key), Ok(Some(*tid)));
                assert_eq!(index.contains_id(key.chunk_id), Ok(true));
            }
        }
    }
}

#[test]
fn rows_of_one_key_lie_in_order_of_their_tids_across_pages() {
    for width in [KeyWidth::Oid, KeyWidth::Oid8] {
        let index = Index::create(MemoryPages::new(BlockSize::KIB_1), width).unwrap();
        let mut rng = Rng::new(3);
        let mut model = BTreeMap::new();
        for _ in 0..6000 {
            let entry = (key(rng.below(4) as u64, 0), tid(u32::try_from(rng.below(4000)).unwrap()));
            if model.insert(entry, ()).is_none() {
                assert_eq!(index.insert_unless(entry.0, entry.1, |_| false), Ok(Insertion::Done));
            }
        }
        index.check().unwrap();
        assert_eq!(entries(&index), model.keys().copied().collect::<Vec<_>>());
        // A row that is alive is found however many pages its dead namesakes fill.
        let (last, alive) = model.keys().rev().find(|(one, _)| *one == key(2, 0)).copied().unwrap();
        let insertion = index.insert_unless(last, tid(9999), |tid| tid == alive);
        assert_eq!(insertion, Ok(Insertion::Duplicate(alive)));
    }
}

#[test]
fn an_index_without_entries_is_one_metapage() {
    let index = Index::create(MemoryPages::new(BlockSize::KIB_8), KeyWidth::Oid).unwrap();
    assert_eq!(index.meta().unwrap().root(), None);
    assert_eq!(index.get(key(1, 0)), Ok(None));
    assert_eq!(index.check().unwrap().levels, 0);
    let created = index.into_pages().to_bytes();
    assert_eq!(created.len(), 8192);
    let built = Index::build(MemoryPages::new(BlockSize::KIB_8), KeyWidth::Oid, []).unwrap();
    assert_eq!(built.into_pages().to_bytes(), created);
    assert_eq!(Meta::parse(&created).unwrap(), Meta::new(None, 0));
}

#[test]
fn ids_beyond_32_bits_are_their_own_and_refused_where_they_do_not_fit() {
    let wide = Index::create(MemoryPages::new(BlockSize::KIB_1), KeyWidth::Oid8).unwrap();
    let narrow = Index::create(MemoryPages::new(BlockSize::KIB_1), KeyWidth::Oid).unwrap();
    for n in 0..500 {
        let (low, high) = (u64::from(n), u64::from(n) + (1 << 32));
        for (id, row) in [(low, tid(n)), (high, tid(n + 1000))] {
            assert_eq!(wide.insert(key(id, 0), row), Ok(Insertion::Done));
        }
        assert_eq!(narrow.insert(key(low, 0), tid(n)), Ok(Insertion::Done));
        let refused = Err(IndexError::Index(NbtreeError::IdTooWide { id: high }));
        assert_eq!(narrow.insert(key(high, 0), tid(n)), refused);
        assert_eq!(narrow.get(key(high, 0)), Ok(None));
    }
    wide.check().unwrap();
    for n in 0..500 {
        assert_eq!(wide.get(key(n.into(), 0)), Ok(Some(tid(n))));
        assert_eq!(wide.get(key(u64::from(n) + (1 << 32), 0)), Ok(Some(tid(n + 1000))));
    }
    assert_eq!(entries(&wide).len(), 1000);
}

/// A counter that has wrapped meets a run of ids that are all in use. A server probes the index for
/// each of them; at hundreds of millions of values inserts came to a near standstill that way.
#[test]
fn a_run_of_taken_ids_is_skipped_in_one_walk() {
    let index = Index::build(
        MemoryPages::new(BlockSize::KIB_8),
        KeyWidth::Oid,
        (16_384..116_384).flat_map(|id| (0..2).map(move |seq| (key(id, seq), tid(0)))),
    )
    .unwrap();
    for (from, free, taken) in [
        (1, Some(1), 0),
        (16_384, Some(116_384), 100_000),
        (116_000, Some(116_384), 384),
        (116_384, Some(116_384), 0),
    ] {
        let found = index.first_free_id(Oid8::new(from)).unwrap();
        assert_eq!((found.chunk_id, found.taken), (free.map(Oid8::new), taken));
    }
    let last = u64::from(u32::MAX);
    assert_eq!(index.insert(key(last, 0), tid(1)), Ok(Insertion::Done));
    let found = index.first_free_id(Oid8::new(last)).unwrap();
    assert_eq!((found.chunk_id, found.taken), (None, 1));
    assert_eq!(index.first_free_id(Oid8::new(last + 1)).unwrap().chunk_id, None);
}

#[test]
fn packed_rows_are_found_and_inserts_go_on() {
    for width in [KeyWidth::Oid, KeyWidth::Oid8] {
        for count in [0, 1, 2, 43, 44, 45, 2000, 30_000] {
            let rows = (0..count).map(|n| (key(n / 3, i32::try_from(n % 3).unwrap()), tid(7)));
            let index = Index::build(MemoryPages::new(BlockSize::KIB_1), width, rows).unwrap();
            assert_eq!(index.check().unwrap().entries, count, "{count}");
            for n in (0..count).step_by(7) {
                let id = n / 3;
                assert_eq!(index.insert(key(id, 100), tid(8)), Ok(Insertion::Done), "{n}");
                if (n + 7) / 3 == id {
                    break;
                }
            }
            index.check().unwrap();
        }
    }
    let pages = MemoryPages::new(BlockSize::KIB_8);
    let unordered = [(key(2, 0), tid(0)), (key(1, 0), tid(1))];
    let error = Index::build(pages, KeyWidth::Oid, unordered).err();
    assert_eq!(error, Some(IndexError::Index(NbtreeError::BuildOrder { count: 1 })));
}

#[test]
fn dead_entries_make_room_before_a_page_is_split() {
    use pgtoast_nbtree::IndexPages;
    use pgtoast_page::PageMut;
    let index = Index::create(MemoryPages::new(BlockSize::KIB_1), KeyWidth::Oid).unwrap();
    let mut next = 0;
    while index.pages().block_count() == Ok(1) || index.check().unwrap().leaf_pages == 1 {
        assert_eq!(index.insert(key(u64::from(next), 0), tid(next)), Ok(Insertion::Done));
        next += 1;
        if next == 49 {
            // The page is full now. A scan would mark what it found to be gone.
            let leaf = index.meta().unwrap().root().unwrap().0;
            let mut page = index.pages().write(leaf).unwrap().unwrap();
            let mut page = PageMut::open(&mut page, BlockSize::KIB_1).unwrap();
            for item in [3, 4, 9] {
                page.mark_item_dead(OffsetNumber::new(item)).unwrap();
            }
        }
    }
    assert_eq!(next, 49 + 3 + 1);
    assert_eq!(entries(&index).len(), 50);
}
