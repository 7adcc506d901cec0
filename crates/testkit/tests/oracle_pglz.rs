//! What a server's pglz makes of a value, ours makes too, to the byte, and both ways.
//!
//! Small values stay in the tuple: their column is MAIN beside a plain one of 2100 bytes, so that the
//! toaster tries to compress and keeps whatever comes of it. Large ones go out of line, and their
//! stream is read from the chunks.
use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use pgtoast_pglz::{Compressor, Strategy, decompress, decompress_prefix};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Corpus, Rng, Server, ServerOptions, Survey, inspect, naive, report};

const TEST: &str = "pglz_streams_of_a_server_equal_ours";
const SMALL: usize = 3600;
const LARGE: usize = 160;

#[test]
fn pglz_streams_of_a_server_equal_ours() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        client.batch_execute("CREATE EXTENSION pageinspect")?;
        let mut counts = Counts::default();
        for (value, stream) in small_values(&mut client)? {
            counts.compare(&value, stream.as_deref());
            counts.compare_naive(&value, stream.as_deref());
        }
        for (value, stream) in large_values(&mut client)? {
            counts.compare(&value, stream.as_deref());
        }
        let Counts { compressed, refused, raw_bytes, .. } = counts;
        assert!(compressed >= 2000, "{compressed} compressed");
        assert!(refused >= 100, "{refused} refused");
        let text = format!(
            "{}: {compressed} streams equal both ways, {refused} refusals equal, of {raw_bytes} bytes",
            installation.major()
        );
        report::count(TEST, text);
        Ok(())
    })
}

#[derive(Default)]
struct Counts {
    compressor: Compressor,
    compressed: usize,
    refused: usize,
    raw_bytes: usize,
}

impl Counts {
    fn compare(&mut self, value: &[u8], stream: Option<&[u8]>) {
        let ours = self.compressor.compress_to_vec(value, &Strategy::DEFAULT);
        let ours = ours.filter(|stream| is_worth_it(value, stream));
        assert_eq!(ours.as_deref(), stream, "{} bytes: {:?}", value.len(), start_of(value));
        self.raw_bytes += value.len();
        let Some(stream) = stream else {
            self.refused += 1;
            return;
        };
        self.compressed += 1;
        let mut target = vec![0xaa; value.len()];
        assert_eq!(decompress(stream, &mut target), Ok(()));
        assert!(target == value, "{} bytes: {:?}", value.len(), start_of(value));
        for len in [0, 1, value.len() / 3, value.len() - 1, value.len()] {
            let mut target = vec![0xaa; len];
            assert_eq!(decompress_prefix(stream, &mut target), Ok(len));
            assert!(target == value[..len], "first {len} of {} bytes", value.len());
        }
    }

    fn compare_naive(&mut self, value: &[u8], stream: Option<&[u8]>) {
        // The slow twin looks at every earlier position for each: a part of the values will do.
        if !self.compressed.is_multiple_of(8) {
            return;
        }
        let theirs = naive::pglz::compress(value, naive::pglz::Rules::DEFAULT, true);
        let theirs = theirs.filter(|stream| is_worth_it(value, stream));
        assert_eq!(theirs.as_deref(), stream, "{} bytes: {:?}", value.len(), start_of(value));
        if let Some(stream) = stream {
            let back = naive::pglz::decompress(stream, value.len());
            assert!(back.as_deref() == Some(value), "{} bytes", value.len());
        }
    }
}

/// The toaster's own rule: with 8 bytes of headers, more than 2 must be saved.
fn is_worth_it(value: &[u8], stream: &[u8]) -> bool {
    8 + stream.len() + 2 < value.len()
}

fn start_of(value: &[u8]) -> String {
    String::from_utf8_lossy(&value[..value.len().min(60)]).into_owned()
}

type Stored = (Vec<u8>, Option<Vec<u8>>);

fn small_values(client: &mut Client) -> Result<Vec<Stored>> {
    client.batch_execute(
        "CREATE TABLE small (id int4, pad text, value bytea COMPRESSION pglz);
        ALTER TABLE small ALTER pad SET STORAGE PLAIN, ALTER value SET STORAGE MAIN;",
    )?;
    let values = values(SMALL, 24, 5900);
    insert(client, "small", &values, 2100)?;
    let stored = stored_attributes(client, "small")?;
    let mut both = Vec::new();
    for (id, value) in values.into_iter().enumerate() {
        let attribute = stored.get(&id).with_context(|| format!("row {id} is missing"))?;
        let stream = match attribute[0] & 3 {
            0 => None,
            2 => Some(attribute[8..].to_vec()),
            _ if attribute[0] != 1 => None,
            _ => anyhow::bail!("row {id} went out of line"),
        };
        both.push((value, stream));
    }
    Ok(both)
}

