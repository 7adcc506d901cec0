//! Which chunks there are of which value.
//!
//! ```text
//! in the file     | 7: 0 | 7: 1 | 7: 2 short | 9: 0 | 9: 1 | 8: 0 short | 9: 2 short |
//! runs            | 7: 0..3                  | 9: 0..2     | 8: 0..1    | 9: 2..3    |
//! sorted          | 7: 0..3 | 8: 0..1 | 9: 0..2 | 9: 2..3 |
//! ```
//! A run is a number of chunks of one value that lie one behind the other in the file, all full but the
//! last. Most values are one run, so a relation's are few bytes a value. What does not fit the memory is
//! left for another pass, by value id.
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber};

/// Chunks of one value, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) value_id: u32,
    /// The number of the first chunk; whatever is there, if it is nonsense.
    pub(super) first: u32,
    /// How many there are, and the flags above.
    count_flags: u32,
    /// The first four bytes of the first chunk.
    pub(super) head: u32,
    /// Where the first chunk is.
    pub(super) block: u32,
    item: u16,
    /// The bytes in the last one.
    pub(super) last_len: u16,
    /// The sum over the places of all.
    pub(super) places: u32,
}

const _: () = assert!(size_of::<Run>() == 28);

/// A number that stands for the place of a chunk; its sum stands for the places of many.
#[inline]
pub(super) const fn place_sum(tid: ItemPointer, seq: u32) -> u32 {
    let place = tid.block.get().wrapping_mul(0x9e37_79b1) ^ (tid.item.get() as u32) << 16;
    let mixed = (place ^ seq.wrapping_mul(0x85eb_ca6b)).wrapping_mul(0x2c1b_3c6d);
    mixed ^ mixed >> 15
}

/// The chunks are neither deleted nor of a transaction that may not have committed.
const LIVE: u32 = 1 << 31;
/// They are deleted, and that is over.
const DELETED: u32 = 1 << 30;
/// What is wrong with the one chunk there is; two bits.
const FAULT_SHIFT: u32 = 28;
const FAULT_MASK: u32 = 3 << FAULT_SHIFT;
/// They lie in blocks whose checksums are wrong.
const DISTRUSTED: u32 = 1 << 27;
const COUNT_MASK: u32 = DISTRUSTED - 1;

/// What can be wrong with a chunk by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ChunkFault {
    NullSequence = 1,
    NullData = 2,
    Toasted = 3,
}

/// What a chunk's tuple says of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkSeen {
    pub(super) value_id: u32,
    pub(super) seq: u32,
    pub(super) len: u16,
    pub(super) head: u32,
    pub(super) tid: ItemPointer,
    pub(super) is_live: bool,
    pub(super) is_deleted: bool,
    /// Whether the checksum of its block is wrong.
    pub(super) is_distrusted: bool,
    pub(super) fault: Option<ChunkFault>,
}

impl Run {
    pub(super) fn of(chunk: &ChunkSeen) -> Self {
        let mut flags = chunk.fault.map_or(0, |fault| (fault as u32) << FAULT_SHIFT);
        if chunk.is_live {
            flags |= LIVE;
        }
        if chunk.is_deleted {
            flags |= DELETED;
        }
        if chunk.is_distrusted {
            flags |= DISTRUSTED;
        }
        Self {
            value_id: chunk.value_id,
            first: chunk.seq,
            count_flags: 1 | flags,
            head: chunk.head,
            block: chunk.tid.block.get(),
            item: chunk.tid.item.get(),
            last_len: chunk.len,
            places: place_sum(chunk.tid, chunk.seq),
        }
    }

    pub(super) const fn count(&self) -> u32 {
        self.count_flags & COUNT_MASK
    }

    pub(super) const fn is_live(&self) -> bool {
        self.count_flags & LIVE != 0
    }

    pub(super) const fn is_deleted(&self) -> bool {
        self.count_flags & DELETED != 0
    }

    pub(super) const fn is_distrusted(&self) -> bool {
        self.count_flags & DISTRUSTED != 0
    }

    pub(super) const fn fault(&self) -> Option<ChunkFault> {
        match (self.count_flags & FAULT_MASK) >> FAULT_SHIFT {
            0 => None,
            1 => Some(ChunkFault::NullSequence),
            2 => Some(ChunkFault::NullData),
            _ => Some(ChunkFault::Toasted),
        }
    }

    /// The numbers of its chunks.
    pub(super) const fn numbers(&self) -> Range<u32> {
        self.first..self.first.saturating_add(self.count())
    }

