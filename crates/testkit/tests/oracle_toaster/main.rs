//! Where a server keeps each value of a row, and in which order it moved them out, is what the toaster
//! decides; and what it says of rows that fit no page is what the server says.
//!
//! pglz columns are compressed by us, and what stays in the row is compared to the byte. lz4 streams differ
//! between libraries, so each lz4 value is also put into a second table whose rows are always over the
//! threshold: there the server tries to compress it, and the length it came to is given to the toaster.
//! The order shows in the value ids: one session draws them from a counter.
//!
//! `updates` holds whole updates against a server: rows, chunks, and what goes.
mod updates;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{Alignment, BlockSize, Oid8};
use pgtoast_codec::{CompressionMethod, DatumCompressor};
use pgtoast_page::{AttributeDescriptor, HeapTuple, Item, Page, Storage, TupleDescriptor, Value};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::postgres::types::ToSql;
use pgtoast_testkit::{Corpus, Rng, Server, ServerOptions, Survey, inspect, report};
use pgtoast_toast::{AttributeForm, Decision, Step, ToastAttribute, Toaster, Trigger};
use pgtoast_varlena::{ToastPointer, Varlena, encode_long, encode_short};

const TEST: &str = "a_servers_rows_are_kept_as_the_toaster_decides";
const TABLES: usize = 30;
const ROWS: usize = 200;
const TARGETS: [usize; 6] = [128, 600, 2032, 2040, 4000, 8160];

#[test]
fn a_servers_rows_are_kept_as_the_toaster_decides() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        let major = installation.major();
        let has_lz4 = server.has_lz4(&mut client)?;
        if !has_lz4 {
            let why = format_args!("PostgreSQL {major} comes without lz4");
            report::skip("lz4_rows_are_kept_as_the_toaster_decides", why);
        }
        client.batch_execute("CREATE TABLE probe (id int4, pad text, value bytea)")?;
        client.batch_execute(
            "ALTER TABLE probe ALTER pad SET STORAGE PLAIN, ALTER value SET STORAGE MAIN",
        )?;
        if has_lz4 {
            client.batch_execute("ALTER TABLE probe ALTER value SET COMPRESSION lz4")?;
        }
        let mut counts = Counts::default();
        let mut rng = Rng::new(0x7057);
        for number in 0..TABLES {
            let table = Table::generate(&mut rng, number, has_lz4);
            let what = || format!("{table:?}");
            table.create(&mut client).with_context(what)?;
            let rows = table.fill(&mut client, &mut rng, &mut counts).with_context(what)?;
            client.batch_execute("CHECKPOINT")?;
            let path = server.relation_path(&mut client, &table.name())?;
            let heap = inspect::fork_bytes(&path)?;
            table.compare(&heap, &rows, &mut counts).with_context(what)?;
        }
        counts.assert_enough(has_lz4);
        report::count(TEST, format_args!("{major}: {counts:?}"));
        Ok(())
    })
}

const WIDE: &str = "a_header_over_the_target_stops_all_passes_but_the_last";

