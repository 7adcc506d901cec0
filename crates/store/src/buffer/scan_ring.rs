use super::frame::Tag;
use super::sweep::Vacant;
use super::{BufferPool, PoolOptions};

/// A few frames that a scan of a large relation uses again and again, so that pages which others need
/// stay in memory.
#[doc(alias = "BufferAccessStrategy")]
#[derive(Debug)]
pub struct ScanRing {
    /// What each frame was filled with.
    frames: Vec<Option<(u32, Tag)>>,
    next: usize,
}

impl ScanRing {
    /// As much as a server's sequential scan takes.
    const BYTES: usize = 256 << 10;

    pub(super) fn new(options: &PoolOptions, frames: usize) -> Self {
        // A small pool has other work too.
        let count = (Self::BYTES / options.block_size.bytes()).min(frames / 8).max(1);
        Self { frames: vec![None; count], next: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// The frame whose turn it is, if it is still the scan's alone; else one of the pool's.
    pub(super) fn vacate<'p>(&mut self, pool: &'p BufferPool) -> Option<Vacant<'p>> {
        let (index, tag) = self.frames[self.next]?;
        let frame = pool.frame(index);
        // The scan used it once; another user leaves it to the sweep.
        if !frame.holds(tag) || frame.usage() > 1 {
            return None;
        }
        let page = frame.page.try_write()?;
        let evicted = frame.holds(tag) && matches!(pool.evict(index, &page), Ok(true));
        evicted.then_some((index, page))
    }

    /// The frame whose turn it was is filled with this.
    pub(super) fn filled(&mut self, index: u32, tag: Tag) {
        self.frames[self.next] = Some((index, tag));
        self.next = (self.next + 1) % self.frames.len();
    }
}
