//! Who is spilled and who is streamed, when and how much, as `reorderbuffer.c` decides it.
use crate::common::{Feeder, catalog, chunks, insert, insert_chunk, row, text_of, text_row};
use pgtoast_base::{Lsn, Oid, Xid};
use pgtoast_memctx::{BlockSizes, MemoryError};
use pgtoast_reorder::{
    Action, Catalog, CohortPages, Layout, MemorySpill, Options, Relation, RelationMap,
    ReorderBuffer, ReorderError, SharedGeneration, TextOptions, TextOutput,
};
use pgtoast_toast::ValueIdWidth;

fn buffer(work_mem: usize) -> ReorderBuffer<CohortPages, MemorySpill> {
    let layout = CohortPages::new().expect("it holds nothing");
    ReorderBuffer::new(layout, MemorySpill::new(), Options { work_mem, ..Options::default() })
}

/// A server of 15 counted 10 000 rows of one int4, of 132 bytes each, with a limit of 64 kB: 21 spills of 497
/// rows, the last of which is what was left at the commit. That one is not written here, as it would be read
/// again at once.
#[test]
fn ten_thousand_rows_are_spilled_as_often_as_a_server_does() {
    let mut buffer = buffer(64 << 10);
    // As long as a row of one int4.
    let one = row(1, None, None);
    assert_eq!(one.len(), 28);
    let lines = text_of(&mut buffer, &catalog(), |feeder| {
        for _ in 0..10_000 {
            feeder.change(700, insert(&one));
        }
        let stats = feeder.buffer.stats();
        assert_eq!(stats.spill_count, 20);
        assert_eq!(stats.spilled_bytes, 20 * 497 * 132);
        assert_eq!(stats.accounted_bytes, 60 * 132, "20 * 497 + 60 rows are all");
        assert_eq!(stats.spilled_transactions, 1);
        assert_eq!(stats.peak_accounted_bytes, 497 * 132);
        feeder.commit(700);
    });
    assert_eq!(lines.len(), 10_002);
}

#[test]
fn the_largest_by_its_own_changes_is_spilled_and_a_whole_drags_its_parts_along() {
    let mut buffer = buffer(10_000);
    let row = text_row(1, &"x".repeat(300));
    text_of(&mut buffer, &catalog(), |feeder| {
        let assign = Action::Assign { top: Xid::new(700) };
        // 700 has 2 rows and its subtransaction 701 has 8; 800 has 5: the largest of all is a part.
        feeder.apply(701, assign).expect("nobody else's");
        (0..2).for_each(|_| feeder.change(700, insert(&row)));
        (0..8).for_each(|_| feeder.change(701, insert(&row)));
        (0..5).for_each(|_| feeder.change(800, insert(&row)));
        let size = |xid| feeder.buffer.accounted_bytes_of(Xid::new(xid));
        let one = 80 + 24 + row.len();
        assert_eq!(size(700), Some(2 * one));
        assert_eq!(size(701), Some(8 * one));
        for _ in 0..20 {
            feeder.change(800, insert(&row));
            if feeder.buffer.stats().spill_count > 0 {
                break;
            }
        }
        // By then 800 had grown past the others.
        assert_eq!(feeder.buffer.accounted_bytes_of(Xid::new(800)), Some(0));
        assert_eq!(feeder.buffer.stats().spill_count, 1);
        // Now the whole at the top becomes the largest, and takes its part along.
        while feeder.buffer.stats().spill_count < 3 {
            feeder.change(700, insert(&row));
        }
        assert_eq!(feeder.buffer.accounted_bytes_of(Xid::new(700)), Some(0));
        assert_eq!(feeder.buffer.accounted_bytes_of(Xid::new(701)), Some(0));
    });
}

fn streaming(
    work_mem: usize,
    feed: impl FnOnce(
        &mut Feeder<'_, CohortPages, MemorySpill, RelationMap, TextOutput<&mut dyn FnMut(&str)>>,
    ),
) -> Vec<String> {
    let mut buffer = buffer(work_mem);
    let catalog = catalog();
    let mut lines = Vec::new();
    let mut push = |line: &str| lines.push(line.to_owned());
    let options =
        TextOptions { stream_changes: true, include_xids: true, ..TextOptions::default() };
    let mut output = TextOutput::new(options, &mut push as &mut dyn FnMut(&str));
    feed(&mut Feeder { buffer: &mut buffer, catalog: &catalog, output: &mut output, lsn: 0 });
    lines
}

#[test]
fn the_largest_whole_is_streamed_in_the_order_of_the_log() {
    let row = text_row(1, &"x".repeat(300));
    let lines = streaming(3000, |feeder| {
        feeder.apply(701, Action::Assign { top: Xid::new(700) }).expect("nobody else's");
        for _ in 0..2 {
            feeder.change(700, insert(&row));
            feeder.change(701, insert(&row));
        }
        // Larger than each part of the other, and smaller than the whole.
        (0..3).for_each(|_| feeder.change(800, insert(&row)));
        feeder.apply(701, Action::Abort { subtransactions: &[] }).expect("it is known");
        feeder.change(700, insert(&row));
        feeder.commit(700);
        feeder.commit(800);
    });
    let expected = [
        "opening a streamed block for transaction TXN 700",
        "streaming change for TXN 700",
        "streaming change for TXN 701",
        "streaming change for TXN 700",
        "streaming change for TXN 701",
        "closing a streamed block for transaction TXN 700",
        "aborting streamed (sub)transaction TXN 701",
        "opening a streamed block for transaction TXN 700",
        "streaming change for TXN 700",
        "closing a streamed block for transaction TXN 700",
        "committing streamed transaction TXN 700",
        "BEGIN 800",
    ];
    assert_eq!(lines[..expected.len()], expected);
    assert_eq!(lines.last().map(String::as_str), Some("COMMIT 800"));
}

