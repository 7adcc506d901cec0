//! The check of a data directory: against `pg_checksums`, which does a small part of it, and against
//! nothing but reading the files; and forty damaged rows found among very many.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pgtoast_base::{BlockNumber, ItemPointer};
use pgtoast_datadir::check::{Check, Coverage, Finding, Severity};
use pgtoast_datadir::{DataDirectory, Database, FileSource, RelationFork};
use pgtoast_page::{Item, LinePointer, Page, TupleDescriptor, Value, set_checksum};
use pgtoast_testkit::{Server, ServerOptions};
use pgtoast_toast::{ValueIdWidth, page_chunks};
use pgtoast_varlena::{ToastPointer, Varlena};

use super::Suite;
use crate::peers::server;
use crate::row::Better;
use crate::{Bench, Comparison, Effort, Row, check};

const NAME: &str = "datadir";
const CHECK: &str = "check";
const PG_CHECKSUMS: &str = "pg_checksums -c";
const PLAIN_READ: &str = "plain read";
const ONE_THREAD: &str = "one thread";
const CHECK_FLOOR: f64 = 1.5;
/// A check takes at most three times as long as reading.
const READ_FLOOR: f64 = 1.0 / 3.0;
const MOST_MEMORY: f64 = 256.0;
/// In milliseconds.
const MOST_OPENING: f64 = 300.0;
const DAMAGED: usize = 40;

/// The suite `datadir`.
#[derive(Debug)]
pub(super) struct DatadirSuite;

impl Suite for DatadirSuite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "check of a whole cluster against pg_checksums and a plain read; 40 of 200 000 rows damaged"
    }

    fn run(&self, bench: &Bench) -> Result<Vec<Row>> {
        bench.expect_steps(if bench.effort() == Effort::Full { 10 } else { 6 });
        bench.step("a server");
        let mut server = Server::start(&server::distribution_15()?, &ServerOptions::new())?;
        bench.step("fill");
        fill(&server, SMALL)?;
        server.stop()?;
        let mut rows = Vec::new();
        if bench.effort() == Effort::Full {
            bench.step("a large cluster");
            let path = large_cluster()?;
            rows.extend(whole(bench, &server, &path, 4)?);
        }
        let path = server.data_directory();
        rows.extend(whole(bench, &server, &path, 2)?);
        bench.step("damage");
        rows.extend(damaged(&path, bench.share(1))?);
        Ok(rows)
    }
}

/// All there is to measure of a healthy cluster, in its part of the time that is left.
fn whole(bench: &Bench, server: &Server, path: &Path, part: usize) -> Result<Vec<Row>> {
    let mut bytes = 0;
    let files = files_of(path)?;
    for file in &files {
        bytes += fs::metadata(file)?.len();
    }
    let case = format!("cluster of {} MB", bytes / 1_000_000);
    bench.step("open");
    let mut rows = vec![opening(path, &case, bench.share(part * 4))?];
    bench.step(CHECK);
    rows.extend(compare(server, path, &files, bytes, &case, bench.share(part))?);
    bench.step("memory");
    rows.push(memory(path, &case)?);
    Ok(rows)
}

/// How many rows tables have.
#[derive(Clone, Copy)]
struct Rows {
    documents: u32,
    narrow: u32,
}

const SMALL: Rows = Rows { documents: 200_000, narrow: 400_000 };
const LARGE: Rows = Rows { documents: 1_200_000, narrow: 8_000_000 };

/// A cluster of more than 4 GB, which is made once and kept below the target directory.
fn large_cluster() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).unwrap_or(Path::new("target"));
    let Rows { documents, narrow } = LARGE;
    let kept = target.join("bench-clusters").join(format!("datadir-15-{documents}-{narrow}"));
    if kept.join("PG_VERSION").exists() {
        return Ok(kept);
    }
    let mut server = Server::start(&server::distribution_15()?, &ServerOptions::new())?;
    fill(&server, LARGE)?;
    server.stop()?;
    fs::create_dir_all(kept.parent().context("a folder has a parent")?)?;
    // `mv` copies where the two are on different file systems.
    let moved = Command::new("mv").arg(server.data_directory()).arg(&kept).status()?;
    ensure!(moved.success(), "the cluster could not be kept in {}", kept.display());
    Ok(kept)
}

