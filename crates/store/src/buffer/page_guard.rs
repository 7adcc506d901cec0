use core::fmt;
use core::ops::{Deref, DerefMut};

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::{PageError, PageMut};

use super::frame::Frame;
use super::memory::PageBytes;
use crate::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A page to read, under its shared latch until dropped.
///
/// A thread that holds one must not ask for the same page again: if another waits to write it, both
/// would wait for ever.
pub struct PageRead<'p> {
    pub(super) page: RwLockReadGuard<'p, PageBytes>,
    pub(super) block: BlockNumber,
}

impl PageRead<'_> {
    /// The number of the block.
    #[inline]
    #[must_use]
    pub fn block(&self) -> BlockNumber {
        self.block
    }
}

impl Deref for PageRead<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.page
    }
}

impl fmt::Debug for PageRead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageRead").field("block", &self.block).finish_non_exhaustive()
    }
}

/// A page to change, under its exclusive latch until dropped.
///
/// The first mutable look at it makes it a page that has to be written. A thread that holds one must
/// not ask for the same page again: it would wait for itself.
pub struct PageWrite<'p> {
    pub(super) page: RwLockWriteGuard<'p, PageBytes>,
    pub(super) frame: &'p Frame,
    pub(super) block: BlockNumber,
}

impl PageWrite<'_> {
    /// The number of the block.
    #[inline]
    #[must_use]
    pub fn block(&self) -> BlockNumber {
        self.block
    }

    /// The page, to be changed item by item. It is looked through the first time only.
    #[inline]
    pub(crate) fn open(&mut self, block_size: BlockSize) -> Result<PageMut<'_>, PageError> {
        let Self { page, frame, .. } = self;
        if !frame.is_dirty() {
            frame.set_dirty(true);
        }
        if frame.is_sound() {
            return PageMut::reopen(page, block_size);
        }
        let opened = PageMut::open(page, block_size)?;
        frame.set_sound(true);
        Ok(opened)
    }
}

impl Deref for PageWrite<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.page
    }
}

impl DerefMut for PageWrite<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        if !self.frame.is_dirty() {
            self.frame.set_dirty(true);
        }
        self.frame.set_sound(false);
        &mut self.page
    }
}

impl fmt::Debug for PageWrite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageWrite").field("block", &self.block).finish_non_exhaustive()
    }
}
