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
use pgtoast_store::buffer::{BufferPool, ForkId, PoolOptions};
use pgtoast_store::disk::FileDisk;
use pgtoast_store::{Fork, RelationId, RelationKind, StoreError};

const BLOCKS: u32 = 4096;
const ROUNDS: u32 = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let disk = Arc::new(FileDisk::new(directory.path()));
    let options = PoolOptions::new(BlockSize::KIB_8, 64 << 20);
    let open = |options| {
        let pool = BufferPool::new(disk.clone(), options);
        let fork = pool.open_fork(RelationId::new(1), RelationKind::Heap, Fork::Main, true)?;
        Ok::<_, StoreError>((pool, fork))
    };

    let (pool, fork) = open(options)?;
    let start = Instant::now();
    for _ in 0..BLOCKS {
        let (_, mut page) = pool.extend(fork, 1)?;
        PageMut::init(&mut page, BlockSize::KIB_8, 0)?;
    }
    report("extend", start.elapsed(), BLOCKS);
    let start = Instant::now();
    pool.flush()?;
    report("flush", start.elapsed(), BLOCKS);

    for threads in [1, 2] {
        let read = |block| pool.read(fork, block).map(|page| page[20]);
        let write = |block| {
            pool.write(fork, block).map(|mut page| {
                page[20] = 0;
                0
            })
        };
        for blocks in [64, BLOCKS] {
            let of = format!("of {blocks} pages, {threads} threads");
            timed(&format!("read {of}"), threads, blocks, &read)?;
            timed(&format!("write {of}"), threads, blocks, &write)?;
        }
    }

    for (name, ahead) in [("one by one", 0), ("16 ahead", 16)] {
        let (pool, fork) = open(options)?;
        let start = Instant::now();
        scan(&pool, fork, ahead)?;
        report(&format!("read from the system, {name}"), start.elapsed(), BLOCKS);
    }
    let (pool, fork) = open(PoolOptions::new(BlockSize::KIB_8, 4 << 20))?;
    let start = Instant::now();
    for block in 0..BLOCKS {
        pool.write(fork, BlockNumber::new(block))?[20] = 0;
    }
    report("change with write-back, pool of 4 MiB", start.elapsed(), BLOCKS);
    let statistics = pool.statistics().total();
    println!("{} pages written by {} calls", statistics.writes, statistics.write_calls);
    Ok(())
}

fn scan(pool: &BufferPool, fork: ForkId, ahead: u32) -> Result<(), StoreError> {
    for block in 0..BLOCKS {
        if ahead > 0 && block % ahead == 0 {
            pool.prefetch(fork, block..block + ahead);
        }
        black_box(pool.read(fork, BlockNumber::new(block))?[20]);
    }
    Ok(())
}

/// All threads use the pages in turn, each from another one on. The time is the median of rounds.
fn timed(
    name: &str,
    threads: u32,
    blocks: u32,
    page: &(impl Fn(BlockNumber) -> Result<u8, StoreError> + Sync),
) -> Result<(), StoreError> {
    let times = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let times = &times;
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let start = Instant::now();
                        for use_number in 0..BLOCKS {
                            let block = (use_number + thread * 1777) % blocks;
                            black_box(page(BlockNumber::new(block))?);
                        }
                        times.lock().expect("no panic").push(start.elapsed());
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    let mut times = times.into_inner().expect("no panic");
    times.sort_unstable();
    report(name, times[times.len() / 2], BLOCKS);
    Ok(())
}

fn report(name: &str, time: Duration, pages: u32) {
    println!("{name}: {:.1} ns", time.as_nanos() as f64 / f64::from(pages));
}
