//! The index of plain TOAST: inserts and lookups against a map of the standard library and against a
//! server's own share, and what a run of taken ids costs, with 32- and with 64-bit ids.
mod store;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber, Oid8};
use pgtoast_nbtree::{Index, Insertion, Key, KeyWidth, MemoryPages};
use pgtoast_testkit::postgres::{Client, SimpleQueryMessage};
use pgtoast_testkit::{Rng, Server, ServerOptions};

use super::Suite;
use crate::peers::{POSTGRESQL_15, server};
use crate::row::Better;
use crate::{Bench, Comparison, Effort, Row, Timings, check};

const NAME: &str = "oids";
const MAP: &str = "BTreeMap";
const PROBES: &str = "probe by probe";
const OID8: &str = "plain oid8";
const INSERT: &str = "insert";
const LOOKUP: &str = "lookup";
const TAKEN: &str = "insert behind taken ids";
const MAP_FLOOR: f64 = 0.5;
const SERVER_FLOOR: f64 = 2.0;
const BLOCK: BlockSize = BlockSize::KIB_8;
const FIRST_ID: u64 = 16_384;

/// The suite `oids`.
#[derive(Debug)]
pub(super) struct OidsSuite;

impl Suite for OidsSuite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "the index of plain TOAST: insert, lookup, runs of taken ids, 32- and 64-bit ids"
    }

    fn run(&self, bench: &Bench) -> Result<Vec<Row>> {
        let count = match bench.effort() {
            Effort::Quick => 100_000,
            Effort::Full => 1_000_000,
        };
        bench.expect_steps(4 + 4 + 1 + store::STEPS);
        let mut rows = Vec::new();
        for width in [KeyWidth::Oid, KeyWidth::Oid8] {
            for order in [Order::Ascending, Order::Any] {
                let work = Work::new(width, order, count);
                bench.step(work.case.clone());
                rows.extend(work.against_a_map(bench.share(20))?);
            }
        }
        for exponent in [3, 4, 5, 6] {
            bench.step(format!("a run of 10^{exponent} taken ids"));
            rows.extend(taken_ids(exponent, bench.share(14))?);
        }
        rows.extend(store::run(bench, bench.share(4))?);
        bench.step("a server");
        match server::distribution_15() {
            Ok(installation) => {
                let options = ServerOptions::new()
                    .set("shared_buffers", "512MB")
                    .set("autovacuum", "off")
                    .set("jit", "off")
                    .set("max_parallel_workers_per_gather", "0");
                let server = Server::start(&installation, &options)?;
                let mut client = server.client()?;
                for order in [Order::Ascending, Order::Any] {
                    let work = Work::new(KeyWidth::Oid, order, count);
                    rows.extend(work.against_a_server(&mut client, bench.share(3))?);
                }
            }
            Err(why) => rows.push(Row::skipped(NAME, POSTGRESQL_15, why.to_string())),
        }
        for (metric, peer, floor) in [
            (INSERT, MAP, MAP_FLOOR),
            (LOOKUP, MAP, MAP_FLOOR),
            (INSERT, POSTGRESQL_15, SERVER_FLOOR),
            (LOOKUP, POSTGRESQL_15, SERVER_FLOOR),
        ] {
            let summaries = Row::summaries(&rows, metric, peer);
            rows.extend(summaries.into_iter().map(|row| row.floor(floor)));
        }
        Ok(rows)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Ascending,
    Any,
}

/// Entries to insert, and the order to look them up in.
struct Work {
    case: String,
    width: KeyWidth,
    order: Order,
    entries: Vec<(Key, ItemPointer)>,
    lookups: Vec<Key>,
}

impl Work {
    /// Values of four chunks each.
    fn new(width: KeyWidth, order: Order, count: usize) -> Self {
        let mut rng = Rng::new(8);
        let entry = |n: usize| {
            let (value, seq) = (n as u64 / 4, i32::try_from(n % 4).unwrap_or(0));
            let block = BlockNumber::new(u32::try_from(n / 4).unwrap_or(0));
            let item = OffsetNumber::new(u16::try_from(n % 4 + 1).unwrap_or(1));
            (Key::new(Oid8::new(FIRST_ID + value), seq), ItemPointer::new(block, item))
        };
        let mut entries: Vec<_> = (0..count).map(entry).collect();
        let mut lookups: Vec<_> = entries.iter().map(|(key, _)| *key).collect();
        shuffle(&mut lookups, &mut rng);
        if order == Order::Any {
            shuffle(&mut entries, &mut rng);
        }
        let (bits, how) = match (width, order) {
            (KeyWidth::Oid, Order::Ascending) => ("32", "in order"),
            (KeyWidth::Oid, Order::Any) => ("32", "in any order"),
            (KeyWidth::Oid8, Order::Ascending) => ("64", "in order"),
            (KeyWidth::Oid8, Order::Any) => ("64", "in any order"),
        };
        let case = format!("{count} entries, {bits}-bit ids, {how}");
        Self { case, width, order, entries, lookups }
    }

