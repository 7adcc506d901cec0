//! Values written in pieces, beside a copy of them into pages that are built for it.
use std::time::Duration;

use anyhow::Result;
use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber};
use pgtoast_direct::{ChunkStore, MemoryStore};
use pgtoast_page::PageMut;
use pgtoast_varlena::DirectPointer;

use super::reads::{LEAF_HEAD, LEAVES_A_PAGE};
use super::value::check_bytes;
use super::{BLOCK, MIB, NAME, PARAMETERS, RELATION, STREAM_BYTES};
use crate::measure::on_processor;
use crate::{Comparison, Row, check};

const PAGES_BUILT: &str = "pages built";
const WRITE_FLOOR: f64 = 1.0 / 1.5;
/// Pages that memory is taken for at once, as the store does.
const SEGMENT_PAGES: usize = 1024;
/// Where a leaf's number and its length word are in its tuple.
const SEQ_AT: usize = 24;
const LENGTH_AT: usize = 28;

/// A value in pieces of [`STREAM_BYTES`] into a store that is empty.
pub(super) fn stream(value: &[u8], case: &str, share: Duration) -> Result<Vec<Row>> {
    let head = check_pages(value, case)?;
    let timings = Comparison::of_timed(|| on_processor(|| write(value).map(drop)))
        .against_timed(PAGES_BUILT, || on_processor(|| build(value, head).map(drop)))
        .run(share)?;
    let rows = Row::throughput(NAME, case, "streaming write", value.len(), &timings);
    Ok(rows.into_iter().map(|row| row.floor(WRITE_FLOOR)).collect())
}

fn write(value: &[u8]) -> Result<(MemoryStore, DirectPointer)> {
    let mut store = MemoryStore::new(BLOCK);
    let mut writer = RELATION.writer(&mut store);
    for piece in value.chunks(STREAM_BYTES) {
        writer.write(piece)?;
    }
    let root = writer.finish()?.root;
    let pointer = RELATION.pointer(root, value.len())?;
    Ok((store, pointer))
}

/// The same leaves in the same pages, by somebody who knows what is coming and keeps no account of it.
fn build(value: &[u8], mut head: [u8; LEAF_HEAD]) -> Result<Vec<Vec<u8>>> {
    let chunk = PARAMETERS.chunk_bytes();
    let page_bytes = LEAVES_A_PAGE * chunk;
    let mut segments = Vec::new();
    let (mut block, mut seq) = (0, 0_i32);
    for part in value.chunks(SEGMENT_PAGES * page_bytes) {
        let mut segment = vec![0; part.len().div_ceil(page_bytes) * BLOCK.bytes()];
        let pages = segment.chunks_exact_mut(BLOCK.bytes());
        for (bytes, pieces) in pages.zip(part.chunks(page_bytes)) {
            let mut page = PageMut::init(bytes, BLOCK, 0)?;
            for piece in pieces.chunks(chunk) {
                let word = u32::try_from(piece.len() + 4)? << 2;
                head[SEQ_AT..LENGTH_AT].copy_from_slice(&seq.to_le_bytes());
                head[LENGTH_AT..].copy_from_slice(&word.to_le_bytes());
                page.insert_tuple_with(
                    BlockNumber::new(block),
                    LEAF_HEAD + piece.len(),
                    |tuple| {
                        tuple[..LEAF_HEAD].copy_from_slice(&head);
                        tuple[LEAF_HEAD..].copy_from_slice(piece);
                    },
                )?;
                seq += 1;
            }
            block += 1;
        }
        segments.push(segment);
    }
    Ok(segments)
}

/// Insists that both ways give the same pages, but for the last, where the store has nodes as well; and
/// that the value is read back. Returns what a leaf begins with.
fn check_pages(value: &[u8], case: &str) -> Result<[u8; LEAF_HEAD]> {
    // A gigabyte is not needed for that.
    let value = &value[..value.len().min(8 * MIB)];
    let (store, pointer) = write(value)?;
    let mut read = vec![0; value.len()];
    let _ = RELATION.read_into(&store, &pointer, &mut read)?;
    check_bytes(&read, 0..value.len(), case)?;
    let first = ItemPointer::new(BlockNumber::new(0), OffsetNumber::FIRST);
    let tuple = store.fetch(first)?;
    let head = tuple.first_chunk().copied().unwrap_or([0; LEAF_HEAD]);
    let built = build(value, head)?;
    let built = built.iter().flat_map(|segment| segment.chunks_exact(BLOCK.bytes()));
    let full_pages = value.len() / (LEAVES_A_PAGE * PARAMETERS.chunk_bytes());
    let same = store.pages().zip(built).take(full_pages).all(|(ours, theirs)| ours == theirs);
    check(same, || format!("{case}: pages differ"))?;
    Ok(head)
}
