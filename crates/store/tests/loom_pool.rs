//! The buffer pool under the model checker: two frames, pages of 1 KiB, every interleaving of latches,
//! locks and atomics up to the bound on preemptions that each model states. The code is that which
//! ships.
//!
//! Each model runs sound, and again with the bug that it is there for seeded into the code: that run
//! must fail, or the model shows nothing.
#![cfg(pgtoast_loom)]

use explore::explore;
use loom::sync::Arc;
use loom::thread;
use pgtoast_base::BlockSize;
use pgtoast_store::buffer::{BufferPool, ForkId, PoolOptions};
use pgtoast_store::{Fork, Mutant, RelationKind, StoreError};
use support::{MemoryDisk, RELATION, block, fill, mark};

mod explore;
mod support;

const SIZE: BlockSize = BlockSize::KIB_1;

#[derive(Clone)]
struct Shared {
    pool: Arc<BufferPool>,
    fork: ForkId,
}

/// A pool over a relation of that many blocks, each with its number in it, and none in memory.
fn shared(disk: &MemoryDisk, frames: usize) -> Shared {
    let mut options = PoolOptions::new(SIZE, frames * SIZE.bytes());
    options.io_combine_limit = 2;
    let pool = BufferPool::new(std::sync::Arc::new(disk.clone()), options);
    let fork = pool.open_fork(RELATION, RelationKind::Heap, Fork::Main, true).expect("a disk");
    Shared { pool: Arc::new(pool), fork }
}

/// The bytes that a relation of that many blocks has in its file.
fn disk(blocks: u32) -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.put("base/16384", |bytes| {
        for number in 0..blocks {
            let mut page = vec![0; SIZE.bytes()];
            fill(&mut page, SIZE, number);
            pgtoast_page::set_checksum(&mut page, SIZE, block(number)).expect("a page");
            bytes.extend(page);
        }
    });
    disk
}

impl Shared {
    fn read(&self, number: u32) -> u32 {
        mark(&self.pool.read(self.fork, block(number)).expect("a block"))
    }

    fn write(&self, number: u32, mark: u32) {
        fill(&mut self.pool.write(self.fork, block(number)).expect("a block"), SIZE, mark);
    }

    fn spawn(&self, work: impl FnOnce(Self) + Send + 'static) -> thread::JoinHandle<()> {
        let shared = self.clone();
        thread::spawn(move || work(shared))
    }
}

/// One follows the hint to a page, another needs its frame for other blocks.
fn a_hinted_page_against_its_eviction() {
    let shared = shared(&disk(3), 2);
    assert_eq!(shared.read(0), 0);
    let reader = shared.spawn(|shared| assert_eq!(shared.read(0), 0));
    assert_eq!(shared.read(1), 1);
    assert_eq!(shared.read(2), 2);
    reader.join().expect("no panic");
    assert_eq!(shared.read(0), 0);
}

/// The same, with the reader first, and one who changes the page.
fn an_eviction_against_the_writer_of_a_hinted_page() {
    let shared = shared(&disk(3), 2);
    assert_eq!(shared.read(0), 0);
    let other = shared.spawn(|shared| {
        assert_eq!(shared.read(1), 1);
        assert_eq!(shared.read(2), 2);
    });
    shared.write(0, 100);
    other.join().expect("no panic");
    assert_eq!((shared.read(1), shared.read(2), shared.read(0)), (1, 2, 100));
}

#[test]
fn a_page_found_by_a_hint_is_the_one_asked_for() {
    explore(4, Mutant::None, a_hinted_page_against_its_eviction);
    explore(4, Mutant::TrustHint, a_hinted_page_against_its_eviction);
    explore(4, Mutant::None, an_eviction_against_the_writer_of_a_hinted_page);
    explore(4, Mutant::TrustHint, an_eviction_against_the_writer_of_a_hinted_page);
}

