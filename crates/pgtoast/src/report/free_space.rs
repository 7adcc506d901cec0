//! What the free space map says of a table's blocks, and what the blocks say.
use core::ops::ControlFlow;

use serde::Serialize;

use crate::base::{BlockNumber, BlockSize};
use crate::datadir::{Database, DatadirError, Fork, Relation, RelationFork, Table};
use crate::fsm::{Access, Category, FreeSpaceMap, Geometry, MapPages, VecPages};
use crate::page::{Page, PageHeader};

use super::scan::Problems;
use super::{Budget, RelationName};

/// A block, by its map and by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BlockSpace {
    /// The block.
    pub block: u32,
    /// The bytes that the map promises: what SQL's `pg_freespace` says.
    pub recorded_bytes: u32,
    /// The bytes that a map made anew would promise.
    pub actual_bytes: u32,
}

/// The map as a whole.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FreeSpaceReport {
    /// The table.
    pub table: RelationName,
    /// How many blocks it has.
    pub blocks: u32,
    /// How many pages its map has.
    pub map_pages: u32,
    /// Blocks of which the map is right.
    pub equal: u64,
    /// Blocks with less space than the map promises: they cost a visit.
    pub too_high: u64,
    /// Blocks with more space than the map knows of: they cost space.
    pub too_low: u64,
    /// Bytes that are free and that the map does not know of.
    pub hidden_bytes: u64,
    /// How often the map's pages contradict themselves or one another; only vacuum carries changes upwards, so
    /// this is no damage.
    pub contradictions: u64,
    /// What a map made anew would change; null unless that was asked for.
    pub rebuild: Option<Rebuild>,
    /// How many blocks or pages of the map could not be read.
    pub problem_count: u64,
    /// The first of them, in words.
    pub problems: Vec<String>,
}

/// What a map made anew would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rebuild {
    /// How many pages it would have.
    pub pages: u32,
    /// How many of them would not be as they are.
    pub changed_pages: u32,
    /// How many pages would be dropped from the end.
    pub dropped_pages: u32,
}

