//! Every value of tables in all storages and codecs: read from the files of heap and TOAST relation,
//! whole and in slices, it equals what SQL gives, and so does what SQL says of how it is stored.
//!
//! Values that are compressed and out of line are counted on their own: their chunks begin with the
//! compression info, which a reader that only knows EXTERNAL columns would take for the stream.
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::{ControlFlow, Range};

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize, OffsetNumber};
use pgtoast_page::{AttributeDescriptor, HeapTuple, Item, Page, TupleDescriptor, Value};
use pgtoast_testkit::postgres::{Client, Row as SqlRow};
use pgtoast_testkit::{Corpus, Rng, Server, ServerOptions, Survey, inspect, report};
use pgtoast_toast::{
    ByteSlice, CharSlice, Chunk, ChunkIndex, ChunkSize, ChunkSource, Detoaster, ReadError,
    ValueIdWidth, ValueKey, column_compression, column_size, column_toast_chunk_id,
    infer_chunk_size, page_chunks,
};
use pgtoast_varlena::{CompressionMethod, Varlena};

const TEST: &str = "toasted_values_equal_those_of_sql";
const ROWS: usize = 90;
const SLICES: usize = 14;

#[test]
fn toasted_values_equal_those_of_sql() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        let major = installation.major();
        let mut shapes =
            vec![("EXTENDED", "pglz"), ("EXTERNAL", "pglz"), ("MAIN", "pglz"), ("PLAIN", "pglz")];
        if server.has_lz4(&mut client)? {
            shapes.extend([("EXTENDED", "lz4"), ("MAIN", "lz4")]);
        } else {
            report::skip(
                "lz4_values_equal_those_of_sql",
                format_args!("PostgreSQL {major} comes without lz4"),
            );
        }
        let mut counts = Counts::default();
        for (storage, method) in &shapes {
            let table = format!("{storage}_{method}").to_lowercase();
            fill(&mut client, &table, storage, method)?;
            counts.table(&server, &mut client, &table).with_context(|| table.clone())?;
        }
        counts.assert_enough(shapes.len());
        report::count(TEST, format_args!("{major}: {}", counts.text()));
        Ok(())
    })
}

/// Rows with a `bytea` and a `text`, beside a plain column that drives even small ones out. Some rows
/// are updated and some rolled back, so that the TOAST relation holds chunks of no living row.
fn fill(client: &mut Client, table: &str, storage: &str, method: &str) -> Result<()> {
    client.batch_execute(&format!(
        "CREATE TABLE {table} (id int4, pad text, data bytea COMPRESSION {method}, \
             words text COMPRESSION {method});
         ALTER TABLE {table} ALTER pad SET STORAGE PLAIN, ALTER data SET STORAGE {storage}, \
             ALTER words SET STORAGE {storage}"
    ))?;
    let insert = format!("INSERT INTO {table} VALUES ($1, repeat('p', $2), $3, $4)");
    let insert = client.prepare(&insert)?;
    let mut rng = Rng::new(table.bytes().map(u64::from).sum());
    for committed in [false, true] {
        let mut transaction = client.transaction()?;
        for id in 0..if committed { ROWS } else { 5 } {
            let is_plain = storage == "PLAIN";
            let pad = if is_plain { 0 } else { rng.pick(&[0, 0, 1900, 2100]) };
            let (data_len, words_len) = (len(&mut rng, is_plain), len(&mut rng, is_plain));
            let data = rng.pick(&Corpus::ALL).bytes(&mut rng, data_len);
            let words = rng.pick(&Corpus::TEXT).text(&mut rng, words_len);
            transaction.execute(&insert, &[&i32::try_from(id)?, &pad, &data, &words])?;
        }
        if committed { transaction.commit()? } else { transaction.rollback()? }
    }
    client.batch_execute(&format!("UPDATE {table} SET data = data || '\\xff' WHERE id % 5 = 0"))?;
    client.batch_execute(&format!("UPDATE {table} SET words = reverse(words) WHERE id % 7 = 0"))?;
    client.batch_execute("CHECKPOINT")?;
    Ok(())
}

