//! What ids that are taken cost an insert, through the whole store: the row, its value out of line, the
//! chunk, the index, the id.
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pgtoast_store::{
    Column, ColumnType, Datum, Isolation, Schema, SizePolicy, Storage, Store, StoreOptions, Table,
    ToastFlavour,
};
use tempfile::TempDir;

use super::{FIRST_ID, NAME, OID8};
use crate::row::Better;
use crate::{Bench, Comparison, Effort, Row, Timings, check};

const RUN: &str = "insert through the store behind taken ids";
const FILLING: &str = "insert through the store as ids run out";
const NOTE: &str =
    "a row with one value of 30 bytes, which goes out of line; 64-bit ids are not looked for";
/// The longest run of taken ids, as a power of ten.
const LONGEST: u32 = 6;
/// So many ids in a row are taken and then one is not, again and again.
const TAKEN_PER_FREE: [(u64, &str); 4] = [
    (1, "1 of 2 ids taken"),
    (9, "9 of 10 ids taken"),
    (99, "99 of 100 ids taken"),
    (999, "999 of 1 000 ids taken"),
];
/// Rows that are inserted in a sample as ids run out.
const INSERTS: u64 = 10;
/// Samples that there are holes for, and the one before them that is not counted.
const SAMPLES: usize = 21;

pub(super) const STEPS: usize = 1;

pub(super) fn run(bench: &Bench, share: Duration) -> Result<Vec<Row>> {
    bench.step("ids through the store");
    let (narrow, wide) = (Side::new(ToastFlavour::Oid)?, Side::new(ToastFlavour::Oid8)?);
    // What 64-bit ids cost hangs on the size of the index alone, and hardly on that.
    let wide_entries = match bench.effort() {
        Effort::Quick => 100_000,
        Effort::Full => 10_u64.pow(LONGEST),
    };
    wide.take(FIRST_ID..FIRST_ID + wide_entries)?;
    let run = FIRST_ID..FIRST_ID + 10_u64.pow(LONGEST);
    narrow.take(run.clone())?;
    let mut rows = Vec::new();
    let mut end = run.end;
    for exponent in 3..=LONGEST {
        let taken = 10_u64.pow(exponent);
        let timings = Comparison::of_timed(|| {
            let elapsed = narrow.insert_from(end - taken, 1, taken)?;
            // What this one took is part of the run now.
            end += 1;
            Ok(elapsed)
        })
        .against_timed(OID8, || wide.insert(1))
        .at_least(SAMPLES)
        .run(share / 16)?;
        rows.push(row(&format!("10^{exponent} taken ids"), RUN, &timings, 1));
    }
    let mut start = end + 1_000_000;
    for (taken, case) in TAKEN_PER_FREE {
        let of_sample = INSERTS * (taken + 1);
        let holes = start..start + (SAMPLES as u64 + 1) * of_sample;
        for hole in holes.clone().step_by(usize::try_from(taken + 1)?) {
            narrow.take(hole..hole + taken)?;
        }
        let mut first = start;
        let timings = Comparison::of_timed(|| {
            let elapsed = narrow.insert_from(first, INSERTS, INSERTS * taken);
            first += of_sample;
            elapsed
        })
        .against_timed(OID8, || wide.insert(INSERTS))
        .at_least(SAMPLES)
        .run(Duration::ZERO)?;
        rows.push(row(case, FILLING, &timings, INSERTS));
        start = holes.end + 1;
    }
    Ok(rows)
}

fn row(case: &str, metric: &str, timings: &Timings, inserts: u64) -> Row {
    let microseconds = |seconds: f64| seconds * 1e6 / inserts as f64;
    let peer = timings.peer(OID8).unwrap_or(f64::NAN);
    Row::new(NAME, case, metric, "µs", microseconds(timings.ours))
        .against(OID8, microseconds(peer), Better::Lower)
        .noted(NOTE)
}

/// A store with a table whose every value goes out of line.
struct Side {
    store: Store,
    table: Table,
    /// Behind the store, which closes before its directory goes.
    _directory: TempDir,
}

impl Side {
    fn new(flavour: ToastFlavour) -> Result<Self> {
        let directory = tempfile::tempdir().context("a directory for the store")?;
        let store = Store::open(directory.path(), StoreOptions::new().buffer_bytes(1 << 30))?;
        let column = Column::new("v", ColumnType::Bytea).with_storage(Storage::External);
        let policy = SizePolicy { move_out_over: 24, compress_over: usize::MAX };
        let schema = Schema::new([column]).with_flavour(flavour).with_size_policy(policy);
        let table = store.create_table("ids", schema)?;
        Ok(Self { store, table, _directory: directory })
    }

    /// Has values take all of these ids.
    fn take(&self, ids: Range<u64>) -> Result<()> {
        self.store.set_next_value_id(ids.start);
        self.insert(ids.end - ids.start)?;
        let next = self.store.next_value_id();
        check(next == ids.end, || format!("{ids:?} were not free: the next is {next}"))
    }

    /// Inserts rows with the counter set to `first`, on the way to whose ids so many others are taken.
    fn insert_from(&self, first: u64, rows: u64, taken: u64) -> Result<Duration> {
        self.store.set_next_value_id(first);
        let before = self.store.statistics().value_ids.probes;
        let elapsed = self.insert(rows)?;
        let probes = self.store.statistics().value_ids.probes - before;
        check(probes == taken, || format!("{probes} probes where {taken} ids are taken"))?;
        Ok(elapsed)
    }

    /// Inserts rows in one transaction.
    fn insert(&self, rows: u64) -> Result<Duration> {
        let value = [7; 30];
        let started = Instant::now();
        let mut transaction = self.store.begin(Isolation::ReadCommitted);
        for _ in 0..rows {
            transaction.insert(&self.table, &[Datum::Bytes(&value)])?;
        }
        transaction.commit()?;
        Ok(started.elapsed())
    }
}
