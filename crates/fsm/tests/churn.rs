//! A relation of chunks under updates: tables have gone on growing for weeks beside space that was
//! freed and never found. What the map can do for it is tested here, on a heap that is only counters.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small, or cut on purpose")]
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_fsm::{Category, FreeSpaceMap, Geometry, VecPages};

const SIZE: BlockSize = BlockSize::KIB_8;
/// A chunk of the usual length with its line pointer; four fill a page.
const CHUNK_BYTES: usize = 2032;
const PAGE_BYTES: usize = 8168;

/// Blocks by the chunks in them.
struct Heap {
    chunks: Vec<usize>,
    target: Option<u32>,
    map: FreeSpaceMap<VecPages>,
    swept_pages: u32,
    restarts: u32,
}

impl Heap {
    fn new() -> Self {
        let geometry = Geometry::of(SIZE);
        let map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
        Self { chunks: Vec::new(), target: None, map, swept_pages: 0, restarts: 0 }
    }

    fn free_bytes(&self, block: u32) -> usize {
        // A tuple needs its line pointer, and so does the next one.
        (PAGE_BYTES - self.chunks[block as usize] * (CHUNK_BYTES + 4)).saturating_sub(4)
    }

    fn insert(&mut self) -> u32 {
        let min = Category::needed_for(CHUNK_BYTES, SIZE).expect("a chunk fits");
        let nblocks = self.chunks.len() as u32;
        loop {
            let report = match self.target {
                Some(block) if self.free_bytes(block) >= CHUNK_BYTES => {
                    self.chunks[block as usize] += 1;
                    return block;
                }
                Some(block) => {
                    let category = Category::of_free(self.free_bytes(block), SIZE);
                    let Ok(report) =
                        self.map.record_and_search(BlockNumber::new(block), category, min, nblocks);
                    report
                }
                None => {
                    let Ok(report) = self.map.search(min, nblocks);
                    report
                }
            };
            self.swept_pages += report.swept_pages;
            self.restarts += report.restarts;
            if let Some(block) = report.block {
                self.target = Some(block.get());
            } else {
                self.chunks.push(1);
                self.target = Some(nblocks);
                return nblocks;
            }
        }
    }

    fn delete(&mut self, block: u32) {
        self.chunks[block as usize] -= 1;
        let category = Category::of_free(self.free_bytes(block), SIZE);
        let Ok(()) = self.map.record(BlockNumber::new(block), category);
    }

    fn update(&mut self, value: &mut [u32]) {
        let new: Vec<_> = value.iter().map(|_| self.insert()).collect();
        for block in value.iter() {
            self.delete(*block);
        }
        value.copy_from_slice(&new);
    }
}

#[test]
fn updates_whose_space_is_freed_at_once_stop_growing_after_the_first_pass() {
    let mut heap = Heap::new();
    // 50 values of 10 kB are 300 chunks: 75 blocks.
    let mut values: Vec<Vec<u32>> =
        (0..50).map(|_| (0..6).map(|_| heap.insert()).collect()).collect();
    assert_eq!(heap.chunks.len(), 75);
    let mut lengths = Vec::new();
    for _ in 0..20 {
        for value in &mut values {
            heap.update(value);
        }
        lengths.push(heap.chunks.len());
    }
    println!(
        "pgtoast-count: churn: blocks after each pass {lengths:?}, {} restarts",
        heap.restarts
    );
    let steady = lengths[0];
    assert!(lengths.iter().all(|&length| length * 10 <= steady * 11), "{lengths:?}");
    assert!(steady <= 90, "{steady} blocks for what 75 held");
}

#[test]
fn updates_in_one_transaction_a_pass_need_room_for_two_versions_and_no_more() {
    let mut heap = Heap::new();
    let mut values: Vec<Vec<u32>> =
        (0..50).map(|_| (0..6).map(|_| heap.insert()).collect()).collect();
    let mut lengths = Vec::new();
    for _ in 0..6 {
        // The old version goes only when all of the new one is there.
        let new: Vec<Vec<u32>> = (0..50).map(|_| (0..6).map(|_| heap.insert()).collect()).collect();
        for block in values.iter().flatten() {
            heap.delete(*block);
        }
        values = new;
        lengths.push(heap.chunks.len());
    }
    assert!(lengths[5] <= lengths[0], "{lengths:?}");
    assert_eq!(lengths[0], 150);
}

#[test]
fn inserting_alone_walks_nothing() {
    let mut heap = Heap::new();
    for _ in 0..40_000 {
        heap.insert();
    }
    assert_eq!(heap.chunks.len(), 10_000, "every block is full");
    assert!(heap.swept_pages <= 1, "but for the look at what is there at the start");
    assert_eq!(heap.restarts, 0);
}
