//! What SQL says of one database, and the same from its files.
use core::fmt;

use anyhow::{Context as _, Result, ensure};
use pgtoast_datadir::{Column, Database, Fork, Relation};
use pgtoast_testkit::postgres::Client;
use pgtoast_varlena::CompressionMethod;

use crate::values::ColumnValues;

/// One line of text for each thing.
pub(crate) struct Catalogs {
    relations: Vec<String>,
    columns: Vec<String>,
    types: Vec<String>,
    indexes: Vec<String>,
    rows: Vec<String>,
    files: Vec<String>,
    values: Vec<ColumnValues>,
}

/// How much was compared.
#[derive(Default)]
pub(crate) struct Counts {
    databases: usize,
    relations: usize,
    columns: usize,
    rows: u64,
    pub(crate) values: u64,
    pub(crate) out_of_line: u64,
    pub(crate) missing: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { databases, relations, columns, rows, values, out_of_line, missing } = self;
        write!(
            f,
            "{databases} databases, {relations} relations, {columns} columns, {rows} rows, {values} values \
             ({out_of_line} out of line, {missing} missing)"
        )
    }
}

impl Catalogs {
    pub(crate) fn ask(client: &mut Client) -> Result<Self> {
        let relations = lines(
            client,
            "SELECT concat_ws(' ', c.oid, nspname, quote_literal(relname), relkind, relpersistence, relam, \
                 CASE WHEN relkind IN ('r', 'i', 'S', 't', 'm') THEN CASE reltablespace WHEN 0 THEN dattablespace \
                     ELSE reltablespace END ELSE 0 END, \
                 coalesce(pg_relation_filepath(c.oid), '-'), reltoastrelid, relnatts, relisshared, relpages, \
                 reltuples::text, relfrozenxid, relminmxid, coalesce(reloptions::text, '{}')) \
             FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace, pg_database \
             WHERE datname = current_database()",
        )?;
        let columns = lines(
            client,
            "SELECT concat_ws(' ', attrelid, attnum, quote_literal(attname), atttypid, atttypmod, attlen, attbyval, \
                 attalign, attstorage, coalesce(nullif(attcompression, ''), '-'), attnotnull, attisdropped, \
                 atthasmissing) FROM pg_attribute WHERE attnum > 0",
        )?;
        let types = lines(
            client,
            "SELECT concat_ws(' ', oid, quote_literal(typname), typnamespace, typtype, typcategory, typelem, \
                 typbasetype) FROM pg_type",
        )?;
        let indexes = lines(
            client,
            "SELECT concat_ws(' ', indexrelid, indrelid, indisunique, indisprimary, indisvalid) FROM pg_index",
        )?;
        let heaps = lines(
            client,
            "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'm', 't')",
        )?;
        let mut rows = Vec::new();
        for heap in heaps {
            let sql = format!(
                "SELECT concat_ws(' ', '{0}'::regclass::oid, count(*)) FROM {0}",
                heap.replace('\'', "''")
            );
            rows.extend(lines(client, &sql)?);
        }
        rows.sort();
        let files = lines(
            client,
            "SELECT concat_ws(' ', c.oid, pg_relation_size(c.oid), pg_relation_size(c.oid, 'fsm'), \
                 pg_relation_size(c.oid, 'vm'), pg_relation_size(c.oid, 'init')) \
             FROM pg_class c WHERE relkind IN ('r', 'i', 'S', 't', 'm')",
        )?;
        let values = crate::values::ask(client)?;
        Ok(Self { relations, columns, types, indexes, rows, files, values })
    }

    pub(crate) fn compare(&self, database: &Database, counts: &mut Counts) -> Result<()> {
        let relation = |one: &Relation| relation_line(database, one);
        let mut relations: Vec<_> = database.relations().map(relation).collect();
        same("relations", &mut relations, &self.relations)?;

        let mut columns = Vec::new();
        for relation in database.relations() {
            let theirs = database.columns(relation)?;
            columns.extend(theirs.iter().map(|column| column_line(relation, column)));
        }
        same("columns", &mut columns, &self.columns)?;

        let mut types = Vec::new();
        for line in &self.types {
            let oid = line.split(' ').next().context("an id")?.parse()?;
            let found = database.type_of(pgtoast_base::Oid::new(oid)).context("no such type")?;
            let (kind, category) = (char::from(found.kind), char::from(found.category));
            let (name, schema, element, base) =
                (literal(&found.name), found.schema, found.element, found.base);
            types.push(format!("{oid} {name} {schema} {kind} {category} {element} {base}"));
        }
        same("types", &mut types, &self.types)?;

        let index = |one: &pgtoast_datadir::Index| {
            let [unique, primary, valid] =
                [one.is_unique, one.is_primary, one.is_valid].map(letter);
            format!("{} {} {unique} {primary} {valid}", one.oid, one.table)
        };
        let mut indexes: Vec<_> = database.indexes().iter().map(index).collect();
        same("indexes", &mut indexes, &self.indexes)?;
        self.compare_rows(database, counts)?;

        let mut files = Vec::new();
        for relation in database.relations().filter(|one| one.kind.has_storage()) {
            let mut line = relation.oid.to_string();
            for fork in Fork::ALL {
                let fork = database.fork(relation, fork)?;
                let bytes = fork.map_or(0, |fork| u64::from(fork.block_count()) * 8192);
                line.push_str(&format!(" {bytes}"));
            }
            files.push(line);
        }
        same("sizes of files", &mut files, &self.files)?;
        crate::values::compare(database, &self.values, counts)?;
        counts.databases += 1;
        counts.relations += relations.len();
        counts.columns += columns.len();
        Ok(())
    }

