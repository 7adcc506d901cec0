//! A row toaster does to rows and their TOAST relation what a server did: the same rows to the byte, pointers
//! included, the same chunks, and the same values gone.
//!
//! Ours is handed the server's rows from before the updates and the ids that the server drew for new values, from
//! a counter, so that a value that goes out earlier has the lower one.
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize, Oid, Oid8, Xid};
use pgtoast_page::{
    AttributeDescriptor, HeapTuple, HeapTupleMut, Item, Page, TupleDescriptor, Value,
};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::postgres::types::ToSql;
use pgtoast_testkit::{Corpus, Rng, Server, ServerOptions, Survey, inspect, report};
use pgtoast_toast::{
    AttributeForm, Chunk, ChunkIndex, ChunkOrder, ChunkSource, Decision, ReadError, RowToaster,
    ToastRelation, Toaster, ValueIdWidth, ValueKey, WriteError, page_chunks,
};
use pgtoast_varlena::{ToastPointer, encode_long};

use crate::{id_of, rng_len};

const TEST: &str = "updates_carry_over_store_and_delete_what_the_rules_say";
const SIZE: BlockSize = BlockSize::KIB_8;
const ROWS: usize = 160;
/// Extended, external and main.
const STORAGES: [u8; 3] = *b"xem";

#[test]
fn updates_carry_over_store_and_delete_what_the_rules_say() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        let mut rng = Rng::new(0x0bd);
        let mut counts = Counts::default();
        for target in [128, 2032] {
            let table = format!("updated_{target}");
            client.batch_execute(&format!(
                "CREATE TABLE {table} (id int4, c0 bytea COMPRESSION pglz, c1 bytea, \
                     c2 bytea COMPRESSION pglz) WITH (toast_tuple_target = {target});
                 ALTER TABLE {table} ALTER c1 SET STORAGE EXTERNAL, ALTER c2 SET STORAGE MAIN"
            ))?;
            update_all(&server, &mut client, &mut rng, &table, target, &mut counts)
                .with_context(|| table.clone())?;
        }
        counts.assert_enough();
        report::count(TEST, format_args!("{}: {}", installation.major(), counts.text()));
        Ok(())
    })
}

#[derive(Default)]
struct Counts {
    carried: usize,
    stored: usize,
    chunks: usize,
    deleted: usize,
    inside: usize,
}

impl Counts {
    fn assert_enough(&self) {
        let Self { carried, stored, chunks, deleted, inside } = *self;
        let least = [carried, stored, chunks, deleted, inside].into_iter().min();
        assert!(least >= Some(50), "{}", self.text());
    }

    fn text(&self) -> String {
        let Self { carried, stored, chunks, deleted, inside } = self;
        format!(
            "rows equal to the byte: {carried} pointers carried over, {stored} values moved out in \
             {chunks} chunks, {deleted} deleted, {inside} in their rows"
        )
    }
}

/// What a row's update does with one column.
#[derive(Clone, Debug)]
enum Change {
    /// It is not named.
    None,
    /// It is set to itself.
    Same,
    /// It is set to what another column had.
    Copy(usize),
    Null,
    New(Vec<u8>),
}

type Datums = Vec<Option<Vec<u8>>>;

