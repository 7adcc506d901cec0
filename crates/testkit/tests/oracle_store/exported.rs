//! Tables of many shapes are filled, changed and exported by the store. They go under the stopped server, which
//! then has to find every row, nothing to complain of, and be able to go on.
use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use pgtoast_store::{
    Column, ColumnType, CompressionMethod, Datum, Isolation, ItemPointer, Schema, Storage, Store,
    StoreOptions, Table, Transaction,
};
use pgtoast_testkit::postgres::{Client, Row};
use pgtoast_testkit::{Corpus, Rng, Server, ServerOptions, Survey, report};

use crate::placed::{Place, check_checksums, no_checksum_failed};

const TEST: &str = "tables_that_the_store_exports_are_a_servers_own";
const TABLES: usize = 24;

#[test]
fn tables_that_the_store_exports_are_a_servers_own() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let mut server = Server::start(installation, &ServerOptions::new())?;
        let directory = tempfile::tempdir()?;
        let options = StoreOptions::new().buffer_bytes(8 << 20);
        let store = Store::open(directory.path(), options)?;
        let mut made = Vec::new();
        {
            let mut client = server.client()?;
            client.batch_execute("CREATE EXTENSION amcheck")?;
            let has_lz4 = server.has_lz4(&mut client)?;
            for number in 0..TABLES {
                let table = Made::new(&store, number, has_lz4)?;
                let sql = table.schema.to_sql(&table.name).context("types that SQL has")?;
                client.batch_execute(&sql)?;
                made.push((Place::find(&server, &mut client, &table.name)?, table));
            }
        }
        server.stop()?;
        let (mut rows, mut chunks) = (0, 0);
        for (place, table) in &made {
            let release = server.major();
            let put = place.put(&store, &table.table, release).with_context(|| table.about())?;
            ensure!(put.0 == table.rows.len() as u64, "{}: {} rows", table.about(), put.0);
            rows += put.0;
            chunks += put.1;
        }
        check_checksums(&server, "pg_checksums_finds_exported_pages_right")?;
        server.start_again()?;
        let mut client = server.client()?;
        for (place, table) in &made {
            place.is_sound(&mut client).with_context(|| table.about())?;
            table.has_its_rows(&mut client).with_context(|| table.about())?;
            place.goes_on(&mut client, "id").with_context(|| table.about())?;
        }
        no_checksum_failed(&mut client)?;
        drop(client);
        server.stop()?;
        check_checksums(&server, "pg_checksums_finds_exported_pages_right")?;
        report::count(
            TEST,
            format_args!("{}: {TABLES} tables, {rows} rows, {chunks} chunks", server.major()),
        );
        ensure!(rows > 1000 && chunks > 1000, "{rows} rows and {chunks} chunks prove too little");
        Ok(())
    })
}

/// A table of the store, and what is in it.
struct Made {
    name: String,
    schema: Schema,
    table: Table,
    rows: BTreeMap<i32, Vec<Cell>>,
}

/// A value, in a form that both sides have.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Null,
    Bool(bool),
    Bytes(Vec<u8>),
    Float4(f32),
    Float8(f64),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Json(String),
    Text(String),
    Timestamptz(i64),
    Uuid([u8; 16]),
}

impl Made {
    fn new(store: &Store, number: usize, has_lz4: bool) -> Result<Self> {
        let mut rng = Rng::new(1000 + number as u64);
        let name = format!("exported_{number}");
        let schema = schema(&mut rng, number, has_lz4);
        let table = store.create_table(&name, schema.clone())?;
        let mut made = Self { name, schema, table, rows: BTreeMap::new() };
        made.fill(store, &mut rng)?;
        Ok(made)
    }

    fn about(&self) -> String {
        let columns = self.schema.columns().iter().map(|column| {
            format!(
                "{} {:?} {:?}",
                column.column_type().name(),
                column.storage(),
                column.compression()
            )
        });
        format!("{}: {}", self.name, columns.collect::<Vec<_>>().join(", "))
    }

