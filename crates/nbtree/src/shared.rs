//! Pages in memory, for many threads.
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use pgtoast_base::{BlockNumber, BlockSize};

use crate::memory::FIRST_XID;
use crate::pages::IndexPages;
use crate::sync::{Count, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Pages in memory, for many threads: each has a latch of its own.
///
/// Pages that a vacuum took out of the tree are used anew after [`settle`](Self::settle): that it
/// needs the pages for itself is the proof that no search is on its way to them.
pub struct SharedPages {
    block_size: BlockSize,
    /// Empty until the block is there.
    slots: Box<[RwLock<Box<[u8]>>]>,
    count: Count,
    /// Held while a block is added.
    free: Mutex<Vec<BlockNumber>>,
    xid: u64,
}

impl SharedPages {
    /// No pages yet, and room for at most `capacity` of them; about 40 bytes are taken for each.
    #[must_use]
    pub fn new(block_size: BlockSize, capacity: u32) -> Self {
        Self {
            block_size,
            slots: (0..capacity).map(|_| RwLock::new(Box::default())).collect(),
            count: Count::zero(),
            free: Mutex::new(Vec::new()),
            xid: FIRST_XID,
        }
    }

    /// Pages out of a file, without a rest that is shorter than a block; `None` if they are more than
    /// `capacity`.
    #[must_use]
    pub fn from_bytes(block_size: BlockSize, file: &[u8], capacity: u32) -> Option<Self> {
        let pages = Self::new(block_size, capacity);
        for bytes in file.chunks_exact(block_size.bytes()) {
            pages.extend().ok()?.1.copy_from_slice(bytes);
        }
        Some(pages)
    }

    /// All pages, one after the other.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let blocks = (0..self.count.get()).map(BlockNumber::new);
        let pages = blocks.filter_map(|block| self.slot(block));
        pages.flat_map(|page| read(page).0.to_vec()).collect()
    }

    /// Lets pages be used anew that left the tree before this.
    pub fn settle(&mut self) {
        self.xid += 1;
    }

    #[inline]
    fn slot(&self, block: BlockNumber) -> Option<&RwLock<Box<[u8]>>> {
        if block.get() >= self.count.get() {
            return None;
        }
        self.slots.get(usize::try_from(block.get()).ok()?)
    }
}

/// A thread that panicked while it changed a page has left it half changed; that is for a check to
/// find, and no reason to stop every other thread.
#[inline]
fn read(slot: &RwLock<Box<[u8]>>) -> SharedRead<'_> {
    SharedRead(slot.read().unwrap_or_else(PoisonError::into_inner))
}

#[inline]
fn write(slot: &RwLock<Box<[u8]>>) -> SharedWrite<'_> {
    SharedWrite(slot.write().unwrap_or_else(PoisonError::into_inner))
}

impl fmt::Debug for SharedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPages").field("count", &self.count).finish_non_exhaustive()
    }
}

/// Every block that there may be is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// How many there may be.
    pub capacity: u32,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all {} blocks are in use", self.capacity)
    }
}

impl core::error::Error for NoRoom {}

impl From<Infallible> for NoRoom {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl IndexPages for SharedPages {
    type Error = NoRoom;
    type Read<'a> = SharedRead<'a>;
    type Write<'a> = SharedWrite<'a>;

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn block_count(&self) -> Result<u32, NoRoom> {
        Ok(self.count.get())
    }

    #[inline]
    fn read(&self, block: BlockNumber) -> Result<Option<SharedRead<'_>>, NoRoom> {
        Ok(self.slot(block).map(read))
    }

    #[inline]
    fn write(&self, block: BlockNumber) -> Result<Option<SharedWrite<'_>>, NoRoom> {
        Ok(self.slot(block).map(write))
    }

    #[inline]
    fn try_write(&self, block: BlockNumber) -> Result<Option<SharedWrite<'_>>, NoRoom> {
        Ok(self.slot(block).and_then(|slot| slot.try_write().ok()).map(SharedWrite))
    }

    fn extend(&self) -> Result<(BlockNumber, SharedWrite<'_>), NoRoom> {
        let _adding = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let block = self.count.get();
        let full = NoRoom { capacity: u32::try_from(self.slots.len()).unwrap_or(u32::MAX) };
        let index = usize::try_from(block).map_err(|_| full)?;
        let mut page = write(self.slots.get(index).ok_or(full)?);
        *page.0 = vec![0; self.block_size.bytes()].into_boxed_slice();
        self.count.set(block + 1);
        Ok((BlockNumber::new(block), page))
    }

    fn take_free(&self) -> Option<BlockNumber> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put_free(&self, block: BlockNumber) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(block);
    }

    fn next_xid(&self) -> u64 {
        self.xid
    }

    fn is_past(&self, xid: u64) -> bool {
        xid < self.xid
    }
}

/// A page that is being read.
pub struct SharedRead<'a>(RwLockReadGuard<'a, Box<[u8]>>);

impl Deref for SharedRead<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SharedRead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRead").finish_non_exhaustive()
    }
}

/// A page that is being changed.
pub struct SharedWrite<'a>(RwLockWriteGuard<'a, Box<[u8]>>);

impl Deref for SharedWrite<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for SharedWrite<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl fmt::Debug for SharedWrite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWrite").finish_non_exhaustive()
    }
}
