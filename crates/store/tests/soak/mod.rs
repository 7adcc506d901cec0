//! Many threads at work on one store, each change of which they know the outcome of.
//!
//! ```text
//! pairs     rows 2p and 2p + 1 of a pair always change together, and only their thread changes them:
//!           it knows what they hold, and everybody knows what they held when the look began
//! accounts  money goes from one to another: the sum is the same in every snapshot, and each row's
//!           version is the number of changes that were committed
//! jobs      whoever deletes a row and commits has done the job: nobody else may have
//! scratch   tables that come and go
//! ```
//! Meanwhile one thread vacuums and writes checkpoints. Transactions are of both kinds, with savepoints,
//! and end in all ways; those that deadlock give way. In the end the store must hold just what the
//! threads know, no chunk more and no chunk less, and again after it was closed and opened.
#![allow(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    dead_code,
    reason = "numbers are small; the example and the test use a part each"
)]

mod content;
mod shared;
mod table;
mod verify;
mod worker;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pgtoast_store::disk::FileDisk;
use pgtoast_store::file::ControlFile;
use pgtoast_store::{IndexCleanup, Store, StoreError, StoreOptions, VacuumOptions};
use pgtoast_testkit::Rng;
pub(crate) use shared::Counts;
use shared::Shared;
use worker::Worker;

/// How long to go on, and with how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) threads: usize,
    /// At least so many calls of the store.
    pub(crate) operations: u64,
    /// And at least so long.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
}

/// Nothing may stand still for longer than this.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs it in an empty directory. Panics if the store does anything wrong.
pub(crate) fn run(directory: &Path, plan: Plan) -> Result<Counts, StoreError> {
    // Few pages, so that they come and go.
    let options = || StoreOptions::new().buffer_bytes(4 << 20).detoast_cache_bytes(1 << 18);
    Store::open(directory, options())?.close()?;
    // Ids of transactions and of values wrap on the way.
    let disk = FileDisk::new(directory);
    let control = ControlFile::read(&disk)?;
    let next_xid = (1 << 32) - 1000;
    let next_oid8 = u64::from(u32::MAX - 1000);
    ControlFile { next_xid, oldest_xid: next_xid, next_oid8, ..control }.replace(&disk)?;
    let store = Store::open(directory, options())?;
    let shared = Shared::new(store, plan)?;
    let mut workers: Vec<_> =
        (0..plan.threads).map(|number| Worker::new(&shared, number)).collect();
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let vacuum = scope.spawn(|| clear_away(&shared, &finished));
        let watch = scope.spawn(|| watch(&shared, &finished));
        let working: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(move || worker.work())).collect();
        // Joined one by one, which a race detector can follow.
        let ended: Vec<_> = working.into_iter().map(|handle| handle.join()).collect();
        finished.store(true, Ordering::Release);
        let others = [vacuum.join(), watch.join()];
        for one in ended.into_iter().chain(others) {
            if let Err(panic) = one {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let expected = verify::Expected::of(&workers);
    drop(workers);
    let counts = shared.counts.take();
    let statistics = shared.store.statistics();
    assert_eq!(statistics.value_ids.wraps, 1);
    assert_eq!(
        statistics.waits.deadlocks, counts.deadlocks,
        "each is told to the one that it meets"
    );
    assert_eq!(statistics.waits.waiting, 0);
    let (store, accounts, jobs) = shared.into_parts();
    expected.check(&store, &accounts, &jobs)?;
    store.close()?;
    let store = Store::open(directory, options())?;
    expected.check(&store, &accounts, &jobs)?;
    expected.check_vacuum(&store, &jobs)?;
    expected.check(&store, &accounts, &jobs)?;
    verify::check_nothing_is_left_over(&store)?;
    store.close()?;
    let oldest_xid = ControlFile::read(&disk)?.oldest_xid;
    assert!(oldest_xid > next_xid, "{oldest_xid}: what was frozen is known");
    Ok(counts)
}

/// Vacuums this and that table, in this and that way, and writes checkpoints.
fn clear_away(shared: &Shared, finished: &AtomicBool) {
    let _stop = shared.stop_on_panic();
    let mut rng = Rng::new(shared.plan.seed ^ 77);
    let mut round = 0;
    while !finished.load(Ordering::Acquire) {
        round += 1;
        let table = rng.pick(&[&shared.pairs, &shared.pairs, &shared.accounts, &shared.jobs]);
        let mut options =
            if rng.chance(20) { VacuumOptions::freeze() } else { VacuumOptions::default() };
        options.index_cleanup =
            rng.pick(&[IndexCleanup::Auto, IndexCleanup::Always, IndexCleanup::Never]);
        options.dead_items = rng.pick(&[100, 100_000]);
        options.truncate_wait = Duration::from_millis(20);
        let report = shared.store.vacuum(table, &options).expect("a vacuum");
        shared.counts.add(|counts| {
            let toast = report.toast.unwrap_or_default();
            counts.vacuums += 1;
            counts.rows_removed += report.heap.tuples_removed;
            counts.chunks_removed += toast.tuples_removed;
            counts.pages_truncated +=
                u64::from(report.heap.pages_truncated) + u64::from(toast.pages_truncated);
        });
        if round % 16 == 0 {
            shared.store.checkpoint().expect("a checkpoint");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Ends the process when nothing has moved for long: the threads wait for each other then.
#[expect(clippy::print_stderr, reason = "the last words of the process")]
fn watch(shared: &Shared, finished: &AtomicBool) {
    let (mut last, mut since) = (0, Instant::now());
    while !finished.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(20));
        let done = shared.done();
        if done != last {
            (last, since) = (done, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            eprintln!("stands still after {done} operations; {:?}", shared.counts.take());
            std::process::abort();
        }
    }
}
