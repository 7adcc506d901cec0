//! Checksums, structure and whole relations checked.
use std::hint::black_box;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::{Page, set_checksum};
use pgtoast_testkit::{Server, ServerOptions};

use super::Suite;
use crate::peers::{PG_CHECKSUMS, TWIN, server};
use crate::relation_file::RelationFile;
use crate::{Bench, Comparison, Effort, Row, check};

const NAME: &str = "page";
const CHECKSUM_FLOOR: f64 = 3.0;
const RELATION_FLOOR: f64 = 1.5;
const BLOCK: BlockSize = BlockSize::KIB_8;
/// Pages a pass goes over: few enough for the second-level cache, more than the first holds.
const PAGES: usize = 16;
/// Passes in one sample.
const PASSES: usize = 64;
/// What one read of a file asks for: large enough that the call costs nothing, small enough that
/// the bytes are still in cache when they are looked at.
const READ_BYTES: usize = 256 << 10;

/// The suite `page`.
#[derive(Debug)]
pub(super) struct PageSuite;

impl Suite for PageSuite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "page checksums and structure, against a plain build of the same loop and pg_checksums"
    }

    fn run(&self, bench: &Bench) -> Result<Vec<Row>> {
        bench.expect_steps(4);
        let mut rows = in_memory(bench)?;
        bench.step("a relation, made by a server");
        match Relation::make(bench.effort()) {
            Ok(relation) => rows.extend(relation.compare(bench)?),
            Err(why) => rows.push(Row::skipped(NAME, "relation checked", format!("{why:#}"))),
        }
        Ok(rows)
    }
}

/// Pages of a made-up heap: items of many lengths from the end down, every byte of them random.
fn pages() -> Result<Vec<u8>> {
    let mut rng = pgtoast_testkit::Rng::new(1);
    let mut pages = Vec::new();
    for number in 0..u32::try_from(PAGES)? {
        let mut page = rng.bytes(BLOCK.bytes());
        let mut lower = 24;
        let mut upper = BLOCK.bytes();
        page[..24].fill(0);
        loop {
            let len = rng.between(28, 300);
            let start = upper.saturating_sub(len.next_multiple_of(8));
            if start < lower + 4 {
                break;
            }
            let pointer = u32::try_from(start | 1 << 15 | len << 17)?;
            page[lower..lower + 4].copy_from_slice(&pointer.to_le_bytes());
            (lower, upper) = (lower + 4, start);
        }
        for (offset, word) in
            [(12, lower), (14, upper), (16, BLOCK.bytes()), (18, BLOCK.bytes() | 4)]
        {
            page[offset..offset + 2].copy_from_slice(&u16::try_from(word)?.to_le_bytes());
        }
        set_checksum(&mut page, BLOCK, BlockNumber::new(number))?;
        pages.extend_from_slice(&page);
    }
    Ok(pages)
}

fn in_memory(bench: &Bench) -> Result<Vec<Row>> {
    let bytes = pages()?;
    let pages = bytes.chunks_exact(BLOCK.bytes()).map(|page| Page::new(page, BLOCK));
    let pages: Vec<_> = pages.collect::<Result<_, _>>()?;
    let numbered = || (0..).map(BlockNumber::new).zip(&pages);
    for (block, page) in numbered() {
        let (ours, twin) = (page.checksum(block), page.checksum_baseline(block));
        check(ours == twin && ours == page.header().checksum(), || {
            format!("checksum of block {block}: {ours} and {twin}")
        })?;
        check(page.verify().and(page.check()).is_ok(), || format!("block {block} is sound"))?;
    }
    let total = bytes.len() * PASSES;
    let share = bench.share(8);

    bench.step("checksum");
    let sum = |checksum: fn(&Page<'_>, BlockNumber) -> u16| {
        for _ in 0..PASSES {
            for (block, page) in numbered() {
                black_box(checksum(black_box(page), block));
            }
        }
    };
    let timings = Comparison::of(|| sum(|page, block| page.checksum(block)))
        .against(TWIN, || sum(|page, block| page.checksum_baseline(block)))
        .run(share)?;
    let mut rows = Row::throughput(NAME, "8 KiB, in cache", "checksum", total, &timings);
    for row in &mut rows {
        *row = if wide_vectors() {
            row.clone()
                .floor(CHECKSUM_FLOOR)
                .noted("the twin is the same loop, built for plain x86-64")
        } else {
            row.clone().noted("no AVX2 here, so no floor: the twin is the same loop")
        };
    }

    bench.step("structure");
    let timings = Comparison::of(|| {
        for _ in 0..PASSES {
            for page in &pages {
                let page = Page::parse(black_box(page.bytes()), BLOCK);
                black_box(page.and_then(|page| page.check()).is_ok());
            }
        }
    })
    .run(share)?;
    let nanoseconds = timings.ours * 1e9 / (PAGES * PASSES) as f64;
    rows.push(Row::new(NAME, "8 KiB, in cache", "parse and check", "ns/page", nanoseconds));
    Ok(rows)
}

/// Whether the processor has the vectors that the checksum's floor is about.
fn wide_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// A heap of a stopped cluster with checksums.
struct Relation {
    server: Server,
    path: PathBuf,
    rows: i64,
}

