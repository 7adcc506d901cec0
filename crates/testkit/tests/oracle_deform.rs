//! Tables of random columns: our deform gives for every attribute of every tuple the bytes that the
//! server's `tuple_data_split` gives, and knows where a value is missing from an older tuple.
use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockSize, OffsetNumber};
use pgtoast_page::{AttributeDescriptor, HeapTuple, Item, Page, TupleDescriptor, Value};
use pgtoast_testkit::facts::{Attribute, HeapItem};
use pgtoast_testkit::naive::deform;
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{
    Server, ServerOptions, Survey, TableGenerator, TableOptions, inspect, report,
};

const TEST: &str = "deform_finds_the_attributes_that_the_server_finds";
const TABLES: usize = 220;

#[test]
fn deform_finds_the_attributes_that_the_server_finds() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        client.batch_execute("CREATE EXTENSION pageinspect")?;
        client.batch_execute(TableGenerator::PRELUDE)?;
        let options = TableOptions { lz4: server.has_lz4(&mut client)? };
        let mut generator = TableGenerator::new(2024, options);
        let mut names = Vec::new();
        for _ in 0..TABLES {
            let table = generator.next_table();
            for statement in &table.statements {
                let start = statement.get(..200).unwrap_or(statement);
                client.batch_execute(statement).with_context(|| start.to_owned())?;
            }
            names.push(table.name);
        }
        client.batch_execute("CHECKPOINT")?;
        let mut counts = Counts::default();
        for name in &names {
            counts.table(&server, &mut client, name).with_context(|| name.clone())?;
        }
        let Counts { tuples, stored, null, missing, defaults } = counts;
        assert!(tuples >= 20_000, "{tuples} tuples");
        assert!(defaults >= 100, "{defaults} defaults");
        report::count(
            TEST,
            format_args!(
                "{}: {TABLES} tables, {tuples} tuples, {stored} stored attributes equal, {null} nulls \
                 equal, {missing} missing, {defaults} of them equal to SQL's default",
                installation.major()
            ),
        );
        Ok(())
    })
}

#[derive(Default)]
struct Counts {
    tuples: usize,
    stored: usize,
    null: usize,
    missing: usize,
    defaults: usize,
}

/// What the comparison needs to know of a table.
struct Table {
    attributes: Vec<Attribute>,
    /// Texts of the values of columns that older tuples lack.
    missing: Vec<Option<String>>,
    /// By block and item, what SQL shows in the columns that have a missing value.
    shown: BTreeMap<(u32, u16), Vec<Option<String>>>,
}

impl Counts {
    fn table(&mut self, server: &Server, client: &mut Client, name: &str) -> Result<()> {
        let table = Table::read(client, name)?;
        let columns: Vec<_> = table
            .attributes
            .iter()
            .zip(&table.missing)
            .map(|(attribute, missing)| descriptor(attribute, missing.as_deref()))
            .collect::<Result<_>>()?;
        let descriptor = TupleDescriptor::new(&columns)?;
        let file = inspect::fork_bytes(&server.relation_path(client, name)?)?;
        for (block, bytes) in (0..).zip(file.chunks_exact(BlockSize::default().bytes())) {
            let page = Page::parse(bytes, BlockSize::default())?;
            page.check()?;
            let items = inspect::heap_items(client, name, bytes)?;
            assert_eq!(items.len(), usize::from(page.item_count()), "block {block}");
            for item in &items {
                self.item(&table, descriptor, &page, block, item)
                    .with_context(|| format!("block {block} item {}", item.item))?;
            }
        }
        Ok(())
    }

    fn item(
        &mut self,
        table: &Table,
        descriptor: TupleDescriptor<'_>,
        page: &Page<'_>,
        block: u32,
        expected: &HeapItem,
    ) -> Result<()> {
        let found = page.item(OffsetNumber::new(expected.item))?;
        let Some(facts) = &expected.tuple else {
            ensure!(!matches!(found, Item::Normal(_)), "the server found no tuple");
            return Ok(());
        };
        let Item::Normal(bytes) = found else { anyhow::bail!("we found no tuple") };
        let tuple = HeapTuple::parse(bytes)?;
        let header = tuple.header();
        assert_eq!(header.xmin().get(), facts.xmin);
        assert_eq!(header.xmax().get(), facts.xmax);
        assert_eq!(header.infomask().bits(), facts.infomask);
        assert_eq!(header.infomask2().bits() | header.natts(), facts.infomask2);
        assert_eq!(header.hoff(), facts.header_len);

        let mut values = vec![Value::Null; table.attributes.len()];
        let count = tuple.deform_into(descriptor, &mut values)?;
        assert_eq!(count, facts.attributes.len());
        let walked: Vec<_> = tuple
            .deform(descriptor)?
            .map(|attribute| attribute.map(|attribute| attribute.value))
            .collect::<Result<_, _>>()?;
        assert_eq!(walked, values);
        self.compare(table, &values, (block, expected.item), header.natts(), &facts.attributes);
        naive_agrees(table, bytes, &facts.attributes);
        self.tuples += 1;
        Ok(())
    }

