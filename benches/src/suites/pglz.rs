//! pglz over many kinds of values, against PostgreSQL's C, the crate `pglz` and lz4.
use std::fs;
use std::hint::black_box;
use std::path::Path;

use anyhow::{Context, Result};
use pgtoast_pglz::{Compressor, Strategy, decompress, maximum_output_size, safe};

use super::Suite;
use crate::corpora::Corpus;
use crate::peers::pgcommon::{self, CStrategy, Stream};
use crate::peers::{LZ4_FLEX, PGLZ_CRATE, POSTGRESQL_C};
use crate::{Bench, Comparison, Row, Timings, check};

const NAME: &str = "pglz";
const COMPRESS: &str = "compress";
const FAST: &str = "decompress fast";
const SAFE: &str = "decompress safe";
/// The lengths of the values, in bytes.
const LENGTHS: [usize; 3] = [2000, 16 << 10, 256 << 10];
/// Distinct bytes in every cell, so that no branch predictor can learn them.
const CELL_BYTES: usize = 1 << 20;

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
        let cells = Cell::all(bench.input().map(|path| path.as_path()))?;
        bench.expect_steps(cells.len());
        let mut rows = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            bench.step(cell.name.clone());
            let share = bench.share(cells.len() - index) / 2;
            let streams = Streams::of(cell)?;
            rows.extend(cell.time_compress(share)?);
            rows.extend(streams.time_decompress(cell, share)?);
        }
        for metric in [COMPRESS, FAST, SAFE] {
            for peer in [POSTGRESQL_C, PGLZ_CRATE, LZ4_FLEX] {
                let summaries = Row::summaries(&rows, metric, peer);
                rows.extend(summaries);
            }
        }
        Ok(rows)
    }
}

/// Values of one kind and length.
struct Cell {
    name: String,
    values: Vec<Vec<u8>>,
}

