//! What the contexts do with blocks, in plain numbers and without memory: the same requests give the
//! same blocks, so tests compare the two, and the figures of a large workload cost nothing.
mod cohorts;
mod slab;

use alloc::vec::Vec;

use crate::sizes::{CLASSES, class_of, maxalign};
use crate::{BlockSizes, Headers, Release};

pub use cohorts::{TwinCohort, TwinCohorts, TwinPlace};
pub use slab::TwinSlab;

/// A Generation's blocks.
#[derive(Clone, Debug)]
pub struct TwinGeneration {
    sizes: BlockSizes,
    headers: Headers,
    next_bytes: usize,
    /// By number; none where one was given back.
    blocks: Vec<Option<TwinBlock>>,
    current: usize,
    spare: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct TwinBlock {
    room: usize,
    left: usize,
    chunks: usize,
    freed: usize,
}

/// Figures that a context of the same requests must have too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwinFigures {
    /// Bytes from the system.
    pub mem_allocated: usize,
    /// Blocks; spans of pages, and blocks of a single chunk.
    pub blocks: usize,
    /// Bytes at the ends of blocks, and of an AllocSet in freed chunks, headers counted; of pages, all that
    /// no chunk has.
    pub free_bytes: usize,
}

impl TwinGeneration {
    /// The number of the first block.
    const KEEPER: usize = 0;

    /// As a new context.
    #[must_use]
    pub fn new(release: Release, sizes: BlockSizes) -> Self {
        let headers = release.generation();
        let room = sizes.first(headers) - headers.context - headers.block;
        let keeper = TwinBlock { room, left: room, chunks: 0, freed: 0 };
        Self {
            sizes,
            headers,
            next_bytes: sizes.init,
            blocks: Vec::from([Some(keeper)]),
            current: Self::KEEPER,
            spare: None,
        }
    }

    /// Places a chunk; the number of its block.
    pub fn allocate(&mut self, size: usize) -> usize {
        let need = maxalign(size) + self.headers.chunk;
        if maxalign(size) > self.sizes.generation_limit(self.headers) {
            return self.add(TwinBlock { room: need, left: 0, chunks: 1, freed: 0 });
        }
        if self.left(self.current) < need {
            self.current = match self.spare {
                Some(spare) if self.left(spare) >= need => {
                    self.spare = None;
                    spare
                }
                _ => {
                    let mut bytes = self.next_bytes;
                    self.next_bytes = (bytes * 2).min(self.sizes.max);
                    if bytes < need + self.headers.block {
                        bytes = (need + self.headers.block).next_power_of_two();
                    }
                    let room = bytes - self.headers.block;
                    self.add(TwinBlock { room, left: room, chunks: 0, freed: 0 })
                }
            };
        }
        if let Some(block) = &mut self.blocks[self.current] {
            block.left -= need;
            block.chunks += 1;
        }
        self.current
    }

    fn add(&mut self, block: TwinBlock) -> usize {
        self.blocks.push(Some(block));
        self.blocks.len() - 1
    }

    fn left(&self, number: usize) -> usize {
        self.blocks[number].map_or(0, |block| block.left)
    }

    /// Frees one of the chunks of a block.
    pub fn free(&mut self, number: usize, size: usize) {
        let limit = self.sizes.generation_limit(self.headers);
        let is_external = maxalign(size) > limit;
        let Some(block) = &mut self.blocks[number] else { return };
        block.freed += 1;
        if block.freed < block.chunks {
            return;
        }
        let stays = number == self.current || number == Self::KEEPER;
        if is_external || (!stays && self.spare.is_some()) {
            self.blocks[number] = None;
            return;
        }
        if !stays {
            self.spare = Some(number);
        }
        (block.left, block.chunks, block.freed) = (block.room, 0, 0);
    }

    /// Frees all, and all blocks but the first.
    pub fn reset(&mut self, release: Release) {
        *self = Self::new(release, self.sizes);
    }

    /// What it comes to.
    #[must_use]
    pub fn figures(&self) -> TwinFigures {
        let blocks = || self.blocks.iter().flatten();
        TwinFigures {
            mem_allocated: blocks().map(|block| block.room + self.headers.block).sum(),
            blocks: blocks().count(),
            free_bytes: blocks().map(|block| block.left).sum(),
        }
    }
}

