//! Dirty pages on their way to their files, adjacent ones together.
//!
//! Every page goes through [`write_pages`](BufferPool::write_pages). Once there is a log, that is the
//! place to wait until it is durable up to the pages' own positions in it.
use std::io::IoSlice;
use std::path::Path;

use pgtoast_base::BlockNumber;
use pgtoast_page::{Page, PageHeader};
use smallvec::SmallVec;

use super::BufferPool;
use super::counters::add;
use super::fork::OpenFork;
use super::frame::{Frame, Tag};
use super::memory::PageBytes;
use super::pool::frame_number;
use crate::file::DIRECTORY;
use crate::sync::atomic::Ordering;
use crate::sync::{RwLockReadGuard, mutated};
use crate::{StoreError, StoreFile};

/// A dirty page under its shared latch.
type Latched<'p> = (&'p Frame, RwLockReadGuard<'p, PageBytes>);

/// Takes the mark from a page that was written, while its latch keeps others from changing it.
fn clean((frame, page): Latched<'_>) {
    if mutated!(CleanUnlatched) {
        drop(page);
        frame.set_dirty(false);
        return;
    }
    frame.set_dirty(false);
    drop(page);
}

impl BufferPool {
    /// Writes all that was changed before the call, gives files their full length, and makes all of
    /// that durable.
    ///
    /// A page that could not be written stays in memory as it is, and is tried again by the next call.
    /// If the system fails to make a file durable, no later call says that it is.
    ///
    /// # Errors
    /// [`StoreError::Io`]; [`StoreError::Unsynced`]. Of several, the first; the rest was tried.
    pub fn flush(&self) -> Result<(), StoreError> {
        let mut result = self.write_all();
        for fork in self.forks.all() {
            result = result.and(self.sync_fork(self.forks.get(fork)));
        }
        result.and(self.sync_names())
    }

    /// Makes durable which files there are.
    fn sync_names(&self) -> Result<(), StoreError> {
        let mut changed = self.names_changed.swap(false, Ordering::AcqRel);
        for fork in self.forks.all() {
            changed |= self.forks.get(fork).file.names_changed();
        }
        if !changed {
            return Ok(());
        }
        add(&self.counters.sync_calls, 1);
        self.disk.sync_dir(Path::new(DIRECTORY)).map_err(|error| {
            self.names_changed.store(true, Ordering::Release);
            StoreError::io(StoreFile::Relations, 0, &error)
        })
    }

    fn write_all(&self) -> Result<(), StoreError> {
        let mut dirty: Vec<(Tag, u32)> = Vec::new();
        for (index, frame) in self.frames.iter().enumerate() {
            if frame.is_dirty() {
                dirty.push((frame.tag(), frame_number(index)));
            }
        }
        dirty.sort_unstable();
        let (mut result, mut done) = (Ok(()), 0);
        while let Some((tag, index)) = dirty.get(done) {
            done += 1;
            let frame = self.frame(*index);
            let Some(open) = self.forks.of_tag(*tag) else { continue };
            // The first is waited for, with no other latch held.
            let page = frame.page.read();
            if !frame.holds(*tag) || !frame.is_dirty() {
                continue;
            }
            let mut run: SmallVec<[Latched<'_>; 16]> = SmallVec::new();
            run.push((frame, page));
            let limit = open.file.blocks_together(tag.block(), self.options.io_combine_limit);
            for (next, index) in &dirty[done..] {
                let wanted = tag.with_block(tag.block() + frame_number(run.len()));
                if run.len() == limit as usize || *next != wanted {
                    break;
                }
                let Some(latched) = self.try_latch(wanted, *index) else { break };
                run.push(latched);
                done += 1;
            }
            let pages: SmallVec<[&[u8]; 16]> = run.iter().map(|(_, page)| &page[..]).collect();
            let written = self.write_pages(open, tag.block(), &pages);
            drop(pages);
            if written.is_ok() {
                run.into_iter().for_each(clean);
            }
            result = result.and(written);
        }
        result
    }

    /// The dirty page, if its latch is free.
    fn try_latch(&self, tag: Tag, index: u32) -> Option<Latched<'_>> {
        let frame = self.frame(index);
        if !frame.holds(tag) || !frame.is_dirty() {
            return None;
        }
        let page = frame.page.try_read()?;
        (frame.holds(tag) && frame.is_dirty()).then_some((frame, page))
    }

