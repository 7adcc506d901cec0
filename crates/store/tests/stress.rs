//! Threads at work on one store for a few seconds. For longer, and under a race detector:
//! `cargo run --release --example stress -- OPERATIONS SECONDS`.
#![cfg(not(pgtoast_loom))]

mod soak;

use std::time::Duration;

use soak::Plan;

#[test]
fn eight_threads_leave_what_they_know_that_they_left() {
    let directory = tempfile::tempdir().expect("a directory");
    let plan = Plan { threads: 8, operations: 20_000, time: Duration::ZERO, seed: 1 };
    let counts = soak::run(directory.path(), plan).expect("a sound store");
    assert!(counts.operations >= plan.operations, "{counts:?}");
    assert!(counts.commits > 0 && counts.rollbacks > 0 && counts.vacuums > 0, "{counts:?}");
}
