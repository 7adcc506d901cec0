//! Where the pages of an index are, and how they are latched.
use core::ops::{Deref, DerefMut};

use pgtoast_base::{BlockNumber, BlockSize};

use crate::log::Action;

/// The pages of an index.
///
/// A guard is a latch: as long as it lives, nobody else changes the page, and with a [`Write`] nobody
/// else reads it. The tree holds one latch while it searches, and a few in one order while it changes
/// something: from the leaves to the root, and on a level from left to right. So there are no
/// deadlocks, as long as whoever implements this takes no page latch of the index by himself.
///
/// [`Write`]: Self::Write
pub trait IndexPages {
    /// Why a page could not be had.
    type Error;

    /// A page that others may read too.
    type Read<'a>: Deref<Target = [u8]>
    where
        Self: 'a;

    /// A page of one's own.
    type Write<'a>: DerefMut<Target = [u8]>
    where
        Self: 'a;

    /// How long every page is.
    fn block_size(&self) -> BlockSize;

    /// How many blocks there are.
    ///
    /// # Errors
    /// The storage's own.
    fn block_count(&self) -> Result<u32, Self::Error>;

    /// Latches a page to read it; `None` if there is no such block.
    ///
    /// # Errors
    /// The storage's own.
    fn read(&self, block: BlockNumber) -> Result<Option<Self::Read<'_>>, Self::Error>;

    /// Latches a page to change it; `None` if there is no such block.
    ///
    /// # Errors
    /// The storage's own.
    fn write(&self, block: BlockNumber) -> Result<Option<Self::Write<'_>>, Self::Error>;

    /// The same, but `None` also when that would have to wait.
    ///
    /// # Errors
    /// The storage's own.
    fn try_write(&self, block: BlockNumber) -> Result<Option<Self::Write<'_>>, Self::Error>;

    /// Adds a page of zeros at the end, and latches it.
    ///
    /// # Errors
    /// The storage's own.
    fn extend(&self) -> Result<(BlockNumber, Self::Write<'_>), Self::Error>;

    /// A block that may be free for use: a hint, the tree looks at the page. The same block is not
    /// given twice.
    fn take_free(&self) -> Option<BlockNumber>;

    /// Notes that a block may be free for use. Forgetting it costs space alone.
    fn put_free(&self, block: BlockNumber);

    /// The id that the next transaction gets, 64 bits wide: written into a page that leaves the tree,
    /// because searches that began before may still be led to it.
    fn next_xid(&self) -> u64;

    /// Whether every search and scan that began before that id was given out has ended.
    fn is_past(&self, xid: u64) -> bool;

    /// Is told of each change that a log would have to repeat as one, after it was made and before
    /// the latches are let go.
    fn log<'a>(&'a self, action: &Action, pages: &mut [(BlockNumber, &mut Self::Write<'a>)]) {
        let _ = (action, pages);
    }
}
