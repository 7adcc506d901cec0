//! Hammers one shared map from several threads and checks every promise it makes: a taken block is
//! nobody else's, none is past the end, and at rest every maximum is right.
//! `cargo run --release --example shared_stress -- [OPERATIONS [THREADS]]`
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use pgtoast_base::BlockNumber;
use pgtoast_fsm::shared::{Cursor, SharedMap};
use pgtoast_fsm::{Category, FreeSpaceMap, Geometry, VecPages};

/// More than two pages of level 0.
const BLOCKS: u32 = 9000;
/// Blocks that no cut reaches.
const ALWAYS_THERE: u32 = 4500;
/// Blocks that each cut takes away.
const CUT: u32 = 61;

#[expect(clippy::print_stdout, reason = "a command-line example")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let operations: u64 = arguments.next().map_or(Ok(10_000_000), |text| text.parse())?;
    let threads: u32 = arguments.next().map_or(Ok(4), |text| text.parse())?;
    let geometry = Geometry::default();
    let map = SharedMap::new(geometry, BLOCKS, BLOCKS);
    let owned: Vec<_> = (0..BLOCKS).map(|_| AtomicBool::new(false)).collect();
    // Few blocks with space, so that threads meet; then more with each record.
    for block in (0..BLOCKS).step_by(100) {
        map.record(BlockNumber::new(block), Category::new(200));
    }
    let started = Instant::now();
    let (done, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let worker = |writer| {
            let (map, owned, done, taken) = (&map, &owned, &done, &taken);
            scope.spawn(move || {
                let count = work(map, owned, writer, done, operations);
                taken.fetch_add(count, Ordering::Relaxed);
            })
        };
        let mut handles: Vec<_> = (0..threads).map(worker).collect();
        handles.push(scope.spawn(|| cut_and_extend(&map, &done, operations)));
        // Joined one by one, which a race detector can follow.
        for handle in handles {
            handle.join().expect("no thread panics");
        }
    });
    assert_eq!(map.disagreements(), 0, "a maximum is wrong at rest");
    let mut written = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    map.write_to(&mut written)?;
    let mut sequential = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let blocks = (0..map.nblocks()).map(BlockNumber::new).map(|block| (block, map.category(block)));
    sequential.rebuild(map.nblocks(), blocks)?;
    assert_eq!(written.pages(), sequential.pages(), "the pages at rest are the sequential map's");
    let (done, taken) = (done.into_inner(), taken.into_inner());
    println!("{done} operations, {taken} takes, {threads} threads, {:?}", started.elapsed());
    Ok(())
}

/// Searches, takes, records, until all operations are done; gives the number of takes.
fn work(
    map: &SharedMap,
    owned: &[AtomicBool],
    writer: u32,
    done: &AtomicU64,
    operations: u64,
) -> u64 {
    let mut cursor = Cursor::new(writer);
    let mut random = u64::from(writer) * 2 + 1;
    let mut taken = 0;
    const BATCH: u64 = 1000;
    while done.fetch_add(BATCH, Ordering::Relaxed) < operations {
        for _ in 0..BATCH / 2 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let [.., low, middle, high] = random.to_le_bytes();
            let min = Category::new(low % 128);
            if high < 16 {
                let before = map.nblocks();
                let found = map.search(&mut cursor, min);
                // Only lengths that some cut left, or those before it, are possible.
                assert!(found.is_none_or(|(block, _)| block.get() < before.max(BLOCKS)));
            }
            let Some((block, _)) = map.take(&mut cursor, min) else { continue };
            taken += 1;
            // Blocks past the first that are ever cut may be recorded by someone else meanwhile.
            if block.get() < ALWAYS_THERE {
                let owner = &owned[block.get() as usize];
                assert!(!owner.swap(true, Ordering::AcqRel), "{block} was handed out twice");
                owner.store(false, Ordering::Release);
            }
            map.record(block, Category::new(middle.max(64)));
        }
    }
    taken
}

/// Cuts the relation and extends it, again and again, looking past each new end.
fn cut_and_extend(map: &SharedMap, done: &AtomicU64, operations: u64) {
    let mut nblocks = BLOCKS;
    while done.load(Ordering::Relaxed) < operations {
        let before = nblocks;
        nblocks = if nblocks < ALWAYS_THERE + CUT { BLOCKS } else { nblocks - CUT };
        if nblocks == BLOCKS {
            map.extend(nblocks);
            for block in (before..nblocks).step_by(100) {
                map.record(BlockNumber::new(block), Category::new(200));
            }
        } else {
            map.truncate(nblocks);
            let found = map.search(&mut Cursor::new(nblocks), Category::new(1));
            assert!(found.is_none_or(|(block, _)| block.get() < nblocks), "{found:?}");
        }
        map.vacuum(BlockNumber::new(0)..BlockNumber::INVALID);
        thread::yield_now();
    }
}
