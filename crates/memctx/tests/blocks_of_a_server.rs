//! The same requests take the same blocks as on a server.
//!
//! The two lines are from a mail on the development list, about ten million rows of three integers: a
//! tuple's request is 57 to 64 bytes. Source: `generation.c` (REL_17).
use pgtoast_memctx::twin::{TwinAllocSet, TwinBump, TwinFigures, TwinGeneration, TwinSlab};
use pgtoast_memctx::{BlockSizes, Release, root};
use pgtoast_testkit::Rng;

const ROWS: usize = 10_000_000;

#[test]
fn ten_million_small_chunks_take_the_blocks_that_a_server_reported() {
    for (block, total, blocks, free) in
        [(8 << 10, 724_959_232, 88_496, 3_328), (8 << 20, 721_420_288, 86, 1_415_344)]
    {
        for size in [57, 64] {
            let mut twin = TwinGeneration::new(Release::V17, BlockSizes::fixed(block));
            for _ in 0..ROWS {
                twin.allocate(size);
            }
            let figures = twin.figures();
            assert_eq!((figures.blocks, figures.free_bytes), (blocks, free), "{block}");
            assert_eq!(
                figures.mem_allocated,
                total - 128,
                "the context's own structure is left out"
            );
        }
    }
}

/// The line itself, from chunks that are really there; a thousandth of them, and with
/// `PGTOAST_MEMCTX_ROWS=10000000` all.
#[test]
fn statistics_print_the_line_that_a_server_printed() {
    let rows = std::env::var("PGTOAST_MEMCTX_ROWS").map_or(10_000, |rows| rows.parse().unwrap());
    for (block, full) in [
        (
            8 << 10,
            "Tuples: 724959232 total in 88496 blocks (10000000 chunks); 3328 free (0 chunks); \
             724955904 used\n\
             Grand total: 724959232 bytes in 88496 blocks; 3328 free (0 chunks); 724955904 used\n",
        ),
        (
            8 << 20,
            "Tuples: 721420288 total in 86 blocks (10000000 chunks); 1415344 free (0 chunks); \
             720004944 used\n\
             Grand total: 721420288 bytes in 86 blocks; 1415344 free (0 chunks); 720004944 used\n",
        ),
    ] {
        let tuples =
            root("Tuples").release(Release::V17).generation(BlockSizes::fixed(block)).unwrap();
        let mut twin = TwinGeneration::new(Release::V17, BlockSizes::fixed(block));
        for row in 0..rows {
            let _ = tuples.take(&[u8::try_from(row % 251).unwrap(); 64]).unwrap();
            twin.allocate(64);
        }
        let TwinFigures { mem_allocated, blocks, free_bytes } = twin.figures();
        let line = format!(
            "{} total in {blocks} blocks ({rows} chunks); {free_bytes} free (0 chunks); {} used",
            mem_allocated + 128,
            mem_allocated + 128 - free_bytes,
        );
        assert_eq!(tuples.stats().to_string(), line);
        if rows == ROWS {
            assert_eq!(tuples.account().statistics(), full);
        }
    }
}

/// Three million rows of one integer on release 15, whose chunk header has 24 bytes.
#[test]
fn release_15_spends_24_bytes_a_chunk() {
    let mut twin = TwinGeneration::new(Release::V15, BlockSizes::fixed(8 << 10));
    (0..3_000_000).for_each(|_| {
        twin.allocate(76);
    });
    let figures = twin.figures();
    assert_eq!((figures.blocks, figures.free_bytes), (38_462, 1_234_376));
}

/// What live servers say of the context that each backend makes and never uses but for its first block.
#[test]
fn an_empty_alloc_set_has_what_a_server_says_of_it() {
    for (release, free, used) in [
        (Release::V15, 7928, 264),
        (Release::V16, 7928, 264),
        (Release::V17, 7952, 240),
        (Release::V18, 7952, 240),
    ] {
        let sizes = BlockSizes::fixed(8 << 10);
        let context = root("ErrorContext").release(release).alloc_set(sizes).unwrap();
        let expected = format!("8192 total in 1 blocks; {free} free (0 chunks); {used} used");
        assert_eq!(context.stats().to_string(), expected, "{release:?}");
    }
}

#[test]
fn a_slab_has_the_chunks_per_block_of_its_release() {
    for (release, chunks) in [(Release::V15, 85_usize), (Release::V16, 92), (Release::V18, 92)] {
        let slab = root("Change").release(release).slab(8192, 80).unwrap();
        assert_eq!(slab.mem_allocated(), 0, "nothing is had before the first chunk");
        for count in 1..=2 * chunks {
            let _ = slab.take(&[1; 80]).unwrap();
            assert_eq!(slab.mem_allocated(), 8192 * count.div_ceil(chunks), "{release:?} {count}");
        }
    }
}

