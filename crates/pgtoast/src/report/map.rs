//! A table as a picture: how full its blocks are, where dead rows lie, how the chunks of its values follow one another.
use serde::Serialize;

use crate::base::Oid8;
use crate::datadir::{Database, DatadirError, Relation, StatusReader, Table};
use crate::page::{HeapTuple, Item, Page, VacuumState};
use crate::toast::{Chunk, ValueIdWidth};

use super::{Budget, RelationName};

/// The picture of a table.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MapReport {
    /// The table.
    pub table: RelationName,
    /// Its rows.
    pub heap: HeapMap,
    /// The chunks of its values.
    pub toast: Option<HeapMap>,
}

/// The picture of a heap.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeapMap {
    /// How many blocks there are.
    pub blocks: u32,
    /// The size of each, in bytes.
    pub block_bytes: u32,
    /// How many blocks a cell stands for; the last one may stand for fewer.
    pub blocks_per_cell: u32,
    /// The cells, in the order of the blocks.
    pub cells: Vec<Cell>,
    /// Of a TOAST relation, how many chunks there are.
    pub chunks: u64,
    /// How many runs they come in: a run is of one value, its chunks in order and one behind the other. As many as
    /// there are values is the best there can be.
    pub chunk_runs: u64,
}

/// Some blocks side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cell {
    /// The first of them.
    pub first_block: u32,
    /// How many.
    pub blocks: u32,
    /// Bytes of tuples that live.
    pub live_bytes: u64,
    /// Bytes of tuples that are dead.
    pub dead_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Blocks of zeros.
    pub zero_blocks: u32,
    /// Blocks that cannot be read, or are no pages.
    pub broken_blocks: u32,
    /// Blocks whose tuples all are visible to everyone, as they say themselves.
    pub all_visible_blocks: u32,
    /// Runs of chunks that begin here.
    pub chunk_runs: u64,
}

impl MapReport {
    /// Reads all of a table and of its TOAST relation into at most `most_cells` cells each.
    ///
    /// # Errors
    /// Those of [`Database::table`].
    pub fn of(
        database: &Database,
        relation: &Relation,
        most_cells: u32,
        budget: &Budget<'_>,
    ) -> Result<Self, DatadirError> {
        let heap = HeapMap::of(&database.table(relation)?, None, most_cells, budget);
        let toast = match database.toast_of(relation) {
            None => None,
            Some(toast) => {
                let table = database.table(toast)?;
                let wide = table.columns().get(1).is_some_and(|one| one.len.attlen() == 8);
                let width = if wide { ValueIdWidth::Oid8 } else { ValueIdWidth::Oid };
                Some(HeapMap::of(&table, Some(width), most_cells, budget))
            }
        };
        Ok(Self { table: RelationName::of(database, relation), heap, toast })
    }
}

impl HeapMap {
    fn of(
        table: &Table,
        chunks: Option<ValueIdWidth>,
        most_cells: u32,
        budget: &Budget<'_>,
    ) -> Self {
        let blocks = table.fork().block_count();
        let block_bytes = table.fork().block_size().bytes();
        let per_cell = blocks.div_ceil(most_cells.max(1)).max(1);
        let mut map = Self {
            blocks,
            block_bytes: u32::try_from(block_bytes).unwrap_or(u32::MAX),
            blocks_per_cell: per_cell,
            ..Self::default()
        };
        let mut painter =
            Painter { status: table.transactions().reader(), chunks, last: None, map: &mut map };
        let mut each = table.fork().all_blocks();
        let mut number = 0;
        while let Some(block) = each.next() {
            (budget.progress)(block_bytes as u64);
            if number % per_cell == 0 {
                let cell = Cell { first_block: number, ..Cell::default() };
                painter.map.cells.push(cell);
            }
            number += 1;
            let page = block
                .ok()
                .and_then(|(_, bytes)| Page::parse(bytes, table.fork().block_size()).ok());
            painter.paint(page);
        }
        map
    }
}

/// Adds pages to the last cell.
struct Painter<'a> {
    status: StatusReader<'a>,
    /// The width of value ids, of a TOAST relation.
    chunks: Option<ValueIdWidth>,
    /// The chunk that came last.
    last: Option<(Oid8, i32)>,
    map: &'a mut HeapMap,
}

impl Painter<'_> {
    fn paint(&mut self, page: Option<Page<'_>>) {
        let mut cell = self.map.cells.pop().unwrap_or_default();
        cell.blocks += 1;
        match page {
            None => cell.broken_blocks += 1,
            Some(page) if page.is_new() => cell.zero_blocks += 1,
            Some(page) => {
                cell.free_bytes += u64::from(page.free_bytes());
                let flags = page.header().flags();
                let is_visible = flags.contains(crate::page::PageFlags::ALL_VISIBLE);
                cell.all_visible_blocks += u32::from(is_visible);
                for (item, _) in page.items() {
                    if let Ok(Item::Normal(bytes)) = page.item(item) {
                        self.tuple(bytes, &mut cell);
                    }
                }
            }
        }
        self.map.cells.push(cell);
    }

    fn tuple(&mut self, bytes: &[u8], cell: &mut Cell) {
        let Ok(tuple) = HeapTuple::new(bytes) else { return };
        let len = bytes.len() as u64;
        match self.status.vacuum_state(tuple.header()) {
            Ok(VacuumState::Dead | VacuumState::RecentlyDead) => {
                cell.dead_bytes += len;
                return;
            }
            _ => cell.live_bytes += len,
        }
        if let Some(width) = self.chunks
            && let Ok(Some(chunk)) = Chunk::parse(bytes, width, None)
        {
            let this = (chunk.value_id, chunk.seq);
            let follows = self.last.is_some_and(|(id, seq)| {
                id == chunk.value_id && seq.checked_add(1) == Some(chunk.seq)
            });
            self.map.chunks += 1;
            if !follows {
                self.map.chunk_runs += 1;
                cell.chunk_runs += 1;
            }
            self.last = Some(this);
        }
    }
}

impl Cell {
    /// The shares of live, dead and free bytes among all of the cell's, in hundredths.
    #[must_use]
    pub fn shares(&self, block_bytes: u32) -> [u8; 3] {
        let all = (u64::from(self.blocks) * u64::from(block_bytes)).max(1);
        [self.live_bytes, self.dead_bytes, self.free_bytes]
            .map(|bytes| u8::try_from(bytes.saturating_mul(100) / all).unwrap_or(100).min(100))
    }
}
