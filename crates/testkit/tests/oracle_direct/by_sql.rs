//! SQL builds the trees, as the proposal draws them; the tuples are the server's own, with short headers
//! where it likes them. We read the values from the table's file: from memory, and straight from disk.
//!
//! A second table begins with three columns and plain values, and gets the other two by `ALTER TABLE`, as a
//! database that is upgraded would.
use std::fs::{self, File};

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber, Oid};
use pgtoast_direct::{ChunkTuple, DirectRelation, FileStore, MemoryStore, Parameters};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Rng, Server, ServerOptions, Survey, report};

use crate::{ChunkTable, Compared, lengths};

const TEST: &str = "we_find_the_values_that_sql_wrote";
const SIZE: BlockSize = BlockSize::KIB_8;

/// Writes a value as a tree of chunks and says where its root is. `fanout` children a node.
const PUT_VALUE: &str = "
    CREATE FUNCTION put_value(value bytea, chunk int, fanout int) RETURNS text
    LANGUAGE plpgsql SET search_path = public AS $$
    DECLARE
        leaves int := (octet_length(value) + chunk - 1) / chunk;
        seq int := 0;
        tids tid[] := '{}';    -- of the level below
        sizes int8[] := '{}';  -- bytes below each of them
        above tid[];
        above_sizes int8[];
        bounds int8[];
        piece bytea;
        found tid;
        high int;
    BEGIN
        LOOP
            piece := substr(value, seq * chunk + 1, chunk);
            EXIT WHEN leaves <= 100 AND seq = leaves - 1;
            EXIT WHEN seq = leaves;
            INSERT INTO RELATION (chunk_seq, chunk_data) VALUES (seq, piece) RETURNING ctid INTO found;
            tids := tids || found;
            sizes := sizes || octet_length(piece)::int8;
            seq := seq + 1;
        END LOOP;
        IF leaves = 1 THEN
            INSERT INTO RELATION (chunk_seq, chunk_data) VALUES (0, piece) RETURNING ctid INTO found;
            RETURN found;
        ELSIF leaves <= 100 THEN
            INSERT INTO RELATION (chunk_seq, chunk_data, chunk_tids) VALUES (seq, piece, tids)
            RETURNING ctid INTO found;
            RETURN found;
        END IF;
        WHILE cardinality(tids) > 1 LOOP
            above := '{}';
            above_sizes := '{}';
            FOR low IN 1 .. cardinality(tids) BY fanout LOOP
                high := least(low + fanout - 1, cardinality(tids));
                bounds := '{0}';
                FOR child IN low .. high LOOP
                    bounds := bounds || bounds[child - low + 1] + sizes[child];
                END LOOP;
                INSERT INTO RELATION (chunk_seq, chunk_tids, chunk_tid_offsets)
                VALUES (seq, tids[low:high], bounds) RETURNING ctid INTO found;
                above := above || found;
                above_sizes := above_sizes || bounds[high - low + 2];
                seq := seq + 1;
            END LOOP;
            tids := above;
            sizes := above_sizes;
        END LOOP;
        RETURN tids[1];
    END $$";

#[test]
fn we_find_the_values_that_sql_wrote() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let mut server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        let fresh = ChunkTable::create(&server, &mut client, "direct", "oid")?;
        let fresh_values = fill(&mut client, fresh.name, 3, 200)?;
        let upgraded = make_upgraded(&server, &mut client)?;
        let upgraded_values = fill(&mut client, upgraded.name, 4, 60)?;
        client.batch_execute("VACUUM")?;
        drop(client);
        server.stop()?;
        let mut compared = Compared::default();
        read_all(&fresh, &fresh_values, &mut compared).context("made with five columns")?;
        read_all(&upgraded, &upgraded_values, &mut compared).context("made with three columns")?;
        let plain = plain_chunks(&upgraded)?;
        ensure!(plain == (300, 30), "{plain:?} plain chunks before and after the upgrade");
        ensure!(compared.values >= 260, "{compared}");
        report::count(TEST, format_args!("{}: {compared}", server.major()));
        Ok(())
    })
}

