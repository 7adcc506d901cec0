//! How much space tables take, and what is in it: tuples that live, tuples that are dead, and nothing.
use core::ops::Range;

use serde::Serialize;

use crate::base::BlockSize;
use crate::datadir::{Database, DatadirError, Fork, Relation, Table};
use crate::page::{HeapTuple, Item, Page, VacuumState};

use super::scan::{Problems, in_parallel};
use super::{Budget, RelationName};

/// A table with all that belongs to it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TableReport {
    /// The table.
    pub table: RelationName,
    /// Its rows.
    pub heap: HeapReport,
    /// Its TOAST relation's chunks; null if it has no TOAST relation.
    pub toast: Option<HeapReport>,
    /// Bytes of its indexes.
    pub index_bytes: u64,
    /// Bytes of its TOAST relation's index.
    pub toast_index_bytes: u64,
    /// Bytes of free space maps, visibility maps and initial forks.
    pub other_bytes: u64,
    /// All bytes together.
    pub total_bytes: u64,
    /// How many blocks or tuples could not be read.
    pub problem_count: u64,
    /// The first of them, in words.
    pub problems: Vec<String>,
}

/// What is in a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeapReport {
    /// Its blocks.
    pub blocks: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Blocks of zeros: relations are extended with such ahead of use.
    pub zero_blocks: u64,
    /// Tuples that are there for some session, or will be once their transaction commits.
    pub live_tuples: u64,
    /// Their bytes, without line pointers and alignment.
    pub live_bytes: u64,
    /// Tuples that vacuum may remove, or will be able to.
    pub dead_tuples: u64,
    /// Their bytes.
    pub dead_bytes: u64,
    /// Bytes between line pointers and tuples, less those of one more line pointer.
    pub free_bytes: u64,
}

impl HeapReport {
    /// The bytes that rows do not use: of dead tuples, and free.
    #[must_use]
    pub const fn unused_bytes(&self) -> u64 {
        self.dead_bytes + self.free_bytes
    }

    const fn append(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
        self.zero_blocks += other.zero_blocks;
        self.live_tuples += other.live_tuples;
        self.live_bytes += other.live_bytes;
        self.dead_tuples += other.dead_tuples;
        self.dead_bytes += other.dead_bytes;
        self.free_bytes += other.free_bytes;
    }
}

impl TableReport {
    /// Reads all of a table and of its TOAST relation, and measures its other files.
    ///
    /// # Errors
    /// Those of [`Database::table`].
    pub fn of(
        database: &Database,
        relation: &Relation,
        budget: &Budget<'_>,
    ) -> Result<Self, DatadirError> {
        let mut problems = Problems::default();
        let heap = heap_report(&database.table(relation)?, budget, &mut problems);
        let toast_relation = database.toast_of(relation);
        let toast = match toast_relation.map(|toast| database.table(toast)) {
            None => None,
            Some(Ok(table)) => Some(heap_report(&table, budget, &mut problems)),
            Some(Err(error)) => {
                problems.add(error);
                None
            }
        };
        let mut bytes_of = |relation: &Relation, fork| match database.fork(relation, fork) {
            Ok(Some(fork)) => u64::from(fork.block_count()) * fork.block_size().bytes() as u64,
            Ok(None) => 0,
            Err(error) => {
                problems.add(error);
                0
            }
        };
        let mut other_bytes = 0;
        for relation in [Some(relation), toast_relation].into_iter().flatten() {
            for fork in [Fork::FreeSpaceMap, Fork::VisibilityMap, Fork::Init] {
                other_bytes += bytes_of(relation, fork);
            }
        }
        let mut index_bytes = |relation: &Relation| {
            let indexes = database.indexes_of(relation.oid);
            let indexes = indexes.filter_map(|index| database.relation(index.oid));
            let stored = indexes.filter(|index| index.files.is_some());
            stored.map(|index| bytes_of(index, Fork::Main)).sum()
        };
        let own: u64 = index_bytes(relation);
        let toast_index: u64 = toast_relation.map_or(0, &mut index_bytes);
        let toast_bytes = toast.map_or(0, |toast| toast.bytes);
        Ok(Self {
            table: RelationName::of(database, relation),
            heap,
            toast,
            index_bytes: own,
            toast_index_bytes: toast_index,
            other_bytes,
            total_bytes: heap.bytes + toast_bytes + own + toast_index + other_bytes,
            problem_count: problems.count,
            problems: problems.first,
        })
    }
}

fn heap_report(table: &Table, budget: &Budget<'_>, problems: &mut Problems) -> HeapReport {
    let mut whole = HeapReport::default();
    for (part, found) in
        in_parallel(table, budget.threads, |range| part_of_heap(table, range, budget))
    {
        whole.append(&part);
        problems.append(found);
    }
    whole
}

/// Who waits hears of so many blocks at a time.
const PROGRESS_BLOCKS: u64 = 1024;

fn part_of_heap(table: &Table, range: Range<u32>, budget: &Budget<'_>) -> (HeapReport, Problems) {
    let (mut report, mut problems) = (HeapReport::default(), Problems::default());
    let block_size = table.fork().block_size();
    let status = table.transactions().reader();
    let mut blocks = table.fork().blocks(range);
    while let Some(block) = blocks.next() {
        let block_bytes = block_size.bytes() as u64;
        report.blocks += 1;
        report.bytes += block_bytes;
        if report.blocks.is_multiple_of(PROGRESS_BLOCKS) {
            (budget.progress)(PROGRESS_BLOCKS * block_bytes);
        }
        match block {
            Ok((number, bytes)) => {
                let add = |problem| problems.add(format_args!("block {number}: {problem}"));
                page_into(bytes, block_size, &status, &mut report, add);
            }
            Err(error) => problems.add(error),
        }
    }
    (report, problems)
}

fn page_into(
    bytes: &[u8],
    block_size: BlockSize,
    status: &crate::datadir::StatusReader<'_>,
    report: &mut HeapReport,
    mut problem: impl FnMut(String),
) {
    let page = match Page::parse(bytes, block_size) {
        Ok(page) => page,
        Err(error) => return problem(error.to_string()),
    };
    if page.is_new() {
        report.zero_blocks += 1;
        return;
    }
    report.free_bytes += u64::from(page.heap_free_bytes());
    for (item, _) in page.items() {
        let tuple = match page.item(item) {
            Ok(Item::Normal(tuple)) => tuple,
            Ok(_) => continue,
            Err(error) => {
                problem(error.to_string());
                continue;
            }
        };
        let state = match HeapTuple::new(tuple) {
            Ok(tuple) => status.vacuum_state(tuple.header()).map_err(|error| error.to_string()),
            Err(error) => Err(format!("item {item}: {error}")),
        };
        match state {
            Ok(VacuumState::Dead | VacuumState::RecentlyDead) => {
                report.dead_tuples += 1;
                report.dead_bytes += tuple.len() as u64;
            }
            Ok(_) => {
                report.live_tuples += 1;
                report.live_bytes += tuple.len() as u64;
            }
            Err(error) => problem(error),
        }
    }
}
