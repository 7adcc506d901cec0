//! Checksums, structure, attributes, and whole relations checked; rows formed, pages compacted.
mod deform;
mod relation;
mod write;

use std::hint::black_box;
use std::path::Path;

use anyhow::{Result, bail};
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::{Page, set_checksum};

use super::Suite;
use crate::peers::TWIN;
use crate::{Bench, Comparison, Row, check};
use relation::Relation;

const NAME: &str = "page";
const CHECKSUM_FLOOR: f64 = 3.0;
const BLOCK: BlockSize = BlockSize::KIB_8;
/// Pages a pass goes over: few enough for the second-level cache, more than the first holds.
const PAGES: usize = 16;
/// Passes in one sample.
const PASSES: usize = 64;
/// The suite `page`.
#[derive(Debug)]
pub(super) struct PageSuite;

impl Suite for PageSuite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "page checksums and structure, against a plain build of the same loop and pg_checksums; rows \
         formed and added"
    }

    fn run(&self, bench: &Bench) -> Result<Vec<Row>> {
        bench.expect_steps(if bench.instructions() { 8 } else { 7 });
        let mut rows = in_memory(bench)?;
        bench.step("deform");
        rows.extend(deform::compare(bench.share(8))?);
        rows.extend(write::compare(bench)?);
        bench.step("a relation, made by a server");
        match Relation::make(bench.effort()) {
            Ok(relation) => rows.extend(relation.compare(bench)?),
            Err(why) => rows.push(Row::skipped(NAME, "relation checked", format!("{why:#}"))),
        }
        Ok(rows)
    }

    fn workload(&self, name: &str, _input: Option<&Path>) -> Result<()> {
        if name == write::WORKLOAD {
            return write::workload();
        }
        bail!("{NAME} has no workload {name:?}")
    }
}

/// Pages of a made-up heap: items of many lengths from the end down, every byte of them random.
fn pages() -> Result<Vec<u8>> {
    let mut rng = pgtoast_testkit::Rng::new(1);
    let mut pages = Vec::new();
    for number in 0..u32::try_from(PAGES)? {
        let mut page = rng.bytes(BLOCK.bytes());
        let mut lower = 24;
        let mut upper = BLOCK.bytes();
        page[..24].fill(0);
        loop {
            let len = rng.between(28, 300);
            let start = upper.saturating_sub(len.next_multiple_of(8));
            if start < lower + 4 {
                break;
            }
            let pointer = u32::try_from(start | 1 << 15 | len << 17)?;
            page[lower..lower + 4].copy_from_slice(&pointer.to_le_bytes());
            (lower, upper) = (lower + 4, start);
        }
        for (offset, word) in
            [(12, lower), (14, upper), (16, BLOCK.bytes()), (18, BLOCK.bytes() | 4)]
        {
            page[offset..offset + 2].copy_from_slice(&u16::try_from(word)?.to_le_bytes());
        }
        set_checksum(&mut page, BLOCK, BlockNumber::new(number))?;
        pages.extend_from_slice(&page);
    }
    Ok(pages)
}

fn in_memory(bench: &Bench) -> Result<Vec<Row>> {
    let bytes = pages()?;
    let pages = bytes.chunks_exact(BLOCK.bytes()).map(|page| Page::new(page, BLOCK));
    let pages: Vec<_> = pages.collect::<Result<_, _>>()?;
    let numbered = || (0..).map(BlockNumber::new).zip(&pages);
    for (block, page) in numbered() {
        let (ours, twin) = (page.checksum(block), page.checksum_baseline(block));
        check(ours == twin && ours == page.header().checksum(), || {
            format!("checksum of block {block}: {ours} and {twin}")
        })?;
        check(page.verify().and(page.check()).is_ok(), || format!("block {block} is sound"))?;
    }
    let total = bytes.len() * PASSES;
    let share = bench.share(8);

    bench.step("checksum");
    let sum = |checksum: fn(&Page<'_>, BlockNumber) -> u16| {
        for _ in 0..PASSES {
            for (block, page) in numbered() {
                black_box(checksum(black_box(page), block));
            }
        }
    };
    let timings = Comparison::of(|| sum(|page, block| page.checksum(block)))
        .against(TWIN, || sum(|page, block| page.checksum_baseline(block)))
        .run(share)?;
    let mut rows = Row::throughput(NAME, "8 KiB, in cache", "checksum", total, &timings);
    for row in &mut rows {
        *row = if wide_vectors() {
            row.clone()
                .floor(CHECKSUM_FLOOR)
                .noted("the twin is the same loop, built for plain x86-64")
        } else {
            row.clone().noted("no AVX2 here, so no floor: the twin is the same loop")
        };
    }

    bench.step("structure");
    let timings = Comparison::of(|| {
        for _ in 0..PASSES {
            for page in &pages {
                let page = Page::parse(black_box(page.bytes()), BLOCK);
                black_box(page.and_then(|page| page.check()).is_ok());
            }
        }
    })
    .run(share)?;
    let nanoseconds = timings.ours * 1e9 / (PAGES * PASSES) as f64;
    rows.push(Row::new(NAME, "8 KiB, in cache", "parse and check", "ns/page", nanoseconds));
    Ok(rows)
}

/// Whether the processor has the vectors that the checksum's floor is about.
fn wide_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_pages_are_sound_and_hold_many_items() {
        let bytes = pages().unwrap();
        for (block, page) in (0..).zip(bytes.chunks_exact(BLOCK.bytes())) {
            let page = Page::parse(page, BLOCK).unwrap();
            page.check().unwrap();
            page.verify_checksum(BlockNumber::new(block)).unwrap();
            assert!(page.item_count() > 20);
        }
    }
}