fn large_values(client: &mut Client) -> Result<Vec<Stored>> {
    client.batch_execute("CREATE TABLE large (id int4, pad text, value bytea COMPRESSION pglz)")?;
    let values = values(LARGE, 30_000, 300_000);
    insert(client, "large", &values, 0)?;
    let toast = inspect::toast_relation(client, "large")?.context("no TOAST table")?;
    let sql = format!(
        "SELECT chunk_id, string_agg(chunk_data, ''::bytea ORDER BY chunk_seq) FROM {toast} \
         GROUP BY chunk_id"
    );
    let joined: BTreeMap<u32, Vec<u8>> =
        client.query(&sql, &[])?.iter().map(|row| (row.get(0), row.get(1))).collect();
    let stored = stored_attributes(client, "large")?;
    let mut both = Vec::new();
    for (id, value) in values.into_iter().enumerate() {
        let attribute = stored.get(&id).with_context(|| format!("row {id} is missing"))?;
        let stream = if attribute[0] == 1 {
            let word = |at: usize| -> Result<u32> {
                Ok(u32::from_le_bytes(attribute.get(at..at + 4).context("pointer")?.try_into()?))
            };
            let bytes = joined.get(&word(10)?).context("a value without chunks")?;
            let is_compressed = word(6)? & 0x3fff_ffff < word(2)? - 4;
            ensure!(is_compressed || *bytes == value, "row {id}: chunks are not the value");
            is_compressed.then(|| bytes[4..].to_vec())
        } else {
            Some(attribute[8..].to_vec())
        };
        both.push((value, stream));
    }
    Ok(both)
}

/// Values of all kinds, and joined from pieces of several kinds, of `shortest..=longest` bytes.
fn values(count: usize, shortest: usize, longest: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(u64::try_from(count).unwrap_or_default());
    let mut values = Vec::new();
    for index in 0..count {
        // Half of them near the short end, where the rules change most often.
        let bound = if index % 2 == 0 { longest } else { shortest + (longest - shortest) / 16 };
        let len = rng.between(shortest, bound);
        let mut value = Vec::new();
        while value.len() < len {
            let whole = rng.chance(60);
            let piece = if whole { len } else { rng.between(1, len - value.len()) };
            let mut corpus = rng.pick(&Corpus::ALL);
            if corpus == Corpus::Random && rng.chance(70) {
                corpus = Corpus::Repeats;
            }
            value.extend(corpus.bytes(&mut rng, piece));
        }
        value.truncate(len);
        values.push(value);
    }
    values
}

fn insert(client: &mut Client, table: &str, values: &[Vec<u8>], pad: usize) -> Result<()> {
    let mut transaction = client.transaction()?;
    let sql = format!("INSERT INTO {table} VALUES ($1, repeat('p', {pad}), $2)");
    let statement = transaction.prepare(&sql)?;
    for (id, value) in values.iter().enumerate() {
        transaction.execute(&statement, &[&i32::try_from(id)?, value])?;
    }
    transaction.commit()?;
    Ok(())
}

/// The third column as it lies in the tuples, by the first.
fn stored_attributes(client: &mut Client, table: &str) -> Result<BTreeMap<usize, Vec<u8>>> {
    let blocks: i64 =
        client.query_one("SELECT pg_relation_size($1::text::regclass) / 8192", &[&table])?.get(0);
    let mut stored = BTreeMap::new();
    for block in 0..u32::try_from(blocks)? {
        let page = inspect::raw_page(client, table, block)?;
        for item in inspect::heap_items(client, table, &page)? {
            let attributes = item.tuple.context("a tuple")?.attributes;
            let [Some(id), _, Some(value)] = &attributes[..] else {
                anyhow::bail!("block {block} item {}: a null", item.item);
            };
            let id = u32::from_le_bytes(id.as_slice().try_into()?);
            stored.insert(usize::try_from(id)?, value.clone());
        }
    }
    Ok(stored)
}
