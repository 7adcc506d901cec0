//! Latches, mutexes, condition variables and atomics, in one place, so that what the model checker
//! explores is what ships: parking_lot's, or loom's in the same shape.
#[cfg(pgtoast_loom)]
pub(crate) use self::modelled::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(pgtoast_loom))]
pub(crate) use core::sync::atomic;
#[cfg(pgtoast_loom)]
pub(crate) use loom::sync::atomic;
#[cfg(not(pgtoast_loom))]
pub(crate) use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Turns an exclusive guard into a shared one. Under the model checker, and there only, others may
/// have been in between: whoever calls this looks again at what must hold.
#[cfg(not(pgtoast_loom))]
pub(crate) fn downgrade<'a, T>(
    _lock: &'a RwLock<T>,
    guard: RwLockWriteGuard<'a, T>,
) -> RwLockReadGuard<'a, T> {
    RwLockWriteGuard::downgrade(guard)
}

/// As the other: loom has no such thing.
#[cfg(pgtoast_loom)]
pub(crate) fn downgrade<'a, T>(
    lock: &'a RwLock<T>,
    guard: RwLockWriteGuard<'a, T>,
) -> RwLockReadGuard<'a, T> {
    drop(guard);
    lock.read()
}

/// Lets other threads go on, for longer and longer: `round` counts from 0.
pub(crate) fn pause(round: u32) {
    #[cfg(pgtoast_loom)]
    {
        let _ = round;
        loom::thread::yield_now();
    }
    #[cfg(not(pgtoast_loom))]
    if round < 4 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(core::time::Duration::from_micros(50 << round.min(10)));
    }
}

/// Whether a model has failed and is being taken down: its locks are no more then, and what drops
/// must leave them alone.
pub(crate) fn is_taken_down() -> bool {
    cfg!(pgtoast_loom) && std::thread::panicking()
}

/// Loom's, without poisoning: a model that panics has failed.
#[cfg(pgtoast_loom)]
mod modelled {
    use core::ops::{Deref, DerefMut};

    pub(crate) use loom::sync::{RwLockReadGuard, RwLockWriteGuard};

    const POISONED: &str = "a thread of the model panicked";

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    /// Empty only while its thread waits on a condition.
    #[derive(Debug)]
    pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect(POISONED)))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("not waiting")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("not waiting")
        }
    }

    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect("not waiting");
            guard.0 = Some(self.0.wait(held).expect(POISONED));
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    #[derive(Debug)]
    pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect(POISONED)
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect(POISONED)
        }

        pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
            self.0.try_read().ok()
        }

        pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
            self.0.try_write().ok()
        }
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
        /// A relation is wanted alone without saying so before looking at who has it.
        AnnounceLate,
        /// A page on its way out is taken as clean before it is written.
        CleanBeforeWrite,
        /// A page is taken as clean when its latch was given up, not before.
        CleanUnlatched,
        /// A fork's new blocks are counted before the first of them is in the map.
        CountBeforeMap,
        /// A transaction is taken out of what runs id by id.
        EndOneByOne,
        /// A block is entered in the map also if it is there.
        EnterTwice,
        /// A page on its way out leaves the map before it is written.
        ForgetBeforeWrite,
        /// A new page of a heap is made one after its latch was given up and taken again.
        InitUnlatched,
        /// A transaction is taken out of what runs before the commit log says what it came to.
        LogLate,
        /// Circles of waits are not looked for.
        NoCircle,
        /// A snapshot is reused, and a horizon computed, without a fence.
        NoFence,
        /// Whether a block is still there is not asked again once it is in the map.
        NoSecondLook,
        /// Who waits for a transaction is not seen by who ends it.
        NotCounted,
        /// What vacuum promises of a page, it puts in the map after it gave up the page's latch.
        PromiseUnlatched,
        /// What is pruned is a copy of the page, made before the page is latched exclusively.
        PruneCopy,
        /// A snapshot is registered after the lock that it was taken under is let go.
        RegisterLate,
        /// A snapshot is reused without looking whether something ended meanwhile.
        ReuseUnseen,
        /// The tag of a frame is not looked at again under its latch.
        TrustHint,
        /// Who waits for a relation is not told when its lock is given up at a savepoint.
        UnlockUnsaid,
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
