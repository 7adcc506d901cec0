//! A place for each transaction that is open: where it says how old what it may see is.
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;

use super::registered::Kept;
use crate::RelationId;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};

/// Slots in chunks, each twice as long as the one before; none moves.
#[derive(Debug)]
pub(super) struct Slots {
    chunks: [OnceLock<Chunk>; 32],
    /// No slot from here on was ever taken.
    used: CachePadded<AtomicUsize>,
}

type Chunk = Box<[Arc<CachePadded<Slot>>]>;

/// What others see of an open transaction, which has a reference to it: the counter of references
/// lies beside what it changes anyway.
#[derive(Debug)]
pub(super) struct Slot {
    /// The oldest transaction that its snapshot may not take as over; 0 if there is no snapshot.
    pub(super) xmin: AtomicU64,
    pub(super) state: Mutex<SlotState>,
    /// What it waits on, with the lock of all waits.
    pub(super) wakeup: Condvar,
}

#[derive(Debug)]
pub(super) struct SlotState {
    pub(super) tenancy: Tenancy,
    /// Relations that it holds the shared lock of.
    pub(super) shared: Vec<RelationId>,
}

#[derive(Debug)]
pub(super) enum Tenancy {
    /// Nobody ever had it.
    New,
    /// Its last transaction left this for the next one, which allocates nothing then.
    Free(Box<Kept>),
    /// By a transaction that is open.
    Taken,
}

#[cfg(not(pgtoast_loom))]
const FIRST_CHUNK: usize = 64;
#[cfg(pgtoast_loom)]
const FIRST_CHUNK: usize = 4;

impl Slots {
    pub(super) fn new() -> Self {
        let slots = Self {
            chunks: [const { OnceLock::new() }; 32],
            used: CachePadded::new(AtomicUsize::new(0)),
        };
        let _ = slots.get(0);
        slots
    }

    pub(super) fn get(&self, number: usize) -> &Arc<CachePadded<Slot>> {
        let position = number / FIRST_CHUNK + 1;
        let chunk = position.ilog2();
        let first = FIRST_CHUNK * ((1 << chunk) - 1);
        let slots = self.chunks[chunk as usize].get_or_init(|| {
            (0..FIRST_CHUNK << chunk).map(|_| Arc::new(CachePadded::new(Slot::new()))).collect()
        });
        &slots[number - first]
    }

    /// All that were ever taken.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Slot)> {
        (0..self.used.load(Ordering::Acquire)).map(|number| (number, &***self.get(number)))
    }

    /// Takes a free one, and what its last transaction left there.
    pub(super) fn take(&self) -> (usize, Arc<CachePadded<Slot>>, Option<Box<Kept>>) {
        // The first that a thread looks at is one that no other thread looks at first, so that
        // threads do not meet.
        let numbers = core::iter::once(preferred() % FIRST_CHUNK).chain(0..);
        for number in numbers {
            let slot = self.get(number);
            let Some(mut state) = slot.state.try_lock() else { continue };
            let kept = match core::mem::replace(&mut state.tenancy, Tenancy::Taken) {
                Tenancy::Taken => continue,
                Tenancy::New => None,
                Tenancy::Free(kept) => Some(kept),
            };
            drop(state);
            if self.used.load(Ordering::Relaxed) <= number {
                self.used.fetch_max(number + 1, Ordering::AcqRel);
            }
            return (number, slot.clone(), kept);
        }
        unreachable!("there are more slots than addresses")
    }
}

impl Slot {
    fn new() -> Self {
        Self {
            xmin: AtomicU64::new(0),
            state: Mutex::new(SlotState { tenancy: Tenancy::New, shared: Vec::new() }),
            wakeup: Condvar::new(),
        }
    }
}

/// A number that is this thread's own as far as possible.
#[cfg(not(pgtoast_loom))]
fn preferred() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static PREFERRED: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    PREFERRED.with(|&number| number)
}

/// All threads of a model are one.
#[cfg(pgtoast_loom)]
fn preferred() -> usize {
    0
}
