//! Tables of many shapes are written anew by us: main relation and TOAST relation, tuples in pages of
//! our making, values under new ids in chunks of our cutting, whichever of them we find should go out of
//! line. They go under the stopped server, which then has to find its own rows, nothing to complain of, and
//! be able to go on.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, Lsn, Oid, Oid8, Xid, maxalign};
use pgtoast_page::{
    AttributeDescriptor, HeapTuple, HeapTupleMut, Item, Page, PageMut, TrailingPointers,
    TupleDescriptor, Value, set_checksum,
};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{
    Rng, Server, ServerOptions, Survey, TableGenerator, TableOptions, inspect, report,
};
use pgtoast_toast::{
    Chunk, ChunkIndex, ChunkOrder, ChunkSource, ReadError, RowToaster, ToastRelation, Toaster,
    ValueIdWidth, ValueKey, WriteError, page_chunks,
};
use pgtoast_varlena::{CompressionMethod, ToastPointer};

const TEST: &str = "tables_that_we_wrote_are_a_servers_own";
const SIZE: BlockSize = BlockSize::KIB_8;
const TABLES: usize = 36;

#[test]
fn tables_that_we_wrote_are_a_servers_own() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let mut server = Server::start(installation, &ServerOptions::new())?;
        let mut tables = make_tables(&server)?;
        server.stop()?;
        let mut counts = Counts::default();
        for (seed, table) in (0..).zip(&tables) {
            table
                .write_anew(server.major(), seed, &mut counts)
                .with_context(|| table.name.clone())?;
        }
        counts.assert_enough();
        check_checksums(&server)?;
        server.start_again()?;
        let mut client = server.client()?;
        for table in &mut tables {
            table.is_the_servers_own(&mut client).with_context(|| table.name.clone())?;
        }
        let sql = "SELECT coalesce(sum(checksum_failures), 0)::int8 FROM pg_stat_database";
        let failures: i64 = client.query_one(sql, &[])?.get(0);
        ensure!(failures == 0, "{failures} checksums were wrong when the server read the pages");
        drop(client);
        server.stop()?;
        check_checksums(&server)?;
        report::count(TEST, format_args!("{}: {}", server.major(), counts.text()));
        Ok(())
    })
}

#[derive(Default)]
struct Counts {
    /// Lengths, alignments and storages of the columns of a table.
    shapes: BTreeSet<String>,
    tables: usize,
    rows: usize,
    values: usize,
    chunks: usize,
    /// Values that were deleted again.
    replaced: usize,
    pages: usize,
}

impl Counts {
    fn assert_enough(&self) {
        assert!(self.tables >= 30 && self.shapes.len() >= 20, "{}", self.text());
        assert!(self.rows > 2000 && self.values > 200 && self.chunks > 300, "{}", self.text());
        assert!(self.replaced > 20, "{}", self.text());
    }

    fn text(&self) -> String {
        let Self { shapes, tables, rows, values, chunks, replaced, pages } = self;
        format!(
            "{tables} tables of {} shapes taken as its own: {rows} rows, {values} values in {chunks} \
             chunks, {replaced} more deleted, {pages} pages",
            shapes.len()
        )
    }
}

/// What has to be known of a table while the server is stopped, and what its rows were.
struct Table {
    name: String,
    columns: Vec<AttributeDescriptor<'static>>,
    path: PathBuf,
    toast: Option<Toast>,
    method: CompressionMethod,
    rows: Rows,
}

struct Toast {
    name: String,
    path: PathBuf,
    oid: Oid,
}

/// How many rows there are, and a sum over all of their texts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rows(i64, String);

impl Rows {
    fn read(client: &mut Client, table: &str) -> Result<Self> {
        let sql = format!(
            "SELECT count(*), coalesce(md5(string_agg(one, '' ORDER BY one)), '') \
             FROM (SELECT md5(t::text) one FROM {table} t) _"
        );
        let row = client.query_one(&sql, &[])?;
        Ok(Self(row.get(0), row.get(1)))
    }
}

