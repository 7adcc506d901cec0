//! What the command `pgtoast` says of a stopped server's files is what SQL said before: of each value its sizes, its
//! compression and its id, of columns their sums, of tables what pgstattuple says, of free space maps what
//! pg_freespacemap does.
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use anyhow::{Context as _, Result, ensure};
use pgtoast::datadir::{DataDirectory, Database};
use pgtoast::report::Budget;
use pgtoast::report::columns::ColumnsReport;
use pgtoast::report::free_space::{BlockSpace, compare};
use pgtoast::report::tables::{HeapReport, TableReport};
use pgtoast::report::values::{Form, Selection, ValueRow, each};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Server, ServerOptions, Survey, report};

const TEST: &str = "reports_say_what_sql_did";

/// The columns of variable length, and whether SQL's `octet_length` takes their type.
const COLUMNS: [(&str, bool); 6] = [
    ("plain", true),
    ("packed", true),
    ("outside", true),
    ("mixed", true),
    ("document", false),
    ("younger", true),
];

#[test]
fn reports_say_what_sql_did() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let options = ServerOptions::new().set("max_prepared_transactions", "2");
        let mut server = Server::start(installation, &options)?;
        let mut client = server.client()?;
        make(&server, &mut client)?;
        let expected = Expected::ask(&server, &mut client)?;
        drop(client);
        server.stop()?;

        let directory = DataDirectory::open(server.data_directory())?;
        let database = directory.database("postgres")?.context("no database")?;
        let counts = expected.compare(&database)?;
        report::count(TEST, format_args!("{}: {counts}", server.major()));
        Ok(())
    })
}

/// Values of every form and size, then churn of every kind.
fn make(server: &Server, client: &mut Client) -> Result<()> {
    client.batch_execute(
        "CREATE TABLE docs (id int4 PRIMARY KEY, plain text, gone text, packed text, outside bytea, mixed text,
            document jsonb) WITH (fillfactor = 80);
         ALTER TABLE docs ALTER outside SET STORAGE EXTERNAL, ALTER mixed SET STORAGE MAIN;
         ALTER TABLE docs DROP COLUMN gone;",
    )?;
    if server.has_lz4(client)? {
        client.batch_execute("ALTER TABLE docs ALTER document SET COMPRESSION lz4")?;
    }
    let insert = |client: &mut Client, from: u32, to: u32| {
        client.batch_execute(&format!(
            "INSERT INTO docs SELECT g, repeat('p', g % 300), repeat('packed ' || g, g % 5000),
                decode(repeat(md5(g::text), 1 + (g * 37) % 600), 'hex'),
                CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE
                    (SELECT string_agg(md5((g * i)::text), '') FROM generate_series(1, g % 97) i) END,
                CASE WHEN g % 3 = 0 THEN (SELECT jsonb_agg(jsonb_build_object('k', i, md5(i::text), g))
                    FROM generate_series(1, g % 200) i) END
             FROM generate_series({from}, {to}) g"
        ))
    };
    insert(client, 1, 900)?;
    client.batch_execute(
        "ALTER TABLE docs ADD younger text DEFAULT 'a default that rows do not hold'",
    )?;
    insert(client, 901, 1200)?;
    client.batch_execute(
        "UPDATE docs SET plain = plain || 'x' WHERE id % 7 = 0;
         UPDATE docs SET packed = packed || 'y' WHERE id % 11 = 0;
         DELETE FROM docs WHERE id % 13 = 0",
    )?;
    client.batch_execute("VACUUM docs")?;
    // What follows is there when the server stops: not vacuumed, undone, prepared.
    client.batch_execute("DELETE FROM docs WHERE id % 17 = 0")?;
    client.batch_execute("BEGIN; DELETE FROM docs WHERE id % 19 = 0; ROLLBACK")?;
    let undone =
        "BEGIN; SAVEPOINT a; UPDATE docs SET outside = outside || 'z' WHERE id % 23 = 0; ROLLBACK";
    client.batch_execute(undone)?;
    client.batch_execute("BEGIN; DELETE FROM docs WHERE id = 3; PREPARE TRANSACTION 'waits'")?;
    client.batch_execute("CREATE TABLE empty (id int4, note text); CREATE TABLE few (id int4)")?;
    client.batch_execute("INSERT INTO few VALUES (1)")?;
    Ok(())
}

