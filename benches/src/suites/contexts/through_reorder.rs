//! The same workloads through the reorder buffer, with each of its layouts: records come in, transactions
//! go out to nobody. Subtransactions share the place of their transaction, as they do there.
use anyhow::{Result, bail, ensure};
use pgtoast_base::{Lsn, Oid, Xid};
use pgtoast_memctx::BlockSizes;
use pgtoast_page::Value;
use pgtoast_reorder::{
    Action, BuiltinType, BumpPerTransaction, Change, CohortPages, Column, InsertFlags, Layout,
    MemorySpill, Message, Options, Output, Record, Relation, RelationMap, ReorderBuffer,
    ReorderError, ReorderStats, RowChange, SharedGeneration, TransactionInfo, Truncate,
};

use super::decoding::{SETS, Shape, TUPLE, Workload};
use super::{BUMPS, COHORTS, KIB_8, LARGE, LEAST_ROUNDS, MIB_8, NAME, SMALL};
use crate::instructions::counted;
use crate::row::Better;
use crate::{Bench, Comparison, Effort, Row, check};

/// What is timed here, to be counted in steps.
pub(super) const CELLS: usize = 4;
/// Before a layout's name, where it is that of a reorder buffer.
pub(super) const PREFIX: &str = "reorder buffer, ";
/// Allocated bytes for each accounted one, at most.
const LARGEST_PART: f64 = 1.3;
/// Bytes before a tuple in a change that is held.
const BEFORE_TUPLE: usize = 24;

/// What is done.
#[derive(Clone, Copy, Debug)]
enum Work {
    Shape(Shape),
    Set(Workload),
}

impl Work {
    fn name(self) -> String {
        match self {
            Self::Shape(shape) => format!("reorder buffer, {}", shape.name()),
            Self::Set(set) => format!("reorder buffer, set C, {} rounds", set.rounds),
        }
    }

    fn rows(self) -> usize {
        match self {
            Self::Shape(shape) => shape.rows(),
            Self::Set(set) => set.placed(),
        }
    }
}

fn timed(effort: Effort) -> [Work; CELLS] {
    let (rows, rounds) = match effort {
        Effort::Quick => (40_000, 2),
        Effort::Full => (1_000_000, 20),
    };
    works(rows, rounds)
}

fn works(rows: usize, rounds: usize) -> [Work; CELLS] {
    [
        Work::Shape(Shape::Subtransactions(rows)),
        Work::Shape(Shape::Big(rows)),
        Work::Shape(Shape::Short(rows / 10)),
        Work::Set(SETS[2].shortened(rounds)),
    ]
}

/// Those whose instructions are counted, with their rows.
pub(super) fn counted_cases() -> Vec<(String, usize)> {
    counted_works().iter().map(|work| (work.name(), work.rows())).collect()
}

fn counted_works() -> [Work; CELLS] {
    works(100_000, 5)
}

/// Does what is counted, with one layout.
pub(super) fn workload(layout: &str) -> Result<()> {
    for work in counted_works() {
        match layout {
            COHORTS => Decoder::new(CohortPages::new()?)?.count(work)?,
            LARGE => Decoder::new(generation(MIB_8)?)?.count(work)?,
            SMALL => Decoder::new(generation(KIB_8)?)?.count(work)?,
            _ => bail!("no layout {layout:?}"),
        }
    }
    Ok(())
}

fn generation(block_bytes: usize) -> Result<SharedGeneration> {
    Ok(SharedGeneration::new(BlockSizes::fixed(block_bytes))?)
}

fn bump() -> BumpPerTransaction {
    BumpPerTransaction::new(BlockSizes::fixed(KIB_8))
}

/// Time a change by layout, then what is held for what is accounted for.
pub(super) fn rows(bench: &Bench, cells_to_come: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (index, work) in timed(bench.effort()).into_iter().enumerate() {
        bench.step(work.name());
        rows.extend(time(bench, work, cells_to_come + CELLS - index)?);
    }
    let (subtransactions, rounds) = match bench.effort() {
        Effort::Quick => (40_000, 30),
        Effort::Full => (1_000_000, 120),
    };
    let subtransactions = Shape::Subtransactions(subtransactions);
    for work in [Work::Set(SETS[2].shortened(rounds)), Work::Shape(subtransactions)] {
        bench.step(format!("{}: bytes", work.name()));
        rows.extend(peaks(work)?);
    }
    Ok(rows)
}

