//! A buffer pool keeps what was written, whatever it has room for.
use std::fs;
use std::sync::Arc;

use pgtoast_base::BlockSize;
use pgtoast_store::buffer::{BufferPool, ForkId, PageStatistics, PoolOptions};
use pgtoast_store::disk::FileDisk;
use pgtoast_store::{Fork, RelationKind, StoreError, StoreFile};
use support::{RELATION, block, fill, mark};
use tempfile::TempDir;

mod support;

fn open(directory: &TempDir, options: PoolOptions) -> (BufferPool, ForkId) {
    let pool = BufferPool::new(Arc::new(FileDisk::new(directory.path())), options);
    let fork = pool.open_fork(RELATION, RelationKind::Heap, Fork::Main, true);
    (pool, fork.expect("a directory to write to"))
}

#[test]
fn pages_survive_eviction_in_every_block_size_over_several_segments() {
    for block_size in BlockSize::ALL {
        for checksums in [true, false] {
            let directory = TempDir::new().unwrap();
            let mut options = PoolOptions::new(block_size, 16 * block_size.bytes());
            (options.segment_blocks, options.checksums) = (7, checksums);
            let (pool, fork) = open(&directory, options);
            for number in 0..100 {
                let (added, mut page) = pool.extend(fork, 1).unwrap();
                assert_eq!(added, block(number));
                assert!(page.iter().all(|byte| *byte == 0));
                fill(&mut page, block_size, number);
            }
            for number in (0..100).rev() {
                let page = pool.read(fork, block(number)).unwrap();
                assert_eq!((page.block(), mark(&page)), (block(number), number));
            }
            pool.flush().unwrap();
            drop(pool);
            let (pool, fork) = open(&directory, options);
            assert_eq!(pool.block_count(fork), 100);
            for number in 0..100 {
                assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), number);
            }
            let last = directory.path().join("base/16384.14");
            assert_eq!(last.metadata().unwrap().len(), 2 * block_size.bytes() as u64);
        }
    }
}

#[test]
fn a_block_past_the_end_is_missing() {
    let directory = TempDir::new().unwrap();
    let (pool, fork) = open(&directory, PoolOptions::new(BlockSize::KIB_8, 1 << 20));
    let (first, page) = pool.extend(fork, 3).unwrap();
    assert_eq!(first, block(0));
    drop(page);
    assert!(pool.read(fork, block(2)).unwrap().iter().all(|byte| *byte == 0));
    let file = StoreFile::Relation { relation: RELATION, fork: Fork::Main };
    let missing = StoreError::BlockMissing { file, block: block(3), blocks: 3 };
    assert_eq!(pool.read(fork, block(3)).unwrap_err(), missing);
    assert_eq!(pool.write(fork, block(3)).unwrap_err(), missing);
    assert_eq!(pool.try_write(fork, block(3)).unwrap_err(), missing);
}

/// A pool over a relation that is in its file, and not in memory.
fn reopened(directory: &TempDir, blocks: u32, frames: usize) -> (BufferPool, ForkId) {
    let options = PoolOptions::new(BlockSize::KIB_8, frames * BlockSize::KIB_8.bytes());
    let (pool, fork) = open(directory, options);
    for number in 0..blocks {
        fill(&mut pool.extend(fork, 1).expect("room").1, BlockSize::KIB_8, number);
    }
    pool.flush().expect("a sound disk");
    open(directory, options)
}

#[test]
fn a_page_is_read_once_and_found_from_then_on() {
    let directory = TempDir::new().unwrap();
    let (pool, fork) = reopened(&directory, 4, 64);
    for number in (0..4).chain(0..4).chain(0..4) {
        assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), number);
    }
    let statistics = pool.statistics();
    let heap = statistics.of(RelationKind::Heap, Fork::Main);
    let expected = PageStatistics { hits: 8, reads: 4, read_calls: 4, ..Default::default() };
    assert_eq!(heap, expected);
    assert_eq!(statistics.of_kind(RelationKind::Toast), PageStatistics::default());
    assert_eq!(statistics.total(), heap);
}

#[test]
fn read_ahead_reads_sixteen_blocks_by_one_call_and_leaves_out_what_is_there() {
    let directory = TempDir::new().unwrap();
    let (pool, fork) = reopened(&directory, 100, 256);
    pool.prefetch(fork, 0..64);
    let ahead = pool.statistics().total();
    assert_eq!((ahead.reads, ahead.read_calls, ahead.hits), (64, 4, 0));
    for number in 0..64 {
        assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), number);
    }
    assert_eq!(pool.statistics().total().read_calls, 4);
    pool.prefetch(fork, 60..1000);
    let ahead = pool.statistics().total();
    assert_eq!((ahead.reads, ahead.read_calls), (100, 4 + 3));
    pool.prefetch(fork, 0..1000);
    pool.prefetch(fork, 2000..2100);
    assert_eq!(pool.statistics().total(), ahead);
}