    /// Inserts, updates, deletes and undoes, so that not all that is in the files is to be exported.
    fn fill(&mut self, store: &Store, rng: &mut Rng) -> Result<()> {
        let mut tids: BTreeMap<i32, ItemPointer> = BTreeMap::new();
        let mut next = 0;
        for _ in 0..6 {
            let undone = rng.chance(25);
            let before = (self.rows.clone(), tids.clone());
            let mut transaction = store.begin(Isolation::ReadCommitted);
            for _ in 0..rng.between(5, 25) {
                let row = self.row(rng, next);
                let tid = self.insert(&mut transaction, &row)?;
                tids.insert(next, tid);
                self.rows.insert(next, row);
                next += 1;
            }
            for id in tids.keys().copied().collect::<Vec<_>>() {
                match rng.below(10) {
                    0 => {
                        ensure!(transaction.delete(&self.table, tids[&id])?, "row {id} is there");
                        tids.remove(&id);
                        self.rows.remove(&id);
                    }
                    1 | 2 => {
                        let column = rng.below(self.schema.columns().len() - 1) + 1;
                        let cell = self.cell(rng, column);
                        let change = [(column, cell.datum())];
                        let tid = transaction.update(&self.table, tids[&id], &change)?;
                        tids.insert(id, tid.context("a row")?);
                        if let Some(row) = self.rows.get_mut(&id) {
                            row[column] = cell.clone();
                        }
                    }
                    _ => {}
                }
            }
            if undone {
                transaction.abort();
                (self.rows, tids) = before;
            } else {
                transaction.commit()?;
            }
        }
        Ok(())
    }

    fn insert(&self, transaction: &mut Transaction, row: &[Cell]) -> Result<ItemPointer> {
        let row: Vec<_> = row.iter().map(Cell::datum).collect();
        Ok(transaction.insert(&self.table, &row)?)
    }

    fn row(&self, rng: &mut Rng, id: i32) -> Vec<Cell> {
        let rest = (1..self.schema.columns().len()).map(|index| self.cell(rng, index));
        core::iter::once(Cell::Int4(id)).chain(rest).collect()
    }

    fn cell(&self, rng: &mut Rng, index: usize) -> Cell {
        let column = &self.schema.columns()[index];
        if !column.is_not_null() && rng.chance(15) {
            return Cell::Null;
        }
        let len = match rng.below(10) {
            _ if column.storage() == Storage::Plain => rng.below(150),
            0..4 => rng.below(140),
            4..7 => rng.between(100, 2100),
            7..9 => rng.between(1900, 9000),
            _ => rng.between(9000, 60_000),
        };
        let whole = i32::from_le_bytes(rng.bytes(4).try_into().unwrap_or_default());
        match column.column_type() {
            ColumnType::Bool => Cell::Bool(rng.chance(50)),
            ColumnType::Int2 => Cell::Int2(i16::try_from(whole >> 16).unwrap_or_default()),
            ColumnType::Int8 => Cell::Int8(i64::from(whole) << 20),
            ColumnType::Float4 => Cell::Float4(whole as f32 / 8.0),
            ColumnType::Float8 => Cell::Float8(f64::from(whole) / 64.0),
            ColumnType::Timestamptz => Cell::Timestamptz(i64::from(whole) * 1_000_003),
            ColumnType::Uuid => Cell::Uuid(rng.bytes(16).try_into().unwrap_or_default()),
            ColumnType::Bytea => Cell::Bytes(rng.pick(&Corpus::ALL).bytes(rng, len)),
            ColumnType::Json => Cell::Json(format!("\"{}\"", "x".repeat(len))),
            ColumnType::Text | ColumnType::Varchar => {
                Cell::Text(rng.pick(&Corpus::TEXT).text(rng, len).replace('\0', " "))
            }
            _ => Cell::Int4(whole),
        }
    }

    /// The server shows every row as it was put in.
    fn has_its_rows(&self, client: &mut Client) -> Result<()> {
        let columns: Vec<_> = self.schema.columns().iter().map(selected).collect();
        let sql = format!("SELECT {} FROM {} ORDER BY id", columns.join(", "), self.name);
        let rows = client.query(&sql, &[])?;
        ensure!(rows.len() == self.rows.len(), "{} rows of {}", rows.len(), self.rows.len());
        for (found, (id, expected)) in rows.iter().zip(&self.rows) {
            for (index, (column, expected)) in
                self.schema.columns().iter().zip(expected).enumerate()
            {
                let found = Cell::of(column.column_type(), found, index)?;
                ensure!(
                    found == *expected,
                    "row {id} column {index}: {found:.100?}, {expected:.100?}"
                );
            }
        }
        Ok(())
    }
}

