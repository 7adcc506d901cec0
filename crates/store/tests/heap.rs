//! Rows of a heap are found, changed and gone as transactions have it, one after the other.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::unwrap_used,
    reason = "numbers are small, and what is refused ends the test"
)]
mod heap_support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use heap_support::{Bed, tid, tuple};
use pgtoast_base::BlockSize;
use pgtoast_page::HeapTupleMut;
use pgtoast_store::StoreError;
use pgtoast_store::heap::Modified;

#[test]
fn what_a_transaction_inserts_it_sees_at_once_and_others_after_its_end() {
    let bed = Bed::kib_8();
    let mut writer = bed.begin();
    let reader = bed.begin();
    let tid = bed.insert(&mut writer, b"one");
    assert_eq!(bed.fetch(&writer, tid), None, "a statement does not see itself");
    writer.begin_statement().unwrap();
    assert_eq!(bed.fetch(&writer, tid).as_deref(), Some(&b"one"[..]));
    assert_eq!(bed.fetch(&reader, tid), None);
    writer.commit().unwrap();
    assert_eq!(bed.fetch(&reader, tid), None, "the snapshot is older");
    assert_eq!(bed.fetch(&bed.begin(), tid).as_deref(), Some(&b"one"[..]));
    bed.check();
}

#[test]
fn an_address_where_nothing_is_has_no_row() {
    let bed = Bed::kib_8();
    bed.insert_committed(&[b"one"]);
    let transaction = bed.begin();
    for nowhere in [tid(0, 0), tid(0, 2), tid(0, 0xffff), tid(1, 1), tid(u32::MAX, 1)] {
        assert_eq!(bed.fetch(&transaction, nowhere), None, "{nowhere}");
        let mut writer = bed.begin();
        assert_eq!(bed.try_delete(&mut writer, nowhere), Ok(Modified::NotVisible));
        assert_eq!(bed.try_update(&mut writer, nowhere, b"x"), Ok(Modified::NotVisible));
    }
}

#[test]
fn aborted_changes_never_were() {
    let bed = Bed::kib_8();
    let kept = bed.insert_committed(&[b"kept"])[0];
    let mut writer = bed.begin();
    let gone = bed.insert(&mut writer, b"gone");
    bed.delete(&mut writer, kept);
    writer.abort();
    let reader = bed.begin();
    assert_eq!(bed.fetch(&reader, gone), None);
    assert_eq!(bed.fetch(&reader, kept).as_deref(), Some(&b"kept"[..]));
    let mut writer = bed.begin();
    bed.delete(&mut writer, kept);
    writer.commit().unwrap();
    assert_eq!(bed.committed(), Vec::<Vec<u8>>::new());
    bed.check();
}

#[test]
fn a_row_keeps_its_address_while_its_page_has_room() {
    let bed = Bed::kib_8();
    let tid = bed.insert_committed(&[b"0"])[0];
    for version in 1..10u8 {
        let mut writer = bed.begin();
        assert_eq!(bed.update(&mut writer, tid, &[b'0' + version]), tid);
        writer.commit().unwrap();
        assert_eq!(bed.fetch(&bed.begin(), tid), Some(vec![b'0' + version]));
        assert_eq!(bed.scan(&bed.begin()), [(tid, vec![b'0' + version])]);
    }
    assert_eq!(bed.lines(0), "nnnnnnnnnn");
    bed.check();
}

#[test]
fn an_older_snapshot_sees_the_older_version_of_a_chain() {
    let bed = Bed::kib_8();
    let tid = bed.insert_committed(&[b"old"])[0];
    let reader = bed.repeatable_read();
    for _ in 0..3 {
        let mut writer = bed.begin();
        bed.update(&mut writer, tid, b"new");
        writer.commit().unwrap();
        assert_eq!(bed.fetch(&reader, tid).as_deref(), Some(&b"old"[..]));
        assert_eq!(bed.scan(&reader), [(tid, b"old".to_vec())]);
    }
}

