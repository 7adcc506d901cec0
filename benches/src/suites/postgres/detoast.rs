//! Every toasted value of a relation: ours from the server's own files, the server's from its buffers.
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use md5::{Digest, Md5};
use pgtoast_base::{BlockSize, Oid};
use pgtoast_page::{AttributeDescriptor, TupleDescriptor};
use pgtoast_testkit::Server;
use pgtoast_testkit::postgres::Client;

use super::{Executed, NAME, execute, hex};
use crate::detoast_relation::ToastedColumn;
use crate::peers::POSTGRESQL_15;
use crate::{Bench, Comparison, Effort, RelationFile, Row, Timings, check};

const DETOAST: &str = "detoast all";
const DETOAST_FLOOR: f64 = 2.0;
const BLOCK: BlockSize = BlockSize::KIB_8;
/// What the values of a table take that are not compressed. Each pass over them then lasts for tens of
/// milliseconds: in a shorter one the waking of an idle processor would be measured.
const PLAIN_BYTES: usize = 200_000_000;
/// The most threads we read with; the server has one process at work.
const MOST_THREADS: usize = 2;
const ONE_THREAD: &str = "one thread";

/// Fills a server's tables and reads them, from its files and from its buffers.
pub(super) fn run(bench: &Bench, server: &Server, client: &mut Client) -> Result<Vec<Row>> {
    let compressed_bytes = match bench.effort() {
        Effort::Quick => 64_000_000,
        Effort::Full => 200_000_000,
    };
    let mut filled = Vec::new();
    for table in Table::ALL {
        bench.step(format!("fill {}", table.case));
        let raw_bytes = if table.is_compressed { compressed_bytes } else { PLAIN_BYTES };
        filled.push(table.fill(server, client, raw_bytes)?);
    }
    client.batch_execute("CHECKPOINT")?;
    let mut rows = Vec::new();
    for (index, filled) in filled.iter().enumerate() {
        bench.step(filled.table.case);
        rows.extend(filled.compare(client, bench.share(Table::ALL.len() - index))?);
    }
    Ok(rows)
}

/// How often the work tells of itself.
pub(super) const STEPS: usize = 2 * Table::ALL.len();

/// A table with one wide column.
#[derive(Clone, Copy, Debug)]
struct Table {
    name: &'static str,
    case: &'static str,
    value_len: usize,
    is_compressed: bool,
}

impl Table {
    const ALL: [Self; 4] = [
        Self { name: "plain_22", case: "22 kB values", value_len: 22_400, is_compressed: false },
        Self { name: "plain_320", case: "320 kB values", value_len: 320_000, is_compressed: false },
        Self {
            name: "pglz_22",
            case: "22 kB values, pglz",
            value_len: 22_400,
            is_compressed: true,
        },
        Self {
            name: "pglz_320",
            case: "320 kB values, pglz",
            value_len: 320_000,
            is_compressed: true,
        },
    ];

    /// Makes and fills the table with different windows of one large piece: random bytes, or log
    /// entries where the values are to be compressed.
    fn fill(self, server: &Server, client: &mut Client, raw_bytes: usize) -> Result<Filled> {
        let Self { name, value_len, .. } = self;
        let count = raw_bytes.div_ceil(value_len);
        let (storage, piece) = if self.is_compressed {
            (
                "SET STORAGE EXTENDED, ALTER v SET COMPRESSION pglz",
                "SELECT convert_to(string_agg(format('{\"at\": \"2026-03-01T%s\", \"user\": %s, \
                 \"path\": \"/api/%s\", \"ms\": %s}', '00:00:00'::time + i * interval '71 ms', \
                 hashint4(i), substr(md5((i % 97)::text), 1, 8), abs(hashint4(i + 1)) % 9000), \
                 E'\\n'), 'UTF8') FROM generate_series(1, 24000) i",
            )
        } else {
            (
                "SET STORAGE EXTERNAL",
                "SELECT string_agg(decode(md5(i::text), 'hex'), '') FROM generate_series(1, 131072) i",
            )
        };
        // One batch is one transaction: a table made in it needs no log.
        client.batch_execute(&format!(
            "CREATE TABLE {name} (id int4, v bytea);
             ALTER TABLE {name} ALTER v {storage};
             WITH piece(v) AS MATERIALIZED ({piece})
             INSERT INTO {name}
             SELECT g, substr(v, 1 + (g * 7919) % (length(v) - {value_len}), {value_len})
             FROM piece, generate_series(1, {count}) g"
        ))?;
        client.batch_execute(&format!("VACUUM (FREEZE) {name}"))?;
        Filled::look(self, server, client)
    }
}

/// A filled table, where its files are, and what the server says is in it.
struct Filled {
    table: Table,
    heap: RelationFile,
    toast: RelationFile,
    toast_rel_id: Oid,
    rows: i64,
    raw_bytes: i64,
    /// Of the values' digests in hexadecimal, one after the other in the order of the rows.
    digest: String,
}