/// With a target of 128 and nulls among more than 840 columns the header alone is longer. The limit then
/// wraps around in the server, and no row is over it: even repeats stay as they are.
#[test]
fn a_header_over_the_target_stops_all_passes_but_the_last() -> Result<()> {
    Survey::on_every_server(WIDE, |installation| {
        let server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        let mut rng = Rng::new(840);
        let values = [vec![b'a'; 5000], rng.bytes(3000), rng.bytes(9000), vec![b'a'; 90_000]];
        let mut too_big = 0;
        for (columns, storage) in
            [600, 840, 841, 900].into_iter().flat_map(|count| [(count, b'x'), (count, b'm')])
        {
            let letter = char::from(storage);
            let name = format!("wide_{columns}_{letter}");
            let rest: Vec<_> = (1..columns).map(|index| format!("c{index} int4")).collect();
            let word = if storage == b'm' { "MAIN" } else { "EXTENDED" };
            client.batch_execute(&format!(
                "CREATE TABLE {name} (c0 bytea COMPRESSION pglz, {}) WITH (toast_tuple_target = 128);
                 ALTER TABLE {name} ALTER c0 SET STORAGE {word}",
                rest.join(", ")
            ))?;
            let toaster = Toaster::new(BlockSize::KIB_8).with_tuple_target(128)?;
            let storage = Storage::from_attstorage(storage).context("a storage")?;
            for value in &values {
                let mut row = vec![ToastAttribute::null(); columns];
                row[0] = ToastAttribute::varlena(value.len(), storage, Alignment::Int);
                let mut datum = Vec::new();
                let outcome = toaster.decide(
                    &mut row,
                    Trigger::Length,
                    |_, method| {
                        DatumCompressor::new().compress(method, &Varlena::Long(value), &mut datum)
                    },
                    |_| {},
                );
                let sql = format!("INSERT INTO {name} (c0) VALUES ($1) RETURNING ctid::text");
                let what = || format!("{name}, {} bytes: {outcome:?}", value.len());
                let inserted = client.query_one(&sql, &[value]);
                let tid: String = match (inserted, outcome.fits()) {
                    (Ok(row), Ok(_)) => row.get(0),
                    (Err(error), Err(ours)) => {
                        let message = error.as_db_error().context("no message")?.message();
                        ensure!(message == ours.to_string(), "{message}: {}", what());
                        too_big += 1;
                        continue;
                    }
                    (Ok(_), Err(_)) => anyhow::bail!("the server takes it: {}", what()),
                    (Err(error), Ok(_)) => return Err(error).with_context(what),
                };
                let sql = format!("SELECT pg_column_size(c0) FROM {name} WHERE ctid = '{tid}'");
                let size: i32 = client.query_one(&sql, &[])?.get(0);
                let ours = match row[0].decision() {
                    Decision::Keep => row[0].datum_len(),
                    Decision::Compress { datum_len } => datum_len,
                    Decision::MoveOut { datum_len }
                    | Decision::CompressAndMoveOut { datum_len } => datum_len - 4,
                };
                ensure!(usize::try_from(size)? == ours, "{size}, ours {ours}: {}", what());
            }
        }
        assert!(too_big > 0);
        report::count(WIDE, format_args!("{}: {too_big} rows too big", installation.major()));
        Ok(())
    })
}

/// A column after the number that every table starts with.
#[derive(Clone, Copy, Debug)]
struct Column {
    kind: Kind,
    storage: Storage,
    method: CompressionMethod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Aligned to 4 bytes.
    Bytea,
    /// Aligned to 8 bytes.
    Int8Array,
    /// Of fixed length.
    Int8,
}

#[derive(Debug)]
struct Table {
    number: usize,
    target: usize,
    columns: Vec<Column>,
}

/// A row as it is meant to be, with the decisions for it.
struct Row {
    attributes: Vec<ToastAttribute>,
    values: Vec<Option<Vec<u8>>>,
    compressed: Vec<Option<Vec<u8>>>,
    moved_out: Vec<usize>,
    tuple_len: usize,
}

#[derive(Debug, Default)]
struct Counts {
    rows: usize,
    kept: usize,
    compressed: usize,
    moved_out: usize,
    compressed_and_moved_out: usize,
    of_lz4: usize,
    orders: usize,
    too_big: usize,
    left_alone: usize,
    short_in_plain: usize,
}

impl Counts {
    fn assert_enough(&self, has_lz4: bool) {
        assert!(self.rows >= 5000, "{self:?}");
        let least = [self.kept, self.compressed, self.moved_out, self.compressed_and_moved_out];
        assert!(least.iter().all(|count| *count >= 700), "{self:?}");
        assert!(self.orders >= 800 && self.left_alone >= 500 && self.too_big >= 10, "{self:?}");
        assert!(!has_lz4 || self.of_lz4 >= 500, "{self:?}");
    }
}

