//! Read-ahead: pages that will be asked for, adjacent ones by one system call.
use core::ops::Range;
use std::io::IoSliceMut;

use smallvec::SmallVec;

use super::counters::add;
use super::fork::OpenFork;
use super::frame::Tag;
use super::pool::frame_number;
use super::sweep::Vacant;
use super::{BufferPool, ForkId};

impl BufferPool {
    /// Brings into memory what of these blocks is not there, with few system calls. Blocks past the
    /// end are left out.
    ///
    /// It is a help, and no promise: what cannot be read, or has no room, is left to
    /// [`read`](Self::read), which says why.
    pub fn prefetch(&self, fork: ForkId, blocks: Range<u32>) {
        let open = self.forks.get(fork);
        // What was never written is not in the files.
        let end = blocks.end.min(open.blocks()).min(open.written());
        let mut next = blocks.start;
        while next < end {
            if self.map.get(Tag::new(fork, next)).is_some() {
                next += 1;
                continue;
            }
            let run = self.enter_run(open, next, end);
            if run.is_empty() {
                return;
            }
            next += frame_number(run.len());
            if !self.load_run(open, run) {
                return;
            }
        }
    }

    /// Latched frames for blocks from `first` on that are not in memory, as many as one call reads.
    fn enter_run(
        &self,
        open: &OpenFork,
        first: u32,
        end: u32,
    ) -> SmallVec<[(Tag, Vacant<'_>); 16]> {
        let mut run = SmallVec::new();
        // Never much of a small pool: other threads want frames too.
        let room = frame_number(self.frames.len() / 8).max(1);
        let limit =
            open.file.blocks_together(first, (end - first).min(self.options.io_combine_limit));
        for block in first..first + limit.min(room) {
            let tag = Tag::new(open.id, block);
            if self.map.get(tag).is_some() {
                break;
            }
            let Ok(Some((index, page))) = self.try_vacate() else { break };
            if self.enter(open, tag, index).is_err() {
                self.give_back(index, page);
                break;
            }
            run.push((tag, (index, page)));
        }
        run
    }

    /// Reads them. Whether that went well.
    fn load_run(&self, open: &OpenFork, mut run: SmallVec<[(Tag, Vacant<'_>); 16]>) -> bool {
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
                self.frame(index).set_usage(1);
                self.map.set_hint(tag, index);
            } else {
                self.leave(index, tag, page);
            }
        }
        read.is_ok()
    }
}
