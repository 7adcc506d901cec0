//! What a transaction sees.
use pgtoast_base::Xid;
use pgtoast_page::{Snapshot, TransactionStatus, XidStatus};

use super::registered::Kept;
use super::{CommitLog, full_xid};

/// What a transaction sees: its snapshot, its own changes, and what became of others.
///
/// Look at tuples so: `header.is_visible(&view.snapshot(), &view)`.
#[derive(Clone, Copy, Debug)]
pub struct View<'t> {
    log: &'t CommitLog,
    kept: &'t Kept,
    snapshot: Snapshot<'t>,
}

impl<'t> View<'t> {
    #[inline]
    pub(super) fn new(kept: &'t Kept, snapshot: Snapshot<'t>) -> Self {
        Self { log: &kept.shared.log, kept, snapshot }
    }

    /// The snapshot.
    #[inline]
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<'t> {
        self.snapshot
    }
}

/// Nobody makes multixacts here: one that a tuple names only locks.
impl TransactionStatus for View<'_> {
    #[inline]
    fn status(&self, xid: Xid) -> XidStatus {
        self.log.status(xid)
    }

    fn update_xid(&self, _multi: Xid) -> Option<Xid> {
        None
    }

    #[inline]
    fn is_own(&self, xid: Xid) -> bool {
        is_own(&self.kept.xids, xid)
    }

    fn own_commands(&self, combined: u32) -> (u32, u32) {
        self.kept.combined.pair(combined)
    }
}

/// Whether `xid` is among those, which ascend.
#[inline]
pub(super) fn is_own(xids: &[u64], xid: Xid) -> bool {
    match xids {
        [] => false,
        [only] => full_xid::xid(*only) == xid,
        [first, ..] => xids.binary_search(&full_xid::near(*first, xid)).is_ok(),
    }
}
