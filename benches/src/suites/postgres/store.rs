//! The three loads, through the store and through the server: inserted, read whole, in slices, and row by
//! row.
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use md5::{Digest, Md5};
use pgtoast_base::ItemPointer;
use pgtoast_store::{
    Column, ColumnType, Datum, Field, Isolation, Schema, Storage, Store, StoreOptions, Table, Value,
};
use pgtoast_testkit::Rng;
use pgtoast_testkit::postgres::Client;
use tempfile::TempDir;

use super::{NAME, execute, hex};
use crate::peers::POSTGRESQL_15;
use crate::row::Better;
use crate::{Bench, Comparison, Row, Timings, check};

const INSERT: &str = "insert";
const NOTE: &str = "one session each, one transaction, everything in buffers of the same size, pages with \
                    checksums, which neither computes before it writes nor verifies in its buffers; the \
                    server: EXPLAIN (ANALYZE, TIMING OFF), an unlogged table";
const FLOOR: f64 = 2.0;
/// Of the largest values, whose reading is little but copying on both sides.
const COPY_FLOOR: f64 = 1.5;
/// As much as the server's shared buffers.
const POOL_BYTES: usize = 1 << 30;
const SLICE_LEN: usize = 100;
/// Where values come from: windows of one piece of random bytes.
const PIECE_LEN: usize = 1 << 21;

/// So many values of one length, one a row.
#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    case: &'static str,
    value_len: usize,
    rows: usize,
    read_floor: f64,
}

const LOADS: [Load; 3] = [
    Load {
        name: "load_2",
        case: "5 000 × 2 048 B",
        value_len: 2_048,
        rows: 5_000,
        read_floor: FLOOR,
    },
    Load {
        name: "load_22",
        case: "1 000 × 22 400 B",
        value_len: 22_400,
        rows: 1_000,
        read_floor: FLOOR,
    },
    Load {
        name: "load_320",
        case: "100 × 320 000 B",
        value_len: 320_000,
        rows: 100,
        read_floor: COPY_FLOOR,
    },
];

/// How often the work tells of itself.
pub(super) const STEPS: usize = LOADS.len();

pub(super) fn run(bench: &Bench, client: &mut Client, left: usize) -> Result<Vec<Row>> {
    client.batch_execute(&format!(
        "CREATE TABLE piece (v bytea);
         ALTER TABLE piece ALTER v SET STORAGE EXTERNAL;
         INSERT INTO piece SELECT string_agg(decode(md5(i::text), 'hex'), '' ORDER BY i)
             FROM generate_series(1, {}) i",
        PIECE_LEN / 16
    ))?;
    let piece: Vec<u8> = client.query_one("SELECT v FROM piece", &[])?.get(0);
    ensure!(piece.len() == PIECE_LEN, "a piece of {} bytes", piece.len());
    let mut rows = Vec::new();
    for (done, load) in LOADS.into_iter().enumerate() {
        bench.step(load.case);
        let share = bench.share((LOADS.len() - done + left) * (1 + Read::ALL.len()));
        let pair = Pair::fill(load, &piece, client, share)?;
        rows.extend(pair.compare(client, share)?);
    }
    for metric in [INSERT].into_iter().chain(Read::ALL.map(Read::metric)) {
        rows.extend(Row::summaries(&rows, metric, POSTGRESQL_15));
    }
    Ok(rows)
}

impl Load {
    /// Where the value of row `id` starts in the piece.
    fn start(self, id: usize) -> usize {
        (id * 7919) % (PIECE_LEN - self.value_len)
    }

    fn insert_sql(self) -> String {
        let Self { name, value_len, rows, .. } = self;
        format!(
            "WITH whole(v) AS MATERIALIZED (SELECT v || ''::bytea FROM piece)
             INSERT INTO {name} SELECT g, substr(v, 1 + (g * 7919) % ({PIECE_LEN} - {value_len}), \
             {value_len}) FROM whole, generate_series(1, {rows}) g"
        )
    }
}