/// What SQL says of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SqlValue {
    raw_bytes: Option<i64>,
    stored_bytes: i64,
    method: Option<String>,
    /// From release 17 on.
    value_id: Option<i64>,
}

/// By pgstattuple.
#[derive(Clone, Debug)]
struct SqlTable {
    bytes: i64,
    live: (i64, i64),
    dead: (i64, i64),
    free_bytes: i64,
}

struct Expected {
    knows_ids: bool,
    rows: i64,
    values: BTreeMap<(String, &'static str), SqlValue>,
    /// Values, chunks and bytes of the TOAST relation.
    toast: (i64, i64, i64),
    toast_name: String,
    /// The bytes in the chunks of each value: before release 17 nothing else in SQL says which value is whose.
    chunk_bytes: BTreeMap<u64, u64>,
    tables: BTreeMap<String, SqlTable>,
    free_space: BTreeMap<String, Vec<i64>>,
}

const TABLES: [&str; 3] = ["docs", "empty", "few"];

impl Expected {
    fn ask(server: &Server, client: &mut Client) -> Result<Self> {
        let knows_ids = server.major() >= 17;
        let mut values = BTreeMap::new();
        for (column, has_length) in COLUMNS {
            let raw = if has_length {
                format!("octet_length({column})::int8")
            } else {
                "NULL::int8".into()
            };
            let id = if knows_ids {
                format!("pg_column_toast_chunk_id({column})::int8")
            } else {
                "NULL::int8".into()
            };
            let sql = format!(
                "SELECT ctid::text, {raw}, pg_column_size({column})::int8, pg_column_compression({column}), {id}
                 FROM docs WHERE {column} IS NOT NULL"
            );
            for row in client.query(&sql, &[])? {
                let value = SqlValue {
                    raw_bytes: row.get(1),
                    stored_bytes: row.get(2),
                    method: row.get(3),
                    value_id: row.get(4),
                };
                values.insert((row.get(0), column), value);
            }
        }
        let toast_name: String = client
            .query_one(
                "SELECT reltoastrelid::regclass::text FROM pg_class WHERE relname = 'docs'",
                &[],
            )?
            .get(0);
        let sql = format!(
            "SELECT count(DISTINCT chunk_id), count(*), coalesce(sum(length(chunk_data)), 0)::int8 FROM {toast_name}"
        );
        let toast = client.query_one(&sql, &[])?;
        let sql = format!(
            "SELECT chunk_id::int8, sum(length(chunk_data))::int8 FROM {toast_name} GROUP BY chunk_id"
        );
        let mut chunk_bytes = BTreeMap::new();
        for row in client.query(&sql, &[])? {
            let (id, bytes): (i64, i64) = (row.get(0), row.get(1));
            chunk_bytes.insert(u64::try_from(id)?, u64::try_from(bytes)?);
        }
        let rows = client.query_one("SELECT count(*) FROM docs", &[])?.get(0);
        // Last, as queries may prune pages that they come by.
        let (mut tables, mut free_space) = (BTreeMap::new(), BTreeMap::new());
        let names = TABLES.iter().map(|name| (*name).to_owned()).chain([toast_name.clone()]);
        client.batch_execute("CREATE EXTENSION pgstattuple; CREATE EXTENSION pg_freespacemap")?;
        for name in names {
            let sql = "SELECT table_len, tuple_count, tuple_len, dead_tuple_count, dead_tuple_len, free_space
                FROM pgstattuple($1::text::regclass)";
            let row = client.query_one(sql, &[&name])?;
            tables.insert(
                name.clone(),
                SqlTable {
                    bytes: row.get(0),
                    live: (row.get(1), row.get(2)),
                    dead: (row.get(3), row.get(4)),
                    free_bytes: row.get(5),
                },
            );
            let sql = "SELECT avail::int8 FROM pg_freespace($1::text::regclass) ORDER BY blkno";
            let rows = client.query(sql, &[&name])?;
            free_space.insert(name, rows.iter().map(|row| row.get(0)).collect());
        }
        let toast = (toast.get(0), toast.get(1), toast.get(2));
        Ok(Self { knows_ids, rows, values, toast, toast_name, chunk_bytes, tables, free_space })
    }

