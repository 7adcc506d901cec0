//! Every page of a whole cluster, in all its forks, carries the checksum that we compute, and passes
//! the checks that we make of a page. A server of each major wrote the cluster and stopped cleanly.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::{Page, PageError};
use pgtoast_testkit::{Server, ServerOptions, Survey, report};

const TEST: &str = "checksums_of_a_whole_cluster_equal_ours";

#[test]
fn checksums_of_a_whole_cluster_equal_ours() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let mut server = Server::start(installation, &ServerOptions::new())?;
        fill(&server)?;
        server.stop()?;
        let mut counts = Counts::default();
        for file in relation_files(&server.data_directory())? {
            counts.file(&file)?;
        }
        counts.assert_all_kinds();
        report::count(TEST, format_args!("{}: {}", installation.major(), counts.text()));
        if installation.program("pg_checksums").is_some() {
            agree_with_pg_checksums(&server, &counts)?;
        } else {
            let why = format!("PostgreSQL {} comes without it", installation.major());
            report::skip("pg_checksums_counts_the_same_blocks", why);
            the_server_reads_every_block(&mut server)?;
        }
        Ok(())
    })
}

/// Relations of every access method, an unlogged one for its init fork, holes for the free space
/// map, and rolled back work.
fn fill(server: &Server) -> Result<()> {
    let mut client = server.client()?;
    client.batch_execute(
        "CREATE TABLE t (id int4 PRIMARY KEY, words text, box box, tags int4[], pad text);
        INSERT INTO t SELECT n, md5(n::text), box(point(n, n), point(n + 1, n + 2)),
            ARRAY[n % 10, n % 7], repeat(md5(n::text), n % 150) FROM generate_series(1, 5000) n;
        ALTER TABLE t ALTER pad SET STORAGE EXTERNAL;
        INSERT INTO t SELECT n, md5(n::text), NULL, NULL, repeat(md5(n::text), 100)
            FROM generate_series(5001, 5500) n;
        CREATE INDEX ON t USING hash (words); CREATE INDEX ON t USING gist (box);
        CREATE INDEX ON t USING gin (tags); CREATE INDEX ON t USING brin (id);
        CREATE INDEX ON t USING spgist (words);
        CREATE UNLOGGED TABLE u (id int4 PRIMARY KEY, words text);
        INSERT INTO u SELECT n, md5(n::text) FROM generate_series(1, 1000) n;
        CREATE SEQUENCE s; SELECT nextval('s');
        CREATE MATERIALIZED VIEW m AS SELECT * FROM t WHERE id % 3 = 0;",
    )?;
    client.batch_execute("DELETE FROM t WHERE id % 4 = 0")?;
    client.batch_execute(
        "BEGIN; INSERT INTO t SELECT n FROM generate_series(6000, 7000) n; ROLLBACK",
    )?;
    client.batch_execute("VACUUM t")?;
    client.batch_execute("UPDATE t SET words = words || 'x' WHERE id % 5 = 0")?;
    Ok(())
}

/// What was seen.
#[derive(Default)]
struct Counts {
    files: usize,
    blocks: usize,
    /// Blocks that were never initialised and have no checksum.
    new: usize,
    /// Pages whose checksum stayed right after one bit was flipped.
    unnoticed: usize,
    /// Pages by the fork they were in.
    forks: BTreeMap<String, usize>,
}

impl Counts {
    fn file(&mut self, file: &RelationFile) -> Result<()> {
        let bytes = fs::read(&file.path)?;
        let block_size = BlockSize::default();
        ensure!(bytes.len().is_multiple_of(block_size.bytes()), "{}", file.path.display());
        self.files += 1;
        for (number, bytes) in (file.first_block..).zip(bytes.chunks_exact(block_size.bytes())) {
            let what = || format!("{} block {number}", file.path.display());
            let page = Page::new(bytes, block_size).with_context(what)?;
            page.verify().with_context(what)?;
            page.verify_checksum(BlockNumber::new(number)).with_context(what)?;
            page.check().with_context(what)?;
            self.blocks += 1;
            if page.is_new() {
                self.new += 1;
            } else {
                let stored = page.header().checksum();
                assert_eq!(page.checksum(BlockNumber::new(number)), stored, "{}", what());
                *self.forks.entry(file.fork.clone()).or_default() += 1;
                self.unnoticed += usize::from(!one_flipped_bit_is_noticed(bytes, number));
            }
        }
        Ok(())
    }