impl Table {
    fn generate(rng: &mut Rng, number: usize, has_lz4: bool) -> Self {
        let count = rng.pick(&[1, 2, 2, 3, 4, 5, 7, 12]);
        // The first tables have one storage each, so that every one is seen on its own.
        let storages = [
            Storage::Extended,
            Storage::External,
            Storage::Main,
            Storage::Extended,
            Storage::Plain,
        ];
        let column = |rng: &mut Rng| {
            let kind = match rng.below(10) {
                0 => Kind::Int8,
                1 | 2 => Kind::Int8Array,
                _ => Kind::Bytea,
            };
            let storage = match storages.get(number) {
                Some(storage) => *storage,
                None => rng.pick(&storages),
            };
            let is_lz4 = has_lz4 && rng.chance(35);
            let method = if is_lz4 { CompressionMethod::Lz4 } else { CompressionMethod::Pglz };
            Column {
                kind,
                storage: if kind == Kind::Int8 { Storage::Plain } else { storage },
                method,
            }
        };
        let columns = (0..count).map(|_| column(rng)).collect();
        Self { number, target: TARGETS[number % TARGETS.len()], columns }
    }

    fn name(&self) -> String {
        format!("t{}", self.number)
    }

    fn create(&self, client: &mut Client) -> Result<()> {
        let (name, target) = (self.name(), self.target);
        let mut sql = format!("CREATE TABLE {name} (id int4");
        let mut alter = String::new();
        for (index, column) in self.columns.iter().enumerate() {
            let (kind, method) = (column.kind.sql(), column.method);
            sql += &format!(", c{index} {kind}");
            if column.kind != Kind::Int8 {
                let storage = format!("{:?}", column.storage).to_uppercase();
                alter += &format!("ALTER TABLE {name} ALTER c{index} SET STORAGE {storage};");
                alter += &format!("ALTER TABLE {name} ALTER c{index} SET COMPRESSION {method};");
            }
        }
        sql += &format!(") WITH (toast_tuple_target = {target});");
        client.batch_execute(&(sql + &alter))?;
        Ok(())
    }

