//! Histories of inserts, committed and rolled back, with deletes in between, on the server and here.
use std::cell::RefCell;
use std::convert::Infallible;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize, ItemPointer};
use pgtoast_nbtree::{
    Action, Index, IndexPages, Insertion, Key, KeyWidth, MemoryPages, MemoryRead, MemoryWrite,
};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Rng, Server, ServerOptions, Survey, inspect, report};

use super::{SIZE, ensure_same, entry, id_type, toast_index_file};

const HISTORIES: &str = "histories_of_inserts_make_the_servers_file";
const SEEDS: u64 = 14;

#[test]
fn histories_of_inserts_make_the_servers_file() -> Result<()> {
    Survey::on_every_server(HISTORIES, |installation| {
        let options = ServerOptions::new().set("autovacuum", "off");
        let mut server = Server::start(installation, &options)?;
        let mut client = server.client()?;
        let mut histories = Vec::new();
        for width in [KeyWidth::Oid, KeyWidth::Oid8] {
            for seed in 0..SEEDS {
                histories.push(History::play(&server, &mut client, width, seed)?);
            }
        }
        drop(client);
        server.stop()?;
        let (mut pages, mut levels) = (0, 0);
        for history in &histories {
            let (count, height) = history.compare()?;
            pages += count;
            levels = levels.max(height);
        }
        ensure!(levels >= 3, "no index of three levels");
        let rows: usize = histories.iter().map(|history| history.inserted.len()).sum();
        let splits = pages - histories.len();
        report::count(
            HISTORIES,
            format_args!(
                "{}: {} histories of {rows} inserts, {splits} pages equal, and packed anew",
                server.major(),
                histories.len()
            ),
        );
        Ok(())
    })
}

/// What was done to one table.
struct History {
    name: String,
    width: KeyWidth,
    inserted: Vec<(Key, ItemPointer)>,
    left: Vec<(Key, ItemPointer)>,
    path: PathBuf,
    rebuilt_path: PathBuf,
}

impl History {
    fn play(server: &Server, client: &mut Client, width: KeyWidth, seed: u64) -> Result<Self> {
        let id_type = id_type(width);
        let name = format!("h_{id_type}_{seed}");
        client.batch_execute(&format!(
            "CREATE TABLE {name} (chunk_id {id_type}, chunk_seq int4, chunk_data bytea);
             CREATE UNIQUE INDEX {name}_inserted ON {name} (chunk_id, chunk_seq);"
        ))?;
        let mut rng = Rng::new(seed);
        let mut inserted = Vec::new();
        let mut ids = Ids::new(seed);
        // The last two are high enough for three levels.
        let rows = if seed + 1 >= SEEDS { 130_000 } else { 6000 + rng.below(6000) };
        while inserted.len() < rows {
            let batch = ids.batch(&mut rng, if rows > 100_000 { 20_000 } else { 700 });
            let values: Vec<_> = batch.iter().map(|(id, seq)| format!("({id},{seq})")).collect();
            let sql = format!(
                "INSERT INTO {name} SELECT v.id::{id_type}, v.seq, '' \
                 FROM (VALUES {}) v(id, seq) RETURNING ctid::text, chunk_id::int8, chunk_seq",
                values.join(",")
            );
            let mut transaction = client.transaction()?;
            let rows: Vec<_> =
                transaction.query(&sql, &[])?.iter().map(entry).collect::<Result<_>>()?;
            ensure!(rows.len() == batch.len());
            for (row, (id, seq)) in rows.iter().zip(&batch) {
                ensure!((row.0.chunk_id.get(), row.0.chunk_seq) == (*id, *seq), "out of order");
            }
            // Rows that are rolled back leave their entries.
            if rng.chance(90) {
                transaction.commit()?
            } else {
                transaction.rollback()?
            }
            inserted.extend(rows);
            if rng.chance(20) {
                let digit = rng.below(10);
                client.execute(
                    &format!("DELETE FROM {name} WHERE ctid::text LIKE '%{digit})'"),
                    &[],
                )?;
            }
        }
        client.batch_execute(&format!(
            "CREATE UNIQUE INDEX {name}_packed ON {name} (chunk_id, chunk_seq)"
        ))?;
        let sql = format!("SELECT ctid::text, chunk_id::int8, chunk_seq FROM {name} ORDER BY 2, 3");
        let left = client.query(&sql, &[])?.iter().map(entry).collect::<Result<_>>()?;
        let path = server.relation_path(client, &format!("{name}_inserted"))?;
        let rebuilt_path = server.relation_path(client, &format!("{name}_packed"))?;
        Ok(Self { name, width, inserted, left, path, rebuilt_path })
    }