fn update_all(
    server: &Server,
    client: &mut Client,
    rng: &mut Rng,
    table: &str,
    target: usize,
    counts: &mut Counts,
) -> Result<()> {
    let mut columns = vec![AttributeDescriptor::from_catalog(4, true, b'i', b'p')?];
    for storage in STORAGES {
        columns.push(AttributeDescriptor::from_catalog(-1, false, b'i', storage)?);
    }
    let value = |rng: &mut Rng| {
        let len = rng_len(rng);
        rng.pick(&Corpus::ALL).bytes(rng, len)
    };
    for id in 0..ROWS {
        let [a, b, c] = [(); 3].map(|()| rng.chance(90).then(|| value(rng)));
        let sql = format!("INSERT INTO {table} VALUES ($1, $2, $3, $4)");
        client.execute(&sql, &[&i32::try_from(id)?, &a, &b, &c])?;
    }
    let before = living_rows(server, client, table, &columns)?;
    let toast = inspect::toast_relation(client, table)?.context("no TOAST relation")?;
    let toast_path = server.relation_path(client, &toast)?;
    let toast_before = inspect::fork_bytes(&toast_path)?;
    let mut changes = Vec::new();
    for id in 0..ROWS {
        let row: Vec<_> = (0..3)
            .map(|_| match rng.below(6) {
                0 | 1 => Change::None,
                2 => Change::Same,
                3 => Change::Copy(rng.below(3)),
                4 if rng.chance(30) => Change::Null,
                _ => Change::New(value(rng)),
            })
            .collect();
        update(client, table, i32::try_from(id)?, &row)?;
        changes.push(row);
    }
    let after = living_rows(server, client, table, &columns)?;
    let toast_after = inspect::fork_bytes(&toast_path)?;
    let toast_oid = client.query_one("SELECT $1::text::regclass::oid", &[&toast])?.get(0);
    let mut relation = Relation::new(&toast_before, &toast_after)?;
    let descriptor = TupleDescriptor::new(&columns)?;
    let toaster = Toaster::new(SIZE).with_tuple_target(target)?;
    let mut toaster = RowToaster::new(toaster, descriptor, Oid::new(toast_oid));
    let mut live = BTreeSet::new();
    for (id, row) in changes.iter().enumerate() {
        let (old, new) = (&before[&id], after.get(&id).context("a row is gone")?);
        live.extend(ids(new)?);
        check_update(&mut toaster, descriptor, row, old, new, &mut relation, counts)
            .with_context(|| format!("row {id}: {row:?}"))?;
    }
    counts.chunks += relation.inserted;
    let in_use = client.query(&format!("SELECT DISTINCT chunk_id FROM {toast}"), &[])?;
    let in_use: BTreeSet<_> = in_use.iter().map(|row| u64::from(row.get::<_, u32>(0))).collect();
    ensure!(in_use == live, "values that have chunks, and values that have pointers");
    Ok(())
}

fn update(client: &mut Client, table: &str, id: i32, changes: &[Change]) -> Result<()> {
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&id];
    let mut sets = vec!["id = id".to_owned()];
    for (index, change) in changes.iter().enumerate() {
        match change {
            Change::None => {}
            Change::Same => sets.push(format!("c{index} = c{index}")),
            Change::Copy(from) => sets.push(format!("c{index} = c{from}")),
            Change::Null => sets.push(format!("c{index} = NULL")),
            Change::New(bytes) => {
                parameters.push(bytes);
                sets.push(format!("c{index} = ${}", parameters.len()));
            }
        }
    }
    let sql = format!("UPDATE {table} SET {} WHERE id = $1", sets.join(", "));
    ensure!(client.execute(&sql, &parameters)? == 1, "row {id} is not there");
    Ok(())
}

/// Does one row's update anew; rows are with their number in front.
fn check_update(
    toaster: &mut RowToaster<'_>,
    descriptor: TupleDescriptor<'_>,
    changes: &[Change],
    old: &Datums,
    new: &Datums,
    relation: &mut Relation<'_>,
    counts: &mut Counts,
) -> Result<()> {
    let mut given = vec![old[0].clone()];
    for (index, change) in (1..).zip(changes) {
        given.push(match change {
            Change::None | Change::Same => old[index].clone(),
            Change::Copy(from) => old[from + 1].clone(),
            Change::Null => None,
            Change::New(bytes) => {
                let mut datum = Vec::new();
                encode_long(bytes, &mut datum)?;
                Some(datum)
            }
        });
    }
    let (ids_before, ids_after) = (ids(old)?, ids(new)?);
    relation.ids = ids_after.difference(&ids_before).copied().collect();
    relation.deleted.clear();
    let row = match toaster.update(&values(old), &values(&given), relation) {
        Ok(row) => row,
        Err(WriteError::Relation(error)) => return Err(error),
        Err(WriteError::Toast(error)) => return Err(error.into()),
    };
    for attribute in &row.attributes[1..] {
        match (attribute.form(), attribute.decision()) {
            (AttributeForm::Null, _) => {}
            (AttributeForm::Pointer, Decision::Keep) => counts.carried += 1,
            (AttributeForm::Pointer, _) => counts.stored += 1,
            _ => counts.inside += 1,
        }
    }
    counts.deleted += relation.deleted.len();
    ensure!(stored(row.tuple.tuple(), descriptor)? == *new, "another row than the server's");
    ensure!(relation.ids.is_empty(), "the server has {:?} as well", relation.ids);
    let gone: BTreeSet<_> = ids_before.difference(&ids_after).copied().collect();
    ensure!(relation.deleted == gone, "deleted {:?}, the server {gone:?}", relation.deleted);
    Ok(())
}

