//! What `pgtoast-direct` writes and reads, held against live servers, which know nothing of it: to them a
//! chunk relation is a table of five columns.
//!
//! - `placed`: a relation that we wrote, put under a stopped server's table, is sound to that server, and a
//!   recursive query over `ctid` rebuilds every value in it.
//! - `by_sql`: values that SQL wrote as trees of chunks, some of them beside plain values and in a table that
//!   got its last two columns later, are read by us from the table's file.
mod by_sql;
mod placed;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Rng, Server};

/// A chunk relation as an ordinary table, and its index, which has entries for plain values alone.
struct ChunkTable {
    name: &'static str,
    path: PathBuf,
}

impl ChunkTable {
    /// `id_type` is the type of `chunk_id`: no server has 64-bit object ids, and `int8` looks the same.
    fn create(
        server: &Server,
        client: &mut Client,
        name: &'static str,
        id_type: &str,
    ) -> Result<Self> {
        client.batch_execute(&format!(
            "CREATE TABLE {name} (chunk_id {id_type}, chunk_seq int4, chunk_data bytea, \
                                  chunk_tids tid[], chunk_tid_offsets int8[]);
             ALTER TABLE {name} ALTER chunk_data SET STORAGE PLAIN, ALTER chunk_tids SET STORAGE PLAIN, \
                                ALTER chunk_tid_offsets SET STORAGE PLAIN;"
        ))?;
        Self::open(server, client, name)
    }

    /// The table of that name, with an index added to it.
    fn open(server: &Server, client: &mut Client, name: &'static str) -> Result<Self> {
        client.batch_execute(&format!(
            "CREATE UNIQUE INDEX {name}_ids ON {name} (chunk_id, chunk_seq) WHERE chunk_id IS NOT NULL"
        ))?;
        Ok(Self { name, path: server.relation_path(client, name)? })
    }

    /// Neither the heap nor the index has anything that the server's own tools object to.
    fn is_sound(&self, client: &mut Client) -> Result<()> {
        let sql = "SELECT format('block %s item %s attribute %s: %s', blkno, offnum, attnum, msg) \
                   FROM verify_heapam($1::text::regclass)";
        let findings = client.query(sql, &[&self.name])?;
        let texts: Vec<String> = findings.iter().map(|row| row.get(0)).collect();
        ensure!(texts.is_empty(), "{}: {texts:?}", self.name);
        let sql = format!("SELECT bt_index_check('{}_ids', true)", self.name);
        client.batch_execute(&sql)?;
        Ok(())
    }

    fn index_bytes(&self, client: &mut Client) -> Result<i64> {
        let sql = format!("SELECT pg_relation_size('{}_ids')", self.name);
        Ok(client.query_one(&sql, &[])?.get(0))
    }
}

/// The server found no wrong checksum in anything that it has read.
fn no_wrong_checksums(client: &mut Client) -> Result<()> {
    let sql = "SELECT coalesce(sum(checksum_failures), 0)::int8 FROM pg_stat_database";
    let failures: i64 = client.query_one(sql, &[])?.get(0);
    ensure!(failures == 0, "{failures} wrong checksums");
    Ok(())
}

/// Removes what belongs to the old content of a relation's file.
fn remove_maps(path: &Path) -> Result<()> {
    for fork in ["_fsm", "_vm"] {
        let mut name = path.to_path_buf().into_os_string();
        name.push(fork);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).context("a map");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Lengths at which a tree changes its shape, and many between: `chunk` is a full leaf.
fn lengths(rng: &mut Rng, chunk: usize, count: usize, longest: usize) -> Vec<usize> {
    let leaves = [1, 2, 11, 99, 100, 101, 150, 151, 161, 2500, 2501];
    let mut lengths = vec![1, 2, 126, 127, 1600, 22_400, 320_000];
    for leaves in leaves {
        let full = leaves * chunk;
        lengths.extend([full - 1, full, full + 1]);
    }
    lengths.retain(|len| *len < longest);
    lengths.push(longest);
    while lengths.len() < count {
        // As many short ones as long ones: by the length's number of bits.
        let most = 1 << rng.between(1, 19);
        lengths.push(rng.between(1, most));
    }
    lengths
}

/// What was compared on one server, for the report.
#[derive(Default)]
struct Compared {
    values: usize,
    bytes: usize,
}

impl Compared {
    fn add(&mut self, len: usize) {
        self.values += 1;
        self.bytes += len;
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values, {} bytes", self.values, self.bytes)
    }
}
