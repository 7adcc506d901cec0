//! What transactions see of themselves and of each other, how ids go around the circle, and what
//! becomes of a transaction that nobody ends.
//! Sources: `transam/README`, `varsup.c`, `heapam_visibility.c` (REL_18).
#![cfg(not(pgtoast_loom))]

mod rows;

use std::panic::{AssertUnwindSafe, catch_unwind};

use pgtoast_base::Xid;
use pgtoast_page::{TransactionStatus, VacuumState, XidStatus};
use pgtoast_store::StoreError;
use pgtoast_store::transaction::Isolation::{ReadCommitted, RepeatableRead};
use rows::{ROUND, Row, transactions, writer};

#[test]
fn a_statement_sees_what_the_ones_before_it_did_and_not_what_it_does() {
    let transactions = transactions(3);
    let mut t = transactions.begin(ReadCommitted);
    let mut row = Row::insert(&mut t);
    assert!(!row.is_seen(&t));
    t.begin_statement().unwrap();
    assert!(row.is_seen(&t));
    row.delete(&mut t);
    // Both commands are kept in one field: made by the first, ended by this one.
    assert!(row.is_seen(&t));
    t.begin_statement().unwrap();
    assert!(!row.is_seen(&t));
    t.commit().unwrap();
    assert!(!row.is_seen(&transactions.begin(ReadCommitted)));
}

#[test]
fn equal_pairs_of_commands_share_a_number() {
    let transactions = transactions(3);
    let (mut t, _) = writer(&transactions);
    let (a, b) = (t.combined_command(0, 1), t.combined_command(0, 2));
    assert_ne!(a, b);
    assert_eq!(t.combined_command(0, 1), a);
    assert_eq!(t.view().own_commands(b), (0, 2));
    // Bytes that no tuple of this transaction holds.
    assert_eq!(t.view().own_commands(77), (77, 77));
    drop(t);
    let (t, _) = writer(&transactions);
    assert_eq!(t.view().own_commands(a), (a, a), "numbers end with their transaction");
}

#[test]
fn read_committed_sees_commits_by_the_statement_and_repeatable_read_none() {
    let transactions = transactions(3);
    let mut committed = transactions.begin(ReadCommitted);
    let mut repeatable = transactions.begin(RepeatableRead);
    let mut t = transactions.begin(ReadCommitted);
    let row = Row::insert(&mut t);
    committed.begin_statement().unwrap();
    repeatable.begin_statement().unwrap();
    t.commit().unwrap();
    assert!(!row.is_seen(&committed) && !row.is_seen(&repeatable));
    committed.begin_statement().unwrap();
    repeatable.begin_statement().unwrap();
    assert!(row.is_seen(&committed) && !row.is_seen(&repeatable));
    assert!(row.is_seen(&transactions.begin(RepeatableRead)));
}

#[test]
fn nobody_sees_what_is_aborted() {
    let transactions = transactions(3);
    let mut t = transactions.begin(ReadCommitted);
    let row = Row::insert(&mut t);
    let xid = t.xid().unwrap();
    assert!(transactions.is_running(xid));
    assert_eq!(row.state(&transactions), VacuumState::InsertInProgress);
    t.abort();
    assert!(!transactions.is_running(xid));
    assert!(!row.is_seen(&transactions.begin(ReadCommitted)));
    assert_eq!(transactions.status(xid), XidStatus::Aborted);
    assert_eq!(row.state(&transactions), VacuumState::Dead);
}

#[test]
fn a_transaction_that_a_panic_ends_is_aborted() {
    let transactions = transactions(3);
    let mut xid = Xid::INVALID;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut t = transactions.begin(ReadCommitted);
        xid = t.xid().unwrap();
        panic!("in the middle of a transaction");
    }));
    assert!(panicked.is_err());
    assert_eq!(transactions.status(xid), XidStatus::Aborted);
    assert!(!transactions.is_running(xid));
}

#[test]
fn rows_of_a_savepoint_vanish_when_it_is_rolled_back_and_stay_when_it_is_released() {
    let transactions = transactions(3);
    let mut t = transactions.begin(ReadCommitted);
    let mut outer = Row::insert(&mut t);
    let savepoint = t.savepoint();
    let undone = Row::insert(&mut t);
    outer.delete(&mut t);
    t.begin_statement().unwrap();
    assert!(undone.is_seen(&t) && !outer.is_seen(&t));
    t.rollback_to(savepoint).unwrap();
    assert!(!undone.is_seen(&t) && outer.is_seen(&t));
    // The savepoint is still there, and can be used again.
    let kept = Row::insert(&mut t);
    t.begin_statement().unwrap();
    t.release(savepoint).unwrap();
    assert!(kept.is_seen(&t));
    assert_eq!(t.rollback_to(savepoint), Err(StoreError::NoSavepoint));
    t.commit().unwrap();
    let reader = transactions.begin(ReadCommitted);
    assert!(outer.is_seen(&reader) && kept.is_seen(&reader) && !undone.is_seen(&reader));
    assert_eq!(undone.state(&transactions), VacuumState::Dead);
}

