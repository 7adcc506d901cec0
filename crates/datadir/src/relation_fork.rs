//! The blocks of one fork of a relation, through all its segments.
//!
//! ```text
//!            16384            16384.1          16384.2
//! block  | 0 … 131071 | 131072 … 262143 | 262144 … 300000 |
//!          full         full              shorter: the last one
//! ```
//! A segment that is not full ends the fork, and so does one that is missing. Servers leave empty
//! segments behind it and ignore them.
//!
//! Source: `md.c` (REL_18).
use core::ops::Range;
use std::sync::Arc;

use pgtoast_base::{BlockNumber, BlockSize};

use crate::{ControlFile, DataFile, DatadirError, Filenode, Folder, Fork, RelationFile, Source};

/// One fork of a relation, as long as it was when it was opened. Cheap to copy; threads read at once.
#[derive(Clone, Debug)]
pub struct RelationFork {
    source: Arc<dyn Source>,
    /// Its segment 0.
    first: RelationFile,
    geometry: Geometry,
    block_count: u32,
    trailing_bytes: u32,
}

/// How blocks lie in files: what a fork needs to know of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The size of a block.
    pub block_size: BlockSize,
    /// How many blocks a full segment has: at least one.
    pub segment_blocks: u32,
}

impl Geometry {
    /// The bytes of a full segment.
    #[must_use]
    pub const fn segment_bytes(self) -> u64 {
        self.segment_blocks as u64 * self.block_size.bytes() as u64
    }
}

impl Default for Geometry {
    /// Blocks of 8 KiB and segments of 1 GiB.
    fn default() -> Self {
        let block_size = BlockSize::default();
        #[expect(clippy::cast_possible_truncation, reason = "a quotient far below 2^32")]
        Self { block_size, segment_blocks: ((1 << 30) / block_size.bytes()) as u32 }
    }
}

impl From<&ControlFile> for Geometry {
    fn from(control: &ControlFile) -> Self {
        Self { block_size: control.block_size, segment_blocks: control.segment_blocks }
    }
}

impl RelationFork {
    /// Looks for the fork and measures its segments; `None` if it has no file.
    ///
    /// # Errors
    /// [`DatadirError::SegmentLength`], and those of the source.
    pub fn open(
        source: Arc<dyn Source>,
        folder: Folder,
        filenode: Filenode,
        fork: Fork,
        geometry: Geometry,
    ) -> Result<Option<Self>, DatadirError> {
        let first = RelationFile { folder, filenode, fork, segment: 0 };
        let block_bytes = geometry.block_size.bytes() as u64;
        let maximum = geometry.segment_bytes();
        let (mut blocks, mut trailing) = (0_u64, 0);
        for segment in 0..=u32::MAX {
            let file = DataFile::Relation(RelationFile { segment, ..first });
            let len = match source.file_len(file)? {
                None if segment == 0 => return Ok(None),
                None => break,
                Some(len) if len > maximum => {
                    return Err(DatadirError::SegmentLength { file, len, maximum });
                }
                Some(len) => len,
            };
            blocks += len / block_bytes;
            trailing = len % block_bytes;
            if len < maximum || blocks >= u64::from(u32::MAX) {
                break;
            }
        }
        Ok(Some(Self {
            source,
            first,
            geometry,
            // Beyond the highest number there can be no block.
            block_count: u32::try_from(blocks).unwrap_or(u32::MAX),
            #[expect(clippy::cast_possible_truncation, reason = "shorter than a block")]
            trailing_bytes: trailing as u32,
        }))
    }

    /// How many whole blocks there are.
    #[must_use]
    pub const fn block_count(&self) -> u32 {
        self.block_count
    }

    /// How many bytes follow the last whole block: none, unless a write broke off.
    #[must_use]
    pub const fn trailing_bytes(&self) -> u32 {
        self.trailing_bytes
    }

    /// How blocks lie in the files.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The size of a block.
    #[must_use]
    pub const fn block_size(&self) -> BlockSize {
        self.geometry.block_size
    }

    /// Its segment 0, which is what errors about the fork as a whole name.
    #[must_use]
    pub const fn file(&self) -> DataFile {
        DataFile::Relation(self.first)
    }

    /// Which fork of which relation it is.
    #[must_use]
    pub const fn relation_file(&self) -> RelationFile {
        self.first
    }

    /// The file that holds a block, and where the block starts in it.
    #[must_use]
    pub const fn place(&self, block: BlockNumber) -> (DataFile, u64) {
        let segment = block.get() / self.geometry.segment_blocks;
        let index = block.get() % self.geometry.segment_blocks;
        let file = DataFile::Relation(RelationFile { segment, ..self.first });
        (file, index as u64 * self.geometry.block_size.bytes() as u64)
    }

    /// Reads one block into `target`, which is as long as one.
    ///
    /// # Errors
    /// [`DatadirError::BlockMissing`], [`DatadirError::FileShort`], and those of the source.
    ///
    /// # Panics
    /// If `target` is not as long as a block.
    pub fn read_block(&self, block: BlockNumber, target: &mut [u8]) -> Result<(), DatadirError> {
        assert_eq!(target.len(), self.block_size().bytes(), "a target as long as a block");
        self.read_blocks(block, target)
    }

