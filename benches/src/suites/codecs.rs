//! What the two methods make of the values that a well-known complaint about large columns is about:
//! documents whose rows end up on both sides of the 2 kB edge, a value whose first kilobyte is noise,
//! and 100 000 values of 90 kB repeats.
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pgtoast_base::{Alignment, BlockSize};
use pgtoast_codec::{CompressionMethod, DatumCompressor, decompress};
use pgtoast_page::Storage;
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Corpus, Rng, Server, ServerOptions};
use pgtoast_toast::{Decision, ToastAttribute, Toaster, Trigger};
use pgtoast_varlena::{COMPRESSED_HEADER_LEN, LONG_HEADER_LEN, Varlena};

use super::Suite;
use crate::peers::{POSTGRESQL_15, POSTGRESQL_C, pgcommon, server};
use crate::row::Better;
use crate::{Bench, Comparison, Row, check};

const NAME: &str = "codecs";
const STORED: &str = "stored";
const ROW: &str = "row";
const METHODS: [CompressionMethod; 2] = [CompressionMethod::Pglz, CompressionMethod::Lz4];
/// Fields of the documents: about 5.9 kB, whose rows end up on both sides of the edge.
const FIELDS: std::ops::Range<usize> = 333..343;
/// What the times of the repeats are scaled to.
const VALUES: usize = 100_000;
/// How many of them are done in a pass.
const PASS_VALUES: usize = 100;
const INSIDE: &str = "kept in the row";
const OUTSIDE: &str = "moved out of line";

/// The suite `codecs`.
#[derive(Debug)]
pub(super) struct CodecsSuite;

impl Suite for CodecsSuite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "pglz and lz4 at the edges: rows around 2 kB, a noisy first kilobyte, 100 000 times 90 kB"
    }

    fn run(&self, bench: &Bench) -> Result<Vec<Row>> {
        bench.expect_steps(4);
        bench.step("a server");
        let mut peer = Peer::start();
        bench.step("documents");
        let mut rows = documents(peer.as_mut().ok())?;
        bench.step("squeeze");
        rows.extend(squeeze(peer.as_mut().ok())?);
        bench.step("repeats");
        let value = b"Postgres!".repeat(10_000);
        for (done, method) in METHODS.into_iter().enumerate() {
            // One share more than there are comparisons, for stopping the server.
            let cells = 2 * (METHODS.len() - done) + 1;
            let repeats = Repeats { method, value: &value };
            rows.extend(repeats.time_writes(peer.as_mut().ok(), bench.share(cells))?);
            rows.extend(repeats.time_reads(peer.as_mut().ok(), bench.share(cells - 1))?);
        }
        if let Err(error) = peer {
            let why = format!("{error:#}");
            rows = rows.into_iter().map(|row| without_server(row, &why)).collect();
        }
        Ok(rows)
    }
}

fn without_server(row: Row, why: &str) -> Row {
    if row.peer_name.is_some() { row } else { row.without(POSTGRESQL_15, why) }
}

/// A server and a connection to it.
struct Peer {
    client: Client,
    _server: Server,
}

impl Peer {
    fn start() -> Result<Self> {
        let options = ServerOptions::new().set("shared_buffers", "256MB").set("jit", "off");
        let server = Server::start(&server::distribution_15()?, &options)?;
        let mut client = server.client()?;
        client.batch_execute(
            "CREATE EXTENSION pageinspect;
             CREATE TABLE event_log (event_id int8, ticker varchar(4), strike int4, shares int4, \
                 event_data json COMPRESSION pglz);
             CREATE TABLE squeeze (method text, payload text)",
        )?;
        Ok(Self { client, _server: server })
    }

    /// What the only row of a table takes: its large column, as the server counts it, and the tuple.
    fn look(&mut self, table: &str, column: &str) -> Result<Kept> {
        let sql = format!(
            "SELECT pg_column_size({column}), \
                 (SELECT lp_len::int4 FROM heap_page_items(get_raw_page('{table}', 0)) \
                  WHERE lp_flags = 1 ORDER BY lp DESC LIMIT 1) FROM {table}"
        );
        let row = self.client.query_one(&sql, &[])?;
        let (stored, tuple_len): (i32, i32) = (row.get(0), row.get(1));
        let (stored, tuple_len) = (usize::try_from(stored)?, usize::try_from(tuple_len)?);
        Ok(Kept { stored, tuple_len, is_inside: stored < tuple_len })
    }
}

/// How a row is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    /// Of the large column: in the row with its header, out of line without.
    stored: usize,
    tuple_len: usize,
    is_inside: bool,
}

