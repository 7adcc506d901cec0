//! A rewritten table's chunks once went into decoding, whose parents' rows never came: gigabytes waited in
//! memory for the commit. Chunks that were spilled stay where they are, and rewrites are left out.
use crate::common::{EachRow, Feeder, TABLE, TOAST, catalog, chunks, insert_chunk, row};
use pgtoast_reorder::{
    Change, CohortPages, ColumnValue, InsertFlags, MemorySpill, Options, ReorderBuffer,
    ReorderStats, RowChange,
};
use pgtoast_toast::ValueIdWidth;

const VALUES: u64 = 10_000;
const VALUE_LEN: usize = 5 * 1996;
const LIMIT: usize = 16 << 20;

/// Looks at each value once, and counts them.
fn reader() -> EachRow<u64> {
    let look = |values: &mut u64, change: &mut RowChange<'_>| {
        let expected = VALUES - *values;
        let value = change.new_value(1)?;
        let ColumnValue::Value(bytes) = value else { panic!("{value:?}") };
        assert!(bytes.len() == VALUE_LEN && bytes.iter().all(|byte| *byte == byte_of(expected)));
        *values += 1;
        Ok(())
    };
    EachRow { seen: 0, look }
}

fn byte_of(value_id: u64) -> u8 {
    value_id.to_le_bytes()[0]
}

/// All chunks first; then, if they are to come, the rows, the last value's first.
fn run(with_rows: bool) -> (ReorderStats, u64) {
    let options = Options { work_mem: LIMIT, ..Options::default() };
    let layout = CohortPages::new().expect("it holds nothing");
    let mut buffer = ReorderBuffer::new(layout, MemorySpill::new(), options);
    let (catalog, mut output) = (catalog(), reader());
    let mut feeder = Feeder { buffer: &mut buffer, catalog: &catalog, output: &mut output, lsn: 0 };
    let mut pointers = Vec::new();
    for value_id in 1..=VALUES {
        let value = vec![byte_of(value_id); VALUE_LEN];
        let (tuples, pointer) = chunks(value_id, &value, ValueIdWidth::Oid);
        assert_eq!(tuples.len(), 5);
        for tuple in &tuples {
            feeder.change(700, insert_chunk(tuple, ValueIdWidth::Oid));
        }
        pointers.push(pointer);
    }
    if with_rows {
        for (number, pointer) in pointers.iter().rev().enumerate() {
            let tuple = row(1, Some(pointer), None);
            let is_last = number + 1 == pointers.len();
            let flags = if is_last { InsertFlags::empty() } else { InsertFlags::KEEPS_TOAST };
            let (relation, new) = (TABLE, Some(&tuple[..]));
            feeder.change(700, Change::Insert { relation, new, tid: None, flags });
        }
    }
    feeder.commit(700);
    (buffer.stats(), output.seen)
}

#[test]
fn chunks_without_a_row_are_counted_and_freed_and_never_all_in_memory() {
    let (stats, values) = run(false);
    assert_eq!((stats.orphan_chunks, values), (50_000, 0));
    assert_eq!((stats.accounted_bytes, stats.held_changes), (0, 0));
    assert!(stats.peak_accounted_bytes < LIMIT + 80 + 24 + 2032, "the limit and the last change");
    assert!(stats.peak_allocated_bytes < LIMIT + LIMIT / 8, "{stats:?}");
    assert_eq!(stats.longest_rebuilt_bytes, 0);
}

#[test]
fn rows_in_reverse_order_at_the_end_of_their_command_find_their_chunks() {
    let (stats, values) = run(true);
    assert_eq!((stats.orphan_chunks, values), (0, VALUES));
    assert_eq!(stats.longest_rebuilt_bytes, VALUE_LEN, "one value at a time");
    assert!(stats.peak_accounted_bytes < LIMIT + 80 + 24 + 2032);
    assert!(stats.peak_allocated_bytes < LIMIT + LIMIT / 8, "{stats:?}");
    assert_eq!(stats.accounted_bytes, 0);
}

#[test]
fn inserts_of_a_rewrite_are_left_out() {
    let layout = CohortPages::new().expect("it holds nothing");
    let mut buffer = ReorderBuffer::new(layout, MemorySpill::new(), Options::default());
    let (catalog, mut output) = (catalog(), reader());
    let mut feeder = Feeder { buffer: &mut buffer, catalog: &catalog, output: &mut output, lsn: 0 };
    let (tuples, _) = chunks(1, &[1; VALUE_LEN], ValueIdWidth::Oid);
    for tuple in &tuples {
        let flags = InsertFlags::ON_TOAST_RELATION | InsertFlags::NO_LOGICAL;
        let (relation, new) = (TOAST, Some(&tuple[..]));
        feeder.change(700, Change::Insert { relation, new, tid: None, flags });
    }
    feeder.commit(700);
    let stats = buffer.stats();
    assert_eq!((stats.rewrite_inserts, stats.orphan_chunks, stats.peak_accounted_bytes), (5, 0, 0));
}
