//! We write the file; the server, stopped meanwhile, takes it for the content of its table. It then finds
//! every value by the tuple ids alone, whichever tier it is of and whether it was edited, and goes on with
//! the table: plain values come to lie beside ours, rows of ours are deleted and vacuumed away.
use std::fs;

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockSize, ItemPointer, Oid};
use pgtoast_direct::{DirectRelation, MemoryStore, Parameters};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Rng, Server, ServerOptions, Survey, report};
use pgtoast_varlena::DirectPointer;

use crate::{ChunkTable, Compared, lengths, no_wrong_checksums, remove_maps};

const TEST: &str = "a_server_finds_the_values_that_we_wrote";
const SIZE: BlockSize = BlockSize::KIB_8;
const RELATION: Oid = Oid::new(16_560);

/// The tuples reached from a root, each with the way to it, and at the end their bytes in order. Children
/// come before what a root holds itself.
const REBUILD: &str = "
    WITH RECURSIVE walk (tid, path) AS (
        SELECT $1::text::tid, '{}'::int[]
        UNION ALL
        SELECT child.tid, walk.path || child.number::int
        FROM walk JOIN RELATION chunk ON chunk.ctid = walk.tid,
             LATERAL unnest(chunk.chunk_tids) WITH ORDINALITY child (tid, number)
    )
    SELECT string_agg(chunk.chunk_data, '' ORDER BY walk.path || 2147483647), count(*)
    FROM walk JOIN RELATION chunk ON chunk.ctid = walk.tid";

#[test]
fn a_server_finds_the_values_that_we_wrote() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let mut server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        client.batch_execute("CREATE EXTENSION amcheck")?;
        let tables = [("direct", "oid"), ("direct8", "int8")];
        let mut relations = Vec::new();
        for (seed, (name, id_type)) in (1..).zip(tables) {
            let table = ChunkTable::create(&server, &mut client, name, id_type)?;
            let parameters = match id_type {
                "oid" => Parameters::oid(SIZE),
                _ => Parameters::oid8(SIZE),
            };
            relations.push(Relation::write(table, parameters, seed)?);
        }
        drop(client);
        server.stop()?;
        for relation in &relations {
            fs::write(&relation.table.path, relation.store.to_file()?)?;
            remove_maps(&relation.table.path)?;
        }
        server.start_again()?;
        let mut client = server.client()?;
        let mut compared = Compared::default();
        for relation in &mut relations {
            relation.is_the_servers_own(&mut client, &mut compared).context(relation.table.name)?;
        }
        assert!(compared.values >= 400, "{compared}");
        no_wrong_checksums(&mut client)?;
        report::count(TEST, format_args!("{}: {compared}", server.major()));
        Ok(())
    })
}

/// A table's content by us, and the values that are in it.
struct Relation {
    table: ChunkTable,
    store: MemoryStore,
    values: Vec<(DirectPointer, Vec<u8>)>,
}

impl Relation {
    fn write(table: ChunkTable, parameters: Parameters, seed: u64) -> Result<Self> {
        let relation = DirectRelation::new(RELATION, parameters);
        let mut store = MemoryStore::new(SIZE);
        let mut rng = Rng::new(seed);
        let mut values = Vec::new();
        for len in lengths(&mut rng, parameters.chunk_bytes(), 220, 20_000_000) {
            let value = rng.bytes(len);
            let pointer = relation.write(&mut store, &value)?;
            if len < 1_000_000 && rng.chance(25) {
                // Both versions are there: they share what did not change.
                let (edited, new) = edit(&relation, &mut store, &pointer, &value, &mut rng)?;
                values.push((edited, new));
            }
            values.push((pointer, value));
        }
        Ok(Self { table, store, values })
    }

    fn is_the_servers_own(&self, client: &mut Client, compared: &mut Compared) -> Result<()> {
        let name = self.table.name;
        self.table.is_sound(client)?;
        ensure!(self.table.index_bytes(client)? == 8192, "an index of one page");
        let tuples: i64 = client.query_one(&format!("SELECT count(*) FROM {name}"), &[])?.get(0);
        ensure!(tuples == i64::try_from(self.store.tuples().count())?, "{tuples} tuples");
        client.batch_execute("SET enable_hashjoin = off; SET enable_mergejoin = off")?;
        let rebuild = client.prepare(&REBUILD.replace("RELATION", name))?;
        for (pointer, value) in &self.values {
            let root = text(pointer.root());
            let row = client.query_one(&rebuild, &[&root])?;
            let found: &[u8] = row.get(0);
            ensure!(found == value, "a value of {} bytes at {root}", value.len());
            compared.add(value.len());
        }
        self.goes_on(client)
    }

    /// The server adds plain values, deletes one of ours and vacuums.
    fn goes_on(&self, client: &mut Client) -> Result<()> {
        let name = self.table.name;
        let (pointer, value) = self.values.last().context("a value")?;
        let root = text(pointer.root());
        client.batch_execute(&format!(
            "INSERT INTO {name} SELECT id, seq, convert_to(repeat(md5(id::text), 60), 'UTF8') \
             FROM generate_series(20000, 20200) id, generate_series(0, 2) seq;
             DELETE FROM {name} WHERE ctid = '{root}';
             UPDATE {name} SET chunk_data = '\\x00' WHERE chunk_id = 20100 AND chunk_seq = 1"
        ))?;
        client.batch_execute(&format!("VACUUM (INDEX_CLEANUP ON) {name}"))?;
        self.table.is_sound(client)?;
        ensure!(self.table.index_bytes(client)? > 8192, "plain values are in the index");
        let rebuild = REBUILD.replace("RELATION", name);
        let gone: Option<Vec<u8>> = client.query_one(&rebuild, &[&root])?.get(0);
        ensure!(gone.is_none_or(|found| found != *value), "a deleted value is still there");
        let (pointer, value) = self.values.first().context("a value")?;
        let kept: Vec<u8> = client.query_one(&rebuild, &[&text(pointer.root())])?.get(0);
        ensure!(kept == *value, "a value beside a deleted one");
        Ok(())
    }
}

fn edit(
    relation: &DirectRelation,
    store: &mut MemoryStore,
    pointer: &DirectPointer,
    value: &[u8],
    rng: &mut Rng,
) -> Result<(DirectPointer, Vec<u8>)> {
    let at = rng.below(value.len());
    let len = rng.between(1, 5000);
    let more = rng.bytes(len);
    let mut new = value.to_vec();
    let edited = match rng.below(3) {
        0 => {
            let end = value.len().min(at + more.len());
            new[at..end].copy_from_slice(&more[..end - at]);
            relation.patch(store, pointer, at, &more[..end - at])?
        }
        1 => {
            new.extend_from_slice(&more);
            relation.append(store, pointer, &more)?
        }
        _ => {
            new.splice(at..at, more.iter().copied());
            relation.insert_range(store, pointer, at, &more)?
        }
    };
    Ok((edited.pointer, new))
}

/// A tuple id as SQL writes it.
fn text(tid: ItemPointer) -> String {
    format!("({},{})", tid.block.get(), tid.item.get())
}