impl Kept {
    /// How we would keep it: the last of the attributes is the large one.
    fn ours(mut row: Vec<ToastAttribute>, value: &[u8]) -> Result<Self> {
        let mut compressor = DatumCompressor::new();
        let mut datum = Vec::new();
        let large = row.len() - 1;
        let outcome = Toaster::new(BlockSize::KIB_8).decide(
            &mut row,
            Trigger::Length,
            |index, method| {
                let value = Varlena::Long(value);
                (index == large).then(|| compressor.compress(method, &value, &mut datum))?
            },
            |_| {},
        );
        let tuple_len = outcome.fits()?;
        let decided = row.last().context("no attributes")?;
        let (stored, is_inside) = match decided.decision() {
            Decision::Keep => (decided.datum_len(), true),
            Decision::Compress { datum_len } => (datum_len, true),
            Decision::MoveOut { datum_len } | Decision::CompressAndMoveOut { datum_len } => {
                (datum_len - LONG_HEADER_LEN, false)
            }
        };
        Ok(Self { stored, tuple_len, is_inside })
    }

    fn rows(self, case: &str, theirs: Option<Self>) -> Vec<Row> {
        let figure =
            |metric, ours: usize, theirs: Option<usize>| {
                let row = Row::new(NAME, case, metric, "bytes", ours as f64)
                    .noted(if self.is_inside { INSIDE } else { OUTSIDE });
                match theirs {
                    Some(theirs) => row.against(POSTGRESQL_15, theirs as f64, Better::Lower),
                    None => row,
                }
            };
        vec![
            figure(STORED, self.stored, theirs.map(|theirs| theirs.stored)),
            figure(ROW, self.tuple_len, theirs.map(|theirs| theirs.tuple_len)),
        ]
    }
}

fn text(len: usize, method: CompressionMethod) -> ToastAttribute {
    ToastAttribute::varlena(len, Storage::Extended, Alignment::Int).with_method(method)
}

/// Documents of one field more each, in rows like those of a log of events.
fn documents(mut peer: Option<&mut Peer>) -> Result<Vec<Row>> {
    let mut rng = Rng::new(335);
    let mut rows = Vec::new();
    let mut inside = 0;
    for fields in FIELDS {
        let document = document(&mut rng, fields);
        let row = vec![
            ToastAttribute::fixed(8, Alignment::Double),
            text(4, CompressionMethod::Pglz),
            ToastAttribute::fixed(4, Alignment::Int),
            ToastAttribute::fixed(4, Alignment::Int),
            text(document.len(), CompressionMethod::Pglz),
        ];
        let ours = Kept::ours(row, document.as_bytes())?;
        let theirs = match peer.as_deref_mut() {
            None => None,
            Some(peer) => {
                peer.client.batch_execute("TRUNCATE event_log")?;
                let sql = "INSERT INTO event_log VALUES ($1, 'b53b', 35, 350, $2::text::json)";
                peer.client.execute(sql, &[&i64::try_from(fields)?, &document])?;
                Some(peer.look("event_log", "event_data")?)
            }
        };
        check(theirs.is_none_or(|theirs| theirs == ours), || {
            format!("document of {fields} fields: ours {ours:?}, the server's {theirs:?}")
        })?;
        inside += usize::from(ours.is_inside);
        rows.extend(ours.rows(&format!("document, {} bytes", document.len()), theirs));
    }
    // Documents on one side of the edge only would show nothing.
    ensure!(inside > 0 && inside < FIELDS.len(), "{inside} of {} inside", FIELDS.len());
    Ok(rows)
}

/// An object with fields in the order in which `jsonb` keeps them: short names first.
fn document(rng: &mut Rng, fields: usize) -> String {
    let fields: Vec<_> =
        (1..=fields).map(|field| format!("\"field_{field}\": {}", rng.between(1, 1000))).collect();
    format!("{{{}}}", fields.join(", "))
}

/// A kilobyte of noise in base 64, and then nothing but repeats.
fn squeeze(mut peer: Option<&mut Peer>) -> Result<Vec<Row>> {
    let noise = Corpus::Base64.text(&mut Rng::new(1024), 1385);
    let value = noise + &"Postgres! ".repeat(1000);
    let mut rows = Vec::new();
    for method in METHODS {
        let row = vec![text(method.name().len(), method), text(value.len(), method)];
        let ours = Kept::ours(row, value.as_bytes())?;
        let theirs = match peer.as_deref_mut() {
            None => None,
            Some(peer) => {
                let client = &mut peer.client;
                client.batch_execute(&format!(
                    "TRUNCATE squeeze; ALTER TABLE squeeze ALTER payload SET COMPRESSION {method}"
                ))?;
                client.execute("INSERT INTO squeeze VALUES ($1, $2)", &[&method.name(), &value])?;
                Some(peer.look("squeeze", "payload")?)
            }
        };
        let is_same = |theirs: Kept| match method {
            CompressionMethod::Pglz => theirs == ours,
            // Another encoder: another length, and the same decision.
            CompressionMethod::Lz4 => theirs.is_inside == ours.is_inside,
        };
        check(theirs.is_none_or(is_same), || {
            format!("squeeze, {method}: ours {ours:?}, the server's {theirs:?}")
        })?;
        rows.extend(ours.rows(&format!("squeeze, {method}"), theirs));
    }
    Ok(rows)
}

