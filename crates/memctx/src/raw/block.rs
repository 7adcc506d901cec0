//! Blocks, their headers, and lists of them.
use alloc::alloc::{alloc, dealloc, realloc};
use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use super::{MAXALIGN, sanitizer};
use crate::{Account, MemoryError};

/// What the system said: nothing, or `bytes` bytes aligned to 8.
fn system_alloc(bytes: usize) -> Option<NonNull<u8>> {
    let layout =
        Layout::from_size_align(bytes, MAXALIGN).ok().filter(|layout| layout.size() > 0)?;
    // SAFETY: the layout is not of size 0.
    NonNull::new(unsafe { alloc(layout) })
}

/// The two ends by which blocks hang together; every block starts with them.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Links<H> {
    pub(super) previous: Option<BlockRef<H>>,
    pub(super) next: Option<BlockRef<H>>,
}

/// A header at the start of a block.
///
/// # Safety
/// `repr(C)` with [`Links`] first, aligned to at most 8.
pub(super) unsafe trait Header: Sized {}

/// Of AllocSet, Generation and Bump.
///
/// ```text
/// byte 0          8      16     24           32       36      40     on a 64-bit machine
///      | previous | next | size | tail bytes | chunks | freed |      chunk header, chunk, ...
///                                            `- not in a Bump, whose chunks follow here
/// ```
#[repr(C)]
#[derive(Debug)]
pub(super) struct BlockHeader {
    links: Links<Self>,
    size: usize,
    tail: usize,
}

#[repr(C)]
struct CountedHeader {
    block: BlockHeader,
    chunks: u32,
    freed: u32,
}

// SAFETY: as it is declared.
unsafe impl Header for BlockHeader {}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<BlockHeader>() == 32 && size_of::<CountedHeader>() == 40);
const _: () = assert!(size_of::<BlockHeader>() <= 32 && size_of::<CountedHeader>() <= 40);

/// A live block: it has at least as many bytes as the header of its kind.
#[derive(Debug)]
pub(super) struct BlockRef<H>(pub(super) NonNull<H>);

impl<H> Clone for BlockRef<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for BlockRef<H> {}

impl<H> PartialEq for BlockRef<H> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<H: Header> BlockRef<H> {
    /// A block from the system, counted; its links are empty.
    pub(super) fn acquire_with(
        account: &Account,
        bytes: usize,
        header: H,
    ) -> Result<Self, MemoryError> {
        debug_assert!(bytes >= size_of::<H>());
        account.charge(bytes)?;
        let Some(start) = system_alloc(bytes) else {
            account.discharge(bytes);
            return Err(MemoryError::OutOfMemory { requested: bytes });
        };
        let block = start.cast::<H>();
        // SAFETY: it is a new allocation, aligned and large enough for a header.
        unsafe { block.write(header) };
        Ok(Self(block))
    }

    /// Gives the block back to the system.
    ///
    /// # Safety
    /// The block was acquired with so many bytes on this account, no copy of the reference is used
    /// afterwards, and none of the block's chunks.
    pub(super) unsafe fn release_sized(self, account: &Account, bytes: usize) {
        sanitizer::unpoison(self.start(), bytes);
        // SAFETY: blocks are acquired with sizes for which this is a layout.
        let layout = unsafe { Layout::from_size_align_unchecked(bytes, MAXALIGN) };
        // SAFETY: it was allocated with this layout, and the caller lets go of it.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
        account.discharge(bytes);
    }

    #[inline]
    pub(super) fn start(self) -> NonNull<u8> {
        self.0.cast()
    }

    /// The address so many bytes into the block.
    ///
    /// # Safety
    /// They are not more than the block has.
    #[inline]
    pub(super) unsafe fn at(self, offset: usize) -> NonNull<u8> {
        // SAFETY: by this function's contract, it stays within one allocation.
        unsafe { self.start().add(offset) }
    }

    #[inline]
    pub(super) fn links(self) -> NonNull<Links<H>> {
        self.0.cast()
    }

    #[inline]
    pub(super) fn next(self) -> Option<Self> {
        // SAFETY: a live block starts with links, which nobody has a reference to.
        unsafe { (*self.links().as_ptr()).next }
    }

    #[inline]
    pub(super) fn previous(self) -> Option<Self> {
        // SAFETY: as for `next`.
        unsafe { (*self.links().as_ptr()).previous }
    }

    #[inline]
    pub(super) fn set_next(self, next: Option<Self>) {
        // SAFETY: as for `next`.
        unsafe { (*self.links().as_ptr()).next = next };
    }

    #[inline]
    pub(super) fn set_previous(self, previous: Option<Self>) {
        // SAFETY: as for `next`.
        unsafe { (*self.links().as_ptr()).previous = previous };
    }
}

impl BlockRef<BlockHeader> {
    /// A block from the system, counted. Its counts, where its kind has them, are 0.
    pub(super) fn acquire(
        account: &Account,
        bytes: usize,
        counted: bool,
    ) -> Result<Self, MemoryError> {
        let links = Links { previous: None, next: None };
        let header = BlockHeader { links, size: bytes, tail: 0 };
        let block = Self::acquire_with(account, bytes, header)?;
        if counted {
            block.set_chunks(0);
            block.set_freed(0);
        }
        Ok(block)
    }