    fn compare(&self, database: &Database) -> Result<String> {
        let found = self.values(database)?;
        self.columns(database, &found)?;
        let mut worst: f64 = 0.0;
        for name in TABLES {
            let relation = database.relation_named(name).context(name)?;
            let report = TableReport::of(database, relation, &Budget::new())?;
            ensure!(report.problem_count == 0, "{name}: {:?}", report.problems);
            worst = worst.max(same_table(name, &report.heap, &self.tables[name])?);
            if name == "docs" {
                let toast = report.toast.context("no TOAST relation")?;
                let expected = &self.tables[&self.toast_name];
                worst = worst.max(same_table(&self.toast_name, &toast, expected)?);
            }
        }
        let mut blocks = 0;
        for (name, expected) in &self.free_space {
            let relation = database.relation_named(name).context(name.clone())?;
            let mut recorded = Vec::new();
            let take = &mut |space: BlockSpace| {
                recorded.push(i64::from(space.recorded_bytes));
                ControlFlow::Continue(())
            };
            let report = compare(database, relation, true, &Budget::new(), take)?;
            ensure!(report.problem_count == 0, "{name}: {:?}", report.problems);
            ensure!(recorded == *expected, "{name}: {recorded:?}, by SQL {expected:?}");
            blocks += recorded.len();
        }
        let out = found.values().filter(|one| one.form == Form::OutOfLine).count();
        Ok(format!(
            "{} values ({out} out of line), free bytes off by {:.4} % at most, {blocks} blocks of maps",
            found.len(),
            worst * 100.0
        ))
    }

    fn values(&self, database: &Database) -> Result<BTreeMap<(String, String), ValueRow>> {
        let relation = database.relation_named("docs").context("no table")?;
        let mut found = BTreeMap::new();
        let selection = Selection { inline: true, ..Selection::default() };
        let summary = each(database, relation, selection, &Budget::new(), &mut |value| {
            found.insert((value.tid.clone(), value.column.clone()), value);
            ControlFlow::Continue(())
        })?;
        ensure!(summary.problem_count == 0, "{:?}", summary.problems);
        ensure!(found.len() == self.values.len(), "{} of {}", found.len(), self.values.len());
        for ((tid, column), expected) in &self.values {
            let key = (tid.clone(), (*column).to_owned());
            let value = found.get(&key).with_context(|| format!("{tid} {column}: not found"))?;
            let same = SqlValue {
                raw_bytes: expected.raw_bytes.and(Some(i64::try_from(value.raw_bytes)?)),
                stored_bytes: i64::try_from(value.stored_bytes)?,
                method: value.method.clone(),
                value_id: match value.value_id {
                    Some(id) if self.knows_ids => Some(i64::try_from(id)?),
                    _ => None,
                },
            };
            ensure!(same == *expected, "{tid} {column}: {value:?}, by SQL {expected:?}");
        }
        let by_id = found.values().filter_map(|one| Some((one.value_id?, one.stored_bytes)));
        let by_id: BTreeMap<u64, u64> = by_id.collect();
        ensure!(by_id == self.chunk_bytes, "{by_id:?}, by SQL {:?}", self.chunk_bytes);
        for form in [Form::Short, Form::Long, Form::Compressed, Form::OutOfLine] {
            ensure!(found.values().filter(|one| one.form == form).count() > 10, "{form:?}");
        }
        Ok(found)
    }

