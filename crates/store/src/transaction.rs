//! Transactions: ids, what became of them, snapshots, savepoints, waits and relation locks.
//!
//! ```text
//!                 next ──┐             running: 12, 15
//!   ... 11  12  13  14  15  16         over, newest: 14, so xmax is 15 and xmin is 12
//!        ✓   …   ✓   ✗   …             a snapshot takes 12, and all from 15 on, as in progress
//! ```
//!
//! A transaction gets an id when it first writes, a savepoint likewise one of its own. Committing
//! writes the commit log for all of them, then takes them out of what runs in one step, under the
//! lock that snapshots are copied under: nobody sees half of it.
//!
//! **Snapshots.** A snapshot is copied from what runs. It stays good as long as nothing ends, which
//! one counter tells, so statements that read share it without a lock. Each is registered in its
//! transaction's slot, and the [horizon](Transactions::horizon) is the oldest xmin of any of them
//! and the oldest id that runs: what was over before it is over for all.
//!
//! **The circle.** Ids have 32 bits in tuples and are compared modulo `2^32`, so an id must be frozen
//! in all tuples before the counter is `2^31` past it. The counter passes over 0, 1 and 2 where it
//! wraps. As in the server, no id is given out in the last 3 000 000 before the oldest one that may
//! not be frozen would seem new: [`StoreError::XidWraparound`]. The server begins to warn 40 000 000
//! before that end, and to freeze by itself at an age of 200 000 000: ask
//! [`xids_left`](Transactions::xids_left). Vacuum says what it has frozen by
//! [`set_oldest_unfrozen`](Transactions::set_oldest_unfrozen).
//!
//! **Waits.** A writer that meets another's change waits for its end. Waits and relation locks make
//! one graph, and the wait that would close a circle in it is refused: [`StoreError::Deadlock`].
//!
//! Sources: `transam/README`, `procarray.c`, `varsup.c`, `xact.c`, `combocid.c` (REL_18).
mod combined;
mod commit_log;
mod full_xid;
mod registered;
mod running;
mod slots;
mod transaction_core;
mod view;
mod waits;

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use pgtoast_base::Xid;
use pgtoast_page::{Snapshot, XidStatus};

pub use self::commit_log::CommitLog;
use self::registered::Registered;
use self::running::Running;
use self::slots::{Slots, Tenancy};
pub use self::transaction_core::{Savepoint, TransactionCore};
pub use self::view::View;
pub use self::waits::WaitStatistics;
use self::waits::Waits;
use crate::StoreError;
use crate::disk::Disk;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, is_taken_down, mutated};

/// What a transaction sees of those that commit while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Each statement sees what was committed before it began.
    #[default]
    ReadCommitted,
    /// All statements see what was committed before the transaction began.
    RepeatableRead,
}

/// How a transaction locks a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// With others: to read and write it.
    Shared,
    /// Alone: to drop or to cut it.
    Exclusive,
}

/// All transactions of a store.
#[derive(Debug)]
pub struct Transactions {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    log: CommitLog,
    running: Mutex<Running>,
    /// How many times something was taken out of `running`; changed under its lock.
    completions: CachePadded<AtomicU64>,
    /// As in `running`.
    next: AtomicU64,
    /// The horizon as it was last computed.
    horizon: CachePadded<AtomicU64>,
    slots: Slots,
    waits: Mutex<Waits>,
    /// How many wait for the end of a transaction.
    waiters: AtomicUsize,
    /// How many relations somebody has or wants for itself.
    strong: AtomicUsize,
    /// Slots keep nothing any more.
    closed: AtomicBool,
}

impl Transactions {
    /// Nothing runs, and the next id that is given out is the low half of `next_full_xid`; the high
    /// half counts how many times the counter has wrapped. 0, 1 and 2 are passed over. The oldest id
    /// that a tuple may hold is the first of the log, if it came from files, and else that next one.
    #[must_use]
    pub fn new(next_full_xid: u64, log: CommitLog) -> Arc<Self> {
        let running = Running::new(next_full_xid, log.oldest());
        let shared = Shared {
            log,
            completions: CachePadded::new(AtomicU64::new(0)),
            next: AtomicU64::new(running.next()),
            horizon: CachePadded::new(AtomicU64::new(running.oldest())),
            running: Mutex::new(running),
            slots: Slots::new(),
            waits: Mutex::new(Waits::default()),
            waiters: AtomicUsize::new(0),
            strong: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        };
        Arc::new(Self { shared: Arc::new(shared) })
    }

    /// Begins a transaction.
    #[must_use]
    pub fn begin(self: &Arc<Self>, isolation: Isolation) -> TransactionCore {
        TransactionCore::new(Registered::new(&self.shared), isolation)
    }

    /// A snapshot that holds the horizon back without a transaction.
    #[must_use]
    pub fn register(&self) -> Registration {
        Registration(Registered::new(&self.shared))
    }

    /// What became of `xid`: two loads. Those that run, and those that were never given out, are in
    /// progress.
    #[inline]
    #[must_use]
    pub fn status(&self, xid: Xid) -> XidStatus {
        self.shared.log.status(xid)
    }

