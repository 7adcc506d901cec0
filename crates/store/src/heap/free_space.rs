//! Where a relation has space: in memory while it is open, in its fork `_fsm` at rest.
//!
//! The map is a hint. It is written when the relation is saved, not when it changes, and whoever
//! is sent to a block looks at the block.
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_fsm::shared::{Cursor, SharedMap};
use pgtoast_fsm::{Access, Category, FreeSpaceMap, Geometry, MapPages};
use pgtoast_page::{Page, PageHeader, PageMut};

use crate::StoreError;
use crate::buffer::{BufferPool, ForkId};
use crate::sync::RwLock;
use crate::sync::atomic::{AtomicBool, Ordering};

/// A relation's free space map.
#[derive(Debug)]
pub(super) struct FreeSpace {
    map: RwLock<SharedMap>,
    fork: ForkId,
    block_size: BlockSize,
    /// Whether the fork is older than the map.
    changed: AtomicBool,
}

impl FreeSpace {
    /// What the fork says of a relation of `nblocks` blocks.
    pub(super) fn load(
        pool: &BufferPool,
        fork: ForkId,
        block_size: BlockSize,
        nblocks: u32,
    ) -> Result<Self, StoreError> {
        let geometry = geometry(block_size);
        let capacity = nblocks.saturating_mul(2).max(LEAST_CAPACITY);
        let map = if pool.block_count(fork) == 0 {
            SharedMap::new(geometry, nblocks, capacity)
        } else {
            let pages = ForkPages { pool, fork, block_size };
            let mut stored = FreeSpaceMap::new(geometry, pages);
            SharedMap::read_from(&mut stored, nblocks, capacity)?
        };
        let changed = AtomicBool::new(false);
        Ok(Self { map: RwLock::new(map), fork, block_size, changed })
    }

    /// Writes the fork, if there is anything to write.
    pub(super) fn save(&self, pool: &BufferPool) -> Result<(), StoreError> {
        if !self.changed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let mut written = self.write(pool);
        if matches!(written, Err(StoreError::Page { .. })) {
            // All of it is written anyway: a page that cannot be read need not be.
            written = pool.truncate(self.fork, 0).and_then(|()| self.write(pool));
        }
        if written.is_err() {
            self.changed.store(true, Ordering::Release);
        }
        written
    }

    fn write(&self, pool: &BufferPool) -> Result<(), StoreError> {
        let pages = ForkPages { pool, fork: self.fork, block_size: self.block_size };
        let mut stored = FreeSpaceMap::new(geometry(self.block_size), pages);
        self.map.read().write_to(&mut stored)
    }

    /// A block that should have `needed` bytes free, and that nobody else is sent to until it is
    /// recorded again.
    pub(super) fn take(&self, cursor: &mut Cursor, needed: usize) -> Option<BlockNumber> {
        let needed = Category::needed_for(needed, self.block_size).ok()?;
        let (block, _) = self.map.read().take(cursor, needed)?;
        self.touch();
        Some(block)
    }

    /// Remembers that a block has `free` bytes.
    pub(super) fn record(&self, block: BlockNumber, free: usize) {
        let category = Category::of_free(free, self.block_size);
        self.map.read().record(block, category);
        self.touch();
    }

    /// What is remembered of a block, in bytes, rounded down.
    pub(super) fn free_bytes(&self, block: BlockNumber) -> usize {
        self.map.read().category(block).free_bytes(self.block_size)
    }

    /// The relation got longer. For the holder of the lock on extension.
    pub(super) fn extend(&self, nblocks: u32) {
        if self.map.read().extend(nblocks) {
            return;
        }
        let mut map = self.map.write();
        map.grow(nblocks.saturating_mul(2));
        map.extend(nblocks);
    }

    /// The relation got shorter. For the holder of the lock on extension.
    pub(super) fn truncate(&self, nblocks: u32) {
        self.map.read().truncate(nblocks);
        self.touch();
    }

    fn touch(&self) {
        // Looking first keeps the cache line shared among writers.
        if !self.changed.load(Ordering::Relaxed) {
            self.changed.store(true, Ordering::Release);
        }
    }
}

/// Measures of the map: those of the file, but for the model checker, which needs them small.
fn geometry(block_size: BlockSize) -> Geometry {
    #[cfg(pgtoast_loom)]
    if let Some(geometry) = Geometry::custom(8, 1) {
        return geometry;
    }
    Geometry::of(block_size)
}

/// Blocks that a new map has room for.
const LEAST_CAPACITY: u32 = if cfg!(pgtoast_loom) { 8 } else { 1024 };

/// The pages of the fork, in the buffer pool.
struct ForkPages<'a> {
    pool: &'a BufferPool,
    fork: ForkId,
    block_size: BlockSize,
}

impl MapPages for ForkPages<'_> {
    type Error = StoreError;

    fn page_count(&self) -> Result<u32, StoreError> {
        Ok(self.pool.block_count(self.fork))
    }

    fn with<R>(
        &mut self,
        page: u32,
        access: Access,
        work: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        if page >= self.pool.block_count(self.fork) {
            return Ok(None);
        }
        let block = BlockNumber::new(page);
        if access == Access::Read {
            // The map is asked for its slots only, and they are few: a copy is cheap enough.
            let mut bytes = match self.pool.read(self.fork, block) {
                Ok(bytes) => bytes.to_vec(),
                // It knew of space, no more: a page of zeros knows of none.
                Err(StoreError::Page { .. }) => vec![0; self.block_size.bytes()],
                Err(error) => return Err(error),
            };
            return Ok(bytes.get_mut(PageHeader::LEN..).map(work));
        }
        let mut write = self.pool.write(self.fork, block)?;
        if Page::new(&write, self.block_size).is_ok_and(|page| page.is_new()) {
            let _ = PageMut::init(&mut write, self.block_size, 0);
        }
        Ok(write.get_mut(PageHeader::LEN..).map(work))
    }

    fn extend(&mut self, page_count: u32) -> Result<(), StoreError> {
        let missing = page_count.saturating_sub(self.pool.block_count(self.fork));
        if missing > 0 {
            drop(self.pool.extend(self.fork, missing)?);
        }
        Ok(())
    }

    fn truncate(&mut self, page_count: u32) -> Result<(), StoreError> {
        if page_count < self.pool.block_count(self.fork) {
            self.pool.truncate(self.fork, page_count)?;
        }
        Ok(())
    }
}