#[test]
fn a_row_too_long_for_its_page_moves_and_says_where() {
    let bed = Bed::kib_8();
    let first = bed.insert_committed(&[&[1; 4000], &[2; 4000]]);
    let mut writer = bed.begin();
    let moved = bed.update(&mut writer, first[0], &[3; 5000]);
    assert_eq!(moved, tid(1, 1));
    writer.commit().unwrap();
    assert_eq!(bed.fetch(&bed.begin(), first[0]), None);
    assert_eq!(bed.fetch(&bed.begin(), moved), Some(vec![3; 5000]));
    bed.check();
}

#[test]
fn a_chain_collapses_when_its_page_is_short_of_space() {
    let bed = Bed::kib_8();
    let tid = bed.insert_committed(&[&[0; 2000]])[0];
    for version in 1..100u8 {
        let mut writer = bed.begin();
        assert_eq!(bed.fetch(&writer, tid), Some(vec![version - 1; 2000]));
        assert_eq!(bed.update(&mut writer, tid, &[version; 2000]), tid, "version {version}");
        writer.commit().unwrap();
        bed.check();
    }
    assert_eq!(bed.heap.blocks(), 1);
    assert_eq!(bed.fetch(&bed.begin(), tid), Some(vec![99; 2000]));
    assert!(bed.lines(0).starts_with('r'), "{}", bed.lines(0));
}

#[test]
fn a_snapshot_holds_the_versions_that_it_sees() {
    let bed = Bed::kib_8();
    let tid = bed.insert_committed(&[&[0; 2000]])[0];
    let reader = bed.repeatable_read();
    let mut at = tid;
    for version in 1..10u8 {
        let mut writer = bed.begin();
        at = bed.update(&mut writer, at, &[version; 2000]);
        writer.commit().unwrap();
        assert_eq!(bed.fetch(&reader, tid), Some(vec![0; 2000]));
    }
    assert!(bed.heap.blocks() > 1);
    assert_eq!(bed.fetch(&bed.begin(), at), Some(vec![9; 2000]));
    bed.check();
}

#[test]
fn a_row_made_and_ended_in_one_transaction_is_told_apart_by_command() {
    let bed = Bed::kib_8();
    let mut writer = bed.begin();
    let tid = bed.insert(&mut writer, b"one");
    assert_eq!(bed.update(&mut writer, tid, b"two"), tid);
    assert_eq!(bed.fetch(&writer, tid).as_deref(), Some(&b"one"[..]), "the statement before");
    assert_eq!(
        bed.heap.delete(&mut writer, tid),
        Ok(Modified::BySelf),
        "by the statement that has just ended it"
    );
    writer.begin_statement().unwrap();
    assert_eq!(bed.fetch(&writer, tid).as_deref(), Some(&b"two"[..]));
    bed.delete(&mut writer, tid);
    writer.begin_statement().unwrap();
    assert_eq!(bed.fetch(&writer, tid), None);
    writer.commit().unwrap();
    assert!(bed.committed().is_empty());
}

#[test]
fn what_a_savepoint_undoes_can_be_done_again() {
    let bed = Bed::kib_8();
    let tid = bed.insert_committed(&[b"one"])[0];
    let mut writer = bed.begin();
    for _ in 0..3 {
        let savepoint = writer.savepoint();
        bed.update(&mut writer, tid, b"two");
        bed.delete(&mut writer, tid);
        writer.rollback_to(savepoint).unwrap();
        writer.begin_statement().unwrap();
        assert_eq!(bed.fetch(&writer, tid).as_deref(), Some(&b"one"[..]));
    }
    let own = bed.insert(&mut writer, b"own");
    let savepoint = writer.savepoint();
    bed.delete(&mut writer, own);
    writer.rollback_to(savepoint).unwrap();
    bed.update(&mut writer, own, b"own again");
    bed.update(&mut writer, tid, b"three");
    writer.commit().unwrap();
    assert_eq!(bed.committed(), [b"own again".to_vec(), b"three".to_vec()]);
    bed.check();
}