    /// Reads as many blocks as `target` holds, with one read for each segment that they touch.
    ///
    /// # Errors
    /// As [`read_block`](Self::read_block).
    ///
    /// # Panics
    /// If `target` is not as long as a number of blocks.
    pub fn read_blocks(&self, first: BlockNumber, target: &mut [u8]) -> Result<(), DatadirError> {
        let block_bytes = self.block_size().bytes();
        assert!(target.len().is_multiple_of(block_bytes), "a target as long as some blocks");
        let wanted = (target.len() / block_bytes) as u64;
        if u64::from(first.get()) + wanted > u64::from(self.block_count) {
            let block = BlockNumber::new(first.get().max(self.block_count));
            let (file, blocks) = (self.place(block).0, self.block_count);
            return Err(DatadirError::BlockMissing { file, block, blocks });
        }
        let (mut next, mut rest) = (first.get(), target);
        while !rest.is_empty() {
            let (file, offset) = self.place(BlockNumber::new(next));
            let left = self.geometry.segment_blocks - next % self.geometry.segment_blocks;
            let count = (rest.len() / block_bytes).min(left as usize);
            let (here, behind) = rest.split_at_mut(count * block_bytes);
            self.source.read_exact_at(file, offset, here)?;
            rest = behind;
            #[expect(clippy::cast_possible_truncation, reason = "at most `left`, a u32")]
            {
                next = next.saturating_add(count as u32);
            }
        }
        Ok(())
    }

    /// The blocks of a range, read ahead in large pieces; the part of it that is past the end is left
    /// out.
    #[must_use]
    pub fn blocks(&self, range: Range<u32>) -> Blocks<'_> {
        let end = range.end.min(self.block_count);
        Blocks { fork: self, next: range.start.min(end), end, buffer: Vec::new(), held: 0..0 }
    }

    /// The blocks of a range, read into a buffer that was used before.
    pub(crate) fn blocks_into(&self, range: Range<u32>, buffer: Vec<u8>) -> Blocks<'_> {
        Blocks { buffer, ..self.blocks(range) }
    }

    /// All blocks.
    #[must_use]
    pub fn all_blocks(&self) -> Blocks<'_> {
        self.blocks(0..self.block_count)
    }

    /// The fork in at most so many ranges of about one length, for as many threads.
    pub fn split(&self, parts: u32) -> impl Iterator<Item = Range<u32>> + use<> {
        let (count, parts) = (u64::from(self.block_count), u64::from(parts.max(1)));
        #[expect(clippy::cast_possible_truncation, reason = "at most the count, a u32")]
        let bound = move |part: u64| (count * part / parts) as u32;
        (0..parts).map(move |part| bound(part)..bound(part + 1)).filter(|range| !range.is_empty())
    }
}

/// The blocks of a range, one after the other. Its [`next`](Self::next) lends them, so it is no
/// `Iterator`.
#[derive(Debug)]
pub struct Blocks<'a> {
    fork: &'a RelationFork,
    /// The next block to hand out, and where to stop.
    next: u32,
    end: u32,
    buffer: Vec<u8>,
    /// The blocks that are in the buffer.
    held: Range<u32>,
}

impl Blocks<'_> {
    /// How many bytes are read at once, at most.
    pub const BUFFER_BYTES: usize = 512 << 10;

    /// The next block and its bytes. A block that cannot be read is an error, and the next call goes on
    /// behind it.
    #[expect(clippy::should_implement_trait, reason = "it lends, which `Iterator` cannot")]
    pub fn next(&mut self) -> Option<Result<(BlockNumber, &[u8]), DatadirError>> {
        if self.next >= self.end {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let block = BlockNumber::new(number);
        let block_bytes = self.fork.block_size().bytes();
        if !self.held.contains(&number)
            && let Err(error) = self.fill(number, block_bytes)
        {
            return Some(Err(error));
        }
        let start = (number - self.held.start) as usize * block_bytes;
        Some(Ok((block, &self.buffer[start..start + block_bytes])))
    }

    /// The number of the block that [`next`](Self::next) will hand out.
    pub(crate) const fn number(&self) -> u32 {
        self.next
    }

    /// The buffer, for other blocks.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// The block that [`next`](Self::next) handed out last, unless that could not be read.
    #[must_use]
    pub fn current(&self) -> Option<(BlockNumber, &[u8])> {
        let number = self.next.checked_sub(1).filter(|number| self.held.contains(number))?;
        let block_bytes = self.fork.block_size().bytes();
        let start = (number - self.held.start) as usize * block_bytes;
        Some((BlockNumber::new(number), &self.buffer[start..start + block_bytes]))
    }

    /// Reads block `number` and those behind it.
    fn fill(&mut self, number: u32, block_bytes: usize) -> Result<(), DatadirError> {
        let most = Self::BUFFER_BYTES / block_bytes;
        let count = most.min((self.end - number) as usize);
        // Once for all: only the first read of a range may be shorter than those after it.
        if self.buffer.len() < count * block_bytes {
            self.buffer.resize(count * block_bytes, 0);
        }
        self.held = 0..0;
        let block = BlockNumber::new(number);
        let whole = self.fork.read_blocks(block, &mut self.buffer[..count * block_bytes]);
        let read = if whole.is_ok() {
            count
        } else {
            // One bad sector must not hide its neighbours: the rest is read block by block.
            self.fork.read_block(block, &mut self.buffer[..block_bytes])?;
            1
        };
        #[expect(clippy::cast_possible_truncation, reason = "a piece of a u32 range")]
        {
            self.held = number..number + read as u32;
        }
        Ok(())
    }
}
