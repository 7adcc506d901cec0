//! What a context says it holds is what the system was asked for: an allocator that counts says so.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pgtoast_memctx::{BlockSizes, Cohort, Context, Kind, Release, root};

struct Counting;

thread_local! {
    /// Of this thread, since others print and collect what tests say.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does it; counting changes nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get().wrapping_add(layout.size()));
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(start, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that this thread has more than then; those it freed for others may be more than all it had.
fn since(before: usize) -> usize {
    BYTES.get().wrapping_sub(before)
}

fn counted<K: Kind>(make: impl FnOnce() -> Context<'static, K>, sizes: &[usize]) {
    let bytes = [7; 20_000];
    let before = BYTES.get();
    let mut context = make();
    // Its name and its account are its own affair.
    let own = since(before) - context.mem_allocated();
    assert!(own < 2500, "{own} bytes");
    for round in 0..2 {
        for size in sizes.iter().cycle().take(5000) {
            let _ = context.take(&bytes[..*size]).expect("there is memory");
            assert_eq!(since(before) - own, context.mem_allocated(), "{context:?}");
        }
        context.reset_keeping(round * 100_000);
        assert_eq!(since(before) - own, context.mem_allocated(), "{context:?}");
    }
    drop(context);
    assert_eq!(BYTES.get(), before);
}

#[test]
fn every_kind_holds_what_the_system_gave() {
    let sizes = [16, 100, 8, 500, 1200, 33, 9000, 0, 20_000];
    let built = "the first block is there";
    for release in [Release::V15, Release::V17, Release::Ours] {
        let new = || root("counted").release(release);
        counted(|| new().alloc_set(BlockSizes::DEFAULT).expect(built), &sizes);
        counted(|| new().generation(BlockSizes::DEFAULT).expect(built), &sizes);
        counted(|| new().bump(BlockSizes::SMALL).expect(built), &sizes);
    }
    counted(|| root("counted").slab(8192, 80).expect(built), &[80, 3]);
    counted(|| root("counted").cohorts().expect(built), &sizes);
}

#[test]
fn spans_come_and_go_with_cohorts() {
    let mut chunks = Vec::with_capacity(40);
    let before = BYTES.get();
    let context = root("counted").cohorts().expect("it holds nothing");
    let own = since(before);
    for _ in 0..10 {
        let mut cohort = Cohort::new();
        for _ in 0..40 {
            chunks.push(context.take_for(&mut cohort, &[7; 4000]).expect("there is memory"));
        }
        assert_eq!(since(before) - own, context.mem_allocated());
        for chunk in chunks.drain(..) {
            context.give_back(chunk).expect("it lives");
        }
        context.close(cohort).expect("it is of this context");
        assert_eq!(since(before) - own, context.mem_allocated());
    }
}