/// Tables of each sort: long values, their rows, narrow rows with an index.
fn fill(server: &Server, Rows { documents, narrow }: Rows) -> Result<()> {
    let mut client = server.client()?;
    // One batch is one transaction: a table made in it needs no log.
    client.batch_execute(&format!(
        "CREATE TABLE documents (id int4, body bytea, note text);
         ALTER TABLE documents ALTER body SET STORAGE EXTERNAL;
         WITH piece(v) AS MATERIALIZED (
             SELECT string_agg(decode(md5(i::text), 'hex'), '') FROM generate_series(1, 65536) i)
         INSERT INTO documents
         SELECT g, substr(v, (1 + g::int8 * 7919 % 1000000)::int4, 2100 + g % 700), 'note ' || g
         FROM piece, generate_series(1, {documents}) g"
    ))?;
    client.batch_execute(&format!(
        "CREATE TABLE narrow (id int4, at timestamptz, amount numeric, note text);
         INSERT INTO narrow SELECT g, now(), g * 1.25, 'entry number ' || g
         FROM generate_series(1, {narrow}) g;
         CREATE INDEX ON narrow (id)"
    ))?;
    client.batch_execute("VACUUM (FREEZE) documents")?;
    client.batch_execute("VACUUM narrow")?;
    Ok(())
}

/// Opens the cluster and looks at what there is in it, as whoever asks for a summary does.
fn opening(path: &Path, case: &str, share: Duration) -> Result<Row> {
    let open = || {
        let started = Instant::now();
        let directory = DataDirectory::open(path)?;
        let (mut blocks, mut toasted) = (0, 0);
        for entry in directory.databases() {
            let database = Database::open(&directory, entry)?;
            for relation in database.relations().filter(|one| one.kind.has_storage()) {
                let fork = database.fork(relation, pgtoast_datadir::Fork::Main)?;
                blocks += u64::from(fork.map_or(0, |fork| fork.block_count()));
                toasted += u64::from(database.toast_of(relation).is_some());
            }
        }
        let elapsed = started.elapsed();
        check(blocks > 10_000 && toasted > 50, || format!("only {blocks} blocks, {toasted}"))?;
        Ok(elapsed)
    };
    let timings = Comparison::of_timed(open).run(share)?;
    Ok(Row::new(NAME, case, "open", "ms", timings.ours * 1e3)
        .against("allowed", MOST_OPENING, Better::Lower)
        .floor(1.0)
        .noted("all databases, their catalogs, and the size of every relation"))
}

fn compare(
    server: &Server,
    path: &Path,
    files: &[PathBuf],
    bytes: u64,
    case: &str,
    share: Duration,
) -> Result<Vec<Row>> {
    let ours = |check: Check| {
        move || {
            let started = Instant::now();
            let (coverage, findings) = run(path, check)?;
            let elapsed = started.elapsed();
            self::check(findings.is_empty(), || {
                format!("found in a healthy cluster: {findings:?}")
            })?;
            // It reads what pg_checksums reads: every relation there is.
            self::check(coverage.bytes >= bytes / 10 * 9, || format!("only {coverage:?}"))?;
            Ok(elapsed)
        }
    };
    let timings = Comparison::of_timed(ours(Check::new()))
        .against_timed(PG_CHECKSUMS, || pg_checksums(server, path))
        .against_timed(PLAIN_READ, || read_all(files))
        .against_timed(ONE_THREAD, ours(Check::new().with_threads(1)))
        .run(share)?;
    let size = usize::try_from(bytes)?;
    let two = Row::throughput(NAME, case, CHECK, size, &timings.without(ONE_THREAD));
    let one =
        Row::throughput(NAME, case, "check, one thread", size, &timings.seen_from(ONE_THREAD));
    // The floors are the command's, which takes as many threads as there are cores.
    let held = |row: Row| match row.peer_name.as_deref() {
        Some(PG_CHECKSUMS) => row.floor(CHECK_FLOOR),
        Some(PLAIN_READ) => row.floor(READ_FLOOR),
        _ => row,
    };
    Ok(two
        .into_iter()
        .map(held)
        .chain(one)
        .map(|row| row.noted("page cache hot; the peers have one thread"))
        .collect())
}

fn run(path: &Path, check: Check) -> Result<(Coverage, Vec<Finding>)> {
    let directory = DataDirectory::open(path)?;
    let mut findings = Vec::new();
    let coverage = check.directory(&directory, &mut |finding: Finding| findings.push(finding));
    Ok((coverage, findings))
}

