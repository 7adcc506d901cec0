//! Who waits for whom, who wakes whom, and which wait is refused.
#![cfg(not(pgtoast_loom))]
#![expect(clippy::unwrap_used, reason = "also outside of test functions")]

mod rows;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};

use pgtoast_base::Xid;
use pgtoast_page::XidStatus;
use pgtoast_store::transaction::{Isolation, LockMode, Savepoint, TransactionCore, Transactions};
use pgtoast_store::{Awaited, RelationId, StoreError};
use pgtoast_testkit::Rng;
use rows::{is_deadlock, transactions, writer};

/// Returns once so many wait.
fn until_waiting(transactions: &Transactions, count: u64) {
    while transactions.wait_statistics().waiting < count {
        thread::yield_now();
    }
}

/// A thread that waits for a transaction, and what that came to.
fn spawn_waiter<'scope>(
    scope: &'scope Scope<'scope, '_>,
    transactions: &'scope Arc<Transactions>,
    xid: Xid,
) -> ScopedJoinHandle<'scope, XidStatus> {
    let waiting = transactions.wait_statistics().waiting;
    let waiter = scope.spawn(move || {
        begin(transactions).wait_for(xid).unwrap();
        transactions.status(xid)
    });
    until_waiting(transactions, waiting + 1);
    waiter
}

fn begin(transactions: &Arc<Transactions>) -> TransactionCore {
    transactions.begin(Isolation::ReadCommitted)
}

/// Three transactions.
fn three(transactions: &Arc<Transactions>) -> [TransactionCore; 3] {
    [0; 3].map(|_| begin(transactions))
}

/// A transaction in a savepoint, and the ids of both.
fn writer_in_savepoint(transactions: &Arc<Transactions>) -> (TransactionCore, Savepoint, [Xid; 2]) {
    let (mut writer, top) = writer(transactions);
    let savepoint = writer.savepoint();
    let sub = writer.xid().unwrap();
    (writer, savepoint, [top, sub])
}

fn relation(number: u32) -> RelationId {
    RelationId::new(number)
}

#[test]
fn a_waiter_goes_on_when_the_other_commits_or_aborts() {
    let transactions = transactions(3);
    for commit in [true, false] {
        let (other, xid) = writer(&transactions);
        thread::scope(|scope| {
            let waiter = spawn_waiter(scope, &transactions, xid);
            if commit {
                other.commit().unwrap();
            } else {
                drop(other);
            }
            let status = if commit { XidStatus::Committed } else { XidStatus::Aborted };
            assert_eq!(waiter.join().unwrap(), status);
        });
    }
    assert_eq!(transactions.wait_statistics().waits, 2);
}

#[test]
fn a_waiter_goes_on_when_the_other_panics() {
    let transactions = transactions(3);
    let (mut other, xid) = writer(&transactions);
    other.lock_relation(relation(1), LockMode::Exclusive).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut t = begin(&transactions);
            t.wait_for(xid)?;
            t.lock_relation(relation(1), LockMode::Exclusive)
        });
        until_waiting(&transactions, 1);
        let panics = scope.spawn(move || {
            let _other = other;
            panic!("in the middle of a transaction");
        });
        assert!(panics.join().is_err());
        assert_eq!(waiter.join().unwrap(), Ok(()));
    });
    assert_eq!(transactions.status(xid), XidStatus::Aborted);
}

#[test]
fn nobody_waits_for_what_is_over_or_never_was() {
    let transactions = transactions(3);
    let (other, xid) = writer(&transactions);
    other.commit().unwrap();
    let mut t = begin(&transactions);
    assert_eq!(t.wait_for(xid), Ok(()));
    assert_eq!(t.wait_for(Xid::new(1000)), Ok(()));
    assert_eq!(transactions.wait_statistics().waits, 0);
}

#[test]
fn a_waiter_on_a_savepoint_goes_on_when_that_is_rolled_back() {
    let transactions = transactions(3);
    let (mut other, savepoint, [top, sub]) = writer_in_savepoint(&transactions);
    thread::scope(|scope| {
        let waiter = spawn_waiter(scope, &transactions, sub);
        other.rollback_to(savepoint).unwrap();
        assert_eq!(waiter.join().unwrap(), XidStatus::Aborted);
    });
    assert!(transactions.is_running(top));
}

