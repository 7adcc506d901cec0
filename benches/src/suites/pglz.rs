//! pglz over many kinds of values, against PostgreSQL's C, the crate `pglz` and lz4.
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pgtoast_pglz::{Compressor, Strategy, decompress, maximum_output_size, safe};

use super::Suite;
use crate::corpora::Corpus;
use crate::instructions::{self, counted};
use crate::peers::pgcommon::{self, CStrategy, Stream};
use crate::peers::{LZ4_FLEX, PGLZ_CRATE, POSTGRESQL_C};
use crate::row::Better;
use crate::{Bench, Comparison, Row, Timings, check};

const NAME: &str = "pglz";
const COMPRESS: &str = "compress";
const FAST: &str = "decompress fast";
const SAFE: &str = "decompress safe";
/// The lengths of the values, in bytes.
const LENGTHS: [usize; 3] = [2000, 16 << 10, 256 << 10];
/// Distinct bytes in every cell, so that no branch predictor can learn them.
const CELL_BYTES: usize = 1 << 20;
/// The same where instructions are counted: there is nothing to learn, and it takes long.
const COUNTED_BYTES: usize = 64 << 10;

/// The suite `pglz`.
#[derive(Debug)]
pub(super) struct PglzSuite;

impl Suite for PglzSuite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "PostgreSQL's codec, both ways, over values of many kinds and lengths"
    }

    fn run(&self, bench: &Bench) -> Result<Vec<Row>> {
        let input = bench.input().map(|path| path.as_path());
        let cells = Cell::all(input, CELL_BYTES)?;
        bench.expect_steps(cells.len());
        let mut rows = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            bench.step(cell.name.clone());
            let share = bench.share(cells.len() - index) / 2;
            let streams = Streams::of(cell)?;
            rows.extend(cell.time_compress(share)?);
            rows.extend(streams.time_decompress(cell, share)?);
        }
        if bench.instructions() {
            rows.extend(count_instructions(bench, input)?);
        }
        let mut metrics: Vec<String> = Vec::new();
        for row in &rows {
            if !metrics.contains(&row.metric) {
                metrics.push(row.metric.clone());
            }
        }
        for metric in metrics {
            for peer in [POSTGRESQL_C, PGLZ_CRATE, LZ4_FLEX] {
                let summaries = Row::summaries(&rows, &metric, peer);
                rows.extend(summaries);
            }
        }
        Ok(rows)
    }

    fn workload(&self, name: &str, input: Option<&Path>) -> Result<()> {
        let (metric, contender) = name.split_once(':').context("no contender")?;
        let contender = Contender::named(contender)?;
        for cell in Cell::all(input, COUNTED_BYTES)? {
            let streams = if metric == COMPRESS { None } else { Some(Streams::of(&cell)?) };
            let mut pass = match &streams {
                None => cell.compress(contender),
                Some(streams) => streams.decompress(&cell, contender),
            };
            pass();
            counted(&mut pass);
        }
        Ok(())
    }
}

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Ours,
    /// Our decompressor without unsafe code.
    Safe,
    C,
    Crate,
    Lz4,
}

impl Contender {
    const ALL: [Self; 5] = [Self::Ours, Self::Safe, Self::C, Self::Crate, Self::Lz4];
    const PEERS: [Self; 3] = [Self::C, Self::Crate, Self::Lz4];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Safe => SAFE,
            Self::C => POSTGRESQL_C,
            Self::Crate => PGLZ_CRATE,
            Self::Lz4 => LZ4_FLEX,
        }
    }

    fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|contender| contender.name() == name);
        found.with_context(|| format!("no contender {name:?}"))
    }

    fn is_there(self) -> bool {
        self != Self::C || pgcommon::AVAILABLE
    }
}

/// Values of one kind and length.
struct Cell {
    name: String,
    values: Vec<Vec<u8>>,
}

impl Cell {
    /// Every corpus in every length; of a file, every length that it has enough bytes for.
    fn all(input: Option<&Path>, bytes: usize) -> Result<Vec<Self>> {
        let mut cells = Vec::new();
        if let Some(path) = input {
            let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
            let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            for len in LENGTHS {
                let values: Vec<_> = content.chunks_exact(len).map(<[u8]>::to_vec).collect();
                if !values.is_empty() {
                    cells.push(Self { name: cell_name(&file, len), values });
                }
            }
            ensure!(!cells.is_empty(), "{} has less than {} bytes", path.display(), LENGTHS[0]);
            return Ok(cells);
        }
        for corpus in Corpus::ALL {
            for len in LENGTHS {
                let values = corpus.values(len, bytes);
                cells.push(Self { name: cell_name(corpus.name(), len), values });
            }
        }
        Ok(cells)
    }

