//! pglz over many kinds of values, against PostgreSQL's C, the crate `pglz` and lz4.
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pgtoast_pglz::{Compressor, DenseCompressor, Strategy, decompress, maximum_output_size, safe};
use rustix::time::{ClockId, clock_gettime};

use super::Suite;
use crate::corpora::Corpus;
use crate::instructions::{self, counted};
use crate::peers::pgcommon::{self, CStrategy, Stream};
use crate::peers::{LZ4_FLEX, PGLZ_CRATE, POSTGRESQL_C};
use crate::row::Better;
use crate::{Bench, Comparison, Effort, Row, Timings, check};

const NAME: &str = "pglz";
const COMPRESS: &str = "compress";
const FAST: &str = "decompress fast";
const SAFE: &str = "decompress safe";
const DENSE: &str = "dense size";
/// The lengths of the values, in bytes.
const LENGTHS: [usize; 4] = [300, 2000, 16 << 10, 256 << 10];
/// Those of a quick run.
const QUICK_LENGTHS: [usize; 2] = [2000, 16 << 10];
/// Distinct bytes in every cell, so that no branch predictor can learn them.
const CELL_BYTES: usize = 1 << 20;
/// The same where instructions are counted: there is nothing to learn, and it takes long.
const COUNTED_BYTES: usize = 64 << 10;