    fn assert_all_kinds(&self) {
        for fork in ["main", "fsm", "vm", "init"] {
            assert!(self.forks.contains_key(fork), "no page of fork {fork}");
        }
        assert!(self.blocks > 2000, "{} blocks", self.blocks);
        // Sixteen bits cannot tell every page from every other: one in 65535 is to be expected.
        assert!(self.unnoticed <= 3, "{} flipped bits went unnoticed", self.unnoticed);
    }

    fn text(&self) -> String {
        let Self { files, blocks, new, forks, unnoticed } = self;
        format!(
            "{blocks} blocks of {files} files equal, {new} of them new; pages by fork: {forks:?}; \
             of a flipped bit each, {unnoticed} unnoticed"
        )
    }
}

/// A comparison that finds everything equal shows something only if it can find a difference.
fn one_flipped_bit_is_noticed(bytes: &[u8], number: u32) -> bool {
    let mut spoilt = bytes.to_vec();
    let at = 24 + usize::try_from(number).expect("a block number") * 37 % (bytes.len() - 24);
    spoilt[at] ^= 1 << (number % 8);
    let page = Page::new(&spoilt, BlockSize::default()).expect("a page of the right length");
    matches!(page.verify_checksum(BlockNumber::new(number)), Err(PageError::Checksum { .. }))
}

/// The server's own program counts the same blocks and finds none of them bad.
fn agree_with_pg_checksums(server: &Server, counts: &Counts) -> Result<()> {
    let mut command = server.command("pg_checksums").context("pg_checksums")?;
    let output = command.arg("--check").arg("-D").arg(server.data_directory()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{text}");
    let number = |label: &str| -> Result<usize> {
        let line = text.lines().find_map(|line| line.strip_prefix(label));
        Ok(line.with_context(|| format!("no {label:?} in {text}"))?.trim().parse()?)
    };
    assert_eq!(number("Files scanned:")?, counts.files);
    assert_eq!(number("Blocks scanned:")?, counts.blocks);
    assert_eq!(number("Bad checksums:")?, 0);
    Ok(())
}

/// Without its program: the server reads every fork of every relation of a database, which fails on
/// a bad checksum, and has counted none.
fn the_server_reads_every_block(server: &mut Server) -> Result<()> {
    server.start_again()?;
    let mut client = server.client()?;
    client.batch_execute("CREATE EXTENSION pg_prewarm")?;
    let sql = "SELECT sum(pg_prewarm(oid::regclass, 'buffer', fork))::int8 \
               FROM pg_class, unnest(ARRAY['main', 'fsm', 'vm', 'init']) fork \
               WHERE relkind IN ('r', 'i', 't', 'm', 'S') \
                   AND pg_relation_size(oid::regclass, fork) > 0";
    let blocks: i64 = client.query_one(sql, &[])?.get(0);
    ensure!(blocks > 1000, "only {blocks} blocks read");
    let sql = "SELECT coalesce(sum(checksum_failures), 0)::int8 FROM pg_stat_database";
    let failures: i64 = client.query_one(sql, &[])?.get(0);
    assert_eq!(failures, 0);
    server.stop()
}

struct RelationFile {
    path: PathBuf,
    fork: String,
    /// Number of its first block in the fork.
    first_block: u32,
}

fn relation_files(data_directory: &Path) -> Result<Vec<RelationFile>> {
    let mut directories = vec![data_directory.join("global")];
    for entry in fs::read_dir(data_directory.join("base"))? {
        directories.push(entry?.path());
    }
    let mut files = Vec::new();
    for directory in directories {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let Some((fork, first_block)) = parse_name(name) {
                files.push(RelationFile { fork, first_block, path });
            }
        }
    }
    Ok(files)
}

/// `16384`, `16384_fsm`, `16384.1`, `16384_vm.2`; anything else is no relation's file.
fn parse_name(name: &str) -> Option<(String, u32)> {
    const SEGMENT_BLOCKS: u32 = 131_072;
    let (stem, segment) = name.split_once('.').unwrap_or((name, "0"));
    let (number, fork) = stem.split_once('_').unwrap_or((stem, "main"));
    number.parse::<u32>().ok()?;
    Some((fork.to_owned(), segment.parse::<u32>().ok()? * SEGMENT_BLOCKS))
}
