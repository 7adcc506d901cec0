//! What is known of a tuple's transactions, written into its header, so that nobody need ask again.
//!
//! Readers share the latch and write nothing; whoever changes the page anyhow leaves the hints.
//! Source: `heapam_visibility.c`, `SetHintBits` (REL_18).
use pgtoast_base::Xid;
use pgtoast_page::{Infomask, Infomask2, PageMut, TransactionStatus, TupleHeader, XidStatus};

use super::chain::tuple_at;

/// Leaves hints at every tuple of a page whose transactions are over.
pub(super) fn leave(page: &mut PageMut<'_>, status: &impl TransactionStatus) {
    for item in 1..=page.page().item_count() {
        let item = pgtoast_base::OffsetNumber::new(item);
        let Some(tuple) = tuple_at(page.page(), item) else { continue };
        let known = tuple.header().infomask();
        let hinted = known.union(missing(tuple.header(), status));
        if hinted != known
            && let Ok(mut tuple) = page.tuple_mut(item)
        {
            tuple.header_mut().set_infomask(hinted);
        }
    }
}

/// The hints that a tuple lacks.
fn missing(header: &TupleHeader, status: &impl TransactionStatus) -> Infomask {
    let known = header.infomask();
    let mut hints = Infomask::empty();
    if !known.intersects(Infomask::XMIN_FROZEN) && !known.intersects(Infomask::MOVED) {
        hints |= match over(header.xmin(), status) {
            Some(true) => Infomask::XMIN_COMMITTED,
            Some(false) => Infomask::XMIN_INVALID,
            None => Infomask::empty(),
        };
    }
    let decided = Infomask::XMAX_INVALID | Infomask::XMAX_COMMITTED | Infomask::XMAX_IS_MULTI;
    if !known.intersects(decided) && !header.is_locked_only() {
        hints |= match over(header.xmax(), status) {
            Some(true) => Infomask::XMAX_COMMITTED,
            Some(false) => Infomask::XMAX_INVALID,
            None => Infomask::empty(),
        };
    }
    hints
}

/// Whether a transaction committed; `None` while it runs.
fn over(xid: Xid, status: &impl TransactionStatus) -> Option<bool> {
    if !xid.is_valid() {
        return Some(false);
    }
    if !xid.is_normal() {
        return Some(true);
    }
    match status.status(xid) {
        XidStatus::Committed => Some(true),
        XidStatus::Aborted => Some(false),
        XidStatus::InProgress | XidStatus::SubCommitted => None,
    }
}

/// Takes away the trace of a transaction that was undone after it had ended the tuple.
pub(super) fn forget_end(header: &mut TupleHeader) {
    let (infomask, infomask2) = (header.infomask(), header.infomask2());
    let (xmin, command) = (header.xmin(), header.field3());
    header.set_inserted(xmin, command);
    let ended = Infomask::XMAX_BITS.union(Infomask::COMBO_CID);
    header.set_infomask(infomask.difference(ended).union(Infomask::XMAX_INVALID));
    header.set_infomask2(infomask2.intersection(Infomask2::HEAP_ONLY));
}