    fn descriptors(&self) -> Result<Vec<AttributeDescriptor<'static>>> {
        let mut descriptors = vec![AttributeDescriptor::from_catalog(4, true, b'i', b'p')?];
        for column in &self.columns {
            let (len, by_value, align) = match column.kind {
                Kind::Bytea => (-1, false, b'i'),
                Kind::Int8Array => (-1, false, b'd'),
                Kind::Int8 => (8, true, b'd'),
            };
            let storage = column.storage.attstorage();
            descriptors.push(AttributeDescriptor::from_catalog(len, by_value, align, storage)?);
        }
        Ok(descriptors)
    }

    /// Inserts rows, and decides on each before. Those that fit no page are inserted to hear what the
    /// server says.
    fn fill(
        &self,
        client: &mut Client,
        rng: &mut Rng,
        counts: &mut Counts,
    ) -> Result<BTreeMap<usize, Row>> {
        let has_toast_relation = inspect::toast_relation(client, &self.name())?.is_some();
        let mut toaster = Toaster::new(BlockSize::KIB_8).with_tuple_target(self.target)?;
        if !has_toast_relation {
            toaster = toaster.without_toast_relation();
        }
        let drafts: Vec<_> = (0..ROWS).map(|_| self.draft(rng)).collect();
        let lz4 = self.lz4_lengths(client, &drafts)?;
        let marks: Vec<_> = (1..=self.columns.len() + 1).map(|n| format!("${n}")).collect();
        let sql = format!("INSERT INTO {} VALUES ({})", self.name(), marks.join(", "));
        let insert = client.prepare(&sql)?;
        client.batch_execute("BEGIN")?;
        let mut rows = BTreeMap::new();
        for (id, draft) in drafts.into_iter().enumerate() {
            let number = i32::try_from(id)?;
            let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&number];
            parameters.extend(draft.iter().map(Cell::parameter));
            let (row, too_big) = self.decide(&toaster, draft.as_slice(), &lz4[id], counts)?;
            counts.rows += 1;
            match too_big {
                None => {
                    client.execute(&insert, &parameters)?;
                    rows.insert(id, row);
                }
                Some(words) => {
                    client.batch_execute("COMMIT")?;
                    let error = client.execute(&insert, &parameters).err().context("it fits")?;
                    let message = error.as_db_error().context("no message")?.message().to_owned();
                    ensure!(message == words, "row {id}: {message:?}, ours {words:?}");
                    counts.too_big += 1;
                    client.batch_execute("BEGIN")?;
                }
            }
        }
        client.batch_execute("COMMIT")?;
        Ok(rows)
    }

    fn draft(&self, rng: &mut Rng) -> Vec<Cell> {
        // Rows near the threshold, small ones, wide ones, and ones of equal columns.
        let style = rng.pick(&[0, 0, 1, 1, 2, 3, 3, 4, 4, 5, 5]);
        let share = match style {
            0 | 1 => rng.between(1950, 2080) / self.columns.len(),
            2 => rng.below(200),
            3 => rng.between(2000, 9000) / self.columns.len(),
            _ => 0,
        };
        let equal_len = rng_len(rng);
        let equal = Corpus::Random.bytes(rng, equal_len);
        self.columns
            .iter()
            .map(|column| {
                if rng.chance(6) {
                    return Cell { column: *column, bytes: None, array: None };
                }
                let len = match style {
                    0..=3 => share.saturating_add_signed(rng.pick(&[-2, -1, 0, 0, 1, 2])),
                    4 => equal.len(),
                    _ => rng_len(rng),
                };
                // Plain columns keep what they have: few of them may fill a page.
                let is_plain = column.storage == Storage::Plain;
                let len = if is_plain && rng.chance(90) { len % 700 } else { len };
                match column.kind {
                    Kind::Bytea if style == 4 => Cell::bytea(*column, equal[..len].to_vec()),
                    Kind::Bytea => Cell::bytea(*column, rng.pick(&Corpus::ALL).bytes(rng, len)),
                    Kind::Int8Array => Cell::array(*column, rng, len / 8 + 1),
                    Kind::Int8 => Cell::int8(*column, rng),
                }
            })
            .collect()
    }

    /// What the server makes of lz4 values: the lengths of compressed datums, `None` where it keeps them
    /// as they are.
    fn lz4_lengths(
        &self,
        client: &mut Client,
        drafts: &[Vec<Cell>],
    ) -> Result<Vec<Vec<Option<usize>>>> {
        let mut lengths = Vec::new();
        client.batch_execute("TRUNCATE probe")?;
        let insert = client.prepare("INSERT INTO probe VALUES ($1, repeat('p', 2100), $2)")?;
        let mut transaction = client.transaction()?;
        let mut cells = Vec::new();
        for draft in drafts {
            lengths.push(vec![None; draft.len()]);
            for (index, cell) in draft.iter().enumerate() {
                if let (CompressionMethod::Lz4, Some(bytes)) = (cell.column.method, &cell.bytes)
                    && cell.column.kind != Kind::Int8
                {
                    let id = i32::try_from(cells.len())?;
                    transaction.execute(&insert, &[&id, bytes])?;
                    cells.push((lengths.len() - 1, index));
                }
            }
        }
        let sql = "SELECT id, pg_column_size(value), pg_column_compression(value) FROM probe";
        for row in transaction.query(sql, &[])? {
            let (id, size): (i32, i32) = (row.get(0), row.get(1));
            if row.get::<_, Option<String>>(2).is_some() {
                let (row, column) = cells[usize::try_from(id)?];
                lengths[row][column] = Some(usize::try_from(size)?);
            }
        }
        transaction.commit()?;
        // Out of line, the size counts what is in the chunks: four bytes less than the datum. That is where
        // tuples over 8160 bytes keep it, with 2132 of them for the header, the number and the pad.
        for length in lengths.iter_mut().flatten().flatten() {
            *length += if *length > 8160 - 2132 - 4 { 4 } else { 0 };
        }
        Ok(lengths)
    }

    fn decide(
        &self,
        toaster: &Toaster,
        draft: &[Cell],
        lz4: &[Option<usize>],
        counts: &mut Counts,
    ) -> Result<(Row, Option<String>)> {
        let descriptors = self.descriptors()?;
        let mut attributes = vec![ToastAttribute::fixed(4, descriptors[0].alignment)];
        for (cell, descriptor) in draft.iter().zip(&descriptors[1..]) {
            let datum = cell.datum()?;
            let value = datum.as_deref().map_or(Value::Null, Value::stored);
            attributes
                .push(ToastAttribute::of(descriptor, &value)?.with_method(cell.column.method));
        }
        let mut compressor = DatumCompressor::new();
        let mut compressed = vec![None; attributes.len()];
        let mut moved_out = Vec::new();
        let outcome = toaster.decide(
            &mut attributes,
            Trigger::Length,
            |index, method| {
                let raw = draft[index - 1].bytes.as_deref()?;
                if method == CompressionMethod::Lz4 {
                    return lz4[index - 1];
                }
                let mut datum = Vec::new();
                let len = compressor.compress(method, &Varlena::Long(raw), &mut datum)?;
                compressed[index] = Some(datum);
                Some(len)
            },
            |step| match step {
                Step::MovedOut { attribute, .. } => moved_out.push(attribute),
                Step::LeftAlone { .. } => counts.left_alone += 1,
                _ => {}
            },
        );
        let too_big = outcome.fits().err().map(|error| error.to_string());
        let values = draft.iter().map(|cell| cell.bytes.clone()).collect();
        let tuple_len = outcome.tuple_len();
        Ok((Row { attributes, values, compressed, moved_out, tuple_len }, too_big))
    }

    fn compare(&self, heap: &[u8], rows: &BTreeMap<usize, Row>, counts: &mut Counts) -> Result<()> {
        let descriptors = self.descriptors()?;
        let descriptor = TupleDescriptor::new(&descriptors)?;
        let mut values = vec![Value::Null; descriptors.len()];
        let mut found = 0;
        for bytes in heap.chunks_exact(BlockSize::KIB_8.bytes()) {
            let page = Page::parse(bytes, BlockSize::KIB_8)?;
            for (item, _) in page.items() {
                let Item::Normal(tuple) = page.item(item)? else { continue };
                HeapTuple::parse(tuple)?.deform_into(descriptor, &mut values)?;
                let Value::Stored(id) = values[0] else { anyhow::bail!("a null id") };
                let id = u32::from_le_bytes(id.fixed().context("an int4")?);
                let id = usize::try_from(id)?;
                // Rows that fitted no page may have been placed by an aborted insert: none is.
                let row = rows.get(&id).with_context(|| format!("row {id} is not to fit"))?;
                ensure!(
                    tuple.len() == row.tuple_len,
                    "row {id}: {} bytes, ours {}",
                    tuple.len(),
                    row.tuple_len
                );
                row.compare(&values, counts).with_context(|| format!("row {id}"))?;
                found += 1;
            }
        }
        ensure!(found == rows.len(), "{found} rows of {}", rows.len());
        Ok(())
    }
}