    fn compare(
        &mut self,
        table: &Table,
        values: &[Value<'_>],
        tid: (u32, u16),
        natts: u16,
        expected: &[Option<Vec<u8>>],
    ) {
        for (index, (value, expected)) in values.iter().zip(expected).enumerate() {
            match value {
                Value::Stored(datum) => {
                    assert_eq!(Some(datum.bytes), expected.as_deref(), "attribute {}", index + 1);
                    self.stored += 1;
                }
                Value::Null => {
                    assert_eq!(expected, &None, "attribute {}", index + 1);
                    assert!(index < usize::from(natts), "attribute {}", index + 1);
                    self.null += 1;
                }
                Value::Missing(text) => {
                    // The server's function knows nothing of defaults: SQL has to say.
                    assert_eq!(expected, &None, "attribute {}", index + 1);
                    assert!(index >= usize::from(natts), "attribute {}", index + 1);
                    self.missing += 1;
                    if let (Some(text), Some(shown)) = (text, table.shown.get(&tid)) {
                        let shown = shown[index].as_deref().map(str::as_bytes);
                        assert_eq!(Some(*text), shown, "attribute {}", index + 1);
                        self.defaults += 1;
                    }
                }
            }
        }
    }
}

impl Table {
    fn read(client: &mut Client, name: &str) -> Result<Self> {
        let attributes = inspect::attributes(client, name)?;
        // Arrays of boxes are written with semicolons: their values are left out.
        let sql = "SELECT CASE WHEN typdelim = ',' \
                          THEN (attmissingval::text::text[])[1] END FROM pg_attribute \
                   LEFT JOIN pg_type ON pg_type.oid = atttypid AND typdelim = ',' \
                   WHERE attrelid = $1::text::regclass AND attnum > 0 ORDER BY attnum";
        let missing = client.query(sql, &[&name])?.iter().map(|row| row.get(0)).collect();
        // Only where there is a missing value: dropped columns cannot be asked for.
        let text = |one: &Attribute| {
            if one.has_missing && !one.dropped {
                // In the words of the type's output function, as in the array of missing values.
                format!("CASE WHEN {0} IS NOT NULL THEN format('%s', {0}) END", one.name)
            } else {
                "NULL".to_owned()
            }
        };
        let texts: Vec<_> = attributes.iter().map(text).collect();
        let sql = format!("SELECT ctid::text, ARRAY[{}]::text[] FROM {name}", texts.join(", "));
        let mut shown = BTreeMap::new();
        for row in client.query(&sql, &[])? {
            shown.insert(inspect::tid(row.get(0))?, row.get(1));
        }
        Ok(Self { attributes, missing, shown })
    }
}

fn descriptor<'a>(
    attribute: &Attribute,
    missing: Option<&'a str>,
) -> Result<AttributeDescriptor<'a>> {
    let letter = |letter: char| u8::try_from(letter).context("a letter");
    let (align, storage) = (letter(attribute.align)?, letter(attribute.storage)?);
    let column =
        AttributeDescriptor::from_catalog(attribute.len, attribute.by_value, align, storage)?;
    let missing = missing.map(str::as_bytes);
    Ok(AttributeDescriptor { is_dropped: attribute.dropped, missing, ..column })
}

/// The slow twin is held to the same bytes, since other tests rely on it.
fn naive_agrees(table: &Table, tuple: &[u8], expected: &[Option<Vec<u8>>]) {
    let columns: Vec<_> = table
        .attributes
        .iter()
        .map(|one| deform::Column { len: one.len, align: one.align_bytes() })
        .collect();
    let ranges = deform::deform(tuple, &columns);
    let found: Vec<_> =
        ranges.into_iter().map(|one| one.map(|range| tuple[range].to_vec())).collect();
    assert_eq!(found, expected);
}
