//! Contexts beside other allocators: a chunk made, or made and freed.
use std::alloc::{Layout, System};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use anyhow::{Result, anyhow};
use mimalloc::MiMalloc;
use pgtoast_memctx::{BlockSizes, Context, Kind, root};
use pgtoast_testkit::Rng;

use super::NAME;
use super::outside::Outside;
use crate::peers::{BUMPALO, MIMALLOC, SYSTEM};
use crate::row::Better;
use crate::{Bench, Comparison, Row, Timings};

/// Chunks that live at once.
const CHUNKS: usize = 1_000;
/// And of a row that asks who goes to the system for what was had a moment ago.
const MANY_CHUNKS: usize = 10_000;
/// Chunks that are made in one sample.
const CHUNKS_A_SAMPLE: usize = 100_000;
const REPEATS: usize = CHUNKS_A_SAMPLE / CHUNKS;
const BUMP_FLOOR: f64 = 0.6;
const GENERATION_FLOORS: [(&str, f64); 2] = [(SYSTEM, 3.0), (MIMALLOC, 1.2)];
const ALLOC_SET_FLOOR: f64 = 2.0;
const SLAB_FLOOR: f64 = 1.0;

/// What is compared here, to be counted in steps.
pub(super) const CELLS: usize = 5;

/// Of so many chunks; of 8 bytes' alignment, as a box of bytes asks for less.
fn layouts(count: usize, sizes: impl FnMut() -> usize) -> Result<Vec<Layout>> {
    let sizes: Vec<_> = std::iter::repeat_with(sizes).take(count).collect();
    Ok(sizes.into_iter().map(|size| Layout::from_size_align(size, 8)).collect::<Result<_, _>>()?)
}

pub(super) fn rows(bench: &Bench, cells_to_come: usize) -> Result<Vec<Row>> {
    let mut rng = Rng::new(5);
    let mixed = layouts(CHUNKS, || rng.between(16, 241))?;
    let changes = layouts(CHUNKS, || 80)?;
    let many_changes = layouts(MANY_CHUNKS, || 80)?;
    let share = bench.share(cells_to_come + CELLS);
    let mut rows = Vec::new();

    bench.step("bump");
    let mut ours = root("ours").bump(BlockSizes::DEFAULT)?;
    let mut theirs = bumpalo::Bump::new();
    let timings = Comparison::of(|| {
        for _ in 0..REPEATS {
            for layout in &mixed {
                touch((&ours).allocate(*layout).ok().map(NonNull::cast));
            }
            ours.reset_keeping(usize::MAX);
        }
    })
    .against(BUMPALO, || {
        for _ in 0..REPEATS {
            for layout in &mixed {
                touch(theirs.try_alloc_layout(*layout).ok());
            }
            theirs.reset();
        }
    })
    .run(share)?;
    rows.push(row("Bump, 16 to 240 bytes", "alloc", &timings, BUMPALO).floor(BUMP_FLOOR));

    bench.step("generation");
    let ours = root("ours").generation(BlockSizes::DEFAULT)?;
    let timings = pairs(&ours, &mixed).run(share)?;
    let case = "Generation, 16 to 240 bytes";
    for (peer, floor) in GENERATION_FLOORS {
        rows.push(row(case, PAIR, &timings, peer).floor(floor));
    }

    bench.step("alloc set");
    let ours = root("ours").alloc_set(BlockSizes::DEFAULT)?;
    let timings = pairs(&ours, &mixed).run(share)?;
    let case = "AllocSet, 16 to 240 bytes";
    rows.push(row(case, PAIR, &timings, SYSTEM).floor(ALLOC_SET_FLOOR));
    rows.push(row(case, PAIR, &timings, MIMALLOC));

    bench.step("slab, cohorts");
    let ours = root("ours").slab(8 << 10, 80)?;
    let set = root("set").alloc_set(BlockSizes::DEFAULT)?;
    let cohorts = root("cohorts").cohorts()?;
    let timings = pairs(&ours, &changes)
        .against(ALLOC_SET, || made_and_freed(&set, &changes))
        .against(COHORTS, || made_and_freed(&cohorts, &changes))
        .run(share)?;
    let case = "Slab, 80 bytes";
    rows.push(row(case, PAIR, &timings, ALLOC_SET).floor(SLAB_FLOOR));
    rows.push(row(case, PAIR, &timings, SYSTEM));
    rows.push(row(case, PAIR, &timings, MIMALLOC));
    let cohorts = timings.seen_from(COHORTS);
    rows.push(row("Cohorts, 80 bytes", PAIR, &cohorts, SYSTEM));
    rows.push(row("Cohorts, 80 bytes", PAIR, &cohorts, MIMALLOC));

    bench.step("slab, many");
    let ours = root("ours").slab(8 << 10, 80)?;
    let set = root("set").alloc_set(BlockSizes::DEFAULT)?;
    let timings = pairs(&ours, &many_changes)
        .against(ALLOC_SET, || made_and_freed(&set, &many_changes))
        .run(share)?;
    let case = "Slab, 80 bytes, 10 000 live";
    rows.push(row(case, PAIR, &timings, ALLOC_SET).floor(SLAB_FLOOR));
    rows.push(row(case, PAIR, &timings, SYSTEM));
    rows.push(row(case, PAIR, &timings, MIMALLOC));
    Ok(rows)
}

const PAIR: &str = "alloc and free";
const ALLOC_SET: &str = "AllocSet";
const COHORTS: &str = "Cohorts";

/// Ours beside the system's and mimalloc: all chunks made, then freed in the same order.
fn pairs<'a, K: Kind>(ours: &'a Context<'_, K>, layouts: &'a [Layout]) -> Comparison<'a> {
    Comparison::of(move || made_and_freed(ours, layouts))
        .against(SYSTEM, move || made_and_freed(Outside(&System), layouts))
        .against(MIMALLOC, move || made_and_freed(Outside(&MiMalloc), layouts))
}

/// A chunk that nobody uses need not be made: one byte is.
#[inline]
fn touch(chunk: Option<NonNull<u8>>) {
    black_box(chunk);
}

/// Chunks that nobody has written to.
fn made_and_freed<A: Allocator + Copy>(allocator: A, layouts: &[Layout]) {
    let make = |layout: &Layout| Box::new_uninit_slice_in(layout.size(), allocator);
    for _ in 0..CHUNKS_A_SAMPLE / layouts.len() {
        let chunks: Vec<Box<[MaybeUninit<u8>], A>> = layouts.iter().map(make).collect();
        drop(black_box(chunks));
    }
}

fn row(case: &str, metric: &str, timings: &Timings, peer: &str) -> Row {
    let nanoseconds = |seconds: f64| seconds * 1e9 / CHUNKS_A_SAMPLE as f64;
    let theirs = timings.peer(peer).ok_or_else(|| anyhow!("no {peer}"));
    let row = Row::new(NAME, case, metric, "ns", nanoseconds(timings.ours));
    row.against(peer, nanoseconds(theirs.unwrap_or(f64::NAN)), Better::Lower)
}
