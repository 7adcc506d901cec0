//! Which row versions exist, and for whom.
//!
//! A tuple names the transaction that inserted it and the one that ended it. Each question below is
//! answered in two steps: what became of either transaction, from the hint bits if they say so and
//! from [`TransactionStatus`] if not; then a small table over the two answers.
//!
//! Source: `heapam_visibility.c`, `snapmgr.c` (REL_18).
use pgtoast_base::Xid;

use crate::{Infomask, TupleHeader};

/// What became of a transaction, as `pg_xact` keeps it in two bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum XidStatus {
    /// It runs, or ended in a crash: whoever knows that nothing runs says aborted instead.
    #[doc(alias = "TRANSACTION_STATUS_IN_PROGRESS")]
    InProgress = 0,
    /// It committed.
    #[doc(alias = "TRANSACTION_STATUS_COMMITTED")]
    Committed = 1,
    /// It was undone.
    #[doc(alias = "TRANSACTION_STATUS_ABORTED")]
    Aborted = 2,
    /// A subtransaction that ended well, of a parent that has not yet: taken as in progress. Whoever
    /// knows the parent says what became of that.
    #[doc(alias = "TRANSACTION_STATUS_SUB_COMMITTED")]
    SubCommitted = 3,
}

/// Who knows what became of transactions, where the hint bits do not say.
///
/// Ids that the counter never gave out are not asked for: they are committed, or nobody's.
pub trait TransactionStatus {
    /// What became of `xid`.
    fn status(&self, xid: Xid) -> XidStatus;

    /// The member of multixact `multi` that updated or deleted the tuple; `None` if all only lock.
    #[doc(alias = "MultiXactIdGetUpdateXid")]
    fn update_xid(&self, multi: Xid) -> Option<Xid>;

    /// Whether `xid` is the transaction that asks, or a subtransaction of it that was not undone.
    /// Nobody's by default: readers of files have no transaction.
    #[doc(alias = "TransactionIdIsCurrentTransactionId")]
    fn is_own(&self, xid: Xid) -> bool {
        let _ = xid;
        false
    }

    /// The inserting and the deleting command behind a combined command id of the transaction that
    /// asks. Both are `combined` by default, which is right as long as there are no such ids.
    #[doc(alias = "GetRealCmin")]
    #[doc(alias = "GetRealCmax")]
    fn own_commands(&self, combined: u32) -> (u32, u32) {
        (combined, combined)
    }
}

impl<T: TransactionStatus + ?Sized> TransactionStatus for &T {
    fn status(&self, xid: Xid) -> XidStatus {
        (**self).status(xid)
    }

    fn update_xid(&self, multi: Xid) -> Option<Xid> {
        (**self).update_xid(multi)
    }

    fn is_own(&self, xid: Xid) -> bool {
        (**self).is_own(xid)
    }

    fn own_commands(&self, combined: u32) -> (u32, u32) {
        (**self).own_commands(combined)
    }
}

/// The transactions that a reader takes as not over yet, whatever has become of them since.
#[doc(alias = "SnapshotData")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// All older ones are over.
    pub xmin: Xid,
    /// This one and all newer ones are not.
    pub xmax: Xid,
    /// Those between that are not, subtransactions included, in the order that they were given out in: by
    /// their distance from `xmin` on the circle of ids.
    #[doc(alias = "xip")]
    pub in_progress: &'a [Xid],
    /// Of the reader's own transaction, commands from this one on are not seen.
    #[doc(alias = "curcid")]
    pub command: u32,
}

impl Snapshot<'_> {
    /// Whether the reader takes `xid` as not over yet.
    ///
    /// # Panics
    /// In builds with debug assertions, if `in_progress` is not in its order.
    #[inline]
    #[doc(alias = "XidInMVCCSnapshot")]
    #[must_use]
    pub fn is_in_progress(&self, xid: Xid) -> bool {
        !xid.precedes(self.xmin) && (!xid.precedes(self.xmax) || self.lists(xid))
    }

    #[inline]
    fn lists(&self, xid: Xid) -> bool {
        // Numbers begin anew where the circle closes; distances do not.
        let distance = |xid: &Xid| xid.get().wrapping_sub(self.xmin.get());
        debug_assert!(self.in_progress.is_sorted_by_key(distance), "in progress, in order");
        self.in_progress.binary_search_by_key(&distance(&xid), distance).is_ok()
    }
}