#[test]
fn read_committed_is_told_what_follows_and_repeatable_read_fails() {
    let bed = Bed::kib_8();
    let rows = bed.insert_committed(&[b"updated", b"deleted"]);
    let mut committed = bed.begin();
    let mut repeatable = bed.repeatable_read();
    for transaction in [&mut committed, &mut repeatable] {
        transaction.begin_statement().unwrap();
    }
    let mut other = bed.begin();
    bed.update(&mut other, rows[0], b"by the other");
    bed.delete(&mut other, rows[1]);
    let by = other.xid().unwrap();
    other.commit().unwrap();

    let mut bytes = tuple(b"mine");
    let changed = bed.heap.update(&mut committed, rows[0], HeapTupleMut::new(&mut bytes).unwrap());
    assert_eq!(changed, Ok(Modified::ByOther { by, next: Some(tid(0, 3)) }));
    committed.renew_snapshot();
    assert_eq!(bed.heap.follow(&committed, by, tid(0, 3)), Ok(Some(rows[0])));
    let changed = bed.heap.update(&mut committed, rows[0], HeapTupleMut::new(&mut bytes).unwrap());
    assert_eq!(changed, Ok(Modified::Done(rows[0])));
    assert_eq!(
        bed.heap.delete(&mut repeatable, rows[1]),
        Err(StoreError::SerializationFailure { tid: rows[1], by })
    );
}

#[test]
fn a_row_is_followed_through_several_pages_to_its_newest_version() {
    let bed = Bed::kib_8();
    let row = bed.insert_committed(&[&[0; 3000], &[0; 3000]])[0];
    let mut late = bed.begin();
    let (mut at, mut first) = (row, None);
    for version in 1..6u8 {
        let mut other = bed.begin();
        at = bed.update(&mut other, at, &[version; 3000]);
        bed.insert(&mut other, &[0; 3000]);
        first = first.or(Some((other.xid().unwrap(), at)));
        other.commit().unwrap();
    }
    let (by, next) = first.unwrap();
    assert_ne!(next.block, at.block);
    assert_eq!(bed.heap.delete(&mut late, row), Ok(Modified::ByOther { by, next: Some(next) }));
    late.renew_snapshot();
    let vacuum = pgtoast_store::heap::VacuumOptions { truncate: false, ..Default::default() };
    bed.heap.vacuum(None, &vacuum).unwrap();
    assert_eq!(bed.heap.follow(&late, by, next), Ok(Some(at)));
    assert_eq!(bed.heap.delete(&mut late, at), Ok(Modified::Done(at)));
}

#[test]
fn a_writer_waits_for_another_that_is_at_work_on_the_row() {
    for commits in [true, false] {
        let bed = Bed::kib_8();
        let row = bed.insert_committed(&[b"one"])[0];
        let mut first = bed.begin();
        bed.update(&mut first, row, b"two");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut second = bed.begin();
                let outcome = bed.try_update(&mut second, row, b"three").unwrap();
                second.commit().unwrap();
                outcome
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            let by = first.xid().unwrap();
            if commits {
                first.commit().unwrap();
            } else {
                first.abort();
            }
            match (commits, waiter.join().unwrap()) {
                (true, Modified::ByOther { by: found, .. }) => assert_eq!(found, by),
                (false, outcome) => assert_eq!(outcome, Modified::Done(row)),
                (true, outcome) => panic!("{outcome:?}"),
            }
        });
        let expected: &[u8] = if commits { b"two" } else { b"three" };
        assert_eq!(bed.committed(), [expected]);
    }
}

#[test]
fn two_that_wait_for_each_other_do_not_wait_for_ever() {
    let bed = Bed::kib_8();
    let rows = bed.insert_committed(&[b"one", b"two"]);
    let barrier = &std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let threads = [(0, 1), (1, 0)].map(|(mine, theirs)| {
            let (bed, rows) = (&bed, &rows);
            scope.spawn(move || {
                let mut transaction = bed.begin();
                bed.update(&mut transaction, rows[mine], b"mine");
                barrier.wait();
                let outcome = bed.try_update(&mut transaction, rows[theirs], b"theirs");
                if outcome.is_ok() {
                    transaction.commit().unwrap();
                }
                outcome
            })
        });
        let outcomes = threads.map(|thread| thread.join().unwrap());
        let deadlocks =
            outcomes.iter().filter(|outcome| matches!(outcome, Err(StoreError::Deadlock { .. })));
        assert_eq!(deadlocks.count(), 1, "{outcomes:?}");
    });
    bed.check();
}

