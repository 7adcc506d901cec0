//! What all threads know.
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use pgtoast_store::{Datum, Isolation, ItemPointer, Store, StoreError, Table};

use super::{Plan, table};

/// Pairs of rows of each thread.
pub(crate) const PAIRS: usize = 24;
/// Rows that all threads change.
pub(crate) const ACCOUNTS: usize = 12;
pub(crate) const BALANCE: i64 = 1000;

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) operations: u64,
    pub(crate) commits: u64,
    pub(crate) aborts: u64,
    pub(crate) rollbacks: u64,
    pub(crate) deadlocks: u64,
    pub(crate) serialization_failures: u64,
    pub(crate) stale_addresses: u64,
    pub(crate) transfers: u64,
    pub(crate) jobs_done: u64,
    pub(crate) jobs_missed: u64,
    pub(crate) rows_checked: u64,
    pub(crate) scans: u64,
    pub(crate) scratch_tables: u64,
    pub(crate) vacuums: u64,
    pub(crate) rows_removed: u64,
    pub(crate) chunks_removed: u64,
    pub(crate) pages_truncated: u64,
}

#[derive(Debug, Default)]
pub(crate) struct SharedCounts(Mutex<Counts>);

impl SharedCounts {
    pub(crate) fn add(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut lock(&self.0));
    }

    pub(crate) fn take(&self) -> Counts {
        *lock(&self.0)
    }
}

/// A panic elsewhere is told there.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A pair as its thread last committed it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pair {
    pub(crate) generation: i64,
    /// Its rows, and which generation's bodies they have; `None` if it is deleted.
    pub(crate) rows: Option<([ItemPointer; 2], [i64; 2])>,
}

/// A pair as the others know it.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pair: Mutex<Pair>,
    /// The generation that a transaction is about to make, or the one that there is.
    pending: AtomicU64,
}

impl Published {
    pub(crate) fn pair(&self) -> Pair {
        *lock(&self.pair)
    }

    /// Whether nobody has begun to change the pair since it was as it is there.
    pub(crate) fn is_still(&self, pair: &Pair) -> bool {
        self.pending.load(Ordering::SeqCst) == pair.generation.cast_unsigned()
    }

    pub(crate) fn begin(&self, generation: i64) {
        self.pending.store(generation.cast_unsigned(), Ordering::SeqCst);
    }

    pub(crate) fn end(&self, pair: Pair) {
        *lock(&self.pair) = pair;
        self.begin(pair.generation);
    }
}

/// A row that all threads change.
#[derive(Debug)]
pub(crate) struct Account {
    /// Where its newest version is that somebody told of, and which one that is.
    pub(crate) place: Mutex<(i64, ItemPointer)>,
    /// How many changes were committed.
    pub(crate) changes: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) next: AtomicU64,
    /// Those that may be there.
    pub(crate) open: Mutex<Vec<(i64, ItemPointer)>>,
    pub(crate) inserted: Mutex<BTreeSet<i64>>,
    pub(crate) done: Mutex<BTreeSet<i64>>,
}

pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) store: Store,
    pub(crate) pairs: Table,
    pub(crate) accounts: Table,
    pub(crate) jobs: Table,
    pub(crate) published: Vec<Published>,
    pub(crate) account: Vec<Account>,
    pub(crate) job: Jobs,
    pub(crate) counts: SharedCounts,
    done: AtomicU64,
    stopped: AtomicBool,
    started: Instant,
}

impl Shared {
    pub(crate) fn new(store: Store, plan: Plan) -> Result<Self, StoreError> {
        let pairs = store.create_table("pairs", table::pairs())?;
        let accounts = store.create_table("accounts", table::accounts())?;
        let jobs = store.create_table("jobs", table::jobs())?;
        let mut account = Vec::new();
        let mut t = store.begin(Isolation::ReadCommitted);
        for number in 0..ACCOUNTS {
            let number = i32::try_from(number).expect("few");
            let values: [Datum<'_>; 4] = [number.into(), 0_i64.into(), BALANCE.into(), Datum::Null];
            let place = Mutex::new((0, t.insert(&accounts, &values)?));
            account.push(Account { place, changes: AtomicU64::new(0) });
        }
        t.commit()?;
        let published = (0..plan.threads * PAIRS).map(|_| Published::default()).collect();
        Ok(Self {
            plan,
            store,
            pairs,
            accounts,
            jobs,
            published,
            account,
            job: Jobs::default(),
            counts: SharedCounts::default(),
            done: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            started: Instant::now(),
        })
    }

    /// Counts calls of the store. Whether to go on.
    pub(crate) fn go_on(&self, operations: u64) -> bool {
        let done = self.done.fetch_add(operations, Ordering::Relaxed) + operations;
        let enough = done >= self.plan.operations && self.started.elapsed() >= self.plan.time;
        !enough && !self.stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Has the others stop if this thread panics.
    pub(crate) fn stop_on_panic(&self) -> impl Drop {
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.store(true, Ordering::Relaxed);
                }
            }
        }
        Stop(&self.stopped)
    }

    pub(crate) fn into_parts(self) -> (Store, Vec<Account>, Jobs) {
        (self.store, self.account, self.job)
    }
}
