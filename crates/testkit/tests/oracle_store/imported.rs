//! Tables that a server made, with columns of 56 types, some dropped, some added later, go into the store and
//! come out as files of another table of the same shape: that one then has the same rows. So each value was
//! read, toasted anew by the store's rules and written, and the server sees no difference.
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::Alignment;
use pgtoast_datadir::DataDirectory;
use pgtoast_page::{AttributeDescriptor, AttributeLen};
use pgtoast_store::{Column, ColumnType, ImportSource, Isolation, Schema, Store, StoreOptions};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{
    Server, ServerOptions, Survey, TableGenerator, TableOptions, inspect, report,
};

use crate::placed::{Place, Rows, check_checksums, no_checksum_failed};

const TEST: &str = "tables_of_a_server_go_through_the_store_and_are_the_same";
const TABLES: usize = 30;

#[test]
fn tables_of_a_server_go_through_the_store_and_are_the_same() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let mut server = Server::start(installation, &ServerOptions::new())?;
        let tables = make_tables(&server)?;
        server.stop()?;
        let directory = tempfile::tempdir()?;
        let options = StoreOptions::new().buffer_bytes(8 << 20);
        let store = Store::open(directory.path(), options)?;
        let (mut rows, mut chunks) = (0, 0);
        for table in &tables {
            let put = table.through(&server, &store).with_context(|| table.name.clone())?;
            rows += put.0;
            chunks += put.1;
        }
        check_checksums(&server, "pg_checksums_finds_reexported_pages_right")?;
        server.start_again()?;
        let mut client = server.client()?;
        for table in &tables {
            let copy = &table.copy;
            copy.is_sound(&mut client).with_context(|| table.name.clone())?;
            let found = Rows::read(&mut client, &copy.name)?;
            ensure!(found == table.rows, "{}: {found:?}, expected {:?}", table.name, table.rows);
            if let Some(column) = &table.column {
                copy.goes_on(&mut client, column).with_context(|| table.name.clone())?;
            }
        }
        no_checksum_failed(&mut client)?;
        report::count(
            TEST,
            format_args!("{}: {TABLES} tables, {rows} rows, {chunks} chunks", server.major()),
        );
        ensure!(rows > 1000 && chunks > 300, "{rows} rows and {chunks} chunks prove too little");
        Ok(())
    })
}

struct Original {
    name: String,
    heap: PathBuf,
    toast: Option<PathBuf>,
    rows: Rows,
    copy: Place,
    /// A column that may be set.
    column: Option<String>,
}

fn make_tables(server: &Server) -> Result<Vec<Original>> {
    let mut client = server.client()?;
    client.batch_execute("CREATE EXTENSION amcheck")?;
    client.batch_execute(TableGenerator::PRELUDE)?;
    let options = TableOptions { lz4: server.has_lz4(&mut client)? };
    let mut generator = TableGenerator::new(4711, options);
    let mut tables = Vec::new();
    for _ in 0..TABLES {
        let table = generator.next_table();
        for statement in &table.statements {
            let start = statement.get(..200).unwrap_or(statement);
            client.batch_execute(statement).with_context(|| start.to_owned())?;
        }
        tables.push(original(server, &mut client, table.name)?);
    }
    Ok(tables)
}

fn original(server: &Server, client: &mut Client, name: String) -> Result<Original> {
    let copy = format!("{name}_copy");
    client.batch_execute(&format!(
        "CREATE TABLE {copy} (LIKE {name} INCLUDING STORAGE INCLUDING COMPRESSION)"
    ))?;
    let toast = inspect::toast_relation(client, &name)?;
    let sql = "SELECT quote_ident(attname::text) FROM pg_attribute \
               WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped LIMIT 1";
    Ok(Original {
        heap: server.relation_path(client, &name)?,
        toast: toast.map(|toast| server.relation_path(client, &toast)).transpose()?,
        rows: Rows::read(client, &name)?,
        copy: Place::find(server, client, &copy)?,
        column: client.query_opt(sql, &[&name])?.map(|row| row.get(0)),
        name,
    })
}

impl Original {
    /// Into the store, and out to the files of the copy.
    fn through(&self, server: &Server, store: &Store) -> Result<(u64, u64)> {
        let directory = DataDirectory::open(server.data_directory())?;
        let database = directory.database("postgres")?.context("the database")?;
        let name = format!("public.{}", self.name);
        let relation = database.relation_named(&name).context("the table")?;
        let table = database.table(relation)?;
        let attributes = table.columns().attributes();
        let transactions = table.transactions().reader();
        let mut source =
            ImportSource::new(&self.heap, &transactions).checksums(true).columns(&attributes);
        if let Some(toast) = &self.toast {
            source = source.toast(toast);
        }
        let schema = schema(&attributes)?;
        let sound = source.verify(&schema, |finding| panic!("{finding}"))?;
        let import = store.import(&self.name, schema, &source)?;
        ensure!(import.left_out == 0 && import.rows == sound, "{import:?}, {sound} sound");
        ensure!(import.rows == u64::try_from(self.rows.0)?, "{} rows", import.rows);
        let mut transaction = store.begin(Isolation::ReadCommitted);
        let mut scan = transaction.scan(&import.table)?;
        let mut count = 0;
        while let Some(row) = scan.next()? {
            for field in row.fields()? {
                if let Some(value) = field?.as_value() {
                    ensure!(value.to_vec()?.len() == value.len(), "a value of another length");
                }
            }
            count += 1;
        }
        ensure!(count == import.rows, "{count} rows in the store");
        self.copy.put(store, &import.table, server.major())
    }
}

/// Columns that the store need not know more of than how they are stored.
fn schema(attributes: &[AttributeDescriptor<'_>]) -> Result<Schema> {
    let mut columns = Vec::new();
    for (number, attribute) in (1..).zip(attributes).filter(|(_, one)| !one.is_dropped) {
        let alignment: Alignment = attribute.alignment;
        let column_type = match attribute.len {
            AttributeLen::Fixed(len) => {
                ColumnType::Fixed { len, alignment, by_value: attribute.by_value }
            }
            AttributeLen::Varlena => ColumnType::Varlena { alignment },
            AttributeLen::CString => anyhow::bail!("a column of C strings"),
        };
        let column = Column::new(format!("c{number}"), column_type);
        columns.push(column.with_storage(attribute.storage));
    }
    Ok(Schema::new(columns))
}