/// What vacuum makes of a tuple.
#[doc(alias = "HTSV_Result")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VacuumState {
    /// Nobody can see it any more.
    #[doc(alias = "HEAPTUPLE_DEAD")]
    Dead,
    /// Its deletion is not over yet.
    #[doc(alias = "HEAPTUPLE_DELETE_IN_PROGRESS")]
    DeleteInProgress,
    /// Its insertion is not over yet.
    #[doc(alias = "HEAPTUPLE_INSERT_IN_PROGRESS")]
    InsertInProgress,
    /// It is there, and nobody is about to delete it.
    #[doc(alias = "HEAPTUPLE_LIVE")]
    Live,
    /// It was deleted, but some snapshot may still see it.
    #[doc(alias = "HEAPTUPLE_RECENTLY_DEAD")]
    RecentlyDead,
}

impl TupleHeader {
    /// Whether a snapshot sees the tuple.
    ///
    /// | inserted by | ended by | seen |
    /// |---|---|---|
    /// | nobody that is over in the snapshot | any | no |
    /// | own command that is not seen | any | no |
    /// | own command that is seen | own command that is seen | no |
    /// | own command that is seen | anything else | yes |
    /// | committed | own command that is seen, or committed | no |
    /// | committed | nobody, or anything else | yes |
    #[inline]
    #[doc(alias = "HeapTupleSatisfiesMVCC")]
    #[must_use]
    pub fn is_visible(&self, snapshot: &Snapshot<'_>, status: &impl TransactionStatus) -> bool {
        let view = View { header: self, snapshot: Some(snapshot), status };
        match view.inserted() {
            Fate::Undone | Fate::InProgress | Fate::OwnUnseen => false,
            Fate::Own => view.ended() != Fate::Own,
            Fate::Committed(_) => !matches!(view.ended(), Fate::Own | Fate::Committed(_)),
        }
    }

    /// What vacuum makes of the tuple. Transactions older than `horizon` are over for every
    /// snapshot there is.
    ///
    /// | inserted by | ended by | state |
    /// |---|---|---|
    /// | undone | any | dead |
    /// | own | own | delete in progress |
    /// | own | anything else | insert in progress |
    /// | in progress | any | insert in progress |
    /// | committed | nobody | live |
    /// | committed | own or in progress | delete in progress |
    /// | committed | committed before `horizon` | dead |
    /// | committed | committed | recently dead |
    #[doc(alias = "HeapTupleSatisfiesVacuum")]
    #[must_use]
    pub fn vacuum_state(&self, horizon: Xid, status: &impl TransactionStatus) -> VacuumState {
        let view = View { header: self, snapshot: None, status };
        match view.inserted() {
            Fate::Undone => VacuumState::Dead,
            Fate::InProgress if self.has(Infomask::MOVED_OFF) => VacuumState::DeleteInProgress,
            Fate::InProgress => VacuumState::InsertInProgress,
            Fate::Own | Fate::OwnUnseen => match view.ended() {
                Fate::Own | Fate::OwnUnseen => VacuumState::DeleteInProgress,
                _ => VacuumState::InsertInProgress,
            },
            Fate::Committed(_) => match view.ended() {
                Fate::Undone => VacuumState::Live,
                Fate::Own | Fate::OwnUnseen | Fate::InProgress => VacuumState::DeleteInProgress,
                Fate::Committed(xmax) if xmax.precedes(horizon) => VacuumState::Dead,
                Fate::Committed(_) => VacuumState::RecentlyDead,
            },
        }
    }

    /// Whether a chunk of an out-of-line value may be read: by whoever found its row visible.
    ///
    /// | inserted by | seen |
    /// |---|---|
    /// | undone, and a hint says so | no |
    /// | nobody: xmin is 0, without a hint | no |
    /// | anybody else, over or not | yes |
    ///
    /// Who ended it does not matter: a deleted row's old snapshot still reads the value. Only a tuple
    /// that a vacuum before 9.0 moved asks `status` about the mover.
    #[doc(alias = "HeapTupleSatisfiesToast")]
    #[must_use]
    pub fn is_toast_visible(&self, status: &impl TransactionStatus) -> bool {
        if self.has(Infomask::XMIN_COMMITTED) {
            true
        } else if self.has(Infomask::XMIN_INVALID) {
            false
        } else if self.infomask().intersects(Infomask::MOVED) {
            let view = View { header: self, snapshot: None, status };
            let gone = self.has(Infomask::MOVED_OFF);
            // One moved off by a vacuum still at work is here yet, and one moved in is here already
            // for that vacuum alone.
            match view.fate(self.mover()) {
                Fate::Committed(_) | Fate::Own | Fate::OwnUnseen => !gone,
                Fate::InProgress | Fate::Undone => gone,
            }
        } else {
            self.xmin().is_valid()
        }
    }

    fn has(&self, flag: Infomask) -> bool {
        self.infomask().contains(flag)
    }

