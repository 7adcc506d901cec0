//! Heaps of the store against live servers: the same inserts, deletions, updates and vacuums put
//! each row in the same place, so that relations are as long as a server's to the byte; and a heap
//! of ours, put under a stopped server, is its own when it starts again.
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, ensure};
use pgtoast_base::{BlockSize, ItemPointer};
use pgtoast_page::{AttributeDescriptor, HeapTupleMut, TupleDescriptor, Value};
use pgtoast_store::buffer::{BufferPool, PoolOptions};
use pgtoast_store::disk::FileDisk;
use pgtoast_store::heap::{Modified, Relation, VacuumOptions};
use pgtoast_store::transaction::{CommitLog, Isolation, TransactionCore, Transactions};
use pgtoast_store::{RelationId, RelationKind};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Server, ServerOptions, Survey, inspect, report};
use tempfile::TempDir;

const TEST: &str = "rows_are_where_a_server_puts_them_and_the_heap_is_its_own";
const SIZE: BlockSize = BlockSize::KIB_8;

/// One statement, in a transaction of its own.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Rows `from..to`.
    Insert {
        from: i32,
        to: i32,
    },
    /// Rows whose number leaves that remainder.
    Delete {
        by: i32,
        remainder: i32,
    },
    /// The same, updated to the lengths of the round.
    Update {
        by: i32,
        remainder: i32,
    },
    Vacuum,
}

/// How long the bytes of a row are: by its number, the times that all rows were updated so far,
/// and the longest there are.
#[derive(Clone, Copy)]
struct Lengths {
    longest: i32,
}

impl Lengths {
    fn of(self, id: i32, round: i32) -> i32 {
        (id % 4096 * 7919 + round * 104_729) % self.longest
    }

    fn sql(self, round: i32) -> String {
        format!("(id % 4096 * 7919 + {round} * 104729) % {}", self.longest)
    }
}

fn program(rows: i32) -> Vec<Step> {
    use Step::{Delete, Insert, Update, Vacuum};
    vec![
        Insert { from: 0, to: rows },
        Insert { from: rows, to: rows + rows / 10 },
        Delete { by: 3, remainder: 1 },
        Vacuum,
        Insert { from: 2 * rows, to: 2 * rows + rows / 2 },
        Update { by: 5, remainder: 2 },
        Update { by: 5, remainder: 2 },
        Delete { by: 7, remainder: 6 },
        Update { by: 2, remainder: 0 },
        Vacuum,
        Insert { from: 3 * rows, to: 3 * rows + rows / 3 },
        Update { by: 1, remainder: 0 },
        Vacuum,
        Delete { by: 4, remainder: 3 },
        Vacuum,
        Insert { from: 4 * rows, to: 4 * rows + rows / 3 },
    ]
}

/// A table of the server.
struct Theirs<'a> {
    client: &'a mut Client,
    table: String,
    lengths: Lengths,
    round: i32,
}

impl Theirs<'_> {
    fn create(&mut self, table: &str) -> Result<()> {
        self.client.batch_execute(&format!(
            "CREATE TABLE {table} (id int4, data bytea);
             ALTER TABLE {table} ALTER data SET STORAGE PLAIN"
        ))?;
        Ok(())
    }

    fn run(&mut self, step: Step) -> Result<()> {
        let table = &self.table;
        let data = |round| {
            let len = self.lengths.sql(round);
            format!("decode(repeat(lpad(to_hex(id % 256), 2, '0'), {len}), 'hex')")
        };
        let sql = match step {
            Step::Insert { from, to } => format!(
                "INSERT INTO {table} SELECT id, {} FROM generate_series({from}, {to} - 1) id",
                data(0)
            ),
            Step::Delete { by, remainder } => {
                format!("DELETE FROM {table} WHERE id % {by} = {remainder}")
            }
            Step::Update { by, remainder } => {
                self.round += 1;
                let data = data(self.round);
                format!("UPDATE {table} SET data = {data} WHERE id % {by} = {remainder}")
            }
            Step::Vacuum => format!("VACUUM {table}"),
        };
        self.client.batch_execute(&sql)?;
        Ok(())
    }

    /// Where each row is, and how long the relation is.
    fn places(&mut self) -> Result<(BTreeMap<i32, String>, u64)> {
        let sql = format!("SELECT id, ctid::text FROM {}", self.table);
        let rows = self.client.query(&sql, &[])?;
        let places = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let sql = format!("SELECT pg_relation_size('{}')", self.table);
        let bytes: i64 = self.client.query_one(&sql, &[])?.get(0);
        Ok((places, u64::try_from(bytes)?))
    }
}

/// The same in a store.
struct Ours {
    directory: TempDir,
    pool: Arc<BufferPool>,
    transactions: Arc<Transactions>,
    heap: Relation,
    lengths: Lengths,
    round: i32,
}

impl Ours {
    const ID: RelationId = RelationId::new(16_384);

