//! Clears away what nobody sees any more, and says of what is left that everybody sees it.
//!
//! ```text
//! first pass    each page: prune, freeze; remember dead line pointers
//! index         entries of these go
//! second pass   each page that had any: dead line pointers become free
//! end           empty pages behind the last tuple go
//! ```
//! The index and the second pass come in between too when memory for line pointers is full.
//! Without an index dead line pointers are freed at once. Readers and writers go on meanwhile; one
//! vacuum is at work at a time. Source: `vacuumlazy.c` (REL_15).
mod options;
mod page;
mod truncate;

use pgtoast_base::{BlockNumber, ItemPointer, Xid};
use pgtoast_page::{LineState, Page, PageFlags, VisibilityBits};

pub use self::options::{IndexCleanup, IndexVacuum, VacuumOptions, VacuumReport};
use self::page::{Contents, Cutoffs};
use super::prune;
use super::relation::{Outcomes, Relation, new_page_bytes};
use crate::StoreError;
use crate::buffer::PageWrite;
use crate::sync::atomic::Ordering;
use crate::sync::mutated;

impl Relation {
    /// Vacuums the heap. `index` is the one whose entries lead to it, if there is one.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Page`], and those of the index. What was done until then
    /// stays.
    #[doc(alias = "heap_vacuum_rel")]
    pub fn vacuum(
        &self,
        index: Option<&dyn IndexVacuum>,
        options: &VacuumOptions,
    ) -> Result<VacuumReport, StoreError> {
        let _alone = self.vacuuming.lock();
        let horizon = self.transactions.horizon();
        let blocks = self.blocks();
        let mut vacuum = Vacuum {
            relation: self,
            index,
            options,
            cutoffs: Cutoffs { horizon, freeze: self.freeze_limit(horizon, options) },
            dead: Vec::new(),
            pages_with_dead: 0,
            used: 0,
            left_out: false,
            oldest: horizon,
            report: VacuumReport { pages: blocks, ..VacuumReport::default() },
        };
        vacuum.first_pass(blocks)?;
        vacuum.finish_dead(blocks)?;
        let Vacuum { used, oldest, left_out, mut report, .. } = vacuum;
        // Space was made at low blocks: that is where the next ones go.
        self.record_targets()?;
        self.writers.forget();
        report.pages_truncated = self.cut_off(blocks, used, options)?;
        report.oldest_unfrozen = (!left_out).then_some(oldest);
        if let Some(oldest) = report.oldest_unfrozen {
            self.oldest_unfrozen.store(self.transactions.full(oldest), Ordering::Release);
        }
        Ok(report)
    }

    /// Tuples of transactions before this one are frozen.
    fn freeze_limit(&self, horizon: Xid, options: &VacuumOptions) -> Xid {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is the id")]
        let next = self.transactions.next_full_xid() as u32;
        let limit = Xid::new(next.wrapping_sub(options.freeze_min_age.min(MAX_FREEZE_AGE)));
        let limit = if limit.is_normal() { limit } else { Xid::FIRST_NORMAL };
        if horizon.precedes(limit) { horizon } else { limit }
    }
}

/// A vacuum at work.
struct Vacuum<'a> {
    relation: &'a Relation,
    index: Option<&'a dyn IndexVacuum>,
    options: &'a VacuumOptions,
    cutoffs: Cutoffs,
    /// Dead line pointers, in ascending order.
    dead: Vec<ItemPointer>,
    pages_with_dead: u32,
    /// Blocks up to the last one that has tuples.
    used: u32,
    /// Whether a page was left out that may have something to freeze.
    left_out: bool,
    oldest: Xid,
    report: VacuumReport,
}

