//! The tuples of a heap's pages.
mod chunks;
mod headers;
mod values;

use core::cell::Cell;

use pgtoast_base::{BlockNumber, ItemPointer, Oid};
use pgtoast_page::{HeapTuple, LinePointer, LineState, Page, PageFlags, VisibilityBits};

use super::chains::{self, ItemFate};
use super::columns_plan::{ColumnsPlan, Found};
use super::deep::DeepQueue;
use super::maps::{FreeSpace, VisibilityMap};
use super::pages::{self, PageFaults};
use super::pieces::Pieces;
use super::report::Report;
use super::runs::RunCollector;
use super::statuses::{Fate, Statuses};
use super::target::Target;
use super::value_table::ValueTable;
use super::{Coverage, Finding, FindingKind, Readable};
use headers::{RowFate, Signature, Verdict};

/// Judges the tuples of a heap, for one thread.
pub(super) struct HeapCheck<'a, 'r> {
    pub(super) target: &'a Target,
    pub(super) report: &'a Report<'r>,
    pub(super) statuses: Statuses<'a>,
    /// `None` where the catalogs do not say.
    pub(super) columns: Option<&'a ColumnsPlan<'a>>,
    pub(super) visibility: Option<&'a VisibilityMap>,
    pub(super) free_space: Option<&'a FreeSpace>,
    pub(super) rows: Rows<'a, 'r>,
    /// Whether headers and attributes are judged, or another pass has done so.
    pub(super) is_first_pass: bool,
    /// How many tuples could not be read, so that what they lead to is unknown.
    pub(super) broken: u64,
    fates: Vec<ItemFate>,
    /// The last header about which there was nothing to say, and what became of its tuple: those of a
    /// table are much alike.
    known: Option<(Signature, Verdict)>,
    /// How much there was to say.
    told: Cell<u64>,
    found: Vec<Found>,
    /// Whether the checksum of the page at hand is wrong.
    is_distrusted: bool,
    /// Whether the status of some transaction was told to be unknown: once is enough.
    status_told: bool,
}

impl<'a, 'r> HeapCheck<'a, 'r> {
    /// Of a table or of its TOAST relation.
    pub(super) const fn new(
        target: &'a Target,
        report: &'a Report<'r>,
        statuses: Statuses<'a>,
        rows: Rows<'a, 'r>,
    ) -> Self {
        Self {
            target,
            report,
            statuses,
            columns: None,
            visibility: None,
            free_space: None,
            rows,
            is_first_pass: true,
            broken: 0,
            fates: Vec::new(),
            known: None,
            told: Cell::new(0),
            found: Vec::new(),
            is_distrusted: false,
            status_told: false,
        }
    }
}

/// What the rows of a heap are.
pub(super) enum Rows<'a, 'r> {
    /// Rows of a table that leads to no TOAST relation that could be read; whether it has one.
    Plain { toast: Option<Oid> },
    /// Rows of a table with out-of-line values.
    Values(Values<'a, 'r>),
    /// Chunks of such values.
    Chunks(RunCollector<'a>),
}

/// What rows with out-of-line values are held against.
pub(super) struct Values<'a, 'r> {
    pub(super) toast: Oid,
    pub(super) table: &'a ValueTable,
    /// The ids that the table has all runs of.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) hint: usize,
    /// Where compressed values wait to be decompressed, if that was asked for.
    pub(super) deep: Option<DeepQueue<'a, 'r>>,
}

impl HeapCheck<'_, '_> {
    /// Judges all pages that there are left in `pieces`.
    pub(super) fn run(&mut self, pieces: &Pieces, buffer: &mut Vec<u8>, coverage: &mut Coverage) {
        let (target, report) = (self.target, self.report);
        if self.is_first_pass {
            let visit = |block, page: Page<'_>, faults: PageFaults<'_>, coverage: &mut Coverage| {
                self.page(block, page, faults, coverage);
            };
            self.broken += pages::each_page(target, pieces, buffer, report, coverage, visit);
            return;
        }
        for range in pieces {
            let mut blocks = target.fork.blocks_into(range, core::mem::take(buffer));
            while let Some(next) = blocks.next() {
                let Ok((block, bytes)) = next else { continue };
                coverage.bytes += bytes.len() as u64;
                let Ok(page) = Page::parse(bytes, target.fork.block_size()) else { continue };
                if !page.is_new() {
                    let is_distrusted = self.distrusts(block, page);
                    let faults = PageFaults { is_distrusted, ..PageFaults::default() };
                    self.page(block, page, faults, coverage);
                }
            }
            *buffer = blocks.into_buffer();
        }
    }