/// Bytes of a cell that the dense compressor is given: it takes its time.
const DENSE_BYTES: usize = 1 << 18;
/// By metric and peer, the floors of the geometric mean and of the worst cell.
const FLOORS: [(&str, &str, Option<f64>, Option<f64>); 6] = [
    (COMPRESS, POSTGRESQL_C, Some(1.7), Some(1.0)),
    (FAST, POSTGRESQL_C, Some(2.0), Some(1.0)),
    (SAFE, POSTGRESQL_C, Some(1.3), Some(1.0)),
    (COMPRESS, PGLZ_CRATE, Some(1.2), None),
    (FAST, PGLZ_CRATE, Some(1.6), None),
    // Four percent smaller.
    (DENSE, POSTGRESQL_C, Some(1.042), None),
];

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
        let lengths: &[usize] = match bench.effort() {
            Effort::Quick => &QUICK_LENGTHS,
            Effort::Full => &LENGTHS,
        };
        let cells = Cell::all(input, lengths, CELL_BYTES)?;
        bench.expect_steps(cells.len());
        let mut rows = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            bench.step(cell.name.clone());
            let share = bench.share(cells.len() - index) / 2;
            let streams = Streams::of(cell)?;
            rows.extend(cell.time_compress(share)?);
            rows.extend(streams.time_decompress(share)?);
            rows.extend(streams.weigh_dense(cell)?);
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
                rows.extend(held_to_floors(summaries, &metric, peer));
            }
        }
        Ok(rows)
    }

    fn workload(&self, name: &str, input: Option<&Path>) -> Result<()> {
        let (metric, contender) = name.split_once(':').context("no contender")?;
        let contender = Contender::named(contender)?;
        for cell in Cell::all(input, &LENGTHS, COUNTED_BYTES)? {
            let streams = if metric == COMPRESS { None } else { Some(Streams::of(&cell)?) };
            let mut pass = match &streams {
                None => cell.compress(contender),
                Some(streams) => streams.decompress(contender),
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

/// Gives the summaries of a metric and peer their floors.
fn held_to_floors(summaries: Vec<Row>, metric: &str, peer: &str) -> Vec<Row> {
    let floors = FLOORS.iter().find(|floors| (floors.0, floors.1) == (metric, peer));
    let Some(&(_, _, geomean, worst)) = floors else { return summaries };
    let held = |row: Row| match if row.case == "geomean" { geomean } else { worst } {
        Some(floor) => row.floor(floor),
        None => row,
    };
    summaries.into_iter().map(held).collect()
}

/// Values of one kind and length.
struct Cell {
    name: String,
    values: Vec<Vec<u8>>,
}

impl Cell {
    /// Every corpus in every length; of a file, every length that it has enough bytes for.
    fn all(input: Option<&Path>, lengths: &[usize], bytes: usize) -> Result<Vec<Self>> {
        let mut cells = Vec::new();
        if let Some(path) = input {
            let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
            let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            for &len in lengths {
                let values: Vec<_> = content.chunks_exact(len).map(<[u8]>::to_vec).collect();
                if !values.is_empty() {
                    cells.push(Self { name: cell_name(&file, len), values });
                }
            }
            ensure!(!cells.is_empty(), "{} has less than {} bytes", path.display(), lengths[0]);
            return Ok(cells);
        }
        for corpus in Corpus::ALL {
            for &len in lengths {
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
        let mut comparison = Comparison::of_timed(timed(self.compress(Contender::Ours)));
        for peer in Contender::PEERS.into_iter().filter(|peer| peer.is_there()) {
            comparison = comparison.against_timed(peer.name(), timed(self.compress(peer)));
        }
        let timings = comparison.run(share)?;
        Ok(with_absent(Row::throughput(NAME, &self.name, COMPRESS, self.bytes(), &timings)))
    }
}

/// The compressed forms of a cell's values, each checked; of those that get smaller at all.
struct Streams<'a> {
    cell: &'a str,
    values: Vec<&'a [u8]>,
    pglz: Vec<Vec<u8>>,
    for_c: Vec<Stream>,
    lz4: Vec<Vec<u8>>,
    /// How many the default strategy refuses.
    refused: usize,
}

impl<'a> Streams<'a> {
    /// Compresses every value with every contender, and insists that those of one format agree to
    /// the byte and that everything comes back. What the default strategy refuses is compressed with
    /// "always", so that there is something to decompress.
    fn of(cell: &'a Cell) -> Result<Self> {
        let mut compressor = Compressor::new();
        let mut target = vec![0; maximum_output_size(cell.longest())];
        let mut streams = Self {
            cell: &cell.name,
            values: Vec::new(),
            pglz: Vec::new(),
            for_c: Vec::new(),
            lz4: Vec::new(),
            refused: 0,
        };
        let mut raw = vec![0; cell.longest()];
        for value in &cell.values {
            let default = compressor.compress_to_vec(value, &Strategy::DEFAULT);
            if pgcommon::AVAILABLE {
                let len = pgcommon::compress(value, &mut target, CStrategy::Default);
                check(len.map(|len| &target[..len]) == default.as_deref(), || {
                    format!("{}: our stream is not PostgreSQL's", cell.name)
                })?;
            }
            streams.refused += usize::from(default.is_none());
            let always = || compressor.compress_to_vec(value, &Strategy::ALWAYS);
            let Some(stream) = default.or_else(always) else { continue };
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
            streams.values.push(value);
            streams.pglz.push(stream);
            streams.for_c.push(for_c);
            streams.lz4.push(lz4);
        }
        Ok(streams)
    }

    /// Decompression of whole values into a buffer that is there already.
    fn decompress(&self, contender: Contender) -> Box<dyn FnMut() + '_> {
        let lens = || self.values.iter().map(|value| value.len());
        let mut target = vec![0; lens().max().unwrap_or(0)];
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

    fn time_decompress(&self, share: Duration) -> Result<Vec<Row>> {
        if self.values.is_empty() {
            return Ok(Vec::new());
        }
        let safe = Contender::Safe.name();
        let mut comparison = Comparison::of_timed(timed(self.decompress(Contender::Ours)))
            .against_timed(safe, timed(self.decompress(Contender::Safe)));
        for peer in Contender::PEERS.into_iter().filter(|peer| peer.is_there()) {
            comparison = comparison.against_timed(peer.name(), timed(self.decompress(peer)));
        }
        let timings = comparison.run(share)?;
        let bytes = self.values.iter().map(|value| value.len()).sum();
        let rows = |metric, timings: &Timings| {
            with_absent(Row::throughput(NAME, self.cell, metric, bytes, timings))
        };
        let mut both = rows(FAST, &timings.without(safe));
        both.extend(rows(SAFE, &timings.seen_from(safe)));
        if self.refused > 0 {
            let note = format!("{} values refused by the default strategy", self.refused);
            both = both.into_iter().map(|row| row.noted(note.clone())).collect();
        }
        Ok(both)
    }

    /// The dense compressor's bytes beside PostgreSQL's, where the default strategy accepts the
    /// values and they are long enough for it to matter.
    fn weigh_dense(&self, cell: &Cell) -> Result<Option<Row>> {
        if self.refused > 0 || cell.longest() < 2000 {
            return Ok(None);
        }
        let mut compressor = DenseCompressor::new();
        let (mut dense, mut plain, mut seen) = (0, 0, 0);
        for (value, stream) in self.values.iter().zip(&self.pglz) {
            let Some(ours) = compressor.compress_to_vec(value) else { continue };
            let mut raw = vec![0; value.len()];
            let is_read = if pgcommon::AVAILABLE {
                pgcommon::decompress(&Stream::new(&ours), &mut raw)
            } else {
                safe::decompress(&ours, &mut raw).is_ok()
            };
            check(is_read && raw == *value, || format!("{}: the dense stream", self.cell))?;
            dense += ours.len();
            plain += stream.len();
            seen += value.len();
            if seen >= DENSE_BYTES {
                break;
            }
        }
        let row = Row::new(NAME, self.cell, DENSE, "bytes", dense as f64);
        Ok(Some(row.against(POSTGRESQL_C, plain as f64, Better::Lower)))
    }
}

/// Rows of instructions a byte of raw value, for every cell; or one that says why there are none.
fn count_instructions(bench: &Bench, input: Option<&Path>) -> Result<Vec<Row>> {
    let cells = Cell::all(input, &LENGTHS, COUNTED_BYTES)?;
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

/// Times a pass by the processor time of this thread: on a machine that others use too, the wall clock
/// would time them as well.
fn timed<'a>(mut work: impl FnMut() + 'a) -> impl FnMut() -> Result<Duration> + 'a {
    move || {
        let start = thread_time()?;
        work();
        Ok(thread_time()?.saturating_sub(start))
    }
}

fn thread_time() -> Result<Duration> {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Ok(Duration::new(time.tv_sec.try_into()?, time.tv_nsec.try_into()?))
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