impl Relation {
    fn make(effort: Effort) -> Result<Self> {
        let rows: i64 = match effort {
            Effort::Quick => 1_000_000,
            Effort::Full => 8_000_000,
        };
        let mut server = Server::start(&server::distribution_15()?, &ServerOptions::new())?;
        let mut client = server.client()?;
        client.batch_execute(&format!(
            "CREATE TABLE t (id int8, at timestamptz, kind int4, name text, note text, price numeric);
             INSERT INTO t SELECT g, '2026-01-01'::timestamptz + g * interval '1 s', g % 7,
                md5(g::text), CASE WHEN g % 3 > 0 THEN repeat('note ', (g % 11)::int) END, g / 100.0
             FROM generate_series(1, {rows}) g"
        ))?;
        let path = server.relation_path(&mut client, "t")?;
        drop(client);
        server.stop()?;
        Ok(Self { server, path, rows })
    }

    fn compare(&self, bench: &Bench) -> Result<Vec<Row>> {
        bench.step("a relation, checked");
        let main = RelationFile::open(&self.path, BLOCK)?;
        ensure!(main.bytes() >= 64 << 20, "the relation has only {} bytes", main.bytes());
        // pg_checksums takes the other forks along with the one it is told of, and so do we.
        let mut files = vec![main];
        for fork in ["_fsm", "_vm"] {
            let path = PathBuf::from(format!("{}{fork}", self.path.display()));
            if path.exists() {
                files.push(RelationFile::open(&path, BLOCK)?);
            }
        }
        let found = checked(&files)?;
        check(found.rows == self.rows.unsigned_abs(), || {
            format!("{} rows found of {}", found.rows, self.rows)
        })?;
        let bytes = files.iter().map(RelationFile::bytes).sum();
        let case = format!("{} MiB heap, page cache", bytes >> 20);
        let ours = || {
            let started = Instant::now();
            checked(black_box(&files))?;
            Ok(started.elapsed())
        };
        let filenode = self.path.file_name().context("a file name")?.to_string_lossy();
        let share = bench.share(1);
        let Some(mut command) = self.server.command("pg_checksums") else {
            let timings = Comparison::of_timed(ours).run(share)?;
            let rows = Row::throughput(NAME, &case, "relation checked", bytes, &timings);
            let absent = |row: Row| row.without(PG_CHECKSUMS, "not installed");
            return Ok(rows.into_iter().map(absent).collect());
        };
        command.args(["--check", "--filenode", &filenode, "-D"]).arg(self.server.data_directory());
        let timings = Comparison::of_timed(ours)
            .against_timed(PG_CHECKSUMS, || pg_checksums(&mut command))
            .run(share)?;
        let rows = Row::throughput(NAME, &case, "relation checked", bytes, &timings);
        let note = "ours: checksum, header, line pointers and the overlap of items, one thread; \
                    pg_checksums: checksum alone, its start included";
        Ok(rows.into_iter().map(|row| row.floor(RELATION_FLOOR).noted(note)).collect())
    }
}

fn pg_checksums(command: &mut Command) -> Result<Duration> {
    let started = Instant::now();
    let status = command.stdout(Stdio::null()).status().context("run pg_checksums")?;
    let elapsed = started.elapsed();
    ensure!(status.success(), "pg_checksums ended with {status}");
    Ok(elapsed)
}

/// What a check of a relation found.
struct Checked {
    /// Stored items of the main fork, which comes first.
    rows: u64,
}

/// Checks every page of the files: the stored checksum, then the structure.
fn checked(files: &[RelationFile]) -> Result<Checked> {
    let mut buffer = vec![0; READ_BYTES];
    let mut rows = 0;
    for file in files {
        file.read(0..file.blocks(), &mut buffer, |first, bytes| {
            for (block, bytes) in (first.get()..).zip(bytes.chunks_exact(BLOCK.bytes())) {
                let page = Page::parse(bytes, BLOCK).with_context(|| format!("block {block}"))?;
                let verdict = page.verify_checksum(BlockNumber::new(block)).and(page.check());
                check(verdict.is_ok(), || format!("block {block}: {verdict:?}"))?;
                rows += u64::from(page.item_count());
            }
            Ok(())
        })?;
    }
    Ok(Checked { rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn made_up_pages_are_sound_and_hold_many_items() {
        let bytes = pages().unwrap();
        for (block, page) in (0..).zip(bytes.chunks_exact(BLOCK.bytes())) {
            let page = Page::parse(page, BLOCK).unwrap();
            page.check().unwrap();
            page.verify_checksum(BlockNumber::new(block)).unwrap();
            assert!(page.item_count() > 20);
        }
    }

    #[test]
    fn a_flipped_bit_in_a_file_is_a_wrong_answer() {
        let path = std::env::temp_dir().join(format!("bench-page-{}", std::process::id()));
        let mut bytes = pages().unwrap();
        let open = |path: &Path| RelationFile::open(path, BLOCK).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        assert!(checked(&[open(&path)]).unwrap().rows > 300);
        bytes[5 * BLOCK.bytes() + 5000] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = checked(&[open(&path)]).map(|found| found.rows).unwrap_err();
        assert!(error.downcast_ref::<crate::WrongAnswer>().is_some(), "{error}");
        std::fs::remove_file(path).unwrap();
    }
}