/// The most memory that the process had while it checked.
fn memory(path: &Path, case: &str) -> Result<Row> {
    // Where the system lets nobody lower the mark, it is that of the whole run so far.
    let lowered = fs::OpenOptions::new()
        .write(true)
        .open("/proc/self/clear_refs")
        .and_then(|mut file| file.write_all(b"5"));
    let (coverage, _) = run(path, Check::new().with_deep(true))?;
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: f64 = peak.context("no peak")?.trim().trim_end_matches(" kB").parse()?;
    let row = Row::new(NAME, case, "peak memory", "MB", kilobytes * 1024.0 / 1e6)
        .against("allowed", MOST_MEMORY, Better::Lower)
        .floor(1.0)
        .noted(format!("{} values, the whole process", coverage.values));
    Ok(if lowered.is_ok() { row } else { row.noted("with what the suite did before") })
}

fn pg_checksums(server: &Server, path: &Path) -> Result<Duration> {
    let mut command = server.command("pg_checksums").context("no pg_checksums")?;
    let started = Instant::now();
    let output = command.arg("--check").arg("-D").arg(path).output()?;
    let elapsed = started.elapsed();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(elapsed)
}

/// The files of relations: those that `pg_checksums` reads.
fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![path.join("global")];
    for entry in fs::read_dir(path.join("base"))? {
        folders.push(entry?.path());
    }
    for folder in folders {
        for entry in fs::read_dir(folder)? {
            let file = entry?.path();
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with(|first: char| first.is_ascii_digit()) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// Reads the files from front to back, half a megabyte at a time.
fn read_all(files: &[PathBuf]) -> Result<Duration> {
    let started = Instant::now();
    let mut buffer = vec![0; 512 << 10];
    for path in files {
        let mut file = fs::File::open(path)?;
        while file.read(&mut buffer)? > 0 {}
    }
    Ok(started.elapsed())
}

/// Damages rows of the table of documents, each in one of several ways with the checksums made anew, and
/// times how long it takes to find them.
fn damaged(path: &Path, share: Duration) -> Result<Vec<Row>> {
    let directory = DataDirectory::open(path)?;
    let database = directory.database("postgres")?.context("no database")?;
    let relation = database.relation_named("public.documents").context("no table")?;
    let count = relation.estimated_rows;
    let expected = inflict(&database, path)?;
    let files = |fork: RelationFork| FileSource::new(path).path(fork.file());
    let main = database.fork(relation, pgtoast_datadir::Fork::Main)?.context("no file")?;
    let toast = database.toast_of(relation).context("no TOAST relation")?;
    let toast = database.fork(toast, pgtoast_datadir::Fork::Main)?.context("no file")?;
    let mut both = vec![files(main.clone()), files(toast.clone())];
    for segment in 1.. {
        let next = PathBuf::from(format!("{}.{segment}", both[1].display()));
        if !next.exists() {
            break;
        }
        both.push(next);
    }
    let bytes =
        (main.block_count() as usize + toast.block_count() as usize) * main.block_size().bytes();
    let ours = || {
        let started = Instant::now();
        let mut found = BTreeSet::new();
        let mut others = Vec::new();
        Check::new().relations(&database, [relation], &mut |finding: Finding| {
            match finding.tid() {
                Some(tid) if finding.subject.oid == relation.oid => {
                    found.insert(tid);
                }
                // The value of a row that was led astray is nobody's, and the index does not agree with
                // chunks that were damaged.
                _ if finding.severity() <= Severity::Derived => {}
                _ => others.push(finding),
            }
        });
        let elapsed = started.elapsed();
        check(found == expected, || format!("found {found:?}, not {expected:?}"))?;
        check(others.is_empty(), || format!("also {others:?}"))?;
        Ok(elapsed)
    };
    let timings =
        Comparison::of_timed(ours).against_timed(PLAIN_READ, || read_all(&both)).run(share)?;
    let case = format!("{DAMAGED} of {count} rows damaged");
    Ok(Row::throughput(NAME, &case, CHECK, bytes, &timings)
        .into_iter()
        .map(|row| row.floor(READ_FLOOR).noted("each named by its place and column, nothing else"))
        .collect())
}

/// Where a damaged row is, and what was pointed to.
struct Victim {
    tid: ItemPointer,
    pointer_offset: usize,
    pointer: ToastPointer,
}

fn inflict(database: &Database, path: &Path) -> Result<BTreeSet<ItemPointer>> {
    let relation = database.relation_named("public.documents").context("no table")?;
    let toast = database.toast_of(relation).context("no TOAST relation")?;
    let main = database.fork(relation, pgtoast_datadir::Fork::Main)?.context("no file")?;
    let toast = database.fork(toast, pgtoast_datadir::Fork::Main)?.context("no file")?;
    let victims = victims(database, relation)?;
    let mut chunks = BTreeMap::new();
    let wanted: BTreeSet<_> = victims.iter().filter_map(|one| one.pointer.value_id()).collect();
    let mut blocks = toast.all_blocks();
    while let Some(next) = blocks.next() {
        let (block, bytes) = next?;
        let page = Page::new(bytes, toast.block_size())?;
        for chunk in page_chunks(&page, block, ValueIdWidth::Oid) {
            let chunk = chunk?;
            if wanted.contains(&chunk.value_id) {
                chunks.insert((chunk.value_id, chunk.seq), chunk.tid.context("no tid")?);
            }
        }
    }
    for (number, victim) in victims.iter().enumerate() {
        let value_id = victim.pointer.value_id().context("no id")?;
        let chunk = |seq: i32| chunks.get(&(value_id, seq)).copied().context("no chunk");
        let at = victim.pointer_offset;
        match number % 8 {
            0 => edit(path, &toast, chunk(0)?, |page, pointer, _| unlink(page, pointer))?,
            1 => edit(path, &toast, chunk(1)?, |page, pointer, _| unlink(page, pointer))?,
            2 => edit(path, &toast, chunk(1)?, |page, _, item| page[item + 28] ^= 0x40)?,
            3 => edit(path, &toast, chunk(0)?, |page, _, item| page[item + 32] ^= 0x40)?,
            4 => edit(path, &main, victim.tid, |page, _, item| page[item + at + 1] = 99)?,
            5 => edit(path, &main, victim.tid, |page, _, item| page[item + at + 13] ^= 0x7f)?,
            6 => edit(path, &main, victim.tid, |page, _, item| page[item + 22] = 40)?,
            _ => edit(path, &main, victim.tid, |page, _, item| page[item + at + 6] ^= 1)?,
        }
    }
    Ok(victims.iter().map(|victim| victim.tid).collect())
}

fn victims(database: &Database, relation: &pgtoast_datadir::Relation) -> Result<Vec<Victim>> {
    let table = database.table(relation)?;
    let attributes = table.columns().attributes();
    let descriptor = TupleDescriptor::new(&attributes)?;
    let rows = relation.estimated_rows;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of rows")]
    let stride = rows as usize / DAMAGED;
    let (mut victims, mut number) = (Vec::new(), 0_usize);
    let mut rows = table.rows();
    while let Some(row) = rows.next() {
        let row = row?;
        number += 1;
        if number % stride != 0 || victims.len() == DAMAGED {
            continue;
        }
        let body = row.deform(descriptor)?.nth(1).context("no body")??;
        let Value::Stored(datum) = body.value else { continue };
        let Varlena::External(pointer) = datum.varlena()? else { continue };
        victims.push(Victim { tid: row.tid, pointer_offset: datum.offset, pointer });
    }
    ensure!(victims.len() == DAMAGED, "only {} rows", victims.len());
    Ok(victims)
}

/// Changes a page on disk: `change` gets its bytes, and where the line pointer and the item are.
fn edit(
    path: &Path,
    fork: &RelationFork,
    tid: ItemPointer,
    change: impl FnOnce(&mut [u8], usize, usize),
) -> Result<()> {
    let (file, offset) = fork.place(tid.block);
    let mut bytes = vec![0; fork.block_size().bytes()];
    let file =
        fs::OpenOptions::new().read(true).write(true).open(FileSource::new(path).path(file))?;
    file.read_exact_at(&mut bytes, offset)?;
    let page = Page::new(&bytes, fork.block_size())?;
    ensure!(matches!(page.item(tid.item)?, Item::Normal(_)), "no tuple at {tid}");
    let item = page.line_pointer(tid.item).context("no line pointer")?.offset();
    let pointer = 24 + tid.item.index().context("no item")? * LinePointer::LEN;
    change(&mut bytes, pointer, item.into());
    set_checksum(&mut bytes, fork.block_size(), BlockNumber::new(tid.block.get()))?;
    file.write_all_at(&bytes, offset)?;
    Ok(())
}

fn unlink(page: &mut [u8], pointer: usize) {
    page[pointer..pointer + LinePointer::LEN].fill(0);
}
