//! What a page costs that is in memory, and one that is not: nanoseconds each, by one thread and by
//! two.
//!
//! `cargo run --release -p pgtoast-store --example page_cost`
#![expect(clippy::print_stdout, reason = "the example's output")]
use std::error::Error;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::PageMut;
use pgtoast_store::buffer::{BufferPool, PoolOptions};
use pgtoast_store::disk::FileDisk;
use pgtoast_store::{Fork, RelationId, RelationKind, StoreError};

const BLOCKS: u32 = 4096;
const ROUNDS: u32 = 200;
const BATCH: u32 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let disk = Arc::new(FileDisk::new(directory.path()));
    let open = |bytes| {
        let pool = BufferPool::new(disk.clone(), PoolOptions::new(BlockSize::KIB_8, bytes));
        let fork = pool.open_fork(RelationId::new(1), RelationKind::Heap, Fork::Main, true)?;
        Ok::<_, StoreError>((pool, fork))
    };

    let (pool, fork) = open(64 << 20)?;
    let extend = |_| {
        let (_, mut page) = pool.extend(fork, 1)?;
        drop(PageMut::init(&mut page, BlockSize::KIB_8, 0));
        Ok(0)
    };
    timed("extend, memory not used before", 1, BLOCKS, 1, &extend)?;
    pool.truncate(fork, 0)?;
    timed("extend", 1, BLOCKS, 1, &extend)?;
    let start = Instant::now();
    pool.flush()?;
    report("flush", start.elapsed(), BLOCKS);

    for threads in [1, 2] {
        for blocks in [64, BLOCKS] {
            let of = format!("of {blocks} pages, {threads} threads");
            let read = |block| pool.read(fork, block).map(|page| page[20]);
            timed(&format!("read {of}"), threads, blocks, ROUNDS, &read)?;
            let write = |block| {
                pool.write(fork, block).map(|mut page| {
                    page[20] = 0;
                    0
                })
            };
            timed(&format!("write {of}"), threads, blocks, ROUNDS, &write)?;
        }
    }

    // Much smaller than the relation: each page is read from the system.
    let (pool, fork) = open(4 << 20)?;
    let read = |block| pool.read(fork, block).map(|page| page[20]);
    timed("read from the system, one by one", 1, BLOCKS, 8, &read)?;
    for (name, ringed) in [("16 ahead", false), ("16 ahead in a ring", true)] {
        let ring = Mutex::new(pool.scan_ring());
        let ahead = |block: BlockNumber| {
            let number = block.get();
            if number.is_multiple_of(16) && ringed {
                let mut ring = ring.lock().expect("no panic");
                pool.prefetch_in_ring(fork, number..number + 16, &mut ring);
            } else if number.is_multiple_of(16) {
                pool.prefetch(fork, number..number + 16);
            }
            pool.read(fork, block).map(|page| page[20])
        };
        timed(&format!("read from the system, {name}"), 1, BLOCKS, 8, &ahead)?;
    }
    let before = pool.statistics().total();
    let write = |block| {
        pool.write(fork, block).map(|mut page| {
            page[20] = 0;
            0
        })
    };
    timed("read and written back", 1, BLOCKS, 8, &write)?;
    let statistics = pool.statistics().total() - before;
    println!("{} pages written by {} calls", statistics.writes, statistics.write_calls);
    Ok(())
}

/// All threads use the pages in turn, each from another one on. The time is the median of small
/// batches, so that what else the machine does is left out.
fn timed(
    name: &str,
    threads: u32,
    blocks: u32,
    rounds: u32,
    page: &(impl Fn(BlockNumber) -> Result<u8, StoreError> + Sync),
) -> Result<(), StoreError> {
    let times = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let times = &times;
                scope.spawn(move || {
                    let mut own = Vec::new();
                    for batch in 0..rounds * BLOCKS / BATCH {
                        let start = Instant::now();
                        for use_number in batch * BATCH..(batch + 1) * BATCH {
                            let block = (use_number + thread * 1777) % blocks;
                            black_box(page(BlockNumber::new(block))?);
                        }
                        own.push(start.elapsed());
                    }
                    times.lock().expect("no panic").extend(own);
                    Ok::<(), StoreError>(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    let mut times = times.into_inner().expect("no panic");
    times.sort_unstable();
    report(name, times[times.len() / 2], BATCH);
    Ok(())
}

fn report(name: &str, time: Duration, pages: u32) {
    println!("{name}: {:.1} ns", time.as_nanos() as f64 / f64::from(pages));
}