    fn filled(&self) -> Index<MemoryPages> {
        let Ok(index) = Index::create(MemoryPages::new(BLOCK), self.width) else {
            unreachable!("a new store takes an index")
        };
        for (key, tid) in &self.entries {
            let _ = black_box(index.insert(*key, *tid));
        }
        index
    }

    fn found(&self, index: &Index<MemoryPages>) -> u64 {
        let block = |key: &Key| index.get(*key).ok().flatten().map_or(0, |tid| tid.block.get());
        self.lookups.iter().map(|key| u64::from(block(key))).sum()
    }

    fn row(&self, metric: &str, timings: &Timings, peer: &str, floor: f64) -> Row {
        let nanoseconds = |seconds: f64| seconds * 1e9 / self.entries.len() as f64;
        Row::new(NAME, &self.case, metric, "ns", nanoseconds(timings.ours))
            .against(peer, nanoseconds(timings.peer(peer).unwrap_or(f64::NAN)), Better::Lower)
            .floor(floor)
    }

    fn against_a_map(&self, share: Duration) -> Result<Vec<Row>> {
        let map = || {
            let mut map = BTreeMap::new();
            for (key, tid) in &self.entries {
                let _ = black_box(map.insert(*key, *tid));
            }
            map
        };
        let insert = Comparison::of(|| drop(black_box(self.filled())))
            .against(MAP, || drop(black_box(map())))
            .run(share)?;
        let (index, map) = (self.filled(), map());
        let report = index.check().map_err(|error| anyhow!("{}: {error}", self.case))?;
        check(report.entries == map.len() as u64, || format!("{}: {report:?}", self.case))?;
        let (mut ours, mut theirs) = (0, 0);
        let lookup = Comparison::of(|| ours = self.found(&index))
            .against(MAP, || {
                let block = |key: &Key| map.get(key).map_or(0, |tid| tid.block.get());
                theirs = self.lookups.iter().map(|key| u64::from(block(key))).sum();
            })
            .run(share)?;
        check(ours == theirs, || format!("{}: found {ours} and {theirs}", self.case))?;
        let insert = self.row(INSERT, &insert, MAP, MAP_FLOOR);
        Ok(vec![insert, self.row(LOOKUP, &lookup, MAP, MAP_FLOOR)])
    }

    /// What the index costs the server: the same insert with it and without it, the same join with the
    /// lookups and without them.
    fn against_a_server(&self, client: &mut Client, share: Duration) -> Result<Vec<Row>> {
        let (count, order) = (self.entries.len(), self.order);
        let order_by = if order == Order::Ascending { "n" } else { "hashint4(n)" };
        client.batch_execute(&format!(
            "DROP TABLE IF EXISTS source, bare, indexed, lookups;
             CREATE UNLOGGED TABLE source AS SELECT (16384 + n / 4)::oid AS chunk_id, \
                 (n % 4)::int4 AS chunk_seq FROM generate_series(0, {count} - 1) n ORDER BY {order_by};
             CREATE UNLOGGED TABLE lookups AS SELECT * FROM source \
                 ORDER BY hashint4(chunk_id::int8::int4 * 4 + chunk_seq);
             CREATE UNLOGGED TABLE bare (chunk_id oid, chunk_seq int4, chunk_data bytea);
             CREATE UNLOGGED TABLE indexed (LIKE bare);
             CREATE UNIQUE INDEX ON indexed (chunk_id, chunk_seq);
             ANALYZE source; ANALYZE lookups;
             SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;
             SET enable_material = off; SET enable_memoize = off;"
        ))?;
        let mut insert_share = || -> Result<Duration> {
            client.batch_execute("TRUNCATE bare, indexed")?;
            let mut time = |table| {
                let sql = format!("INSERT INTO {table} SELECT *, '' FROM source");
                execution_time(client, &sql)
            };
            let bare = time("bare")?;
            Ok(time("indexed")?.saturating_sub(bare))
        };
        let insert = Comparison::of_timed(|| timed(|| drop(black_box(self.filled()))))
            .against_timed(POSTGRESQL_15, &mut insert_share)
            .run(share / 2)?;
        client.batch_execute("VACUUM ANALYZE indexed")?;
        let index = self.filled();
        let mut lookup_share = || -> Result<Duration> {
            let alone = execution_time(client, "SELECT count(chunk_id) FROM lookups")?;
            let joined = execution_time(
                client,
                "SELECT count(i.chunk_id) FROM lookups l JOIN indexed i \
                 ON i.chunk_id = l.chunk_id AND i.chunk_seq = l.chunk_seq",
            )?;
            Ok(joined.saturating_sub(alone))
        };
        let mut sum = 0;
        let lookup = Comparison::of_timed(|| timed(|| sum = self.found(&index)))
            .against_timed(POSTGRESQL_15, &mut lookup_share)
            .run(share / 2)?;
        let expected: u64 = self.entries.iter().map(|(_, tid)| u64::from(tid.block.get())).sum();
        check(sum == expected, || format!("{}: found {sum} of {expected}", self.case))?;
        let note = "the server's share: EXPLAIN (ANALYZE, TIMING OFF) with the index less the same \
                    without it, unlogged tables in shared buffers";
        let rows = [(INSERT, &insert), (LOOKUP, &lookup)];
        let row = |(metric, timings): (&str, &Timings)| {
            self.row(metric, timings, POSTGRESQL_15, SERVER_FLOOR).noted(note)
        };
        Ok(rows.map(row).into())
    }
}

