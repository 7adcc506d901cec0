//! Rows formed and added to pages, and pages compacted.
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pgtoast_base::{OffsetNumber, maxalign};
use pgtoast_page::{
    AttributeDescriptor, HeapTuple, Page, PageMut, TrailingPointers, TupleDescriptor, Value,
};
use pgtoast_testkit::Rng;

use super::{BLOCK, NAME};
use crate::instructions::{self, counted};
use crate::row::Better;
use crate::{Bench, Comparison, Row, check};

/// Forming and adding a row may cost three times what deforming it does.
const FORM_FLOOR: f64 = 1.0 / 3.0;
/// The name under which our own deforming stands beside forming.
const DEFORM: &str = "our deform";
const CASE: &str = "row of 10 columns";
/// The workload in which instructions are counted: forming and adding, then deforming.
pub(super) const WORKLOAD: &str = "form";
const COLUMNS: usize = 10;
const ROWS: usize = 2000;
/// Pages compacted in one sample.
const PASSES: usize = 200;

/// Rows of the three, and of the first in instructions if they are asked for.
pub(super) fn compare(bench: &Bench) -> Result<Vec<Row>> {
    bench.step("rows, formed and added");
    let mut rows = formed(bench.share(8))?;
    bench.step("pages, compacted");
    rows.extend(compacted(bench.share(8))?);
    if bench.instructions() {
        bench.step("instructions: form and add");
        rows.push(match instructions::count(&format!("{NAME}:{WORKLOAD}"), None).as_deref() {
            Ok([ours, peer]) => {
                let a_row = |count: u64| count as f64 / ROWS as f64;
                let row = Row::new(
                    NAME,
                    CASE,
                    "form and add, instructions",
                    "instructions/row",
                    a_row(*ours),
                );
                row.against(DEFORM, a_row(*peer), Better::Lower).floor(FORM_FLOOR)
            }
            Ok(counts) => Row::skipped(NAME, "instructions", format!("{} counts", counts.len())),
            Err(why) => Row::skipped(NAME, "instructions", format!("{why:#}")),
        });
    }
    Ok(rows)
}

/// The piece of work that is counted.
pub(super) fn workload() -> Result<()> {
    let row = EverydayRow::new()?;
    let mut target = Target::new(row.tuple()?.len());
    target.make_ready()?;
    let mut outcome = Ok(());
    counted(&mut || outcome = row.form_and_add(&mut target));
    outcome?;
    let tuple = row.tuple()?;
    counted(&mut || row.deform(&tuple));
    Ok(())
}

/// An everyday row: its columns, and its values as a function would hand them over.
struct EverydayRow {
    columns: Vec<AttributeDescriptor<'static>>,
    values: Vec<Vec<u8>>,
}

impl EverydayRow {
    fn new() -> Result<Self> {
        let long = |payload: u8| {
            let word = (u32::from(payload) + 4) << 2;
            [&word.to_le_bytes()[..], &vec![b'a'; payload.into()]].concat()
        };
        // id int8, kind int4, at timestamptz, open bool, name text, note text, price numeric,
        // parts int2, weight float8, story text
        let row: [_; COLUMNS] = [
            (8, b'd', b'p', vec![1; 8]),
            (4, b'i', b'p', vec![2; 4]),
            (8, b'd', b'p', vec![3; 8]),
            (1, b'c', b'p', vec![1]),
            (-1, b'i', b'x', long(12)),
            (-1, b'i', b'x', long(40)),
            (-1, b'i', b'm', long(6)),
            (2, b's', b'p', vec![5; 2]),
            (8, b'd', b'p', vec![6; 8]),
            (-1, b'i', b'x', long(150)),
        ];
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for (len, align, storage, value) in row {
            columns.push(AttributeDescriptor::from_catalog(len, false, align, storage)?);
            values.push(value);
        }
        Ok(Self { columns, values })
    }

    fn values(&self) -> [Value<'_>; COLUMNS] {
        let mut values = [Value::Null; COLUMNS];
        for (value, bytes) in values.iter_mut().zip(&self.values) {
            *value = Value::stored(bytes);
        }
        values
    }

    fn tuple(&self) -> Result<Vec<u8>> {
        let mut buffer = vec![0; BLOCK.bytes()];
        let tuple = TupleDescriptor::new(&self.columns)?.form(&self.values(), &mut buffer)?;
        Ok(tuple.bytes().to_vec())
    }

    fn form_and_add(&self, target: &mut Target) -> Result<()> {
        let descriptor = TupleDescriptor::new(&self.columns)?;
        let values = self.values();
        for bytes in &mut target.pages {
            let mut page = PageMut::open(bytes, BLOCK)?;
            for _ in 0..target.rows_a_page {
                let tuple = descriptor.form(black_box(&values), &mut target.buffer)?;
                page.add_tuple(tuple.bytes())?;
            }
        }
        Ok(())
    }

    /// As many times as rows are formed.
    fn deform(&self, tuple: &[u8]) {
        let mut values = [Value::Null; COLUMNS];
        for _ in 0..ROWS {
            let deformed = HeapTuple::new(black_box(tuple)).and_then(|tuple| {
                tuple.deform_into(TupleDescriptor::new(&self.columns)?, &mut values)
            });
            black_box(deformed.is_ok());
        }
    }
}

/// Where rows are formed and added: everything that is allocated.
struct Target {
    buffer: Vec<u8>,
    pages: Vec<Vec<u8>>,
    rows_a_page: usize,
}

impl Target {
    /// Room for [`ROWS`] rows of so many bytes, in pages that get twenty each.
    fn new(tuple_len: usize) -> Self {
        let rows_a_page = 20;
        let pages = vec![vec![0; BLOCK.bytes()]; ROWS / rows_a_page];
        Self { buffer: vec![0; tuple_len], pages, rows_a_page }
    }