/// What is done with a load once it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    Whole,
    Prefix,
    Middle,
    Row,
}

impl Read {
    const ALL: [Self; 4] = [Self::Whole, Self::Prefix, Self::Middle, Self::Row];

    fn metric(self) -> &'static str {
        match self {
            Self::Whole => "full read",
            Self::Prefix => "first 100 bytes",
            Self::Middle => "100 bytes in the middle",
            Self::Row => "fetch a row by tid",
        }
    }
}

/// The same rows in a table of the server and in one of a store.
struct Pair {
    load: Load,
    store: Store,
    table: Table,
    /// In an order of its own.
    tids: Vec<ItemPointer>,
    inserted: Timings,
    /// Behind the store, which closes before its directory goes.
    _directory: TempDir,
}

impl Pair {
    /// Inserts the load on both sides, again and again: the last time is what is read then.
    fn fill(load: Load, piece: &[u8], client: &mut Client, share: Duration) -> Result<Self> {
        let Load { name, .. } = load;
        client.batch_execute(&format!(
            "CREATE UNLOGGED TABLE {name} (id int4, v bytea);
             ALTER TABLE {name} ALTER v SET STORAGE EXTERNAL"
        ))?;
        let directory = tempfile::tempdir().context("a directory for the store")?;
        let store = Store::open(directory.path(), StoreOptions::new().buffer_bytes(POOL_BYTES))?;
        let mut table = store.create_table(name, schema())?;
        let mut tids = Vec::new();
        let inserted = Comparison::of_timed(|| {
            store.drop_table(&table)?;
            table = store.create_table(name, schema())?;
            tids.clear();
            let mut value = Vec::new();
            let started = Instant::now();
            let mut transaction = store.begin(Isolation::ReadCommitted);
            for id in 1..=load.rows {
                // The server makes its value, too.
                let start = load.start(id);
                value.clear();
                value.extend_from_slice(&piece[start..start + load.value_len]);
                let row = [Datum::Int4(i32::try_from(id)?), Datum::Bytes(&value)];
                tids.push(transaction.insert(&table, &row)?);
            }
            transaction.commit()?;
            Ok(started.elapsed())
        })
        .against_timed(POSTGRESQL_15, || {
            client.batch_execute(&format!("TRUNCATE {name}"))?;
            Ok(execute(client, &load.insert_sql())?.time)
        })
        .run(share)?;
        let mut rng = Rng::new(10);
        for at in (1..tids.len()).rev() {
            tids.swap(at, rng.below(at + 1));
        }
        client.batch_execute(&format!(
            "CREATE UNLOGGED TABLE picks_{name} AS SELECT ctid AS tid FROM {name} \
             ORDER BY hashint4(id); ANALYZE {name}; ANALYZE picks_{name}"
        ))?;
        Ok(Self { load, store, table, tids, inserted, _directory: directory })
    }

    fn compare(&self, client: &mut Client, share: Duration) -> Result<Vec<Row>> {
        self.check_bytes(client)?;
        let mut rows = vec![self.row(INSERT, &self.inserted, FLOOR)];
        for read in Read::ALL {
            let expected = self.expected(read);
            let timings = Comparison::of_timed(|| self.our_time(read, expected))
                .against_timed(POSTGRESQL_15, || self.server_time(client, read))
                .run(share)?;
            let floor = if read == Read::Whole { self.load.read_floor } else { FLOOR };
            rows.push(self.row(read.metric(), &timings, floor));
        }
        Ok(rows)
    }

    fn row(&self, metric: &str, timings: &Timings, floor: f64) -> Row {
        let peer = timings.peer(POSTGRESQL_15).unwrap_or(f64::NAN);
        let microseconds = |seconds: f64| seconds * 1e6 / self.load.rows as f64;
        Row::new(NAME, self.load.case, metric, "µs", microseconds(timings.ours))
            .against(POSTGRESQL_15, microseconds(peer), Better::Lower)
            .floor(floor)
            .noted(NOTE)
    }

