//! Tables of many shapes are written anew by us: main relation and TOAST relation, tuples in pages of
//! our making, values under new ids in chunks of our cutting. They go under the stopped server, which
//! then has to find its own rows, nothing to complain of, and be able to go on.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize, Lsn, OffsetNumber, Oid, Xid, maxalign};
use pgtoast_page::{
    AttributeDescriptor, HeapTuple, Item, Page, PageMut, TrailingPointers, TupleDescriptor, Value,
    set_checksum,
};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{
    Rng, Server, ServerOptions, Survey, TableGenerator, TableOptions, inspect, report,
};
use pgtoast_toast::{ChunkSize, ValueIdWidth, page_chunks};
use pgtoast_varlena::{OidPointer, ToastPointer, Varlena, encode_long};

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
    pages: usize,
}

impl Counts {
    fn assert_enough(&self) {
        assert!(self.tables >= 30 && self.shapes.len() >= 20, "{}", self.text());
        assert!(self.rows > 2000 && self.values > 200 && self.chunks > 300, "{}", self.text());
    }

    fn text(&self) -> String {
        let Self { shapes, tables, rows, values, chunks, pages } = self;
        format!(
            "{tables} tables of {} shapes taken as its own: {rows} rows, {values} values in {chunks} \
             chunks, {pages} pages",
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
    for _ in 0..TABLES {
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
            rows: Rows::read(&mut client, &name)?,
            name,
        });
    }
    Ok(tables)
}

