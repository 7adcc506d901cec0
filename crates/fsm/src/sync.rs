//! The atomics of the shared map, in one place, so that what the model checker explores is what ships.
//!
//! The map needs one order of all its writes and reads of nodes and of the length: a thread that
//! changed a node and then reads the one above must not miss a change made there by a thread that does
//! not see its own. So both are sequentially consistent. On x86-64 the reads are plain loads for all
//! that, and the writes are locked exchanges in any case.
//!
//! Loom treats sequentially consistent accesses as acquire and release only, but knows sequentially
//! consistent fences: under it each such read is preceded by one. And it looks for interleavings
//! only at the last access to an atomic, which a thread's own read before its exchange hides: under it
//! every access is preceded by a relaxed exchange at a gate beside the atomic, which orders nothing
//! in memory and shows it every access.
#[cfg(not(pgtoast_loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(pgtoast_loom)]
use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

/// Eight nodes.
#[derive(Debug)]
pub(crate) struct Word {
    nodes: AtomicU64,
    #[cfg(pgtoast_loom)]
    gate: Gate,
}

impl Word {
    pub(crate) fn new(value: u64) -> Self {
        Self {
            nodes: AtomicU64::new(value),
            #[cfg(pgtoast_loom)]
            gate: Gate::new(),
        }
    }

    /// For a look that something else makes sure of.
    #[inline]
    pub(crate) fn glance(&self) -> u64 {
        #[cfg(pgtoast_loom)]
        self.gate.pass();
        self.nodes.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn load(&self) -> u64 {
        #[cfg(pgtoast_loom)]
        self.gate.pass();
        #[cfg(pgtoast_loom)]
        if mutant::is(mutant::Mutant::WeakLoads) {
            return self.nodes.load(Ordering::Relaxed);
        }
        #[cfg(pgtoast_loom)]
        fence(Ordering::SeqCst);
        self.nodes.load(Ordering::SeqCst)
    }

    /// Puts `new` where `current` is; what is there instead if it is not.
    #[inline]
    pub(crate) fn replace(&self, current: u64, new: u64) -> Result<(), u64> {
        #[cfg(pgtoast_loom)]
        self.gate.pass();
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        self.nodes.compare_exchange(current, new, success, failure).map(|_| ())
    }

    /// Without asking what is there: only a mutant does that.
    #[cfg(pgtoast_loom)]
    pub(crate) fn store(&self, new: u64) {
        self.gate.pass();
        self.nodes.store(new, Ordering::SeqCst);
    }
}

/// A number of blocks.
#[derive(Debug)]
pub(crate) struct Length {
    blocks: AtomicU32,
    #[cfg(pgtoast_loom)]
    gate: Gate,
}

impl Length {
    pub(crate) fn new(value: u32) -> Self {
        Self {
            blocks: AtomicU32::new(value),
            #[cfg(pgtoast_loom)]
            gate: Gate::new(),
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> u32 {
        #[cfg(pgtoast_loom)]
        self.gate.pass();
        #[cfg(pgtoast_loom)]
        fence(Ordering::SeqCst);
        self.blocks.load(Ordering::SeqCst)
    }

    pub(crate) fn store(&self, value: u32) {
        #[cfg(pgtoast_loom)]
        self.gate.pass();
        // An exchange, for the same reason as everywhere: it is in the one order.
        self.blocks.swap(value, Ordering::SeqCst);
    }
}

/// Shows the model checker every access to the atomic beside it.
#[cfg(pgtoast_loom)]
#[derive(Debug)]
struct Gate(AtomicU8);

#[cfg(pgtoast_loom)]
impl Gate {
    fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    fn pass(&self) {
        self.0.fetch_or(0, Ordering::Relaxed);
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
        /// Read the nodes with no order at all.
        WeakLoads,
        /// Do not look again after a node was changed.
        NoSecondLook,
        /// Take a slot with a store in place of an exchange.
        TakeByStore,
        /// Look at the relation's length before a slot is set, not after.
        LengthBeforeSlot,
        /// Clear slots first and only then publish the shorter length.
        ClearBeforeLength,
        /// Call a node right as soon as it is at least what was set below it.
        StopAtHigher,
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