    /// Whether `xid` is not over: it may be in the commit log already.
    #[doc(alias = "TransactionIdIsInProgress")]
    #[must_use]
    pub fn is_running(&self, xid: Xid) -> bool {
        let running = self.shared.running.lock();
        running.holder(full_xid::near(running.next(), xid)).is_some()
    }

    /// All older transactions are over for every snapshot that is registered or will be.
    #[doc(alias = "GetOldestNonRemovableTransactionId")]
    #[must_use]
    pub fn horizon(&self) -> Xid {
        full_xid::xid(self.shared.horizon())
    }

    /// A horizon that was right some time ago, and so is still: one load.
    #[doc(alias = "GlobalVisTestFor")]
    #[inline]
    #[must_use]
    pub fn recent_horizon(&self) -> Xid {
        full_xid::xid(self.shared.horizon.load(Ordering::Acquire))
    }

    /// The id that is given out next, 64 bits wide.
    #[must_use]
    pub fn next_full_xid(&self) -> u64 {
        self.shared.next.load(Ordering::Acquire)
    }

    /// Writes the commit log to its files, as far as it changed. To make a store durable, the next
    /// id is to be written after that.
    ///
    /// # Errors
    /// [`StoreError::Io`]: the next call tries again.
    pub fn save_log(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        let ids = {
            let running = self.shared.running.lock();
            running.oldest_unfrozen()..running.next()
        };
        self.shared.log.save(disk, ids)
    }

    /// The 64 bits of an id of which some tuple has 32.
    pub(crate) fn full(&self, xid: Xid) -> u64 {
        full_xid::near(self.next_full_xid(), xid)
    }

    /// Whether all that began before that id was given out are over, for every snapshot.
    #[must_use]
    pub fn is_past(&self, full: u64) -> bool {
        full < self.shared.horizon.load(Ordering::Acquire) || full < self.shared.horizon()
    }

    /// Says that no tuple holds an id older than that one, 64 bits wide, that is not frozen. That is for who knows all
    /// relations to say, after a vacuum.
    #[doc(alias = "SetTransactionIdLimit")]
    pub fn set_oldest_unfrozen(&self, full: u64) {
        self.shared.running.lock().set_oldest_unfrozen(full);
    }

    /// The oldest id that a tuple may hold and that is not frozen, 64 bits wide.
    #[must_use]
    pub fn oldest_unfrozen(&self) -> u64 {
        self.shared.running.lock().oldest_unfrozen()
    }

    /// How often transactions had to wait, and were refused to.
    #[must_use]
    pub fn wait_statistics(&self) -> WaitStatistics {
        self.shared.waits.lock().statistics()
    }

    /// How many ids can still be given out before a vacuum must freeze older ones.
    #[must_use]
    pub fn xids_left(&self) -> u64 {
        self.shared.running.lock().left()
    }
}

impl Drop for Transactions {
    /// Open transactions go on; the last one takes all with it.
    fn drop(&mut self) {
        if is_taken_down() {
            return;
        }
        self.shared.closed.store(true, Ordering::Release);
        for (_, slot) in self.shared.slots.iter() {
            let mut state = slot.state.lock();
            if let Tenancy::Free(kept) = core::mem::replace(&mut state.tenancy, Tenancy::Taken) {
                state.tenancy = Tenancy::New;
                drop(state);
                drop(kept);
            }
        }
    }
}

impl Shared {
    fn start(&self, slot: usize) -> Result<u64, StoreError> {
        let mut running = self.running.lock();
        let full = running.start(slot)?;
        // Before anybody can ask for it.
        self.log.prepare(full_xid::xid(full));
        self.next.store(running.next(), Ordering::Release);
        Ok(full)
    }

    /// Takes those of a slot from `first` on out of what runs, at once.
    fn end(&self, slot: usize, first: u64) {
        #[cfg(pgtoast_loom)]
        if mutated!(EndOneByOne) {
            self.running.lock().end(slot, first + 1);
        }
        let mut running = self.running.lock();
        running.end(slot, first);
        self.completions.fetch_add(1, Ordering::AcqRel);
    }

    fn horizon(&self) -> u64 {
        let running = self.running.lock().oldest();
        if !mutated!(NoFence) {
            fence(Ordering::SeqCst);
        }
        let registered = self.slots.iter().map(|(_, slot)| slot.xmin.load(Ordering::Acquire));
        let horizon = registered.filter(|&xmin| xmin != 0).fold(running, u64::min);
        self.horizon.fetch_max(horizon, Ordering::AcqRel);
        horizon
    }
}

/// A snapshot that is registered for as long as this lives.
#[derive(Debug)]
pub struct Registration(Registered);

impl Registration {
    /// The snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<'_> {
        self.0.snapshot(0)
    }

    /// All older transactions are over for it.
    #[must_use]
    pub fn xmin(&self) -> Xid {
        self.snapshot().xmin
    }
}
