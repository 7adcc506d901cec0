//! What a new version of a value writes, and how long that takes.
use anyhow::Result;
use pgtoast_direct::{Edited, MemoryStore};
use pgtoast_varlena::DirectPointer;

use super::value::{Stored, check_bytes};
use super::{BLOCK, KIB, MIB, NAME, RELATION, at_most};
use crate::measure::on_processor;
use crate::row::Better;
use crate::{Bench, Comparison, Row, check};

const MOST_TUPLES: f64 = 6.0;
const MOST_BYTES: f64 = 32.0 * 1024.0;
const MOST_PER_APPENDED: f64 = 1.1;
const APPENDS: usize = 64;
const APPENDED: usize = 64 * KIB;
/// Edits of one sample, each of the same old version.
const EDITS: usize = 50;
const WHOLE: &str = "written anew";

/// All but those of the largest value.
pub(super) fn compare(bench: &Bench) -> Result<Vec<Row>> {
    let mut value = Stored::make(8 * MIB)?;
    let mut rows = one_byte(&mut value, "8 MiB")?;
    rows.extend(times(value, "8 MiB", bench)?);
    for (len, case) in [(64 * KIB, "64 KiB"), (8 * MIB, "8 MiB")] {
        rows.push(appends(Stored::make(len)?, case)?);
    }
    Ok(rows)
}

/// One changed byte, at several places: the most that one of them writes.
pub(super) fn one_byte(value: &mut Stored, case: &str) -> Result<Vec<Row>> {
    let (mut tuples, mut bytes) = (0, 0);
    for offset in [0, 1995, value.len / 3, value.len / 2, value.len - 1] {
        value.store.reset_counts();
        let edited = RELATION.patch(&mut value.store, &value.pointer, offset, b"!")?;
        let counts = value.store.counts();
        check(edited.written as u64 == counts.inserts, || format!("{case}: {counts:?}"))?;
        (tuples, bytes) = (counts.inserts.max(tuples), counts.inserted_bytes.max(bytes));
        check_versions(value, &edited, offset, case)?;
    }
    Ok(vec![
        at_most(case, "one byte changed, tuples", "tuples", tuples as f64, MOST_TUPLES),
        at_most(case, "one byte changed, bytes", "bytes", bytes as f64, MOST_BYTES)
            .noted("headers included; the goal is 12 KiB"),
    ])
}

/// Insists that the new version has the byte and the old one what it had.
fn check_versions(value: &Stored, edited: &Edited, offset: usize, case: &str) -> Result<()> {
    let start = offset.saturating_sub(1000);
    let range = start..value.len.min(offset + 1000);
    let mut bytes = vec![0; range.len()];
    let _ = RELATION.slice_into(&value.store, &value.pointer, start, &mut bytes)?;
    check_bytes(&bytes, range.clone(), case)?;
    let old = bytes[offset - start];
    let _ = RELATION.slice_into(&value.store, &edited.pointer, start, &mut bytes)?;
    check(bytes[offset - start] == b'!', || format!("{case}: byte {offset} is as it was"))?;
    bytes[offset - start] = old;
    check_bytes(&bytes, range, case)
}

/// What many appends write, one after the other.
fn appends(mut value: Stored, case: &str) -> Result<Row> {
    let mut all = vec![0; value.len + APPENDS * APPENDED];
    super::value::fill(0, &mut all);
    value.store.reset_counts();
    let mut pointer = value.pointer;
    for piece in all[value.len..].chunks(APPENDED) {
        pointer = RELATION.append(&mut value.store, &pointer, piece)?.pointer;
    }
    let written = value.store.counts().inserted_bytes as f64;
    let read = RELATION.read(&value.store, &pointer)?;
    check(read == all, || format!("{case}: wrong bytes after the appends"))?;
    let metric = "64 appends of 64 KiB, written per appended";
    let appended = (APPENDS * APPENDED) as f64;
    Ok(at_most(case, metric, "bytes", written / appended, MOST_PER_APPENDED))
}

/// How long an edit takes, beside writing the value as a whole.
fn times(mut value: Stored, case: &str, bench: &Bench) -> Result<Vec<Row>> {
    let whole = RELATION.read(&value.store, &value.pointer)?;
    let (old, middle) = (value.pointer, value.len / 2);
    let inserted = [0x21; 100];
    type Edit = fn(&mut MemoryStore, &DirectPointer, usize, &[u8]) -> Result<Edited>;
    let edits: [(&str, Edit); 4] = [
        ("one byte changed", |store, old, at, bytes| {
            Ok(RELATION.patch(store, old, at, &bytes[..1])?)
        }),
        ("100 bytes inserted", |store, old, at, bytes| {
            Ok(RELATION.insert_range(store, old, at, bytes)?)
        }),
        ("100 bytes removed", |store, old, at, bytes| {
            Ok(RELATION.remove_range(store, old, at, bytes.len())?)
        }),
        ("1 MiB removed", |store, old, at, _| Ok(RELATION.remove_range(store, old, at, MIB)?)),
    ];
    let mut rows = Vec::new();
    for (index, (metric, edit)) in edits.into_iter().enumerate() {
        let timings = Comparison::of_timed(|| {
            on_processor(|| {
                for _ in 0..EDITS {
                    edit(&mut value.store, &old, middle, &inserted)?;
                }
                Ok(())
            })
        })
        .against_timed(WHOLE, || {
            on_processor(|| {
                RELATION.write(&mut MemoryStore::new(BLOCK), &whole)?;
                Ok(())
            })
        })
        .run(bench.share(12 - index))?;
        let ours = timings.ours * 1e6 / EDITS as f64;
        let peer = timings.peer(WHOLE).unwrap_or(f64::NAN) * 1e6;
        let row = Row::new(NAME, case, metric, "µs", ours);
        rows.push(row.against(WHOLE, peer, Better::Lower));
    }
    check_bytes(&RELATION.read(&value.store, &old)?, 0..value.len, case)?;
    Ok(rows)
}