#[test]
fn a_tuple_longer_than_a_page_takes_is_refused() {
    for block_size in BlockSize::ALL {
        let bed = Bed::new(block_size, 16);
        let limit = bed.heap.max_tuple_len();
        let mut transaction = bed.begin();
        bed.insert(&mut transaction, &vec![7; limit - 28]);
        for excess in [1, 8, 100_000] {
            let mut bytes = tuple(&vec![7; limit - 28 + excess]);
            let len = bytes.len();
            let refused = bed.heap.insert(&mut transaction, HeapTupleMut::new(&mut bytes).unwrap());
            assert_eq!(refused, Err(StoreError::TupleTooLong { len, limit }));
        }
        assert_eq!(bed.heap.blocks(), 1);
        bed.check();
    }
}

#[test]
fn many_rows_go_where_the_same_rows_one_by_one_go() {
    for block_size in BlockSize::ALL {
        for len in [0, 1, 50, 200, block_size.bytes() / 4 - 40, block_size.bytes() / 2] {
            let (one, many) = (Bed::new(block_size, 16), Bed::new(block_size, 16));
            let rows: Vec<Vec<u8>> = (0..300u16).map(|row| vec![(row % 251) as u8; len]).collect();
            let mut transaction = one.begin();
            let singly: Vec<_> = rows.iter().map(|row| one.insert(&mut transaction, row)).collect();
            transaction.commit().unwrap();

            let mut tuples: Vec<_> = rows.iter().map(|row| tuple(row)).collect();
            let views = tuples.iter_mut().map(|bytes| HeapTupleMut::new(bytes).unwrap());
            let (mut transaction, mut together) = (many.begin(), Vec::new());
            let count = many.heap.insert_many(&mut transaction, views, |tid| together.push(tid));
            transaction.commit().unwrap();
            assert_eq!((count, together), (Ok(300), singly), "{block_size:?}, {len}");
            let mut sorted = rows.clone();
            sorted.sort();
            assert_eq!(many.committed(), sorted);
            many.check();

            let in_place = Bed::new(block_size, 16);
            let (mut transaction, mut placed) = (in_place.begin(), Vec::new());
            let lens = vec![tuples[0].len(); 300];
            in_place
                .heap
                .insert_in_place(
                    &mut transaction,
                    &lens,
                    |row, bytes| bytes.copy_from_slice(&tuples[row]),
                    |row, tid| placed.push((row, tid)),
                )
                .unwrap();
            transaction.commit().unwrap();
            assert_eq!(in_place.committed(), sorted);
            assert!(placed.iter().map(|(row, _)| *row).eq(0..300));
            assert_eq!(in_place.heap.blocks(), one.heap.blocks(), "{block_size:?}, {len}");
            in_place.check();
        }
    }
}

#[test]
fn an_iterator_that_panics_leaves_whole_rows_that_an_abort_undoes() {
    let bed = Bed::kib_8();
    let mut tuples: Vec<_> = (0..200u8).map(|row| tuple(&[row; 100])).collect();
    let mut transaction = bed.begin();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let views = tuples.iter_mut().enumerate().map(|(at, bytes)| {
            assert!(at < 150, "enough");
            HeapTupleMut::new(bytes).unwrap()
        });
        bed.heap.insert_many(&mut transaction, views, |_| {})
    }));
    assert!(panicked.is_err());
    bed.check();
    transaction.begin_statement().unwrap();
    assert_eq!(bed.scan(&transaction).len(), 128, "whole batches");
    transaction.abort();
    assert!(bed.committed().is_empty());
    bed.insert_committed(&[b"goes on"]);
    bed.check();
}

#[test]
fn a_writer_in_place_that_panics_leaves_whole_rows() {
    let bed = Bed::kib_8();
    let bytes = tuple(&[1; 2000]);
    let mut transaction = bed.begin();
    for at in 0..6 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            bed.heap.insert_in_place(
                &mut transaction,
                &[bytes.len(); 8],
                |row, target| {
                    target[..10].fill(0xee);
                    assert!(row < at, "enough");
                    target.copy_from_slice(&bytes);
                },
                |_, _| {},
            )
        }));
        assert!(panicked.is_err());
        bed.check();
        transaction.begin_statement().unwrap();
        let expected: usize = (0..=at).sum();
        assert_eq!(bed.scan(&transaction).len(), expected);
    }
    transaction.commit().unwrap();
}