    /// Gives the block back to the system.
    ///
    /// # Safety
    /// It was acquired on this account, no copy of the reference is used afterwards, and none of the
    /// block's chunks.
    pub(super) unsafe fn release(self, account: &Account) {
        let bytes = self.size();
        // SAFETY: its size is what it was acquired with, the rest is this function's contract.
        unsafe { self.release_sized(account, bytes) };
    }

    /// Another size, at another place perhaps. The caller mends whatever refers to the block.
    ///
    /// # Safety
    /// As for [`Self::release`], except that the bytes that both sizes have are kept.
    pub(super) unsafe fn resize(
        self,
        account: &Account,
        bytes: usize,
    ) -> Result<Self, MemoryError> {
        let old = self.size();
        if bytes > old {
            account.charge(bytes - old)?;
        }
        sanitizer::unpoison(self.start(), old);
        // SAFETY: the block was allocated with this layout.
        let layout = unsafe { Layout::from_size_align_unchecked(old, MAXALIGN) };
        // SAFETY: as above, and the new size is not 0 and was checked against the largest.
        let Some(start) = NonNull::new(unsafe { realloc(self.0.as_ptr().cast(), layout, bytes) })
        else {
            account.discharge(bytes.saturating_sub(old));
            return Err(MemoryError::OutOfMemory { requested: bytes });
        };
        account.discharge(old.saturating_sub(bytes));
        let block = Self(start.cast());
        block.set_size(bytes);
        Ok(block)
    }

    #[inline]
    pub(super) fn size(self) -> usize {
        // SAFETY: a live block has a header, which nobody has a reference to.
        unsafe { (*self.0.as_ptr()).size }
    }

    pub(super) fn set_size(self, size: usize) {
        // SAFETY: as for `size`.
        unsafe { (*self.0.as_ptr()).size = size };
    }

    /// Bytes at its end that no chunk has had; kept up to date once the block is no longer current.
    #[inline]
    pub(super) fn tail(self) -> usize {
        // SAFETY: as for `size`.
        unsafe { (*self.0.as_ptr()).tail }
    }

    #[inline]
    pub(super) fn set_tail(self, tail: usize) {
        // SAFETY: as for `size`.
        unsafe { (*self.0.as_ptr()).tail = tail };
    }

    /// Chunks placed in it. Of counted blocks alone.
    #[inline]
    pub(super) fn chunks(self) -> u32 {
        // SAFETY: a live counted block has a counted header, which nobody has a reference to.
        unsafe { (*self.0.cast::<CountedHeader>().as_ptr()).chunks }
    }

    #[inline]
    pub(super) fn set_chunks(self, chunks: u32) {
        // SAFETY: as for `chunks`.
        unsafe { (*self.0.cast::<CountedHeader>().as_ptr()).chunks = chunks };
    }

    /// Those among them that were freed. Of counted blocks alone.
    #[inline]
    pub(super) fn freed(self) -> u32 {
        // SAFETY: as for `chunks`.
        unsafe { (*self.0.cast::<CountedHeader>().as_ptr()).freed }
    }

    #[inline]
    pub(super) fn set_freed(self, freed: u32) {
        // SAFETY: as for `chunks`.
        unsafe { (*self.0.cast::<CountedHeader>().as_ptr()).freed = freed };
    }

    /// The address after its last byte.
    pub(super) fn end(self) -> NonNull<u8> {
        // SAFETY: a block has its size.
        unsafe { self.at(self.size()) }
    }
}

/// Blocks of one context that hang together. A block is in one list at most.
#[derive(Debug)]
pub(super) struct BlockList<H>(Cell<Option<BlockRef<H>>>);

impl<H: Header> BlockList<H> {
    pub(super) const fn new() -> Self {
        Self(Cell::new(None))
    }

    #[inline]
    pub(super) fn first(&self) -> Option<BlockRef<H>> {
        self.0.get()
    }

    /// Puts a block that is in no list at the front.
    pub(super) fn push(&self, block: BlockRef<H>) {
        let next = self.0.replace(Some(block));
        block.set_previous(None);
        block.set_next(next);
        if let Some(next) = next {
            next.set_previous(Some(block));
        }
    }

    /// Puts a block that is in no list behind one that is in this.
    pub(super) fn push_behind(&self, before: BlockRef<H>, block: BlockRef<H>) {
        let next = before.next();
        block.set_previous(Some(before));
        block.set_next(next);
        before.set_next(Some(block));
        if let Some(next) = next {
            next.set_previous(Some(block));
        }
    }

    /// Takes a block out that is in it.
    pub(super) fn remove(&self, block: BlockRef<H>) {
        let (previous, next) = (block.previous(), block.next());
        match previous {
            Some(previous) => previous.set_next(next),
            None => self.0.set(next),
        }
        if let Some(next) = next {
            next.set_previous(previous);
        }
    }

    /// Puts a block that was moved by the system where it was.
    pub(super) fn mend(&self, block: BlockRef<H>) {
        match block.previous() {
            Some(previous) => previous.set_next(Some(block)),
            None => self.0.set(Some(block)),
        }
        if let Some(next) = block.next() {
            next.set_previous(Some(block));
        }
    }

    pub(super) fn pop(&self) -> Option<BlockRef<H>> {
        let first = self.0.get()?;
        self.remove(first);
        Some(first)
    }
}
