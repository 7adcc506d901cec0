//! Vacuum clears away what nobody sees, and promises of the rest no more than what is so.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::unwrap_used,
    reason = "numbers are small, and what is refused ends the test"
)]
mod heap_support;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use heap_support::{Bed, tid, tuple};
use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, Xid};
use pgtoast_page::{HeapTupleMut, VisibilityBits};
use pgtoast_store::heap::{IndexCleanup, IndexVacuum, VacuumOptions, VacuumReport};
use pgtoast_store::transaction::LockMode;
use pgtoast_store::{RelationKind, StoreError};

/// An index as far as vacuum goes: the addresses that it has entries for.
#[derive(Default)]
struct Entries {
    tids: RefCell<BTreeSet<ItemPointer>>,
    passes: Cell<u32>,
    fails: Cell<bool>,
}

impl Entries {
    fn of(tids: &[ItemPointer]) -> Self {
        Self { tids: RefCell::new(tids.iter().copied().collect()), ..Self::default() }
    }
}

impl IndexVacuum for Entries {
    fn remove(&self, is_gone: &mut dyn FnMut(ItemPointer) -> bool) -> Result<u64, StoreError> {
        if self.fails.get() {
            return Err(StoreError::NotClosed);
        }
        self.passes.set(self.passes.get() + 1);
        let before = self.tids.borrow().len();
        self.tids.borrow_mut().retain(|tid| !is_gone(*tid));
        Ok((before - self.tids.borrow().len()) as u64)
    }
}

fn vacuum(bed: &Bed) -> VacuumReport {
    vacuum_with(bed, None, &VacuumOptions::default())
}

/// The same with options, and with an index if there is one.
fn vacuum_with(bed: &Bed, index: Option<&Entries>, options: &VacuumOptions) -> VacuumReport {
    let report = bed.heap.vacuum(index.map(|index| index as _), options).unwrap();
    bed.check();
    report
}

fn fill(bed: &Bed, count: usize, len: usize) -> Vec<ItemPointer> {
    let rows: Vec<Vec<u8>> = (0..count).map(|row| vec![(row % 256) as u8; len]).collect();
    let views: Vec<&[u8]> = rows.iter().map(|row| &row[..]).collect();
    bed.insert_committed(&views)
}

/// Ten pages of rows on disk, the fourth of which was emptied, and maps that know it.
fn saved_with_block_3_empty() -> Bed {
    let bed = Bed::kib_8();
    let tids = fill(&bed, 40, 1900);
    bed.delete_committed(tids.iter().filter(|tid| tid.block.get() == 3));
    vacuum(&bed);
    bed.heap.save().unwrap();
    bed.pool.flush().unwrap();
    bed
}

#[test]
fn what_was_deleted_makes_room_for_as_many_rows() {
    for block_size in BlockSize::ALL {
        let bed = Bed::new(block_size, 16);
        let len = block_size.bytes() / 10;
        let tids = fill(&bed, 200, len);
        let blocks = bed.heap.blocks();
        for round in 0..3u64 {
            // Every other row, so that no page is empty.
            let tids: Vec<_> = bed.scan(&bed.begin()).into_iter().map(|(tid, _)| tid).collect();
            bed.delete_committed(tids.iter().step_by(2));
            let report = vacuum(&bed);
            assert_eq!(report.tuples_removed, 100, "round {round}");
            assert_eq!((report.dead_items, report.dead_items_removed), (100, 100));
            assert_eq!(report.tuples_kept, 100);
            fill(&bed, 100, len);
            assert_eq!(bed.heap.blocks(), blocks, "round {round}");
        }
        assert_eq!(bed.committed().len(), tids.len());
    }
}

#[test]
fn what_an_aborted_transaction_inserted_goes() {
    let bed = Bed::kib_8();
    let mut writer = bed.begin();
    for _ in 0..100 {
        bed.insert(&mut writer, &[1; 500]);
    }
    let savepoint = writer.savepoint();
    for _ in 0..100 {
        bed.insert(&mut writer, &[2; 500]);
    }
    writer.rollback_to(savepoint).unwrap();
    writer.commit().unwrap();
    let report = vacuum(&bed);
    assert_eq!((report.tuples_removed, report.tuples_kept), (100, 100));
    assert_eq!(bed.committed().len(), 100);
    assert_eq!(report.pages_all_visible, report.pages_scanned);
}

#[test]
fn a_heap_that_is_emptied_gives_all_its_blocks_back() {
    let bed = Bed::kib_8();
    let tids = fill(&bed, 100, 2000);
    bed.delete_committed(&tids);
    let report = vacuum(&bed);
    assert_eq!((report.pages_truncated, bed.heap.blocks()), (report.pages, 0));
    assert_eq!(bed.heap.free_bytes(BlockNumber::new(0)), 0);
    assert_eq!(fill(&bed, 1, 2000), [tid(0, 1)]);
    bed.check();
}