    /// Whether a page that an earlier pass has told about lies with its checksum about chunks.
    fn distrusts(&self, block: BlockNumber, page: Page<'_>) -> bool {
        matches!(self.rows, Rows::Chunks(_))
            && self.target.has_checksums
            && page.verify_checksum(block).is_err()
    }

    /// Judges a page of which `faults` are known.
    pub(super) fn page(
        &mut self,
        block: BlockNumber,
        page: Page<'_>,
        faults: PageFaults<'_>,
        coverage: &mut Coverage,
    ) {
        let bad_items = faults.items;
        self.broken += bad_items.len() as u64;
        self.is_distrusted = faults.is_distrusted;
        let promise = self.promise(block, page);
        if self.is_first_pass
            && let Some(map) = self.free_space
        {
            map.compare(block, page, coverage);
        }
        let mut has_chains = false;
        self.fates.clear();
        self.fates.resize(page.item_count().into(), ItemFate::None);
        let mut tuples = 0;
        // What is known of a header holds as long as pages promise the same.
        let mut known = self.known.filter(|(signature, _)| signature.promise == promise);
        for (item, pointer) in page.items() {
            let state = pointer.state();
            if state != LineState::Normal {
                has_chains |= state == LineState::Redirect;
                if state == LineState::Dead && promise.contains(VisibilityBits::ALL_VISIBLE) {
                    let tid = ItemPointer::new(block, item);
                    self.tell(self.target.of_item(tid, FindingKind::NotVisible, Readable::All));
                }
                continue;
            }
            if !bad_items.is_empty() && bad_items.contains(&item.get()) {
                continue;
            }
            let Some(tuple) = tuple_at(page, pointer) else { continue };
            tuples += 1;
            let tid = ItemPointer::new(block, item);
            let verdict = match &known {
                Some((signature, verdict)) if signature.is_of(&tuple) => *verdict,
                _ => {
                    let Some(verdict) = self.verdict(tid, &tuple, promise) else { continue };
                    known = self.known.filter(|(signature, _)| signature.promise == promise);
                    verdict
                }
            };
            has_chains |= verdict.may_be_chained;
            if let Some(fate) = item.index().and_then(|index| self.fates.get_mut(index)) {
                *fate = ItemFate::Known(verdict.fate.inserted);
            }
            self.contents(tid, &tuple, verdict.fate, coverage);
        }
        coverage.tuples += tuples;
        if has_chains && self.is_first_pass {
            chains::check(self.target, block, page, &self.fates, &self.statuses, self.report);
        }
    }

    /// What the block is promised to be by the map and by its own flag, which the map may not be ahead
    /// of.
    fn promise(&self, block: BlockNumber, page: Page<'_>) -> VisibilityBits {
        if !self.is_first_pass {
            return VisibilityBits::empty();
        }
        let mut promise = self.visibility.map_or(VisibilityBits::empty(), |map| map.of(block));
        let has_flag = page.header().flags().contains(PageFlags::ALL_VISIBLE);
        if !promise.is_empty() && !has_flag {
            self.tell(self.target.of_block(block, FindingKind::VisibilityFlag, Readable::All));
            return VisibilityBits::empty();
        }
        if has_flag {
            promise |= VisibilityBits::ALL_VISIBLE;
        }
        promise
    }

    /// What the tuple holds, if somebody may read it.
    #[inline]
    fn contents(
        &mut self,
        tid: ItemPointer,
        tuple: &HeapTuple<'_>,
        fate: RowFate,
        coverage: &mut Coverage,
    ) {
        if let Rows::Chunks(_) = self.rows {
            self.chunk(tid, tuple, fate);
        } else if fate.inserted != Fate::Undone
            && let Some(plan) = self.columns
        {
            self.row(tid, tuple, plan, fate, coverage);
        }
    }

    fn first_pass_only(&self, finding: impl FnOnce(&Self) -> Finding) {
        if self.is_first_pass {
            self.tell(finding(self));
        }
    }

    fn tell(&self, finding: Finding) {
        self.told.set(self.told.get() + 1);
        self.report.tell(finding);
    }
}

/// The tuple that a line pointer leads to.
#[inline]
fn tuple_at<'p>(page: Page<'p>, pointer: LinePointer) -> Option<HeapTuple<'p>> {
    let (start, len) = (usize::from(pointer.offset()), usize::from(pointer.len()));
    HeapTuple::new(page.bytes().get(start..start + len)?).ok()
}