fn time(bench: &Bench, work: Work, cells: usize) -> Result<Vec<Row>> {
    let mut cohorts = Decoder::new(CohortPages::new()?)?;
    let mut small = Decoder::new(generation(KIB_8)?)?;
    let mut large = Decoder::new(generation(MIB_8)?)?;
    let mut bumps = Decoder::new(bump())?;
    let failures = std::cell::Cell::new(0);
    let noted = |result: Result<_>| failures.set(failures.get() + usize::from(result.is_err()));
    let timings = Comparison::of(|| noted(cohorts.run(work)))
        .against(SMALL, || noted(small.run(work)))
        .against(LARGE, || noted(large.run(work)))
        .against(BUMPS, || noted(bumps.run(work)))
        .at_least(LEAST_ROUNDS)
        .run(bench.share(cells))?;
    check(failures.get() == 0, || format!("{}: a record was refused", work.name()))?;
    let nanoseconds = |seconds: f64| seconds * 1e9 / work.rows() as f64;
    let row =
        || Row::new(NAME, work.name(), "time a change, Cohorts", "ns", nanoseconds(timings.ours));
    let peers = timings.peers.iter();
    Ok(peers
        .map(|peer| row().against(peer.name, nanoseconds(peer.seconds), Better::Lower))
        .map(|row| row.noted(format!("{} rounds", timings.rounds)))
        .collect())
}

fn peaks(work: Work) -> Result<Vec<Row>> {
    let row = |layout: &str, stats: &ReorderStats| {
        let (allocated, accounted) = (stats.peak_allocated_bytes, stats.peak_accounted_bytes);
        let row = Row::new(
            NAME,
            work.name(),
            format!("allocated at most, {layout}"),
            "bytes",
            allocated as f64,
        );
        row.against("accounted for", accounted as f64, Better::Lower)
    };
    let stats = Decoder::new(CohortPages::new()?)?.run(work)?;
    let mut rows = vec![row(COHORTS, &stats).floor(1.0 / LARGEST_PART)];
    let small = Decoder::new(generation(KIB_8)?)?.run(work)?;
    let large = Decoder::new(generation(MIB_8)?)?.run(work)?;
    let bumps = Decoder::new(bump())?.run(work)?;
    for (layout, peak) in [(SMALL, small), (LARGE, large), (BUMPS, bumps)] {
        let accounted = (peak.peak_accounted_bytes, stats.peak_accounted_bytes);
        check(accounted.0 == accounted.1, || format!("{layout}: accounted for {accounted:?}"))?;
        rows.push(row(layout, &peak));
    }
    Ok(rows)
}

/// A buffer, and what it is fed with.
struct Decoder<L: Layout> {
    buffer: ReorderBuffer<L, MemorySpill>,
    catalog: RelationMap,
    tuple: Vec<u8>,
    output: Nobody,
    lsn: u64,
}

impl<L: Layout> Decoder<L> {
    const RELATION: Oid = Oid::new(16_384);
    const TOP: u32 = 700;

    fn new(layout: L) -> Result<Self> {
        let columns =
            vec![Column::new("id", BuiltinType::INT4), Column::new("note", BuiltinType::TEXT)];
        let table = Relation::table(Self::RELATION, "public", "t", columns)?;
        // A text with a header of one byte, which says its length in 7 bits.
        let mut note = [b'x'; TUPLE - BEFORE_TUPLE - 24 - 4];
        note[0] = u8::try_from(note.len() << 1 | 1)?;
        let mut tuple = [0; TUPLE];
        let values = [Value::stored(&[7, 0, 0, 0]), Value::stored(&note)];
        let tuple = table.descriptor()?.form(&values, &mut tuple)?.bytes().to_vec();
        ensure!(tuple.len() == TUPLE - BEFORE_TUPLE, "a tuple of {} bytes", tuple.len());
        // Nothing is spilled.
        let options = Options { work_mem: usize::MAX, ..Options::default() };
        Ok(Self {
            buffer: ReorderBuffer::new(layout, MemorySpill::new(), options),
            catalog: RelationMap::new([table]),
            tuple,
            output: Nobody::default(),
            lsn: 0,
        })
    }