/// A table that had three columns when its plain values came.
fn make_upgraded(server: &Server, client: &mut Client) -> Result<ChunkTable> {
    client.batch_execute(
        "CREATE TABLE upgraded (chunk_id oid, chunk_seq int4, chunk_data bytea);
         ALTER TABLE upgraded ALTER chunk_data SET STORAGE PLAIN;
         INSERT INTO upgraded SELECT id, seq, convert_to(repeat(md5(id::text), 60), 'UTF8')
         FROM generate_series(20001, 20100) id, generate_series(0, 2) seq;
         ALTER TABLE upgraded ADD chunk_tids tid[], ADD chunk_tid_offsets int8[];
         ALTER TABLE upgraded ALTER chunk_tids SET STORAGE PLAIN,
                              ALTER chunk_tid_offsets SET STORAGE PLAIN;
         INSERT INTO upgraded SELECT id, seq, convert_to(repeat(md5(id::text), 60), 'UTF8')
         FROM generate_series(30001, 30010) id, generate_series(0, 2) seq;",
    )?;
    ChunkTable::open(server, client, "upgraded")
}

/// Has SQL write values, and says where each has its root.
fn fill(
    client: &mut Client,
    table: &str,
    seed: u64,
    count: usize,
) -> Result<Vec<(ItemPointer, Vec<u8>)>> {
    let function = PUT_VALUE.replace("RELATION", table);
    client.batch_execute("DROP FUNCTION IF EXISTS put_value")?;
    client.batch_execute(&function)?;
    let mut rng = Rng::new(seed);
    let chunk = Parameters::oid(SIZE).chunk_bytes();
    let chunk_argument = i32::try_from(chunk)?;
    let put = client.prepare("SELECT put_value($1, $2, 50)")?;
    let mut values = Vec::new();
    for len in lengths(&mut rng, chunk, count, 5_100_000) {
        let value = rng.bytes(len);
        let root: String = client.query_one(&put, &[&value, &chunk_argument])?.get(0);
        values.push((tid(&root)?, value));
    }
    Ok(values)
}

fn read_all(
    table: &ChunkTable,
    values: &[(ItemPointer, Vec<u8>)],
    compared: &mut Compared,
) -> Result<()> {
    let relation = DirectRelation::new(Oid::new(16_560), Parameters::oid(SIZE));
    let memory = MemoryStore::from_pages(&fs::read(&table.path)?, SIZE)?;
    let file = FileStore::new(File::open(&table.path)?, SIZE)?;
    let mut rng = Rng::new(5);
    for (root, value) in values {
        let pointer = relation.pointer(*root, value.len())?;
        let found = relation.read(&memory, &pointer).with_context(|| format!("at {root}"))?;
        ensure!(found == *value, "a value of {} bytes at {root}", value.len());
        let mut target = vec![0; value.len()];
        let cost = relation.read_into(&file, &pointer, &mut target)?;
        ensure!(target == *value, "from the file: {} bytes at {root}", value.len());
        let start = rng.below(value.len());
        let mut slice = vec![0; rng.between(1, value.len() - start)];
        let slice_cost = relation.slice_into(&file, &pointer, start, &mut slice)?;
        ensure!(slice == value[start..start + slice.len()], "a slice of the value at {root}");
        ensure!(slice_cost.fetches() <= cost.fetches(), "a slice costs no more than the whole");
        compared.add(value.len());
    }
    Ok(())
}

/// How many chunks of plain values are in the table: with three attributes, and with five.
fn plain_chunks(table: &ChunkTable) -> Result<(usize, usize)> {
    let memory = MemoryStore::from_pages(&fs::read(&table.path)?, SIZE)?;
    let mut counts = (0, 0);
    for (tid, tuple) in memory.tuples() {
        let natts = pgtoast_page::HeapTuple::parse(tuple)?.header().natts();
        match (ChunkTuple::parse(tuple, tid), natts) {
            (Ok(_), 5) => {}
            (Ok(_), natts) => anyhow::bail!("a direct chunk of {natts} attributes"),
            (Err(_), 3) => counts.0 += 1,
            (Err(_), _) => counts.1 += 1,
        }
    }
    Ok(counts)
}

/// `(block,item)`, as SQL writes it.
fn tid(text: &str) -> Result<ItemPointer> {
    let (block, item) = text
        .trim_matches(['(', ')'])
        .split_once(',')
        .with_context(|| format!("{text} is no tuple id"))?;
    Ok(ItemPointer::new(BlockNumber::new(block.parse()?), OffsetNumber::new(item.parse()?)))
}