/// Lengths around what a chunk holds, short ones, and now and then a long one.
fn len(rng: &mut Rng, is_plain: bool) -> usize {
    const CHUNK: usize = 1996;
    if is_plain {
        return rng.below(3000);
    }
    match rng.below(100) {
        0..20 => rng.below(200),
        20..45 => (CHUNK * rng.between(1, 8)).saturating_add_signed(rng.pick(&[-1, 0, 1])),
        45..90 => rng.between(1000, 60_000),
        90..98 => rng.between(60_000, 400_000),
        _ => rng.between(1_000_000, 2_500_000),
    }
}

#[derive(Default)]
struct Counts {
    values: usize,
    slices: usize,
    bytes: usize,
    /// By where the value is and how it is compressed.
    forms: BTreeMap<(&'static str, &'static str), usize>,
}

impl Counts {
    fn table(&mut self, server: &Server, client: &mut Client, table: &str) -> Result<()> {
        let heap = inspect::fork_bytes(&server.relation_path(client, table)?)?;
        let toast_name = inspect::toast_relation(client, table)?.unwrap_or_default();
        let toast = match toast_name.as_str() {
            "" => Vec::new(),
            name => inspect::fork_bytes(&server.relation_path(client, name)?)?,
        };
        let chunks = chunks_of(&toast)?;
        let mut reader = Reader {
            indexed: Detoaster::new(chunks.iter().copied().collect(), ChunkSize::default()),
            backwards: Detoaster::new(Backwards(chunks), ChunkSize::default()),
        };
        let columns = inspect::attributes(client, table)?
            .iter()
            .map(|one| {
                let letter = |letter: char| u8::try_from(letter).context("a letter");
                let (align, storage) = (letter(one.align)?, letter(one.storage)?);
                Ok(AttributeDescriptor::from_catalog(one.len, one.by_value, align, storage)?)
            })
            .collect::<Result<Vec<_>>>()?;
        let descriptor = TupleDescriptor::new(&columns)?;
        let rows = Row::read_all(server, client, table)?;
        ensure!(rows.len() == ROWS, "{} rows", rows.len());
        for row in &rows {
            let what = || format!("row {}", row.id);
            let [data, words] = stored_datums(&heap, descriptor, row.tid).with_context(what)?;
            let mut rng = Rng::new(u64::try_from(row.id)?);
            self.value(&mut reader, &data, &row.data, &row.data_facts);
            self.byte_slices(&mut reader, client, table, row, &data, &mut rng)
                .with_context(what)?;
            self.value(&mut reader, &words, row.words.as_bytes(), &row.words_facts);
            self.char_slices(&mut reader, client, table, row, &words, &mut rng)
                .with_context(what)?;
        }
        Ok(())
    }

    fn value(&mut self, reader: &mut Reader<'_>, datum: &Varlena<'_>, value: &[u8], facts: &Facts) {
        let whole = reader.indexed.detoast(datum).expect("a sound value");
        assert!(whole.as_bytes() == value, "{} bytes", value.len());
        let again = reader.backwards.detoast(datum).expect("a sound value");
        assert!(again.as_bytes() == value, "{} bytes, chunks backwards", value.len());
        let mut target = vec![0xaa; value.len()];
        reader.indexed.detoast_into(datum, &mut target).expect("a sound value");
        assert!(target == value, "{} bytes into a buffer", value.len());

        assert_eq!(column_size(datum), facts.size);
        let method =
            column_compression(datum).expect("a known method").map(|method| match method {
                CompressionMethod::Pglz => "pglz",
                CompressionMethod::Lz4 => "lz4",
            });
        assert_eq!(method, facts.compression.as_deref());
        if let Some(chunk_id) = facts.chunk_id {
            assert_eq!(column_toast_chunk_id(datum).map(|id| id.get()), chunk_id.map(u64::from));
        }
        let place = match datum {
            Varlena::Short(_) => "short",
            Varlena::Long(_) => "long",
            Varlena::Compressed(_) => "inline",
            Varlena::External(pointer) => {
                let size = infer_chunk_size(reader.indexed.source(), pointer);
                let size = size.expect("a sound value").unwrap_or_default();
                assert_eq!(size, ChunkSize::default());
                "out of line"
            }
        };
        *self.forms.entry((place, method.unwrap_or("plain"))).or_default() += 1;
        self.values += 1;
        self.bytes += value.len();
    }

