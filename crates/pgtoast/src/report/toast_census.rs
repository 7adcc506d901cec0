//! Every value of a TOAST relation: how many chunks it has, in how many blocks, and whether a row leads to it.
//!
//! One pass over the relation counts the values with ids between two bounds. Where memory is too short for all of
//! them, the upper bound moves down; what is above it takes another pass.
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::datadir::{DatadirError, Table};
use crate::page::VacuumState;
use crate::toast::{Chunk, ValueIdWidth};

use super::Budget;
use super::scan::{Problems, Versions, each_row};

/// The values with ids in a range.
#[derive(Debug)]
pub(crate) struct ToastCensus {
    values: HashMap<u64, ValueUse>,
    /// The first id that is left to another census; `None` if none is.
    pub(crate) end: Option<u64>,
    start: u64,
    room: usize,
}

/// What is known of a value.
#[derive(Debug)]
pub(crate) struct ValueUse {
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
    last_block: u32,
    is_led_to: AtomicBool,
}

impl ValueUse {
    /// Notes that a row leads to it.
    pub(crate) fn lead_to(&self) {
        self.is_led_to.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_orphan(&self) -> bool {
        !self.is_led_to.load(Ordering::Relaxed)
    }
}

/// About how many bytes a value takes here.
const VALUE_BYTES: usize = 96;
/// So many values are counted in one pass in any case.
const LEAST_VALUES: usize = 1024;

impl ToastCensus {
    /// The values from an id on, as many as there is memory for. Chunks that a transaction has deleted
    /// do not count: they wait for vacuum.
    pub(crate) fn read(
        table: &Table,
        width: ValueIdWidth,
        start: u64,
        budget: &Budget<'_>,
        problems: &mut Problems,
    ) -> Self {
        let room = (budget.memory_bytes / VALUE_BYTES).max(LEAST_VALUES);
        let mut census = Self { values: HashMap::new(), end: None, start, room };
        let status = table.transactions().reader();
        let blocks = 0..table.fork().block_count();
        let _ = each_row(table, blocks, Versions::All, budget.progress, &mut |row| {
            let counted = row.and_then(|row| {
                let state = status.vacuum_state(row.tuple.header())?;
                if !matches!(state, VacuumState::Dead | VacuumState::RecentlyDead) {
                    let file = table.fork().place(row.tid.block).0;
                    let parsed = Chunk::parse(row.tuple.bytes(), width, Some(row.tid));
                    let parsed = parsed.map_err(|error| DatadirError::Chunk { file, error })?;
                    if let Some(chunk) = parsed {
                        census.count(&chunk, row.tid.block.get());
                    }
                }
                Ok(())
            });
            if let Err(error) = counted {
                problems.add(error);
            }
            ControlFlow::Continue(())
        });
        census
    }

    pub(crate) fn get(&self, value_id: u64) -> Option<&ValueUse> {
        self.values.get(&value_id)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &ValueUse> {
        self.values.values()
    }

    fn count(&mut self, chunk: &Chunk<'_>, block: u32) {
        let id = chunk.value_id.get();
        if id < self.start || self.end.is_some_and(|end| id >= end) {
            return;
        }
        let value = self.values.entry(id).or_insert_with(|| ValueUse {
            chunks: 0,
            bytes: 0,
            blocks: 0,
            last_block: u32::MAX,
            is_led_to: AtomicBool::new(false),
        });
        value.chunks += 1;
        value.bytes += chunk.data.len() as u64;
        // Blocks come in their order, so one that is not the last was never seen before.
        if value.last_block != block {
            value.last_block = block;
            value.blocks += 1;
        }
        if self.values.len() > self.room {
            self.halve();
        }
    }

    /// Leaves the upper half of the ids to the next census.
    fn halve(&mut self) {
        let mut ids: Vec<u64> = self.values.keys().copied().collect();
        let middle = ids.len() / 2;
        let (_, end, _) = ids.select_nth_unstable(middle);
        let end = *end;
        self.end = Some(end);
        self.values.retain(|id, _| *id < end);
    }
}
