//! A snapshot that holds the horizon back.
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use pgtoast_base::Xid;
use pgtoast_page::Snapshot;

use super::combined::CombinedCommands;
use super::slots::{Slot, Tenancy};
use super::{LockMode, Shared, full_xid};
use crate::RelationId;
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{is_taken_down, mutated};

/// A slot, taken, with a snapshot. Dropped it is free again.
#[derive(Debug)]
pub(super) struct Registered {
    slot: Arc<CachePadded<Slot>>,
    /// Until dropped.
    kept: Option<Box<Kept>>,
}

/// What a transaction has to itself. It stays in the slot for the next one: with its memory, with
/// its snapshot, which is as good as a new one while nothing has ended since, and with a reference
/// to the whole, whose counter all threads would else meet at.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) shared: Arc<Shared>,
    /// The number of the slot.
    pub(super) number: usize,
    taken: Taken,
    /// Ids that the transaction was given and that were not undone, in ascending order.
    pub(super) xids: Vec<u64>,
    /// The transaction itself, then its open savepoints.
    pub(super) levels: Vec<Level>,
    pub(super) combined: CombinedCommands,
    /// Locks that it holds.
    pub(super) locks: Vec<(RelationId, LockMode)>,
}

/// A transaction or a subtransaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// How many ids there were when it began.
    pub(super) first: usize,
    /// How many locks there were.
    pub(super) locks: usize,
    /// Its own.
    pub(super) xid: Option<Xid>,
    /// Tells savepoints of the same depth apart.
    pub(super) serial: u64,
}

/// A snapshot as it is kept.
#[derive(Debug)]
struct Taken {
    /// How many had ended when it was taken.
    completions: u64,
    /// Whether the slot says so.
    registered: bool,
    xmin: u64,
    xmax: u64,
    in_progress: Vec<Xid>,
}

/// Vectors longer than this are not kept for the next transaction.
const KEEP: usize = 1024;

impl Registered {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let (number, slot, kept) = shared.slots.take();
        let kept = kept.unwrap_or_else(|| Box::new(Kept::new(shared.clone(), number)));
        let mut registered = Self { slot, kept: Some(kept) };
        registered.renew();
        registered
    }

    #[inline]
    pub(super) fn kept(&self) -> &Kept {
        self.kept.as_ref().expect("kept until dropped")
    }

    #[inline]
    pub(super) fn kept_mut(&mut self) -> &mut Kept {
        self.kept.as_mut().expect("kept until dropped")
    }

    /// Has the snapshot show what has ended by now.
    ///
    /// The one there is shows it if nothing ended since it was taken. It may have been let go
    /// since, though, and the horizon be computed without it. So it is registered first and
    /// compared after: whoever computed a horizon and did not see the registration knew of no end
    /// that the comparison does not see, and so stayed behind this snapshot's xmin.
    #[inline]
    pub(super) fn renew(&mut self) {
        let Self { slot, kept: Some(kept) } = self else { return };
        let Kept { shared, taken, .. } = &mut **kept;
        if taken.completions == shared.completions.load(Ordering::Acquire) {
            if taken.registered {
                return;
            }
            slot.xmin.store(taken.xmin, Ordering::Release);
            taken.registered = true;
            if !mutated!(NoFence) {
                fence(Ordering::SeqCst);
            }
            if taken.completions == shared.completions.load(Ordering::Acquire)
                || mutated!(ReuseUnseen)
            {
                return;
            }
        }
        kept.take(slot, false);
    }

    /// The same, and yet the horizon stays behind the snapshot that there was until the next
    /// renewal that takes another one.
    pub(super) fn renew_behind(&mut self) {
        let Self { slot, kept: Some(kept) } = self else { return };
        let behind = kept.taken.registered;
        kept.take(slot, behind);
    }

    /// Gives up the locks from the one at `first` on, and whoever waits for them goes on.
    pub(super) fn unlock_from(&mut self, first: usize) {
        let Self { slot, kept: Some(kept) } = self else { return };
        let Kept { shared, number, locks, .. } = &mut **kept;
        let Some(since @ [_, ..]) = locks.get(first..) else { return };
        let mut state = slot.state.lock();
        state.shared.retain(|held| !since.contains(&(*held, LockMode::Shared)));
        // As where a transaction ends: whoever wants one alone saw it here, and is seen now, or will not.
        let is_wanted = shared.strong.load(Ordering::Acquire) > 0;
        drop(state);
        if is_wanted && !mutated!(UnlockUnsaid) {
            shared.unlock_relations(*number, since);
        }
        locks.truncate(first);
    }

    /// The snapshot, for a command.
    #[inline]
    pub(super) fn snapshot(&self, command: u32) -> Snapshot<'_> {
        let Taken { xmin, xmax, ref in_progress, .. } = self.kept().taken;
        Snapshot { xmin: full_xid::xid(xmin), xmax: full_xid::xid(xmax), in_progress, command }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let Some(mut kept) = self.kept.take() else { return };
        if is_taken_down() {
            return;
        }
        self.slot.xmin.store(0, Ordering::Release);
        let mut state = self.slot.state.lock();
        if !kept.locks.is_empty() {
            state.shared.clear();
            // Whoever wants such a relation for itself announced that before it looked at this
            // slot: either it saw the lock here, and is seen here now, or it will not see it.
            if kept.shared.strong.load(Ordering::Acquire) > 0 {
                drop(state);
                kept.shared.unlock_relations(kept.number, &kept.locks);
                state = self.slot.state.lock();
            }
        }
        kept.reset();
        if kept.shared.closed.load(Ordering::Acquire) {
            state.tenancy = Tenancy::New;
            drop(state);
        } else {
            state.tenancy = Tenancy::Free(kept);
        }
    }
}

impl Kept {
    fn new(shared: Arc<Shared>, number: usize) -> Self {
        let taken = Taken {
            completions: u64::MAX,
            registered: false,
            xmin: 0,
            xmax: 0,
            in_progress: Vec::new(),
        };
        Self {
            shared,
            number,
            taken,
            xids: Vec::new(),
            levels: Vec::new(),
            combined: CombinedCommands::default(),
            locks: Vec::new(),
        }
    }

    /// Takes a new snapshot, and registers it in that slot, unless an older one is to stay
    /// registered.
    #[cold]
    fn take(&mut self, slot: &Slot, behind: bool) {
        let Self { shared, number, taken, .. } = self;
        let running = shared.running.lock();
        taken.in_progress.clear();
        taken.in_progress.extend(running.others(*number));
        taken.xmin = running.oldest();
        taken.xmax = running.xmax();
        // Only changed under the lock.
        taken.completions = shared.completions.load(Ordering::Relaxed);
        taken.registered = true;
        if behind {
            drop(running);
        } else if mutated!(RegisterLate) {
            drop(running);
            slot.xmin.store(taken.xmin, Ordering::Release);
        } else {
            slot.xmin.store(taken.xmin, Ordering::Release);
            drop(running);
        }
    }

    /// Forgets the transaction.
    fn reset(&mut self) {
        self.taken.registered = false;
        self.taken.in_progress.shrink_to(KEEP);
        self.xids.clear();
        self.xids.shrink_to(KEEP);
        self.levels.clear();
        self.levels.shrink_to(KEEP);
        self.combined.clear();
        self.locks.clear();
        self.locks.shrink_to(KEEP);
    }
}
