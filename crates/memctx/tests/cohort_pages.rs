//! Cohorts put their chunks where a plain model of pages and leaves puts them, and hold what it says.
#![expect(clippy::unwrap_used, reason = "also outside of test functions")]

use std::collections::HashMap;

use pgtoast_memctx::twin::{TwinCohort, TwinCohorts, TwinFigures, TwinPlace};
use pgtoast_memctx::{Chunk, Cohort, Cohorts, Context, root};
use pgtoast_testkit::Rng;

struct Live {
    chunk: Chunk<Cohorts>,
    place: Option<TwinPlace>,
    mark: u8,
}

#[derive(Default)]
struct Open {
    cohort: Cohort,
    twin: TwinCohort,
    live: Vec<Live>,
}

/// A context and its twin. The first of the open cohorts stands for none.
struct Bed {
    context: Context<'static, Cohorts>,
    twin: TwinCohorts,
    open: Vec<Open>,
    /// Where each page of the twin is in memory.
    addresses: HashMap<usize, usize>,
    taken: u64,
}

impl Bed {
    fn new(cohorts: usize) -> Self {
        Self {
            context: root("Tuples").cohorts().unwrap(),
            twin: TwinCohorts::new(),
            open: (0..=cohorts).map(|_| Open::default()).collect(),
            addresses: HashMap::new(),
            taken: 0,
        }
    }

    fn take(&mut self, number: usize, size: usize) {
        self.taken += 1;
        let mark = self.taken.to_le_bytes()[0];
        let (open, bytes) = (&mut self.open[number], vec![mark; size]);
        let (chunk, place) = if number == 0 {
            (self.context.take(&bytes), self.twin.allocate(size))
        } else {
            let chunk = self.context.take_for(&mut open.cohort, &bytes);
            (chunk, self.twin.allocate_for(&mut open.twin, size))
        };
        let chunk = chunk.unwrap();
        if let Some(TwinPlace { page, offset, .. }) = place {
            let address = self.context.bytes(&chunk).unwrap().as_ptr().addr() - offset;
            let known = self.addresses.entry(page).or_insert(address);
            assert_eq!(*known, address, "chunk {} is not in page {page}", self.taken);
        }
        open.live.push(Live { chunk, place, mark });
        self.check();
    }

    fn give_back(&mut self, number: usize, at: usize) {
        let Live { chunk, place, mark } = self.open[number].live.swap_remove(at);
        assert!(self.context.bytes(&chunk).unwrap().iter().all(|byte| *byte == mark));
        self.twin.free(place, chunk.len());
        self.context.give_back(chunk).unwrap();
        self.check();
    }

    /// Gives all chunks of a cohort back and closes it, or the other way round; another takes its place.
    fn end(&mut self, number: usize, closes_first: bool) {
        if closes_first {
            self.close(number);
        }
        for at in (0..self.open[number].live.len()).rev() {
            self.give_back(number, at);
        }
        self.close(number);
    }

    fn close(&mut self, number: usize) {
        let open = &mut self.open[number];
        let (cohort, twin) = (std::mem::take(&mut open.cohort), std::mem::take(&mut open.twin));
        self.context.close(cohort).unwrap();
        self.twin.close(twin);
        self.check();
    }

    fn check(&self) {
        let stats = self.context.stats();
        let found = TwinFigures {
            mem_allocated: self.context.mem_allocated(),
            blocks: stats.blocks,
            free_bytes: stats.free_bytes,
        };
        assert_eq!(found, self.twin.figures(), "after {} chunks", self.taken);
        assert_eq!(stats.empty, self.twin.free_pages(), "after {} chunks", self.taken);
    }
}

/// Cohorts of a few chunks and of megabytes, chunks of none, single ones too large for a page.
#[test]
fn cohorts_and_their_plain_twin_have_the_same_pages() {
    const COHORTS: usize = 12;
    for seed in 0..4 {
        let (mut rng, mut bed) = (Rng::new(seed), Bed::new(COHORTS));
        for step in 0..40_000_usize {
            // One of them has many more than the others.
            let number = if rng.chance(30) { 1 } else { rng.below(COHORTS + 1) };
            let grows = if step / 10_000 % 2 == 0 { 85 } else { 35 };
            if rng.chance(grows) {
                let size = match rng.below(100) {
                    0 => rng.below(100_000),
                    1..=9 => rng.below(9_000),
                    _ => rng.below(1200),
                };
                bed.take(number, size);
            } else if rng.below(400) == 0 {
                bed.end(number, rng.chance(50));
            } else if !bed.open[number].live.is_empty() {
                let at = rng.below(bed.open[number].live.len());
                bed.give_back(number, at);
            }
        }
        (0..=COHORTS).for_each(|number| bed.end(number, number % 2 == 0));
        assert_eq!(bed.context.account().live_bytes(), 0, "seed {seed}");
    }
}

/// So many pages that spans have more than one; the system gets most of them back.
#[test]
fn spans_grow_with_what_there_is_and_go_when_they_are_free() {
    let mut bed = Bed::new(3);
    for _ in 0..15_000 {
        (1..=3).for_each(|number| bed.take(number, 1000));
    }
    let (most, blocks) = (bed.context.mem_allocated(), bed.context.stats().blocks);
    assert!(most / (64 << 10) > blocks + 50, "{most} bytes in {blocks} spans");
    (1..=3).for_each(|number| bed.end(number, false));
    assert!(bed.context.mem_allocated() < most / 8, "{}", bed.context.mem_allocated());
}