    fn count(&mut self, work: Work) -> Result<()> {
        let mut result = Ok(());
        counted(&mut || result = self.run(work).map(drop));
        result
    }

    /// What the buffer says then; all transactions are over.
    fn run(&mut self, work: Work) -> Result<ReorderStats> {
        let before = self.output.rows;
        match work {
            Work::Shape(shape) => self.run_shape(shape)?,
            Work::Set(set) => self.run_set(set)?,
        }
        let (stats, sent) = (self.buffer.stats(), self.output.rows - before);
        ensure!(sent == work.rows() && stats.accounted_bytes == 0, "{sent} rows, {stats:?}");
        Ok(stats)
    }

    fn run_shape(&mut self, shape: Shape) -> Result<()> {
        match shape {
            Shape::Subtransactions(count) | Shape::Owners(count) => {
                let xids: Vec<_> =
                    (1..=u32::try_from(count)?).map(|n| Xid::new(Self::TOP + n)).collect();
                for xid in &xids {
                    self.apply(xid.get(), Action::Assign { top: Xid::new(Self::TOP) })?;
                    self.insert(xid.get(), 1)?;
                }
                self.apply(Self::TOP, Action::Commit { subtransactions: &xids })
            }
            Shape::Big(rows) => self.transaction(Self::TOP, rows),
            Shape::Short(count) => (0..count).try_for_each(|_| self.transaction(Self::TOP, 10)),
        }
    }

    fn run_set(&mut self, set: Workload) -> Result<()> {
        self.insert(Self::TOP, set.first)?;
        for round in 0..set.rounds {
            let (of_long, of_short) = set.rows(round);
            self.insert(Self::TOP, of_long)?;
            self.transaction(Self::TOP + 1, of_short)?;
        }
        self.apply(Self::TOP, Action::Commit { subtransactions: &[] })
    }

    fn transaction(&mut self, xid: u32, rows: usize) -> Result<()> {
        self.insert(xid, rows)?;
        self.apply(xid, Action::Commit { subtransactions: &[] })
    }

    fn insert(&mut self, xid: u32, rows: usize) -> Result<()> {
        for _ in 0..rows {
            self.lsn += 8;
            let change = Change::Insert {
                relation: Self::RELATION,
                new: Some(&self.tuple),
                tid: None,
                flags: InsertFlags::empty(),
            };
            let (lsn, xid) = (Lsn::new(self.lsn), Xid::new(xid));
            let record = Record { lsn, xid, action: Action::Change(change) };
            self.buffer.apply(&record, &self.catalog, &mut self.output)?;
        }
        Ok(())
    }

    fn apply(&mut self, xid: u32, action: Action<'_>) -> Result<()> {
        self.lsn += 8;
        let record = Record { lsn: Lsn::new(self.lsn), xid: Xid::new(xid), action };
        Ok(self.buffer.apply(&record, &self.catalog, &mut self.output)?)
    }
}

/// Counts rows.
#[derive(Debug, Default)]
struct Nobody {
    rows: usize,
}

impl Output for Nobody {
    type Error = ReorderError;

    fn begin(&mut self, _: &TransactionInfo) -> Result<(), ReorderError> {
        Ok(())
    }

    fn change(&mut self, _: &TransactionInfo, _: &mut RowChange<'_>) -> Result<(), ReorderError> {
        self.rows += 1;
        Ok(())
    }

    fn truncate(&mut self, _: &TransactionInfo, _: &Truncate<'_>) -> Result<(), ReorderError> {
        Ok(())
    }

    fn message(
        &mut self,
        _: Option<&TransactionInfo>,
        _: &Message<'_>,
    ) -> Result<(), ReorderError> {
        Ok(())
    }

    fn commit(&mut self, _: &TransactionInfo) -> Result<(), ReorderError> {
        Ok(())
    }
}