    fn byte_slices(
        &mut self,
        reader: &mut Reader<'_>,
        client: &mut Client,
        table: &str,
        row: &Row,
        datum: &Varlena<'_>,
        rng: &mut Rng,
    ) -> Result<()> {
        let len = row.data.len();
        let mut slices = vec![
            (0, 0),
            (0, 1),
            (0, len),
            (0, len + 9),
            (len / 2, 100),
            (len, 5),
            (len + 7, 5),
            (len.saturating_sub(1), 9),
            (1995, 2),
            (1996, 1996),
        ];
        slices.extend((slices.len()..SLICES).map(|_| (rng.below(len + 1), rng.below(5000))));
        let starts = slices.iter().map(|(offset, _)| i32::try_from(offset + 1));
        let counts = slices.iter().map(|(_, len)| i32::try_from(*len));
        let starts = starts.collect::<Result<Vec<_>, _>>()?;
        let counts = counts.collect::<Result<Vec<_>, _>>()?;
        let sql = format!(
            "SELECT ARRAY(SELECT substring(data, s, c) FROM unnest($1::int4[], $2::int4[]) \
                 WITH ORDINALITY u (s, c, n) ORDER BY n) FROM {table} WHERE id = $3"
        );
        let expected: Vec<Vec<u8>> = client.query_one(&sql, &[&starts, &counts, &row.id])?.get(0);
        assert_eq!(expected.len(), SLICES);
        for ((offset, len), expected) in slices.into_iter().zip(expected) {
            let slice = ByteSlice::new(offset, len);
            let found = reader.indexed.slice_bytes(datum, slice)?;
            assert!(found.as_bytes() == expected, "{slice:?}: {} bytes", found.len());
            let found = reader.backwards.slice_bytes(datum, slice)?;
            assert!(found.as_bytes() == expected, "{slice:?}, chunks backwards");
            self.slices += 1;
        }
        Ok(())
    }

    fn char_slices(
        &mut self,
        reader: &mut Reader<'_>,
        client: &mut Client,
        table: &str,
        row: &Row,
        datum: &Varlena<'_>,
        rng: &mut Rng,
    ) -> Result<()> {
        let chars = i32::try_from(row.words.chars().count())?;
        let mut slices = vec![
            (1, 0),
            (1, 1),
            (1, chars),
            (1, i32::MAX),
            (-3, 5),
            (0, 2),
            (chars, 1),
            (chars + 1, 4),
            (chars / 2, 50),
            (498, 3),
            (1996, 1),
        ];
        let random = |_| {
            let start = rng.below(row.words.len() + 1);
            Ok((i32::try_from(start)?, i32::try_from(rng.below(2000))?))
        };
        slices.extend((slices.len()..SLICES).map(random).collect::<Result<Vec<_>>>()?);
        let (starts, counts): (Vec<_>, Vec<_>) = slices.iter().copied().unzip();
        let sql = format!(
            "SELECT ARRAY(SELECT substring(words, s, c) FROM unnest($1::int4[], $2::int4[]) \
                 WITH ORDINALITY u (s, c, n) ORDER BY n) FROM {table} WHERE id = $3"
        );
        let expected: Vec<String> = client.query_one(&sql, &[&starts, &counts, &row.id])?.get(0);
        assert_eq!(expected.len(), SLICES);
        for ((start, count), expected) in slices.into_iter().zip(expected) {
            let slice = CharSlice::from_sql(start, Some(count))?;
            let found = reader.indexed.slice_chars(datum, slice)?;
            assert!(found == expected, "substring(words, {start}, {count}): {found:?}");
            let found = reader.backwards.slice_chars(datum, slice)?;
            assert!(found == expected, "substring(words, {start}, {count}), chunks backwards");
            self.slices += 1;
        }
        Ok(())
    }

    fn assert_enough(&self, shapes: usize) {
        assert_eq!(self.values, shapes * ROWS * 2);
        assert_eq!(self.slices, self.values * SLICES);
        let methods: &[&str] =
            if shapes > 4 { &["plain", "pglz", "lz4"] } else { &["plain", "pglz"] };
        for method in methods {
            let count = self.forms.get(&("out of line", *method)).copied().unwrap_or_default();
            assert!(count >= 40, "{method} out of line: {count}");
        }
        for form in [("short", "plain"), ("long", "plain"), ("inline", "pglz")] {
            assert!(self.forms.contains_key(&form), "no value is {form:?}");
        }
    }