#[test]
fn adjacent_dirty_pages_are_written_by_one_call() {
    let directory = TempDir::new().unwrap();
    let (pool, fork) = reopened(&directory, 100, 256);
    for number in (0..40).rev().chain(50..51) {
        fill(&mut pool.write(fork, block(number)).unwrap(), BlockSize::KIB_8, 1000 + number);
    }
    pool.flush().unwrap();
    let flushed = pool.statistics().total();
    assert_eq!((flushed.writes, flushed.write_calls), (41, 3 + 1));
    pool.flush().unwrap();
    assert_eq!(pool.statistics().total(), flushed);
}

#[test]
fn evicted_pages_take_their_neighbours_along() {
    let directory = TempDir::new().unwrap();
    let (pool, fork) = reopened(&directory, 400, 64);
    for number in 0..400 {
        fill(&mut pool.write(fork, block(number)).unwrap(), BlockSize::KIB_8, 1000 + number);
    }
    let evicted = pool.statistics().total();
    assert_eq!(evicted.evictions, 400 - 64);
    assert!(evicted.writes >= evicted.evictions && evicted.write_calls <= evicted.writes / 12);
    for number in 0..400 {
        assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), 1000 + number);
    }
}

#[test]
fn pages_in_use_outlive_a_scan_in_a_ring() {
    let directory = TempDir::new().unwrap();
    let (pool, fork) = reopened(&directory, 1000, 128);
    for number in 0..100 {
        pool.read(fork, block(number)).unwrap();
    }
    let mut ring = pool.scan_ring();
    for number in 100..1000 {
        if number % 16 == 4 {
            pool.prefetch_in_ring(fork, number..number + 16, &mut ring);
        }
        assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), number);
    }
    let before = pool.statistics().total();
    for number in 0..100 {
        assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), number);
    }
    assert_eq!((pool.statistics().total() - before).reads, 0);
}

#[test]
fn a_page_that_was_only_looked_at_is_not_written() {
    let directory = TempDir::new().unwrap();
    let (pool, fork) = reopened(&directory, 4, 64);
    assert_eq!(mark(&pool.write(fork, block(1)).unwrap()), 1);
    pool.flush().unwrap();
    assert_eq!(pool.statistics().total().writes, 0);
}

#[test]
fn a_latched_page_is_not_waited_for_by_try_write() {
    let directory = TempDir::new().unwrap();
    let (pool, fork) = reopened(&directory, 4, 64);
    let read = pool.read(fork, block(1)).unwrap();
    assert!(pool.try_write(fork, block(1)).unwrap().is_none());
    drop(read);
    let write = pool.try_write(fork, block(1)).unwrap().expect("nobody has it");
    assert_eq!((write.block(), mark(&write)), (block(1), 1));
    assert!(pool.try_write(fork, block(1)).unwrap().is_none());
}

#[test]
fn blocks_never_written_are_zeros_without_a_read_and_in_the_file_after_a_flush() {
    let directory = TempDir::new().unwrap();
    let options = PoolOptions { segment_blocks: 4, ..PoolOptions::new(BlockSize::KIB_8, 1 << 20) };
    let (pool, fork) = open(&directory, options);
    let (first, page) = pool.extend(fork, 10).unwrap();
    assert_eq!(first, block(0));
    drop(page);
    fill(&mut pool.extend(fork, 1).unwrap().1, BlockSize::KIB_8, 10);
    for number in 0..10 {
        assert!(pool.read(fork, block(number)).unwrap().iter().all(|byte| *byte == 0));
    }
    assert_eq!(pool.statistics().total().reads, 0);
    pool.flush().unwrap();
    let (pool, fork) = open(&directory, options);
    assert_eq!(pool.block_count(fork), 11);
    assert!(pool.read(fork, block(9)).unwrap().iter().all(|byte| *byte == 0));
    assert_eq!(mark(&pool.read(fork, block(10)).unwrap()), 10);
}

