//! Logical decoding with a long transaction among short ones: what the tuples' memory comes to.
//!
//! ```text
//! long    F rows |  m rows  |          |  m rows  |          |  ...   stays open
//! short          |          |  q rows  |          |  q rows  |  ...   commits: its rows are freed
//!                                      ^ measured            ^
//! ```
//! All rows are alike: a request of 160 bytes for the tuple, 80 for the change. The three sets were fitted
//! to the table of a mail to the development list; none is the workload behind it, which is not known.
use std::collections::VecDeque;

use pgtoast_memctx::twin::TwinGeneration;
use pgtoast_memctx::{
    BlockSizes, Bump, Chunk, Cohort, Cohorts, Context, Generation, MemoryError, Release,
    ReturnsChunks, root,
};

/// A tuple's request: 24 bytes before its 136.
pub(super) const TUPLE: usize = 160;
/// A change.
const CHANGE: usize = 80;
/// Changes that a block of 8 kB of their slab holds.
const CHANGES_PER_BLOCK: usize = 92;
/// The blocks that other contexts have meanwhile.
const OTHER_BLOCKS: usize = 4;
const SMALL_BLOCK: usize = 8 << 10;

/// How many rows come when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) first: usize,
    pub(super) rounds: usize,
    long: usize,
    short: usize,
    /// By how much the numbers of rows vary from round to round.
    varied: bool,
}

pub(super) const SETS: [Workload; 3] = [
    Workload { name: "A", first: 8_000, rounds: 480, long: 330, short: 25_000, varied: false },
    Workload { name: "B", first: 8_000, rounds: 484, long: 336, short: 25_000, varied: false },
    Workload { name: "C", first: 3_780, rounds: 490, long: 326, short: 25_359, varied: true },
];

impl Workload {
    /// So many rounds of it.
    pub(super) fn shortened(self, rounds: usize) -> Self {
        Self { rounds, ..self }
    }

    /// Rows of the long and of the short transaction in a round: varied by sequences of low discrepancy.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small positives")]
    pub(super) fn rows(&self, round: usize) -> (usize, usize) {
        if !self.varied {
            return (self.long, self.short);
        }
        let vary = |rows: usize, by: f64, step: f64| {
            let place = 2.0 * (step * round as f64).fract() - 1.0;
            (rows as f64 * (1.0 + by * place)) as usize
        };
        (vary(self.long, 0.0985, 0.618_033_99), vary(self.short, 0.0459, 0.754_877_67))
    }

    /// Rows that are placed in all.
    pub(super) fn placed(&self) -> usize {
        (0..self.rounds)
            .map(|round| self.rows(round))
            .map(|(long, short)| long + short)
            .sum::<usize>()
            + self.first
    }

    /// Rows that live when the last short transaction is about to commit.
    pub(super) fn live(&self) -> usize {
        let long: usize = (0..self.rounds).map(|round| self.rows(round).0).sum();
        self.first + long + self.rows(self.rounds - 1).1
    }

    /// What the contexts beside that of the tuples hold then.
    pub(super) fn beside(&self) -> usize {
        SMALL_BLOCK * (OTHER_BLOCKS + self.live().div_ceil(CHANGES_PER_BLOCK))
    }

    /// Bytes that the server counts for the live rows.
    pub(super) fn accounted(&self) -> usize {
        self.live() * (CHANGE + TUPLE)
    }
}

/// Where tuples are put: the most that they held, in bytes.
pub(super) trait Layout {
    type Row;
    /// A transaction.
    type Owner;

    fn begin(&mut self) -> Result<Self::Owner, MemoryError>;
    fn place(&mut self, owner: &mut Self::Owner) -> Result<Self::Row, MemoryError>;
    fn free(&mut self, row: Self::Row) -> Result<(), MemoryError>;
    fn end(&mut self, owner: Self::Owner) -> Result<(), MemoryError>;
    fn held(&self) -> usize;
}