/// Compares a table's free space map with its blocks, and gives `take` each block, until it breaks. With
/// `with_rebuild` it makes the map anew as well, in memory.
///
/// # Errors
/// Those of [`Database::table`] and [`Database::fork`].
pub fn compare(
    database: &Database,
    relation: &Relation,
    with_rebuild: bool,
    budget: &Budget<'_>,
    take: &mut dyn FnMut(BlockSpace) -> ControlFlow<()>,
) -> Result<FreeSpaceReport, DatadirError> {
    let table = database.table(relation)?;
    let map = database.fork(relation, Fork::FreeSpaceMap)?;
    let blocks = table.fork().block_count();
    let block_size = table.fork().block_size();
    let geometry = Geometry::of(block_size);
    let map_pages = map.as_ref().map_or(0, RelationFork::block_count);
    let mut problems = Problems::default();
    let mut free_space = FreeSpaceMap::new(geometry, ForkPages::new(map));
    let mut report = FreeSpaceReport {
        table: RelationName::of(database, relation),
        blocks,
        map_pages,
        equal: 0,
        too_high: 0,
        too_low: 0,
        hidden_bytes: 0,
        contradictions: 0,
        rebuild: None,
        problem_count: 0,
        problems: Vec::new(),
    };
    let mut stopped = false;
    each_category(&table, budget, &mut problems, &mut |block, actual| {
        let Ok(recorded) = free_space.category(block);
        let bytes =
            |category: Category| u32::try_from(category.free_bytes(block_size)).unwrap_or(u32::MAX);
        let space = BlockSpace {
            block: block.get(),
            recorded_bytes: bytes(recorded),
            actual_bytes: bytes(actual),
        };
        match recorded.cmp(&actual) {
            core::cmp::Ordering::Equal => report.equal += 1,
            core::cmp::Ordering::Greater => report.too_high += 1,
            core::cmp::Ordering::Less => {
                report.too_low += 1;
                report.hidden_bytes += u64::from(space.actual_bytes - space.recorded_bytes);
            }
        }
        stopped = take(space).is_break();
        if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if !stopped {
        let Ok(()) = free_space.check(blocks, |_| report.contradictions += 1);
        if with_rebuild {
            let pages = free_space.into_pages();
            report.rebuild = Some(rebuild(&table, geometry, pages, budget));
        } else {
            problems.append(free_space.into_pages().problems);
        }
    }
    report.problem_count = problems.count;
    report.problems = problems.first;
    Ok(report)
}

fn rebuild(table: &Table, geometry: Geometry, mut now: ForkPages, budget: &Budget<'_>) -> Rebuild {
    let mut categories = Vec::new();
    // Its problems have been told.
    each_category(table, budget, &mut Problems::default(), &mut |block, category| {
        categories.push((block, category));
        ControlFlow::Continue(())
    });
    let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let Ok(()) = map.rebuild(table.fork().block_count(), categories);
    let pages = map.into_pages();
    let (mut count, mut changed) = (0, 0);
    for (number, then) in (0_u32..).zip(pages.iter()) {
        count += 1;
        let Ok(same) = now.with(number, Access::Read, |now| now == then);
        changed += u32::from(same != Some(true));
    }
    let Ok(before) = now.page_count();
    Rebuild { pages: count, changed_pages: changed, dropped_pages: before.saturating_sub(count) }
}

/// What each block has, until `take` breaks. A block that cannot be read has nothing.
fn each_category(
    table: &Table,
    budget: &Budget<'_>,
    problems: &mut Problems,
    take: &mut dyn FnMut(BlockNumber, Category) -> ControlFlow<()>,
) {
    let block_size = table.fork().block_size();
    let mut blocks = table.fork().all_blocks();
    while let Some(block) = blocks.next() {
        (budget.progress)(block_size.bytes() as u64);
        let (number, bytes) = match block {
            Ok(block) => block,
            Err(error) => {
                problems.add(error);
                continue;
            }
        };
        let free = match Page::parse(bytes, block_size) {
            Ok(page) => free_bytes(page, block_size),
            Err(error) => {
                problems.add(format_args!("block {number}: {error}"));
                0
            }
        };
        if take(number, Category::of_free(free, block_size)).is_break() {
            return;
        }
    }
}

/// The free bytes of a page, as vacuum notes them: a new page has all but its header.
fn free_bytes(page: Page<'_>, block_size: BlockSize) -> usize {
    if page.is_new() { block_size.bytes() - PageHeader::LEN } else { page.heap_free_bytes().into() }
}

/// The pages of a map in its file, read one at a time. Nothing is ever written.
#[derive(Debug)]
struct ForkPages {
    fork: Option<RelationFork>,
    held: Option<u32>,
    page: Vec<u8>,
    problems: Problems,
}

impl ForkPages {
    fn new(fork: Option<RelationFork>) -> Self {
        let block_bytes = fork.as_ref().map_or(0, |fork| fork.block_size().bytes());
        Self { fork, held: None, page: vec![0; block_bytes], problems: Problems::default() }
    }
}

impl MapPages for ForkPages {
    type Error = core::convert::Infallible;

    fn page_count(&self) -> Result<u32, Self::Error> {
        Ok(self.fork.as_ref().map_or(0, RelationFork::block_count))
    }

    fn with<R>(
        &mut self,
        page: u32,
        _access: Access,
        work: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<Option<R>, Self::Error> {
        let Some(fork) = self.fork.as_ref().filter(|fork| page < fork.block_count()) else {
            return Ok(None);
        };
        if self.held != Some(page) {
            if let Err(error) = fork.read_block(BlockNumber::new(page), &mut self.page) {
                self.problems.add(error);
                // A map is a hint; one that cannot be read promises nothing.
                self.page.fill(0);
            }
            self.held = Some(page);
        }
        Ok(self.page.get_mut(PageHeader::LEN..).map(work))
    }

    fn extend(&mut self, _page_count: u32) -> Result<(), Self::Error> {
        Ok(())
    }

    fn truncate(&mut self, _page_count: u32) -> Result<(), Self::Error> {
        Ok(())
    }
}
