//! Walking over the rows of a table, by several threads if need be.
use core::ops::{ControlFlow, Range};

use crate::datadir::{DatadirError, Row, Table};

/// How many blocks are walked before anybody hears of it: some MiB.
const STRETCH_BLOCKS: u32 = 1024;

/// Which row versions a walk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    /// All there are.
    All,
    /// Those that a new session would see.
    Visible,
}

/// Gives `take` every row version of a range of blocks, and every error on the way, until it breaks.
pub(crate) fn each_row(
    table: &Table,
    blocks: Range<u32>,
    versions: Versions,
    progress: &(dyn Fn(u64) + Sync),
    take: &mut dyn FnMut(Result<Row<'_>, DatadirError>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let block_bytes = table.fork().block_size().bytes() as u64;
    let mut start = blocks.start;
    while start < blocks.end {
        let end = start.saturating_add(STRETCH_BLOCKS).min(blocks.end);
        let mut rows = table.rows_of(start..end);
        if versions == Versions::All {
            rows = rows.with_dead();
        }
        while let Some(row) = rows.next() {
            take(row)?;
        }
        progress(u64::from(end - start) * block_bytes);
        start = end;
    }
    ControlFlow::Continue(())
}

/// Runs `work` on ranges of blocks that make up the whole table, in as many threads, and gives their results
/// in the order of the ranges.
pub(crate) fn in_parallel<T: Send>(
    table: &Table,
    threads: usize,
    work: impl Fn(Range<u32>) -> T + Sync,
) -> Vec<T> {
    let parts = u32::try_from(threads).unwrap_or(u32::MAX);
    // A thread costs more than a few blocks do.
    let parts = if table.fork().block_count() < STRETCH_BLOCKS { 1 } else { parts };
    let ranges: Vec<_> = table.fork().split(parts).collect();
    let work = &work;
    std::thread::scope(|scope| {
        let running: Vec<_> =
            ranges.into_iter().map(|range| scope.spawn(move || work(range))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// What went wrong in a walk: how often, and the first few in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems {
    pub(crate) count: u64,
    pub(crate) first: Vec<String>,
}

/// How many are kept in words.
const KEPT: usize = 100;

impl Problems {
    pub(crate) fn add(&mut self, problem: impl ToString) {
        self.count += 1;
        if self.first.len() < KEPT {
            self.first.push(problem.to_string());
        }
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.count += other.count;
        let room = KEPT.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(room));
    }
}