#[test]
fn what_was_cut_off_is_gone_from_memory_and_files() {
    let directory = TempDir::new().unwrap();
    let options = PoolOptions { segment_blocks: 4, ..PoolOptions::new(BlockSize::KIB_8, 1 << 20) };
    let (pool, fork) = open(&directory, options);
    for number in 0..11 {
        fill(&mut pool.extend(fork, 1).unwrap().1, BlockSize::KIB_8, number);
    }
    pool.flush().unwrap();
    fill(&mut pool.write(fork, block(9)).unwrap(), BlockSize::KIB_8, 900);
    pool.truncate(fork, 20).unwrap();
    assert_eq!(pool.block_count(fork), 11);
    pool.truncate(fork, 5).unwrap();
    assert_eq!(pool.block_count(fork), 5);
    assert!(pool.read(fork, block(5)).is_err());
    let len = |name: &str| directory.path().join(name).metadata().map(|file| file.len()).ok();
    let lens = ["base/16384", "base/16384.1", "base/16384.2"].map(len);
    assert_eq!(lens, [Some(4 * 8192), Some(8192), None]);
    // Numbers given out again are of new pages.
    pool.extend(fork, 5).unwrap();
    assert!(pool.read(fork, block(9)).unwrap().iter().all(|byte| *byte == 0));
    pool.flush().unwrap();
    let (pool, fork) = open(&directory, options);
    assert_eq!(pool.block_count(fork), 10);
    assert!(pool.read(fork, block(9)).unwrap().iter().all(|byte| *byte == 0));
    assert_eq!(mark(&pool.read(fork, block(4)).unwrap()), 4);
    pool.truncate(fork, 0).unwrap();
    assert_eq!(["base/16384", "base/16384.1"].map(len), [Some(0), None]);
}

#[test]
fn a_relation_that_was_dropped_has_no_files_and_no_blocks() {
    let directory = TempDir::new().unwrap();
    let options = PoolOptions::new(BlockSize::KIB_8, 1 << 20);
    let (pool, fork) = open(&directory, options);
    let map = pool.open_fork(RELATION, RelationKind::Heap, Fork::VisibilityMap, true).unwrap();
    for fork in [fork, map] {
        fill(&mut pool.extend(fork, 1).unwrap().1, BlockSize::KIB_8, 0);
    }
    pool.flush().unwrap();
    fill(&mut pool.write(fork, block(0)).unwrap(), BlockSize::KIB_8, 1);
    pool.drop_relation(RELATION).unwrap();
    assert_eq!(fs::read_dir(directory.path().join("base")).unwrap().count(), 0);
    assert_eq!(pool.block_count(fork), 0);
    assert!(pool.read(fork, block(0)).is_err());
    assert!(pool.extend(map, 1).is_err());
    pool.flush().unwrap();
    assert_eq!(fs::read_dir(directory.path().join("base")).unwrap().count(), 0);
    // One that is not open.
    fs::write(directory.path().join("base/16384_fsm"), [0; 8192]).unwrap();
    pool.drop_relation(RELATION).unwrap();
    assert_eq!(fs::read_dir(directory.path().join("base")).unwrap().count(), 0);
    // A new one of the same number is another fork.
    let again = pool.open_fork(RELATION, RelationKind::Heap, Fork::Main, true).unwrap();
    assert_ne!(again, fork);
    assert_eq!(pool.block_count(again), 0);
}

#[test]
fn pages_of_a_dropped_relation_are_used_again_in_the_order_of_their_memory() {
    let directory = TempDir::new().unwrap();
    let (pool, fork) = open(&directory, PoolOptions::new(BlockSize::KIB_8, 1 << 20));
    let fill_up = |fork| -> Vec<*const u8> {
        (0..100).map(|_| pool.extend(fork, 1).unwrap().1.as_ptr()).collect()
    };
    let places = fill_up(fork);
    assert!(places.is_sorted());
    pool.drop_relation(RELATION).unwrap();
    let again = pool.open_fork(RELATION, RelationKind::Heap, Fork::Main, true).unwrap();
    assert_eq!(fill_up(again), places);
}

#[test]
fn a_fork_is_opened_once() {
    let directory = TempDir::new().unwrap();
    let (pool, fork) = open(&directory, PoolOptions::new(BlockSize::KIB_8, 1 << 20));
    let again = pool.open_fork(RELATION, RelationKind::Heap, Fork::Main, false).unwrap();
    assert_eq!(again, fork);
    for number in 1..300 {
        let relation = pgtoast_store::RelationId::new(number);
        let fork = pool.open_fork(relation, RelationKind::Toast, Fork::Main, true).unwrap();
        fill(&mut pool.extend(fork, 1).unwrap().1, BlockSize::KIB_8, number);
        assert_eq!((pool.block_count(fork), pool.block_count(again)), (1, 0));
    }
}
