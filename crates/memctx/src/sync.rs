//! What threads share, in one place, so that what the model checker explores is what ships.
//!
//! All accesses are relaxed: the accounts are numbers that publish nothing. What must hold is that no
//! change is lost and no limit overrun, and each of those is decided on one atomic.
#[cfg(not(pgtoast_loom))]
use core::sync::atomic::{AtomicUsize, Ordering};
#[cfg(pgtoast_loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that many threads add to and take from, never more than a limit, and the most there were.
#[derive(Debug)]
pub(crate) struct Ledger {
    bytes: AtomicUsize,
    limit: AtomicUsize,
    peak: AtomicUsize,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            peak: AtomicUsize::new(0),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Adds, unless that exceeds the limit: then says what is there and what the limit is. What it
    /// comes to otherwise.
    pub(crate) fn add(&self, bytes: usize) -> Result<usize, (usize, usize)> {
        let limit = self.limit();
        let sum = |now: usize| now.checked_add(bytes).filter(|sum| *sum <= limit);
        #[cfg(pgtoast_loom)]
        match mutant::current() {
            mutant::Mutant::LimitBeforeAdd => {
                let now = self.bytes();
                sum(now).ok_or((now, limit))?;
                return Ok(self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes);
            }
            mutant::Mutant::AddByStore => {
                let now = self.bytes();
                let sum = sum(now).ok_or((now, limit))?;
                self.bytes.store(sum, Ordering::Relaxed);
                return Ok(sum);
            }
            _ => {}
        }
        let mut now = self.bytes.load(Ordering::Relaxed);
        loop {
            let sum = sum(now).ok_or((now, limit))?;
            match self.bytes.compare_exchange_weak(now, sum, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(sum),
                Err(other) => now = other,
            }
        }
    }

    /// Takes away what was added before.
    pub(crate) fn subtract(&self, bytes: usize) {
        #[cfg(pgtoast_loom)]
        if mutant::current() == mutant::Mutant::SubtractByStore {
            self.bytes.store(self.bytes() - bytes, Ordering::Relaxed);
            return;
        }
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "an account of {before} bytes cannot lose {bytes}");
    }

    /// Remembers a sum that [`Ledger::add`] came to and that stands.
    pub(crate) fn note_peak(&self, sum: usize) {
        #[cfg(pgtoast_loom)]
        if mutant::current() == mutant::Mutant::PeakByStore {
            if self.peak() < sum {
                self.peak.store(sum, Ordering::Relaxed);
            }
            return;
        }
        // Most sums are no peak, and looking is cheaper.
        if self.peak() < sum {
            self.peak.fetch_max(sum, Ordering::Relaxed);
        }
    }
}

/// A figure that one thread changes and all may read.
///
/// Its owner is behind a type that no two threads use at once, so a change is a load and a store, which
/// cost what they would without threads.
#[derive(Debug)]
pub(crate) struct Figure(AtomicUsize);

impl Figure {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    #[inline]
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: usize) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn add(&self, value: usize) {
        self.set(self.get().wrapping_add(value));
    }

    #[inline]
    pub(crate) fn subtract(&self, value: usize) {
        debug_assert!(self.get() >= value, "a figure of {} cannot lose {value}", self.get());
        self.set(self.get().wrapping_sub(value));
    }
}

#[cfg(any(feature = "std", pgtoast_loom))]
mod lock {
    #[cfg(pgtoast_loom)]
    use loom::sync::{Mutex, MutexGuard};
    #[cfg(not(pgtoast_loom))]
    use std::sync::{Mutex, MutexGuard};

    /// Guards what changes when contexts come and go, never when memory does.
    #[derive(Debug)]
    pub(crate) struct Lock<T>(Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            // Whoever panicked was not between two changes that belong together.
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}
#[cfg(not(any(feature = "std", pgtoast_loom)))]
pub(crate) use crate::raw::Lock;
#[cfg(any(feature = "std", pgtoast_loom))]
pub(crate) use lock::Lock;

/// Seeded bugs, so that a model shows that it would find them. There are none but under the model
/// checker.
#[cfg(pgtoast_loom)]
pub(crate) mod mutant {
    use core::cell::Cell;

    /// What to do wrong.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Mutant {
        /// Nothing.
        #[default]
        None,
        /// Add with a load and a store.
        AddByStore,
        /// Ask the limit first and add afterwards.
        LimitBeforeAdd,
        /// Leave what was added to the accounts below the one whose limit was met.
        NoTakingBack,
        /// Remember the peak with a load and a store.
        PeakByStore,
        /// Take away with a load and a store.
        SubtractByStore,
    }

    std::thread_local! {
        // Loom runs all threads of a model on the thread that runs the model.
        static MUTANT: Cell<Mutant> = const { Cell::new(Mutant::None) };
    }

    /// Seeds a bug for the models that this thread runs from now on.
    pub fn seed(mutant: Mutant) {
        MUTANT.set(mutant);
    }

    pub(crate) fn current() -> Mutant {
        MUTANT.get()
    }
}
