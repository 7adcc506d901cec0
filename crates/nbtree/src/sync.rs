//! Latches and the hints that threads share, in one place, so that what the model checker explores is
//! what ships.
//!
//! The tree needs nothing of memory but that a latch orders what is done under it. Where the rightmost
//! leaf is, and where to start, are hints: whoever follows one latches the page and looks. That there is
//! such a page must be known to him by then, as if another page had led there, so a hint orders what was
//! done before it was given.
use core::sync::atomic::Ordering;

#[cfg(not(pgtoast_loom))]
use core::sync::atomic::AtomicU32;
#[cfg(pgtoast_loom)]
use loom::sync::atomic::AtomicU32;
use pgtoast_base::BlockNumber;

#[cfg(pgtoast_loom)]
pub(crate) use loom::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(all(feature = "std", not(pgtoast_loom)))]
pub(crate) use std::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A block that may be the one that is wanted; block 0 for none.
#[derive(Debug)]
pub(crate) struct Hint(AtomicU32);

impl Hint {
    pub(crate) fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<BlockNumber> {
        let block = self.0.load(Ordering::Acquire);
        (block != 0).then(|| BlockNumber::new(block))
    }

    #[cold]
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn set(&self, block: BlockNumber) {
        // Most of the time it is right already, and a write would take the line from other threads.
        if self.0.load(Ordering::Relaxed) != block.get() {
            self.0.store(block.get(), Ordering::Release);
        }
    }
}

/// A count of blocks that grows while others read it.
#[cfg(any(feature = "std", pgtoast_loom))]
#[derive(Debug)]
pub(crate) struct Count(AtomicU32);

#[cfg(any(feature = "std", pgtoast_loom))]
impl Count {
    pub(crate) fn zero() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, count: u32) {
        self.0.store(count, Ordering::Release);
    }
}

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
        /// Searches stay on the page that a downlink led to.
        NoMoveRight,
        /// The place in the parent is taken as remembered, without a look at what is there.
        TrustRememberedParent,
        /// An empty leaf is deleted without a second look under the latch.
        NoSecondLook,
        /// Inserts do not look whether the page was taken out of the tree.
        IgnoreHalfDead,
        /// A deleted page forgets where it was.
        ForgetLinks,
        /// A deleted page may be used anew at once.
        ReuseAtOnce,
        /// The hint to the rightmost leaf is believed.
        TrustHint,
    }

    std::thread_local! {
        // Loom runs all threads of a model on the thread that runs the model.
        static MUTANT: Cell<Mutant> = const { Cell::new(Mutant::None) };
    }

    /// Seeds a bug for the models that this thread runs from now on.
    pub fn seed(mutant: Mutant) {
        MUTANT.set(mutant);
    }

    pub(crate) fn is(mutant: Mutant) -> bool {
        MUTANT.get() == mutant
    }
}

/// Whether a bug is seeded: never, in what ships.
macro_rules! mutated {
    ($mutant:ident) => {{
        #[cfg(pgtoast_loom)]
        {
            $crate::sync::mutant::is($crate::sync::mutant::Mutant::$mutant)
        }
        #[cfg(not(pgtoast_loom))]
        {
            false
        }
    }};
}
pub(crate) use mutated;