#[test]
fn empty_pages_that_were_left_out_are_cut_off_too() {
    let bed = Bed::kib_8();
    // A row to a page; the last one keeps the empty pages before it.
    let tids = fill(&bed, 100, 7000);
    let (last, first) = tids.split_last().unwrap();
    bed.delete_committed(first);
    assert_eq!(vacuum(&bed).pages_truncated, 0);
    bed.delete_committed([last]);
    let report = vacuum(&bed);
    assert!(report.pages_scanned < 100, "{report:?}");
    assert_eq!((report.pages_truncated, bed.heap.blocks()), (100, 0));
}

#[test]
fn nothing_is_cut_off_while_a_transaction_has_the_relation_locked() {
    let bed = Bed::kib_8();
    let tids = fill(&bed, 100, 2000);
    bed.delete_committed(&tids);
    let mut reader = bed.begin();
    reader.lock_relation(heap_support::ID, LockMode::Shared).unwrap();
    let options = VacuumOptions { truncate_wait: Default::default(), ..Default::default() };
    let report = vacuum_with(&bed, None, &options);
    assert_eq!((report.pages_truncated, bed.heap.blocks()), (0, report.pages));
    drop(reader);
    assert_eq!(vacuum(&bed).pages_truncated, report.pages);
}

#[test]
fn only_empty_pages_at_the_end_go_and_only_if_they_are_worth_it() {
    let bed = Bed::kib_8();
    let tids = fill(&bed, 4 * 64, 1900);
    assert_eq!(bed.heap.blocks(), 64);
    bed.delete_committed(tids.iter().filter(|tid| tid.block.get() > 60));
    assert_eq!(vacuum(&bed).pages_truncated, 0, "3 of 64 are less than a sixteenth");
    let is_gone = |tid: &&ItemPointer| {
        (50..60).contains(&tid.block.get()) && tid.item.get() > 1 || tid.block.get() == 60
    };
    bed.delete_committed(tids.iter().filter(is_gone));
    assert_eq!(vacuum(&bed).pages_truncated, 4);
    assert_eq!(bed.heap.blocks(), 60);
    assert_eq!(bed.heap.visibility(BlockNumber::new(60)).unwrap(), VisibilityBits::empty());
    assert_eq!(bed.committed().len(), 4 * 50 + 10);
}

#[test]
fn rows_that_a_snapshot_sees_stay() {
    let bed = Bed::kib_8();
    let tids = fill(&bed, 20, 500);
    let reader = bed.repeatable_read();
    let mut writer = bed.begin();
    for tid in &tids[..10] {
        bed.delete(&mut writer, *tid);
    }
    for tid in &tids[10..] {
        bed.update(&mut writer, *tid, b"short");
    }
    writer.commit().unwrap();
    let report = vacuum(&bed);
    assert_eq!((report.tuples_removed, report.tuples_recently_dead), (0, 20));
    assert_eq!(report.pages_all_visible, 0);
    assert_eq!(bed.scan(&reader).len(), 20);
    for (at, tid) in tids.iter().enumerate() {
        assert_eq!(bed.fetch(&reader, *tid), Some(vec![at as u8; 500]));
    }
    drop(reader);
    let report = vacuum(&bed);
    assert_eq!((report.tuples_removed, report.tuples_kept), (20, 10));
}

#[test]
fn a_registered_snapshot_without_a_transaction_holds_rows_too() {
    let bed = Bed::kib_8();
    let tids = fill(&bed, 2, 500);
    let registration = bed.transactions.register();
    bed.delete_committed(&[tids[0]]);
    assert_eq!(vacuum(&bed).tuples_removed, 0);
    drop(registration);
    assert_eq!(vacuum(&bed).tuples_removed, 1);
}

#[test]
fn line_pointers_stay_until_the_index_has_forgotten_them() {
    let bed = Bed::of_kind(BlockSize::KIB_8, 16, RelationKind::Toast);
    let tids = fill(&bed, 100, 1900);
    let index = Entries::of(&tids);
    bed.delete_committed(&tids[..50]);

    index.fails.set(true);
    assert_eq!(
        bed.heap.vacuum(Some(&index), &VacuumOptions::default()),
        Err(StoreError::NotClosed)
    );
    bed.check();
    assert_eq!(bed.lines(0), "dddd");
    fill(&bed, 8, 1900);
    assert_eq!(bed.lines(0), "dddd", "the space may be used, the line pointers not");

    index.fails.set(false);
    let report = vacuum_with(&bed, Some(&index), &VacuumOptions::default());
    assert_eq!((report.dead_items, report.dead_items_removed), (50, 50));
    assert_eq!((report.index_entries_removed, report.index_passes), (50, 1));
    assert_eq!(bed.lines(0), ".", "one line pointer stays");
    assert!(index.tids.borrow().iter().eq(&tids[50..]));
}