#[test]
fn a_waiter_on_a_released_savepoint_waits_for_all_of_the_transaction() {
    let transactions = transactions(3);
    let (mut other, savepoint, [_, sub]) = writer_in_savepoint(&transactions);
    thread::scope(|scope| {
        let waiter = spawn_waiter(scope, &transactions, sub);
        other.release(savepoint).unwrap();
        assert_eq!(transactions.wait_statistics().waiting, 1);
        other.commit().unwrap();
        assert_eq!(waiter.join().unwrap(), XidStatus::Committed);
    });
}

/// Each of `count` waits for the next; the last closes the circle.
fn circle(count: usize) {
    let transactions = transactions(3);
    let (mut open, xids): (Vec<_>, Vec<_>) = (0..count).map(|_| writer(&transactions)).unzip();
    thread::scope(|scope| {
        let mut last = open.pop().unwrap();
        let mut waiters = Vec::new();
        for (i, mut t) in open.into_iter().enumerate() {
            let next = xids[i + 1];
            waiters.push(scope.spawn(move || {
                t.wait_for(next).unwrap();
                t.commit().unwrap();
            }));
            until_waiting(&transactions, i as u64 + 1);
        }
        let refused = StoreError::Deadlock { awaited: Awaited::Transaction(xids[0]) };
        assert_eq!(last.wait_for(xids[0]), Err(refused));
        // The others wait as before, until it gives way.
        assert_eq!(transactions.wait_statistics().waiting, count as u64 - 1);
        drop(last);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
    assert_eq!(transactions.wait_statistics().deadlocks, 1);
}

#[test]
fn of_two_that_wait_for_each_other_the_second_is_refused() {
    circle(2);
}

#[test]
fn of_three_in_a_circle_the_third_is_refused() {
    circle(3);
}

#[test]
fn a_transaction_that_would_wait_for_itself_is_refused() {
    let (mut t, xid) = writer(&transactions(3));
    assert!(is_deadlock(t.wait_for(xid)));
}

#[test]
fn a_circle_over_a_savepoint_a_transaction_and_a_relation_is_found() {
    let transactions = transactions(3);
    let (mut a, savepoint, [_, sub]) = writer_in_savepoint(&transactions);
    let (mut b, _) = writer(&transactions);
    b.lock_relation(relation(1), LockMode::Exclusive).unwrap();
    let (mut c, c_xid) = writer(&transactions);
    thread::scope(|scope| {
        // b waits for a's savepoint, c for b's relation; then a for c.
        let b = scope.spawn(move || {
            b.wait_for(sub).unwrap();
            b.commit().unwrap();
        });
        until_waiting(&transactions, 1);
        let c = scope.spawn(move || {
            c.lock_relation(relation(1), LockMode::Shared).unwrap();
            c.commit().unwrap();
        });
        until_waiting(&transactions, 2);
        assert!(is_deadlock(a.wait_for(c_xid)));
        // Going back to the savepoint is enough to let b go on, and then c.
        a.rollback_to(savepoint).unwrap();
        b.join().unwrap();
        c.join().unwrap();
        assert_eq!(a.wait_for(c_xid), Ok(()));
    });
}

#[test]
fn a_circle_over_two_relations_is_found() {
    let transactions = transactions(3);
    let (mut a, mut b) = (begin(&transactions), begin(&transactions));
    a.lock_relation(relation(1), LockMode::Shared).unwrap();
    b.lock_relation(relation(2), LockMode::Shared).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            a.lock_relation(relation(2), LockMode::Exclusive).unwrap();
        });
        until_waiting(&transactions, 1);
        let refused = StoreError::Deadlock { awaited: Awaited::Relation(relation(1)) };
        assert_eq!(b.lock_relation(relation(1), LockMode::Exclusive), Err(refused));
        drop(b);
        waiter.join().unwrap();
    });
}