    fn bytes(&self) -> usize {
        self.values.iter().map(Vec::len).sum()
    }

    fn longest(&self) -> usize {
        self.values.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Compression of all values into a buffer that is there already, refusals included.
    fn compress(&self, contender: Contender) -> Box<dyn FnMut() + '_> {
        let longest = self.longest();
        match contender {
            Contender::Ours | Contender::Safe => {
                let mut compressor = Compressor::new();
                let mut target = vec![0; maximum_output_size(longest)];
                Box::new(move || {
                    for value in &self.values {
                        let value = black_box(value.as_slice());
                        let stream = compressor.compress(value, &Strategy::DEFAULT, &mut target);
                        black_box(stream.is_ok());
                    }
                })
            }
            Contender::C => {
                let mut target = vec![0; maximum_output_size(longest)];
                Box::new(move || {
                    for value in &self.values {
                        let value = black_box(value.as_slice());
                        black_box(pgcommon::compress(value, &mut target, CStrategy::Default));
                    }
                })
            }
            Contender::Crate => {
                let mut target = vec![0; pglz::max_compressed_buffer_size(longest)];
                Box::new(move || {
                    for value in &self.values {
                        let value = black_box(value.as_slice());
                        let strategy = &pglz::Strategy::DEFAULT;
                        black_box(pglz::compress_into(value, &mut target, strategy));
                    }
                })
            }
            Contender::Lz4 => {
                let mut target = vec![0; lz4_flex::block::get_maximum_output_size(longest)];
                Box::new(move || {
                    for value in &self.values {
                        let value = black_box(value.as_slice());
                        black_box(lz4_flex::block::compress_into(value, &mut target).is_ok());
                    }
                })
            }
        }
    }

    fn time_compress(&self, share: Duration) -> Result<Vec<Row>> {
        let mut comparison = Comparison::of(self.compress(Contender::Ours));
        for peer in Contender::PEERS.into_iter().filter(|peer| peer.is_there()) {
            comparison = comparison.against(peer.name(), self.compress(peer));
        }
        let timings = comparison.run(share)?;
        Ok(with_absent(Row::throughput(NAME, &self.name, COMPRESS, self.bytes(), &timings)))
    }
}

/// The compressed forms of a cell's values, each checked.
struct Streams {
    pglz: Vec<Vec<u8>>,
    for_c: Vec<Stream>,
    lz4: Vec<Vec<u8>>,
}

impl Streams {
    /// Compresses every value with every contender, and insists that those of one format agree to
    /// the byte and that everything comes back. What the default strategy refuses is compressed with
    /// "always", so that there is something to decompress.
    fn of(cell: &Cell) -> Result<Self> {
        let mut compressor = Compressor::new();
        let mut target = vec![0; maximum_output_size(cell.longest())];
        let mut streams = Self { pglz: Vec::new(), for_c: Vec::new(), lz4: Vec::new() };
        let mut raw = vec![0; cell.longest()];
        for value in &cell.values {
            let default = compressor.compress_to_vec(value, &Strategy::DEFAULT);
            if pgcommon::AVAILABLE {
                let len = pgcommon::compress(value, &mut target, CStrategy::Default);
                check(len.map(|len| &target[..len]) == default.as_deref(), || {
                    format!("{}: our stream is not PostgreSQL's", cell.name)
                })?;
            }
            let stream = match default {
                Some(stream) => stream,
                None => compressor
                    .compress_to_vec(value, &Strategy::ALWAYS)
                    .with_context(|| format!("{}: refused by every strategy", cell.name))?,
            };
            let for_c = Stream::new(&stream);
            let lz4 = lz4_stream(value)?;
            let raw = &mut raw[..value.len()];
            for contender in Contender::ALL.into_iter().filter(|one| one.is_there()) {
                raw.fill(0);
                let is_read = match contender {
                    Contender::Ours => decompress(&stream, raw).is_ok(),
                    Contender::Safe => safe::decompress(&stream, raw).is_ok(),
                    Contender::C => pgcommon::decompress(&for_c, raw),
                    Contender::Crate => {
                        pglz::decompress_into(&stream, raw, true) == Some(raw.len())
                    }
                    Contender::Lz4 => lz4_flex::block::decompress_into(&lz4, raw)
                        .is_ok_and(|len| len == raw.len()),
                };
                check(is_read && raw == value, || {
                    format!("{}: {} does not give the value back", cell.name, contender.name())
                })?;
            }
            streams.pglz.push(stream);
            streams.for_c.push(for_c);
            streams.lz4.push(lz4);
        }
        Ok(streams)
    }

