//! Pages in memory, for one thread.
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, OnceCell, Ref, RefCell, RefMut};
use core::convert::Infallible;
use core::fmt;
use core::ops::{Deref, DerefMut};

use pgtoast_base::{BlockNumber, BlockSize};

use crate::pages::IndexPages;

/// Pages in memory, for one thread. A latch that would have to wait is a bug there, and panics.
///
/// Pages that a vacuum took out of the tree are used anew after [`settle`](Self::settle): that it
/// needs the pages for itself is the proof that no scan is on its way to them.
pub struct MemoryPages {
    block_size: BlockSize,
    /// Each twice as long as the one before, so that pages never move and are found by arithmetic.
    segments: [OnceCell<Box<[Slot]>>; SEGMENTS],
    count: Cell<u32>,
    free: RefCell<Vec<BlockNumber>>,
    xid: Cell<u64>,
}

/// A page, empty until the block is there.
type Slot = RefCell<Box<[u8]>>;

const SEGMENTS: usize = 28;
const FIRST_SEGMENT: u32 = 32;

/// The segment of a block, and where it is in it.
#[inline]
fn place(block: BlockNumber) -> (usize, usize) {
    let number = u64::from(block.get()) + u64::from(FIRST_SEGMENT);
    let segment = number.ilog2() - FIRST_SEGMENT.ilog2();
    let start = u64::from(FIRST_SEGMENT) << segment;
    #[expect(clippy::cast_possible_truncation, reason = "less than 2^32, and usize is no narrower")]
    let index = (number - start) as usize;
    (segment as usize, index)
}

impl MemoryPages {
    /// No pages yet.
    #[must_use]
    pub const fn new(block_size: BlockSize) -> Self {
        Self {
            block_size,
            segments: [const { OnceCell::new() }; SEGMENTS],
            count: Cell::new(0),
            free: RefCell::new(Vec::new()),
            xid: Cell::new(FIRST_XID),
        }
    }

    /// Pages out of a file, without a rest that is shorter than a block.
    #[must_use]
    pub fn from_bytes(block_size: BlockSize, file: &[u8]) -> Self {
        let pages = Self::new(block_size);
        for bytes in file.chunks_exact(block_size.bytes()) {
            let Ok((_, mut page)) = pages.extend();
            page.copy_from_slice(bytes);
        }
        pages
    }

    /// All pages, one after the other.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let blocks = (0..self.count.get()).map(BlockNumber::new);
        let pages = blocks.filter_map(|block| self.cell(block));
        pages.flat_map(|page| page.borrow().to_vec()).collect()
    }

    /// Lets pages be used anew that left the tree before this.
    pub fn settle(&mut self) {
        self.xid.set(self.xid.get() + 1);
    }

    #[inline]
    fn cell(&self, block: BlockNumber) -> Option<&Slot> {
        if block.get() >= self.count.get() {
            return None;
        }
        let (segment, index) = place(block);
        self.segments.get(segment)?.get()?.get(index)
    }
}

/// As in a new cluster.
pub(crate) const FIRST_XID: u64 = 3;

impl fmt::Debug for MemoryPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryPages").field("count", &self.count.get()).finish_non_exhaustive()
    }
}

impl IndexPages for MemoryPages {
    type Error = Infallible;
    type Read<'a> = MemoryRead<'a>;
    type Write<'a> = MemoryWrite<'a>;

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn block_count(&self) -> Result<u32, Infallible> {
        Ok(self.count.get())
    }

    #[inline]
    fn read(&self, block: BlockNumber) -> Result<Option<MemoryRead<'_>>, Infallible> {
        Ok(self.cell(block).map(|page| MemoryRead(page.borrow())))
    }

    #[inline]
    fn write(&self, block: BlockNumber) -> Result<Option<MemoryWrite<'_>>, Infallible> {
        Ok(self.cell(block).map(|page| MemoryWrite(page.borrow_mut())))
    }

    #[inline]
    fn try_write(&self, block: BlockNumber) -> Result<Option<MemoryWrite<'_>>, Infallible> {
        Ok(self.cell(block).and_then(|page| page.try_borrow_mut().ok()).map(MemoryWrite))
    }

    fn extend(&self) -> Result<(BlockNumber, MemoryWrite<'_>), Infallible> {
        let block = BlockNumber::new(self.count.get());
        assert!(block.is_valid(), "an index has at most 2^32 - 1 blocks");
        let (segment, index) = place(block);
        let pages = self.segments[segment].get_or_init(|| {
            let len = (FIRST_SEGMENT as usize) << segment;
            (0..len).map(|_| RefCell::new(Box::default())).collect()
        });
        let mut page = pages[index].borrow_mut();
        *page = vec![0; self.block_size.bytes()].into_boxed_slice();
        self.count.set(block.get() + 1);
        Ok((block, MemoryWrite(page)))
    }

    fn take_free(&self) -> Option<BlockNumber> {
        self.free.borrow_mut().pop()
    }

    fn put_free(&self, block: BlockNumber) {
        self.free.borrow_mut().push(block);
    }

    fn next_xid(&self) -> u64 {
        self.xid.get()
    }

    fn is_past(&self, xid: u64) -> bool {
        xid < self.xid.get()
    }
}

/// A page that is being read.
pub struct MemoryRead<'a>(Ref<'a, Box<[u8]>>);

impl Deref for MemoryRead<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for MemoryRead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRead").finish_non_exhaustive()
    }
}

/// A page that is being changed.
pub struct MemoryWrite<'a>(RefMut<'a, Box<[u8]>>);

impl Deref for MemoryWrite<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for MemoryWrite<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl fmt::Debug for MemoryWrite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWrite").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_hold_every_block_once() {
        assert_eq!(place(BlockNumber::new(0)), (0, 0));
        assert_eq!(place(BlockNumber::new(31)), (0, 31));
        assert_eq!(place(BlockNumber::new(32)), (1, 0));
        assert_eq!(place(BlockNumber::new(95)), (1, 63));
        assert_eq!(place(BlockNumber::new(96)), (2, 0));
        let (segment, index) = place(BlockNumber::MAX);
        assert!(segment < SEGMENTS && index < (FIRST_SEGMENT as usize) << segment);
    }
}