    /// Writes the page of a frame that the caller has latched, and dirty pages next to it, as far as
    /// their latches are free.
    pub(super) fn write_with_neighbours(
        &self,
        open: &OpenFork,
        tag: Tag,
        frame: &Frame,
        page: &[u8],
    ) -> Result<(), StoreError> {
        let limit = self.options.io_combine_limit as usize;
        let neighbour = |block: u32| {
            let tag = tag.with_block(block);
            self.try_latch(tag, self.map.get(tag)?)
        };
        let block = tag.block();
        let mut before: SmallVec<[Latched<'_>; 16]> = SmallVec::new();
        let mut after: SmallVec<[Latched<'_>; 16]> = SmallVec::new();
        let together = open.file.blocks_together(block, self.options.io_combine_limit);
        for number in block + 1..block.saturating_add(together) {
            let Some(latched) = neighbour(number) else { break };
            after.push(latched);
        }
        let behind = block % open.file.segment_blocks();
        for number in (block - behind..block).rev() {
            if before.len() + after.len() + 1 >= limit {
                break;
            }
            let Some(latched) = neighbour(number) else { break };
            before.push(latched);
        }
        let mut pages: SmallVec<[&[u8]; 16]> = SmallVec::new();
        pages.extend(before.iter().rev().map(|(_, page)| &page[..]));
        pages.push(page);
        pages.extend(after.iter().map(|(_, page)| &page[..]));
        self.write_pages(open, block - frame_number(before.len()), &pages)?;
        drop(pages);
        frame.set_dirty(false);
        before.into_iter().chain(after).for_each(clean);
        Ok(())
    }

    /// Writes adjacent pages of one file, each with its checksum, which is put between the bytes
    /// around it: under a shared latch, nothing in the page itself may change.
    fn write_pages(&self, open: &OpenFork, first: u32, pages: &[&[u8]]) -> Result<(), StoreError> {
        let checksums: SmallVec<[Option<[u8; 2]>; 16]> = (first..)
            .zip(pages)
            .map(|(block, page)| self.checksum(open, block, page))
            .collect::<Result<_, _>>()?;
        let mut buffers: SmallVec<[IoSlice<'_>; 64]> = SmallVec::new();
        for (page, checksum) in pages.iter().zip(&checksums) {
            match checksum {
                Some(checksum) => {
                    buffers.push(IoSlice::new(&page[..PageHeader::CHECKSUM.start]));
                    buffers.push(IoSlice::new(checksum));
                    buffers.push(IoSlice::new(&page[PageHeader::CHECKSUM.end..]));
                }
                None => buffers.push(IoSlice::new(page)),
            }
        }
        let end = first + frame_number(pages.len());
        let written = open.file.write_blocks(first, &mut buffers);
        let calls = written.inspect_err(|_| {
            // A part of it may be in the file.
            if end > open.written() {
                open.set_surplus(true);
            }
        })?;
        open.wrote_up_to(end);
        let counts = self.counters.of(open.id.class());
        add(&counts.writes, pages.len() as u64);
        add(&counts.write_calls, calls);
        Ok(())
    }

    fn checksum(
        &self,
        open: &OpenFork,
        block: u32,
        page: &[u8],
    ) -> Result<Option<[u8; 2]>, StoreError> {
        if !self.options.checksums {
            return Ok(None);
        }
        let page = Page::new(page, self.options.block_size);
        let page = page.map_err(|error| open.file.page_error(block, error))?;
        // A new page has none.
        Ok((!page.is_new()).then(|| page.checksum(BlockNumber::new(block)).to_le_bytes()))
    }

    /// Gives the files of a fork the length that it has, and makes them durable.
    fn sync_fork(&self, open: &OpenFork) -> Result<(), StoreError> {
        if open.sync_failed() {
            return Err(StoreError::Unsynced { file: open.file.name() });
        }
        let extension = open.extension.lock();
        let blocks = open.blocks();
        if open.written() < blocks || open.has_surplus() {
            self.set_file_blocks(open, blocks)?;
        }
        drop(extension);
        let synced = open.file.sync();
        add(&self.counters.sync_calls, *synced.as_ref().unwrap_or(&1));
        synced.map(drop).inspect_err(|_| open.set_sync_failed())
    }
}