    /// Decompression of whole values into a buffer that is there already.
    fn decompress<'a>(&'a self, cell: &'a Cell, contender: Contender) -> Box<dyn FnMut() + 'a> {
        let mut target = vec![0; cell.longest()];
        let lens = || cell.values.iter().map(Vec::len);
        match contender {
            Contender::Ours => Box::new(move || {
                for (stream, len) in self.pglz.iter().zip(lens()) {
                    black_box(decompress(black_box(stream), &mut target[..len]).is_ok());
                }
            }),
            Contender::Safe => Box::new(move || {
                for (stream, len) in self.pglz.iter().zip(lens()) {
                    black_box(safe::decompress(black_box(stream), &mut target[..len]).is_ok());
                }
            }),
            Contender::C => Box::new(move || {
                for (stream, len) in self.for_c.iter().zip(lens()) {
                    black_box(pgcommon::decompress(black_box(stream), &mut target[..len]));
                }
            }),
            Contender::Crate => Box::new(move || {
                for (stream, len) in self.pglz.iter().zip(lens()) {
                    black_box(pglz::decompress_into(black_box(stream), &mut target[..len], true));
                }
            }),
            Contender::Lz4 => Box::new(move || {
                for (stream, len) in self.lz4.iter().zip(lens()) {
                    let target = &mut target[..len];
                    black_box(lz4_flex::block::decompress_into(black_box(stream), target).is_ok());
                }
            }),
        }
    }

    fn time_decompress(&self, cell: &Cell, share: Duration) -> Result<Vec<Row>> {
        let safe = Contender::Safe.name();
        let mut comparison = Comparison::of(self.decompress(cell, Contender::Ours))
            .against(safe, self.decompress(cell, Contender::Safe));
        for peer in Contender::PEERS.into_iter().filter(|peer| peer.is_there()) {
            comparison = comparison.against(peer.name(), self.decompress(cell, peer));
        }
        let timings = comparison.run(share)?;
        let rows = |metric, timings: &Timings| {
            with_absent(Row::throughput(NAME, &cell.name, metric, cell.bytes(), timings))
        };
        let mut both = rows(FAST, &timings.without(safe));
        both.extend(rows(SAFE, &timings.seen_from(safe)));
        Ok(both)
    }
}

/// Rows of instructions a byte of raw value, for every cell; or one that says why there are none.
fn count_instructions(bench: &Bench, input: Option<&Path>) -> Result<Vec<Row>> {
    let cells = Cell::all(input, COUNTED_BYTES)?;
    let mut rows = Vec::new();
    for (metric, ours) in
        [(COMPRESS, Contender::Ours), (FAST, Contender::Ours), (SAFE, Contender::Safe)]
    {
        let mut counts = Vec::new();
        let peers = Contender::PEERS.into_iter().filter(|peer| peer.is_there());
        for contender in [ours].into_iter().chain(peers) {
            bench.step(format!("instructions: {metric}, {}", contender.name()));
            let workload = format!("{NAME}:{metric}:{}", contender.name());
            match instructions::count(&workload, input) {
                Ok(found) => counts.push((contender, found)),
                Err(why) => {
                    return Ok(vec![Row::skipped(NAME, "instructions", format!("{why:#}"))]);
                }
            }
        }
        let Some(((_, ours), peers)) = counts.split_first() else { continue };
        for (index, cell) in cells.iter().enumerate() {
            let a_byte = |counts: &[u64]| {
                let count = counts.get(index).with_context(|| format!("no count {}", cell.name))?;
                anyhow::Ok(*count as f64 / cell.bytes() as f64)
            };
            let metric = format!("{metric}, instructions");
            for (peer, counts) in peers {
                let row = Row::new(NAME, &cell.name, &metric, "instr/B", a_byte(ours)?);
                rows.push(row.against(peer.name(), a_byte(counts)?, Better::Lower));
            }
        }
    }
    Ok(rows)
}

/// Adds the row of a peer that was not there to those of the peers that were.
fn with_absent(mut rows: Vec<Row>) -> Vec<Row> {
    if !Contender::C.is_there()
        && let Some(mut row) = rows.first().cloned()
    {
        (row.peer, row.ratio) = (None, None);
        rows.insert(0, row.without(POSTGRESQL_C, pgcommon::ABSENT));
    }
    rows
}

fn lz4_stream(value: &[u8]) -> Result<Vec<u8>> {
    let mut stream = vec![0; lz4_flex::block::get_maximum_output_size(value.len())];
    let len = lz4_flex::block::compress_into(value, &mut stream)?;
    stream.truncate(len);
    Ok(stream)
}

fn cell_name(kind: &str, len: usize) -> String {
    if len.is_multiple_of(1024) {
        format!("{kind} {} KiB", len / 1024)
    } else {
        format!("{kind} {len} B")
    }
}
