//! Update chains within a page: who leads to whom.
//!
//! ```text
//! index ─▶ item 1: redirect to 3        index ─▶ item 5: updated heap-only by 740, ctid (b,6)
//!                    │                                      │
//!          item 3: heap-only of 731               item 6: heap-only of 740
//! ```
//! A chain starts at a redirect or at a tuple that is not heap-only; every heap-only tuple whose insertion
//! is not undone is part of one.
//!
//! Source: `verify_heapam.c` (REL_16 and later) for what must hold.
use pgtoast_base::{BlockNumber, OffsetNumber, Xid};
use pgtoast_page::{HeapTuple, Infomask2, Item, Page, TupleHeader};

use super::report::Report;
use super::statuses::{Fate, Statuses};
use super::target::Target;
use super::{FindingKind, Readable};

/// Whether a page may have a chain, which most have not.
#[inline]
pub(super) fn may_be_chained(header: &TupleHeader) -> bool {
    header.infomask2().intersects(Infomask2::HOT_UPDATED.union(Infomask2::HEAP_ONLY))
}

/// What became of an item's insertion, as far as the walk over the page found out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ItemFate {
    /// It is no tuple, or a broken one.
    #[default]
    None,
    Known(Fate),
}

/// Tells what is wrong with the chains of a page. `fates` has an entry for each item, 1 first.
pub(super) fn check(
    target: &Target,
    block: BlockNumber,
    page: Page<'_>,
    fates: &[ItemFate],
    statuses: &Statuses<'_>,
    report: &Report<'_>,
) {
    let tell = |item: OffsetNumber, kind| {
        report.tell(target.of_item_number(block, item.get(), kind, Readable::All));
    };
    let tuple = |item: OffsetNumber| {
        let fate = *fates.get(item.index()?)?;
        match (fate, page.item(item)) {
            (ItemFate::Known(fate), Ok(Item::Normal(bytes))) => {
                Some((HeapTuple::new(bytes).ok()?, fate))
            }
            _ => None,
        }
    };
    let mut predecessors = vec![OffsetNumber::INVALID; fates.len()];
    // Takes note of who leads to an item, and of who did before.
    let mut lead = |from: OffsetNumber, to: OffsetNumber| {
        let slot = predecessors.get_mut(to.index()?)?;
        let before = core::mem::replace(slot, from);
        (before != OffsetNumber::INVALID).then_some(before)
    };
    for (item, _) in page.items() {
        let next = match page.item(item) {
            Ok(Item::Redirect(next)) => {
                let Some((successor, _)) = tuple(next) else { continue };
                if !successor.header().is_heap_only() {
                    tell(item, FindingKind::RedirectNotHeapOnly { target: next.get() });
                    continue;
                }
                next
            }
            _ => {
                let Some((current, fate)) = tuple(item) else { continue };
                let Some(next) = successor(block, item, current.header()) else { continue };
                let Some((successor, successor_fate)) = tuple(next) else { continue };
                let Ok(xmax) = statuses.update_xid(current.header()) else { continue };
                if !xmax.is_valid() || xmax != xmin(successor.header()) {
                    continue;
                }
                let target = next.get();
                if let Some(other) = lead(item, next) {
                    tell(item, FindingKind::ChainShared { target, other: other.get() });
                    continue;
                }
                let is_hot = current.header().infomask2().contains(Infomask2::HOT_UPDATED);
                match (is_hot, successor.header().is_heap_only()) {
                    (false, true) => tell(item, FindingKind::HotMissing { target }),
                    (true, false) => tell(item, FindingKind::HotUnfounded { target }),
                    _ => {}
                }
                let is_first = match fate {
                    Fate::Committed => false,
                    Fate::InProgress => successor_fate == Fate::Committed,
                    Fate::Undone => successor_fate != Fate::Undone,
                };
                if is_first {
                    tell(item, FindingKind::SuccessorFirst { target });
                }
                continue;
            }
        };
        if let Some(other) = lead(item, next) {
            tell(item, FindingKind::ChainShared { target: next.get(), other: other.get() });
        }
    }
    for (item, _) in page.items() {
        let Some((current, fate)) = tuple(item) else { continue };
        let is_reached = item
            .index()
            .and_then(|index| predecessors.get(index))
            .is_some_and(|before| *before != OffsetNumber::INVALID);
        if !is_reached && fate != Fate::Undone && current.header().is_heap_only() {
            tell(item, FindingKind::HeapOnlyUnreached);
        }
    }
}

/// The item of the same page that a tuple's ctid leads to.
fn successor(block: BlockNumber, item: OffsetNumber, header: &TupleHeader) -> Option<OffsetNumber> {
    let ctid = header.ctid();
    (ctid.block == block && ctid.item != item).then_some(ctid.item)
}

/// As others compare it: frozen, it is nobody's.
fn xmin(header: &TupleHeader) -> Xid {
    if header.is_frozen() { Xid::FROZEN } else { header.xmin() }
}
