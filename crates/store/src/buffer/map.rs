//! Which frame holds which block.
use crossbeam_utils::CachePadded;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::frame::Tag;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Mutex, mutated};

/// The truth in maps under locks, each for a part of the blocks; and in front of it hints, which are
/// read without a lock.
///
/// A hint's place is the block's number plus an offset that is the fork's, so neighbours of one fork
/// never take each other's place, and a scan reads hints side by side. There are four times as many
/// as frames.
#[derive(Debug)]
pub(super) struct FrameMap {
    parts: Box<[CachePadded<Part>]>,
    hints: Box<[AtomicU32]>,
}

/// Frames by the blocks that they hold.
type Part = Mutex<HashMap<Tag, u32>>;

impl FrameMap {
    const PARTS: usize = 64;
    const HINTS_PER_FRAME: usize = 4;

    pub(super) fn new(frames: usize) -> Self {
        let parts = frames.next_power_of_two().min(Self::PARTS);
        let hints = (frames * Self::HINTS_PER_FRAME).next_power_of_two();
        Self {
            parts: (0..parts).map(|_| CachePadded::new(Mutex::new(HashMap::new()))).collect(),
            hints: (0..hints).map(|_| AtomicU32::new(u32::MAX)).collect(),
        }
    }

    /// The frame that may hold it; past all frames for none.
    #[inline]
    pub(super) fn hinted(&self, tag: Tag) -> usize {
        self.hints[self.hint(tag)].load(Ordering::Relaxed) as usize
    }

    pub(super) fn set_hint(&self, tag: Tag, frame: u32) {
        self.hints[self.hint(tag)].store(frame, Ordering::Relaxed);
    }

    #[inline]
    fn hint(&self, tag: Tag) -> usize {
        let place = tag.slot().wrapping_mul(0x9e37_79b1).wrapping_add(tag.block());
        place as usize & (self.hints.len() - 1)
    }

    /// The frame that held it a moment ago.
    pub(super) fn get(&self, tag: Tag) -> Option<u32> {
        self.part(tag).lock().get(&tag).copied()
    }

    /// Enters it, unless another frame is entered: then returns that.
    pub(super) fn insert(&self, tag: Tag, frame: u32) -> Result<(), u32> {
        match self.part(tag).lock().entry(tag) {
            Entry::Occupied(entry) if !mutated!(EnterTwice) => Err(*entry.get()),
            Entry::Occupied(mut entry) => {
                entry.insert(frame);
                Ok(())
            }
            Entry::Vacant(entry) => {
                entry.insert(frame);
                Ok(())
            }
        }
    }

    pub(super) fn remove(&self, tag: Tag) {
        self.part(tag).lock().remove(&tag);
    }

    /// All entries that `wanted` takes, each as it was at some moment.
    pub(super) fn entries(&self, wanted: impl Fn(Tag) -> bool) -> Vec<(Tag, u32)> {
        let mut entries = Vec::new();
        for part in &self.parts {
            let part = part.lock();
            entries.extend(part.iter().filter(|(tag, _)| wanted(**tag)).map(|(tag, f)| (*tag, *f)));
        }
        entries
    }

    fn part(&self, tag: Tag) -> &Part {
        // Neighbours in different parts, so that threads on one fork do not meet.
        let mixed = tag.slot().wrapping_mul(0x9e37_79b1) ^ tag.block();
        &self.parts[mixed as usize & (self.parts.len() - 1)]
    }
}
