//! A fork on disk: files of at most `segment_blocks` blocks each, of which only the last may be
//! shorter.
//!
//! ```text
//! base/16384      | block 0 | 1 | … | segment_blocks - 1 |
//! base/16384.1    | segment_blocks | …
//! ```
//! Source: `md.c` (REL_18): a file that is not full ends the fork, whatever files follow it.
use std::io::{self, IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::sync::Arc;

use pgtoast_base::{BlockNumber, BlockSize};

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::sync::RwLock;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{Fork, RelationId, StoreError, StoreFile};

/// The directory that relations are in.
pub(crate) const DIRECTORY: &str = "base";

/// The files of one fork. Blocks are numbered through all of them.
#[derive(Debug)]
pub(crate) struct ForkFile {
    disk: Arc<dyn Disk>,
    relation: RelationId,
    fork: Fork,
    block_size: BlockSize,
    segment_blocks: u32,
    segments: RwLock<Vec<Arc<Segment>>>,
    /// A file was made or removed since somebody asked.
    names_changed: AtomicBool,
}

#[derive(Debug)]
struct Segment {
    file: Box<dyn DiskFile>,
    /// Written to, or changed in length, since it was last synced.
    unsynced: AtomicBool,
    /// Out of the fork: what a sync says about it is of no interest.
    removed: AtomicBool,
}

impl Segment {
    fn new(file: Box<dyn DiskFile>, unsynced: bool) -> Arc<Self> {
        let unsynced = AtomicBool::new(unsynced);
        Arc::new(Self { file, unsynced, removed: AtomicBool::new(false) })
    }
}

impl ForkFile {
    /// Opens the files, and counts their blocks. With `create`, a fork that is not there gets its
    /// first file; whoever asked makes its name durable.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        (relation, fork): (RelationId, Fork),
        (block_size, segment_blocks): (BlockSize, u32),
        create: bool,
    ) -> Result<(Self, u32), StoreError> {
        let segments = RwLock::new(Vec::new());
        let names_changed = AtomicBool::new(false);
        let file =
            Self { disk, relation, fork, block_size, segment_blocks, segments, names_changed };
        let blocks = file.open_segments(create)?;
        Ok((file, blocks))
    }

    fn open_segments(&self, create: bool) -> Result<u32, StoreError> {
        let mut segments = self.segments.write();
        let mut blocks = 0_u32;
        loop {
            let number = segment_number(segments.len());
            let mode = if create && number == 0 { OpenMode::Create } else { OpenMode::Existing };
            let file = match self.disk.open(&self.path(number), mode) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && number > 0 => break,
                result => result.map_err(|error| self.error(number, 0, &error))?,
            };
            let len = file.len().map_err(|error| self.error(number, 0, &error))?;
            let held = self.whole_blocks(number, len)?;
            segments.push(Segment::new(file, false));
            blocks = blocks.saturating_add(held);
            if held < self.segment_blocks {
                break;
            }
        }
        Ok(blocks)
    }

    fn whole_blocks(&self, segment: u32, len: u64) -> Result<u32, StoreError> {
        let file = self.segment_file(segment);
        let block_bytes = self.block_size.bytes_u16();
        let whole = len.is_multiple_of(u64::from(block_bytes));
        let blocks = u32::try_from(len / u64::from(block_bytes)).unwrap_or(u32::MAX);
        if whole && blocks <= self.segment_blocks {
            Ok(blocks)
        } else {
            let limit = u64::from(self.segment_blocks) * u64::from(block_bytes);
            Err(StoreError::FileLength { file, bytes: len, block_bytes, limit })
        }
    }

    /// What errors of the fork as a whole name.
    pub(crate) fn name(&self) -> StoreFile {
        StoreFile::Relation { relation: self.relation, fork: self.fork }
    }

    pub(crate) fn segment_blocks(&self) -> u32 {
        self.segment_blocks
    }

    /// How many of `count` blocks from `first` on are in one file.
    pub(crate) fn blocks_together(&self, first: u32, count: u32) -> u32 {
        count.min(self.segment_blocks - first % self.segment_blocks)
    }

    /// Reads adjacent blocks of one file, all of them. Returns how many system calls that took.
    pub(crate) fn read_blocks(
        &self,
        first: u32,
        mut buffers: &mut [IoSliceMut<'_>],
    ) -> Result<u64, StoreError> {
        let (number, offset) = self.place(first);
        let segments = self.segments.read();
        let Some(segment) = segments.get(number as usize) else {
            return Err(self.error(number, offset, &io::ErrorKind::NotFound.into()));
        };
        let len = buffers.iter().map(|buffer| buffer.len()).sum();
        self.call_until_done((number, offset), len, io::ErrorKind::UnexpectedEof, |offset| {
            let bytes = segment.file.read_at(buffers, offset)?;
            IoSliceMut::advance_slices(&mut buffers, bytes);
            Ok(bytes)
        })
    }

    /// Writes adjacent blocks of one file, all of them, and makes the file if it is not there.
    /// Returns how many system calls that took.
    pub(crate) fn write_blocks(
        &self,
        first: u32,
        mut buffers: &mut [IoSlice<'_>],
    ) -> Result<u64, StoreError> {
        let (number, offset) = self.place(first);
        if self.segments.read().len() <= number as usize {
            self.add_segments(number)?;
        }
        let segments = self.segments.read();
        let Some(segment) = segments.get(number as usize) else {
            return Err(self.error(number, offset, &io::ErrorKind::NotFound.into()));
        };
        let len = buffers.iter().map(|buffer| buffer.len()).sum();
        let place = (number, offset);
        let calls = self.call_until_done(place, len, io::ErrorKind::WriteZero, |offset| {
            let bytes = segment.file.write_at(buffers, offset)?;
            IoSlice::advance_slices(&mut buffers, bytes);
            Ok(bytes)
        })?;
        // After the write: a sync that takes the mark away before it would leave it out.
        segment.unsynced.store(true, Ordering::Release);
        Ok(calls)
    }

    /// Repeats a system call, which says how many bytes it did of those from an offset on, until it has done
    /// `len` of them. None at all is an error of the kind `nothing`. Returns how many calls that took.
    fn call_until_done(
        &self,
        (number, mut offset): (u32, u64),
        len: usize,
        nothing: io::ErrorKind,
        mut call: impl FnMut(u64) -> io::Result<usize>,
    ) -> Result<u64, StoreError> {
        let (end, mut calls) = (offset + len as u64, 0);
        while offset < end {
            calls += 1;
            match call(offset) {
                Ok(0) => return Err(self.error(number, offset, &nothing.into())),
                Ok(bytes) => offset += bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(number, offset, &error)),
            }
        }
        Ok(calls)
    }

    /// Opens the files up to that one. Those before it become full: else they would end the fork.
    fn add_segments(&self, last: u32) -> Result<(), StoreError> {
        let mut segments = self.segments.write();
        while segments.len() <= last as usize {
            let number = segment_number(segments.len());
            if let Some(before) = segments.last() {
                self.set_segment_len(number - 1, before, self.segment_blocks)?;
            }
            let file = self.disk.open(&self.path(number), OpenMode::Create);
            let file = file.map_err(|error| self.error(number, 0, &error))?;
            // A leftover of an earlier, longer fork.
            file.set_len(0).map_err(|error| self.error(number, 0, &error))?;
            segments.push(Segment::new(file, true));
            self.names_changed.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn set_segment_len(
        &self,
        number: u32,
        segment: &Segment,
        blocks: u32,
    ) -> Result<(), StoreError> {
        let len = u64::from(blocks) * self.block_size.bytes() as u64;
        segment.file.set_len(len).map_err(|error| self.error(number, len, &error))?;
        segment.unsynced.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes the fork that many blocks long, with zeros or by a cut. Files past its end are removed.
    pub(crate) fn set_blocks(&self, blocks: u32) -> Result<(), StoreError> {
        let last = blocks.saturating_sub(1) / self.segment_blocks;
        self.add_segments(last)?;
        let mut segments = self.segments.write();
        // From the end: a fork cut half way is a shorter one, not one with a hole.
        while segments.len() > last as usize + 1 {
            let number = segment_number(segments.len() - 1);
            if let Some(segment) = segments.last() {
                self.set_segment_len(number, segment, 0)?;
                segment.removed.store(true, Ordering::Release);
            }
            segments.pop();
            self.names_changed.store(true, Ordering::Release);
            let removed = self.disk.remove(&self.path(number));
            removed.map_err(|error| self.error(number, 0, &error))?;
        }
        match segments.last() {
            Some(segment) => {
                self.set_segment_len(last, segment, blocks - last * self.segment_blocks)
            }
            None => Ok(()),
        }
    }

    /// Makes durable what was written so far. Returns how many files that took.
    pub(crate) fn sync(&self) -> Result<u64, StoreError> {
        let mut synced = 0;
        // Not under the lock: a sync takes long, and others want to add files.
        let segments = self.segments.read().clone();
        for (number, segment) in segments.iter().enumerate() {
            if segment.unsynced.swap(false, Ordering::AcqRel) {
                synced += 1;
                match segment.file.sync() {
                    Err(error) if !segment.removed.load(Ordering::Acquire) => {
                        return Err(self.error(segment_number(number), 0, &error));
                    }
                    _ => {}
                }
            }
        }
        Ok(synced)
    }

    /// Removes the files, the last first.
    pub(crate) fn remove(&self) -> Result<(), StoreError> {
        let mut segments = self.segments.write();
        while let Some(segment) = segments.last() {
            segment.removed.store(true, Ordering::Release);
            let number = segment_number(segments.len() - 1);
            match self.disk.remove(&self.path(number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.error(number, 0, &error));
                }
                _ => segments.pop(),
            };
        }
        Ok(())
    }

    /// Removes the files of a fork that is not open.
    pub(crate) fn remove_closed(
        disk: &dyn Disk,
        relation: RelationId,
        fork: Fork,
    ) -> Result<(), StoreError> {
        for segment in 0.. {
            let file = StoreFile::Segment { relation, fork, segment };
            match disk.remove(&file.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                result => result.map_err(|error| StoreError::io(file, 0, &error))?,
            }
        }
        Ok(())
    }

    /// Whether a file was made or removed since this was last asked.
    pub(crate) fn names_changed(&self) -> bool {
        self.names_changed.swap(false, Ordering::AcqRel)
    }

    fn place(&self, block: u32) -> (u32, u64) {
        let (segment, inside) = (block / self.segment_blocks, block % self.segment_blocks);
        (segment, u64::from(inside) * self.block_size.bytes() as u64)
    }

    fn segment_file(&self, segment: u32) -> StoreFile {
        StoreFile::Segment { relation: self.relation, fork: self.fork, segment }
    }

    fn path(&self, segment: u32) -> PathBuf {
        self.segment_file(segment).path()
    }

    fn error(&self, segment: u32, offset: u64, error: &io::Error) -> StoreError {
        StoreError::Io { file: self.segment_file(segment), offset, kind: error.kind() }
    }

    /// The error of a page that was read as that block.
    pub(crate) fn page_error(&self, block: u32, error: pgtoast_page::PageError) -> StoreError {
        StoreError::Page { file: self.name(), block: BlockNumber::new(block), error }
    }
}

/// There are at most as many segments as blocks.
fn segment_number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
