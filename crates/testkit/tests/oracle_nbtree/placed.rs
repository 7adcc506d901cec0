//! Indexes of TOAST tables and of tables with 64-bit ids, written anew by us, by inserts in any order and
//! packed, and put under a stopped server. It must find every chunk by them and go on inserting.
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::ItemPointer;
use pgtoast_nbtree::{Index, Insertion, Key, KeyWidth, MemoryPages};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Rng, Server, ServerOptions, Survey, inspect, report};

use super::{SIZE, entry, put_under, toast_index_file};

const TEST: &str = "indexes_that_we_wrote_are_a_servers_own";

#[test]
fn indexes_that_we_wrote_are_a_servers_own() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        for checksums in [true, false] {
            let options = ServerOptions::new().set("autovacuum", "off").data_checksums(checksums);
            let mut server = Server::start(installation, &options)?;
            let mut client = server.client()?;
            client.batch_execute("CREATE EXTENSION amcheck")?;
            let mut subjects = Vec::new();
            for made in [Made::InOrder, Made::InAnyOrder, Made::Packed] {
                subjects.push(Subject::toast(&server, &mut client, made)?);
                subjects.push(Subject::wide(&server, &mut client, made)?);
            }
            drop(client);
            server.stop()?;
            let (mut pages, mut rows) = (0, 0);
            for subject in &subjects {
                pages += subject.replace(server.major()).with_context(|| subject.table.clone())?;
                rows += subject.rows.len();
            }
            server.start_again()?;
            let mut client = server.client()?;
            for subject in &subjects {
                subject.is_the_servers_own(&mut client).with_context(|| subject.table.clone())?;
            }
            let sql = "SELECT coalesce(sum(checksum_failures), 0)::int8 FROM pg_stat_database";
            let failures: i64 = client.query_one(sql, &[])?.get(0);
            ensure!(failures == 0, "{failures} checksums were wrong");
            report::count(
                TEST,
                format_args!(
                    "{}: {} indexes of {rows} rows in {pages} pages taken as its own",
                    server.major(),
                    subjects.len()
                ),
            );
        }
        Ok(())
    })
}

#[derive(Clone, Copy, Debug)]
enum Made {
    InOrder,
    InAnyOrder,
    Packed,
}

struct Subject {
    /// The table that is indexed: a TOAST table, or one like it.
    table: String,
    index: String,
    width: KeyWidth,
    made: Made,
    rows: Vec<(Key, ItemPointer)>,
    path: PathBuf,
    /// Inserts more rows.
    more: String,
    /// Reads every row by the index: a text that must not change.
    sum: String,
    before: String,
}

impl Subject {
    fn toast(server: &Server, client: &mut Client, made: Made) -> Result<Self> {
        let name = format!("toasted_{made:?}").to_lowercase();
        let more = format!(
            "INSERT INTO {name} SELECT i, repeat(chr(65 + i % 26), 2100 + 37 * (i % 300)) \
             FROM generate_series(1, 4000) i"
        );
        client.batch_execute(&format!(
            "CREATE TABLE {name} (id int4, v text); ALTER TABLE {name} ALTER v SET STORAGE EXTERNAL;
             {more}"
        ))?;
        let table = inspect::toast_relation(client, &name)?.context("a TOAST table")?;
        let index = format!("{table}_index");
        let sum = format!(
            "SELECT count(*)::text || md5(string_agg(md5(v), '' ORDER BY id)) \
                           FROM {name} WHERE id <= 4000"
        );
        Self::new(server, client, (table, index), KeyWidth::Oid, made, more, sum)
    }

