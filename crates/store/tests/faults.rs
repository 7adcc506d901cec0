//! Disks that fail, files that are not what they were: nothing is lost, and the error says where.
use std::io::ErrorKind;
use std::sync::Arc;

use pgtoast_base::BlockSize;
use pgtoast_page::PageError;
use pgtoast_store::buffer::{BufferPool, ForkId, PoolOptions};
use pgtoast_store::{Fork, RelationKind, StoreError, StoreFile};
use support::{Call, MemoryDisk, RELATION, block, fill, mark};

mod support;

const SIZE: BlockSize = BlockSize::KIB_1;
const FILE: StoreFile = StoreFile::Relation { relation: RELATION, fork: Fork::Main };

fn segment(segment: u32) -> StoreFile {
    StoreFile::Segment { relation: RELATION, fork: Fork::Main, segment }
}

fn open(disk: &MemoryDisk, frames: usize) -> Result<(BufferPool, ForkId), StoreError> {
    let mut options = PoolOptions::new(SIZE, frames * SIZE.bytes());
    options.segment_blocks = 4;
    let pool = BufferPool::new(Arc::new(disk.clone()), options);
    let fork = pool.open_fork(RELATION, RelationKind::Heap, Fork::Main, true)?;
    Ok((pool, fork))
}

/// A relation of that many blocks, each with its number in it, on a disk.
fn written(blocks: u32) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (pool, fork) = open(&disk, 16).expect("a sound disk");
    for number in 0..blocks {
        fill(&mut pool.extend(fork, 1).expect("a sound disk").1, SIZE, number);
    }
    pool.flush().expect("a sound disk");
    disk
}

#[test]
fn a_flipped_byte_is_an_error_that_names_file_and_block() {
    let disk = written(10);
    disk.file("base/16384.2").lock().unwrap()[1024 + 500] ^= 1;
    let (pool, fork) = open(&disk, 16).unwrap();
    for ahead in [false, true] {
        if ahead {
            pool.prefetch(fork, 0..10);
        }
        let error = pool.read(fork, block(9)).unwrap_err();
        let StoreError::Page { file, block: named, error: PageError::Checksum { .. } } = error
        else {
            panic!("{error}");
        };
        assert_eq!((file, named), (FILE, block(9)));
        assert!(error.to_string().starts_with("base/16384, block 9: page checksum"), "{error}");
        for number in 0..9 {
            assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), number);
        }
    }
    // Put right, it is read.
    disk.file("base/16384.2").lock().unwrap()[1024 + 500] ^= 1;
    assert_eq!(mark(&pool.read(fork, block(9)).unwrap()), 9);
}

#[test]
fn pages_without_checksums_are_still_pages() {
    let disk = written(1);
    let options = PoolOptions { checksums: false, ..PoolOptions::new(SIZE, 1 << 14) };
    let pool = BufferPool::new(Arc::new(disk.clone()), options);
    let fork = pool.open_fork(RELATION, RelationKind::Heap, Fork::Main, false).unwrap();
    disk.file("base/16384").lock().unwrap()[13] = 0xff;
    let error = pool.read(fork, block(0)).unwrap_err();
    assert!(matches!(error, StoreError::Page { error: PageError::Bounds { .. }, .. }), "{error}");
}

#[test]
fn a_torn_file_is_refused_and_so_is_one_that_is_too_long() {
    let disk = written(3);
    for (len, bytes) in [(2500, 2500), (5 * 1024, 5 * 1024)] {
        disk.file("base/16384").lock().unwrap().resize(len, 0);
        let error =
            StoreError::FileLength { file: segment(0), bytes, block_bytes: 1024, limit: 4 * 1024 };
        assert_eq!(open(&disk, 16).unwrap_err(), error);
    }
}

#[test]
fn a_file_that_was_cut_while_it_is_open_is_an_error_where_it_ends() {
    let disk = written(10);
    let (pool, fork) = open(&disk, 16).unwrap();
    disk.file("base/16384.1").lock().unwrap().truncate(1500);
    assert_eq!(mark(&pool.read(fork, block(4)).unwrap()), 4);
    let kind = ErrorKind::UnexpectedEof;
    let error = StoreError::Io { file: segment(1), offset: 1500, kind };
    assert_eq!(pool.read(fork, block(5)).unwrap_err(), error);
    assert_eq!(error.to_string(), "base/16384.1, byte 1500: unexpected end of file");
}

#[test]
fn a_fork_that_is_not_there_is_an_error() {
    let pool = BufferPool::new(Arc::new(MemoryDisk::new()), PoolOptions::new(SIZE, 0));
    let error = StoreError::Io { file: segment(0), offset: 0, kind: ErrorKind::NotFound };
    let opened = pool.open_fork(RELATION, RelationKind::Heap, Fork::Main, false);
    assert_eq!(opened, Err(error));
}

