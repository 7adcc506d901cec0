//! The clock sweep: which page makes room for another.
use super::BufferPool;
use super::counters::add;
use super::frame::{Frame, Tag};
use super::memory::PageBytes;
use super::pool::frame_number;
use crate::StoreError;
use crate::sync::atomic::Ordering;
use crate::sync::{RwLockWriteGuard, mutated, pause};

/// A frame that is latched and has no tag. Its page has no bytes yet if it was never used.
pub(super) type Vacant<'p> = (u32, RwLockWriteGuard<'p, PageBytes>);

impl BufferPool {
    /// How often the sweep starts anew when all pages are in use, with pauses that grow: about a
    /// quarter of a second in all.
    const SWEEPS: u32 = if cfg!(pgtoast_loom) { 3 } else { 16 };

    /// A frame for another page.
    pub(super) fn vacate(&self) -> Result<Vacant<'_>, StoreError> {
        for round in 0..Self::SWEEPS {
            if let Some(vacant) = self.try_vacate()? {
                return Ok(vacant);
            }
            pause(round);
        }
        Err(StoreError::NoFrame { frames: self.frames.len() })
    }

    /// A frame, if one can be had without waiting for anybody.
    ///
    /// A dirty page that cannot be written stays, and the sweep goes on to others; if none is found,
    /// the error is that of the write.
    pub(super) fn try_vacate(&self) -> Result<Option<Vacant<'_>>, StoreError> {
        let free = self.free.lock().pop();
        if let Some(index) = free {
            // Whoever has the latch followed a hint that was wrong, and gives it up at once.
            return Ok(Some((index, self.frame(index).page.write())));
        }
        let mut failed = None;
        for _ in 0..self.frames.len() * (usize::from(Frame::USAGE_MAX) + 2) {
            let hand = self.hand.fetch_add(1, Ordering::Relaxed) % self.frames.len();
            let frame = &self.frames[hand];
            if !frame.pass() || frame.holds(Tag::NONE) || failed.is_some() && frame.is_dirty() {
                continue;
            }
            let index = frame_number(hand);
            let Some(page) = frame.page.try_write() else { continue };
            match self.evict(index, &page) {
                Ok(true) => return Ok(Some((index, page))),
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Takes its block from a latched frame, and writes it if it must be.
    pub(super) fn evict(
        &self,
        index: u32,
        page: &RwLockWriteGuard<'_, PageBytes>,
    ) -> Result<bool, StoreError> {
        let frame = self.frame(index);
        let tag = frame.tag();
        let Some(open) = self.forks.of_tag(tag) else { return Ok(false) };
        if mutated!(ForgetBeforeWrite) {
            self.map.remove(tag);
        }
        if frame.is_dirty() {
            if mutated!(CleanBeforeWrite) {
                frame.set_dirty(false);
            }
            self.write_with_neighbours(open, tag, frame, page)?;
        }
        self.map.remove(tag);
        frame.set_tag(Tag::NONE);
        add(&self.counters.of(open.id.class()).evictions, 1);
        Ok(true)
    }
}