fn make_tables(server: &Server) -> Result<Vec<Table>> {
    let mut client = server.client()?;
    client.batch_execute("CREATE EXTENSION amcheck")?;
    client.batch_execute(TableGenerator::PRELUDE)?;
    let options = TableOptions { lz4: server.has_lz4(&mut client)? };
    let mut generator = TableGenerator::new(77, options);
    let mut tables = Vec::new();
    for number in 0..TABLES {
        let table = generator.next_table();
        for statement in &table.statements {
            let start = statement.get(..200).unwrap_or(statement);
            client.batch_execute(statement).with_context(|| start.to_owned())?;
        }
        // What is left afterwards are the tuples that everyone sees.
        let name = table.name;
        client.batch_execute(&format!("VACUUM (FREEZE, INDEX_CLEANUP ON) {name}"))?;
        let toast = match inspect::toast_relation(&mut client, &name)? {
            Some(name) => Some(Toast {
                path: server.relation_path(&mut client, &name)?,
                oid: Oid::new(client.query_one("SELECT $1::text::regclass::oid", &[&name])?.get(0)),
                name,
            }),
            None => None,
        };
        tables.push(Table {
            columns: crate::columns(&mut client, &name)?,
            path: server.relation_path(&mut client, &name)?,
            toast,
            method: match options.lz4 && number % 2 == 1 {
                true => CompressionMethod::Lz4,
                false => CompressionMethod::Pglz,
            },
            rows: Rows::read(&mut client, &name)?,
            name,
        });
    }
    Ok(tables)
}

impl Table {
    fn write_anew(&self, major: u32, seed: u64, counts: &mut Counts) -> Result<()> {
        let old = fs::read(&self.path)?;
        let old_toast = self.toast.as_ref().map(|toast| fs::read(&toast.path)).transpose()?;
        let mut heap = HeapWriter::new(major, seed);
        let chunks = HeapWriter::new(major, seed + 1000);
        let mut relation = ToastWriter::new(old_toast.as_deref().unwrap_or_default(), chunks)?;
        let descriptor = TupleDescriptor::new(&self.columns)?;
        let methods = vec![self.method; self.columns.len()];
        let mut toaster = self.toaster(seed, descriptor)?.with_methods(&methods);
        let mut rows = 0;
        for tuple in tuples(&old)? {
            let mut values = vec![Value::Null; self.columns.len()];
            tuple.deform_into(descriptor, &mut values)?;
            values.truncate(tuple.header().natts().into()); // as many as there were
            for (value, column) in values.iter_mut().zip(&self.columns) {
                if column.is_dropped {
                    *value = Value::Null;
                }
            }
            let row = toaster.insert(&values, &mut relation).map_err(any)?;
            if heap.rng.chance(20) {
                // Once more: the row is replaced by its equal before anyone has seen it.
                let first = row.tuple.bytes().to_vec();
                let mut stored = vec![Value::Null; self.columns.len()];
                HeapTuple::parse(&first)?.deform_into(descriptor, &mut stored)?;
                stored.truncate(values.len());
                let new = if heap.rng.chance(50) { &values } else { &stored };
                let row = toaster.update(&stored, new, &mut relation).map_err(any)?;
                heap.push(row.tuple)?;
            } else {
                heap.push(row.tuple)?;
            }
            rows += 1;
        }
        ensure!(rows == usize::try_from(self.rows.0)?, "{rows} rows of {}", self.rows.0);
        let shape = self.columns.iter().map(|column| {
            let letter = char::from(column.storage.attstorage());
            format!("{}{:?}{letter} ", column.len.attlen(), column.alignment)
        });
        counts.shapes.insert(shape.collect());
        counts.tables += 1;
        counts.rows += rows;
        counts.values += relation.values.len();
        counts.chunks += relation.values.values().map(Vec::len).sum::<usize>();
        counts.replaced += relation.deleted;
        counts.pages += heap.pages.len() + relation.heap.pages.len();
        heap.put_under(&self.path)?;
        match &self.toast {
            Some(toast) => relation.heap.put_under(&toast.path),
            None => Ok(()),
        }
    }