impl Cell {
    /// Every corpus in every length; of a file, every length that it has enough bytes for.
    fn all(input: Option<&Path>) -> Result<Vec<Self>> {
        let mut cells = Vec::new();
        if let Some(path) = input {
            let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
            let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            for len in LENGTHS {
                let values: Vec<_> = bytes.chunks_exact(len).map(<[u8]>::to_vec).collect();
                if !values.is_empty() {
                    cells.push(Self { name: cell_name(&file, len), values });
                }
            }
            return Ok(cells);
        }
        for corpus in Corpus::ALL {
            for len in LENGTHS {
                let values = corpus.values(len, CELL_BYTES);
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

    /// Times compression into a buffer that is there already, refusals included.
    fn time_compress(&self, share: std::time::Duration) -> Result<Vec<Row>> {
        let room = maximum_output_size(self.longest());
        let mut compressor = Compressor::new();
        let mut target = vec![0; room];
        let mut comparison = Comparison::of(move || {
            for value in &self.values {
                black_box(
                    compressor.compress(black_box(value), &Strategy::DEFAULT, &mut target).is_ok(),
                );
            }
        });
        if pgcommon::AVAILABLE {
            let mut target = vec![0; room];
            comparison = comparison.against(POSTGRESQL_C, move || {
                for value in &self.values {
                    black_box(pgcommon::compress(
                        black_box(value),
                        &mut target,
                        CStrategy::Default,
                    ));
                }
            });
        }
        let mut target = vec![0; pglz::max_compressed_buffer_size(self.longest())];
        comparison = comparison.against(PGLZ_CRATE, move || {
            for value in &self.values {
                black_box(pglz::compress_into(
                    black_box(value),
                    &mut target,
                    &pglz::Strategy::DEFAULT,
                ));
            }
        });
        let mut target = vec![0; lz4_flex::block::get_maximum_output_size(self.longest())];
        comparison = comparison.against(LZ4_FLEX, move || {
            for value in &self.values {
                black_box(lz4_flex::block::compress_into(black_box(value), &mut target).is_ok());
            }
        });
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
            let raw = &mut raw[..value.len()];
            for decompress in [decompress, safe::decompress] {
                raw.fill(0);
                decompress(&stream, raw)?;
                check(raw == value, || format!("{}: our decoder's bytes", cell.name))?;
            }
            let for_c = Stream::new(&stream);
            if pgcommon::AVAILABLE {
                raw.fill(0);
                check(pgcommon::decompress(&for_c, raw) && raw == value, || {
                    format!("{}: PostgreSQL does not read our stream", cell.name)
                })?;
            }
            raw.fill(0);
            let len = pglz::decompress_into(&stream, raw, true);
            check(len == Some(raw.len()) && raw == value, || {
                format!("{}: the crate's decoder does not read our stream", cell.name)
            })?;
            let mut lz4 = vec![0; lz4_flex::block::get_maximum_output_size(value.len())];
            let len = lz4_flex::block::compress_into(value, &mut lz4)?;
            lz4.truncate(len);
            raw.fill(0);
            let len = lz4_flex::block::decompress_into(&lz4, raw)?;
            check(len == raw.len() && raw == value, || format!("{}: lz4's bytes", cell.name))?;
            streams.pglz.push(stream);
            streams.for_c.push(for_c);
            streams.lz4.push(lz4);
        }
        Ok(streams)
    }

    /// Times decompression of whole values into a buffer that is there already.
    fn time_decompress(&self, cell: &Cell, share: std::time::Duration) -> Result<Vec<Row>> {
        let buffer = || vec![0; cell.longest()];
        let lens = || cell.values.iter().map(Vec::len);
        let mut target = buffer();
        let mut comparison = Comparison::of(move || {
            for (stream, len) in self.pglz.iter().zip(lens()) {
                black_box(decompress(black_box(stream), &mut target[..len]).is_ok());
            }
        });
        let mut target = buffer();
        comparison = comparison.against(SAFE, move || {
            for (stream, len) in self.pglz.iter().zip(lens()) {
                black_box(safe::decompress(black_box(stream), &mut target[..len]).is_ok());
            }
        });
        if pgcommon::AVAILABLE {
            let mut target = buffer();
            comparison = comparison.against(POSTGRESQL_C, move || {
                for (stream, len) in self.for_c.iter().zip(lens()) {
                    black_box(pgcommon::decompress(black_box(stream), &mut target[..len]));
                }
            });
        }
        let mut target = buffer();
        comparison = comparison.against(PGLZ_CRATE, move || {
            for (stream, len) in self.pglz.iter().zip(lens()) {
                black_box(pglz::decompress_into(black_box(stream), &mut target[..len], true));
            }
        });
        let mut target = buffer();
        comparison = comparison.against(LZ4_FLEX, move || {
            for (stream, len) in self.lz4.iter().zip(lens()) {
                black_box(
                    lz4_flex::block::decompress_into(black_box(stream), &mut target[..len]).is_ok(),
                );
            }
        });
        let timings = comparison.run(share)?;
        let rows = |metric, timings: &Timings| {
            with_absent(Row::throughput(NAME, &cell.name, metric, cell.bytes(), timings))
        };
        let mut fast = rows(FAST, &timings.without(SAFE));
        fast.extend(rows(SAFE, &timings.seen_from(SAFE)));
        Ok(fast)
    }
}

/// Adds the row of a peer that was not there to those of the peers that were.
fn with_absent(mut rows: Vec<Row>) -> Vec<Row> {
    if !pgcommon::AVAILABLE
        && let Some(mut row) = rows.first().cloned()
    {
        (row.peer, row.ratio) = (None, None);
        rows.insert(0, row.without(POSTGRESQL_C, pgcommon::ABSENT));
    }
    rows
}

fn cell_name(kind: &str, len: usize) -> String {
    if len.is_multiple_of(1024) {
        format!("{kind} {} KiB", len / 1024)
    } else {
        format!("{kind} {len} B")
    }
}