/// Both miss the same block, with room for it in one frame of two.
fn two_readers_of_a_missing_block() {
    let shared = shared(&disk(3), 2);
    assert_eq!(shared.read(0), 0);
    let other = shared.spawn(|shared| {
        assert_eq!(shared.read(1), 1);
        shared.write(1, 100);
    });
    let seen = shared.read(1);
    assert!(seen == 1 || seen == 100, "{seen}");
    other.join().expect("no panic");
    assert_eq!(shared.read(1), 100);
}

#[test]
fn a_block_is_in_one_frame_only() {
    explore(4, Mutant::None, two_readers_of_a_missing_block);
    explore(4, Mutant::EnterTwice, two_readers_of_a_missing_block);
}

/// A changed page makes room for another, while it is asked for.
fn a_reader_against_the_write_back_of_an_evicted_page() {
    let shared = shared(&disk(9), 2);
    shared.write(0, 100);
    // Takes the place of the other's hint: the map alone knows where block 0 is.
    assert_eq!(shared.read(8), 8);
    let reader = shared.spawn(|shared| assert_eq!(shared.read(0), 100));
    assert_eq!(shared.read(1), 1);
    reader.join().expect("no panic");
    assert_eq!(shared.read(0), 100);
}

#[test]
fn a_page_on_its_way_out_is_not_read_from_the_file_too_early() {
    explore(4, Mutant::None, a_reader_against_the_write_back_of_an_evicted_page);
    explore(4, Mutant::ForgetBeforeWrite, a_reader_against_the_write_back_of_an_evicted_page);
}

/// A page is changed again while a flush writes what was changed before.
fn a_writer_against_a_flush() {
    let files = disk(2);
    let shared = shared(&files, 2);
    shared.write(0, 100);
    shared.write(1, 101);
    let writer = shared.spawn(|shared| shared.write(0, 200));
    shared.pool.flush().expect("a sound disk");
    writer.join().expect("no panic");
    shared.pool.flush().expect("a sound disk");
    let file = files.file("base/16384");
    let bytes = file.lock().expect("no panic");
    assert_eq!(mark(&bytes[..SIZE.bytes()]), 200);
    assert_eq!(mark(&bytes[SIZE.bytes()..]), 101);
}

#[test]
fn a_change_during_a_flush_is_in_the_next() {
    explore(4, Mutant::None, a_writer_against_a_flush);
    explore(4, Mutant::CleanUnlatched, a_writer_against_a_flush);
}

/// An evicted page's neighbour is written with it, and changed again at the same time.
fn a_writer_against_the_write_back_of_a_neighbour() {
    let shared = shared(&disk(4), 2);
    shared.write(0, 100);
    shared.write(1, 101);
    let writer = shared.spawn(|shared| shared.write(1, 201));
    assert_eq!(shared.read(3), 3);
    writer.join().expect("no panic");
    assert_eq!(shared.read(2), 2);
    assert_eq!(shared.read(3), 3);
    assert_eq!(shared.read(0), 100);
    assert_eq!(shared.read(1), 201);
}

#[test]
fn a_change_during_a_write_back_is_not_lost() {
    explore(4, Mutant::None, a_writer_against_the_write_back_of_a_neighbour);
    explore(4, Mutant::CleanUnlatched, a_writer_against_the_write_back_of_a_neighbour);
}

/// A new block is used by another thread as soon as it is counted.
///
/// The reader is the thread that is spawned: the checker remembers one access to an atomic, and would
/// forget a reader's that came before those of an extension.
fn an_extension_against_a_reader_of_the_count() {
    let shared = shared(&disk(1), 3);
    let other = shared.spawn(|shared| {
        let last = shared.pool.block_count(shared.fork) - 1;
        assert_eq!(shared.read(last), if last == 0 { 0 } else { 100 });
    });
    let (added, mut page) = shared.pool.extend(shared.fork, 1).expect("room");
    assert_eq!(added, block(1));
    fill(&mut page, SIZE, 100);
    drop(page);
    other.join().expect("no panic");
    assert_eq!(shared.read(1), 100);
}