    /// Rules as a table may have them: what a row looks like inside is its writer's affair.
    fn toaster<'a>(&self, seed: u64, descriptor: TupleDescriptor<'a>) -> Result<RowToaster<'a>> {
        let targets = [2032, 128, 1000, 4000];
        let target = targets[usize::try_from(seed)? % targets.len()];
        let toaster = Toaster::new(SIZE).with_tuple_target(target)?;
        Ok(match &self.toast {
            Some(toast) => RowToaster::new(toaster, descriptor, toast.oid),
            None => RowToaster::new(toaster.without_toast_relation(), descriptor, Oid::new(0)),
        })
    }

    /// The server finds the rows, finds no fault, and goes on with the table.
    fn is_the_servers_own(&mut self, client: &mut Client) -> Result<()> {
        let name = &self.name;
        if let Some(toast) = &self.toast {
            client.batch_execute(&format!("REINDEX TABLE {}", toast.name))?;
            self.index_is_sound(client)?;
        }
        self.heap_is_sound(client)?;
        ensure!(Rows::read(client, name)? == self.rows, "other rows");
        let visible = self.columns.iter().zip(1..).filter(|(column, _)| !column.is_dropped);
        let numbers: Vec<i16> = visible.map(|(_, number)| number).collect();
        let sql = "SELECT quote_ident(attname::text) FROM pg_attribute \
                   WHERE attrelid = $1::text::regclass AND attnum = ANY ($2) ORDER BY attnum";
        let names: Vec<String> =
            client.query(sql, &[name, &numbers])?.iter().map(|row| row.get(0)).collect();
        let inserted = client.execute(
            &format!("INSERT INTO {name} SELECT {} FROM {name} LIMIT 40", names.join(", ")),
            &[],
        )?;
        if let Some(column) = names.first() {
            let update =
                format!("UPDATE {name} SET {column} = {column} WHERE ctid::text LIKE '%5)'");
            ensure!(client.execute(&update, &[])? > 0, "nothing updated");
        }
        let delete = format!("DELETE FROM {name} WHERE ctid::text LIKE '%3)'");
        let deleted = client.execute(&delete, &[])?;
        ensure!(inserted > 0 && deleted > 0, "{inserted} inserted, {deleted} deleted");
        let left = Rows::read(client, name)?;
        let expected = self.rows.0 + i64::try_from(inserted)? - i64::try_from(deleted)?;
        ensure!(left.0 == expected, "{} rows, expected {expected}", left.0);
        client.batch_execute(&format!("VACUUM (INDEX_CLEANUP ON) {name}"))?;
        self.heap_is_sound(client)?;
        self.index_is_sound(client)?;
        client.batch_execute(&format!("VACUUM FULL {name}"))?;
        ensure!(Rows::read(client, name)? == left, "other rows after a rewrite");
        Ok(())
    }

    fn heap_is_sound(&self, client: &mut Client) -> Result<()> {
        let sql = "SELECT format('block %s item %s attribute %s: %s', blkno, offnum, attnum, msg) \
                   FROM verify_heapam($1::text::regclass, check_toast => true)";
        let relations = [Some(&self.name), self.toast.as_ref().map(|toast| &toast.name)];
        for relation in relations.into_iter().flatten() {
            let findings = client.query(sql, &[relation])?;
            let texts: Vec<String> = findings.iter().map(|row| row.get(0)).collect();
            ensure!(texts.is_empty(), "{relation}: {texts:?}");
        }
        Ok(())
    }

    fn index_is_sound(&self, client: &mut Client) -> Result<()> {
        let Some(toast) = &self.toast else { return Ok(()) };
        let sql = "SELECT bt_index_check(indexrelid, true) FROM pg_index \
                   WHERE indrelid = $1::text::regclass";
        ensure!(client.query(sql, &[&toast.name])?.len() == 1, "an index of {}", toast.name);
        Ok(())
    }
}

/// The tuples of a relation's file.
fn tuples(file: &[u8]) -> Result<Vec<HeapTuple<'_>>> {
    let mut tuples = Vec::new();
    for bytes in file.chunks_exact(SIZE.bytes()) {
        let page = Page::parse(bytes, SIZE)?;
        for (item, _) in page.items() {
            if let Item::Normal(tuple) = page.item(item)? {
                tuples.push(HeapTuple::parse(tuple)?);
            }
        }
    }
    Ok(tuples)
}

/// A TOAST relation in the making. Rows point to values in the file that it replaces.
struct ToastWriter<'o> {
    old: ChunkIndex<'o>,
    heap: HeapWriter,
    next_value_id: u64,
    /// Where the chunks of each value are.
    values: BTreeMap<Oid8, Vec<ItemPointer>>,
    deleted: usize,
}

impl<'o> ToastWriter<'o> {
    fn new(old: &'o [u8], heap: HeapWriter) -> Result<Self> {
        let mut chunks = Vec::new();
        for (block, bytes) in (0..).map(BlockNumber::new).zip(old.chunks_exact(SIZE.bytes())) {
            for chunk in page_chunks(&Page::parse(bytes, SIZE)?, block, ValueIdWidth::Oid) {
                chunks.push(chunk?);
            }
        }
        // Past the middle of the range, where signs go wrong.
        let (next_value_id, values) = (3_000_000_000, BTreeMap::new());
        Ok(Self { old: chunks.into_iter().collect(), heap, next_value_id, values, deleted: 0 })
    }
}

impl ChunkSource for ToastWriter<'_> {
    type Error = anyhow::Error;

    fn order(&self) -> ChunkOrder {
        self.old.order()
    }

    fn visit(
        &mut self,
        key: ValueKey,
        chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<anyhow::Error>> {
        self.old.visit(key, chunks, visit).map_err(|error| error.map_source(|never| match never {}))
    }
}