/// Runs a workload; the most that the tuples held at the end of a round.
pub(super) fn run<L: Layout>(workload: Workload, layout: &mut L) -> Result<usize, MemoryError> {
    let mut most = 0;
    let mut long = layout.begin()?;
    let mut kept = Vec::with_capacity(workload.live());
    let mut rows = VecDeque::with_capacity(2 * workload.short);
    for _ in 0..workload.first {
        kept.push(layout.place(&mut long)?);
    }
    for round in 0..workload.rounds {
        let (of_long, of_short) = workload.rows(round);
        for _ in 0..of_long {
            kept.push(layout.place(&mut long)?);
        }
        let mut short = layout.begin()?;
        for _ in 0..of_short {
            rows.push_back(layout.place(&mut short)?);
        }
        most = most.max(layout.held());
        while let Some(row) = rows.pop_front() {
            layout.free(row)?;
        }
        layout.end(short)?;
    }
    for row in kept {
        layout.free(row)?;
    }
    layout.end(long)?;
    Ok(most)
}

/// A Generation in numbers, so that gigabytes cost nothing.
pub(super) struct InNumbers {
    twin: TwinGeneration,
}

impl InNumbers {
    pub(super) fn new(sizes: BlockSizes) -> Self {
        Self { twin: TwinGeneration::new(Release::V17, sizes) }
    }
}

impl Layout for InNumbers {
    type Row = usize;
    type Owner = ();

    fn begin(&mut self) -> Result<(), MemoryError> {
        Ok(())
    }

    fn place(&mut self, (): &mut ()) -> Result<usize, MemoryError> {
        Ok(self.twin.allocate(TUPLE))
    }

    fn free(&mut self, row: usize) -> Result<(), MemoryError> {
        self.twin.free(row, TUPLE);
        Ok(())
    }

    fn end(&mut self, (): ()) -> Result<(), MemoryError> {
        Ok(())
    }

    fn held(&self) -> usize {
        self.twin.figures().mem_allocated
    }
}

