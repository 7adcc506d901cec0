//! A relation and all that belongs to it: the unit of a check.
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use pgtoast_base::{BlockNumber, Oid};
use pgtoast_page::{AttributeLen, Page};
use pgtoast_toast::{ChunkSize, ValueIdWidth};

use super::columns_plan::ColumnsPlan;
use super::deep::DeepQueue;
use super::heap::{HeapCheck, Rows, Values};
use super::maps::{FreeSpace, MapFork, VisibilityMap};
use super::report::Report;
use super::runs::{Run, RunCollector, ValueTable};
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

    /// Checks all of it with so many threads.
    pub(super) fn check(&self, threads: usize, report: &Report<'_>) {
        let mut coverage = Coverage { relations: 1, ..Coverage::default() };
        if !self.main.target.is_heap {
            self.main.check_pages(report, &mut coverage);
            report.add(&coverage);
            return;
        }
        let maps = self.main.read_maps(&self.check, report, &mut coverage);
        let plan = self.main.columns.as_ref().map(ColumnsPlan::new);
        let Some(toast) = &self.toast else {
            if self.toast_oid.is_some() {
                report.skip(Some(&self.main.subject), SkipReason::ToastUnreadable);
            }
            let toast = self.toast_oid;
            self.scan(&self.main, threads, report, &mut coverage, |range, coverage| {
                let rows = Rows::Plain { toast };
                let mut heap = self.heap(&self.main, &maps, plan.as_ref(), rows, true, report);
                heap.run(range, coverage);
                heap.broken
            });
            report.add(&coverage);
            return;
        };
        coverage.relations += 1;
        let toast_maps = toast.read_maps(&self.check, report, &mut coverage);
        self.check_values(toast, &maps, &toast_maps, plan.as_ref(), threads, report, &mut coverage);
        report.add(&coverage);
    }

    /// The TOAST relation, then the table, for as many windows of value ids as memory asks for.
    #[expect(clippy::too_many_arguments, reason = "two relations, each with its maps")]
    fn check_values(
        &self,
        toast: &Part,
        maps: &Maps,
        toast_maps: &Maps,
        plan: Option<&ColumnsPlan<'_>>,
        threads: usize,
        report: &Report<'_>,
        coverage: &mut Coverage,
    ) {
        let toast_plan = toast.columns.as_ref().map(ColumnsPlan::new);
        let chunk_size = self.control.chunk_size(ValueIdWidth::Oid);
        let chunk_bytes = u16::try_from(chunk_size.bytes()).unwrap_or(u16::MAX);
        // Half for runs while they are collected and half for them together.
        let most_runs = self.check.memory_bytes / 2 / size_of::<Run>() / threads;
        let (mut start, mut is_first_pass) = (0, true);
        let mut hidden_orphans = 0;
        let index = self.index.as_ref();
        let index = index.and_then(|target| toast_index::open(target, report, coverage));
        loop {
            let end = AtomicU64::new(IDS);
            let scanned = self.scan(toast, threads, report, coverage, |range, coverage| {
                let collector = RunCollector::new(start, &end, chunk_bytes, most_runs.max(64));
                let rows = Rows::Chunks(collector);
                let mut heap =
                    self.heap(toast, toast_maps, toast_plan.as_ref(), rows, is_first_pass, report);
                heap.run(range, coverage);
                match heap.rows {
                    Rows::Chunks(collector) => collector.into_runs(),
                    Rows::Plain { .. } | Rows::Values(_) => Vec::new(),
                }
            });
            let end = end.load(Ordering::Relaxed);
            let table = ValueTable::new(scanned, end, chunk_bytes);
            let broken = self.scan(&self.main, threads, report, coverage, |range, coverage| {
                let values = Values {
                    toast: toast.subject.oid,
                    table: &table,
                    start,
                    end,
                    hint: 0,
                    deep: self.deep_queue(toast, chunk_size, threads, report),
                };
                let rows = Rows::Values(values);
                let mut heap = self.heap(&self.main, maps, plan, rows, is_first_pass, report);
                heap.run(range, coverage);
                if let Rows::Values(Values { deep: Some(deep), .. }) = &mut heap.rows {
                    deep.flush(coverage);
                }
                heap.broken
            });
            if let Some(index) = &index {
                index.compare(&toast.target.fork, &table, (start, end), report);
            }
            // A row that cannot be read may be the one that leads there.
            let are_rows_known = broken.iter().sum::<u64>() == 0 && plan.is_some();
            for orphan in table.orphans() {
                if !are_rows_known {
                    hidden_orphans += 1;
                    continue;
                }
                let (chunks, bytes) = (orphan.chunks, orphan.bytes);
                let kind = FindingKind::Orphan { chunks, bytes };
                let finding = toast.target.of_item(orphan.tid, kind, Readable::All);
                report.tell(Finding { value_id: Some(orphan.value_id), ..finding });
            }
            (start, is_first_pass) = (end, false);
            if end >= IDS {
                break;
            }
        }
        if hidden_orphans > 0 {
            let reason = SkipReason::Orphans { values: hidden_orphans };
            report.skip(Some(&toast.subject), reason);
        }
    }

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

    fn heap<'a, 'r>(
        &'a self,
        part: &'a Part,
        maps: &'a Maps,
        columns: Option<&'a ColumnsPlan<'a>>,
        rows: Rows<'a, 'r>,
        is_first_pass: bool,
        report: &'a Report<'r>,
    ) -> HeapCheck<'a, 'r> {
        HeapCheck {
            target: &part.target,
            report,
            statuses: Statuses::new(part.bounds, &self.transactions),
            columns,
            visibility: maps.visibility.as_ref(),
            free_space: maps.free_space.as_ref(),
            rows,
            is_first_pass,
            broken: 0,
            fates: Vec::new(),
            status_told: false,
        }
    }

    /// Runs `work` over the blocks of a relation, a range for each thread.
    fn scan<R: Send>(
        &self,
        part: &Part,
        threads: usize,
        report: &Report<'_>,
        coverage: &mut Coverage,
        work: impl Fn(Range<u32>, &mut Coverage) -> R + Sync,
    ) -> Vec<R> {
        let fork = &part.target.fork;
        let parts = u32::try_from(threads).unwrap_or(u32::MAX);
        let mut ranges: Vec<_> = fork.split(parts).collect();
        let Some(mine) = ranges.pop() else { return Vec::new() };
        let work = &work;
        std::thread::scope(|scope| {
            let others: Vec<_> = ranges
                .into_iter()
                .map(|range| {
                    scope.spawn(move || {
                        let mut coverage = Coverage::default();
                        let result = work(range, &mut coverage);
                        report.add(&coverage);
                        result
                    })
                })
                .collect();
            let mut results = vec![work(mine, coverage)];
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
}

/// One more than the highest value id.
const IDS: u64 = 1 << 32;
/// Maps of at most so many bytes are read whatever the memory.
const LEAST_MAP_BYTES: usize = 64 << 10;
/// What a pointer that waits to be decompressed takes, about.
const POINTER_BYTES: usize = 256;

impl HeapCheck<'_, '_> {
    fn run(&mut self, range: Range<u32>, coverage: &mut Coverage) {
        let (target, report) = (self.target, self.report);
        if self.is_first_pass {
            let visit = |block, page: Page<'_>, bad: &[u16], coverage: &mut Coverage| {
                self.page(block, page, bad, coverage);
            };
            self.broken += pages::each_page(target, range, report, coverage, visit);
            return;
        }
        let mut blocks = target.fork.blocks(range);
        while let Some(next) = blocks.next() {
            let Ok((block, bytes)) = next else { continue };
            coverage.bytes += bytes.len() as u64;
            let Ok(page) = Page::parse(bytes, target.fork.block_size()) else { continue };
            if !page.is_new() {
                self.page(block, page, &[], coverage);
            }
        }
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

    /// The pages of a relation whose rows are nobody's business here.
    fn check_pages(&self, report: &Report<'_>, coverage: &mut Coverage) {
        let targets = [&self.target].into_iter().chain(self.maps.iter().map(|(_, target)| target));
        for target in targets {
            let blocks = 0..target.fork.block_count();
            pages::each_page(target, blocks, report, coverage, |_, _, _, _| {});
        }
        if self.is_btree {
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
    }

    fn read_maps(&self, check: &Check, report: &Report<'_>, coverage: &mut Coverage) -> Maps {
        let (heap_blocks, most) =
            (self.target.fork.block_count(), (check.memory_bytes / 8).max(LEAST_MAP_BYTES));
        let mut maps = Maps::default();
        for (fork, target) in &self.maps {
            if *fork == Fork::Init {
                let blocks = 0..target.fork.block_count();
                pages::each_page(target, blocks, report, coverage, |_, _, _, _| {});
                continue;
            }
            let Some(map) = MapFork::read(target, most, report, coverage) else { continue };
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
