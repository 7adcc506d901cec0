//! Many threads, few frames: every page is the one asked for, and no change is lost.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use pgtoast_base::BlockSize;
use pgtoast_store::buffer::{BufferPool, ForkId, PoolOptions};
use pgtoast_store::disk::FileDisk;
use pgtoast_store::{Fork, RelationKind, StoreError};
use support::{RELATION, Random, block, fill, mark};
use tempfile::TempDir;

mod support;

const SIZE: BlockSize = BlockSize::KIB_1;
/// Where a page counts its changes.
const COUNT: std::ops::Range<usize> = 512..520;

fn open(directory: &TempDir, frames: usize) -> (BufferPool, ForkId) {
    let mut options = PoolOptions::new(SIZE, frames * SIZE.bytes());
    options.segment_blocks = 3000;
    let pool = BufferPool::new(Arc::new(FileDisk::new(directory.path())), options);
    let fork = pool.open_fork(RELATION, RelationKind::Toast, Fork::Main, true);
    (pool, fork.expect("a directory to write to"))
}

fn count(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[COUNT].try_into().expect("eight bytes"))
}

fn add_blocks(pool: &BufferPool, fork: ForkId, blocks: u32) {
    for number in 0..blocks {
        fill(&mut pool.extend(fork, 1).expect("room").1, SIZE, number);
    }
}

#[test]
fn eight_threads_share_sixteen_frames_over_ten_thousand_blocks() {
    const BLOCKS: u32 = 10_000;
    const STEPS: u64 = 4000;
    let directory = TempDir::new().unwrap();
    let (pool, fork) = open(&directory, 16);
    add_blocks(&pool, fork, BLOCKS);
    let changes = AtomicU64::new(0);
    thread::scope(|scope| {
        for seed in 1..=8_u64 {
            let (pool, changes) = (&pool, &changes);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for step in 0..STEPS {
                    // Half of the work on a few blocks, so that threads meet.
                    let limit = if random.below(2) == 0 { 20 } else { BLOCKS };
                    let number = random.below(limit);
                    match random.below(4) {
                        0 => {
                            let mut page = pool.write(fork, block(number)).unwrap();
                            assert_eq!(mark(&page), number);
                            let next = count(&page) + 1;
                            page[COUNT].copy_from_slice(&next.to_le_bytes());
                            changes.fetch_add(1, Ordering::Relaxed);
                        }
                        1 => pool.prefetch(fork, number..number + 8),
                        2 => {
                            if let Some(page) = pool.try_write(fork, block(number)).unwrap() {
                                assert_eq!(mark(&page), number);
                            }
                        }
                        _ => {
                            let page = pool.read(fork, block(number)).unwrap();
                            assert_eq!((page.block(), mark(&page)), (block(number), number));
                        }
                    }
                    if step % 1000 == seed {
                        pool.flush().unwrap();
                    }
                }
            });
        }
    });
    pool.flush().unwrap();
    let statistics = pool.statistics().of(RelationKind::Toast, Fork::Main);
    assert!(statistics.evictions > u64::from(BLOCKS) && statistics.hits > 0, "{statistics:?}");
    drop(pool);
    let (pool, fork) = open(&directory, 16);
    let counted: u64 =
        (0..BLOCKS).map(|number| count(&pool.read(fork, block(number)).unwrap())).sum();
    assert_eq!(counted, changes.into_inner());
}

#[test]
fn extensions_by_many_threads_give_each_its_own_blocks() {
    let directory = TempDir::new().unwrap();
    let (pool, fork) = open(&directory, 32);
    thread::scope(|scope| {
        for seed in 1..=8_u32 {
            let pool = &pool;
            scope.spawn(move || {
                for step in 0..200 {
                    let (added, mut page) = pool.extend(fork, 1 + (seed + step) % 3).unwrap();
                    fill(&mut page, SIZE, added.get());
                    drop(page);
                    // Whoever sees the count may use the blocks.
                    let last = pool.block_count(fork) - 1;
                    let page = pool.read(fork, block(last)).unwrap();
                    assert!(mark(&page) == last || page.iter().all(|byte| *byte == 0));
                }
            });
        }
    });
    let blocks = pool.block_count(fork);
    let firsts = (0..blocks).filter(|number| {
        let page = pool.read(fork, block(*number)).unwrap();
        page.iter().any(|byte| *byte != 0) && (mark(&page) == *number || panic!("{number}"))
    });
    assert_eq!(firsts.count(), 8 * 200);
}

#[test]
fn truncations_and_extensions_never_show_an_old_page() {
    let directory = TempDir::new().unwrap();
    let (pool, fork) = open(&directory, 16);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..300_u32 {
                for _ in 0..20 {
                    fill(&mut pool.extend(fork, 1).unwrap().1, SIZE, round);
                }
                pool.truncate(fork, round % 5).unwrap();
            }
        });
        for seed in 1..=3 {
            let pool = &pool;
            scope.spawn(move || {
                let (mut random, mut newest) = (Random::new(seed), 0);
                for _ in 0..3000 {
                    match pool.read(fork, block(10 + random.below(8))) {
                        Ok(page) if page[14..16] == [0, 0] => {} // new: nothing in it yet
                        Ok(page) => {
                            assert!(mark(&page) >= newest, "{} after {newest}", mark(&page));
                            newest = mark(&page);
                        }
                        Err(error) => {
                            assert!(matches!(error, StoreError::BlockMissing { .. }), "{error}");
                        }
                    }
                }
            });
        }
    });
}
