use alloc::vec::Vec;

use super::TwinFigures;
use crate::raw::Slab;
use crate::{MemoryError, Release};

/// A Slab's blocks. Chunks are all alike, so there are only counts.
#[derive(Clone, Debug)]
pub struct TwinSlab {
    release: Release,
    block_bytes: usize,
    chunk_bytes: usize,
    chunks_per_block: u32,
    /// How many chunks are free, by number of the block; none where one was given back.
    free: Vec<Option<u32>>,
    /// The block that chunks are taken from: in no list.
    current: Option<usize>,
    /// Blocks with no free chunk, up to a half, more; of 15, by the number of free chunks. The last of each
    /// comes first.
    lists: Vec<Vec<usize>>,
    kept: Vec<usize>,
}

impl TwinSlab {
    /// As a new context.
    ///
    /// # Errors
    /// [`MemoryError::SlabShape`], as for a context.
    pub fn new(
        release: Release,
        block_bytes: usize,
        chunk_size: usize,
    ) -> Result<Self, MemoryError> {
        let chunks_per_block = Slab::chunks_per_block(release, block_bytes, chunk_size)?;
        let lists = if release == Release::V15 { chunks_per_block as usize + 1 } else { 3 };
        Ok(Self {
            release,
            block_bytes,
            chunk_bytes: release.slab(0).chunk + chunk_size.max(1).next_multiple_of(8),
            chunks_per_block,
            free: Vec::new(),
            current: None,
            lists: (0..lists).map(|_| Vec::new()).collect(),
            kept: Vec::new(),
        })
    }

    /// Takes a chunk; the number of its block.
    pub fn allocate(&mut self) -> usize {
        let goes_on = match self.current {
            Some(block) => !self.is_sorted_at_once() && self.free_of(block) > 0,
            None => false,
        };
        if !goes_on {
            self.leave();
            self.current = self.take_fullest().or_else(|| self.kept.pop());
        }
        let block = self.current.unwrap_or_else(|| {
            self.free.push(Some(self.chunks_per_block));
            self.free.len() - 1
        });
        self.current = Some(block);
        self.free[block] = Some(self.free_of(block) - 1);
        block
    }

    /// Frees one of the chunks of a block.
    pub fn free(&mut self, block: usize) {
        if self.is_sorted_at_once() {
            self.leave();
        }
        let before = self.free_of(block);
        let after = before + 1;
        self.free[block] = Some(after);
        let list = if self.is_sorted_at_once() { self.list_of(after) } else { 1 };
        let stays = match self.release {
            Release::Ours => before > 0 || self.current == Some(block),
            _ => self.list_of(before) == list,
        };
        let is_empty = after == self.chunks_per_block && self.current != Some(block);
        if is_empty || !stays {
            self.lists.iter_mut().for_each(|list| list.retain(|other| *other != block));
        }
        if !is_empty {
            if !stays {
                self.lists[list].push(block);
            }
        } else if self.kept.len() < self.kept_blocks() {
            self.kept.push(block);
        } else {
            self.free[block] = None;
        }
    }

    /// Frees all, and all blocks.
    pub fn reset(&mut self) {
        self.free.clear();
        self.current = None;
        self.lists.iter_mut().for_each(Vec::clear);
        self.kept.clear();
    }

    /// What it comes to. Blocks that are empty and kept are not counted as blocks, nor are their chunks.
    #[must_use]
    pub fn figures(&self) -> TwinFigures {
        let blocks = self.blocks();
        let kept = self.kept.len();
        let free: usize = self.free.iter().flatten().map(|free| *free as usize).sum();
        TwinFigures {
            mem_allocated: blocks * self.block_bytes,
            blocks: blocks - kept,
            free_bytes: (free - kept * self.chunks_per_block as usize) * self.chunk_bytes,
        }
    }

    fn blocks(&self) -> usize {
        self.free.iter().flatten().count()
    }

    /// Empty blocks that are kept.
    fn kept_blocks(&self) -> usize {
        match self.release {
            Release::V15 => 0,
            Release::Ours => ((1 << 20) / self.block_bytes).max(self.blocks() / 4),
            _ => 10,
        }
    }

    /// Whether a block is in the list where it belongs all the time, and chunks come from the first of the
    /// fullest. Otherwise they come from one block until it is full, and blocks with free chunks are sorted
    /// when the next one is looked for.
    fn is_sorted_at_once(&self) -> bool {
        self.release != Release::Ours
    }

    fn free_of(&self, block: usize) -> u32 {
        self.free[block].unwrap_or(0)
    }

    fn list_of(&self, free: u32) -> usize {
        if self.release == Release::V15 {
            return free as usize;
        }
        // The largest power of two that is not more than the chunks of a block.
        free.div_ceil(1 << self.chunks_per_block.ilog2()) as usize
    }

    fn leave(&mut self) {
        if let Some(block) = self.current.take() {
            let list = self.list_of(self.free_of(block));
            self.lists[list].push(block);
        }
    }

    fn take_fullest(&mut self) -> Option<usize> {
        for list in 1..self.lists.len() {
            while let Some(block) = self.lists[list].pop() {
                let right = self.list_of(self.free_of(block));
                if right == list {
                    return Some(block);
                }
                self.lists[right].push(block);
            }
        }
        None
    }
}