/// Says that it has no end, and has one; then goes on behind its end.
struct Liar<'a> {
    tuples: Vec<&'a mut [u8]>,
    ended: bool,
}

impl<'a> Iterator for Liar<'a> {
    type Item = HeapTupleMut<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.tuples.len() == 3 && !self.ended {
            self.ended = true;
            return None;
        }
        self.tuples.pop().map(|bytes| HeapTupleMut::new(bytes).unwrap())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, Some(0))
    }
}

#[test]
fn an_iterator_that_lies_about_its_length_is_taken_at_its_items() {
    let bed = Bed::kib_8();
    let mut tuples: Vec<_> = (0..10u8).map(|row| tuple(&[row; 3000])).collect();
    let tuples = tuples.iter_mut().map(|bytes| &mut bytes[..]).collect();
    let mut transaction = bed.begin();
    let inserted = bed.heap.insert_many(&mut transaction, Liar { tuples, ended: false }, |_| {});
    assert!(matches!(inserted, Ok(7 | 10)), "{inserted:?}");
    transaction.commit().unwrap();
    assert_eq!(bed.committed().len(), inserted.unwrap());
    bed.check();
}

#[test]
fn rows_are_found_again_after_a_flush_by_another_pool() {
    let bed = Bed::new(BlockSize::KIB_8, 16);
    let rows: Vec<_> = (0..2000u16).map(|row| row.to_le_bytes().repeat(50)).collect();
    let views: Vec<&[u8]> = rows.iter().map(|row| &row[..]).collect();
    bed.insert_committed(&views);
    bed.heap.save().unwrap();
    bed.pool.flush().unwrap();
    let disk = std::sync::Arc::new(pgtoast_store::disk::FileDisk::new(bed.directory.path()));
    let pool = pgtoast_store::buffer::BufferPool::new(disk, *bed.pool.options());
    let heap = pgtoast_store::heap::Relation::open(
        std::sync::Arc::new(pool),
        bed.transactions.clone(),
        heap_support::ID,
        pgtoast_store::RelationKind::Heap,
    )
    .unwrap();
    let transaction = bed.begin();
    let mut scan = heap.scan(&transaction);
    for row in &rows {
        let (_, bytes) = scan.next().unwrap().unwrap();
        assert_eq!(&heap_support::payload(bytes), row);
    }
    assert_eq!(scan.next(), Ok(None));
}

#[test]
fn a_reader_takes_tuples_of_one_page_under_one_latch() {
    let bed = Bed::kib_8();
    let rows: Vec<Vec<u8>> = (0..40u8).map(|row| vec![row; 1900]).collect();
    let views: Vec<&[u8]> = rows.iter().map(|row| &row[..]).collect();
    let tids = bed.insert_committed(&views);
    let before = bed.pool.statistics();
    bed.heap.prefetch(0..100);
    let mut reader = bed.heap.reader();
    for (tid, row) in tids.iter().zip(&rows) {
        let bytes = reader.tuple(*tid).unwrap().unwrap();
        assert_eq!(&heap_support::payload(bytes), row);
    }
    assert_eq!((bed.pool.statistics() - before).total().hits, 10);
    assert_eq!(reader.tuple(tid(0, 5)), Ok(None));
    assert!(matches!(reader.tuple(tid(10, 1)), Err(StoreError::BlockMissing { .. })));
    reader.release();
    let mut writer = bed.begin();
    bed.delete(&mut writer, tids[0]);
}

#[test]
fn ranges_of_blocks_have_the_rows_of_the_whole() {
    let bed = Bed::new(BlockSize::KIB_1, 16);
    let rows: Vec<Vec<u8>> = (0..200u8).map(|row| vec![row; 100]).collect();
    let views: Vec<&[u8]> = rows.iter().map(|row| &row[..]).collect();
    bed.insert_committed(&views);
    let transaction = bed.begin();
    let mut found = Vec::new();
    let mut start = 0;
    for end in [3, 3, 4, 20, 1000] {
        let mut scan = bed.heap.scan_blocks(&transaction, start..end);
        while let Some((_, bytes)) = scan.next().unwrap() {
            found.push(heap_support::payload(bytes));
        }
        start = end;
    }
    assert_eq!(found, rows);
}
