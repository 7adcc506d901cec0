//! A relation and all that belongs to it: the unit of a check.
mod values_check;

use std::sync::Arc;

use pgtoast_base::{BlockNumber, Oid};
use pgtoast_page::{AttributeLen, Page};

use super::columns_plan::ColumnsPlan;
use super::crew::crew;
use super::heap::{HeapCheck, Rows};
use super::maps::{FreeSpace, MapFork, VisibilityMap};
use super::pieces::Pieces;
use super::report::Report;
use super::statuses::{Bounds, Statuses};
use super::target::Target;
use super::{Check, Coverage, Finding, FindingKind, Readable, SkipReason, Subject, pages};
use crate::{
    Columns, Consistency, ControlFile, DataFile, Database, DatadirError, Fork, Relation,
    RelationFile, RelationFork, RelationKind, Transactions,
};
use values_check::ValuesCheck;

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

/// Maps of at most so many bytes are read whatever the memory.
const LEAST_MAP_BYTES: usize = 64 << 10;
/// Pieces of a relation have so many blocks, or more: 2 MiB of the usual size.
const LEAST_PIECE: u32 = 256;

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