#[test]
fn few_dead_rows_are_left_for_the_next_time() {
    let bed = Bed::of_kind(BlockSize::KIB_1, 64, RelationKind::Toast);
    let tids = fill(&bed, 300, 900);
    assert_eq!(bed.heap.blocks(), 300);
    let index = Entries::of(&tids);
    bed.delete_committed(&tids[..5]);
    let report = vacuum_with(&bed, Some(&index), &VacuumOptions::default());
    assert!(report.bypassed && index.passes.get() == 0);
    assert_eq!((report.dead_items, report.dead_items_removed), (5, 0));
    bed.delete_committed(&tids[5..6]);
    let report = vacuum_with(&bed, Some(&index), &VacuumOptions::default());
    assert!(!report.bypassed && index.passes.get() == 1, "6 of 300 are 2 %");
    assert_eq!(report.dead_items_removed, 6);

    bed.delete_committed(&tids[6..7]);
    let never = VacuumOptions { index_cleanup: IndexCleanup::Never, ..Default::default() };
    assert_eq!(vacuum_with(&bed, Some(&index), &never).dead_items_removed, 0);
    let always = VacuumOptions { index_cleanup: IndexCleanup::Always, ..Default::default() };
    assert_eq!(vacuum_with(&bed, Some(&index), &always).dead_items_removed, 1);
}

#[test]
fn little_memory_for_dead_rows_means_more_passes_and_the_same_outcome() {
    let bed = Bed::of_kind(BlockSize::KIB_1, 64, RelationKind::Toast);
    let tids = fill(&bed, 300, 200);
    let index = Entries::of(&tids);
    bed.delete_committed(tids.iter().skip(1).step_by(3));
    let options = VacuumOptions { dead_items: 10, ..Default::default() };
    let report = vacuum_with(&bed, Some(&index), &options);
    assert!(report.index_passes > 5, "{report:?}");
    assert_eq!((report.dead_items_removed, report.index_entries_removed), (100, 100));
}

#[test]
fn all_that_everybody_sees_is_marked_and_any_change_takes_it_back() {
    for block_size in BlockSize::ALL {
        let bed = Bed::new(block_size, 16);
        let tids = fill(&bed, 50, block_size.bytes() / 8);
        let report = vacuum_with(&bed, None, &VacuumOptions::freeze());
        assert_eq!((report.pages_all_frozen, report.tuples_frozen), (report.pages, 50));
        assert_eq!(report.oldest_unfrozen, Some(bed.transactions.horizon()));
        assert_eq!(bed.committed().len(), 50);
        let bits = |block| bed.heap.visibility(BlockNumber::new(block)).unwrap();
        assert_eq!(bits(0), VisibilityBits::all());

        let mut writer = bed.begin();
        bed.delete(&mut writer, tids[0]);
        assert_eq!(bits(0), VisibilityBits::empty());
        assert_eq!(bits(1), VisibilityBits::all());
        bed.update(&mut writer, tid(1, 1), b"short");
        let inserted = bed.insert(&mut writer, b"short");
        writer.abort();
        bed.check();
        assert_eq!(bits(1), VisibilityBits::empty());
        assert_eq!(bits(inserted.block.get()), VisibilityBits::empty());

        let report = vacuum_with(&bed, None, &VacuumOptions::freeze());
        assert_eq!(report.pages_all_frozen, report.pages);
        assert_eq!(bed.committed().len(), 50);
    }
}

#[test]
fn pages_that_everybody_sees_are_left_out_until_it_is_about_freezing() {
    let bed = Bed::kib_8();
    fill(&bed, 400, 1900);
    let first = vacuum(&bed);
    assert_eq!((first.pages_scanned, first.pages_all_frozen), (100, 0));
    assert_eq!(first.oldest_unfrozen, Some(Xid::new(1000)));
    let second = vacuum(&bed);
    assert_eq!((second.pages_scanned, second.oldest_unfrozen), (1, None));
    let aggressive = VacuumOptions { aggressive: true, ..Default::default() };
    let third = vacuum_with(&bed, None, &aggressive);
    assert_eq!((third.pages_scanned, third.oldest_unfrozen), (100, Some(Xid::new(1000))));
    let freeze = vacuum_with(&bed, None, &VacuumOptions::freeze());
    assert_eq!(freeze.oldest_unfrozen, Some(bed.transactions.horizon()));
    let again = vacuum_with(&bed, None, &VacuumOptions::freeze());
    assert_eq!(again.pages_scanned, 1);
}