impl Row {
    fn compare(&self, stored: &[Value<'_>], counts: &mut Counts) -> Result<()> {
        let mut pointers: Vec<(Oid8, usize)> = Vec::new();
        for (index, (attribute, stored)) in self.attributes.iter().zip(stored).enumerate().skip(1) {
            let value = self.values[index - 1].as_deref();
            let Value::Stored(datum) = stored else {
                ensure!(value.is_none(), "column {index} is null");
                continue;
            };
            let value = value.with_context(|| format!("column {index} is not null"))?;
            if attribute.form() == AttributeForm::Fixed {
                ensure!(datum.bytes == value, "column {index}");
                continue;
            }
            let len = datum.bytes.len();
            let ours = attribute.decision();
            let varlena = datum.varlena()?;
            counts.of_lz4 +=
                usize::from(attribute.method() == CompressionMethod::Lz4 && ours != Decision::Keep);
            let is_same = match (ours, varlena) {
                (Decision::Keep, Varlena::Short(raw) | Varlena::Long(raw)) => {
                    counts.kept += 1;
                    counts.short_in_plain += usize::from(
                        attribute.storage() == Storage::Plain
                            && matches!(varlena, Varlena::Short(_)),
                    );
                    raw == value && len == attribute.datum_len()
                }
                (Decision::Compress { datum_len }, Varlena::Compressed(compressed)) => {
                    counts.compressed += 1;
                    let bytes = self.compressed[index].as_deref();
                    datum_len == len
                        && compressed.info.method()? == attribute.method()
                        && bytes.is_none_or(|bytes| bytes == datum.bytes)
                }
                (Decision::MoveOut { .. }, Varlena::External(pointer)) => {
                    counts.moved_out += 1;
                    pointers.push((id_of(&pointer)?, index));
                    pointer.compression()?.is_none() && pointer.stored_len() == value.len()
                }
                (Decision::CompressAndMoveOut { datum_len }, Varlena::External(pointer)) => {
                    counts.compressed_and_moved_out += 1;
                    pointers.push((id_of(&pointer)?, index));
                    pointer.compression()? == Some(attribute.method())
                        && pointer.stored_len() + 4 == datum_len
                        && pointer.raw_payload_len()? == value.len()
                }
                _ => false,
            };
            ensure!(is_same, "column {index}: {ours:?}, the server {varlena:?} of {len} bytes");
        }
        pointers.sort_by_key(|(id, _)| *id);
        let order: Vec<_> = pointers.into_iter().map(|(_, index)| index).collect();
        ensure!(order == self.moved_out, "moved out {order:?}, ours {:?}", self.moved_out);
        counts.orders += usize::from(order.len() > 1);
        Ok(())
    }
}

fn id_of(pointer: &ToastPointer) -> Result<Oid8> {
    pointer.value_id().context("a pointer without an id")
}

/// Lengths around every one at which a rule changes.
fn rng_len(rng: &mut Rng) -> usize {
    match rng.below(10) {
        0 => rng.between(20, 40),
        1 => rng.between(120, 132),
        2..=4 => rng.between(130, 1100),
        5..=7 => rng.between(1100, 3000),
        8 => rng.between(3000, 9000),
        _ => rng.between(9000, 40_000),
    }
}

impl Kind {
    fn sql(self) -> &'static str {
        match self {
            Self::Bytea => "bytea",
            Self::Int8Array => "int8[]",
            Self::Int8 => "int8",
        }
    }
}