/// One value many times over.
struct Repeats<'a> {
    method: CompressionMethod,
    value: &'a [u8],
}

impl Repeats<'_> {
    fn time_writes(&self, peer: Option<&mut Peer>, share: Duration) -> Result<Vec<Row>> {
        let (method, value) = (self.method, self.value);
        let mut compressor = DatumCompressor::new();
        let mut datum = Vec::new();
        let mut buffer = vec![0; value.len() + LONG_HEADER_LEN];
        let mut comparison = Comparison::of(|| {
            for _ in 0..PASS_VALUES {
                datum.clear();
                let value = Varlena::Long(black_box(value));
                black_box(compressor.compress(method, &value, &mut datum));
            }
        });
        if method == CompressionMethod::Pglz && pgcommon::AVAILABLE {
            comparison = comparison.against(POSTGRESQL_C, || {
                for _ in 0..PASS_VALUES {
                    let strategy = pgcommon::CStrategy::Default;
                    black_box(pgcommon::compress(black_box(value), &mut buffer, strategy));
                }
            });
        }
        if let Some(peer) = peer {
            comparison = comparison.against_timed(POSTGRESQL_15, move || {
                peer.client.batch_execute(&format!(
                    "TRUNCATE squeeze; ALTER TABLE squeeze ALTER payload SET COMPRESSION {method}"
                ))?;
                let started = Instant::now();
                let inserted = peer.client.execute(
                    &format!(
                        "INSERT INTO squeeze SELECT '{method}', repeat('Postgres!', 10000) \
                         FROM generate_series(1, {PASS_VALUES})"
                    ),
                    &[],
                )?;
                let elapsed = started.elapsed();
                ensure!(inserted == PASS_VALUES as u64, "{inserted} rows");
                Ok(elapsed)
            });
        }
        let note = "the server: INSERT, with the making of the values and of the rows";
        Ok(self.rows("compress", &comparison.run(share)?, note))
    }

    /// After the writes: the server's table holds the values.
    fn time_reads(&self, peer: Option<&mut Peer>, share: Duration) -> Result<Vec<Row>> {
        let (method, value) = (self.method, self.value);
        let mut datum = Vec::new();
        let len = DatumCompressor::new().compress(method, &Varlena::Long(value), &mut datum);
        check(len.is_some(), || format!("{method} refuses repeats"))?;
        let stream = &datum[COMPRESSED_HEADER_LEN..];
        let mut target = vec![0; value.len()];
        decompress(method, stream, &mut target)?;
        check(target == value, || format!("{method}: other bytes came back"))?;
        let padded = pgcommon::Stream::new(stream);
        let mut other = vec![0; value.len()];
        let mut comparison = Comparison::of(|| {
            for _ in 0..PASS_VALUES {
                black_box(decompress(method, black_box(stream), &mut target).is_ok());
            }
        });
        if method == CompressionMethod::Pglz && pgcommon::AVAILABLE {
            comparison = comparison.against(POSTGRESQL_C, || {
                for _ in 0..PASS_VALUES {
                    black_box(pgcommon::decompress(black_box(&padded), &mut other));
                }
            });
        }
        if let Some(peer) = peer {
            let expected = i64::try_from(value.len() * PASS_VALUES)?;
            comparison = comparison.against_timed(POSTGRESQL_15, move || {
                let started = Instant::now();
                let row = peer.client.query_one("SELECT sum(length(payload)) FROM squeeze", &[])?;
                let elapsed = started.elapsed();
                check(row.get::<_, i64>(0) == expected, || "another sum of lengths".into())?;
                Ok(elapsed)
            });
        }
        let note = "the server: sum(length(…)), with the counting of characters";
        Ok(self.rows("decompress", &comparison.run(share)?, note))
    }

    /// Seconds for all values.
    fn rows(&self, metric: &str, timings: &crate::Timings, note: &str) -> Vec<Row> {
        let scaled = |seconds: f64| seconds * (VALUES / PASS_VALUES) as f64;
        let case = format!("100 000 × 90 kB repeats, {}", self.method);
        let ours = Row::new(NAME, case, metric, "s", scaled(timings.ours));
        if timings.peers.is_empty() {
            return vec![ours];
        }
        let beside = |peer: &crate::PeerTiming| {
            let row = ours.clone().against(peer.name, scaled(peer.seconds), Better::Lower);
            if peer.name == POSTGRESQL_15 { row.noted(note) } else { row }
        };
        timings.peers.iter().map(beside).collect()
    }
}