impl Filled {
    fn look(table: Table, server: &Server, client: &mut Client) -> Result<Self> {
        let name = table.name;
        let row = client.query_one(
            &format!(
                "SELECT count(*), sum(length(v)), md5(string_agg(md5(v), '' ORDER BY ctid)) FROM {name}"
            ),
            &[],
        )?;
        let (rows, raw_bytes, digest) = (row.get(0), row.get(1), row.get(2));
        let row = client.query_one(
            "SELECT reltoastrelid, reltoastrelid::regclass::text FROM pg_class WHERE relname = $1",
            &[&name],
        )?;
        let (toast_rel_id, toast): (u32, String) = (row.get(0), row.get(1));
        client.batch_execute("CHECKPOINT")?;
        let open = |path| RelationFile::open(path, BLOCK);
        Ok(Self {
            table,
            heap: open(&server.relation_path(client, name)?)?,
            toast: open(&server.relation_path(client, &toast)?)?,
            toast_rel_id: Oid::new(toast_rel_id),
            rows,
            raw_bytes,
            digest,
        })
    }

    fn compare(&self, client: &mut Client, share: Duration) -> Result<Vec<Row>> {
        let columns = [
            AttributeDescriptor::from_catalog(4, true, b'i', b'p')?,
            AttributeDescriptor::from_catalog(-1, false, b'i', b'x')?,
        ];
        let column = ToastedColumn {
            heap: &self.heap,
            descriptor: TupleDescriptor::new(&columns)?,
            column: 1,
            toast: &self.toast,
            toast_rel_id: self.toast_rel_id,
            block_size: BLOCK,
        };
        self.heap.settle_in_page_cache()?;
        self.toast.settle_in_page_cache()?;
        self.check_bytes(&column)?;
        let detoast = |threads| {
            move || {
                let started = Instant::now();
                let sum = AtomicUsize::new(0);
                column.detoast(threads, |_, value| {
                    sum.fetch_add(black_box(value).len(), Ordering::Relaxed);
                    Ok(())
                })?;
                let elapsed = started.elapsed();
                let sum = i64::try_from(sum.into_inner())?;
                check(sum == self.raw_bytes, || format!("{sum} bytes of {}", self.raw_bytes))?;
                Ok(elapsed)
            }
        };
        let timings = Comparison::of_timed(detoast(threads()))
            .against_timed(POSTGRESQL_15, || self.server_time(client))
            .against_timed(ONE_THREAD, detoast(1))
            .run(share)?;
        let bytes = usize::try_from(self.raw_bytes)?;
        let rows = |metric, timings: &Timings| {
            Row::throughput(NAME, self.table.case, metric, bytes, timings)
        };
        let (two, one) = (timings.without(ONE_THREAD), timings.seen_from(ONE_THREAD));
        let held = |row: Row| if self.table.is_compressed { row } else { row.floor(DETOAST_FLOOR) };
        let two = rows(DETOAST, &two).into_iter().map(held);
        let one = rows("detoast all, one thread", &one);
        Ok(two.chain(one).map(|row| row.noted(note())).collect())
    }

    /// Insists that our values are the server's, every byte of every one.
    fn check_bytes(&self, column: &ToastedColumn<'_>) -> Result<()> {
        let case = self.table.case;
        for threads in [1, threads()] {
            let digests = Mutex::new(vec![String::new(); usize::try_from(self.rows)?]);
            let done = column.detoast(threads, |row, value| {
                let digest = hex(&Md5::digest(value));
                let mut digests = digests.lock().unwrap_or_else(PoisonError::into_inner);
                *digests.get_mut(row).context("a row too many")? = digest;
                Ok(())
            })?;
            let digests = digests.into_inner().unwrap_or_else(PoisonError::into_inner);
            let digest = hex(&Md5::digest(digests.concat()));
            check(digest == self.digest, || format!("{case}: our values are not the server's"))?;
            check(done.values == digests.len(), || format!("{case}: {done:?} of {}", self.rows))?;
        }
        Ok(())
    }

    /// What the server takes to fetch every value whole and add up the lengths.
    fn server_time(&self, client: &mut Client) -> Result<Duration> {
        let sql = format!("SELECT sum(length(substr(v, 1))) FROM {}", self.table.name);
        let Executed { time, hit_blocks, read_blocks } = execute(client, &sql)?;
        ensure!(read_blocks == 0, "{read_blocks} blocks were not in shared buffers");
        // It must have gone to all of the TOAST table, or it did other work than ours.
        ensure!(hit_blocks >= u64::from(self.toast.blocks()), "only {hit_blocks} blocks met");
        Ok(time)
    }
}

/// As many as there are cores for, up to the most.
fn threads() -> u32 {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    u32::try_from(cores.min(MOST_THREADS)).unwrap_or(1)
}

fn note() -> String {
    format!(
        "ours: {} threads unless it says one, files in the page cache as reading them puts them there, \
         every consistency rule checked; the server: EXPLAIN (ANALYZE, TIMING OFF), one process, \
         everything in shared buffers",
        threads()
    )
}
