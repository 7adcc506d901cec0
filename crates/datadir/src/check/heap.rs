//! The tuples of a heap's pages.
use core::cell::Cell;

use pgtoast_base::{BlockNumber, ItemPointer, Oid, Oid8};
use pgtoast_page::{
    Attribute, Datum, HeapTuple, Infomask, Infomask2, LinePointer, LineState, Page, PageFlags,
    TupleDescriptor, TupleError, TupleHeader, Value, VisibilityBits,
};
use pgtoast_varlena::{CompressionMethod, MAX_DATUM_LEN, ToastPointer, Varlena};

use super::chains::{self, ItemFate};
use super::columns_plan::{ColumnsPlan, Found};
use super::deep::DeepQueue;
use super::maps::{FreeSpace, VisibilityMap};
use super::pages::PageFaults;
use super::report::Report;
use super::runs::{ChunkFault, ChunkSeen, RunCollector, ValueTable};
use super::statuses::{Fate, Statuses};
use super::target::Target;
use super::{Coverage, Finding, FindingKind, Readable};

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

    /// Judges the header of a tuple, and remembers what it says if there is nothing to say about it;
    /// `None` if it is too broken to say what became of it.
    fn verdict(
        &mut self,
        tid: ItemPointer,
        tuple: &HeapTuple<'_>,
        promise: VisibilityBits,
    ) -> Option<Verdict> {
        let told = self.told.get();
        let verdict = self.judge(tid, tuple, promise)?;
        if told == self.told.get()
            && let Some(signature) = Signature::of(tuple, promise)
        {
            self.known = Some((signature, verdict));
        }
        Some(verdict)
    }

    /// The same, remembering nothing.
    fn judge(
        &mut self,
        tid: ItemPointer,
        tuple: &HeapTuple<'_>,
        promise: VisibilityBits,
    ) -> Option<Verdict> {
        let header = tuple.header();
        let may_be_chained = chains::may_be_chained(header);
        if self.is_first_pass
            && let Err(kind) = self.header(tid, tuple)
        {
            return self.unreadable(tid, kind);
        }
        let inserted = match self.statuses.inserted(header) {
            Ok(fate) => fate,
            Err(kind) => return self.unreadable(tid, kind),
        };
        // Nobody reads what was never inserted, and a change of the table may have been undone too.
        if inserted == Fate::Undone {
            if promise.contains(VisibilityBits::ALL_VISIBLE) {
                self.tell(self.target.of_item(tid, FindingKind::NotVisible, Readable::All));
            }
            let fate = RowFate { inserted, ended: Fate::Undone };
            return Some(Verdict { fate, may_be_chained });
        }
        let ended = match self.statuses.ended(header) {
            Ok(fate) => fate,
            Err(kind) => {
                self.told_once(tid, kind);
                // Another one like it is no better known.
                self.told.set(self.told.get() + 1);
                Fate::InProgress
            }
        };
        if !promise.is_empty() {
            self.hold_to(tid, header, promise, inserted, ended);
        }
        Some(Verdict { fate: RowFate { inserted, ended }, may_be_chained })
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

    /// A tuple that cannot be judged any further.
    #[cold]
    fn unreadable(&mut self, tid: ItemPointer, kind: FindingKind) -> Option<Verdict> {
        self.broken += 1;
        self.told_once(tid, kind);
        None
    }

    /// Tells a fault of a header, but that a log is missing only once: it is missing for all.
    fn told_once(&mut self, tid: ItemPointer, kind: FindingKind) {
        if !self.is_first_pass {
            return;
        }
        if matches!(kind, FindingKind::CommitStatus { .. }) {
            if self.status_told {
                return;
            }
            self.status_told = true;
        }
        self.tell(self.target.of_item(tid, kind, Readable::OtherItems));
    }

    /// What a header says for itself.
    #[inline]
    fn header(&self, tid: ItemPointer, tuple: &HeapTuple<'_>) -> Result<(), FindingKind> {
        let header = tuple.header();
        let (infomask, infomask2) = (header.infomask(), header.infomask2());
        if usize::from(header.hoff()) > tuple.bytes().len() {
            let (hoff, len) = (header.hoff(), tuple.bytes().len());
            return Err(FindingKind::Tuple(TupleError::DataPastEnd { hoff, len }));
        }
        let tell = |kind| self.tell(self.target.of_item(tid, kind, Readable::All));
        if infomask.contains(Infomask::XMAX_COMMITTED.union(Infomask::XMAX_IS_MULTI)) {
            tell(FindingKind::MultiCommitted);
        }
        if infomask2.contains(Infomask2::HOT_UPDATED)
            && header.is_hot_updated()
            && self.statuses.update_xid(header).is_ok_and(|xmax| !xmax.is_valid())
        {
            tell(FindingKind::HotWithoutXmax);
        }
        if infomask2.contains(Infomask2::HEAP_ONLY) && !infomask.contains(Infomask::UPDATED) {
            tell(FindingKind::HeapOnlyWithoutUpdate);
        }
        let (expected, found) = (header.expected_hoff(), header.hoff());
        if expected != usize::from(found) {
            return Err(FindingKind::Tuple(TupleError::DataStart { expected, found }));
        }
        Ok(())
    }

    /// Holds a tuple to what is promised of its block.
    #[inline]
    fn hold_to(
        &self,
        tid: ItemPointer,
        header: &TupleHeader,
        promise: VisibilityBits,
        inserted: Fate,
        ended: Fate,
    ) {
        let kind = if inserted != Fate::Committed || ended != Fate::Undone {
            FindingKind::NotVisible
        } else if promise.contains(VisibilityBits::ALL_FROZEN) && needs_freezing(header) {
            FindingKind::NotFrozen
        } else {
            return;
        };
        self.tell(self.target.of_item(tid, kind, Readable::All));
    }

    /// The attributes of a row.
    #[inline]
    fn row(
        &mut self,
        tid: ItemPointer,
        tuple: &HeapTuple<'_>,
        plan: &ColumnsPlan<'_>,
        row: RowFate,
        coverage: &mut Coverage,
    ) {
        if !plan.walk(tuple, &mut self.found) {
            return self.broken_row(tid, tuple, plan, row, coverage);
        }
        for index in 0..self.found.len() {
            let Found { number, offset, len } = self.found[index];
            if let Some(bytes) = tuple.bytes().get(offset..offset + len) {
                self.datum(tid, tuple, number, &Datum { bytes, offset }, row, coverage);
            }
        }
    }

    /// A row with a broken attribute: says which, and judges what comes before it.
    #[cold]
    fn broken_row(
        &mut self,
        tid: ItemPointer,
        tuple: &HeapTuple<'_>,
        plan: &ColumnsPlan<'_>,
        row: RowFate,
        coverage: &mut Coverage,
    ) {
        // A table has no more columns than a descriptor takes.
        let Ok(descriptor) = TupleDescriptor::new(&plan.attributes) else { return };
        let attributes = match tuple.deform(descriptor) {
            Ok(attributes) => attributes,
            // Somebody who adds a column in a transaction that goes on makes rows that are ahead of
            // the catalogs.
            Err(TupleError::AttributeCount { .. }) if row.inserted == Fate::InProgress => return,
            Err(error) => {
                self.broken += 1;
                return self.first_pass_only(|check| {
                    let kind = FindingKind::Tuple(error);
                    check.target.of_item(tid, kind, Readable::OtherItems)
                });
            }
        };
        self.broken += 1;
        let mut fault = None;
        for attribute in attributes {
            match attribute {
                Ok(Attribute { number, value: Value::Stored(datum), .. }) => {
                    if plan.varlenas.contains(&(number - 1)) {
                        self.datum(tid, tuple, number, &datum, row, coverage);
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    fault = Some(error);
                    break;
                }
            }
        }
        let Some(error) = fault else { return };
        self.first_pass_only(|check| {
            let kind = FindingKind::Tuple(error);
            let number = attribute_of(error);
            let name = number.and_then(|number| check.columns?.name(number));
            match (number, name) {
                (Some(number), Some(name)) => {
                    let readable = Readable::ColumnsBefore(number);
                    check.target.of_column(tid, name, kind, readable)
                }
                _ => check.target.of_item(tid, kind, Readable::OtherItems),
            }
        });
    }

    fn first_pass_only(&self, finding: impl FnOnce(&Self) -> Finding) {
        if self.is_first_pass {
            self.tell(finding(self));
        }
    }

    /// A value that is compressed or out of line.
    fn datum(
        &mut self,
        tid: ItemPointer,
        tuple: &HeapTuple<'_>,
        number: u16,
        datum: &Datum<'_>,
        row: RowFate,
        coverage: &mut Coverage,
    ) {
        let kind = match datum.varlena() {
            Ok(Varlena::External(pointer)) => {
                let is_flagged = tuple.header().infomask().contains(Infomask::HAS_EXTERNAL);
                return self.external(tid, number, &pointer, is_flagged, row, coverage);
            }
            Ok(Varlena::Compressed(compressed)) => {
                let (raw_len, bits) = (compressed.info.len(), compressed.info.word() >> 30);
                #[expect(clippy::cast_possible_truncation, reason = "two bits, and thirty")]
                let (bits, raw_len_32) = (bits as u8, raw_len as u32);
                let stream_len = compressed.stream.len();
                let is_possible = CompressionMethod::from_bits(bits).is_some_and(|method| {
                    raw_len <= pgtoast_codec::maximum_raw_len(method, stream_len)
                });
                if is_possible {
                    let method = CompressionMethod::from_bits(bits);
                    let deep = match &self.rows {
                        Rows::Values(values) => values.deep.as_ref(),
                        _ => None,
                    };
                    let error = match (deep, method) {
                        (Some(_), Some(method)) if self.is_first_pass => {
                            coverage.decompressed += 1;
                            pgtoast_codec::decompress_to_vec(method, compressed.stream, raw_len)
                                .err()
                        }
                        _ => None,
                    };
                    let Some(error) = error else { return };
                    FindingKind::Decompress { error }
                } else {
                    FindingKind::InlineCompression { raw_len: raw_len_32, bits }
                }
            }
            Ok(_) => return,
            Err(error) => FindingKind::Varlena(error),
        };
        self.first_pass_only(|check| {
            check.of_value(tid, number, None, kind, Readable::OtherColumns)
        });
    }

    fn of_value(
        &self,
        tid: ItemPointer,
        number: u16,
        value_id: Option<Oid8>,
        kind: FindingKind,
        readable: Readable,
    ) -> Finding {
        let column = self.columns.and_then(|plan| plan.name(number));
        Finding { column, value_id, ..self.target.of_item(tid, kind, readable) }
    }

    /// A pointer to a value.
    fn external(
        &mut self,
        tid: ItemPointer,
        number: u16,
        pointer: &ToastPointer,
        is_flagged: bool,
        row: RowFate,
        coverage: &mut Coverage,
    ) {
        let value_id = pointer.value_id();
        let is_first_pass = self.is_first_pass;
        let is_living = row.ended != Fate::Committed;
        let fault = pointer_fault(pointer).or(match &self.rows {
            Rows::Plain { toast: None } => Some(FindingKind::ToastRelationMissing),
            _ if !is_flagged => Some(FindingKind::ExternalUnflagged),
            _ => None,
        });
        if is_first_pass && let Some(kind) = fault {
            let readable = match kind {
                FindingKind::ExternalUnflagged => Readable::All,
                _ => Readable::OtherColumns,
            };
            self.tell(self.of_value(tid, number, value_id, kind, readable));
        }
        let ToastPointer::Oid(_) = pointer else { return };
        let Rows::Values(values) = &mut self.rows else { return };
        if is_first_pass && pointer.toast_rel_id() != values.toast && is_living {
            let (found, expected) = (pointer.toast_rel_id(), values.toast);
            let kind = FindingKind::PointerRelation { found, expected };
            let column = self.columns.and_then(|plan| plan.name(number));
            let finding = self.target.of_item(tid, kind, Readable::All);
            self.report.tell(Finding { column, value_id, ..finding });
        }
        let id = value_id.map_or(0, Oid8::get);
        if id < values.start || id >= values.end {
            return;
        }
        let Ok(id) = u32::try_from(id) else { return };
        let runs = values.table.find(id, &mut values.hint);
        // A dead version may outlive its chunks, which are vacuumed apart.
        if !is_living {
            coverage.dead_values += 1;
            return;
        }
        coverage.values += 1;
        if fault.is_some_and(|kind| !matches!(kind, FindingKind::ExternalUnflagged)) {
            return;
        }
        // Rows of a transaction that is not over may be ahead of their chunks where the log has not
        // been replayed.
        if row.inserted == Fate::InProgress && !self.statuses.bounds.is_known() {
            return;
        }
        match values.table.judge(pointer, runs) {
            // Who deletes the row deletes its chunks, and both go on.
            Some(verdict)
                if verdict.kind == FindingKind::ChunkDeleted && row.ended != Fate::Undone => {}
            Some(verdict) => {
                self.tell(self.of_value(tid, number, value_id, verdict.kind, verdict.readable));
            }
            None => {
                if let Some(deep) = &mut values.deep
                    && pointer.is_compressed()
                {
                    let column = self.columns.and_then(|plan| plan.name(number));
                    deep.push(*pointer, tid, column, coverage);
                }
            }
        }
    }

    /// A chunk of a value.
    #[inline]
    fn chunk(&mut self, tid: ItemPointer, tuple: &HeapTuple<'_>, fate: RowFate) {
        let infomask = tuple.header().infomask();
        let hint = infomask.intersection(Infomask::XMIN_FROZEN);
        // What the server's rule for reading chunks makes of it, which looks at the hint alone.
        let is_read = hint != Infomask::XMIN_INVALID && tuple.header().xmin().is_valid();
        if !is_read {
            return;
        }
        let Some(mut chunk) = parse_chunk(tid, tuple, fate) else {
            if fate.inserted != Fate::Undone {
                self.broken_chunk(tid, tuple);
            }
            return;
        };
        if let Rows::Chunks(collector) = &mut self.rows {
            chunk.is_distrusted = self.is_distrusted;
            collector.take(&chunk);
        }
    }

    #[cold]
    fn broken_chunk(&self, tid: ItemPointer, tuple: &HeapTuple<'_>) {
        self.first_pass_only(|check| {
            let attributes = tuple.header().natts();
            let descriptor =
                check.columns.and_then(|plan| TupleDescriptor::new(&plan.attributes).ok());
            let error = descriptor.and_then(|descriptor| match tuple.deform(descriptor) {
                Ok(mut attributes) => attributes.find_map(Result::err),
                Err(error) => Some(error),
            });
            let kind = error.map_or(FindingKind::ChunkTuple { attributes }, FindingKind::Tuple);
            let column =
                error.and_then(attribute_of).and_then(|number| check.columns?.name(number));
            Finding { column, ..check.target.of_item(tid, kind, Readable::OtherItems) }
        });
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

/// All that a tuple's header is judged by, but its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Signature {
    /// xmin and xmax.
    xids: u64,
    /// Both words of flags, and where the attributes start.
    flags: u64,
    promise: VisibilityBits,
}

impl Signature {
    /// Of most tuples: the others have to be judged one by one.
    fn of(tuple: &HeapTuple<'_>, promise: VisibilityBits) -> Option<Self> {
        let (xids, flags) = words(tuple.bytes().first_chunk()?);
        // The others name a transaction in another field, too.
        let is_usual = !tuple.header().infomask().intersects(Infomask::MOVED);
        is_usual.then_some(Self { xids, flags, promise })
    }

    /// Whether a tuple's header says the same, and its attributes begin within the tuple.
    #[inline]
    fn is_of(&self, tuple: &HeapTuple<'_>) -> bool {
        let Some(header) = tuple.bytes().first_chunk() else { return false };
        let is_within = usize::from(tuple.header().hoff()) <= tuple.bytes().len();
        words(header) == (self.xids, self.flags) && is_within
    }
}

/// xmin and xmax, and all flags with the start of the attributes: without the item number in front of them
/// and whatever is behind.
#[inline]
fn words(header: &[u8; 24]) -> (u64, u64) {
    let [xids, _, flags] = header.as_chunks().0 else { return (0, 0) };
    (u64::from_le_bytes(*xids), u64::from_le_bytes(*flags) & 0x00ff_ffff_ffff_0000)
}

/// What a header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    fate: RowFate,
    may_be_chained: bool,
}

/// What became of a row's insertion and of its end.
#[derive(Clone, Copy, Debug)]
struct RowFate {
    inserted: Fate,
    ended: Fate,
}

/// Whether vacuum would still have something to freeze.
fn needs_freezing(header: &TupleHeader) -> bool {
    let infomask = header.infomask();
    let xmin_needs = header.xmin().is_normal() && !infomask.contains(Infomask::XMIN_FROZEN);
    let xmax = header.xmax();
    let xmax_needs =
        if infomask.contains(Infomask::XMAX_IS_MULTI) { xmax.get() != 0 } else { xmax.is_normal() };
    xmin_needs || xmax_needs || infomask.intersects(Infomask::MOVED)
}

/// What is wrong with a pointer by itself.
fn pointer_fault(pointer: &ToastPointer) -> Option<FindingKind> {
    let ToastPointer::Oid(_) = pointer else { return Some(FindingKind::PointerKind) };
    let raw_len = pointer.raw_len();
    let stored_len = u32::try_from(pointer.stored_len()).unwrap_or(u32::MAX);
    if usize::try_from(raw_len).is_ok_and(|raw_len| raw_len > MAX_DATUM_LEN) {
        return Some(FindingKind::RawLength { raw_len });
    }
    // What is stored is the raw value without its header, or less.
    let is_possible = stored_len != 0 && i64::from(stored_len) <= i64::from(raw_len) - 4;
    if !is_possible {
        return Some(FindingKind::PointerLengths { raw_len, stored_len });
    }
    let bits = (pointer.ext_info().word() >> 30) as u8;
    let is_known = !pointer.is_compressed() || CompressionMethod::from_bits(bits).is_some();
    (!is_known).then_some(FindingKind::CompressionMethod { bits })
}

const fn attribute_of(error: TupleError) -> Option<u16> {
    match error {
        TupleError::AttributeEnd { attribute, .. }
        | TupleError::AttributeStart { attribute, .. }
        | TupleError::AttributeUnreachable { attribute, .. }
        | TupleError::Unterminated { attribute, .. }
        | TupleError::Varlena { attribute, .. } => Some(attribute),
        _ => None,
    }
}

/// What a tuple of a TOAST relation says of its chunk; `None` if it is none.
#[inline]
fn parse_chunk(
    tid: ItemPointer,
    tuple: &HeapTuple<'_>,
    RowFate { inserted, ended }: RowFate,
) -> Option<ChunkSeen> {
    let header = tuple.header();
    if header.natts() != CHUNK_ATTRIBUTES {
        return None;
    }
    let (mut is_null, mut rest) = ([false; 3], tuple.bytes().get(usize::from(header.hoff())..)?);
    if header.infomask().contains(Infomask::HAS_NULL) {
        let bitmap = *tuple.bytes().get(TupleHeader::LEN)?;
        is_null = [0, 1, 2].map(|bit| bitmap >> bit & 1 == 0);
    }
    if is_null[0] {
        return None;
    }
    let mut word = || {
        let (word, behind) = rest.split_first_chunk()?;
        rest = behind;
        Some(u32::from_le_bytes(*word))
    };
    let value_id = word()?;
    let (seq, mut fault) =
        if is_null[1] { (u32::MAX, Some(ChunkFault::NullSequence)) } else { (word()?, None) };
    let mut data: &[u8] = &[];
    if is_null[2] {
        fault = fault.or(Some(ChunkFault::NullData));
    } else {
        match Varlena::parse(rest, 0).ok()?.0 {
            Varlena::Long(payload) | Varlena::Short(payload) => data = payload,
            Varlena::Compressed(_) | Varlena::External(_) => {
                fault = fault.or(Some(ChunkFault::Toasted));
            }
        }
    }
    Some(ChunkSeen {
        value_id,
        seq,
        len: u16::try_from(data.len()).ok()?,
        head: data.first_chunk().map_or(0, |head| u32::from_le_bytes(*head)),
        tid,
        is_live: inserted == Fate::Committed && ended == Fate::Undone,
        is_deleted: ended == Fate::Committed,
        is_distrusted: false,
        fault,
    })
}

/// `chunk_id`, `chunk_seq`, `chunk_data`.
const CHUNK_ATTRIBUTES: u16 = 3;
