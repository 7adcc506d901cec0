//! A store may have more files than a process may have open.
use std::fs;
use std::sync::Arc;
use std::thread;

use pgtoast_base::BlockSize;
use pgtoast_store::buffer::{BufferPool, PoolOptions};
use pgtoast_store::disk::FileDisk;
use pgtoast_store::{Fork, RelationId, RelationKind};
use support::{Random, block, fill, mark};
use tempfile::TempDir;

mod support;

const SIZE: BlockSize = BlockSize::KIB_1;

/// How many files of that directory the process has open.
#[cfg(target_os = "linux")]
fn open_files(directory: &TempDir) -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").expect("Linux").flatten();
    let files = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    files.filter(|file| file.starts_with(directory.path())).count()
}

#[test]
#[cfg(target_os = "linux")]
fn few_files_are_open_however_many_there_are() {
    let directory = TempDir::new().unwrap();
    let disk = Arc::new(FileDisk::with_open_files(directory.path(), 5));
    let pool = BufferPool::new(disk, PoolOptions::new(SIZE, 16 * SIZE.bytes()));
    let forks: Vec<_> = (0..60)
        .map(|number| {
            let relation = RelationId::new(number);
            let fork = pool.open_fork(relation, RelationKind::Heap, Fork::Main, true).unwrap();
            for _ in 0..3 {
                fill(&mut pool.extend(fork, 1).unwrap().1, SIZE, number);
            }
            fork
        })
        .collect();
    thread::scope(|scope| {
        for seed in 0..4 {
            let (pool, forks, directory) = (&pool, &forks, &directory);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..500 {
                    let number = random.below(60);
                    let fork = forks[number as usize];
                    assert_eq!(mark(&pool.read(fork, block(random.below(3))).unwrap()), number);
                }
                // As many as may be, and one for each thread that uses it just now.
                assert!(open_files(directory) <= 5 + 4);
            });
        }
    });
    pool.flush().unwrap();
    assert!(open_files(&directory) <= 5, "{}", open_files(&directory));
    assert_eq!(fs::read_dir(directory.path().join("base")).unwrap().count(), 60);
}