#[test]
fn rolling_back_takes_the_savepoints_within_along() {
    let transactions = transactions(3);
    let mut t = transactions.begin(ReadCommitted);
    let outer = t.savepoint();
    let inner = t.savepoint();
    let released = Row::insert(&mut t);
    t.release(inner).unwrap();
    let inner = t.savepoint();
    let open = Row::insert(&mut t);
    t.begin_statement().unwrap();
    assert!(released.is_seen(&t) && open.is_seen(&t));
    t.rollback_to(outer).unwrap();
    assert!(!released.is_seen(&t) && !open.is_seen(&t));
    assert_eq!(t.release(inner), Err(StoreError::NoSavepoint));
    // Another one in the same place is not that one.
    let _other = t.savepoint();
    assert_eq!(t.release(inner), Err(StoreError::NoSavepoint));
    assert_eq!(transactions.status(released.0.xmin()), XidStatus::Aborted);
    assert_eq!(transactions.status(open.0.xmin()), XidStatus::Aborted);
}

#[test]
fn a_savepoint_that_writes_has_an_id_of_its_own_and_one_that_does_not_has_none() {
    let transactions = transactions(3);
    let mut t = transactions.begin(ReadCommitted);
    let top = t.xid().unwrap();
    let savepoint = t.savepoint();
    assert_eq!(transactions.next_full_xid(), 4);
    let sub = t.xid().unwrap();
    assert_eq!((top.get(), sub.get()), (3, 4));
    assert!(t.is_own(top) && t.is_own(sub));
    t.release(savepoint).unwrap();
    assert_eq!(t.xid(), Ok(top));
    assert!(t.is_own(sub));
    t.commit().unwrap();
    for xid in [top, sub] {
        assert_eq!(transactions.status(xid), XidStatus::Committed);
    }
}

#[test]
fn a_snapshot_holds_subtransactions_of_others() {
    let transactions = transactions(3);
    let (mut t, _) = writer(&transactions);
    let _savepoint = t.savepoint();
    let row = Row::insert(&mut t);
    // One that ends later makes the ids before it older than xmax.
    let (later, _) = writer(&transactions);
    later.commit().unwrap();
    let reader = transactions.begin(RepeatableRead);
    assert!(reader.view().snapshot().is_in_progress(row.0.xmin()));
    t.commit().unwrap();
    assert!(!row.is_seen(&reader));
    assert!(row.is_seen(&transactions.begin(RepeatableRead)));
}

#[test]
fn a_snapshot_tells_those_of_a_thousand_that_run_from_those_that_ended() {
    // The counter wraps in the middle.
    let transactions = transactions(ROUND - 700);
    let mut open: Vec<_> = (0..1500).map(|_| Some(writer(&transactions))).collect();
    let mut ended = Vec::new();
    for (_, ended_too) in open.iter_mut().enumerate().filter(|(number, _)| number % 3 == 1) {
        let (t, xid) = ended_too.take().unwrap();
        t.commit().unwrap();
        ended.push(xid);
    }
    let reader = transactions.begin(RepeatableRead);
    let view = reader.view();
    let snapshot = view.snapshot();
    assert!(snapshot.in_progress.len() >= 990, "{}", snapshot.in_progress.len());
    assert!(ended.iter().all(|xid| !snapshot.is_in_progress(*xid)));
    for (t, xid) in open.into_iter().flatten() {
        assert!(snapshot.is_in_progress(xid), "{xid}");
        // What ends now ran when the snapshot was taken.
        t.commit().unwrap();
        assert!(snapshot.is_in_progress(xid), "{xid}");
    }
}