/// An insert whose id counter has run into so many taken ids: along the leaves, one probe an id as a
/// server does it, and with 64-bit ids, which are not looked for at all.
fn taken_ids(exponent: u32, share: Duration) -> Result<Vec<Row>> {
    let taken = 10u64.pow(exponent);
    let tid = ItemPointer::new(BlockNumber::new(7), OffsetNumber::FIRST);
    let run = || (FIRST_ID..FIRST_ID + taken).map(|id| (Key::new(Oid8::new(id), 0), tid));
    let packed = |width| {
        let index = Index::build(MemoryPages::new(BLOCK), width, run());
        index.map_err(|error| anyhow!("a run of {taken} ids: {error}"))
    };
    let (ours, theirs) = (packed(KeyWidth::Oid)?, packed(KeyWidth::Oid)?);
    let wide = packed(KeyWidth::Oid8)?;
    let insert = |index: &Index<MemoryPages>, id: u64| {
        matches!(index.insert(Key::new(Oid8::new(id), 0), tid), Ok(Insertion::Done))
    };
    // A pass is repeated until it takes about a millisecond.
    let turns = (200_000 / taken).max(1);
    let (mut walked, mut probed, mut next_wide) = (0, 0, FIRST_ID + taken);
    let timings = Comparison::of(|| {
        for _ in 0..turns {
            let free = ours.first_free_id(Oid8::new(FIRST_ID)).ok();
            walked = free.and_then(|free| free.chunk_id).map_or(0, Oid8::get);
        }
    })
    .against(PROBES, || {
        for _ in 0..turns {
            let is_taken = |id: &u64| theirs.contains_id(Oid8::new(*id)).unwrap_or(false);
            probed = (FIRST_ID..).find(|id| !is_taken(id)).unwrap_or(0);
        }
    })
    .against(OID8, || {
        for _ in 0..turns {
            let _ = black_box(insert(&wide, next_wide));
            next_wide += 1;
        }
    })
    .run(share)?;
    let expected = FIRST_ID + taken;
    check(walked == expected && probed == expected, || format!("free: {walked} and {probed}"))?;
    check(insert(&ours, walked), || "the free id is not free".into())?;
    let microseconds = |seconds: f64| seconds * 1e6 / turns as f64;
    let case = format!("10^{exponent} taken ids");
    let row = |peer: &str| {
        Row::new(NAME, &case, TAKEN, "µs", microseconds(timings.ours)).against(
            peer,
            microseconds(timings.peer(peer).unwrap_or(f64::NAN)),
            Better::Lower,
        )
    };
    let note = "64-bit ids are never looked for: only the insert is left";
    Ok(vec![row(PROBES), row(OID8).noted(note)])
}

fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for at in (1..items.len()).rev() {
        items.swap(at, rng.below(at + 1));
    }
}

fn timed(work: impl FnOnce()) -> Result<Duration> {
    let started = std::time::Instant::now();
    work();
    Ok(started.elapsed())
}

fn execution_time(client: &mut Client, sql: &str) -> Result<Duration> {
    let sql = format!("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}");
    let messages = client.simple_query(&sql)?;
    let text = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let json: serde_json::Value = serde_json::from_str(text.context("no plan")?)?;
    let milliseconds = json[0]["Execution Time"].as_f64().context("no execution time")?;
    Ok(Duration::from_secs_f64(milliseconds / 1e3))
}