#[test]
fn shared_locks_go_together_and_an_exclusive_one_alone() {
    let transactions = transactions(3);
    let [mut a, mut b, mut c] = three(&transactions);
    assert!(a.try_lock_relation(relation(1), LockMode::Shared));
    assert!(b.try_lock_relation(relation(1), LockMode::Shared));
    assert!(!c.try_lock_relation(relation(1), LockMode::Exclusive));
    assert!(!b.try_lock_relation(relation(1), LockMode::Exclusive));
    drop(a);
    // Whoever is the only one that has it can have it alone.
    assert!(b.try_lock_relation(relation(1), LockMode::Exclusive));
    assert!(b.try_lock_relation(relation(1), LockMode::Shared));
    assert!(!c.try_lock_relation(relation(1), LockMode::Shared));
    assert!(c.try_lock_relation(relation(2), LockMode::Shared));
    b.commit().unwrap();
    assert!(c.try_lock_relation(relation(1), LockMode::Shared));
    assert_eq!(transactions.wait_statistics().waits, 0);
}

#[test]
fn a_waiter_for_a_relation_goes_on_when_its_lock_is_rolled_back() {
    for (mode, other) in [
        (LockMode::Shared, LockMode::Exclusive),
        (LockMode::Exclusive, LockMode::Shared),
        (LockMode::Exclusive, LockMode::Exclusive),
    ] {
        let transactions = transactions(3);
        let mut holder = transactions.begin(Isolation::ReadCommitted);
        holder.lock_relation(relation(2), LockMode::Shared).unwrap();
        let savepoint = holder.savepoint();
        holder.lock_relation(relation(1), mode).unwrap();
        let inner = holder.savepoint();
        holder.lock_relation(relation(3), mode).unwrap();
        // What is released belongs to what is around it.
        holder.release(inner).unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut t = transactions.begin(Isolation::ReadCommitted);
                t.lock_relation(relation(1), other).unwrap();
                t.lock_relation(relation(3), other).unwrap();
                assert!(!t.try_lock_relation(relation(2), LockMode::Exclusive), "taken before");
            });
            until_waiting(&transactions, 1);
            holder.rollback_to(savepoint).unwrap();
            waiter.join().unwrap();
        });
        // It can have them again, and keeps what it then has to the end.
        holder.lock_relation(relation(1), mode).unwrap();
        let mut late = transactions.begin(Isolation::ReadCommitted);
        assert!(!late.try_lock_relation(relation(1), LockMode::Exclusive));
        holder.commit().unwrap();
        assert!(late.try_lock_relation(relation(1), LockMode::Exclusive));
    }
}

#[test]
fn a_lock_that_was_made_stronger_is_as_strong_as_before_when_that_is_rolled_back() {
    let transactions = transactions(3);
    let begin = || transactions.begin(Isolation::ReadCommitted);
    let (mut a, mut b) = (begin(), begin());
    a.lock_relation(relation(1), LockMode::Shared).unwrap();
    let savepoint = a.savepoint();
    a.lock_relation(relation(1), LockMode::Exclusive).unwrap();
    assert!(!b.try_lock_relation(relation(1), LockMode::Shared));
    a.rollback_to(savepoint).unwrap();
    assert!(b.try_lock_relation(relation(1), LockMode::Shared));
    assert!(
        !b.try_lock_relation(relation(1), LockMode::Exclusive),
        "the other has it shared still"
    );
    // One that is strong from before stays so.
    a.lock_relation(relation(2), LockMode::Exclusive).unwrap();
    let savepoint = a.savepoint();
    a.lock_relation(relation(2), LockMode::Shared).unwrap();
    a.rollback_to(savepoint).unwrap();
    assert!(!b.try_lock_relation(relation(2), LockMode::Shared));
}

#[test]
fn who_asks_for_a_relation_alone_is_not_passed_by_those_who_come_later() {
    let transactions = transactions(3);
    let [mut reader, mut alone, mut later] = three(&transactions);
    reader.lock_relation(relation(1), LockMode::Shared).unwrap();
    let order = AtomicU64::new(0);
    thread::scope(|scope| {
        let alone = scope.spawn(|| {
            alone.lock_relation(relation(1), LockMode::Exclusive).unwrap();
            let place = order.fetch_add(1, Ordering::SeqCst);
            drop(alone);
            place
        });
        until_waiting(&transactions, 1);
        let later = scope.spawn(|| {
            later.lock_relation(relation(1), LockMode::Shared).unwrap();
            let place = order.fetch_add(1, Ordering::SeqCst);
            drop(later);
            place
        });
        until_waiting(&transactions, 2);
        // The one that has it already is not in the way of itself.
        reader.lock_relation(relation(1), LockMode::Shared).unwrap();
        reader.commit().unwrap();
        assert_eq!((alone.join().unwrap(), later.join().unwrap()), (0, 1));
    });
}