    /// Each column's sums are those of SQL, and its forms those of its values.
    fn columns(
        &self,
        database: &Database,
        values: &BTreeMap<(String, String), ValueRow>,
    ) -> Result<()> {
        let relation = database.relation_named("docs").context("no table")?;
        // Memory for a thousand values takes several passes, and changes nothing.
        for memory_bytes in [128 << 20, 0] {
            let budget = Budget { memory_bytes, ..Budget::new() };
            let report = ColumnsReport::of(database, relation, &budget)?;
            ensure!(report.problem_count == 0, "{:?}", report.problems);
            ensure!(i64::try_from(report.rows)? == self.rows, "{} rows", report.rows);
            for (name, has_length) in COLUMNS {
                let column = report.columns.iter().find(|one| one.name == name).context(name)?;
                let of_sql =
                    || self.values.iter().filter(|((_, of), _)| *of == name).map(|(_, one)| one);
                let stored: i64 = of_sql().map(|one| one.stored_bytes).sum();
                let raw: i64 = of_sql().filter_map(|one| one.raw_bytes).sum();
                let total =
                    |spread: Option<pgtoast::report::Spread>| spread.map_or(0, |one| one.total);
                ensure!(i64::try_from(total(column.stored))? == stored, "{name}: {column:?}");
                if has_length {
                    ensure!(i64::try_from(total(column.raw))? == raw, "{name}: {column:?}");
                }
                let of = |form, method: Option<&str>| {
                    let ours = values.values().filter(|one| one.column == name && one.form == form);
                    ours.filter(|one| one.method.as_deref() == method).count() as u64
                };
                let forms = column.forms;
                let counts = [
                    (forms.short, of(Form::Short, None)),
                    (forms.long, of(Form::Long, None)),
                    (forms.compressed_pglz, of(Form::Compressed, Some("pglz"))),
                    (forms.compressed_lz4, of(Form::Compressed, Some("lz4"))),
                    (forms.out_of_line, of(Form::OutOfLine, None)),
                    (forms.out_of_line_pglz, of(Form::OutOfLine, Some("pglz"))),
                    (forms.out_of_line_lz4, of(Form::OutOfLine, Some("lz4"))),
                ];
                ensure!(counts.iter().all(|(ours, values)| ours == values), "{name}: {counts:?}");
                let chunks: u64 = values
                    .values()
                    .filter(|one| one.column == name)
                    .filter_map(|one| one.chunks.map(u64::from))
                    .sum();
                ensure!(total(column.chunks) == chunks, "{name}: chunks");
                let blocks = column.blocks.map_or(0, |one| one.most);
                ensure!(blocks <= column.chunks.map_or(0, |one| one.most), "{name}: blocks");
            }
            let toast = report.toast.context("no TOAST relation")?;
            let found = (toast.values, toast.chunks, toast.bytes);
            let expected =
                (self.toast.0.try_into()?, self.toast.1.try_into()?, self.toast.2.try_into()?);
            ensure!(found == expected, "{found:?}, by SQL {expected:?}");
            ensure!(toast.orphan_values == 0, "{toast:?}");
            // A value takes about a hundred bytes, and a thousand of them are taken in any case.
            ensure!(memory_bytes == 0 || toast.passes == 1, "{toast:?}");
        }
        Ok(())
    }
}

/// How far the free bytes are off, as a share of the table.
fn same_table(name: &str, found: &HeapReport, expected: &SqlTable) -> Result<f64> {
    let number = |number: u64| i64::try_from(number);
    ensure!(number(found.bytes)? == expected.bytes, "{name}: {found:?}, by SQL {expected:?}");
    let live = (number(found.live_tuples)?, number(found.live_bytes)?);
    let dead = (number(found.dead_tuples)?, number(found.dead_bytes)?);
    ensure!(live == expected.live, "{name}: {found:?}, by SQL {expected:?}");
    ensure!(dead == expected.dead, "{name}: {found:?}, by SQL {expected:?}");
    let off = (number(found.free_bytes)? - expected.free_bytes).abs();
    // Some releases leave a line pointer's four bytes to each page, others do not.
    let pages = number(found.blocks)?;
    ensure!(off == 0 || off <= 4 * pages, "{name}: {found:?}, by SQL {expected:?}");
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let share = off as f64 / (expected.bytes.max(1)) as f64;
    ensure!(share < 0.001, "{name}: {found:?}, by SQL {expected:?}");
    Ok(share)
}