#[test]
fn twins_and_contexts_agree_on_growing_blocks() {
    let sizes = BlockSizes::DEFAULT;
    for release in [Release::V15, Release::V17, Release::Ours] {
        let set = root("set").release(release).alloc_set(sizes).unwrap();
        let bump = root("bump").release(release).bump(sizes).unwrap();
        let mut twins = (TwinAllocSet::new(release, sizes), TwinBump::new(release, sizes));
        for size in (0..4000_usize).map(|at| at * at % 9_001) {
            let _ = set.take(&vec![1; size]).unwrap();
            let _ = bump.take(&vec![1; size]).unwrap();
            twins.0.allocate(size);
            twins.1.allocate(size);
            for (stats, figures, allocated) in [
                (set.stats(), twins.0.figures(), set.mem_allocated()),
                (bump.stats(), twins.1.figures(), bump.mem_allocated()),
            ] {
                assert_eq!((stats.blocks, stats.free_bytes), (figures.blocks, figures.free_bytes));
                assert_eq!(allocated, figures.mem_allocated);
            }
        }
    }
}

/// Queues, stacks and random orders of freeing; blocks become empty, spare, current again.
#[test]
fn twins_and_contexts_agree_while_chunks_are_freed() {
    let mut rng = Rng::new(17);
    for (release, sizes) in [
        (Release::V15, BlockSizes::fixed(8 << 10)),
        (Release::V17, BlockSizes::DEFAULT),
        (Release::V18, BlockSizes { min: 2048, init: 1024, max: 16 << 10 }),
        (Release::Ours, BlockSizes::SMALL),
    ] {
        let tuples = root("tuples").release(release).generation(sizes).unwrap();
        let set = root("set").release(release).alloc_set(sizes).unwrap();
        let mut twins = (TwinGeneration::new(release, sizes), TwinAllocSet::new(release, sizes));
        let mut live = Vec::new();
        for step in 0..20_000 {
            // It grows and shrinks by turns.
            if live.is_empty() || rng.chance(if step / 2000 % 2 == 0 { 70 } else { 30 }) {
                let size = if rng.chance(2) { rng.below(20_000) } else { rng.below(400) };
                let bytes = vec![7; size];
                let block = twins.0.allocate(size);
                twins.1.allocate(size);
                live.push((tuples.take(&bytes).unwrap(), set.take(&bytes).unwrap(), block, size));
            } else {
                let at = [0, live.len() - 1, rng.below(live.len())][step / 3000 % 3];
                let (tuple, chunk, block, size) = live.remove(at);
                twins.0.free(block, size);
                twins.1.free(size);
                tuples.give_back(tuple).unwrap();
                set.give_back(chunk).unwrap();
            }
            for (stats, figures, allocated) in [
                (tuples.stats(), twins.0.figures(), tuples.mem_allocated()),
                (set.stats(), twins.1.figures(), set.mem_allocated()),
            ] {
                let found = TwinFigures {
                    mem_allocated: allocated,
                    blocks: stats.blocks,
                    free_bytes: stats.free_bytes,
                };
                assert_eq!(found, figures, "{release:?}, step {step}");
            }
        }
    }
}

/// Phases of growing and shrinking, and chunks that are freed in the order they were made, the other way
/// round, or in none.
#[test]
fn a_slab_and_its_plain_twin_have_the_same_blocks() {
    let releases = [Release::V15, Release::V16, Release::V17, Release::V18, Release::Ours];
    for (release, seed) in releases.into_iter().zip(0..) {
        for (block_bytes, chunk_size) in [(8192, 80), (1024, 8), (1024, 400), (1024, 900)] {
            let slab = root("slab").release(release).slab(block_bytes, chunk_size).unwrap();
            let mut twin = TwinSlab::new(release, block_bytes, chunk_size).unwrap();
            let mut rng = Rng::new(seed);
            let mut live = Vec::new();
            for step in 0..20_000_usize {
                let (phase, order) = (step / 2_500 % 2, step / 5_000);
                if rng.below(3) > phase {
                    live.push((slab.take(&vec![7; chunk_size]).unwrap(), twin.allocate()));
                } else if !live.is_empty() {
                    let at = match order {
                        0 => 0,
                        1 => live.len() - 1,
                        _ => rng.below(live.len()),
                    };
                    let (chunk, number) = live.remove(at);
                    slab.give_back(chunk).unwrap();
                    twin.free(number);
                }
                let (stats, account) = (slab.stats(), slab.account());
                let found = TwinFigures {
                    mem_allocated: slab.mem_allocated(),
                    blocks: stats.blocks,
                    free_bytes: stats.free_bytes,
                };
                assert_eq!(found, twin.figures(), "{release:?} {block_bytes} {chunk_size} {step}");
                let full = release.slab(0).chunk + chunk_size.next_multiple_of(8);
                assert_eq!(account.live_bytes(), live.len() * full);
            }
        }
    }
}

#[test]
fn a_slab_of_ours_does_not_go_to_the_system_for_what_it_had_a_moment_ago() {
    let mut held = Vec::new();
    let slab = root("Change").slab(8192, 80).unwrap();
    for _ in 0..3 {
        let chunks: Vec<_> = (0..10_000).map(|_| slab.take(&[7; 80]).unwrap()).collect();
        held.push(slab.mem_allocated());
        chunks.into_iter().for_each(|chunk| slab.give_back(chunk).unwrap());
        held.push(slab.mem_allocated());
    }
    assert_eq!(held, [109 * 8192; 6]);
}
