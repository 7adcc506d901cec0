//! A slice from the middle of a compressed value: compressed as a whole, and in groups.
use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result};
use pgtoast_codec::CompressionMethod;
use pgtoast_direct::{GroupOptions, MemoryStore};
use pgtoast_testkit::Rng;

use super::{BLOCK, MIB, NAME, RELATION};
use crate::corpora::Corpus;
use crate::measure::on_processor;
use crate::row::Better;
use crate::{Bench, Comparison, Effort, Row, check};

const WHOLE: &str = "as a whole";
/// A value in groups may be 3 % longer.
const SIZE_FLOOR: f64 = 1.0 / 1.03;
const SLICE_BYTES: usize = 100;
/// Slices of one sample that decode a group each.
const SLICES: usize = 20;

/// Every kind of value with every method.
pub(super) fn compare(bench: &Bench) -> Result<Vec<Row>> {
    let (len, size) = match bench.effort() {
        Effort::Quick => (4 * MIB, "4 MiB"),
        Effort::Full => (64 * MIB, "64 MiB"),
    };
    let corpora = [Corpus::LogJson, Corpus::Prose];
    let mut rows = Vec::new();
    let mut cells = corpora.len() * 2;
    for corpus in corpora {
        let value = corpus.value(7, len);
        for (method, name) in [(CompressionMethod::Pglz, "pglz"), (CompressionMethod::Lz4, "lz4")] {
            let case = format!("{size} of {}, {name}", corpus.name());
            bench.step(format!("groups, {case}"));
            // The first half of what is left is for writing the values to come.
            rows.extend(of_method(&value, method, &case, bench.share(2 * cells))?);
            cells -= 1;
        }
    }
    Ok(rows)
}

fn of_method(
    value: &[u8],
    method: CompressionMethod,
    case: &str,
    share: Duration,
) -> Result<Vec<Row>> {
    let options = GroupOptions::new(method);
    let mut store = MemoryStore::new(BLOCK);
    let whole = RELATION.write_compressed(&mut store, method, value)?;
    let whole = whole.with_context(|| format!("{case}: not compressed"))?;
    let whole_bytes = store.counts().inserted_bytes;
    store.reset_counts();
    let grouped = RELATION.write_grouped(&mut store, options, value)?;
    let grouped = grouped.with_context(|| format!("{case}: not compressed in groups"))?;
    let grouped_bytes = store.counts().inserted_bytes;
    check(RELATION.read(&store, &grouped)? == value, || format!("{case}: wrong bytes"))?;

    // Inside one group, not near its start.
    let group = options.group_bytes();
    let offset = value.len() / 2 / group * group + group / 3;
    let mut slice = [0; SLICE_BYTES];
    let cost = RELATION.slice_into(&store, &grouped, offset, &mut slice)?;
    check(slice == value[offset..offset + SLICE_BYTES], || format!("{case}: wrong slice"))?;
    check(cost.decoded_bytes == group as u64, || format!("{case}: {cost}"))?;
    let decoded = cost.decoded_bytes as f64;
    slice.fill(0);
    let cost = RELATION.slice_into(&store, &whole, offset, &mut slice)?;
    check(slice == value[offset..offset + SLICE_BYTES], || format!("{case}: wrong slice"))?;
    let decoded_whole = cost.decoded_bytes as f64;

    let mut whole_slice = [0; SLICE_BYTES];
    let mut rng = Rng::new(3);
    let timings = Comparison::of_timed(|| {
        on_processor(|| {
            for _ in 0..SLICES {
                // Any group: one that is decoded again and again is learnt by the processor.
                let offset = rng.below(value.len() / group) * group + group / 3;
                let _ = RELATION.slice_into(&store, &grouped, offset, &mut slice)?;
                black_box(&mut slice);
            }
            Ok(())
        })
    })
    .against_timed(WHOLE, || {
        on_processor(|| {
            let _ = RELATION.slice_into(&store, &whole, offset, &mut whole_slice)?;
            black_box(&mut whole_slice);
            Ok(())
        })
    })
    .run(share)?;
    let against_whole = |metric: &str, unit, ours, peer| {
        Row::new(NAME, case, metric, unit, ours).against(WHOLE, peer, Better::Lower)
    };
    let time = timings.ours * 1e6 / SLICES as f64;
    let whole_time = timings.peer(WHOLE).unwrap_or(f64::NAN) * 1e6;
    Ok(vec![
        against_whole("middle slice in groups", "µs", time, whole_time),
        against_whole("middle slice in groups, decoded", "bytes", decoded, decoded_whole),
        against_whole("size in groups", "bytes", grouped_bytes as f64, whole_bytes as f64)
            .floor(SIZE_FLOOR),
    ])
}
