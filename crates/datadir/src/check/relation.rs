//! A relation and all that belongs to it: the unit of a check.
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pgtoast_base::{BlockNumber, Oid};
use pgtoast_page::{AttributeLen, Page};
use pgtoast_toast::{ChunkSize, ValueIdWidth};

use super::columns_plan::ColumnsPlan;
use super::deep::DeepQueue;
use super::heap::{HeapCheck, Rows, Values};
use super::maps::{FreeSpace, MapFork, VisibilityMap};
use super::pages::PageFaults;
use super::pieces::Pieces;
use super::report::Report;
use super::runs::{Run, RunCollector, RunWindow, ValueTable};
use super::statuses::{Bounds, Statuses};
use super::target::Target;
use super::toast_index;
use super::{Check, Coverage, Finding, FindingKind, Readable, SkipReason, Subject, pages};
use crate::{
    Columns, Consistency, ControlFile, DataFile, Database, DatadirError, Fork, Relation,
    RelationFile, RelationFork, RelationKind, Transactions,
};

/// A relation with its files, and with its TOAST relation if it has one.
pub(super) struct Unit {
    check: Check,
    main: Part,
    toast: Option<Part>,
    /// The index of the TOAST relation, if its file is there.
    index: Option<Target>,
    /// Whether the table has a TOAST relation, be it readable or not.
    toast_oid: Option<Oid>,
    control: ControlFile,
    transactions: Arc<Transactions>,
}

/// A relation's forks.
struct Part {
    subject: Arc<Subject>,
    target: Target,
    maps: Vec<(Fork, Target)>,
    columns: Option<Columns>,
    bounds: Bounds,
    is_btree: bool,
}

impl Unit {
    /// Opens the files; tells those that are missing. `None` if there is nothing to read.
    pub(super) fn open(
        check: &Check,
        database: &Database,
        oid: Oid,
        report: &Report<'_>,
    ) -> Option<Self> {
        let relation = database.relation(oid)?;
        let toast_relation = database.toast_of(relation);
        let toast = toast_relation.and_then(|toast| Part::open(check, database, toast, report));
        let main = Part::open(check, database, relation, report)?;
        let index = toast_relation.and_then(|toast| index_target(check, database, toast));
        let directory = database.directory();
        Some(Self {
            check: *check,
            index,
            main,
            toast,
            toast_oid: relation.toast_relation,
            control: *directory.control(),
            transactions: Arc::clone(directory.transactions()),
        })
    }

    /// The blocks of the relation and of its TOAST relation.
    pub(super) fn blocks(&self) -> u64 {
        let toast = self.toast.as_ref().map_or(0, |part| part.target.fork.block_count());
        u64::from(self.main.target.fork.block_count()) + u64::from(toast)
    }

    /// Checks all of it with so many threads. What is read goes through `buffer`, or through one for
    /// each thread.
    pub(super) fn check(&self, threads: usize, buffer: &mut Vec<u8>, report: &Report<'_>) {
        let mut coverage = Coverage { relations: 1, ..Coverage::default() };
        if self.main.target.is_heap {
            self.check_heap(threads, buffer, report, &mut coverage);
        } else {
            self.check_pages(threads, buffer, report, &mut coverage);
        }
        report.add(&coverage);
    }

    fn check_heap(
        &self,
        threads: usize,
        buffer: &mut Vec<u8>,
        report: &Report<'_>,
        coverage: &mut Coverage,
    ) {
        let maps = self.main.read_maps(&self.check, buffer, report, coverage);
        let plan = self.main.columns.as_ref().map(ColumnsPlan::new);
        if let Some(toast) = &self.toast {
            coverage.relations += 1;
            let values = ValuesCheck {
                unit: self,
                toast,
                main_maps: maps,
                main_plan: plan,
                toast_maps: toast.read_maps(&self.check, buffer, report, coverage),
                toast_plan: toast.columns.as_ref().map(ColumnsPlan::new),
                threads,
                report,
            };
            return values.run(buffer, coverage);
        }
        if self.toast_oid.is_some() {
            report.skip(Some(&self.main.subject), SkipReason::ToastUnreadable);
        }
        let pieces = self.main.pieces(threads);
        crew(threads, buffer, report, coverage, |buffer, coverage| {
            let rows = Rows::Plain { toast: self.toast_oid };
            let mut heap = self.heap(&self.main, &maps, plan.as_ref(), rows, report);
            heap.run(&pieces, buffer, coverage);
        });
    }

    /// The pages of a relation whose rows are nobody's business here.
    fn check_pages(
        &self,
        threads: usize,
        buffer: &mut Vec<u8>,
        report: &Report<'_>,
        coverage: &mut Coverage,
    ) {
        let part = &self.main;
        let targets = [&part.target].into_iter().chain(part.maps.iter().map(|(_, target)| target));
        for target in targets {
            let pieces = Pieces::new(target.fork.block_count(), threads, LEAST_PIECE);
            crew(threads, buffer, report, coverage, |buffer, coverage| {
                pages::each_page(target, &pieces, buffer, report, coverage, |_, _, _, _| {});
            });
        }
        if part.is_btree {
            part.check_first_page(report);
        }
    }