/// The server's TOAST relation. What ours would add has to be there after the server's updates.
struct Relation<'f> {
    before: ChunkIndex<'f>,
    after: ChunkIndex<'f>,
    /// What the server drew for the row at hand.
    ids: BTreeSet<u64>,
    deleted: BTreeSet<u64>,
    inserted: usize,
}

impl<'f> Relation<'f> {
    fn new(before: &'f [u8], after: &'f [u8]) -> Result<Self> {
        let (before, after) = (chunks(before)?, chunks(after)?);
        Ok(Self { before, after, ids: BTreeSet::new(), deleted: BTreeSet::new(), inserted: 0 })
    }
}

fn chunks(file: &[u8]) -> Result<ChunkIndex<'_>> {
    let mut chunks = Vec::new();
    for (block, bytes) in (0..).map(BlockNumber::new).zip(file.chunks_exact(SIZE.bytes())) {
        for chunk in page_chunks(&Page::parse(bytes, SIZE)?, block, ValueIdWidth::Oid) {
            chunks.push(chunk?);
        }
    }
    Ok(chunks.into_iter().collect())
}

impl ChunkSource for Relation<'_> {
    type Error = anyhow::Error;

    fn order(&self) -> ChunkOrder {
        self.before.order()
    }

    fn visit(
        &mut self,
        key: ValueKey,
        chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<anyhow::Error>> {
        self.before
            .visit(key, chunks, visit)
            .map_err(|error| error.map_source(|never| match never {}))
    }
}

impl ToastRelation for Relation<'_> {
    fn new_value_id(&mut self) -> Result<Oid8> {
        self.ids.pop_first().map(Oid8::new).context("the server stored no more values")
    }

    fn insert_chunk(&mut self, chunk: &Chunk<'_>, _: HeapTupleMut<'_>) -> Result<()> {
        self.inserted += 1;
        let of = |chunk: &Chunk<'_>| (chunk.value_id, chunk.seq);
        let theirs = self.after.chunks().binary_search_by_key(&of(chunk), of);
        let theirs = theirs.ok().map(|index| self.after.chunks()[index].data);
        ensure!(theirs == Some(chunk.data), "chunk {} of {}", chunk.seq, chunk.value_id);
        Ok(())
    }

    fn delete_value(&mut self, pointer: &ToastPointer) -> Result<()> {
        ensure!(self.deleted.insert(id_of(pointer)?.get()), "deleted twice");
        Ok(())
    }

    fn take_back(&mut self, _: &[ToastPointer], _: &[ToastPointer]) {
        // The test has failed.
    }
}

/// The ids of the values that a row has out of line.
fn ids(datums: &Datums) -> Result<BTreeSet<u64>> {
    let pointers = datums[1..].iter().flatten().filter(|datum| datum[0] == 1);
    pointers.map(|datum| Ok(id_of(&ToastPointer::parse(datum, 0)?)?.get())).collect()
}

fn values(datums: &Datums) -> Vec<Value<'_>> {
    datums.iter().map(|datum| datum.as_deref().map_or(Value::Null, Value::stored)).collect()
}

fn stored(tuple: HeapTuple<'_>, descriptor: TupleDescriptor<'_>) -> Result<Datums> {
    let mut values = vec![Value::Null; descriptor.attributes().len()];
    tuple.deform_into(descriptor, &mut values)?;
    Ok(values.iter().map(|value| value.bytes().map(<[u8]>::to_vec)).collect())
}

/// By their number, the rows that nobody has ended, as they lie in their tuples.
fn living_rows(
    server: &Server,
    client: &mut Client,
    table: &str,
    columns: &[AttributeDescriptor<'_>],
) -> Result<BTreeMap<usize, Datums>> {
    client.batch_execute("CHECKPOINT")?;
    let heap = inspect::fork_bytes(&server.relation_path(client, table)?)?;
    let mut rows = BTreeMap::new();
    for bytes in heap.chunks_exact(SIZE.bytes()) {
        let page = Page::parse(bytes, SIZE)?;
        for (item, _) in page.items() {
            let Item::Normal(tuple) = page.item(item)? else { continue };
            let tuple = HeapTuple::parse(tuple)?;
            if tuple.header().xmax() != Xid::INVALID {
                continue;
            }
            let row = stored(tuple, TupleDescriptor::new(columns)?)?;
            let id = row[0].as_deref().context("a null id")?;
            rows.insert(usize::try_from(u32::from_le_bytes(id.try_into()?))?, row);
        }
    }
    Ok(rows)
}