impl Table {
    fn write_anew(&self, major: u32, seed: u64, counts: &mut Counts) -> Result<()> {
        let old = fs::read(&self.path)?;
        let stored = match &self.toast {
            Some(toast) => stored_values(&fs::read(&toast.path)?)?,
            None => BTreeMap::new(),
        };
        let mut heap = HeapWriter::new(major, seed);
        let mut chunks = ChunkWriter::new(HeapWriter::new(major, seed + 1000), self.toast.as_ref());
        let descriptor = TupleDescriptor::new(&self.columns)?;
        let mut rows = 0;
        for tuple in tuples(&old)? {
            let mut values = vec![Value::Null; self.columns.len()];
            tuple.deform_into(descriptor, &mut values)?;
            values.truncate(tuple.header().natts().into()); // as many as there were
            let pointers: Vec<_> = values
                .iter()
                .zip(&self.columns)
                .map(|(value, column)| chunks.moved(value, column, &stored))
                .collect::<Result<_>>()?;
            for ((value, pointer), column) in values.iter_mut().zip(&pointers).zip(&self.columns) {
                if column.is_dropped {
                    *value = Value::Null;
                } else if let Some(pointer) = pointer {
                    *value = Value::stored(pointer);
                }
            }
            heap.push(descriptor, &values)?;
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
        counts.values += chunks.values;
        counts.chunks += chunks.chunks;
        counts.pages += heap.pages.len() + chunks.heap.pages.len();
        heap.put_under(&self.path)?;
        match &self.toast {
            Some(toast) => chunks.heap.put_under(&toast.path),
            None => Ok(()),
        }
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

/// What the chunks of each value hold together.
fn stored_values(file: &[u8]) -> Result<BTreeMap<u64, Vec<u8>>> {
    let mut chunks = BTreeMap::new();
    for (block, bytes) in (0..).map(BlockNumber::new).zip(file.chunks_exact(SIZE.bytes())) {
        for chunk in page_chunks(&Page::parse(bytes, SIZE)?, block, ValueIdWidth::Oid) {
            let chunk = chunk?;
            chunks.insert((chunk.value_id.get(), chunk.seq), chunk.data.to_vec());
        }
    }
    let mut values = BTreeMap::<_, Vec<u8>>::new();
    for ((value_id, _), data) in chunks {
        values.entry(value_id).or_default().extend(data);
    }
    Ok(values)
}

/// Cuts values into the rows of a TOAST relation.
struct ChunkWriter {
    heap: HeapWriter,
    oid: Oid,
    columns: [AttributeDescriptor<'static>; 3],
    next_value_id: u32,
    values: usize,
    chunks: usize,
}

impl ChunkWriter {
    fn new(heap: HeapWriter, toast: Option<&Toast>) -> Self {
        let plain = |len, by_value| {
            AttributeDescriptor::from_catalog(len, by_value, b'i', b'p').expect("a real column")
        };
        Self {
            heap,
            oid: toast.map_or(Oid::new(0), |toast| toast.oid),
            columns: [plain(4, true), plain(4, true), plain(-1, false)],
            next_value_id: 3_000_000_000, // past the middle of the range, where signs go wrong
            values: 0,
            chunks: 0,
        }
    }

    /// Writes a value that is stored out of line once more, and gives the pointer to it; `None` for
    /// any other.
    fn moved(
        &mut self,
        value: &Value<'_>,
        column: &AttributeDescriptor<'_>,
        stored: &BTreeMap<u64, Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let Value::Stored(datum) = value else { return Ok(None) };
        if column.len.attlen() != -1 || column.is_dropped {
            return Ok(None);
        }
        let Varlena::External(pointer) = datum.varlena()? else { return Ok(None) };
        let old_id = pointer.value_id().context("a value id")?;
        let data = stored.get(&old_id.get()).context("a value of the old relation")?;
        ensure!(data.len() == pointer.stored_len(), "{} bytes in chunks", data.len());
        let value_id = Oid::new(self.next_value_id);
        self.next_value_id += 7;
        self.values += 1;
        for (seq, data) in (0i32..).zip(data.chunks(ChunkSize::default().bytes())) {
            let mut datum = Vec::new();
            encode_long(data, &mut datum)?;
            let (id, seq) = (value_id.get().to_le_bytes(), seq.to_le_bytes());
            let values = [&id[..], &seq, &datum].map(Value::stored);
            self.heap.push(TupleDescriptor::new(&self.columns)?, &values)?;
            self.chunks += 1;
        }
        let pointer = OidPointer::new(pointer.raw_len(), pointer.ext_info(), value_id, self.oid);
        let mut bytes = vec![0; datum.bytes.len()];
        ToastPointer::Oid(pointer).encode(&mut bytes)?;
        Ok(Some(bytes))
    }
}

/// Fills pages one after the other. Now and then a tuple is taken out again, so that line pointers are
/// unused, reused and dropped and tuples move.
struct HeapWriter {
    pages: Vec<Vec<u8>>,
    trailing: TrailingPointers,
    rng: Rng,
    buffer: Vec<u8>,
}

impl HeapWriter {
    fn new(major: u32, seed: u64) -> Self {
        let trailing = if major < 15 { TrailingPointers::Keep } else { TrailingPointers::Drop };
        Self { pages: Vec::new(), trailing, rng: Rng::new(seed), buffer: vec![0xcc; SIZE.bytes()] }
    }

    fn push(&mut self, descriptor: TupleDescriptor<'_>, values: &[Value<'_>]) -> Result<()> {
        let mut tuple = descriptor.form(values, &mut self.buffer)?;
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
        page.insert_tuple(block, tuple)?;
        if self.rng.chance(15)
            && usize::from(page.page().heap_free_bytes()) >= maxalign(tuple.len())
        {
            let gone = page.insert_tuple(block, tuple)?;
            page.set_unused(gone.item)?;
            if self.rng.chance(30) {
                page.compact(self.trailing)?;
            }
        }
        Ok(())
    }

    /// Replaces the files of a relation, all its forks.
    fn put_under(mut self, path: &Path) -> Result<()> {
        for (block, bytes) in (0..).map(BlockNumber::new).zip(&mut self.pages) {
            let mut page = PageMut::open(bytes, SIZE)?;
            page.compact(self.trailing)?;
            page.set_lsn(Lsn::new(0));
            ensure!(page.page().line_pointer(OffsetNumber::FIRST).is_some(), "an empty page");
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