#[test]
fn a_row_out_of_line_is_streamed_when_it_is_whole() {
    let (tuples, pointer) = chunks(41, &[b'x'; 9000], ValueIdWidth::Oid);
    let row = row(1, Some(&pointer), None);
    let lines = streaming(5000, |feeder| {
        for tuple in &tuples {
            feeder.change(700, insert_chunk(tuple, ValueIdWidth::Oid));
        }
        let stats = feeder.buffer.stats();
        assert_eq!(stats.stream_count, 0, "its chunks alone are of no use");
        assert!(stats.spill_count > 0, "so they were spilled");
        // It was spilled, so that it is streamed as soon as it can be, far below the limit.
        feeder.change(700, insert(&row));
        assert_eq!(feeder.buffer.stats().stream_count, 1);
        assert_eq!(feeder.buffer.stats().longest_rebuilt_bytes, 0, "nobody asked for the value");
        feeder.commit(700);
    });
    assert_eq!(lines[1], "streaming change for TXN 700");
}

struct Aborted(RelationMap, Xid);

impl Catalog for Aborted {
    fn relation(&self, id: Oid, lsn: Lsn) -> Option<&Relation> {
        self.0.relation(id, lsn)
    }

    fn is_aborted(&self, xid: Xid) -> bool {
        xid == self.1
    }
}

#[test]
fn a_transaction_that_is_known_to_be_aborted_is_dropped_and_not_spilled() {
    for drops_aborted in [true, false] {
        let options = Options { work_mem: 5000, drops_aborted, ..Options::default() };
        let layout = CohortPages::new().expect("it holds nothing");
        let mut buffer = ReorderBuffer::new(layout, MemorySpill::new(), options);
        let catalog = Aborted(catalog(), Xid::new(700));
        let row = text_row(1, &"x".repeat(300));
        let lines = text_of(&mut buffer, &catalog, |feeder| {
            (0..30).for_each(|_| feeder.change(700, insert(&row)));
            let stats = feeder.buffer.stats();
            assert_eq!(stats.spill_count == 0, drops_aborted);
            assert_eq!(stats.dropped_transactions, u64::from(drops_aborted));
            assert_eq!(stats.accounted_bytes == 0, drops_aborted, "later changes are ignored");
            feeder.apply(700, Action::Abort { subtransactions: &[] }).expect("it is known");
        });
        assert!(lines.is_empty());
        assert_eq!(buffer.stats().open_transactions, 0);
    }
}

#[test]
fn what_memory_refuses_changes_nothing_and_can_be_asked_for_again() {
    let layout = SharedGeneration::new(BlockSizes::fixed(8 << 10)).expect("a block");
    let mut buffer = ReorderBuffer::new(layout, MemorySpill::new(), Options::default());
    let row = text_row(1, &"x".repeat(3000));
    let lines = text_of(&mut buffer, &catalog(), |feeder| {
        feeder.buffer.layout().account().set_limit(Some(10 << 10));
        let before = feeder.buffer.stats();
        let refused = feeder.apply(700, Action::Change(insert(&row)));
        assert!(matches!(refused, Err(ReorderError::Memory(MemoryError::Limit { .. }))));
        assert_eq!(feeder.buffer.stats().accounted_bytes, before.accounted_bytes);
        feeder.buffer.layout().account().set_limit(None);
        feeder.change(700, insert(&row));
        feeder.commit(700);
    });
    assert_eq!(lines.len(), 3);
}

#[test]
fn records_out_of_order_and_families_that_change_are_refused() {
    let mut buffer = buffer(1 << 20);
    let row = text_row(1, "x");
    let lines = text_of(&mut buffer, &catalog(), |feeder| {
        feeder.change(700, insert(&row));
        feeder.lsn -= 16;
        let late = feeder.apply(700, Action::Change(insert(&row)));
        assert!(matches!(late, Err(ReorderError::LsnOrder { .. })));
        feeder.lsn += 16;
        let assign = |top| Action::Assign { top: Xid::new(top) };
        feeder.apply(701, assign(700)).expect("nobody else's");
        feeder.apply(701, assign(700)).expect("said before");
        for (xid, top) in [(701, 800), (702, 701), (700, 800), (900, 900)] {
            let error = feeder.apply(xid, assign(top));
            assert!(matches!(error, Err(ReorderError::Family { .. })), "{xid} {top} {error:?}");
        }
        feeder.commit(700);
    });
    assert_eq!(lines.len(), 3);
    assert_eq!(buffer.stats().open_transactions, 0);
}

#[test]
fn a_hundred_thousand_subtransactions_come_out_in_order() {
    const COUNT: u32 = 100_000;
    let mut buffer = buffer(256 << 20);
    let row = text_row(1, "x");
    let xids: Vec<_> = (0..COUNT).map(|number| Xid::new(1000 + number)).collect();
    let lines = text_of(&mut buffer, &catalog(), |feeder| {
        for xid in &xids {
            feeder.apply(xid.get(), Action::Assign { top: Xid::new(700) }).expect("a new one");
            feeder.change(xid.get(), insert(&row));
        }
        let stats = feeder.buffer.stats();
        assert!(stats.fragmentation() <= 1.3, "{stats:?}");
        let commit = Action::Commit { subtransactions: &xids };
        feeder.apply(700, commit).expect("all is known");
    });
    assert_eq!(lines.len(), COUNT as usize + 2);
    assert_eq!(buffer.stats().open_transactions, 0);
}