    fn make_ready(&mut self) -> Result<()> {
        for bytes in &mut self.pages {
            PageMut::init(bytes, BLOCK, 0)?;
        }
        Ok(())
    }
}

fn formed(share: Duration) -> Result<Vec<Row>> {
    let row = EverydayRow::new()?;
    let tuple = row.tuple()?;
    round_trip(&row, &tuple)?;
    let mut target = Target::new(tuple.len());
    let timings = Comparison::of_timed(|| {
        target.make_ready()?;
        let started = Instant::now();
        row.form_and_add(&mut target)?;
        Ok(started.elapsed())
    })
    .against(DEFORM, || row.deform(&tuple))
    .run(share)?;
    let a_row = |seconds: f64| seconds * 1e9 / ROWS as f64;
    let peer = timings.peer(DEFORM).context("deforming took part")?;
    let form = Row::new(NAME, CASE, "form and add", "ns/row", a_row(timings.ours))
        .against(DEFORM, a_row(peer), Better::Lower)
        .floor(FORM_FLOOR)
        .noted(
            "the floor is one of instructions; texts come with a long header and leave with a \
                short one; nothing is allocated for a row",
        );

    let mut added = Target::new(tuple.len());
    let timings = Comparison::of_timed(|| {
        added.make_ready()?;
        let started = Instant::now();
        for bytes in &mut added.pages {
            let mut page = PageMut::open(bytes, BLOCK)?;
            for _ in 0..added.rows_a_page {
                page.add_tuple(black_box(&tuple))?;
            }
        }
        Ok(started.elapsed())
    })
    .run(share / 2)?;
    Ok(vec![form, Row::new(NAME, CASE, "add", "ns/row", a_row(timings.ours))])
}

/// Insists that the row comes back, and makes the same tuple once more.
fn round_trip(row: &EverydayRow, tuple: &[u8]) -> Result<()> {
    let descriptor = TupleDescriptor::new(&row.columns)?;
    let mut values = [Value::Null; COLUMNS];
    HeapTuple::parse(tuple)?.deform_into(descriptor, &mut values)?;
    let mut again = vec![0xff; tuple.len()];
    descriptor.form(&values, &mut again)?;
    ensure!(maxalign(tuple.len()) + 4 < BLOCK.bytes() / 20, "twenty rows fit a page");
    check(again == tuple, || "a row formed again is another".to_owned())
}

/// Pages of which every second item is gone: as they were filled, and with items out of order.
fn compacted(share: Duration) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (case, shuffled) in [("half gone, in order", false), ("half gone, out of order", true)] {
        let start = half_gone_page(shuffled)?;
        let mut bytes = start.clone();
        PageMut::open(&mut bytes, BLOCK)?.compact(TrailingPointers::Drop)?;
        compaction_keeps_items(&start, &bytes)?;
        let timings = Comparison::of_timed(|| {
            let mut spent = Duration::ZERO;
            for _ in 0..PASSES {
                bytes.copy_from_slice(&start);
                let mut page = PageMut::open(black_box(&mut bytes), BLOCK)?;
                let started = Instant::now();
                page.compact(TrailingPointers::Drop)?;
                spent += started.elapsed();
            }
            Ok(spent)
        })
        .run(share / 2)?;
        let nanoseconds = timings.ours * 1e9 / PASSES as f64;
        rows.push(Row::new(NAME, case, "compact", "ns/page", nanoseconds));
    }
    Ok(rows)
}

fn compaction_keeps_items(before: &[u8], after: &[u8]) -> Result<()> {
    let (before, after) = (Page::parse(before, BLOCK)?, Page::parse(after, BLOCK)?);
    check(after.check().is_ok() && after.free_bytes() > before.free_bytes(), || {
        format!("{} bytes free of {}", after.free_bytes(), before.free_bytes())
    })?;
    for (item, _) in after.items() {
        check(before.item(item) == after.item(item), || format!("item {item} is another"))?;
    }
    Ok(())
}

fn half_gone_page(shuffled: bool) -> Result<Vec<u8>> {
    let mut bytes = vec![0; BLOCK.bytes()];
    let mut rng = Rng::new(2);
    let mut page = PageMut::init(&mut bytes, BLOCK, 0)?;
    let mut fill = |page: &mut PageMut<'_>| loop {
        let len = rng.between(40, 160);
        let tuple = rng.bytes(len);
        if page.add_tuple(&tuple).is_err() {
            return;
        }
    };
    let thin = |page: &mut PageMut<'_>, first: u16| {
        let mut items = (first..=page.page().item_count()).step_by(2).map(OffsetNumber::new);
        items.try_for_each(|item| page.set_unused(item))
    };
    fill(&mut page);
    thin(&mut page, 1)?;
    if shuffled {
        // New items at old line pointers: low numbers are now low in the page as well.
        page.compact(TrailingPointers::Drop)?;
        fill(&mut page);
        thin(&mut page, 2)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_comes_back_and_pages_lose_half_their_items() {
        let row = EverydayRow::new().unwrap();
        round_trip(&row, &row.tuple().unwrap()).unwrap();
        for shuffled in [false, true] {
            let start = half_gone_page(shuffled).unwrap();
            let mut bytes = start.clone();
            PageMut::open(&mut bytes, BLOCK).unwrap().compact(TrailingPointers::Drop).unwrap();
            compaction_keeps_items(&start, &bytes).unwrap();
            assert!(compaction_keeps_items(&bytes, &start).is_err());
        }
    }
}