#[test]
fn a_block_that_is_counted_is_whole() {
    explore(4, Mutant::None, an_extension_against_a_reader_of_the_count);
    explore(4, Mutant::CountBeforeMap, an_extension_against_a_reader_of_the_count);
}

/// Two extensions at once.
fn two_extensions() {
    let shared = shared(&disk(0), 3);
    let add = |shared: &Shared, mark| {
        let (added, mut page) = shared.pool.extend(shared.fork, 1).expect("room");
        fill(&mut page, SIZE, mark);
        added.get()
    };
    let (sent, theirs) = std::sync::mpsc::channel();
    let other = shared.spawn(move |shared| sent.send(add(&shared, 100)).expect("a receiver"));
    let ours = add(&shared, 200);
    other.join().expect("no panic");
    let theirs = theirs.recv().expect("a sender");
    assert_eq!((shared.read(ours), shared.read(theirs)), (200, 100));
    assert_eq!(shared.pool.block_count(shared.fork), 2);
}

#[test]
fn two_extensions_give_two_blocks() {
    explore(4, Mutant::None, two_extensions);
}

/// A block is read while it is cut off, and its number given out anew.
fn a_reader_against_a_truncation() {
    let shared = shared(&disk(2), 2);
    let other = shared.spawn(|shared| {
        match shared.pool.read(shared.fork, block(1)) {
            Ok(page) => assert_eq!(mark(&page), 1),
            Err(error) => assert!(matches!(error, StoreError::BlockMissing { .. }), "{error}"),
        };
    });
    shared.pool.truncate(shared.fork, 1).expect("a sound disk");
    other.join().expect("no panic");
    let (added, mut page) = shared.pool.extend(shared.fork, 1).expect("room");
    assert_eq!(added, block(1));
    fill(&mut page, SIZE, 100);
    drop(page);
    assert_eq!((shared.read(0), shared.read(1)), (0, 100));
}

#[test]
fn a_block_that_was_cut_off_does_not_come_back() {
    explore(4, Mutant::None, a_reader_against_a_truncation);
    explore(4, Mutant::NoSecondLook, a_reader_against_a_truncation);
}

/// Read-ahead meets a reader of the same block, and one whose frame it takes.
fn read_ahead_against_a_reader() {
    let shared = shared(&disk(4), 2);
    assert_eq!(shared.read(0), 0);
    let reader = shared.spawn(|shared| {
        assert_eq!(shared.read(1), 1);
        assert_eq!(shared.read(0), 0);
    });
    // One at a time: no more is read ahead at once into so small a pool.
    shared.pool.prefetch(shared.fork, 1..2);
    shared.pool.prefetch(shared.fork, 2..3);
    reader.join().expect("no panic");
    assert_eq!((shared.read(0), shared.read(1), shared.read(2)), (0, 1, 2));
}

#[test]
fn read_ahead_shows_no_page_before_it_is_read() {
    explore(4, Mutant::None, read_ahead_against_a_reader);
    explore(4, Mutant::TrustHint, read_ahead_against_a_reader);
}

/// A page is evicted while a flush wants to write it. Flushed is flushed, whoever wrote it.
fn an_eviction_against_a_flush() {
    let files = disk(4);
    let shared = shared(&files, 2);
    shared.write(0, 100);
    shared.write(1, 101);
    let flush = shared.spawn(move |shared| {
        shared.pool.flush().expect("a sound disk");
        let file = files.file("base/16384");
        let bytes = file.lock().expect("no panic");
        let pages = bytes.chunks(SIZE.bytes()).map(mark);
        assert_eq!(pages.take(2).collect::<Vec<_>>(), [100, 101]);
    });
    assert_eq!(shared.read(2), 2);
    flush.join().expect("no panic");
    assert_eq!((shared.read(0), shared.read(1)), (100, 101));
}

#[test]
fn a_flush_has_written_what_others_were_writing() {
    explore(4, Mutant::None, an_eviction_against_a_flush);
    explore(4, Mutant::CleanBeforeWrite, an_eviction_against_a_flush);
}
