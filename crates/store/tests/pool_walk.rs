//! Random walks over a pool and a plain list of what its pages hold, on a disk that fails now and
//! then: whatever a call says, the pool holds what the list does.
use std::io::ErrorKind;
use std::sync::Arc;

use pgtoast_base::BlockSize;
use pgtoast_store::buffer::{BufferPool, ForkId, PoolOptions, ScanRing};
use pgtoast_store::{Fork, RelationKind, StoreError};
use support::{Call, MemoryDisk, RELATION, Random, block, fill, mark};

mod support;

const SIZE: BlockSize = BlockSize::KIB_1;

struct Walk {
    disk: MemoryDisk,
    pool: BufferPool,
    fork: ForkId,
    ring: ScanRing,
    /// What each page holds; `None` for zeros.
    pages: Vec<Option<u32>>,
    random: Random,
    step: u32,
}

fn open(disk: &MemoryDisk) -> (BufferPool, ForkId) {
    let mut options = PoolOptions::new(SIZE, 12 * SIZE.bytes());
    (options.segment_blocks, options.io_combine_limit) = (9, 4);
    let pool = BufferPool::new(Arc::new(disk.clone()), options);
    let fork = pool.open_fork(RELATION, RelationKind::ToastIndex, Fork::Main, true);
    (pool, fork.expect("a sound disk"))
}

impl Walk {
    fn new(seed: u64) -> Self {
        let disk = MemoryDisk::new();
        let (pool, fork) = open(&disk);
        let ring = pool.scan_ring();
        Self { disk, pool, fork, ring, pages: Vec::new(), random: Random::new(seed), step: 0 }
    }

    fn step(&mut self) -> Result<(), StoreError> {
        self.step += 1;
        let blocks = u32::try_from(self.pages.len()).expect("few");
        match self.random.below(20) {
            0..4 => {
                let count = 1 + self.random.below(12);
                let filled = self.random.below(4) > 0;
                let (added, mut page) = self.pool.extend(self.fork, count)?;
                assert_eq!(added, block(blocks));
                assert!(page.iter().all(|byte| *byte == 0));
                self.pages.resize(self.pages.len() + count as usize, None);
                if filled {
                    fill(&mut page, SIZE, self.step);
                    self.pages[blocks as usize] = Some(self.step);
                }
            }
            4..9 if blocks > 0 => {
                let number = self.random.below(blocks);
                let mut page = self.pool.write(self.fork, block(number))?;
                assert_eq!(held(&page), self.pages[number as usize], "block {number}");
                fill(&mut page, SIZE, self.step);
                self.pages[number as usize] = Some(self.step);
            }
            9..14 if blocks > 0 => {
                let number = self.random.below(blocks);
                let page = self.pool.read(self.fork, block(number))?;
                assert_eq!(held(&page), self.pages[number as usize], "block {number}");
            }
            14 => {
                let first = self.random.below(blocks + 3);
                self.pool.prefetch(self.fork, first..first + 10);
            }
            15 => {
                let first = self.random.below(blocks + 3);
                self.pool.prefetch_in_ring(self.fork, first..first + 10, &mut self.ring);
            }
            16 if self.random.below(3) == 0 => {
                let keep = self.random.below(blocks + 2);
                self.pages.truncate(keep as usize);
                let truncated = self.pool.truncate(self.fork, keep);
                assert_eq!(self.pool.block_count(self.fork) as usize, self.pages.len());
                truncated?;
            }
            17 => {
                self.pool.flush()?;
                if self.random.below(2) == 0 {
                    self.reopen();
                }
            }
            18 => {
                let calls = [Call::Open, Call::Read, Call::Write, Call::Length, Call::Remove];
                let call = calls[self.random.below(5) as usize];
                let (skip, count) = (self.random.below(5), 1 + self.random.below(6));
                self.disk.fail(Some(call), skip.into(), count.into(), ErrorKind::Other);
            }
            19 if self.random.below(20) == 0 => {
                self.pages.clear();
                let dropped = self.pool.drop_relation(RELATION);
                assert_eq!(self.pool.block_count(self.fork), 0);
                self.disk.heal();
                // Forgotten it is; files that are left are removed by another try.
                dropped.or_else(|_| self.pool.drop_relation(RELATION)).expect("a sound disk");
                (self.fork, self.ring) = (
                    self.pool
                        .open_fork(RELATION, RelationKind::ToastIndex, Fork::Main, true)
                        .expect("a sound disk"),
                    self.pool.scan_ring(),
                );
            }
            _ => {}
        }
        Ok(())
    }

    fn reopen(&mut self) {
        self.disk.heal();
        (self.pool, self.fork) = open(&self.disk);
        self.ring = self.pool.scan_ring();
        self.compare();
    }

    fn compare(&self) {
        assert_eq!(self.pool.block_count(self.fork) as usize, self.pages.len());
        for (number, expected) in (0..).zip(&self.pages) {
            let page = self.pool.read(self.fork, block(number)).expect("a sound disk");
            assert_eq!(held(&page), *expected, "block {number}");
        }
    }
}

fn held(page: &[u8]) -> Option<u32> {
    page.iter().any(|byte| *byte != 0).then(|| mark(page))
}

#[test]
fn a_walk_with_failing_calls_loses_nothing_and_shows_nothing_old() {
    let mut failed = 0;
    for seed in 1..60 {
        let mut walk = Walk::new(seed);
        for _ in 0..600 {
            match walk.step() {
                Ok(()) => {}
                Err(StoreError::Io { kind: ErrorKind::Other, .. }) => failed += 1,
                Err(error) => panic!("walk {seed}, step {}: {error}", walk.step),
            }
        }
        walk.disk.heal();
        walk.compare();
        walk.pool.flush().expect("a sound disk");
        walk.reopen();
    }
    assert!(failed > 500, "{failed} calls failed");
}