#[test]
fn only_old_tuples_are_frozen() {
    let bed = Bed::kib_8();
    for _ in 0..20 {
        fill(&bed, 1, 10);
    }
    let options = VacuumOptions { freeze_min_age: 5, ..Default::default() };
    let report = vacuum_with(&bed, None, &options);
    assert_eq!(report.tuples_frozen, 15);
    assert_eq!(report.oldest_unfrozen, Some(Xid::new(1015)));
}

#[test]
fn an_undone_deletion_is_forgotten_when_the_row_is_frozen() {
    let bed = Bed::kib_8();
    let tids = fill(&bed, 2, 10);
    let mut writer = bed.begin();
    bed.delete(&mut writer, tids[0]);
    bed.update(&mut writer, tids[1], b"undone");
    writer.abort();
    let report = vacuum_with(&bed, None, &VacuumOptions::freeze());
    assert_eq!((report.tuples_removed, report.tuples_frozen, report.pages_all_frozen), (1, 2, 1));
    assert_eq!(bed.committed().len(), 2);
}

#[test]
fn a_chain_of_versions_becomes_one_that_the_address_leads_to() {
    let bed = Bed::kib_8();
    let row = fill(&bed, 1, 10)[0];
    for version in 0..5 {
        let mut writer = bed.begin();
        bed.update(&mut writer, row, &[version; 10]);
        if version % 2 == 0 { writer.commit().unwrap() } else { writer.abort() }
    }
    assert_eq!(bed.lines(0), "nnnnnn");
    let report = vacuum(&bed);
    assert_eq!(report.tuples_removed, 5);
    assert_eq!(bed.lines(0), "r....n");
    assert_eq!(bed.fetch(&bed.begin(), row), Some(vec![4; 10]));
    bed.delete_committed(&[row]);
    let options = VacuumOptions { truncate: false, ..Default::default() };
    assert_eq!(vacuum_with(&bed, None, &options).tuples_removed, 1);
    assert_eq!(bed.lines(0), ".");
}

#[test]
fn blocks_that_were_added_for_many_and_not_used_are_known_to_be_free() {
    let bed = Bed::kib_8();
    let bytes = tuple(&[1; 1900]);
    let mut transaction = bed.begin();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        bed.heap.insert_in_place(
            &mut transaction,
            &vec![bytes.len(); 100],
            |row, target| {
                assert!(row < 30);
                target.copy_from_slice(&bytes);
            },
            |_, _| {},
        )
    }));
    assert!(panicked.is_err());
    transaction.commit().unwrap();
    assert_eq!(bed.heap.blocks(), 25);
    assert_eq!(bed.heap.free_bytes(BlockNumber::new(20)), 8160);
    bed.check();
    assert_eq!(bed.committed().len(), 30);
    fill(&bed, 70, 1900);
    assert_eq!(bed.heap.blocks(), 25);
    bed.check();
}

#[test]
fn free_space_is_known_again_after_the_store_was_closed() {
    let bed = saved_with_block_3_empty();
    let (_pool, heap) = bed.reopened();
    let (mut transaction, mut bytes) = (bed.begin(), tuple(&[9; 1900]));
    let tid = heap.insert(&mut transaction, HeapTupleMut::new(&mut bytes).unwrap()).unwrap();
    assert_eq!(tid.block.get(), 3);
    assert_eq!(heap.visibility(BlockNumber::new(4)).unwrap(), VisibilityBits::ALL_VISIBLE);
    assert_eq!(heap.visibility(BlockNumber::new(3)).unwrap(), VisibilityBits::empty());
}

#[test]
fn maps_that_are_damaged_say_nothing_and_stop_nobody() {
    let bed = saved_with_block_3_empty();
    for map in ["base/16384_fsm", "base/16384_vm"] {
        let path = bed.directory.path().join(map);
        let mut bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.is_empty(), "{map}");
        for page in bytes.chunks_mut(8192) {
            page[5000] ^= 1;
        }
        std::fs::write(path, bytes).unwrap();
    }
    let (pool, heap) = bed.reopened();
    assert_eq!(heap.free_bytes(BlockNumber::new(3)), 0);
    assert_eq!(heap.visibility(BlockNumber::new(4)).unwrap(), VisibilityBits::empty());
    let mut writer = bed.begin();
    let deleted = heap.delete(&mut writer, tid(4, 1));
    assert_eq!(deleted, Ok(pgtoast_store::heap::Modified::Done(tid(4, 1))));
    writer.commit().unwrap();
    let report = heap.vacuum(None, &VacuumOptions::default()).unwrap();
    assert_eq!((report.tuples_removed, report.pages_scanned), (1, 10));
    assert!(heap.free_bytes(BlockNumber::new(3)) >= 8000);
    heap.save().unwrap();
    pool.flush().unwrap();
}