    /// Whether an index has to lead to its chunks: entries of others may be gone already, or not be
    /// there yet.
    pub(super) const fn must_be_indexed(&self) -> bool {
        self.is_live() && self.fault().is_none()
    }

    /// Where its first chunk is.
    pub(super) const fn tid(&self) -> ItemPointer {
        ItemPointer::new(BlockNumber::new(self.block), OffsetNumber::new(self.item))
    }

    /// The bytes in its chunks.
    pub(super) fn bytes(&self, chunk_bytes: u16) -> u64 {
        u64::from(self.count().saturating_sub(1)) * u64::from(chunk_bytes)
            + u64::from(self.last_len)
    }

    /// Whether the chunk goes on where the run ends.
    #[inline]
    fn takes(&self, next: &Self, chunk_bytes: u16) -> bool {
        self.value_id == next.value_id
            && self.last_len == chunk_bytes
            && self.first.wrapping_add(self.count()) == next.first
            && (self.count_flags ^ next.count_flags) & !COUNT_MASK == 0
            && next.count_flags & FAULT_MASK == 0
            && self.count() < COUNT_MASK
    }
}

/// What the collectors of several threads have between them.
#[derive(Debug)]
pub(super) struct RunWindow {
    /// The lowest value id.
    start: u64,
    /// The first id that is left for another pass.
    end: AtomicU64,
    /// How many more runs there is memory for.
    room: AtomicUsize,
}

impl RunWindow {
    pub(super) const fn new(start: u64, end: u64, room: usize) -> Self {
        Self { start, end: AtomicU64::new(end), room: AtomicUsize::new(room) }
    }

    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// Takes some of the room; how much there was.
    fn claim(&self) -> usize {
        let take = |room: usize| Some(room.saturating_sub(ROOM_PIECE));
        let before = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.unwrap_or_default().min(ROOM_PIECE)
    }
}

/// Threads take room for so many runs at once.
const ROOM_PIECE: usize = 4096;
/// And have room for so many whatever the memory.
const LEAST_ROOM: usize = 64;

/// Collects the runs of values whose ids lie in a window, and narrows the window when they are too
/// many. One for each thread.
#[derive(Debug)]
pub(super) struct RunCollector<'a> {
    runs: Vec<Run>,
    window: &'a RunWindow,
    chunk_bytes: u16,
    most: usize,
}

impl<'a> RunCollector<'a> {
    pub(super) const fn new(window: &'a RunWindow, chunk_bytes: u16) -> Self {
        Self { runs: Vec::new(), window, chunk_bytes, most: 0 }
    }

    #[inline]
    pub(super) fn take(&mut self, chunk: &ChunkSeen) {
        let run = Run::of(chunk);
        if let Some(last) = self.runs.last_mut()
            && last.takes(&run, self.chunk_bytes)
        {
            last.count_flags += 1;
            last.last_len = run.last_len;
            last.places = last.places.wrapping_add(run.places);
            return;
        }
        let id = u64::from(run.value_id);
        if id < self.window.start || id >= self.window.end() {
            return;
        }
        if self.runs.len() >= self.most {
            self.make_room();
        }
        self.runs.push(run);
    }

    #[cold]
    fn make_room(&mut self) {
        let more = self.window.claim().max(LEAST_ROOM.saturating_sub(self.most));
        if more > 0 {
            self.most += more;
        } else {
            self.narrow();
        }
    }

    /// Lets go of about half of the ids.
    fn narrow(&mut self) {
        let middle = self.runs.len() / 2;
        let (_, median, _) = self.runs.select_nth_unstable_by_key(middle, |run| run.value_id);
        // At least one id has to stay, or no pass would come to an end.
        let end = u64::from(median.value_id).max(self.window.start + 1);
        let end = self.window.end.fetch_min(end, Ordering::Relaxed).min(end);
        self.runs.retain(|run| u64::from(run.value_id) < end);
        if self.runs.len() * 4 > self.most * 3 {
            // All of one value, or nearly: its chunks are in the file, so this ends.
            self.most += self.most / 2 + 16;
        }
    }

    /// All that were collected, by value and number.
    pub(super) fn into_runs(mut self) -> Vec<Run> {
        sort(&mut self.runs);
        self.runs
    }
}

/// Sorts by value and number. Servers hand out ids in ascending order, so runs mostly come that way, or
/// as a few sequences that do: the stable sort finds and merges those.
pub(super) fn sort(runs: &mut [Run]) {
    runs.sort_by_key(|run| (run.value_id, run.first, run.block, run.item));
}