    /// The vacuum that moved the tuple, in a release before 9.0.
    fn mover(&self) -> Xid {
        Xid::new(self.field3())
    }
}

/// What became of an insertion or a deletion, for whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It never happened: there is no transaction, or it was undone.
    Undone,
    /// Its transaction is not over.
    InProgress,
    /// The asking transaction did it, in a command that it does not see yet.
    OwnUnseen,
    /// The asking transaction did it.
    Own,
    /// This transaction did it, and committed.
    Committed(Xid),
}

/// A tuple as somebody looks at it: through a snapshot, or without one as vacuum does.
struct View<'a, S> {
    header: &'a TupleHeader,
    snapshot: Option<&'a Snapshot<'a>>,
    status: &'a S,
}

impl<S: TransactionStatus> View<'_, S> {
    /// What became of the insertion.
    #[inline]
    fn inserted(&self) -> Fate {
        let (header, xmin) = (self.header, self.header.xmin());
        if header.has(Infomask::XMIN_FROZEN) {
            Fate::Committed(xmin)
        } else if header.has(Infomask::XMIN_COMMITTED) {
            self.in_snapshot(xmin)
        } else if header.has(Infomask::XMIN_INVALID) {
            Fate::Undone
        } else if header.infomask().intersects(Infomask::MOVED) {
            self.moved()
        } else {
            match self.fate(xmin) {
                Fate::Own if self.is_unseen(self.commands().0) => Fate::OwnUnseen,
                fate => fate,
            }
        }
    }

    /// What became of the deletion; [`Fate::Undone`] too where xmax only locks.
    #[inline]
    fn ended(&self) -> Fate {
        let header = self.header;
        if header.has(Infomask::XMAX_INVALID) || header.is_locked_only() {
            return Fate::Undone;
        }
        let (xmax, hinted) = if header.has(Infomask::XMAX_IS_MULTI) {
            // A multixact is never hinted: its members may be over at different times.
            match self.status.update_xid(header.xmax()) {
                Some(xmax) => (xmax, false),
                None => return Fate::Undone,
            }
        } else {
            (header.xmax(), header.has(Infomask::XMAX_COMMITTED))
        };
        if hinted {
            return self.in_snapshot(xmax);
        }
        match self.fate(xmax) {
            Fate::Own if self.is_unseen(self.commands().1) => Fate::OwnUnseen,
            fate => fate,
        }
    }

    /// What became of a transaction that no hint speaks of.
    #[inline]
    fn fate(&self, xid: Xid) -> Fate {
        if !xid.is_valid() {
            Fate::Undone
        } else if !xid.is_normal() {
            Fate::Committed(xid)
        } else if self.status.is_own(xid) {
            Fate::Own
        } else if self.snapshot.is_some_and(|snapshot| snapshot.is_in_progress(xid)) {
            Fate::InProgress
        } else {
            match self.status.status(xid) {
                XidStatus::Committed => Fate::Committed(xid),
                XidStatus::Aborted => Fate::Undone,
                XidStatus::InProgress | XidStatus::SubCommitted => Fate::InProgress,
            }
        }
    }

    /// A transaction that committed, which the snapshot need not know yet.
    #[inline]
    fn in_snapshot(&self, xid: Xid) -> Fate {
        match self.snapshot {
            Some(snapshot) if snapshot.is_in_progress(xid) => Fate::InProgress,
            _ => Fate::Committed(xid),
        }
    }

    /// What a vacuum before 9.0 made of the insertion by moving the tuple. Moved off and done, it is
    /// gone; moved in and undone, it was never here.
    #[cold]
    fn moved(&self) -> Fate {
        let header = self.header;
        match (self.fate(header.mover()), header.has(Infomask::MOVED_OFF)) {
            (Fate::InProgress, true) if self.snapshot.is_some() => Fate::Committed(header.xmin()),
            (Fate::Own, _) if self.snapshot.is_none() => Fate::InProgress,
            (Fate::InProgress, _) => Fate::InProgress,
            (Fate::Undone, false) => Fate::Undone,
            (Fate::Undone, true) => Fate::Committed(header.xmin()),
            (_, true) => Fate::Undone,
            (_, false) => Fate::Committed(header.xmin()),
        }
    }

    /// The inserting and the deleting command, of a tuple that the asking transaction made or ended.
    fn commands(&self) -> (u32, u32) {
        let field3 = self.header.field3();
        if self.header.has(Infomask::COMBO_CID) {
            self.status.own_commands(field3)
        } else {
            (field3, field3)
        }
    }

    fn is_unseen(&self, command: u32) -> bool {
        self.snapshot.is_some_and(|snapshot| command >= snapshot.command)
    }
}