    fn text(&self) -> String {
        let Self { values, slices, bytes, forms } = self;
        let forms: Vec<_> = forms
            .iter()
            .map(|((place, method), count)| format!("{place} {method} {count}"))
            .collect();
        let forms = forms.join(", ");
        format!("{values} values of {bytes} bytes equal ({forms}), {slices} slices equal")
    }
}

/// Two ways to the same chunks: by an index, and as they come.
struct Reader<'a> {
    indexed: Detoaster<ChunkIndex<'a>>,
    backwards: Detoaster<Backwards<'a>>,
}

/// All chunks of a relation, last first: nothing promises that a value's chunks lie in order.
struct Backwards<'a>(Vec<Chunk<'a>>);

impl ChunkSource for Backwards<'_> {
    type Error = Infallible;

    fn visit(
        &mut self,
        key: ValueKey,
        _chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<Infallible>> {
        let of_value = self.0.iter().rev().filter(|chunk| chunk.value_id == key.value_id);
        for chunk in of_value {
            if visit(chunk).is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn chunks_of(toast: &[u8]) -> Result<Vec<Chunk<'_>>> {
    let mut chunks = Vec::new();
    for (block, bytes) in (0..).zip(toast.chunks_exact(BlockSize::default().bytes())) {
        let page = Page::parse(bytes, BlockSize::default())?;
        for chunk in page_chunks(&page, BlockNumber::new(block), ValueIdWidth::Oid) {
            chunks.push(chunk?);
        }
    }
    Ok(chunks)
}

/// The third and fourth column of the tuple at `tid`.
fn stored_datums<'a>(
    heap: &'a [u8],
    descriptor: TupleDescriptor<'a>,
    tid: (u32, u16),
) -> Result<[Varlena<'a>; 2]> {
    let mut blocks = heap.chunks_exact(BlockSize::default().bytes());
    let bytes = blocks.nth(usize::try_from(tid.0)?).context("no such block")?;
    let page = Page::parse(bytes, BlockSize::default())?;
    let Item::Normal(tuple) = page.item(OffsetNumber::new(tid.1))? else {
        anyhow::bail!("no tuple at {tid:?}");
    };
    let mut values = [Value::Null; 4];
    HeapTuple::parse(tuple)?.deform_into(descriptor, &mut values)?;
    let [_, _, Value::Stored(data), Value::Stored(words)] = values else {
        anyhow::bail!("a null at {tid:?}");
    };
    Ok([data.varlena()?, words.varlena()?])
}

/// A row as SQL shows it.
struct Row {
    id: i32,
    tid: (u32, u16),
    data: Vec<u8>,
    words: String,
    data_facts: Facts,
    words_facts: Facts,
}

/// What SQL says of how a value is stored.
struct Facts {
    size: usize,
    compression: Option<String>,
    /// `None` where the server has no function to ask.
    chunk_id: Option<Option<u32>>,
}

impl Row {
    fn read_all(server: &Server, client: &mut Client, table: &str) -> Result<Vec<Self>> {
        let has_chunk_id = server.major() >= 17;
        let facts = |column: &str| {
            let id = if has_chunk_id {
                format!("pg_column_toast_chunk_id({column})")
            } else {
                "NULL::oid".to_owned()
            };
            format!("pg_column_size({column}), pg_column_compression({column}), {id}")
        };
        let sql = format!(
            "SELECT id, ctid::text, data, words, {}, {} FROM {table} ORDER BY id",
            facts("data"),
            facts("words")
        );
        let rows = client.query(&sql, &[])?;
        let read = |row: &SqlRow| -> Result<Self> {
            let facts = |at: usize| -> Result<Facts> {
                let size: i32 = row.get(at);
                Ok(Facts {
                    size: usize::try_from(size)?,
                    compression: row.get(at + 1),
                    chunk_id: has_chunk_id.then(|| row.get(at + 2)),
                })
            };
            Ok(Self {
                id: row.get(0),
                tid: inspect::tid(row.get(1))?,
                data: row.get(2),
                words: row.get(3),
                data_facts: facts(4)?,
                words_facts: facts(7)?,
            })
        };
        rows.iter().map(read).collect()
    }
}