    /// Insists that the two tables hold the same bytes.
    fn check_bytes(&self, client: &mut Client) -> Result<()> {
        let sql = format!("SELECT md5(string_agg(md5(v), '' ORDER BY id)) FROM {}", self.load.name);
        let theirs: String = client.query_one(&sql, &[])?.get(0);
        let mut transaction = self.store.begin(Isolation::ReadCommitted);
        let (mut digests, mut value) = (String::new(), Vec::new());
        let mut scan = transaction.scan(&self.table)?;
        while let Some(row) = scan.next()? {
            value_of(row.get(1)?)?.read_into(&mut value)?;
            digests.push_str(&hex(&Md5::digest(&value)));
        }
        let ours = hex(&Md5::digest(&digests));
        check(ours == theirs, || format!("{}: our bytes are not the server's", self.load.case))
    }

    /// What the lengths, or the ids, come to.
    fn expected(&self, read: Read) -> usize {
        let rows = self.load.rows;
        match read {
            Read::Whole => rows * self.load.value_len,
            Read::Prefix | Read::Middle => rows * SLICE_LEN,
            Read::Row => rows * (rows + 1) / 2,
        }
    }

    fn our_time(&self, read: Read, expected: usize) -> Result<Duration> {
        let (mut sum, mut value, mut slice) = (0, Vec::new(), [0; SLICE_LEN]);
        let middle = self.load.value_len / 2;
        let started = Instant::now();
        let mut transaction = self.store.begin(Isolation::ReadCommitted);
        let statement = transaction.statement(&[&self.table])?;
        if read == Read::Row {
            for tid in &self.tids {
                let row = statement.fetch(&self.table, *tid)?.context("a row is gone")?;
                let id = row.get(0)?.as_int4().context("an id is no int4")?;
                sum += usize::try_from(id)?;
            }
        } else {
            let mut scan = statement.scan(&self.table)?;
            while let Some(row) = scan.next()? {
                let stored = value_of(row.get(1)?)?;
                sum += match read {
                    Read::Whole | Read::Row => {
                        stored.read_into(&mut value)?;
                        black_box(&value).len()
                    }
                    Read::Prefix => stored.slice_into(0, &mut slice)?,
                    Read::Middle => stored.slice_into(middle, &mut slice)?,
                };
                black_box(&slice);
            }
        }
        let elapsed = started.elapsed();
        check(sum == expected, || format!("{}: {sum}, not {expected}", self.load.case))?;
        Ok(elapsed)
    }

    fn server_time(&self, client: &mut Client, read: Read) -> Result<Duration> {
        let Load { name, value_len, .. } = self.load;
        let slice = match read {
            Read::Whole => "substr(v, 1)".to_owned(),
            Read::Prefix => format!("substr(v, 1, {SLICE_LEN})"),
            Read::Middle => format!("substr(v, 1 + {value_len} / 2, {SLICE_LEN})"),
            Read::Row => {
                let joined =
                    format!("SELECT sum(id) FROM picks_{name} p JOIN {name} t ON t.ctid = p.tid");
                let alone = execute(client, &format!("SELECT count(tid) FROM picks_{name}"))?.time;
                return Ok(execute(client, &joined)?.time.saturating_sub(alone));
            }
        };
        let executed = execute(client, &format!("SELECT sum(length({slice})) FROM {name}"))?;
        ensure!(executed.read_blocks == 0, "{} blocks read", executed.read_blocks);
        Ok(executed.time)
    }
}

fn schema() -> Schema {
    Schema::new([
        Column::new("id", ColumnType::Int4),
        Column::new("v", ColumnType::Bytea).with_storage(Storage::External),
    ])
}

fn value_of(field: Field<'_>) -> Result<Value<'_>> {
    field.as_value().context("the column has no value")
}
