//! The fork `_vm`: which pages everybody sees whole, and which hold nothing to freeze.
//!
//! A page of the map that cannot be read promises nothing.
//!
//! **Invariant:** a bit is set only while the page's own flag says the same, and both are cleared,
//! the map first, under the page's exclusive latch before anything on it changes.
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::{Page, PageMut, VisibilityAddress, VisibilityBits};

use crate::StoreError;
use crate::buffer::{BufferPool, ForkId};
use crate::sync::Mutex;

/// A relation's visibility map.
#[derive(Debug)]
pub(super) struct VisibilityMap {
    fork: ForkId,
    block_size: BlockSize,
    extension: Mutex<()>,
}

impl VisibilityMap {
    pub(super) fn new(fork: ForkId, block_size: BlockSize) -> Self {
        Self { fork, block_size, extension: Mutex::new(()) }
    }

    /// What the map promises of a heap block.
    #[doc(alias = "visibilitymap_get_status")]
    pub(super) fn bits(
        &self,
        pool: &BufferPool,
        block: BlockNumber,
    ) -> Result<VisibilityBits, StoreError> {
        let address = VisibilityAddress::of(block, self.block_size);
        if address.map_block.get() >= pool.block_count(self.fork) {
            return Ok(VisibilityBits::empty());
        }
        let bytes = match pool.read(self.fork, address.map_block) {
            Err(StoreError::Page { .. }) => return Ok(VisibilityBits::empty()),
            read => read?,
        };
        Ok(match Page::new(&bytes, self.block_size) {
            Ok(page) => page.visibility(block),
            Err(_) => VisibilityBits::empty(),
        })
    }

    /// Replaces what the map promises of a heap block, whose latch the caller holds exclusively.
    #[doc(alias = "visibilitymap_set")]
    #[doc(alias = "visibilitymap_clear")]
    pub(super) fn set(
        &self,
        pool: &BufferPool,
        block: BlockNumber,
        bits: VisibilityBits,
    ) -> Result<(), StoreError> {
        let address = VisibilityAddress::of(block, self.block_size);
        if address.map_block.get() >= pool.block_count(self.fork) {
            if bits.is_empty() {
                return Ok(());
            }
            self.extend(pool, address.map_block.get() + 1)?;
        }
        let mut bytes = match pool.write(self.fork, address.map_block) {
            Err(StoreError::Page { .. }) => return Ok(()),
            write => write?,
        };
        if Page::new(&bytes, self.block_size).is_ok_and(|page| page.is_new()) {
            if bits.is_empty() {
                return Ok(());
            }
            let _ = PageMut::init(&mut bytes, self.block_size, 0);
        }
        let old = bytes.get(address.offset).copied().unwrap_or(0);
        let mask = VisibilityBits::all().bits() << address.shift;
        let new = old & !mask | bits.bits() << address.shift;
        if new != old
            && let Some(byte) = bytes.get_mut(address.offset)
        {
            *byte = new;
        }
        Ok(())
    }

    /// Forgets the heap blocks from `nblocks` on, which are about to go.
    #[doc(alias = "visibilitymap_prepare_truncate")]
    pub(super) fn truncate(&self, pool: &BufferPool, nblocks: u32) -> Result<(), StoreError> {
        let _alone = self.extension.lock();
        let per_page = VisibilityAddress::blocks_per_page(self.block_size);
        let kept = nblocks.div_ceil(per_page);
        let map_blocks = pool.block_count(self.fork);
        if !nblocks.is_multiple_of(per_page) && kept <= map_blocks {
            let first = VisibilityAddress::of(BlockNumber::new(nblocks), self.block_size);
            let below = (1u8 << first.shift) - 1;
            match pool.write(self.fork, first.map_block) {
                Ok(mut bytes) => {
                    let tail = bytes.get_mut(first.offset..).and_then(<[u8]>::split_first_mut);
                    if let Some((byte, rest)) = tail {
                        *byte &= below;
                        rest.fill(0);
                    }
                }
                Err(StoreError::Page { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if kept < map_blocks {
            pool.truncate(self.fork, kept)?;
        }
        Ok(())
    }

    fn extend(&self, pool: &BufferPool, map_blocks: u32) -> Result<(), StoreError> {
        let _alone = self.extension.lock();
        while pool.block_count(self.fork) < map_blocks {
            let (_, mut bytes) = pool.extend(self.fork, 1)?;
            let _ = PageMut::init(&mut bytes, self.block_size, 0);
        }
        Ok(())
    }
}