/// Columns: an id, then some of each kind, as the number of the table has it.
fn schema(rng: &mut Rng, number: usize, has_lz4: bool) -> Schema {
    const TYPES: [ColumnType; 12] = [
        ColumnType::Text,
        ColumnType::Bytea,
        ColumnType::Int8,
        ColumnType::Varchar,
        ColumnType::Bool,
        ColumnType::Uuid,
        ColumnType::Json,
        ColumnType::Int2,
        ColumnType::Timestamptz,
        ColumnType::Float8,
        ColumnType::Float4,
        ColumnType::Int4,
    ];
    const STORAGES: [Storage; 4] =
        [Storage::Extended, Storage::External, Storage::Main, Storage::Plain];
    let mut columns = vec![Column::new("id", ColumnType::Int4).not_null()];
    for serial in 0..=number % 9 {
        let column_type = TYPES[(number + serial) % TYPES.len()];
        let mut column = Column::new(format!("c{serial}"), column_type);
        if column_type.is_varlena() {
            column = column.with_storage(STORAGES[(number / 2 + serial) % STORAGES.len()]);
            if has_lz4 && rng.chance(40) {
                column = column.with_compression(CompressionMethod::Lz4);
            }
        }
        columns.push(if rng.chance(20) { column.not_null() } else { column });
    }
    let schema = Schema::new(columns);
    match number % 4 {
        1 => schema.with_tuple_target(128),
        2 => schema.with_tuple_target(4000),
        _ => schema,
    }
}

/// A column as it is asked for.
fn selected(column: &Column) -> String {
    let name = column.name();
    match column.column_type() {
        ColumnType::Timestamptz => format!("(extract(epoch from {name}) * 1000000)::int8"),
        ColumnType::Uuid => format!("uuid_send({name})"),
        ColumnType::Json => format!("{name}::text"),
        _ => name.to_owned(),
    }
}

/// From 1970 to 2000, in microseconds.
const EPOCH: i64 = 946_684_800_000_000;

impl Cell {
    fn datum(&self) -> Datum<'_> {
        match self {
            Self::Null => Datum::Null,
            Self::Bool(value) => (*value).into(),
            Self::Bytes(value) => value.into(),
            Self::Float4(value) => (*value).into(),
            Self::Float8(value) => (*value).into(),
            Self::Int2(value) => (*value).into(),
            Self::Int4(value) => (*value).into(),
            Self::Int8(value) => (*value).into(),
            Self::Json(value) | Self::Text(value) => value.into(),
            Self::Timestamptz(value) => Datum::Timestamptz(*value),
            Self::Uuid(value) => (*value).into(),
        }
    }

    fn of(column_type: ColumnType, row: &Row, index: usize) -> Result<Self> {
        let cell = match column_type {
            ColumnType::Bool => row.try_get::<_, Option<bool>>(index)?.map(Self::Bool),
            ColumnType::Int2 => row.try_get::<_, Option<i16>>(index)?.map(Self::Int2),
            ColumnType::Int4 => row.try_get::<_, Option<i32>>(index)?.map(Self::Int4),
            ColumnType::Int8 => row.try_get::<_, Option<i64>>(index)?.map(Self::Int8),
            ColumnType::Float4 => row.try_get::<_, Option<f32>>(index)?.map(Self::Float4),
            ColumnType::Float8 => row.try_get::<_, Option<f64>>(index)?.map(Self::Float8),
            ColumnType::Timestamptz => {
                row.try_get::<_, Option<i64>>(index)?.map(|unix| Self::Timestamptz(unix - EPOCH))
            }
            ColumnType::Uuid => {
                let bytes: Option<Vec<u8>> = row.try_get(index)?;
                bytes.map(|bytes| Self::Uuid(bytes.try_into().unwrap_or_default()))
            }
            ColumnType::Bytea => row.try_get::<_, Option<Vec<u8>>>(index)?.map(Self::Bytes),
            ColumnType::Json => row.try_get::<_, Option<String>>(index)?.map(Self::Json),
            _ => row.try_get::<_, Option<String>>(index)?.map(Self::Text),
        };
        Ok(cell.unwrap_or(Self::Null))
    }
}
