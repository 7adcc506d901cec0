//! The files of one fork of a relation, read with positioned reads.
//!
//! ```text
//! blocks  0 ………… 131071 | 131072 ………… | …      a segment is 1 GiB, the last one shorter
//! files   <path>        | <path>.1      | <path>.2
//! ```
//! Never mapped: a sector that cannot be read must be an error, not a signal.
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize};
use rustix::fs::{Advice, fadvise};

/// A fork's segments, open for reading.
#[derive(Debug)]
pub struct RelationFile {
    segments: Vec<Segment>,
    block_size: BlockSize,
}

#[derive(Debug)]
struct Segment {
    file: File,
    path: PathBuf,
    blocks: u32,
}

impl RelationFile {
    /// What a segment holds, in bytes.
    const SEGMENT_BYTES: u64 = 1 << 30;

    /// Opens the first file of a fork and those that follow it.
    ///
    /// # Errors
    /// When the first is not there, one cannot be opened, or one does not end with a block.
    pub fn open(path: &Path, block_size: BlockSize) -> Result<Self> {
        let mut segments = Vec::new();
        loop {
            let path = match segments.len() {
                0 => path.to_owned(),
                number => PathBuf::from(format!("{}.{number}", path.display())),
            };
            if !segments.is_empty() && !path.exists() {
                break;
            }
            let file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
            let bytes = file.metadata()?.len();
            let block = block_size.bytes() as u64;
            ensure!(bytes.is_multiple_of(block), "{} ends inside a block", path.display());
            segments.push(Segment { file, path, blocks: u32::try_from(bytes / block)? });
            // A short segment ends the relation, whatever lies behind it.
            if bytes < Self::SEGMENT_BYTES {
                break;
            }
        }
        Ok(Self { segments, block_size })
    }

    /// How many blocks there are.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.segments.iter().map(|segment| segment.blocks).sum()
    }

    /// In bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.blocks() as usize * self.block_size.bytes()
    }

    /// Writes the files out, takes them from the page cache and reads them into it again.
    ///
    /// What a server has just written lies in the cache in pieces as small as its writes, and copying
    /// out of those takes up to twice as long as out of the large ones that reading ahead makes: what
    /// every reader but the first finds who comes after a restart.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn settle_in_page_cache(&self) -> Result<()> {
        for segment in &self.segments {
            segment.file.sync_all()?;
            fadvise(&segment.file, 0, None, Advice::DontNeed)?;
        }
        self.read(0..self.blocks(), &mut vec![0; 1 << 20], |_, _| Ok(()))
    }

    /// Reads some blocks in order, as many at a time as `buffer` holds, and hands each batch on with
    /// the number of its first block. Blocks past the end are not there and not missed.
    ///
    /// # Errors
    /// When a read fails, and what `each` fails with.
    pub fn read(
        &self,
        blocks: Range<u32>,
        buffer: &mut [u8],
        mut each: impl FnMut(BlockNumber, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let block_bytes = self.block_size.bytes();
        let batch = u32::try_from(buffer.len() / block_bytes)?;
        ensure!(batch > 0, "no room for a block");
        let mut first_of_segment = 0;
        for segment in &self.segments {
            let mut block = blocks.start.saturating_sub(first_of_segment);
            let end = blocks.end.saturating_sub(first_of_segment).min(segment.blocks);
            while block < end {
                let count = batch.min(end - block);
                let bytes = &mut buffer[..count as usize * block_bytes];
                let offset = u64::from(block) * block_bytes as u64;
                segment
                    .file
                    .read_exact_at(bytes, offset)
                    .with_context(|| format!("read {} at {offset}", segment.path.display()))?;
                each(BlockNumber::new(first_of_segment + block), bytes)?;
                block += count;
            }
            first_of_segment += segment.blocks;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_comes_once_and_in_order() {
        let path = std::env::temp_dir().join(format!("bench-blocks-{}", std::process::id()));
        let size = BlockSize::KIB_1;
        let bytes: Vec<u8> = (0..7).flat_map(|block| [block; 1024]).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = RelationFile::open(&path, size).unwrap();
        let mut seen = Vec::new();
        file.read(0..u32::MAX, &mut [0; 3000], |first, batch| {
            assert_eq!(usize::try_from(first.get()).unwrap() * 1024, seen.len());
            seen.extend_from_slice(batch);
            Ok(())
        })
        .unwrap();
        assert!(seen == bytes && file.blocks() == 7);
        let mut some = Vec::new();
        file.read(2..4, &mut [0; 1024], |first, batch| {
            some.push((first.get(), batch[0]));
            Ok(())
        })
        .unwrap();
        assert_eq!(some, [(2, 2), (3, 3)]);
        std::fs::write(&path, &bytes[..1500]).unwrap();
        assert!(RelationFile::open(&path, size).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
