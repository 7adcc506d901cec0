//! `pgtoast-nbtree` held against live servers in both directions.
//!
//! - `same_file`: after the same inserts our file equals the server's, byte for byte; so does the file
//!   of the same rows packed, and each log record is as long.
//! - `placed`: indexes that we wrote, put under a stopped server, are its own when it starts again.
mod placed;
mod same_file;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber, Oid8};
use pgtoast_nbtree::{Index, Key, KeyWidth, MemoryPages, Meta};
use pgtoast_page::set_checksum;
use pgtoast_testkit::inspect;
use pgtoast_testkit::postgres::Row;

const SIZE: BlockSize = BlockSize::KIB_8;

/// A row of a table: `ctid::text, chunk_id::int8, chunk_seq`.
fn entry(row: &Row) -> Result<(Key, ItemPointer)> {
    let (block, item) = inspect::tid(row.get(0))?;
    let (id, seq): (i64, i32) = (row.get(1), row.get(2));
    let key = Key::new(Oid8::new(u64::try_from(id)?), seq);
    Ok((key, ItemPointer::new(BlockNumber::new(block), OffsetNumber::new(item))))
}

/// Writes a relation's file, with checksums.
fn put_under(path: &Path, mut bytes: Vec<u8>) -> Result<usize> {
    let len = bytes.len();
    for (block, page) in (0..).map(BlockNumber::new).zip(bytes.chunks_exact_mut(SIZE.bytes())) {
        set_checksum(page, SIZE, block)?;
    }
    std::fs::write(path, bytes)?;
    let fsm = path
        .with_file_name(format!("{}_fsm", path.file_name().context("a file")?.to_string_lossy()));
    if fsm.exists() {
        std::fs::remove_file(fsm)?;
    }
    Ok(len / SIZE.bytes())
}

/// The file of the index of a TOAST relation, as a server of that release has it: 14 holds that entries of
/// these are never to be merged, and says so in the metapage.
fn toast_index_file(index: Index<MemoryPages>, major: u32) -> Result<Vec<u8>> {
    let mut bytes = index.into_pages().to_bytes();
    if major < 15 {
        let page = &mut bytes[..SIZE.bytes()];
        Meta::parse(page)?.without_equal_images().init(page, SIZE);
    }
    Ok(bytes)
}

/// Both files, block by block, log positions and checksums apart.
fn ensure_same(ours: &[u8], theirs: &[u8], what: &str) -> Result<()> {
    ensure!(
        ours.len() == theirs.len(),
        "{what}: {} bytes, the server's file has {}",
        ours.len(),
        theirs.len()
    );
    let blocks = ours.chunks_exact(SIZE.bytes()).zip(theirs.chunks_exact(SIZE.bytes()));
    for (block, (ours, theirs)) in blocks.enumerate() {
        if ours[10..] != theirs[10..] {
            let at = (10..ours.len()).find(|at| ours[*at] != theirs[*at]).unwrap_or_default();
            anyhow::bail!(
                "{what}: block {block} differs at byte {at}: {:02x?}, the server has {:02x?}\n\
                 headers {:02x?} and {:02x?}",
                &ours[at..(at + 16).min(ours.len())],
                &theirs[at..(at + 16).min(theirs.len())],
                &ours[10..20],
                &theirs[10..20],
            );
        }
    }
    Ok(())
}

fn id_type(width: KeyWidth) -> &'static str {
    match width {
        KeyWidth::Oid => "oid",
        // The same bytes and, below 2^63, the same order.
        KeyWidth::Oid8 => "int8",
    }
}
