//! A buffer pool keeps what was written, whatever it has room for.
use std::sync::Arc;

use pgtoast_base::BlockSize;
use pgtoast_store::buffer::{BufferPool, ForkId, PoolOptions};
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