    /// How many pages were compared, and the height of the higher index.
    fn compare(&self) -> Result<(usize, u32)> {
        let index = Index::create(MemoryPages::new(SIZE), self.width)?;
        for (key, tid) in &self.inserted {
            let insertion = index.insert(*key, *tid)?;
            ensure!(insertion == Insertion::Done, "{}: {insertion:?}", self.name);
        }
        let levels = index.check()?.levels;
        let ours = index.into_pages().to_bytes();
        ensure_same(&ours, &inspect::fork_bytes(&self.path)?, &self.name)?;
        let theirs = Index::open(MemoryPages::from_bytes(SIZE, &ours), self.width)?;
        theirs.check()?;
        let rows = self.left.iter().copied();
        let packed = Index::build(MemoryPages::new(SIZE), self.width, rows)?;
        packed.check()?;
        let packed = packed.into_pages().to_bytes();
        let what = format!("{} packed", self.name);
        ensure_same(&packed, &inspect::fork_bytes(&self.rebuilt_path)?, &what)?;
        Ok(((ours.len() + packed.len()) / SIZE.bytes(), levels))
    }
}

/// Ids as they come: in order, from several counters at once, from above, at random.
struct Ids {
    kind: u64,
    counters: [u64; 4],
    used: std::collections::BTreeSet<(u64, i32)>,
}

impl Ids {
    fn new(seed: u64) -> Self {
        let counters = [20_000, 1_000_000_000, 2_147_483_000, 3_000_000_000];
        Self { kind: seed % 7, counters, used: std::collections::BTreeSet::new() }
    }

    fn batch(&mut self, rng: &mut Rng, most: usize) -> Vec<(u64, i32)> {
        let mut batch = Vec::new();
        let len = 1 + rng.below(most);
        while batch.len() < len {
            let most_chunks = if rng.chance(5) { 300 } else { 6 };
            let chunks = i32::try_from(1 + rng.below(most_chunks)).unwrap_or(1);
            let id = match self.kind {
                0 => self.next(0, 1),
                1 => self.next(rng.below(4), 1),
                2 => self.next(rng.below(2), 1 + rng.below(3) as u64),
                3 => 4_000_000_000 - self.next(0, 1),
                4 => rng.below(1 << 31) as u64 * 2,
                5 if rng.chance(50) => rng.below(50_000) as u64,
                5 => self.next(1, 1),
                _ => rng.below(400) as u64,
            };
            // The last kind fills values up chunk by chunk, from either end or anywhere.
            let seqs: Vec<i32> = match self.kind {
                6 => vec![i32::try_from(rng.below(2000)).unwrap_or(0)],
                3 => (0..chunks).rev().collect(),
                _ => (0..chunks).collect(),
            };
            for seq in seqs {
                if self.used.insert((id, seq)) {
                    batch.push((id, seq));
                }
            }
        }
        batch
    }

    fn next(&mut self, counter: usize, step: u64) -> u64 {
        self.counters[counter] += step;
        self.counters[counter]
    }
}

const TOAST: &str = "chunks_of_the_three_loads_make_the_servers_file";