#[test]
fn of_two_who_share_a_relation_and_both_want_it_alone_the_second_is_refused() {
    let transactions = transactions(3);
    let [mut a, mut b, mut queued] = three(&transactions);
    a.lock_relation(relation(1), LockMode::Shared).unwrap();
    b.lock_relation(relation(1), LockMode::Shared).unwrap();
    thread::scope(|scope| {
        let queued = scope.spawn(move || queued.lock_relation(relation(1), LockMode::Exclusive));
        until_waiting(&transactions, 1);
        // It passes the one that is queued, which waits for it anyway.
        let first = scope.spawn(move || {
            a.lock_relation(relation(1), LockMode::Exclusive).unwrap();
            a.commit().unwrap();
        });
        until_waiting(&transactions, 2);
        assert!(is_deadlock(b.lock_relation(relation(1), LockMode::Exclusive)));
        drop(b);
        first.join().unwrap();
        assert_eq!(queued.join().unwrap(), Ok(()));
    });
}

/// A thing that one transaction at a time has, until that ends: as a row has its last writer.
struct Thing {
    owner: AtomicU32,
    /// Added to by whoever has it, in two steps.
    count: AtomicU64,
}

impl Thing {
    fn take(&self, t: &mut TransactionCore, transactions: &Transactions) -> Result<(), StoreError> {
        let xid = t.xid()?;
        loop {
            let owner = Xid::new(self.owner.load(Ordering::Acquire));
            if t.is_own(owner) {
                return Ok(());
            }
            if owner.is_valid() && transactions.is_running(owner) {
                t.wait_for(owner)?;
            }
            let taken = self.owner.compare_exchange(
                owner.get(),
                xid.get(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if taken.is_ok() {
                return Ok(());
            }
        }
    }
}

/// Eight threads take things and relations in any order; deadlocks happen and are broken, and
/// nothing hangs or is had by two.
#[test]
fn many_transactions_over_few_things_all_end() {
    let transactions = transactions(4_294_967_290);
    let things: Arc<Vec<_>> = Arc::new(
        (0..6).map(|_| Thing { owner: AtomicU32::new(0), count: AtomicU64::new(0) }).collect(),
    );
    let added = AtomicU64::new(0);
    thread::scope(|scope| {
        for seed in 0..8 {
            let (transactions, things, added) = (&transactions, &things, &added);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                for _ in 0..2_000 {
                    let mut t = begin(transactions);
                    let mut adds = 0;
                    match work(&mut rng, &mut t, transactions, things, &mut adds) {
                        Ok(()) => t.commit().unwrap(),
                        Err(StoreError::Deadlock { .. }) => t.abort(),
                        Err(error) => panic!("{error}"),
                    }
                    added.fetch_add(adds, Ordering::Relaxed);
                }
            });
        }
    });
    let counted: u64 = things.iter().map(|thing| thing.count.load(Ordering::Relaxed)).sum();
    assert_eq!(counted, added.into_inner(), "two had the same at the same time");
    let statistics = transactions.wait_statistics();
    assert_eq!(statistics.waiting, 0);
    assert!(statistics.waits > 0, "{statistics:?}");
}

fn work(
    rng: &mut Rng,
    t: &mut TransactionCore,
    transactions: &Transactions,
    things: &[Thing],
    adds: &mut u64,
) -> Result<(), StoreError> {
    let mut savepoints = Vec::new();
    for _ in 0..rng.below(5) {
        match rng.below(10) {
            0 => savepoints.push(t.savepoint()),
            1 => {
                if let Some(savepoint) = savepoints.pop() {
                    t.release(savepoint)?;
                }
            }
            2 => t.lock_relation(relation(1), LockMode::Exclusive)?,
            3 | 4 => t.lock_relation(relation(1), LockMode::Shared)?,
            _ => {
                let thing = &things[rng.below(things.len())];
                thing.take(t, transactions)?;
                let count = thing.count.load(Ordering::Relaxed);
                thread::yield_now();
                thing.count.store(count + 1, Ordering::Relaxed);
                *adds += 1;
            }
        }
        t.begin_statement()?;
    }
    Ok(())
}
