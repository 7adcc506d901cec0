//! Row versions that nobody can see any more leave their page.
//!
//! ```text
//! before   1 dead -> 2 dead -> 3 live       4 dead, deleted       5 dead, of an undone update
//! after    1 redirect to 3, 2 unused, 3     4 line pointer dead   5 unused
//! ```
//! What an index or a user may still name keeps a line pointer; a heap-only tuple, which nobody
//! names, keeps none. Source: `pruneheap.c`, `heap_prune_chain` (REL_15).
use pgtoast_base::{OffsetNumber, Xid};
use pgtoast_page::{
    LineState, Page, PageError, PageFlags, PageMut, TrailingPointers, TransactionStatus,
    VacuumState,
};
use smallvec::SmallVec;

use super::chain::tuple_at;
use super::hints;

/// What pruning a page did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pruned {
    /// Tuples that are gone.
    pub(super) removed: u32,
    /// Line pointers that were made dead.
    pub(super) newly_dead: u32,
}

/// Whether the page says that pruning may be worth it: somebody ended a tuple, and space is short.
#[doc(alias = "heap_page_prune_opt")]
#[inline]
pub(super) fn is_worth_it(page: Page<'_>) -> bool {
    let header = page.header();
    header.prune_xid().is_valid()
        && (header.flags().contains(PageFlags::PAGE_FULL)
            || page.heap_free_bytes() < page.block_size().bytes_u16() / 10)
}

/// Takes from a page what is dead to every transaction from `horizon` on.
///
/// The page's bytes move: nobody else may be looking at them.
#[doc(alias = "heap_page_prune")]
pub(super) fn prune(
    page: &mut PageMut<'_>,
    horizon: Xid,
    status: &impl TransactionStatus,
) -> Result<Pruned, PageError> {
    hints::leave(page, status);
    let plan = Plan::of(page.page(), horizon, status);
    let pruned = plan.carry_out(page)?;
    page.set_prune_xid(plan.prune_xid);
    page.set_flags(PageFlags::PAGE_FULL, false);
    Ok(pruned)
}

/// What is to become of a page's items.
struct Plan {
    /// Address and the item that it is to lead to, with [`OffsetNumber::INVALID`] for dead ones.
    addresses: SmallVec<[(OffsetNumber, OffsetNumber); 32]>,
    unused: SmallVec<[OffsetNumber; 64]>,
    /// Items that are decided: one bit each.
    decided: SmallVec<[u64; 5]>,
    removed: u32,
    prune_xid: Xid,
}

impl Plan {
    fn of(page: Page<'_>, horizon: Xid, status: &impl TransactionStatus) -> Self {
        let words = usize::from(page.item_count()) / 64 + 1;
        let mut plan = Self {
            addresses: SmallVec::new(),
            unused: SmallVec::new(),
            decided: SmallVec::from_elem(0, words),
            removed: 0,
            prune_xid: Xid::INVALID,
        };
        for (item, pointer) in page.items() {
            if plan.is_decided(item) {
                continue;
            }
            match pointer.state() {
                LineState::Unused | LineState::Dead => {}
                LineState::Redirect => plan.follow(page, item, horizon, status),
                LineState::Normal => {
                    let Some(tuple) = tuple_at(page, item) else { continue };
                    let header = tuple.header();
                    if !header.is_heap_only() {
                        plan.follow(page, item, horizon, status);
                    } else if !header.is_hot_updated()
                        && header.vacuum_state(horizon, status) == VacuumState::Dead
                    {
                        // No chain reaches what an undone update has left; and what was deleted at
                        // the end of a chain has only dead ones before it.
                        plan.removed += 1;
                        plan.give_up(item);
                    }
                }
            }
        }
        plan
    }

    /// Decides about the chain that begins at an address.
    fn follow(
        &mut self,
        page: Page<'_>,
        address: OffsetNumber,
        horizon: Xid,
        status: &impl TransactionStatus,
    ) {
        let mut chain: SmallVec<[OffsetNumber; 16]> = SmallVec::new();
        let mut dead_end = 0; // so many of the chain's items are to go
        let (mut item, mut inserted_by) = (address, None);
        while chain.len() <= usize::from(page.item_count()) && !self.is_decided(item) {
            let Some(pointer) = page.line_pointer(item) else { break };
            if pointer.state() == LineState::Redirect && chain.is_empty() {
                chain.push(item);
                item = pointer.target();
                continue;
            }
            let Some(tuple) = tuple_at(page, item) else { break };
            let header = tuple.header();
            if inserted_by.is_some_and(|xmin| xmin != header.xmin()) {
                break;
            }
            chain.push(item);
            match header.vacuum_state(horizon, status) {
                VacuumState::Dead => dead_end = chain.len(),
                VacuumState::RecentlyDead => self.remember(header.xmax()),
                VacuumState::DeleteInProgress => {
                    self.remember(header.xmax());
                    break;
                }
                // What follows, if anything does, is of one who was undone, or may yet be.
                VacuumState::InsertInProgress | VacuumState::Live => break,
            }
            if !header.is_hot_updated() {
                break;
            }
            inserted_by = Some(header.xmax());
            item = header.ctid().item;
        }
        let is_redirect = matches!(
            page.line_pointer(address).map(pgtoast_page::LinePointer::state),
            Some(LineState::Redirect)
        );
        if dead_end > 0 {
            let tuples = dead_end - usize::from(is_redirect);
            self.removed += u32::try_from(tuples).unwrap_or(u32::MAX);
            for item in &chain[1..dead_end.max(1)] {
                self.give_up(*item);
            }
            let target = chain.get(dead_end).copied().unwrap_or(OffsetNumber::INVALID);
            self.decide(address);
            self.addresses.push((address, target));
        } else if is_redirect && chain.len() < 2 {
            self.decide(address);
            self.addresses.push((address, OffsetNumber::INVALID));
        }
    }

    /// Does what was decided. Addresses first: what they led to is still there then.
    fn carry_out(&self, page: &mut PageMut<'_>) -> Result<Pruned, PageError> {
        let mut pruned = Pruned { removed: self.removed, newly_dead: 0 };
        for (address, target) in &self.addresses {
            if *target == OffsetNumber::INVALID {
                page.set_dead(*address)?;
                pruned.newly_dead += 1;
            } else {
                page.redirect(*address, *target)?;
            }
        }
        for item in &self.unused {
            page.set_unused(*item)?;
        }
        if !self.addresses.is_empty() || !self.unused.is_empty() {
            page.compact(TrailingPointers::Drop)?;
        }
        Ok(pruned)
    }

    fn give_up(&mut self, item: OffsetNumber) {
        self.decide(item);
        self.unused.push(item);
    }

    fn decide(&mut self, item: OffsetNumber) {
        if let Some(word) = self.decided.get_mut(usize::from(item.get()) / 64) {
            *word |= 1 << (item.get() % 64);
        }
    }

    fn is_decided(&self, item: OffsetNumber) -> bool {
        let word = self.decided.get(usize::from(item.get()) / 64).copied().unwrap_or(0);
        word >> (item.get() % 64) & 1 == 1
    }

    fn remember(&mut self, xmax: Xid) {
        if !self.prune_xid.is_valid() || xmax.precedes(self.prune_xid) {
            self.prune_xid = xmax;
        }
    }
}