/// Values of 2048, 22 400 and 320 000 bytes: 245 760, 294 912 and 385 024 bytes of index.
#[test]
fn chunks_of_the_three_loads_make_the_servers_file() -> Result<()> {
    Survey::on_every_server(TOAST, |installation| {
        let options = ServerOptions::new().set("autovacuum", "off");
        let mut server = Server::start(installation, &options)?;
        let mut client = server.client()?;
        let mut loads = Vec::new();
        for (len, count, expected) in
            [(2048, 5000, 245_760), (22_400, 1000, 294_912), (320_000, 100, 385_024)]
        {
            let name = format!("load_{len}");
            client.batch_execute(&format!(
                "CREATE TABLE {name} (id int4, v bytea);
                 ALTER TABLE {name} ALTER v SET STORAGE EXTERNAL;
                 INSERT INTO {name} SELECT i, decode(repeat('ab', {len}), 'hex')
                 FROM generate_series(1, {count}) i"
            ))?;
            let toast = inspect::toast_relation(&mut client, &name)?.context("a TOAST table")?;
            // Ids and chunks were given out in this order.
            let sql =
                format!("SELECT ctid::text, chunk_id::int8, chunk_seq FROM {toast} ORDER BY 2, 3");
            let rows: Vec<_> = client.query(&sql, &[])?.iter().map(entry).collect::<Result<_>>()?;
            let path = server.relation_path(&mut client, &format!("{toast}_index"))?;
            loads.push((name, rows, path, expected));
        }
        drop(client);
        server.stop()?;
        let mut chunks = 0;
        for (name, rows, path, expected) in loads {
            let index = Index::create(MemoryPages::new(SIZE), KeyWidth::Oid)?;
            for (key, tid) in &rows {
                ensure!(index.insert(*key, *tid)? == Insertion::Done);
            }
            let ours = toast_index_file(index, server.major())?;
            ensure!(ours.len() == expected, "{name}: {} bytes", ours.len());
            ensure_same(&ours, &inspect::fork_bytes(&path)?, &name)?;
            chunks += rows.len();
        }
        report::count(TOAST, format_args!("{}: {chunks} chunks", server.major()));
        Ok(())
    })
}

const RECORDS: &str = "log_records_are_as_long_as_the_servers";

#[test]
fn log_records_are_as_long_as_the_servers() -> Result<()> {
    Survey::on_every_server(RECORDS, |installation| {
        if installation.major() < 15 {
            report::skip(RECORDS, format_args!("{} has no pg_walinspect", installation.version()));
            return Ok(());
        }
        let options = ServerOptions::new().set("autovacuum", "off").set("full_page_writes", "off");
        let server = Server::start(installation, &options)?;
        let mut client = server.client()?;
        client.batch_execute("CREATE EXTENSION pg_walinspect")?;
        let mut compared = 0;
        for width in [KeyWidth::Oid, KeyWidth::Oid8] {
            for kind in [0, 2, 4] {
                compared += compare_records(&mut client, width, kind)?;
            }
        }
        report::count(RECORDS, format_args!("{}: {compared} records", server.major()));
        Ok(())
    })
}