    fn heap<'a, 'r>(
        &'a self,
        part: &'a Part,
        maps: &'a Maps,
        columns: Option<&'a ColumnsPlan<'a>>,
        rows: Rows<'a, 'r>,
        report: &'a Report<'r>,
    ) -> HeapCheck<'a, 'r> {
        let statuses = Statuses::new(part.bounds, &self.transactions);
        let mut heap = HeapCheck::new(&part.target, report, statuses, rows);
        heap.columns = columns;
        heap.visibility = maps.visibility.as_ref();
        heap.free_space = maps.free_space.as_ref();
        heap
    }
}

/// A table and its TOAST relation, together.
struct ValuesCheck<'a, 'r> {
    unit: &'a Unit,
    toast: &'a Part,
    main_maps: Maps,
    main_plan: Option<ColumnsPlan<'a>>,
    toast_maps: Maps,
    toast_plan: Option<ColumnsPlan<'a>>,
    threads: usize,
    report: &'a Report<'r>,
}

impl ValuesCheck<'_, '_> {
    /// The TOAST relation, then the table, for as many windows of value ids as memory asks for.
    fn run(&self, buffer: &mut Vec<u8>, coverage: &mut Coverage) {
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

/// Runs `work` on so many threads, this one among them, each with a buffer of its own.
fn crew<R: Send>(
    threads: usize,
    buffer: &mut Vec<u8>,
    report: &Report<'_>,
    coverage: &mut Coverage,
    work: impl Fn(&mut Vec<u8>, &mut Coverage) -> R + Sync,
) -> Vec<R> {
    let work = &work;
    std::thread::scope(|scope| {
        let help = move || {
            let mut coverage = Coverage::default();
            let result = work(&mut Vec::new(), &mut coverage);
            report.add(&coverage);
            result
        };
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(help)).collect();
        let mut results = vec![work(buffer, coverage)];
        for other in others {
            match other.join() {
                Ok(result) => results.push(result),
                // The taker of findings panicked, or we did: either way not here.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
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
/// Maps of at most so many bytes are read whatever the memory.
const LEAST_MAP_BYTES: usize = 64 << 10;
/// What a pointer that waits to be decompressed takes, about.
const POINTER_BYTES: usize = 256;

/// Pieces of a relation have so many blocks, or more: 2 MiB of the usual size.
const LEAST_PIECE: u32 = 256;

impl HeapCheck<'_, '_> {
    fn run(&mut self, pieces: &Pieces, buffer: &mut Vec<u8>, coverage: &mut Coverage) {
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
}

impl HeapCheck<'_, '_> {
    /// Whether a page that an earlier pass has told about lies with its checksum about chunks.
    fn distrusts(&self, block: BlockNumber, page: Page<'_>) -> bool {
        matches!(self.rows, Rows::Chunks(_))
            && self.target.has_checksums
            && page.verify_checksum(block).is_err()
    }
}

/// What the maps of a heap say.
#[derive(Default)]
struct Maps {
    visibility: Option<VisibilityMap>,
    free_space: Option<FreeSpace>,
}

impl Part {
    fn open(
        check: &Check,
        database: &Database,
        relation: &Relation,
        report: &Report<'_>,
    ) -> Option<Self> {
        let subject = Arc::new(subject(database, relation));
        let directory = database.directory();
        let has_checksums = check.verifies_checksums(directory);
        let target = |fork, is_heap| Target {
            subject: Arc::clone(&subject),
            source: Arc::clone(directory.source()),
            fork,
            has_checksums,
            is_heap,
            is_online: check.is_online,
        };
        let (folder, filenode) = relation.files?;
        let open = |fork: Fork| -> Result<Option<RelationFork>, DatadirError> {
            database.fork(relation, fork)
        };
        let of_file = |fork: Fork, kind| {
            let file = RelationFile { folder, filenode, fork, segment: 0 };
            Finding {
                subject: Arc::clone(&subject),
                file: DataFile::Relation(file),
                block: None,
                item: None,
                column: None,
                value_id: None,
                kind,
                readable: Readable::OtherBlocks,
            }
        };
        let fork = match open(Fork::Main) {
            Ok(Some(fork)) => fork,
            Ok(None) => {
                report.tell(of_file(Fork::Main, FindingKind::FileMissing));
                return None;
            }
            Err(error) => {
                report.tell(of_file(Fork::Main, FindingKind::FileUnusable { error }));
                return None;
            }
        };
        let mut maps = Vec::new();
        for fork in [Fork::FreeSpaceMap, Fork::VisibilityMap, Fork::Init] {
            match open(fork) {
                Ok(Some(file)) => maps.push((fork, target(file, false))),
                Ok(None) => {}
                Err(error) => report.tell(of_file(fork, FindingKind::FileUnusable { error })),
            }
        }
        let is_heap = relation.is_heap();
        let columns = match database.columns(relation) {
            _ if !is_heap => None,
            Ok(columns) => Some(columns),
            Err(error) => {
                report.skip(Some(&subject), SkipReason::Columns { error });
                None
            }
        };
        if matches!(relation.kind, RelationKind::Table | RelationKind::MaterializedView) && !is_heap
        {
            report.skip(Some(&subject), SkipReason::AccessMethod);
        }
        if relation.kind == RelationKind::Toast
            && let Some(columns) = &columns
            && !is_plain_toast(columns)
        {
            report.skip(Some(&subject), SkipReason::ToastShape);
            return None;
        }
        let is_consistent = directory.consistency() == Consistency::Clean;
        let part = Self {
            target: target(fork, is_heap),
            maps,
            columns,
            bounds: Bounds::of(directory.control(), relation, is_consistent),
            is_btree: relation.is_btree(),
            subject,
        };
        let forks = [&part.target].into_iter().chain(part.maps.iter().map(|(_, target)| target));
        for target in forks {
            let bytes = target.fork.trailing_bytes();
            if bytes > 0 {
                report.tell(target.of_file(FindingKind::FileFragment { bytes }, Readable::All));
            }
        }
        Some(part)
    }

    fn pieces(&self, threads: usize) -> Pieces {
        Pieces::new(self.target.fork.block_count(), threads, LEAST_PIECE)
    }

    /// Whether an index begins with what an index begins with.
    fn check_first_page(&self, report: &Report<'_>) {
        let mut first = vec![0; self.target.fork.block_size().bytes()];
        // One that cannot be read was told with the pages.
        let read = match self.target.fork.block_count() {
            0 => Ok(()),
            _ => self.target.fork.read_block(BlockNumber::new(0), &mut first),
        };
        let is_zero = |page: Page<'_>| page.is_zero();
        if read.is_ok() && Page::new(&first, self.target.fork.block_size()).is_ok_and(is_zero) {
            report.tell(self.target.of_file(FindingKind::IndexEmpty, Readable::All));
        }
    }

    fn read_maps(
        &self,
        check: &Check,
        buffer: &mut Vec<u8>,
        report: &Report<'_>,
        coverage: &mut Coverage,
    ) -> Maps {
        let (heap_blocks, most) =
            (self.target.fork.block_count(), (check.memory_bytes / 8).max(LEAST_MAP_BYTES));
        let mut maps = Maps::default();
        for (fork, target) in &self.maps {
            if *fork == Fork::Init {
                let blocks = core::iter::once(0..target.fork.block_count());
                pages::each_page(target, blocks, buffer, report, coverage, |_, _, _, _| {});
                continue;
            }
            let Some(map) = MapFork::read(target, most, buffer, report, coverage) else { continue };
            if *fork == Fork::VisibilityMap {
                maps.visibility = Some(VisibilityMap::new(map, target, heap_blocks, report));
            } else {
                maps.free_space = Some(FreeSpace::new(&map, target, heap_blocks, report));
            }
        }
        maps
    }
}

/// The index of a TOAST relation. What is wrong with its file is told where it is checked by itself.
fn index_target(check: &Check, database: &Database, toast: &Relation) -> Option<Target> {
    let index = database.toast_index(toast.oid)?;
    let directory = database.directory();
    Some(Target {
        subject: Arc::new(subject(database, index)),
        source: Arc::clone(directory.source()),
        fork: database.fork(index, Fork::Main).ok()??,
        has_checksums: check.verifies_checksums(directory),
        is_heap: false,
        is_online: check.is_online,
    })
}

fn subject(database: &Database, relation: &Relation) -> Subject {
    let schema = |relation: &Relation| {
        let name = database.schema_name(relation.schema);
        name.map_or_else(|| relation.schema.to_string(), str::to_owned)
    };
    let index = database.indexes().iter().find(|index| index.oid == relation.oid);
    let served = index.and_then(|index| database.relation(index.table)).unwrap_or(relation);
    let owner = database.toast_owner(served.oid).or((served.oid != relation.oid).then_some(served));
    Subject {
        database: database.name().to_owned(),
        oid: relation.oid,
        schema: schema(relation),
        name: relation.name.clone(),
        kind: relation.kind,
        owner: owner.map(|owner| (schema(owner), owner.name.clone())),
    }
}

/// Whether the columns are those of a TOAST relation with 32-bit ids.
fn is_plain_toast(columns: &Columns) -> bool {
    let four = AttributeLen::Fixed(4);
    let lens = [four, four, AttributeLen::Varlena];
    columns.len() == lens.len() && columns.iter().map(|column| column.len).eq(lens)
}