impl ToastRelation for ToastWriter<'_> {
    fn new_value_id(&mut self) -> Result<Oid8> {
        self.next_value_id += 7;
        Ok(Oid8::new(self.next_value_id))
    }

    fn insert_chunk(&mut self, chunk: &Chunk<'_>, tuple: HeapTupleMut<'_>) -> Result<()> {
        let tids = self.values.entry(chunk.value_id).or_default();
        ensure!(usize::try_from(chunk.seq) == Ok(tids.len()), "chunk {} came", chunk.seq);
        tids.push(self.heap.push(tuple)?);
        Ok(())
    }

    fn delete_value(&mut self, pointer: &ToastPointer) -> Result<()> {
        let tids = pointer.value_id().and_then(|value_id| self.values.remove(&value_id));
        for tid in tids.context("a value of ours")? {
            self.heap.remove(tid)?;
        }
        self.deleted += 1;
        Ok(())
    }

    fn take_back(&mut self, _: &[ToastPointer], _: &[ToastPointer]) {
        // The test has failed, and the files are not written.
    }
}

fn any(error: WriteError<anyhow::Error>) -> anyhow::Error {
    match error {
        WriteError::Relation(error) => error,
        WriteError::Toast(error) => error.into(),
    }
}

/// Fills pages one after the other. Now and then a tuple is taken out again, so that line pointers are
/// unused, reused and dropped and tuples move.
struct HeapWriter {
    pages: Vec<Vec<u8>>,
    trailing: TrailingPointers,
    rng: Rng,
}

impl HeapWriter {
    fn new(major: u32, seed: u64) -> Self {
        let trailing = if major < 15 { TrailingPointers::Keep } else { TrailingPointers::Drop };
        Self { pages: Vec::new(), trailing, rng: Rng::new(seed) }
    }

    fn push(&mut self, mut tuple: HeapTupleMut<'_>) -> Result<ItemPointer> {
        let header = tuple.header_mut();
        header.set_inserted(Xid::FROZEN, 0);
        header.set_frozen();
        let tuple = tuple.into_bytes();
        let fits = |bytes: &Vec<u8>| -> Result<bool> {
            let free = Page::new(bytes, SIZE)?.heap_free_bytes();
            Ok(maxalign(tuple.len()) <= free.into())
        };
        if !self.pages.last().map_or(Ok(false), fits)? {
            let mut bytes = vec![0xcc; SIZE.bytes()];
            PageMut::init(&mut bytes, SIZE, 0)?;
            self.pages.push(bytes);
        }
        let block = BlockNumber::new(u32::try_from(self.pages.len() - 1)?);
        let mut page = PageMut::open(self.pages.last_mut().context("a page")?, SIZE)?;
        let tid = page.insert_tuple(block, tuple)?;
        if self.rng.chance(15)
            && usize::from(page.page().heap_free_bytes()) >= maxalign(tuple.len())
        {
            let gone = page.insert_tuple(block, tuple)?;
            page.set_unused(gone.item)?;
            if self.rng.chance(30) {
                page.compact(self.trailing)?;
            }
        }
        Ok(tid)
    }

    fn remove(&mut self, tid: ItemPointer) -> Result<()> {
        let index = usize::try_from(tid.block.get())?;
        let bytes = self.pages.get_mut(index).context("a page of ours")?;
        Ok(PageMut::open(bytes, SIZE)?.set_unused(tid.item)?)
    }

    /// Replaces the files of a relation, all its forks.
    fn put_under(mut self, path: &Path) -> Result<()> {
        for (block, bytes) in (0..).map(BlockNumber::new).zip(&mut self.pages) {
            let mut page = PageMut::open(bytes, SIZE)?;
            page.compact(self.trailing)?;
            page.set_lsn(Lsn::new(0));
            set_checksum(bytes, SIZE, block)?;
        }
        fs::write(path, self.pages.concat())?;
        for fork in ["_fsm", "_vm"] {
            let fork = PathBuf::from(format!("{}{fork}", path.display()));
            if fork.exists() {
                fs::remove_file(fork)?;
            }
        }
        Ok(())
    }
}

/// The stopped server's own program finds every checksum right, where there is one.
fn check_checksums(server: &Server) -> Result<()> {
    let Some(mut command) = server.command("pg_checksums") else {
        let why = format!("PostgreSQL {} comes without it", server.major());
        report::skip("pg_checksums_finds_our_pages_right", why);
        return Ok(());
    };
    let output = command.arg("--check").arg("-D").arg(server.data_directory()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}