/// An AllocSet's blocks. Chunks of one class are all alike, so there are only counts.
#[derive(Clone, Debug)]
pub struct TwinAllocSet {
    sizes: BlockSizes,
    headers: Headers,
    next_bytes: usize,
    /// Bytes of shared blocks.
    shared: Vec<usize>,
    /// Bytes that were left in blocks that are no longer current.
    lost: usize,
    left: usize,
    free: [usize; CLASSES],
    external_bytes: usize,
    externals: usize,
}

impl TwinAllocSet {
    /// As a new context.
    #[must_use]
    pub fn new(release: Release, sizes: BlockSizes) -> Self {
        let headers = release.alloc_set();
        let first = sizes.first(headers);
        Self {
            sizes,
            headers,
            next_bytes: sizes.init,
            shared: Vec::from([first]),
            lost: 0,
            left: first - headers.context - headers.block,
            free: [0; CLASSES],
            external_bytes: 0,
            externals: 0,
        }
    }

    fn external(&self, size: usize) -> Option<usize> {
        let limit = self.sizes.alloc_set_limit(self.headers);
        (size > limit).then(|| maxalign(size) + self.headers.chunk + self.headers.block)
    }

    /// Places a chunk.
    pub fn allocate(&mut self, size: usize) {
        if let Some(bytes) = self.external(size) {
            self.external_bytes += bytes;
            self.externals += 1;
            return;
        }
        let class = class_of(size);
        if self.free[class] > 0 {
            self.free[class] -= 1;
            return;
        }
        let need = (8 << class) + self.headers.chunk;
        if self.left < need {
            // The rest becomes free chunks, the largest first.
            for class in (0..CLASSES).rev() {
                let bytes = (8 << class) + self.headers.chunk;
                while self.left >= bytes {
                    self.left -= bytes;
                    self.free[class] += 1;
                }
            }
            self.lost += self.left;
            let mut bytes = self.next_bytes;
            self.next_bytes = (bytes * 2).min(self.sizes.max);
            while bytes < need + self.headers.block {
                bytes *= 2;
            }
            self.shared.push(bytes);
            self.left = bytes - self.headers.block;
        }
        self.left -= need;
    }

    /// Frees a chunk of that size.
    pub fn free(&mut self, size: usize) {
        match self.external(size) {
            Some(bytes) => {
                self.external_bytes -= bytes;
                self.externals -= 1;
            }
            None => self.free[class_of(size)] += 1,
        }
    }

    /// What it comes to.
    #[must_use]
    pub fn figures(&self) -> TwinFigures {
        let freed = (0..)
            .zip(self.free)
            .map(|(class, count)| count * ((8usize << class) + self.headers.chunk));
        TwinFigures {
            mem_allocated: self.shared.iter().sum::<usize>() + self.external_bytes,
            blocks: self.shared.len() + self.externals,
            free_bytes: self.lost + self.left + freed.sum::<usize>(),
        }
    }
}

/// A Bump's blocks.
#[derive(Clone, Debug)]
pub struct TwinBump {
    sizes: BlockSizes,
    headers: Headers,
    next_bytes: usize,
    mem_allocated: usize,
    blocks: usize,
    lost: usize,
    left: usize,
}

impl TwinBump {
    /// As a new context.
    #[must_use]
    pub fn new(release: Release, sizes: BlockSizes) -> Self {
        let headers = release.bump();
        let first = sizes.first(headers);
        Self {
            sizes,
            headers,
            next_bytes: sizes.init,
            mem_allocated: first,
            blocks: 1,
            lost: 0,
            left: first - headers.context - headers.block,
        }
    }

    /// Places a chunk.
    pub fn allocate(&mut self, size: usize) {
        let size = maxalign(size);
        if size > self.sizes.generation_limit(self.headers) {
            self.mem_allocated += size + self.headers.block;
            self.blocks += 1;
            return;
        }
        if self.left < size {
            let mut bytes = self.next_bytes;
            self.next_bytes = (bytes * 2).min(self.sizes.max);
            if bytes < size + self.headers.block {
                bytes = (size + self.headers.block).next_power_of_two();
            }
            self.mem_allocated += bytes;
            self.blocks += 1;
            self.lost += self.left;
            self.left = bytes - self.headers.block;
        }
        self.left -= size;
    }

    /// What it comes to.
    #[must_use]
    pub fn figures(&self) -> TwinFigures {
        TwinFigures {
            mem_allocated: self.mem_allocated,
            blocks: self.blocks,
            free_bytes: self.lost + self.left,
        }
    }
}
