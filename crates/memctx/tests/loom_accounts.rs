//! Accounts under the model checker: threads that take and give back under one limit, in every interleaving
//! up to the bound on preemptions that each model states.
//!
//! Each model runs sound, and again with each bug that it is there for seeded into the code: those runs
//! must fail, or the model shows nothing.
#![cfg(pgtoast_loom)]

use loom::thread;
use pgtoast_memctx::{Account, BlockSizes, Context, Generation, MemoryError, Mutant, root, seed};
use pgtoast_testkit::models;

/// Runs a model with that bug seeded, trying at most so many preemptions in one run of it.
fn explore(preemptions: usize, mutant: Mutant, model: impl Fn() + Sync + Send + 'static) {
    models::explore(seed, preemptions, mutant, model);
}

const BLOCK: usize = 1024;

/// A context that has one block, below that account.
fn context(account: &Account) -> Result<Context<'static, Generation>, MemoryError> {
    root("context").account(account).generation(BlockSizes::fixed(BLOCK))
}

/// Two threads make a context each under a limit that has room for both, and drop it.
fn two_come_and_go() {
    let group = Account::group("group");
    let other = group.clone();
    let thread = thread::spawn(move || {
        let context = context(&other).expect("there is room for both");
        assert!(other.subtree_allocated() >= BLOCK);
        drop(context);
    });
    let ours = context(&group).expect("there is room for both");
    assert!(group.subtree_allocated() >= BLOCK, "ours is counted");
    drop(ours);
    thread.join().expect("no panic");
    assert_eq!(group.subtree_allocated(), 0);
    assert!((BLOCK..=2 * BLOCK).contains(&group.subtree_peak()));
}

#[test]
fn nothing_that_is_counted_is_lost() {
    explore(3, Mutant::None, two_come_and_go);
}

#[test]
fn adding_by_a_store_loses_some() {
    explore(3, Mutant::AddByStore, two_come_and_go);
}

#[test]
fn subtracting_by_a_store_loses_some() {
    explore(3, Mutant::SubtractByStore, two_come_and_go);
}

/// Two threads want a block each where there is room for one.
fn two_want_the_last_block() {
    let group = Account::group("group");
    group.set_subtree_limit(Some(BLOCK + BLOCK / 2));
    let other = group.clone();
    let thread = thread::spawn(move || context(&other));
    let ours = context(&group);
    assert!(group.subtree_allocated() <= BLOCK + BLOCK / 2, "the limit is exceeded");
    let theirs = thread.join().expect("no panic");
    let count = usize::from(ours.is_ok()) + usize::from(theirs.is_ok());
    assert_eq!(count, 1, "one gets it, since it is the group's own limit that refuses the other");
    assert_eq!(group.subtree_allocated(), BLOCK);
    assert_eq!(group.subtree_peak(), BLOCK);
    drop((ours, theirs));
    assert_eq!(group.subtree_allocated(), 0);
}

#[test]
fn a_limit_is_never_exceeded() {
    explore(3, Mutant::None, two_want_the_last_block);
}

#[test]
fn asking_the_limit_first_exceeds_it() {
    explore(3, Mutant::LimitBeforeAdd, two_want_the_last_block);
}

/// The refusing limit is two levels up: what was counted in between is taken back.
fn refused_above() {
    let top = Account::group("top");
    top.set_subtree_limit(Some(BLOCK));
    let middle = top.subgroup("middle");
    let other = top.clone();
    let thread = thread::spawn(move || context(&other).map(drop));
    let ours = context(&middle).map(drop);
    let theirs = thread.join().expect("no panic");
    assert!(ours.is_ok() || theirs.is_ok());
    assert_eq!((middle.subtree_allocated(), top.subtree_allocated()), (0, 0));
    assert_eq!(middle.subtree_peak(), if ours.is_ok() { BLOCK } else { 0 });
}

#[test]
fn what_is_refused_leaves_no_trace() {
    explore(3, Mutant::None, refused_above);
}

#[test]
fn without_taking_back_a_trace_is_left() {
    explore(3, Mutant::NoTakingBack, refused_above);
}

/// Two sums come to the ledger of peaks in either order.
fn peaks_of_two() {
    let group = Account::group("group");
    let other = group.clone();
    let thread = thread::spawn(move || {
        let pair = (context(&other), context(&other));
        drop(pair);
    });
    let ours = context(&group);
    thread.join().expect("no panic");
    // When the second of theirs came, ours was there or was yet to come on top of what they left.
    assert!(group.subtree_peak() >= 2 * BLOCK, "{}", group.subtree_peak());
    drop(ours);
}

#[test]
fn the_highest_sum_is_remembered() {
    explore(3, Mutant::None, peaks_of_two);
}

#[test]
fn a_peak_by_a_store_forgets_it() {
    explore(3, Mutant::PeakByStore, peaks_of_two);
}

/// An account outlives its parent's other users, whichever thread is last.
#[test]
fn an_account_outlives_every_thread_that_uses_it() {
    explore(2, Mutant::None, || {
        let group = Account::group("group");
        let other = group.clone();
        let thread = thread::spawn(move || {
            let context = context(&other);
            drop(other);
            context.map(|context| context.account().mem_allocated())
        });
        let children = group.children().len();
        assert!(children <= 1);
        drop(group);
        assert_eq!(thread.join().expect("no panic"), Ok(BLOCK));
    });
}
