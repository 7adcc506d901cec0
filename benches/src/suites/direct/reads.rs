//! Whole values, slices and streams, each beside the least it could take in the same memory.
use std::cell::RefCell;
use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;
use pgtoast_base::maxalign;
use pgtoast_testkit::Rng;

use super::value::{Stored, check_bytes};
use super::{MIB, NAME, PARAMETERS, RELATION, STREAM_BYTES};
use crate::measure::on_processor;
use crate::row::Better;
use crate::{Comparison, Row};

/// Four pieces of a page after the other copied into one buffer.
const GATHER: &str = "gather";
/// As many bytes at a place that is known only when those before have come.
const RANDOM_READ: &str = "one random read";
const FULL_FLOOR: f64 = 0.7;
const SLICE_FLOOR: f64 = 1.0 / 6.0;
const SLICE_BYTES: usize = 100;
/// Slices of one sample.
const SLICES: usize = 5_000;
/// A sample of small values reads so many bytes.
const SAMPLE_BYTES: usize = 32 * MIB;

/// A leaf's bytes before its data, header and length word.
pub(super) const LEAF_HEAD: usize = 32;
pub(super) const LEAVES_A_PAGE: usize = 4;

/// The whole value into a buffer that is used again and again.
pub(super) fn full(
    value: &Stored,
    buffer: &mut [u8],
    case: &str,
    share: Duration,
) -> Result<Vec<Row>> {
    let pages: Vec<_> = value.store.pages().collect();
    for (what, read) in [("read", true), ("gathered", false)] {
        buffer.fill(0);
        if read {
            let _ = RELATION.read_into(&value.store, &value.pointer, buffer)?;
        } else {
            gather(&pages, buffer);
        }
        check_bytes(buffer, 0..value.len, &format!("{case} {what}"))?;
    }
    let passes = (SAMPLE_BYTES / value.len).max(1);
    let buffer = RefCell::new(buffer);
    let timings = Comparison::of_timed(|| {
        on_processor(|| {
            for _ in 0..passes {
                let mut buffer = buffer.borrow_mut();
                let _ = RELATION.read_into(&value.store, &value.pointer, &mut buffer)?;
                black_box(&mut buffer);
            }
            Ok(())
        })
    })
    .against(GATHER, || {
        for _ in 0..passes {
            let mut buffer = buffer.borrow_mut();
            gather(&pages, &mut buffer);
            black_box(&mut buffer);
        }
    })
    .run(share)?;
    let rows = Row::throughput(NAME, case, "full read", passes * value.len, &timings);
    Ok(rows.into_iter().map(|row| row.floor(FULL_FLOOR)).collect())
}

/// Copies the leaves of a value without looking at anything: they fill the first pages, each page from
/// its end downwards.
fn gather(pages: &[&[u8]], target: &mut [u8]) {
    let chunk = PARAMETERS.chunk_bytes();
    let tuple = maxalign(LEAF_HEAD + chunk);
    for (page, pieces) in pages.iter().zip(target.chunks_mut(LEAVES_A_PAGE * chunk)) {
        let mut end = page.len();
        for piece in pieces.chunks_mut(chunk) {
            // The last leaf may be shorter than the others.
            let start = end - tuple.min(maxalign(LEAF_HEAD + piece.len())) + LEAF_HEAD;
            piece.copy_from_slice(&page[start..start + piece.len()]);
            end = start - LEAF_HEAD;
        }
    }
}

/// Small slices, each at a place that follows from what the one before has read. `bytes` are those of
/// the value, read from directly by the peer.
pub(super) fn slices(
    value: &Stored,
    bytes: &[u8],
    case: &str,
    share: Duration,
) -> Result<Vec<Row>> {
    let (mut ours, mut theirs) = (Rng::new(1), Rng::new(1));
    // The next place: random, and moved by the byte that was read last.
    let bound = value.len - SLICE_BYTES - usize::from(u8::MAX);
    let (mut our_slice, mut their_slice) = ([0; SLICE_BYTES], [0; SLICE_BYTES]);
    let timings = Comparison::of_timed(|| {
        let mut offset = 0;
        let time = on_processor(|| {
            for _ in 0..SLICES {
                offset = ours.below(bound) + usize::from(our_slice[0]);
                let _ =
                    RELATION.slice_into(&value.store, &value.pointer, offset, &mut our_slice)?;
            }
            Ok(())
        })?;
        check_bytes(&our_slice, offset..offset + SLICE_BYTES, case)?;
        Ok(time)
    })
    .against_timed(RANDOM_READ, || {
        let mut offset = 0;
        let time = on_processor(|| {
            for _ in 0..SLICES {
                offset = theirs.below(bound) + usize::from(their_slice[0]);
                their_slice.copy_from_slice(black_box(&bytes[offset..offset + SLICE_BYTES]));
            }
            Ok(())
        })?;
        check_bytes(&their_slice, offset..offset + SLICE_BYTES, case)?;
        Ok(time)
    })
    .run(share)?;
    let nanoseconds = |seconds: f64| seconds * 1e9 / SLICES as f64;
    let peer = timings.peer(RANDOM_READ).map_or(f64::NAN, nanoseconds);
    let row = Row::new(NAME, case, "slice of 100 bytes", "ns", nanoseconds(timings.ours));
    Ok(vec![row.against(RANDOM_READ, peer, Better::Lower).floor(SLICE_FLOOR)])
}

/// The whole value piece by piece, through a source.
pub(super) fn stream(value: &Stored, case: &str, share: Duration) -> Result<Vec<Row>> {
    let mut piece = vec![0; STREAM_BYTES];
    let mut source = RELATION.source(&value.store, &value.pointer)?;
    let mut at = 0;
    while at < value.len {
        let len = source.read(&mut piece)?;
        check_bytes(&piece[..len], at..at + len, &format!("{case} as a stream"))?;
        at += len;
    }
    drop(source);
    let timings = Comparison::of_timed(|| {
        on_processor(|| {
            let mut source = RELATION.source(&value.store, &value.pointer)?;
            while source.read(&mut piece)? > 0 {
                black_box(&mut piece);
            }
            Ok(())
        })
    })
    .run(share)?;
    let rows = Row::throughput(NAME, case, "streaming read", value.len, &timings);
    Ok(rows.into_iter().map(|row| row.noted("in pieces of 64 KiB")).collect())
}