    fn compare_rows(&self, database: &Database, counts: &mut Counts) -> Result<()> {
        let mut lines = Vec::new();
        for relation in database.relations().filter(|one| one.is_heap()) {
            let table = database.table(relation)?;
            let mut count = 0_u64;
            // In pieces, as threads would read it.
            for range in table.fork().split(3) {
                let mut rows = table.rows_of(range);
                while let Some(row) = rows.next() {
                    row.with_context(|| relation.name.clone())?;
                    count += 1;
                }
            }
            counts.rows += count;
            lines.push(format!("{} {count}", relation.oid));
        }
        same("rows", &mut lines, &self.rows)
    }
}

fn relation_line(database: &Database, one: &Relation) -> String {
    let path = match database.fork(one, Fork::Main) {
        Ok(Some(fork)) => fork.file().to_string(),
        _ => "-".to_owned(),
    };
    let persistence = match one.persistence {
        pgtoast_datadir::Persistence::Permanent => 'p',
        pgtoast_datadir::Persistence::Unlogged => 'u',
        pgtoast_datadir::Persistence::Temporary => 't',
    };
    [
        one.oid.to_string(),
        database.schema_name(one.schema).unwrap_or("?").to_owned(),
        literal(&one.name),
        char::from(one.kind.letter()).to_string(),
        persistence.to_string(),
        one.access_method.to_string(),
        one.tablespace.to_string(),
        path,
        one.toast_relation.unwrap_or_default().to_string(),
        one.column_count.to_string(),
        letter(one.is_shared).to_owned(),
        one.estimated_blocks.to_string(),
        one.estimated_rows.to_string(),
        one.frozen_xid.to_string(),
        one.minimum_multi.to_string(),
        format!("{{{}}}", one.options.join(",")),
    ]
    .join(" ")
}

fn column_line(relation: &Relation, column: &Column) -> String {
    let compression = match column.compression {
        Some(CompressionMethod::Pglz) => 'p',
        Some(CompressionMethod::Lz4) => 'l',
        None => '-',
    };
    [
        relation.oid.to_string(),
        column.number.to_string(),
        literal(&column.name),
        column.type_oid.to_string(),
        column.type_modifier.to_string(),
        column.len.attlen().to_string(),
        letter(column.by_value).to_owned(),
        char::from(column.alignment.typalign()).to_string(),
        char::from(column.storage.attstorage()).to_string(),
        compression.to_string(),
        letter(column.is_not_null).to_owned(),
        letter(column.is_dropped).to_owned(),
        letter(column.missing.is_some()).to_owned(),
    ]
    .join(" ")
}

fn letter(yes: bool) -> &'static str {
    if yes { "t" } else { "f" }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(crate) fn lines(client: &mut Client, sql: &str) -> Result<Vec<String>> {
    let rows = client.query(sql, &[]).with_context(|| sql.to_owned())?;
    let mut lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    lines.sort();
    Ok(lines)
}

/// Whether the two lists hold the same lines, in any order; if not, what only one of them has.
pub(crate) fn same(what: &str, ours: &mut [String], theirs: &[String]) -> Result<()> {
    ours.sort();
    let only = |these: &[String], those: &[String]| {
        let lines = these.iter().filter(|line| those.binary_search(line).is_err());
        lines.take(5).cloned().collect::<Vec<_>>().join("\n    ")
    };
    ensure!(
        ours == theirs,
        "{what} differ: {} and {}\n  ours alone:\n    {}\n  theirs alone:\n    {}",
        ours.len(),
        theirs.len(),
        only(ours, theirs),
        only(theirs, ours)
    );
    Ok(())
}