    fn wide(server: &Server, client: &mut Client, made: Made) -> Result<Self> {
        let table = format!("wide_{made:?}").to_lowercase();
        let index = format!("{table}_key");
        // Ids on both sides of 2^32, the low halves the same.
        let rows = |from: u32| {
            format!(
                "INSERT INTO {table} SELECT {from} + i / 3 + (i % 2) * 4294967296, i / 2, \
                 decode(md5(i::text), 'hex') FROM generate_series(1, 30000) i"
            )
        };
        client.batch_execute(&format!(
            "CREATE TABLE {table} (chunk_id int8, chunk_seq int4, chunk_data bytea);
             CREATE UNIQUE INDEX {index} ON {table} (chunk_id, chunk_seq); {}",
            rows(20_000)
        ))?;
        let sum = format!(
            "SELECT count(*)::text || md5(string_agg(encode(one.chunk_data, 'hex'), '' \
             ORDER BY i)) FROM generate_series(1, 30000) i, LATERAL (SELECT chunk_data FROM {table} \
             WHERE chunk_id = 20000 + i / 3 + (i % 2) * 4294967296 AND chunk_seq = i / 2) one"
        );
        Self::new(
            server,
            client,
            (table.clone(), index),
            KeyWidth::Oid8,
            made,
            rows(5_000_000),
            sum,
        )
    }

    fn new(
        server: &Server,
        client: &mut Client,
        (table, index): (String, String),
        width: KeyWidth,
        made: Made,
        more: String,
        sum: String,
    ) -> Result<Self> {
        let sql =
            format!("SELECT ctid::text, chunk_id::int8, chunk_seq FROM {table} ORDER BY 2, 3");
        let rows = client.query(&sql, &[])?.iter().map(entry).collect::<Result<_>>()?;
        let path = server.relation_path(client, &index)?;
        let before = read(client, &sum)?;
        Ok(Self { table, index, width, made, rows, path, more, sum, before })
    }

    /// Writes the file anew: how many pages it has.
    fn replace(&self, major: u32) -> Result<usize> {
        let mut rows = self.rows.clone();
        let index = match self.made {
            Made::Packed => Index::build(MemoryPages::new(SIZE), self.width, rows)?,
            Made::InOrder | Made::InAnyOrder => {
                if matches!(self.made, Made::InAnyOrder) {
                    let mut rng = Rng::new(5);
                    for at in (1..rows.len()).rev() {
                        rows.swap(at, rng.below(at + 1));
                    }
                }
                let index = Index::create(MemoryPages::new(SIZE), self.width)?;
                for (key, tid) in rows {
                    ensure!(index.insert(key, tid)? == Insertion::Done);
                }
                index
            }
        };
        ensure!(index.check()?.entries == self.rows.len() as u64);
        let file = match self.width {
            KeyWidth::Oid => toast_index_file(index, major)?,
            KeyWidth::Oid8 => index.into_pages().to_bytes(),
        };
        put_under(&self.path, file)
    }

    fn is_the_servers_own(&self, client: &mut Client) -> Result<()> {
        self.is_sound(client)?;
        client.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off")?;
        ensure!(read(client, &self.sum)? == self.before, "other values by the index");
        for _ in 0..2 {
            client.batch_execute(&self.more.replace("20000 +", "9000000 +")).or_else(|error| {
                // The second round of the wide table has its keys already, which the index must know.
                let unique = error.code().is_some_and(|code| code.code() == "23505");
                if unique { Ok(()) } else { Err(error) }
            })?;
        }
        self.is_sound(client)?;
        let main = self.main(client)?;
        client.batch_execute(&format!("VACUUM {main}"))?;
        self.is_sound(client)?;
        ensure!(read(client, &self.sum)?.len() >= 32);
        Ok(())
    }

    /// The table that SQL may vacuum.
    fn main(&self, client: &mut Client) -> Result<String> {
        let sql = "SELECT coalesce((SELECT oid::regclass::text FROM pg_class \
                   WHERE reltoastrelid = $1::text::regclass), $1)";
        Ok(client.query_one(sql, &[&self.table])?.get(0))
    }

    fn is_sound(&self, client: &mut Client) -> Result<()> {
        client.execute("SELECT bt_index_check($1::text::regclass, true)", &[&self.index])?;
        client.execute(
            "SELECT bt_index_parent_check($1::text::regclass, true, true)",
            &[&self.index],
        )?;
        Ok(())
    }
}

fn read(client: &mut Client, sql: &str) -> Result<String> {
    Ok(client.query_one(sql, &[])?.get(0))
}
