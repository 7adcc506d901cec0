//! Read-ahead: pages that will be asked for, adjacent ones by one system call.
use core::ops::Range;
use std::io::IoSliceMut;

use smallvec::SmallVec;

use super::counters::add;
use super::fork::OpenFork;
use super::frame::Tag;
use super::pool::frame_number;
use super::sweep::Vacant;
use super::{BufferPool, ForkId, ScanRing};

/// Blocks that are entered in the map, in latched frames, and not yet read.
type Run<'p> = SmallVec<[(Tag, Vacant<'p>); 16]>;

impl BufferPool {
    /// Brings into memory what of these blocks is not there, with few system calls. Blocks past the
    /// end are left out, and so is what would take more than a quarter of the pool.
    ///
    /// It is a help, and no promise: what cannot be read, or has no room, is left to
    /// [`read`](Self::read), which says why.
    pub fn prefetch(&self, fork: ForkId, blocks: Range<u32>) {
        self.read_ahead(fork, blocks, None);
    }

    /// [`prefetch`](Self::prefetch) into the frames of a ring, in place of what the same scan has
    /// left behind.
    pub fn prefetch_in_ring(&self, fork: ForkId, blocks: Range<u32>, ring: &mut ScanRing) {
        self.read_ahead(fork, blocks, Some(ring));
    }

    /// A ring for a scan of a relation that is large: a quarter of the pool or more.
    #[must_use]
    pub fn scan_ring(&self) -> ScanRing {
        ScanRing::new(&self.options, self.frames.len())
    }

    fn read_ahead(&self, fork: ForkId, blocks: Range<u32>, mut ring: Option<&mut ScanRing>) {
        let open = self.forks.get(fork);
        let room = frame_number(self.frames.len() / 4).max(1);
        let end = blocks.end.min(blocks.start.saturating_add(room));
        // What was never written is not in the files.
        let end = end.min(open.blocks()).min(open.written());
        let mut next = blocks.start;
        while next < end {
            if self.is_cached(Tag::new(fork, next)) {
                next += 1;
                continue;
            }
            let run = self.enter_run(open, next, end, ring.as_deref_mut());
            if run.is_empty() {
                return;
            }
            next += frame_number(run.len());
            let usage = u8::from(ring.is_none());
            if !self.load_run(open, run, usage) {
                return;
            }
        }
    }

    /// Whether the block was in memory a moment ago.
    fn is_cached(&self, tag: Tag) -> bool {
        let hinted = self.frames.get(self.map.hinted(tag));
        hinted.is_some_and(|frame| frame.holds(tag)) || self.map.get(tag).is_some()
    }

    /// Latched frames for blocks from `first` on that are not in memory, as many as one call reads.
    fn enter_run(
        &self,
        open: &OpenFork,
        first: u32,
        end: u32,
        mut ring: Option<&mut ScanRing>,
    ) -> Run<'_> {
        // Never much of a small pool, other threads want frames too; nor more than the ring has.
        let frames = ring.as_ref().map_or(self.frames.len() / 8, |ring| ring.len());
        let limit = (end - first).min(self.options.io_combine_limit);
        let limit = limit.min(frame_number(frames).max(1));
        let mut run = SmallVec::new();
        for block in first..first + open.file.blocks_together(first, limit) {
            let tag = Tag::new(open.id, block);
            if self.is_cached(tag) {
                break;
            }
            let from_ring = ring.as_mut().and_then(|ring| ring.vacate(self));
            let vacant = from_ring.or_else(|| self.try_vacate().ok().flatten());
            let Some((index, mut page)) = vacant else { break };
            if self.enter(open, tag, index).is_err() {
                self.give_back(index, page);
                break;
            }
            self.allocate(&mut page);
            if let Some(ring) = &mut ring {
                ring.filled(index, tag);
            }
            run.push((tag, (index, page)));
        }
        run
    }

    /// Reads them. Whether that went well.
    fn load_run(&self, open: &OpenFork, mut run: Run<'_>, usage: u8) -> bool {
        let Some(first) = run.first().map(|(tag, _)| tag.block()) else { return true };
        let mut buffers: SmallVec<[IoSliceMut<'_>; 16]> =
            run.iter_mut().map(|(_, (_, page))| IoSliceMut::new(page)).collect();
        let read = open.file.read_blocks(first, &mut buffers);
        drop(buffers);
        if let Ok(calls) = read {
            let counts = self.counters.of(open.id.class());
            add(&counts.reads, run.len() as u64);
            add(&counts.read_calls, calls);
        }
        for (tag, (index, page)) in run {
            if read.is_ok() && self.verify(open, tag.block(), &page).is_ok() {
                self.frame(index).set_usage(usage);
                self.map.set_hint(tag, index);
            } else {
                self.leave(index, tag, page);
            }
        }
        read.is_ok()
    }
}
