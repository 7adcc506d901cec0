//! How many tuples a read fetches: the proposal's figures, which hold to the tuple.
use anyhow::Result;

use super::value::{Stored, check_bytes};
use super::{MIB, PARAMETERS, RELATION, at_most};
use crate::{Row, check};

/// What of a value is read, and the tuples that this fetches.
struct Read {
    metric: &'static str,
    offset: usize,
    len: usize,
    fetches: u32,
}

/// Small values: a row for each read. Another number than the proposal's is a wrong answer.
pub(super) fn compare() -> Result<Vec<Row>> {
    let read = |metric, offset, len, fetches| Read { metric, offset, len, fetches };
    let whole = |len, fetches| read("full read", 0, len, fetches);
    let cases = [
        ("tier 1, 1600 bytes", 1600, vec![whole(1600, 1)]),
        (
            "tier 2, 22400 bytes",
            22_400,
            vec![read("first 500 bytes", 0, 500, 2), whole(22_400, 12)],
        ),
        (
            "tier 3, 320000 bytes",
            320_000,
            vec![read("100 bytes at 150100", 150_100, 100, 3), whole(320_000, 161 + 4 + 1)],
        ),
        ("tier 3, 8 MiB", 8 * MIB, vec![in_one_leaf(2100, 4), whole(8 * MIB, 4203 + 85 + 2 + 1)]),
    ];
    let mut rows = Vec::new();
    for (case, len, reads) in cases {
        let mut value = Stored::make(len)?;
        for read in reads {
            rows.push(of_read(&mut value, case, &read)?);
        }
    }
    Ok(rows)
}

/// A value with four levels of nodes above its leaves.
pub(super) fn of_largest(value: &mut Stored, case: &str) -> Result<Row> {
    let leaf = PARAMETERS.chunk_count(value.len) / 2;
    of_read(value, case, &in_one_leaf(leaf, 5))
}

/// A slice that ends where its leaf does.
fn in_one_leaf(leaf: usize, fetches: u32) -> Read {
    let offset = (leaf + 1) * PARAMETERS.chunk_bytes() - 100;
    Read { metric: "100 bytes in one leaf", offset, len: 100, fetches }
}

fn of_read(value: &mut Stored, case: &str, read: &Read) -> Result<Row> {
    let Read { metric, offset, len, fetches } = *read;
    value.store.reset_counts();
    let mut slice = vec![0; len];
    let cost = RELATION.slice_into(&value.store, &value.pointer, offset, &mut slice)?;
    check_bytes(&slice, offset..offset + len, case)?;
    check(cost.fetches() == fetches, || format!("{case}, {metric}: {cost}"))?;
    let counted = value.store.counts().fetches;
    check(counted == u64::from(fetches), || format!("{case}: the store counted {counted}"))?;
    Ok(at_most(case, metric, "fetches", f64::from(cost.fetches()), f64::from(fetches)))
}