#[test]
fn calls_that_do_a_part_are_gone_on_with() {
    let disk = MemoryDisk::new();
    disk.cut(700);
    let (pool, fork) = open(&disk, 16).unwrap();
    for number in 0..100 {
        fill(&mut pool.extend(fork, 1).unwrap().1, SIZE, number);
    }
    pool.flush().unwrap();
    let (pool, fork) = open(&disk, 16).unwrap();
    pool.prefetch(fork, 0..100);
    for number in 0..100 {
        assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), number);
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    let disk = MemoryDisk::new();
    let (pool, fork) = open(&disk, 16).unwrap();
    disk.fail(Some(Call::Write), 0, u64::MAX, ErrorKind::StorageFull);
    // As many as there is room for; the next has nowhere to go.
    for number in 0..16 {
        fill(&mut pool.extend(fork, 1).unwrap().1, SIZE, number);
    }
    let kind = ErrorKind::StorageFull;
    let error = pool.extend(fork, 1).unwrap_err();
    assert!(matches!(error, StoreError::Io { kind: found, .. } if found == kind), "{error}");
    assert_eq!(pool.block_count(fork), 16);
    let error = pool.flush().unwrap_err();
    assert_eq!(error, StoreError::Io { file: segment(0), offset: 0, kind });
    for number in 0..16 {
        assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), number);
    }

    disk.heal();
    pool.flush().unwrap();
    assert_eq!(pool.statistics().total().writes, 16);
    let (pool, fork) = open(&disk, 16).unwrap();
    for number in 0..16 {
        assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), number);
    }
}

#[test]
fn a_page_that_cannot_be_written_does_not_keep_others_from_being_read() {
    let disk = written(40);
    let (pool, fork) = open(&disk, 16).unwrap();
    for number in 0..3 {
        fill(&mut pool.write(fork, block(number)).unwrap(), SIZE, 1000 + number);
    }
    disk.fail(Some(Call::Write), 0, u64::MAX, ErrorKind::StorageFull);
    for number in (3..40).chain(3..40) {
        assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), number);
    }
    for number in 0..3 {
        assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), 1000 + number);
    }
}

/// Whatever call fails, and whenever: what was said to be durable is, and after the fault all is.
#[test]
fn one_failing_call_at_any_place_loses_nothing() {
    for skip in 0.. {
        let disk = written(20);
        disk.fail(None, skip, 1, ErrorKind::Other);
        let mut failed = false;
        let (pool, fork) = loop {
            match open(&disk, 8) {
                Ok(opened) => break opened,
                Err(_) => failed = true,
            }
        };
        let mut expected: Vec<u32> = (0..20).collect();
        for step in 0..60_u32 {
            let number = step * 7 % 20;
            loop {
                match pool.write(fork, block(number)) {
                    Ok(mut page) => break fill(&mut page, SIZE, 100 + step),
                    Err(_) => failed = true,
                }
            }
            expected[number as usize] = 100 + step;
            if step % 10 == 9 {
                match pool.extend(fork, 1) {
                    Ok((added, mut page)) => {
                        assert_eq!(added, block(u32::try_from(expected.len()).unwrap()));
                        fill(&mut page, SIZE, step);
                        expected.push(step);
                    }
                    Err(_) => failed = true,
                }
            }
        }
        let mut flushed = pool.flush();
        if let Err(StoreError::Io { .. }) = flushed {
            failed = true;
            flushed = pool.flush();
        }
        match flushed {
            Ok(()) => {
                let (pool, fork) = open(&disk, 8).unwrap();
                assert_eq!(pool.block_count(fork) as usize, expected.len());
                for (number, expected) in (0..).zip(&expected) {
                    assert_eq!(mark(&pool.read(fork, block(number)).unwrap()), *expected);
                }
            }
            // The sync itself failed, and the pool does not pretend that the next one helps.
            Err(error) => assert_eq!(error, StoreError::Unsynced { file: FILE }),
        }
        if !failed && skip > 20 {
            break;
        }
    }
}

#[test]
fn a_failed_sync_is_never_forgotten() {
    let disk = written(1);
    let (pool, fork) = open(&disk, 16).unwrap();
    fill(&mut pool.write(fork, block(0)).unwrap(), SIZE, 7);
    disk.fail(Some(Call::Sync), 0, 1, ErrorKind::Other);
    let error = StoreError::Io { file: segment(0), offset: 0, kind: ErrorKind::Other };
    assert_eq!(pool.flush(), Err(error));
    for _ in 0..2 {
        assert_eq!(pool.flush(), Err(StoreError::Unsynced { file: FILE }));
    }
}

#[test]
fn when_all_pages_are_held_the_next_is_refused() {
    let disk = written(40);
    let (pool, fork) = open(&disk, 8).unwrap();
    let held: Vec<_> = (0..8).map(|number| pool.read(fork, block(number)).unwrap()).collect();
    let error = StoreError::NoFrame { frames: 8 };
    assert_eq!(pool.read(fork, block(8)).unwrap_err(), error);
    assert_eq!(pool.extend(fork, 1).unwrap_err(), error);
    pool.prefetch(fork, 8..40);
    drop(held);
    assert_eq!(mark(&pool.read(fork, block(8)).unwrap()), 8);
}
