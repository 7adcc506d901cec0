//! A relation's main fork as a server left it.
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::Page;

use crate::{RelationKind, StoreError, StoreFile};

/// The files of a fork, read by position.
#[derive(Debug)]
pub(super) struct SourceFile {
    kind: RelationKind,
    block_size: BlockSize,
    checksums: bool,
    /// Each with the blocks before it.
    segments: Vec<(File, u32)>,
    blocks: u32,
}

impl SourceFile {
    /// Opens the first file and those that follow it: until one is not full, as a server does.
    pub(super) fn open(
        path: &Path,
        kind: RelationKind,
        block_size: BlockSize,
        checksums: bool,
    ) -> Result<Self, StoreError> {
        let mut source = Self { kind, block_size, checksums, segments: Vec::new(), blocks: 0 };
        let failed = |error: &io::Error| StoreError::io(StoreFile::Import { kind }, 0, error);
        let mut full = None;
        loop {
            let file = match File::open(segment_path(path, source.segments.len())) {
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && !source.segments.is_empty() =>
                {
                    break;
                }
                opened => opened.map_err(|error| failed(&error))?,
            };
            let bytes = file.metadata().map_err(|error| failed(&error))?.len();
            let blocks =
                u32::try_from(bytes / u64::from(block_size.bytes_u16())).unwrap_or(u32::MAX);
            source.segments.push((file, source.blocks));
            source.blocks = source.blocks.saturating_add(blocks);
            // All files but the last are as long as the first.
            if blocks == 0 || *full.get_or_insert(blocks) != blocks {
                break;
            }
        }
        Ok(source)
    }

    pub(super) fn block_size(&self) -> BlockSize {
        self.block_size
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = BlockNumber> + use<> {
        (0..self.blocks).map(BlockNumber::new)
    }

    /// Reads a page that a server would take.
    pub(super) fn read<'b>(
        &self,
        block: BlockNumber,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Page<'b>, StoreError> {
        let file = StoreFile::Import { kind: self.kind };
        let number = self.segments.partition_point(|(_, before)| *before <= block.get());
        let segment =
            self.segments.get(number.wrapping_sub(1)).filter(|_| block.get() < self.blocks);
        let Some((source, before)) = segment else {
            return Err(StoreError::BlockMissing { file, block, blocks: self.blocks });
        };
        let bytes = u64::from(self.block_size.bytes_u16());
        buffer.resize(self.block_size.bytes(), 0);
        let offset = u64::from(block.get() - before) * bytes;
        source
            .read_exact_at(buffer, offset)
            .map_err(|error| StoreError::io(file, u64::from(block.get()) * bytes, &error))?;
        let page = Page::parse(buffer, self.block_size).and_then(|page| {
            if self.checksums {
                page.verify_checksum(block)?;
            }
            Ok(page)
        });
        page.map_err(|error| StoreError::Page { file, block, error })
    }
}

fn segment_path(path: &Path, number: usize) -> PathBuf {
    match number {
        0 => path.to_owned(),
        _ => {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            name.into()
        }
    }
}
