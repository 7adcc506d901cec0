//! A table's values against the chunks of its TOAST relation, and those against its index.
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pgtoast_toast::{ChunkSize, ValueIdWidth};

use super::super::columns_plan::ColumnsPlan;
use super::super::crew::crew;
use super::super::deep::DeepQueue;
use super::super::heap::{Rows, Values};
use super::super::pieces::Pieces;
use super::super::report::Report;
use super::super::runs::{Run, RunCollector, RunWindow};
use super::super::toast_index;
use super::super::value_table::ValueTable;
use super::super::{Coverage, Finding, FindingKind, Readable, SkipReason};
use super::{Maps, Part, Unit};

/// A table and its TOAST relation, together.
pub(super) struct ValuesCheck<'a, 'r> {
    pub(super) unit: &'a Unit,
    pub(super) toast: &'a Part,
    pub(super) main_maps: Maps,
    pub(super) main_plan: Option<ColumnsPlan<'a>>,
    pub(super) toast_maps: Maps,
    pub(super) toast_plan: Option<ColumnsPlan<'a>>,
    pub(super) threads: usize,
    pub(super) report: &'a Report<'r>,
}

impl ValuesCheck<'_, '_> {
    /// The TOAST relation, then the table, for as many windows of value ids as memory asks for.
    pub(super) fn run(&self, buffer: &mut Vec<u8>, coverage: &mut Coverage) {
        let mut window = Window { start: 0, end: IDS, is_first: true };
        let (mut is_index_sound, mut hidden_orphans) = (false, 0);
        while window.start < IDS {
            window.end = IDS;
            let (table, is_sound) = self.collect(&mut window, buffer, coverage);
            is_index_sound |= is_sound;
            let are_rows_known = self.compare(window, &table, is_index_sound, buffer, coverage);
            for orphan in table.orphans() {
                // A row that cannot be read may be the one that leads there.
                if !are_rows_known {
                    hidden_orphans += 1;
                    continue;
                }
                let (chunks, bytes) = (orphan.chunks, orphan.bytes);
                let kind = FindingKind::Orphan { chunks, bytes };
                let finding = self.toast.target.of_item(orphan.tid, kind, Readable::All);
                self.report.tell(Finding { value_id: Some(orphan.value_id), ..finding });
            }
            window = Window { start: window.end, end: IDS, is_first: false };
        }
        if hidden_orphans > 0 {
            let reason = SkipReason::Orphans { values: hidden_orphans };
            self.report.skip(Some(&self.toast.subject), reason);
        }
    }

    /// The chunks of as many values as there is memory for, and in the first pass whether the index is
    /// sound by itself.
    fn collect(
        &self,
        window: &mut Window,
        buffer: &mut Vec<u8>,
        coverage: &mut Coverage,
    ) -> (ValueTable, bool) {
        let (unit, toast) = (self.unit, self.toast);
        let chunk_bytes = self.chunk_bytes();
        // Half for runs while they are collected and half for them together.
        let room = unit.check.memory_bytes / 2 / size_of::<Run>();
        let runs_window = RunWindow::new(window.start, window.end, room);
        let (is_first, is_sound) = (window.is_first, AtomicBool::new(false));
        let index = Mutex::new(unit.index.as_ref().filter(|_| is_first));
        let pieces = toast.pieces(self.threads);
        let runs = crew(self.threads, buffer, self.report, coverage, |buffer, coverage| {
            // One has the index to itself, and comes to help when that is done.
            let index = index.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(index) = index {
                let sound = toast_index::is_sound(index, self.report, coverage);
                is_sound.store(sound, Ordering::Relaxed);
            }
            let rows = Rows::Chunks(RunCollector::new(&runs_window, chunk_bytes));
            let plan = self.toast_plan.as_ref();
            let mut heap = unit.heap(toast, &self.toast_maps, plan, rows, self.report);
            heap.is_first_pass = is_first;
            heap.run(&pieces, buffer, coverage);
            match heap.rows {
                Rows::Chunks(collector) => collector.into_runs(),
                Rows::Plain { .. } | Rows::Values(_) => Vec::new(),
            }
        });
        window.end = runs_window.end();
        (ValueTable::new(runs, window.end, chunk_bytes), is_sound.into_inner())
    }

    /// Rows against chunks, and entries of the index against chunks. Whether all rows could be read.
    fn compare(
        &self,
        window: Window,
        table: &ValueTable,
        is_index_sound: bool,
        buffer: &mut Vec<u8>,
        coverage: &mut Coverage,
    ) -> bool {
        let (unit, toast) = (self.unit, self.toast);
        let chunk_size = unit.control.chunk_size(ValueIdWidth::Oid);
        let index = unit.index.as_ref().filter(|_| is_index_sound);
        let parts = table.parts(window.start..window.end, self.threads);
        let index_pieces = Pieces::new(u32::try_from(parts.len()).unwrap_or(u32::MAX), 2, 1);
        let pieces = unit.main.pieces(self.threads);
        let broken = crew(self.threads, buffer, self.report, coverage, |buffer, coverage| {
            let values = Values {
                toast: toast.subject.oid,
                table,
                start: window.start,
                end: window.end,
                hint: 0,
                deep: unit.deep_queue(toast, chunk_size, self.threads, self.report),
            };
            let (plan, rows) = (self.main_plan.as_ref(), Rows::Values(values));
            let mut heap = unit.heap(&unit.main, &self.main_maps, plan, rows, self.report);
            heap.is_first_pass = window.is_first;
            heap.run(&pieces, buffer, coverage);
            if let Rows::Values(Values { deep: Some(deep), .. }) = &mut heap.rows {
                deep.flush(coverage);
            }
            if let Some(index) = index {
                for part in (&index_pieces).flatten() {
                    let Some(ids) = parts.get(part as usize) else { break };
                    let heap = &toast.target.fork;
                    toast_index::compare(index, heap, table, ids.clone(), self.report);
                }
            }
            heap.broken
        });
        broken.iter().sum::<u64>() == 0 && self.main_plan.is_some()
    }

    fn chunk_bytes(&self) -> u16 {
        let chunk_size = self.unit.control.chunk_size(ValueIdWidth::Oid);
        u16::try_from(chunk_size.bytes()).unwrap_or(u16::MAX)
    }
}

/// The value ids that one pass is about.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: u64,
    end: u64,
    /// Whether it is the first, which judges headers and attributes, too.
    is_first: bool,
}

impl Unit {
    fn deep_queue<'a, 'r>(
        &'a self,
        toast: &'a Part,
        chunk_size: ChunkSize,
        threads: usize,
        report: &'a Report<'r>,
    ) -> Option<DeepQueue<'a, 'r>> {
        let most = self.check.memory_bytes / 4 / POINTER_BYTES / threads;
        let (target, table) = (&toast.target, &self.main.target);
        self.check.is_deep.then(|| DeepQueue::new(target, table, report, chunk_size, most.max(16)))
    }
}

/// One more than the highest value id.
const IDS: u64 = 1 << 32;
/// What a pointer that waits to be decompressed takes, about.
const POINTER_BYTES: usize = 256;