fn compare_records(client: &mut Client, width: KeyWidth, kind: u64) -> Result<usize> {
    let id_type = id_type(width);
    let name = format!("w_{id_type}_{kind}");
    client.batch_execute(&format!(
        "CREATE TABLE {name} (chunk_id {id_type}, chunk_seq int4, chunk_data bytea);
         CREATE UNIQUE INDEX ON {name} (chunk_id, chunk_seq); CHECKPOINT;"
    ))?;
    let position = |client: &mut Client| -> Result<String> {
        Ok(client.query_one("SELECT pg_current_wal_insert_lsn()::text", &[])?.get(0))
    };
    let mut rng = Rng::new(kind);
    let mut ids = Ids::new(kind);
    let mut batch = Vec::new();
    while batch.len() < 9000 {
        batch.extend(ids.batch(&mut rng, 1000));
    }
    let values: Vec<_> = batch.iter().map(|(id, seq)| format!("({id},{seq})")).collect();
    let start = position(client)?;
    let sql = format!(
        "INSERT INTO {name} SELECT v.id::{id_type}, v.seq, '' FROM (VALUES {}) v(id, seq) \
         RETURNING ctid::text, chunk_id::int8, chunk_seq",
        values.join(",")
    );
    let rows: Vec<_> = client.query(&sql, &[])?.iter().map(entry).collect::<Result<_>>()?;
    client.batch_execute("CHECKPOINT")?;
    let end = position(client)?;
    let sql = format!(
        "SELECT record_type, record_length::int4 FROM pg_get_wal_records_info('{start}', '{end}') \
         WHERE resource_manager = 'Btree' ORDER BY start_lsn"
    );
    let theirs: Vec<(String, usize)> = client
        .query(&sql, &[])?
        .iter()
        .map(|row| Ok((row.get(0), usize::try_from(row.get::<_, i32>(1))?)))
        .collect::<Result<_>>()?;
    let index = Index::create(Logged::new(), width)?;
    for (key, tid) in rows {
        ensure!(index.insert(key, tid)? == Insertion::Done);
    }
    let actions = index.into_pages().actions.into_inner();
    ensure!(actions.len() == theirs.len(), "{name}: {} records", actions.len());
    for (at, (action, (kind, len))) in actions.iter().zip(&theirs).enumerate() {
        let named = match action {
            Action::InsertLeaf { .. } => "INSERT_LEAF",
            Action::InsertUpper { with_meta: false, .. } => "INSERT_UPPER",
            Action::NewRoot { .. } => "NEWROOT",
            Action::Split { left_tuple_len: 0, .. } => "SPLIT_R",
            Action::Split { .. } => "SPLIT_L",
            _ => "another",
        };
        ensure!(
            kind == named && action.record_len() == *len,
            "{name}: record {at} is {kind} of {len} bytes, ours {action:?} of {}",
            action.record_len()
        );
    }
    Ok(theirs.len())
}

/// Pages in memory that remember what a log is told.
struct Logged {
    pages: MemoryPages,
    actions: RefCell<Vec<Action>>,
}

impl Logged {
    fn new() -> Self {
        Self { pages: MemoryPages::new(SIZE), actions: RefCell::default() }
    }
}

impl IndexPages for Logged {
    type Error = Infallible;
    type Read<'a> = MemoryRead<'a>;
    type Write<'a> = MemoryWrite<'a>;

    fn block_size(&self) -> BlockSize {
        self.pages.block_size()
    }

    fn block_count(&self) -> Result<u32, Infallible> {
        self.pages.block_count()
    }

    fn read(&self, block: BlockNumber) -> Result<Option<MemoryRead<'_>>, Infallible> {
        self.pages.read(block)
    }

    fn write(&self, block: BlockNumber) -> Result<Option<MemoryWrite<'_>>, Infallible> {
        self.pages.write(block)
    }

    fn try_write(&self, block: BlockNumber) -> Result<Option<MemoryWrite<'_>>, Infallible> {
        self.pages.try_write(block)
    }

    fn extend(&self) -> Result<(BlockNumber, MemoryWrite<'_>), Infallible> {
        self.pages.extend()
    }

    fn take_free(&self) -> Option<BlockNumber> {
        self.pages.take_free()
    }

    fn put_free(&self, block: BlockNumber) {
        self.pages.put_free(block);
    }

    fn next_xid(&self) -> u64 {
        self.pages.next_xid()
    }

    fn is_past(&self, xid: u64) -> bool {
        self.pages.is_past(xid)
    }

    fn log<'a>(&'a self, action: &Action, pages: &mut [(BlockNumber, &mut MemoryWrite<'a>)]) {
        assert!(!pages.is_empty());
        self.actions.borrow_mut().push(*action);
    }
}