/// One context for all.
pub(super) struct Shared<K: ReturnsChunks>(Context<'static, K>);

impl Shared<Generation> {
    pub(super) fn generation(sizes: BlockSizes) -> Result<Self, MemoryError> {
        root("Tuples").release(Release::V17).generation(sizes).map(Self)
    }
}

impl<K: ReturnsChunks> Layout for Shared<K> {
    type Row = Chunk<K>;
    type Owner = ();

    fn begin(&mut self) -> Result<(), MemoryError> {
        Ok(())
    }

    #[inline]
    fn place(&mut self, (): &mut ()) -> Result<Chunk<K>, MemoryError> {
        self.0.take(&[7; TUPLE])
    }

    #[inline]
    fn free(&mut self, row: Chunk<K>) -> Result<(), MemoryError> {
        self.0.give_back(row)
    }

    fn end(&mut self, (): ()) -> Result<(), MemoryError> {
        Ok(())
    }

    fn held(&self) -> usize {
        self.0.mem_allocated()
    }
}

/// A Bump for each transaction.
pub(super) struct BumpEach {
    account: pgtoast_memctx::Account,
}

impl BumpEach {
    pub(super) fn new() -> Self {
        Self { account: pgtoast_memctx::Account::group("Tuples") }
    }
}

impl Layout for BumpEach {
    type Row = Chunk<Bump>;
    type Owner = Context<'static, Bump>;

    fn begin(&mut self) -> Result<Self::Owner, MemoryError> {
        root("Transaction").account(&self.account).bump(BlockSizes::fixed(SMALL_BLOCK))
    }

    #[inline]
    fn place(&mut self, owner: &mut Self::Owner) -> Result<Chunk<Bump>, MemoryError> {
        owner.take(&[7; TUPLE])
    }

    #[inline]
    fn free(&mut self, _row: Chunk<Bump>) -> Result<(), MemoryError> {
        Ok(())
    }

    fn end(&mut self, _owner: Self::Owner) -> Result<(), MemoryError> {
        Ok(())
    }

    fn held(&self) -> usize {
        self.account.subtree_allocated()
    }
}

/// Ours.
pub(super) struct ByCohort(Context<'static, Cohorts>);

impl ByCohort {
    pub(super) fn new() -> Result<Self, MemoryError> {
        root("Tuples").cohorts().map(Self)
    }
}

impl Layout for ByCohort {
    type Row = Chunk<Cohorts>;
    type Owner = Cohort;

    fn begin(&mut self) -> Result<Cohort, MemoryError> {
        Ok(Cohort::new())
    }

    #[inline]
    fn place(&mut self, owner: &mut Cohort) -> Result<Chunk<Cohorts>, MemoryError> {
        self.0.take_for(owner, &[7; TUPLE])
    }

    #[inline]
    fn free(&mut self, row: Chunk<Cohorts>) -> Result<(), MemoryError> {
        self.0.give_back(row)
    }

    fn end(&mut self, owner: Cohort) -> Result<(), MemoryError> {
        self.0.close(owner)
    }

    fn held(&self) -> usize {
        self.0.mem_allocated()
    }
}

/// Ours, for the changes as well: no slab of blocks beside it.
pub(super) struct BothByCohort(ByCohort);

impl BothByCohort {
    pub(super) fn new() -> Result<Self, MemoryError> {
        ByCohort::new().map(Self)
    }

    /// What other contexts have meanwhile.
    pub(super) const BESIDE: usize = SMALL_BLOCK * OTHER_BLOCKS;
}

impl Layout for BothByCohort {
    type Row = (Chunk<Cohorts>, Chunk<Cohorts>);
    type Owner = Cohort;

    fn begin(&mut self) -> Result<Cohort, MemoryError> {
        self.0.begin()
    }

    fn place(&mut self, owner: &mut Cohort) -> Result<Self::Row, MemoryError> {
        let change = self.0.0.take_for(owner, &[3; CHANGE])?;
        Ok((change, self.0.place(owner)?))
    }

    fn free(&mut self, (change, tuple): Self::Row) -> Result<(), MemoryError> {
        self.0.free(change)?;
        self.0.free(tuple)
    }

    fn end(&mut self, owner: Cohort) -> Result<(), MemoryError> {
        self.0.end(owner)
    }

    fn held(&self) -> usize {
        self.0.held()
    }
}

/// Shapes of transactions for timing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// One transaction with so many subtransactions of one row each, all freed at its end. They share
    /// what the transaction owns, as in a reorder buffer.
    Subtransactions(usize),
    /// The same, but each is an owner of its own.
    Owners(usize),
    /// One transaction of so many rows.
    Big(usize),
    /// So many transactions of ten rows, one after the other.
    Short(usize),
}

impl Shape {
    pub(super) fn name(self) -> String {
        match self {
            Self::Subtransactions(count) => format!("{count} subtransactions of a row"),
            Self::Owners(count) => format!("{count} subtransactions of a row, a cohort each"),
            Self::Big(rows) => format!("one transaction of {rows} rows"),
            Self::Short(count) => format!("{count} transactions of 10 rows"),
        }
    }

    /// Rows in all.
    pub(super) fn rows(self) -> usize {
        match self {
            Self::Subtransactions(count) | Self::Owners(count) | Self::Big(count) => count,
            Self::Short(count) => 10 * count,
        }
    }

    /// Does it. An owner that a subtransaction is ends before its rows are freed.
    pub(super) fn run<L: Layout>(self, layout: &mut L) -> Result<(), MemoryError> {
        match self {
            Self::Owners(count) => {
                let mut rows = Vec::with_capacity(count);
                for _ in 0..count {
                    let mut owner = layout.begin()?;
                    rows.push(layout.place(&mut owner)?);
                    layout.end(owner)?;
                }
                rows.into_iter().try_for_each(|row| layout.free(row))
            }
            Self::Subtransactions(count) | Self::Big(count) => Self::transaction(layout, count),
            Self::Short(count) => (0..count).try_for_each(|_| Self::transaction(layout, 10)),
        }
    }

    fn transaction<L: Layout>(layout: &mut L, count: usize) -> Result<(), MemoryError> {
        let mut owner = layout.begin()?;
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            rows.push(layout.place(&mut owner)?);
        }
        rows.into_iter().try_for_each(|row| layout.free(row))?;
        layout.end(owner)
    }
}
