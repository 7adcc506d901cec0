//! A relation that a real server wrote, checked whole: checksum and structure.
use std::hint::black_box;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pgtoast_base::BlockNumber;
use pgtoast_page::Page;
use pgtoast_testkit::{Server, ServerOptions};

use super::{BLOCK, NAME};
use crate::peers::{PG_CHECKSUMS, server};
use crate::{Bench, Comparison, Effort, RelationFile, Row, check};

const FLOOR: f64 = 1.5;
/// What one read of a file asks for: large enough that the call costs nothing, small enough that
/// the bytes are still in cache when they are looked at.
const READ_BYTES: usize = 256 << 10;

/// A heap of a stopped cluster with checksums.
pub(super) struct Relation {
    server: Server,
    path: PathBuf,
    rows: i64,
}

impl Relation {
    pub(super) fn make(effort: Effort) -> Result<Self> {
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

    pub(super) fn compare(&self, bench: &Bench) -> Result<Vec<Row>> {
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
        Ok(rows.into_iter().map(|row| row.floor(FLOOR).noted(note)).collect())
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

    use super::super::pages;

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
