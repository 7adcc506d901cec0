//! A page that may be changed.
//!
//! The page is sound, as [`Page::check`] has it, when it is opened and after every call: a call that
//! would end that, or for which there is no room, is refused and changes nothing. One call refers to
//! items that others made, so the order matters where a server makes several changes at once: an item
//! is redirected elsewhere before the item that it led to goes.
//!
//! Bytes that are given up are not cleared: between the line pointers and the items is whatever was
//! there before, as on a server's own pages.
//!
//! Source: `bufpage.c` (REL_18).
use core::fmt;

use pgtoast_base::{BlockSize, Lsn, LsnData, OffsetNumber, Xid, maxalign};
use zerocopy::{FromBytes, IntoBytes};

use crate::{LinePointer, LineState, Page, PageError, PageFlags, PageHeader};

mod compact;
mod heap;
mod index;

pub use compact::TrailingPointers;

/// A page that may be changed; sound at all times.
pub struct PageMut<'a> {
    bytes: &'a mut [u8],
    block_size: BlockSize,
}

impl<'a> PageMut<'a> {
    /// Makes an empty page of any bytes: zeros but for the header, with a special space of at least
    /// `special_len` bytes, 0 in a heap.
    ///
    /// # Errors
    /// [`PageError::Length`], [`PageError::SpecialLength`].
    #[doc(alias = "PageInit")]
    pub fn init(
        bytes: &'a mut [u8],
        block_size: BlockSize,
        special_len: usize,
    ) -> Result<Self, PageError> {
        if bytes.len() != block_size.bytes() {
            return Err(PageError::Length { expected: block_size.bytes(), found: bytes.len() });
        }
        let limit = block_size.bytes() - PageHeader::LEN;
        if special_len > limit {
            return Err(PageError::SpecialLength { len: special_len, limit });
        }
        bytes.fill(0);
        let mut page = Self { bytes, block_size };
        page.set_empty(special_len);
        Ok(page)
    }

    /// Makes an empty page of a new one: the same as [`init`](Self::init), for a page that is zeros as
    /// [`Page::verify`] has it, and so for the price of a header.
    ///
    /// # Errors
    /// Those of `init`; [`PageError::Bounds`] if the page is not new.
    pub fn init_new(
        bytes: &'a mut [u8],
        block_size: BlockSize,
        special_len: usize,
    ) -> Result<Self, PageError> {
        let page = Page::new(bytes, block_size)?;
        if !page.is_new() {
            let header = page.header();
            let (lower, upper, special) = (header.lower(), header.upper(), header.special());
            let page_bytes = block_size.bytes_u16();
            return Err(PageError::Bounds { lower, upper, special, page_bytes });
        }
        let limit = block_size.bytes() - PageHeader::LEN;
        if special_len > limit {
            return Err(PageError::SpecialLength { len: special_len, limit });
        }
        let mut page = Self { bytes, block_size };
        page.set_empty(special_len);
        Ok(page)
    }

    /// Writes the header of an empty page over zeros.
    fn set_empty(&mut self, special_len: usize) {
        let special = self.block_size.bytes_u16() - to_u16(maxalign(special_len));
        let size_version = PageHeader::size_version_of(self.block_size);
        let header = self.header_mut();
        header.lower.set(to_u16(PageHeader::LEN));
        header.upper.set(special);
        header.special.set(special);
        header.size_version.set(size_version);
    }

    /// Opens a page that is sound.
    ///
    /// # Errors
    /// [`PageError::Uninitialised`] for a new page, which is for [`init`](Self::init), and those of
    /// [`Page::new`] and [`Page::check`].
    pub fn open(bytes: &'a mut [u8], block_size: BlockSize) -> Result<Self, PageError> {
        let page = Page::new(bytes, block_size)?;
        page.check()?;
        if page.is_new() {
            return Err(PageError::Uninitialised);
        }
        Ok(Self { bytes, block_size })
    }

    /// Opens a page that was open before, and that nobody has changed since but through a `PageMut`: of
    /// what [`open`](Self::open) asks, only what the header says is asked again.
    ///
    /// # Errors
    /// [`PageError::Uninitialised`], [`PageError::Length`], [`PageError::Bounds`],
    /// [`PageError::SpecialMisaligned`].
    ///
    /// # Panics
    /// Not here, but any other method may if the page is not sound.
    #[inline]
    pub fn reopen(bytes: &'a mut [u8], block_size: BlockSize) -> Result<Self, PageError> {
        let page = Page::new(bytes, block_size)?;
        if page.is_new() {
            return Err(PageError::Uninitialised);
        }
        page.verify_bounds()?;
        Ok(Self { bytes, block_size })
    }