#[test]
fn ids_pass_over_the_special_ones_where_they_wrap_and_old_ones_stay_older() {
    let transactions = transactions(4_294_967_290);
    let before = Row::insert(&mut transactions.begin(ReadCommitted));
    let mut open = transactions.begin(ReadCommitted);
    let mut rows = vec![Row::insert(&mut open)];
    let old_reader = transactions.begin(RepeatableRead);
    let mut given = vec![before.0.xmin(), rows[0].0.xmin()];
    for _ in 0..10 {
        let mut t = transactions.begin(ReadCommitted);
        rows.push(Row::insert(&mut t));
        given.push(t.xid().unwrap());
        t.commit().unwrap();
    }
    let expected = [4_294_967_290, 4_294_967_291, 4_294_967_292, 4_294_967_293, 4_294_967_294];
    let expected = expected.into_iter().chain([u32::MAX, 3, 4, 5, 6, 7, 8]).map(Xid::new);
    assert!(given.iter().copied().eq(expected), "{given:?}");
    assert!(given.windows(2).all(|pair| pair[0].precedes(pair[1])));
    assert_eq!(transactions.next_full_xid(), ROUND + 9);
    let new_reader = transactions.begin(RepeatableRead);
    for (i, row) in rows.iter().enumerate() {
        assert!(!row.is_seen(&old_reader), "{i}");
        assert_eq!(row.is_seen(&new_reader), i > 0, "{i}");
    }
    // The open one, from before the wrap, is the oldest.
    assert_eq!(transactions.horizon(), Xid::new(4_294_967_291));
    assert!(transactions.is_running(Xid::new(4_294_967_291)));
    open.commit().unwrap();
    drop((old_reader, new_reader));
    assert_eq!(transactions.horizon(), Xid::new(9));
    assert!(rows.iter().all(|row| row.is_seen(&transactions.begin(ReadCommitted))));
}

#[test]
fn the_horizon_stays_behind_every_snapshot_and_every_id_that_runs() {
    let transactions = transactions(100);
    assert_eq!(transactions.horizon(), Xid::new(100));
    let (a, _) = writer(&transactions);
    let (b, _) = writer(&transactions);
    let registration = transactions.register();
    assert_eq!(registration.xmin(), Xid::new(100));
    a.commit().unwrap();
    let mut reader = transactions.begin(ReadCommitted);
    b.commit().unwrap();
    assert_eq!(transactions.horizon(), Xid::new(100));
    drop(registration);
    assert_eq!(transactions.horizon(), Xid::new(101));
    assert!(transactions.is_past(100) && !transactions.is_past(101));
    reader.begin_statement().unwrap();
    assert_eq!(transactions.horizon(), Xid::new(102));
    assert_eq!(transactions.recent_horizon(), Xid::new(102));
}

#[test]
fn what_was_deleted_is_dead_when_the_last_that_can_see_it_is_gone() {
    let transactions = transactions(3);
    let mut t = transactions.begin(ReadCommitted);
    let mut row = Row::insert(&mut t);
    t.commit().unwrap();
    let reader = transactions.begin(RepeatableRead);
    let mut t = transactions.begin(ReadCommitted);
    row.delete(&mut t);
    assert_eq!(row.state(&transactions), VacuumState::DeleteInProgress);
    t.commit().unwrap();
    assert!(row.is_seen(&reader));
    assert_eq!(row.state(&transactions), VacuumState::RecentlyDead);
    drop(reader);
    assert_eq!(row.state(&transactions), VacuumState::Dead);
}

#[test]
fn no_id_is_given_out_in_the_last_three_million_before_the_circle_closes() {
    let limit = 2_147_483_647 - 3_000_000;
    let transactions = transactions(ROUND + 1000);
    assert_eq!(transactions.xids_left(), limit);
    // As it would be if a table had not been vacuumed for a long time.
    let oldest = ROUND + 1000 - 2_144_483_645;
    transactions.set_oldest_unfrozen(oldest);
    let mut open = transactions.begin(ReadCommitted);
    for left in [2, 1] {
        assert_eq!(transactions.xids_left(), left);
        transactions.begin(ReadCommitted).xid().unwrap();
    }
    let oldest = Xid::new(u32::try_from(oldest).unwrap());
    let refused = Err(StoreError::XidWraparound { oldest });
    assert_eq!(transactions.begin(ReadCommitted).xid(), refused);
    // It can go on reading, and write once a vacuum has frozen.
    assert_eq!(open.xid(), refused);
    assert!(open.begin_statement().is_ok());
    transactions.set_oldest_unfrozen(ROUND + 900);
    assert_eq!(open.xid(), Ok(Xid::new(1002)));
}

#[test]
fn slots_are_small_and_used_again() {
    let transactions = transactions(3);
    let open: Vec<_> = (0..200).map(|_| transactions.begin(ReadCommitted)).collect();
    let mut slots: Vec<_> = open.iter().map(|t| t.slot()).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), 200);
    assert!(slots.iter().all(|&slot| slot < 201));
    drop(open);
    assert!(transactions.begin(ReadCommitted).slot() < 201);
}

#[test]
fn the_last_open_transaction_takes_all_with_it() {
    let transactions = transactions(3);
    let weak = std::sync::Arc::downgrade(&transactions);
    let mut open = transactions.begin(ReadCommitted);
    drop(transactions.begin(ReadCommitted));
    drop(transactions);
    assert!(weak.upgrade().is_none());
    // It still works, with nobody left to see.
    let row = Row::insert(&mut open);
    open.begin_statement().unwrap();
    assert!(row.is_seen(&open));
    open.commit().unwrap();
}