impl Vacuum<'_> {
    fn first_pass(&mut self, blocks: u32) -> Result<(), StoreError> {
        let relation = self.relation;
        // Blocks before this one that may be left out are too few to be.
        let mut decided = 0;
        let mut block = 0;
        while block < blocks {
            if block >= decided {
                let next = self.next_to_look_at(block, blocks)?;
                if next - block >= WORTH_SKIPPING {
                    self.leave_out(block, next)?;
                    block = next;
                }
                decided = next.max(block) + 1;
            }
            if block.is_multiple_of(READ_AHEAD) {
                let end = block.saturating_add(READ_AHEAD).min(blocks);
                relation.pool.prefetch(relation.main, block..end);
            }
            self.look_at(BlockNumber::new(block))?;
            if self.dead.len() >= self.options.dead_items.max(1)
                && self.options.index_cleanup != IndexCleanup::Never
            {
                self.remove_dead()?;
            }
            block += 1;
        }
        Ok(())
    }

    /// The next block that cannot be left out by what the map says; the last one never is.
    fn next_to_look_at(&self, from: u32, blocks: u32) -> Result<u32, StoreError> {
        let wanted = if self.options.aggressive {
            VisibilityBits::all()
        } else {
            VisibilityBits::ALL_VISIBLE
        };
        let mut block = from;
        while block + 1 < blocks {
            if !self.relation.visibility(BlockNumber::new(block))?.contains(wanted) {
                break;
            }
            block += 1;
        }
        Ok(block)
    }

    fn leave_out(&mut self, from: u32, to: u32) -> Result<(), StoreError> {
        for block in from..to {
            let bits = self.relation.visibility(BlockNumber::new(block))?;
            self.left_out |= !bits.contains(VisibilityBits::ALL_FROZEN);
            self.count_bits(bits);
        }
        Ok(())
    }

    /// The first pass over a page.
    #[doc(alias = "lazy_scan_prune")]
    fn look_at(&mut self, block: BlockNumber) -> Result<(), StoreError> {
        let relation = self.relation;
        self.report.pages_scanned += 1;
        let mut bytes = relation.pool.write(relation.main, block)?;
        let page = relation.view_page(&bytes, block)?;
        if page.is_new() {
            drop(bytes);
            if relation.free.free_bytes(block) == 0 {
                relation.free.record(block, new_page_bytes(relation.block_size));
            }
            return Ok(());
        }
        let status = Outcomes(&relation.transactions);
        let error = |error| relation.page_error(block, error);
        let oldest = self.oldest;
        let before = Contents::of(page, self.cutoffs.horizon, oldest, &status);
        let bits = relation.visibility(block)?;
        let says_so = page.header().flags().contains(PageFlags::ALL_VISIBLE);
        if bits == VisibilityBits::all() && says_so && before.bits == bits {
            // As good as can be: not to be written again.
            relation.free.record(block, page.heap_free_bytes().into());
            self.count(block, before, bits);
            return Ok(());
        }
        let mut page = bytes.open(relation.block_size).map_err(error)?;
        let pruned = prune::prune(&mut page, self.cutoffs.horizon, &status).map_err(error)?;
        self.report.tuples_removed += u64::from(pruned.removed);
        let frozen = page::freeze(&mut page, self.cutoffs.freeze, &status).map_err(error)?;
        self.report.tuples_frozen += u64::from(frozen);
        let contents = Contents::of(page.page(), self.cutoffs.horizon, oldest, &status);
        self.report.dead_items += u64::from(contents.dead_items);
        let mut left = contents.dead_items;
        if self.index.is_none() && self.options.index_cleanup != IndexCleanup::Never {
            let freed = page::free_dead(&mut page).map_err(error)?;
            self.report.dead_items_removed += u64::from(freed);
            left -= freed.min(left);
        } else if left > 0 {
            self.pages_with_dead += 1;
            self.dead.extend(dead_items(page.page(), block));
        }
        let free = usize::from(page.page().heap_free_bytes());
        let promise = if left == 0 { contents.bits } else { VisibilityBits::empty() };
        if mutated!(PromiseUnlatched) {
            drop(bytes);
            bytes = relation.pool.write(relation.main, block)?;
        }
        self.promise(&mut bytes, promise)?;
        drop(bytes);
        if left == 0 || self.options.index_cleanup == IndexCleanup::Never {
            relation.free.record(block, free);
        }
        self.count(block, contents, promise);
        Ok(())
    }

    fn count(&mut self, block: BlockNumber, contents: Contents, promise: VisibilityBits) {
        self.oldest = contents.oldest;
        self.report.tuples_kept += u64::from(contents.tuples);
        self.report.tuples_recently_dead += u64::from(contents.recently_dead);
        if contents.has_tuples {
            self.used = block.get() + 1;
        }
        self.count_bits(promise);
    }

    fn count_bits(&mut self, bits: VisibilityBits) {
        self.report.pages_all_visible += u32::from(bits.contains(VisibilityBits::ALL_VISIBLE));
        self.report.pages_all_frozen += u32::from(bits.contains(VisibilityBits::ALL_FROZEN));
    }

    /// Has page and map promise that, if they do not.
    fn promise(
        &self,
        bytes: &mut PageWrite<'_>,
        promise: VisibilityBits,
    ) -> Result<(), StoreError> {
        let (relation, block) = (self.relation, bytes.block());
        let says_so = Page::new(bytes, relation.block_size)
            .is_ok_and(|page| page.header().flags().contains(PageFlags::ALL_VISIBLE));
        if promise.is_empty() {
            return relation.before_change(bytes);
        }
        if !says_so {
            relation.open_page(bytes)?.set_flags(PageFlags::ALL_VISIBLE, true);
        }
        if relation.visibility(block)? != promise {
            relation.visibility.set(&relation.pool, block, promise)?;
        }
        Ok(())
    }

    /// Goes on to the index with what is remembered, unless it is too little.
    #[doc(alias = "lazy_vacuum")]
    fn finish_dead(&mut self, blocks: u32) -> Result<(), StoreError> {
        if self.dead.is_empty() || self.options.index_cleanup == IndexCleanup::Never {
            return Ok(());
        }
        let few_pages = u64::from(self.pages_with_dead) < u64::from(blocks) * 2 / 100;
        let few = few_pages && self.dead.len() < FEW_DEAD && self.report.index_passes == 0;
        if few && self.options.index_cleanup == IndexCleanup::Auto {
            self.report.bypassed = true;
            return Ok(());
        }
        self.remove_dead()
    }

    /// Has the index forget the rows that are gone, then frees their line pointers.
    fn remove_dead(&mut self) -> Result<(), StoreError> {
        let dead = core::mem::take(&mut self.dead);
        if let Some(index) = self.index {
            let mut is_gone = |tid: ItemPointer| dead.binary_search(&tid).is_ok();
            self.report.index_entries_removed += index.remove(&mut is_gone)?;
        }
        self.report.index_passes += 1;
        for of_block in dead.chunk_by(|one, other| one.block == other.block) {
            if let Some(first) = of_block.first() {
                self.second_pass(first.block)?;
            }
        }
        Ok(())
    }

    /// The second pass over a page.
    #[doc(alias = "lazy_vacuum_heap_page")]
    fn second_pass(&mut self, block: BlockNumber) -> Result<(), StoreError> {
        let relation = self.relation;
        let error = |error| relation.page_error(block, error);
        let mut bytes = relation.pool.write(relation.main, block)?;
        let mut page = bytes.open(relation.block_size).map_err(error)?;
        let freed = page::free_dead(&mut page).map_err(error)?;
        self.report.dead_items_removed += u64::from(freed);
        let status = Outcomes(&relation.transactions);
        let contents = Contents::of(page.page(), self.cutoffs.horizon, self.oldest, &status);
        let free = usize::from(page.page().heap_free_bytes());
        self.promise(&mut bytes, contents.bits)?;
        drop(bytes);
        relation.free.record(block, free);
        self.count_bits(contents.bits);
        Ok(())
    }
}

/// The dead line pointers of a page.
fn dead_items(page: Page<'_>, block: BlockNumber) -> impl Iterator<Item = ItemPointer> + use<'_> {
    page.items()
        .filter(|(_, pointer)| pointer.state() == LineState::Dead)
        .map(move |(item, _)| ItemPointer::new(block, item))
}

/// The most that a transaction's age can be.
const MAX_FREEZE_AGE: u32 = 1_000_000_000;
/// Dead line pointers that are too few to go through an index for.
const FEW_DEAD: usize = (32 << 20) / 6;
/// Pages in a row that are worth leaving out.
#[doc(alias = "SKIP_PAGES_THRESHOLD")]
const WORTH_SKIPPING: u32 = 32;
const READ_AHEAD: u32 = 32;