    fn new(lengths: Lengths) -> Result<Self> {
        let directory = TempDir::new()?;
        let disk = Arc::new(FileDisk::new(directory.path()));
        // Less than the heap: pages come and go.
        let pool = Arc::new(BufferPool::new(disk, PoolOptions::new(SIZE, 1 << 20)));
        let transactions = Transactions::new(1000, CommitLog::new());
        let (to_pool, to_transactions) = (pool.clone(), transactions.clone());
        let heap = Relation::create(to_pool, to_transactions, Self::ID, RelationKind::Heap)?;
        Ok(Self { directory, pool, transactions, heap, lengths, round: 0 })
    }

    /// A row as a server forms it. An inserted one gets short headers though the column is plain:
    /// it is formed by the columns of the query, and those are as their types have it.
    fn row<'a>(&self, id: i32, round: i32, buffer: &'a mut [u8]) -> Result<HeapTupleMut<'a>> {
        let storage = if round == 0 { b'x' } else { b'p' };
        let columns = [
            AttributeDescriptor::from_catalog(4, true, b'i', b'p')?,
            AttributeDescriptor::from_catalog(-1, false, b'i', storage)?,
        ];
        let len = u32::try_from(self.lengths.of(id, round))?;
        let mut data = ((len + 4) << 2).to_le_bytes().to_vec();
        data.resize(usize::try_from(len)? + 4, u8::try_from(id % 256)?);
        let descriptor = TupleDescriptor::new(&columns)?;
        Ok(descriptor.form(&[Value::stored(&id.to_le_bytes()), Value::stored(&data)], buffer)?)
    }

    fn run(&mut self, step: Step) -> Result<()> {
        let mut buffer = vec![0; SIZE.bytes()];
        if let Step::Update { .. } = step {
            self.round += 1;
        }
        let mut transaction = self.transactions.begin(Isolation::ReadCommitted);
        match step {
            Step::Insert { from, to } => {
                for id in from..to {
                    self.heap.insert(&mut transaction, self.row(id, 0, &mut buffer)?)?;
                }
            }
            Step::Delete { by, remainder } => {
                for block in 0..self.heap.blocks() {
                    for (id, tid) in self.rows(&transaction, block..block + 1)? {
                        if id % by == remainder {
                            let deleted = self.heap.delete(&mut transaction, tid)?;
                            ensure!(deleted == Modified::Done(tid), "row {id}: {deleted:?}");
                        }
                    }
                }
            }
            Step::Update { by, remainder } => {
                // A scan looks at a page, and makes room in it, when it gets there.
                for block in 0..self.heap.blocks() {
                    for (id, tid) in self.rows(&transaction, block..block + 1)? {
                        if id % by == remainder {
                            let tuple = self.row(id, self.round, &mut buffer)?;
                            let updated = self.heap.update(&mut transaction, tid, tuple)?;
                            ensure!(matches!(updated, Modified::Done(_)), "row {id}: {updated:?}");
                        }
                    }
                }
            }
            Step::Vacuum => {
                drop(transaction);
                self.heap.vacuum(None, &VacuumOptions::default())?;
                return Ok(());
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// Numbers of the rows of some blocks and their addresses, as a scan finds them.
    fn rows(
        &self,
        transaction: &TransactionCore,
        blocks: Range<u32>,
    ) -> Result<Vec<(i32, ItemPointer)>> {
        let mut scan = self.heap.scan_blocks(transaction, blocks);
        let mut rows = Vec::new();
        while let Some((tid, tuple)) = scan.next()? {
            let id = tuple.get(24..28).context("an id")?;
            rows.push((i32::from_le_bytes(id.try_into()?), tid));
        }
        Ok(rows)
    }

    fn places(&self) -> Result<(BTreeMap<i32, String>, u64)> {
        let transaction = self.transactions.begin(Isolation::ReadCommitted);
        let mut places = BTreeMap::new();
        for (id, tid) in self.rows(&transaction, 0..u32::MAX)? {
            let place = self.heap.fetch_with(&transaction, tid, |here, _| here.to_string())?;
            places.insert(id, place.context("a row that a scan found")?);
        }
        Ok((places, u64::from(self.heap.blocks()) * SIZE.bytes() as u64))
    }

    /// The file, with all of it frozen and written.
    fn file(&self) -> Result<PathBuf> {
        let report = self.heap.vacuum(None, &VacuumOptions::freeze())?;
        ensure!(report.pages_all_frozen == self.heap.blocks(), "{report:?}");
        self.pool.flush()?;
        Ok(self.directory.path().join("base").join(Self::ID.to_string()))
    }
}

fn sound(client: &mut Client, table: &str) -> Result<()> {
    let sql = "SELECT format('block %s item %s attribute %s: %s', blkno, offnum, attnum, msg) \
               FROM verify_heapam($1::text::regclass, check_toast => true)";
    let findings = client.query(sql, &[&table])?;
    let texts: Vec<String> = findings.iter().map(|row| row.get(0)).collect();
    ensure!(texts.is_empty(), "{table}: {texts:?}");
    Ok(())
}

/// How many rows there are, and a sum over all of them.
fn sum(client: &mut Client, table: &str) -> Result<(i64, String)> {
    let sql = format!(
        "SELECT count(*), coalesce(md5(string_agg(md5(t::text), '' ORDER BY id)), '') FROM {table} t"
    );
    let row = client.query_one(&sql, &[])?;
    Ok((row.get(0), row.get(1)))
}

/// Runs the program on both sides, and compares after each step. Says how many places were
/// compared, and how long the heap was at its longest.
///
/// Release 14 keeps unused line pointers at the end of a page, where later ones drop them: there the
/// rows are compared, and not their places.
fn compare(
    theirs: &mut Theirs<'_>,
    ours: &mut Ours,
    rows: i32,
    major: u32,
) -> Result<(usize, u64)> {
    let (mut places, mut longest) = (0, 0);
    for (number, step) in program(rows).into_iter().enumerate() {
        let error = || anyhow!("step {number}, {step:?}");
        theirs.run(step).with_context(error)?;
        ours.run(step).with_context(error)?;
        let ((expected, expected_bytes), (found, bytes)) = (theirs.places()?, ours.places()?);
        if major < 15 {
            ensure!(found.keys().eq(expected.keys()), "step {number}, {step:?}: other rows");
            continue;
        }
        if let Some((id, place)) = expected.iter().find(|(id, place)| found.get(id) != Some(place))
        {
            let found = found.get(id);
            ensure!(false, "step {number}, {step:?}: row {id} is at {place}, ours at {found:?}");
        }
        ensure!(found.len() == expected.len(), "step {number}, {step:?}: {} rows", found.len());
        ensure!(bytes == expected_bytes, "step {number}: {bytes} bytes, not {expected_bytes}");
        places += found.len();
        longest = longest.max(bytes);
    }
    Ok((places, longest))
}

#[test]
fn rows_are_where_a_server_puts_them_and_the_heap_is_its_own() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let mut server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        client.batch_execute("CREATE EXTENSION amcheck")?;
        let mut heaps = Vec::new();
        let (mut places, mut longest) = (0, 0);
        for (name, longest_row, rows) in
            [("small", 60, 3000), ("mixed", 1900, 3000), ("large", 7900, 700)]
        {
            let lengths = Lengths { longest: longest_row };
            let table = format!("theirs_{name}");
            let mut theirs = Theirs { client: &mut client, table, lengths, round: 0 };
            theirs.create(&format!("theirs_{name}"))?;
            theirs.create(&format!("ours_{name}"))?;
            let mut ours = Ours::new(lengths)?;
            let (compared, bytes) = compare(&mut theirs, &mut ours, rows, server.major())
                .with_context(|| name.to_owned())?;
            places += compared;
            longest = longest.max(bytes);
            let path = server.relation_path(&mut client, &format!("ours_{name}"))?;
            heaps.push((name, ours, path));
        }
        drop(client);
        server.stop()?;
        for (_, ours, path) in &heaps {
            fs::copy(ours.file()?, path)?;
        }
        server.start_again()?;
        let mut client = server.client()?;
        for (name, ..) in &heaps {
            let (theirs, ours) = (format!("theirs_{name}"), format!("ours_{name}"));
            sound(&mut client, &ours)?;
            let expected = sum(&mut client, &theirs)?;
            ensure!(sum(&mut client, &ours)? == expected, "{ours}: other rows");
            for table in [&theirs, &ours] {
                client.batch_execute(&format!(
                    "INSERT INTO {table} SELECT id + 1000000, data FROM {table} WHERE id % 3 = 0;
                     UPDATE {table} SET data = '' WHERE id % 5 = 0;
                     DELETE FROM {table} WHERE id % 7 = 0"
                ))?;
                client.batch_execute(&format!("VACUUM {table}"))?;
            }
            sound(&mut client, &ours)?;
            let expected = sum(&mut client, &theirs)?;
            ensure!(sum(&mut client, &ours)? == expected, "{ours}: other rows afterwards");
        }
        let sql = "SELECT coalesce(sum(checksum_failures), 0)::int8 FROM pg_stat_database";
        let failures: i64 = client.query_one(sql, &[])?.get(0);
        ensure!(failures == 0, "{failures} checksums were wrong when the server read the pages");
        let text = format!(
            "{}: {places} rows of {} heaps at the places a server gave them after {} statements \
             each, the longest of {longest} bytes; all taken as its own",
            installation.version(),
            heaps.len(),
            program(1).len()
        );
        report::count(TEST, text);
        Ok(())
    })
}

#[test]
fn the_columns_are_those_of_the_catalog() -> Result<()> {
    for installation in Survey::any_server_for("the_columns_are_those_of_the_catalog") {
        let server = Server::start(&installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        let lengths = Lengths { longest: 10 };
        let mut theirs = Theirs { client: &mut client, table: "t".into(), lengths, round: 0 };
        theirs.create("t")?;
        let columns = inspect::attributes(&mut client, "t")?;
        let shapes: Vec<_> =
            columns.iter().map(|one| (one.len, one.by_value, one.align, one.storage)).collect();
        ensure!(shapes == [(4, true, 'i', 'p'), (-1, false, 'i', 'p')], "{shapes:?}");
    }
    Ok(())
}
