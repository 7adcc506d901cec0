//! Streams of any length in little memory: an allocator that counts says how little.
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{DEFAULTS, Nowhere, RELATION, store};
use pgtoast_codec::CompressionMethod;
use pgtoast_direct::GroupOptions;

const KIB: usize = 1 << 10;
const PIECE: usize = 64 * KIB;
const VALUE: usize = 1024 * PIECE;

struct Counting;

thread_local! {
    /// Of this thread, since others print and collect what tests say.
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does it; counting changes nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get().wrapping_add(layout.size()));
        PEAK.set(PEAK.get().max(BYTES.get()));
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(start, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most bytes that were held during some work beyond those held before it.
fn peak_of<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = BYTES.get();
    PEAK.set(before);
    let result = work();
    (PEAK.get() - before, result)
}

#[test]
fn a_long_value_is_written_in_64_kib_and_six_bytes_a_leaf() {
    let piece = vec![0x5a; PIECE];
    let mut nowhere = Nowhere::default();
    // All that the store holds itself is had by then.
    RELATION.write(&mut nowhere, &piece).unwrap();
    let before = nowhere.inserts;
    let (peak, written) = peak_of(|| {
        let mut writer = RELATION.writer(&mut nowhere);
        for _ in 0..VALUE / PIECE {
            writer.write(&piece).unwrap();
        }
        writer.finish().unwrap()
    });
    let leaves = DEFAULTS.chunk_count(VALUE);
    assert_eq!((written.stored_len, nowhere.inserts - before), (VALUE, written.tuples));
    assert!(peak <= 64 * KIB + 6 * leaves, "{peak} bytes for {leaves} leaves");
}

#[test]
fn a_long_value_is_read_in_64_kib_from_any_place() {
    let mut store = store();
    let mut piece = vec![0x5a; PIECE];
    let mut writer = RELATION.writer(&mut store);
    for _ in 0..VALUE / PIECE {
        writer.write(&piece).unwrap();
    }
    let root = writer.finish().unwrap().root;
    let pointer = RELATION.pointer(root, VALUE).unwrap();
    for piece_len in [1000, PIECE] {
        let (peak, read) = peak_of(|| {
            let mut source = RELATION.source(&store, &pointer).unwrap();
            let mut read = 0;
            loop {
                match source.read(&mut piece[..piece_len]).unwrap() {
                    0 => return read,
                    len => read += len,
                }
            }
        });
        assert_eq!(read, VALUE);
        assert!(peak <= 64 * KIB, "{peak} bytes in pieces of {piece_len}");
    }
}

#[test]
fn a_value_in_groups_is_read_in_the_memory_of_a_few_groups() {
    let mut store = store();
    let value: Vec<u8> = (0..1_u32 << 22).flat_map(|at| (at / 7).to_le_bytes()).collect();
    let options = GroupOptions::new(CompressionMethod::Pglz).with_group_bytes(8 * KIB).unwrap();
    let pointer = RELATION.write_grouped(&mut store, options, &value).unwrap().unwrap();
    let mut piece = vec![0; PIECE];
    let (peak, ()) = peak_of(|| {
        let mut source = RELATION.source(&store, &pointer).unwrap();
        for expected in value.chunks(PIECE) {
            let len = source.read(&mut piece).unwrap();
            assert!(piece[..len] == *expected);
        }
    });
    // A group, its stream, and the ends of the groups.
    assert!(peak <= 64 * KIB, "{peak} bytes");
}
