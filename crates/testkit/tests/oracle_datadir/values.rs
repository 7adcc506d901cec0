//! Every text of the tables that the scenario made, and the rules of the system's views, which are long:
//! read and detoasted, it is what SQL gives.
use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Oid};
use pgtoast_datadir::{Database, ToastChunks};
use pgtoast_page::{TupleDescriptor, Value};
use pgtoast_testkit::inspect;
use pgtoast_testkit::postgres::Client;
use pgtoast_toast::Detoaster;
use pgtoast_varlena::Varlena;

use crate::catalogs::Counts;

/// The values of one column, by the place of their rows.
pub(crate) struct ColumnValues {
    relation: Oid,
    column: String,
    values: BTreeMap<ItemPointer, Option<Vec<u8>>>,
}

pub(crate) fn ask(client: &mut Client) -> Result<Vec<ColumnValues>> {
    let columns = client.query(
        "SELECT attrelid, attrelid::regclass::text, attname::text \
         FROM pg_attribute JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace \
         WHERE attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'm') \
             AND (nspname IN ('public', 'app') AND atttypid = 'text'::regtype \
                 OR attrelid = 'pg_rewrite'::regclass AND attname = 'ev_action')",
        &[],
    )?;
    let mut all = Vec::new();
    for row in columns {
        let (relation, name, column): (u32, &str, String) = (row.get(0), row.get(1), row.get(2));
        let sql = format!("SELECT ctid::text, convert_to(\"{column}\"::text, 'UTF8') FROM {name}");
        let mut values = BTreeMap::new();
        for row in client.query(&sql, &[])? {
            let (block, item) = inspect::tid(row.get(0))?;
            let tid = ItemPointer::new(BlockNumber::new(block), OffsetNumber::new(item));
            values.insert(tid, row.get(1));
        }
        all.push(ColumnValues { relation: Oid::new(relation), column, values });
    }
    Ok(all)
}

pub(crate) fn compare(
    database: &Database,
    expected: &[ColumnValues],
    counts: &mut Counts,
) -> Result<()> {
    for column in expected {
        let relation = database.relation(column.relation).context("no relation")?;
        // With memory for everything, and with so little that long tables take several passes.
        for memory_bytes in [64 << 20, 0] {
            let mut detoaster = database.detoaster(relation, memory_bytes)?;
            compare_column(database, column, &mut detoaster, counts)
                .with_context(|| format!("{}.{}", relation.name, column.column))?;
        }
    }
    Ok(())
}

fn compare_column(
    database: &Database,
    expected: &ColumnValues,
    detoaster: &mut Detoaster<ToastChunks>,
    counts: &mut Counts,
) -> Result<()> {
    let relation = database.relation(expected.relation).context("no relation")?;
    let table = database.table(relation)?;
    let number = table.columns().named(&expected.column).context("no column")?.number;
    let attributes = table.columns().attributes();
    let descriptor = TupleDescriptor::new(&attributes)?;
    let mut seen = 0;
    let mut rows = table.rows();
    while let Some(row) = rows.next() {
        let row = row?;
        let wanted =
            expected.values.get(&row.tid).with_context(|| format!("no row {}", row.tid))?;
        let found = row.deform(descriptor)?.nth(usize::from(number - 1)).context("no value")??;
        let value = match found.value {
            Value::Null | Value::Missing(None) => None,
            Value::Missing(Some(bytes)) => {
                counts.missing += 1;
                Some(Varlena::parse(bytes, 0)?.0)
            }
            Value::Stored(datum) => Some(datum.varlena()?),
        };
        counts.out_of_line += u64::from(matches!(value, Some(Varlena::External(_))));
        let value = value.map(|varlena| detoaster.detoast(&varlena)).transpose()?;
        let value = value.map(|value| value.into_vec());
        ensure!(value == *wanted, "{} differs", row.tid);
        counts.values += 1;
        seen += 1;
    }
    ensure!(seen == expected.values.len(), "{seen} rows");
    Ok(())
}
