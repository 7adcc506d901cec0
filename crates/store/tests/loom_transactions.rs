//! Transactions under the model checker: every interleaving, up to the bound on preemptions that
//! each model states.
//!
//! Each model runs sound, and again with each bug that it is there for seeded into the code: those
//! runs must fail, or the model shows nothing.
#![cfg(pgtoast_loom)]

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use explore::explore;
use loom::sync::atomic::AtomicU32;
use loom::thread;
use pgtoast_base::Xid;
use pgtoast_page::{TransactionStatus, XidStatus};
use pgtoast_store::transaction::{CommitLog, Isolation, LockMode, TransactionCore, Transactions};
use pgtoast_store::{Mutant, RelationId, StoreError};

mod explore;

fn transactions() -> Arc<Transactions> {
    Transactions::new(3, CommitLog::new())
}

fn begin(transactions: &Arc<Transactions>) -> TransactionCore {
    transactions.begin(Isolation::ReadCommitted)
}

/// A commit of a transaction and its subtransaction against a snapshot: it has both or neither, and
/// what it takes as over the log knows of.
fn snapshot_races_a_commit() {
    let transactions = transactions();
    let mut t = begin(&transactions);
    let top = t.xid().expect("ids");
    let _savepoint = t.savepoint();
    let sub = t.xid().expect("ids");
    let writer = thread::spawn(move || t.commit().expect("no log"));
    let reader = begin(&transactions);
    let view = reader.view();
    let over = [top, sub].map(|xid| !view.snapshot().is_in_progress(xid));
    assert_eq!(over[0], over[1], "half of a transaction");
    if over[0] {
        assert_eq!(view.status(top), XidStatus::Committed);
        assert_eq!(view.status(sub), XidStatus::Committed);
    }
    writer.join().expect("no panic");
}

#[test]
fn a_snapshot_sees_all_of_a_transaction_or_nothing() {
    explore(3, Mutant::None, snapshot_races_a_commit);
    explore(3, Mutant::LogLate, snapshot_races_a_commit);
    explore(3, Mutant::EndOneByOne, snapshot_races_a_commit);
}

/// A snapshot against a commit and the horizon that is computed after it: a new one, or one that is
/// left of the transaction before.
fn snapshot_races_the_horizon(reuse: bool) {
    let transactions = transactions();
    let mut t = begin(&transactions);
    let xid = t.xid().expect("ids");
    if reuse {
        drop(begin(&transactions));
    }
    let horizon = Arc::new(AtomicU32::new(0));
    let writer = {
        let (transactions, horizon) = (transactions.clone(), horizon.clone());
        thread::spawn(move || {
            t.commit().expect("no log");
            horizon.store(transactions.horizon().get(), Relaxed);
        })
    };
    let reader = begin(&transactions);
    let xmin = reader.view().snapshot().xmin;
    // The snapshot is held until the other is done.
    writer.join().expect("no panic");
    let horizon = Xid::new(horizon.load(Relaxed));
    assert!(!xmin.precedes(horizon), "the horizon {horizon} has passed {xmin}");
    let over = !reader.view().snapshot().is_in_progress(xid);
    assert_eq!(over, xid.precedes(xmin));
}

#[test]
fn the_horizon_does_not_pass_a_snapshot() {
    for mutant in [Mutant::None, Mutant::ReuseUnseen, Mutant::NoFence] {
        explore(3, mutant, || snapshot_races_the_horizon(true));
    }
    for mutant in [Mutant::None, Mutant::RegisterLate] {
        explore(3, mutant, || snapshot_races_the_horizon(false));
    }
}

/// A wait against the end of what it waits for: it is woken, or does not sleep.
fn wait_races_an_end() {
    let transactions = transactions();
    let mut t = begin(&transactions);
    let xid = t.xid().expect("ids");
    let writer = thread::spawn(move || drop(t));
    let mut waiter = begin(&transactions);
    assert_eq!(waiter.wait_for(xid), Ok(()));
    assert_eq!(transactions.status(xid), XidStatus::Aborted);
    writer.join().expect("no panic");
}

#[test]
fn who_waits_for_a_transaction_wakes_when_it_ends() {
    explore(3, Mutant::None, wait_races_an_end);
    explore(3, Mutant::NotCounted, wait_races_an_end);
}

/// Two transactions that each wait for the other: one of them is refused, one goes on.
fn two_wait_for_each_other() {
    let transactions = transactions();
    let (mut a, mut b) = (begin(&transactions), begin(&transactions));
    let (a_xid, b_xid) = (a.xid().expect("ids"), b.xid().expect("ids"));
    let other = thread::spawn(move || a.wait_for(b_xid).is_err());
    let ours = b.wait_for(a_xid).is_err();
    drop(b);
    let theirs = other.join().expect("no panic");
    assert!(!(ours && theirs), "both were refused");
}

#[test]
fn of_two_that_wait_for_each_other_at_most_one_is_refused() {
    explore(2, Mutant::None, two_wait_for_each_other);
    explore(2, Mutant::NoCircle, two_wait_for_each_other);
}

/// A relation wanted alone against one that is taken with others: they never have it together, and
/// the one that waits is woken.
fn exclusive_races_shared() {
    let transactions = transactions();
    let relation = RelationId::new(1);
    let inside = Arc::new(AtomicU32::new(0));
    let other = {
        let (mut t, inside) = (begin(&transactions), inside.clone());
        thread::spawn(move || {
            t.lock_relation(relation, LockMode::Shared).expect("no circle");
            assert_eq!(inside.fetch_add(1, Relaxed), 0);
            inside.fetch_sub(1, Relaxed);
        })
    };
    let mut t = begin(&transactions);
    let locked: Result<(), StoreError> = t.lock_relation(relation, LockMode::Exclusive);
    assert_eq!(locked, Ok(()));
    assert_eq!(inside.fetch_add(1, Relaxed), 0);
    inside.fetch_sub(1, Relaxed);
    drop(t);
    other.join().expect("no panic");
}

/// A relation wanted alone against one that is taken with others, and given up at a savepoint.
fn exclusive_races_a_rollback() {
    let transactions = transactions();
    let relation = RelationId::new(1);
    let mut t = begin(&transactions);
    let savepoint = t.savepoint();
    t.lock_relation(relation, LockMode::Shared).expect("no circle");
    let inside = Arc::new(AtomicU32::new(1));
    let other = {
        let inside = inside.clone();
        thread::spawn(move || {
            inside.fetch_sub(1, Relaxed);
            t.rollback_to(savepoint).expect("open");
            t
        })
    };
    let mut alone = begin(&transactions);
    assert_eq!(alone.lock_relation(relation, LockMode::Exclusive), Ok(()));
    assert_eq!(inside.load(Relaxed), 0);
    drop(alone);
    drop(other.join().expect("no panic"));
}

#[test]
fn a_relation_is_had_alone_once_others_rolled_back_what_they_had_it_for() {
    explore(3, Mutant::None, exclusive_races_a_rollback);
    explore(3, Mutant::UnlockUnsaid, exclusive_races_a_rollback);
}

#[test]
fn a_relation_is_not_had_alone_and_with_others() {
    explore(3, Mutant::None, exclusive_races_shared);
    explore(3, Mutant::AnnounceLate, exclusive_races_shared);
}
