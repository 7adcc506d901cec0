//! A relation's main fork, written under another name until it is whole.
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, maxalign};
use pgtoast_page::{Page, PageMut, set_checksum};

use super::ExportedFile;
use crate::{RelationKind, StoreError, StoreFile};

/// What its pages and files are like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) block_size: BlockSize,
    pub(super) checksums: bool,
    pub(super) segment_blocks: u32,
}

/// The files of a relation that is being written. Dropped, they are removed.
#[derive(Debug)]
pub(super) struct RelationFile {
    directory: PathBuf,
    pub(super) kind: RelationKind,
    pub(super) shape: Shape,
    segments: Vec<File>,
    blocks: u32,
    is_finished: bool,
}

impl RelationFile {
    pub(super) fn create(
        directory: &Path,
        kind: RelationKind,
        shape: Shape,
    ) -> Result<Self, StoreError> {
        let directory = directory.to_owned();
        let (segments, blocks) = (Vec::new(), 0);
        let mut file = Self { directory, kind, shape, segments, blocks, is_finished: false };
        file.add_segment()?;
        Ok(file)
    }

    fn add_segment(&mut self) -> Result<(), StoreError> {
        let path = self.path(segment_number(self.segments.len()), UNFINISHED);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path);
        self.segments.push(file.map_err(|error| self.error(self.blocks, &error))?);
        Ok(())
    }

    fn path(&self, segment: u32, suffix: &str) -> PathBuf {
        let name = self.kind.name();
        self.directory.join(match segment {
            0 => format!("{name}{suffix}"),
            _ => format!("{name}.{segment}{suffix}"),
        })
    }

    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// One block more, of zeros.
    pub(super) fn extend(&mut self) -> Result<BlockNumber, StoreError> {
        let block = self.blocks;
        let Some(blocks) = block.checked_add(1).filter(|blocks| *blocks < u32::MAX) else {
            return Err(StoreError::Full { file: StoreFile::Export { kind: self.kind } });
        };
        if u64::from(block) >= self.segments.len() as u64 * u64::from(self.shape.segment_blocks) {
            self.add_segment()?;
        }
        self.blocks = blocks;
        Ok(BlockNumber::new(block))
    }

    fn place(&self, block: BlockNumber) -> Option<(&File, u64)> {
        let segment_blocks = self.shape.segment_blocks;
        let file = self.segments.get((block.get() / segment_blocks) as usize)?;
        let bytes = u64::from(self.shape.block_size.bytes_u16());
        Some((file, u64::from(block.get() % segment_blocks) * bytes))
    }

    /// Writes a page, with its checksum.
    pub(super) fn write(&self, block: BlockNumber, page: &mut [u8]) -> Result<(), StoreError> {
        let Some((file, offset)) = self.place(block) else {
            return Err(self.error(block.get(), &io::ErrorKind::NotFound.into()));
        };
        if self.shape.checksums {
            set_checksum(page, self.shape.block_size, block).map_err(|error| StoreError::Page {
                file: StoreFile::Export { kind: self.kind },
                block,
                error,
            })?;
        }
        file.write_all_at(page, offset).map_err(|error| self.error(block.get(), &error))
    }

    /// Reads a page, zeros if nothing was written there.
    pub(super) fn read(&self, block: BlockNumber) -> Result<Vec<u8>, StoreError> {
        let mut page = vec![0; self.shape.block_size.bytes()];
        let Some((file, offset)) = self.place(block) else {
            return Err(self.error(block.get(), &io::ErrorKind::NotFound.into()));
        };
        let mut done = 0;
        while done < page.len() {
            match file.read_at(&mut page[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(block.get(), &error)),
            }
        }
        Ok(page)
    }

    /// Makes the files durable and gives them their names.
    pub(super) fn finish(mut self) -> Result<ExportedFile, StoreError> {
        let segments = segment_number(self.segments.len());
        for (number, file) in (0..).zip(&self.segments) {
            let before = number * self.shape.segment_blocks;
            let here = (self.blocks - before).min(self.shape.segment_blocks);
            let len = u64::from(here) * u64::from(self.shape.block_size.bytes_u16());
            let written = file.set_len(len).and_then(|()| file.sync_all());
            written.map_err(|error| self.error(before, &error))?;
        }
        for number in 0..segments {
            fs::rename(self.path(number, UNFINISHED), self.path(number, ""))
                .map_err(|error| self.error(0, &error))?;
        }
        self.is_finished = true;
        Ok(ExportedFile { path: self.path(0, ""), blocks: self.blocks, segments })
    }

    fn error(&self, block: u32, error: &io::Error) -> StoreError {
        let offset = u64::from(block) * u64::from(self.shape.block_size.bytes_u16());
        self::error(self.kind, offset, error)
    }
}

impl Drop for RelationFile {
    fn drop(&mut self) {
        if !self.is_finished {
            for number in 0..segment_number(self.segments.len()) {
                // They are of no use; that they stay is no new error.
                let _ = fs::remove_file(self.path(number, UNFINISHED));
            }
        }
    }
}

/// What a file is called until it is whole.
const UNFINISHED: &str = ".unfinished";

fn segment_number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

pub(super) fn error(kind: RelationKind, offset: u64, error: &io::Error) -> StoreError {
    StoreError::io(StoreFile::Export { kind }, offset, error)
}

/// Makes names durable.
pub(super) fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| self::error(RelationKind::Heap, 0, &error))
}

/// Fills pages with tuples, one after the other.
pub(super) struct HeapWriter {
    file: RelationFile,
    page: Vec<u8>,
    block: Option<BlockNumber>,
}

impl HeapWriter {
    pub(super) fn new(file: RelationFile) -> Self {
        let page = vec![0; file.shape.block_size.bytes()];
        Self { file, page, block: None }
    }

    /// Adds a tuple, and says where it is.
    pub(super) fn push(&mut self, tuple: &[u8]) -> Result<ItemPointer, StoreError> {
        let block_size = self.file.shape.block_size;
        let is_full = |page: &[u8]| {
            Page::new(page, block_size)
                .map(|page| maxalign(tuple.len()) > usize::from(page.heap_free_bytes()))
        };
        let block = match self.block {
            Some(block) if !is_full(&self.page).map_err(|error| self.error(block, error))? => block,
            _ => self.next_page()?,
        };
        let inserted = PageMut::open(&mut self.page, block_size)
            .and_then(|mut page| page.insert_tuple(block, tuple));
        inserted.map_err(|error| self.error(block, error))
    }

    fn next_page(&mut self) -> Result<BlockNumber, StoreError> {
        self.write()?;
        let block = self.file.extend()?;
        let made = PageMut::init(&mut self.page, self.file.shape.block_size, 0).map(|_| ());
        made.map_err(|error| self.error(block, error))?;
        self.block = Some(block);
        Ok(block)
    }

    fn write(&mut self) -> Result<(), StoreError> {
        match self.block.take() {
            Some(block) => self.file.write(block, &mut self.page),
            None => Ok(()),
        }
    }

    pub(super) fn finish(mut self) -> Result<RelationFile, StoreError> {
        self.write()?;
        Ok(self.file)
    }

    fn error(&self, block: BlockNumber, error: pgtoast_page::PageError) -> StoreError {
        StoreError::Page { file: StoreFile::Export { kind: self.file.kind }, block, error }
    }
}