/// A value to be inserted.
struct Cell {
    column: Column,
    /// As it is stored, without varlena header; `None` for null.
    bytes: Option<Vec<u8>>,
    /// The same for the client, if it is no `bytea`.
    array: Option<Vec<i64>>,
}

impl Cell {
    fn bytea(column: Column, bytes: Vec<u8>) -> Self {
        Self { column, bytes: Some(bytes), array: None }
    }

    fn int8(column: Column, rng: &mut Rng) -> Self {
        let number = rng.next_u64().cast_signed();
        Self { column, bytes: Some(number.to_le_bytes().to_vec()), array: Some(vec![number]) }
    }

    /// One dimension, no nulls: dimensions, no bitmap, element type, length, lower bound, elements.
    fn array(column: Column, rng: &mut Rng, count: usize) -> Self {
        let range = rng.pick(&[2, 300, usize::MAX]);
        let numbers: Vec<i64> = (0..count).map(|_| rng.below(range).cast_signed() as i64).collect();
        let mut bytes = Vec::new();
        for word in [1, 0, 20, i32::try_from(count).unwrap_or_default(), 1] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        Self { column, bytes: Some(bytes), array: Some(numbers) }
    }

    fn parameter(&self) -> &(dyn ToSql + Sync) {
        match (&self.bytes, &self.array, self.column.kind) {
            (None, _, Kind::Int8) => &None::<i64>,
            (None, _, Kind::Int8Array) => &None::<Vec<i64>>,
            (Some(_), Some(numbers), Kind::Int8) => &numbers[0],
            (Some(_), Some(numbers), _) => numbers,
            (bytes, _, _) => bytes,
        }
    }

    /// As it comes to the toaster: shortened before that, because a row of an `INSERT … VALUES` is formed
    /// by its types, whose storage is not plain even where the column's is.
    fn datum(&self) -> Result<Option<Vec<u8>>> {
        let Some(bytes) = &self.bytes else { return Ok(None) };
        let mut datum = Vec::new();
        if self.column.kind == Kind::Int8 {
            datum.extend(bytes);
        } else if bytes.len() <= 126 {
            encode_short(bytes, &mut datum)?;
        } else {
            encode_long(bytes, &mut datum)?;
        }
        Ok(Some(datum))
    }
}