    /// The page, to be read.
    #[must_use]
    pub fn page(&self) -> Page<'_> {
        Page::new(self.bytes, self.block_size).expect("as long as when it was opened")
    }

    /// The bytes of the page, for as long as the buffer they are in.
    #[must_use]
    pub const fn into_bytes(self) -> &'a mut [u8] {
        self.bytes
    }

    /// The special space, where an index keeps what it likes. Empty in a heap.
    #[doc(alias = "PageGetSpecialPointer")]
    #[must_use]
    pub fn special_space_mut(&mut self) -> &mut [u8] {
        let special = usize::from(self.header().special());
        &mut self.bytes[special..]
    }

    /// Where the log record of the last change ends; 0 for pages that no log knows of.
    #[doc(alias = "PageSetLSN")]
    pub fn set_lsn(&mut self, lsn: Lsn) {
        self.header_mut().lsn = LsnData::new(lsn);
    }

    /// The oldest transaction whose end may make a tuple removable.
    #[doc(alias = "PageSetPrunable")]
    pub fn set_prune_xid(&mut self, xid: Xid) {
        self.header_mut().prune_xid.set(xid.get());
    }

    /// Sets or clears some of the header's flags; bits that no release knows are ignored. Of
    /// [`PageFlags::HAS_FREE_LINES`] the other calls take care themselves.
    pub fn set_flags(&mut self, flags: PageFlags, on: bool) {
        let mut all = self.header().flags();
        all.set(PageFlags::from_bits_truncate(flags.bits()), on);
        self.header_mut().flags.set(all.bits());
    }

    #[inline]
    fn header(&self) -> &PageHeader {
        match PageHeader::ref_from_prefix(self.bytes) {
            Ok((header, _)) => header,
            Err(_) => unreachable!("as long as when it was opened"),
        }
    }

    #[inline]
    fn header_mut(&mut self) -> &mut PageHeader {
        match PageHeader::mut_from_prefix(self.bytes) {
            Ok((header, _)) => header,
            Err(_) => unreachable!("as long as when it was opened"),
        }
    }

    fn item_count(&self) -> u16 {
        (self.header().lower() - to_u16(PageHeader::LEN)) / to_u16(LinePointer::LEN)
    }

    /// The line pointer of an item that has to be there.
    fn pointer(&self, item: OffsetNumber) -> Result<LinePointer, PageError> {
        let missing = || PageError::ItemMissing { item: item.get(), count: self.item_count() };
        self.page().line_pointer(item).ok_or_else(missing)
    }

    /// Writes a line pointer whose place is below `lower`.
    #[inline]
    fn put_pointer(&mut self, item: OffsetNumber, pointer: LinePointer) {
        let start = pointer_offset(item);
        self.bytes[start..start + LinePointer::LEN].copy_from_slice(pointer.as_bytes());
    }

    /// Where an item of `len` bytes goes, if there is room for it and for `new_pointers` line
    /// pointers: its offset.
    #[inline]
    fn room(&self, len: usize, new_pointers: usize) -> Result<u16, PageError> {
        let header = self.header();
        let free = header.upper() - header.lower();
        let needed = maxalign(len.min(self.bytes.len())) + new_pointers * LinePointer::LEN;
        if len > self.bytes.len() || needed > usize::from(free) {
            return Err(PageError::Full { needed: needed.max(len), free });
        }
        Ok(header.upper() - to_u16(maxalign(len)))
    }

    /// Writes an item at `offset`, for which there is room, and its line pointer.
    #[inline]
    fn store(&mut self, item: OffsetNumber, offset: u16, bytes: &[u8]) {
        let start = usize::from(offset);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.record(item, offset, bytes.len());
    }

    /// Has a line pointer name the `len` bytes at `offset`, which are an item now.
    #[inline]
    fn record(&mut self, item: OffsetNumber, offset: u16, len: usize) {
        self.put_pointer(item, LinePointer::normal(offset, to_u16(len)));
        let lower = self.header().lower().max(to_u16(pointer_offset(item) + LinePointer::LEN));
        let header = self.header_mut();
        header.lower.set(lower);
        header.upper.set(offset);
    }
}

impl fmt::Debug for PageMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PageMut").field(&self.page()).finish()
    }
}

/// Where the line pointer of an item, numbered from 1, stands in the page.
#[inline]
fn pointer_offset(item: OffsetNumber) -> usize {
    PageHeader::LEN + LinePointer::LEN * (usize::from(item.get()) - 1)
}

/// A length or offset inside a page: 32768 at most.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a page is no longer than 32768 bytes")]
const fn to_u16(bytes: usize) -> u16 {
    debug_assert!(bytes <= BlockSize::KIB_32.bytes());
    bytes as u16
}

/// An error unless the item's state is one of these.
fn expect_state(
    item: OffsetNumber,
    pointer: LinePointer,
    allowed: &[LineState],
) -> Result<(), PageError> {
    let found = pointer.state();
    if allowed.contains(&found) {
        Ok(())
    } else {
        Err(PageError::ItemState { item: item.get(), found })
    }
}
