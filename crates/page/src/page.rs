//! A block's bytes, seen as a page.
//!
//! ```text
//! byte 0        24           lower           upper         special      block size
//!      | header | lp 1 | … | hole, any bytes | … | item 1 | special space |
//!                 `- line pointers grow up       `- items grow down
//! ```
//! A heap page has no special space: `special` is the block size. An index page keeps its links there.
//!
//! Source: `bufpage.h`, `bufpage.c` (REL_18).
use core::fmt;

use pgtoast_base::{BlockSize, MAXALIGN, OffsetNumber};
use zerocopy::FromBytes;

use crate::{LinePointer, LineState, PageError, PageFlags, PageHeader};

/// A block's bytes, seen as a page. Cheap to copy.
///
/// Nothing here trusts the bytes: on any page at all each method gives an answer or an error, so
/// what is left of a broken page can be read too. [`parse`](Self::parse) holds the page to what a
/// server asks of it when it reads it, [`check`](Self::check) to what a server that is well writes.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    bytes: &'a [u8],
    header: &'a PageHeader,
    block_size: BlockSize,
}

impl<'a> Page<'a> {
    /// Any bytes as long as a block.
    ///
    /// # Errors
    /// [`PageError::Length`] for a longer or shorter slice.
    #[inline]
    pub fn new(bytes: &'a [u8], block_size: BlockSize) -> Result<Self, PageError> {
        match PageHeader::ref_from_prefix(bytes) {
            Ok((header, _)) if bytes.len() == block_size.bytes() => {
                Ok(Self { bytes, header, block_size })
            }
            _ => Err(PageError::Length { expected: block_size.bytes(), found: bytes.len() }),
        }
    }

    /// Bytes that a server without checksums would accept as a page: [`new`](Self::new), then
    /// [`verify`](Self::verify). With checksums it also asks
    /// [`verify_checksum`](Self::verify_checksum).
    ///
    /// # Errors
    /// Those of the two.
    pub fn parse(bytes: &'a [u8], block_size: BlockSize) -> Result<Self, PageError> {
        let page = Self::new(bytes, block_size)?;
        page.verify()?;
        Ok(page)
    }

    /// What a server asks of a page when it reads it, checksum apart: known flags,
    /// `lower <= upper <= special <= block size` and an aligned special space; or, when `upper` is
    /// 0, nothing but zeros. It does not look at the log position, at the size and version word, at
    /// the line pointers, nor whether `lower` leaves room for the header.
    ///
    /// # Errors
    /// [`PageError::Flags`], [`PageError::Bounds`], [`PageError::SpecialMisaligned`],
    /// [`PageError::NewNotZero`].
    #[doc(alias = "PageIsVerified")]
    pub fn verify(&self) -> Result<(), PageError> {
        if self.is_new() {
            return match self.first_nonzero() {
                None => Ok(()),
                Some(offset) => Err(PageError::NewNotZero { offset }),
            };
        }
        self.verify_flags()?;
        self.verify_bounds()
    }

    pub(crate) fn verify_flags(&self) -> Result<(), PageError> {
        let flags = self.header.flags();
        if PageFlags::all().contains(flags) {
            Ok(())
        } else {
            Err(PageError::Flags { found: flags.bits() })
        }
    }

    pub(crate) fn verify_bounds(&self) -> Result<(), PageError> {
        let header = self.header;
        let (lower, upper, special) = (header.lower(), header.upper(), header.special());
        let page_bytes = self.block_size.bytes_u16();
        if lower > upper || upper > special || special > page_bytes {
            Err(PageError::Bounds { lower, upper, special, page_bytes })
        } else if !usize::from(special).is_multiple_of(MAXALIGN) {
            Err(PageError::SpecialMisaligned { special })
        } else {
            Ok(())
        }
    }

    /// All of the page, as long as its block size.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &'a PageHeader {
        self.header
    }

    /// The block size that the page was read with; the header's own word may differ.
    #[must_use]
    pub const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Whether the page was never initialised: its `upper` is 0. Relations are extended with such
    /// pages ahead of use, so they are no fault; [`verify`](Self::verify) asks for zeros throughout.
    #[doc(alias = "PageIsNew")]
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.header.upper() == 0
    }

    /// Whether every byte is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.first_nonzero().is_none()
    }

    /// Whether there is no line pointer.
    #[doc(alias = "PageIsEmpty")]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        usize::from(self.header.lower()) <= PageHeader::LEN
    }

    /// The special space: what an index keeps at the end of its pages. Empty in a heap page, and
    /// where the header points past the end.
    #[doc(alias = "PageGetSpecialPointer")]
    #[must_use]
    pub fn special_space(&self) -> &'a [u8] {
        match self.bytes.get(self.header.special().into()..) {
            Some(bytes) if !self.is_new() => bytes,
            _ => &[],
        }
    }

    /// Bytes of the page between the line pointers and the items; 0 when the header has them overlap.
    #[doc(alias = "PageGetExactFreeSpace")]
    #[must_use]
    pub fn free_bytes(&self) -> u16 {
        let upper = self.header.upper().min(self.block_size.bytes_u16());
        upper.saturating_sub(self.header.lower())
    }

    /// The line pointers, item 1 first. Where `lower` points past the end of the page, those that
    /// fit.
    ///
    /// Only pages that hold items have them: the metapage of an index, among others, keeps plain
    /// numbers in the same place.
    #[inline]
    #[doc(alias = "pd_linp")]
    #[must_use]
    pub fn line_pointers(&self) -> &'a [LinePointer] {
        let end = usize::from(self.header.lower()).clamp(PageHeader::LEN, self.bytes.len());
        let count = (end - PageHeader::LEN) / LinePointer::LEN;
        match <[LinePointer]>::ref_from_prefix_with_elems(&self.bytes[PageHeader::LEN..], count) {
            Ok((pointers, _)) => pointers,
            Err(_) => &[], // `count` of them fit, and they need no alignment.
        }
    }

    /// The number of line pointers, which is the highest item number.
    #[doc(alias = "PageGetMaxOffsetNumber")]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 8186 fit a page")]
    pub fn item_count(&self) -> u16 {
        self.line_pointers().len() as u16
    }

    /// The line pointer of an item; `None` when the page has none of that number.
    #[inline]
    #[doc(alias = "PageGetItemId")]
    #[must_use]
    pub fn line_pointer(&self, item: OffsetNumber) -> Option<LinePointer> {
        self.line_pointers().get(item.index()?).copied()
    }

    /// Every item's number and line pointer.
    pub fn items(&self) -> impl ExactSizeIterator<Item = (OffsetNumber, LinePointer)> + use<'a> {
        let mut next = OffsetNumber::INVALID.get();
        self.line_pointers().iter().map(move |pointer| {
            next += 1;
            (OffsetNumber::new(next), *pointer)
        })
    }

    /// What an item number leads to. Asks only that the bytes lie in the page; whether they lie in
    /// its tuple space is [`check`](Self::check)'s question.
    ///
    /// # Errors
    /// [`PageError::ItemMissing`], [`PageError::ItemOutside`].
    #[inline]
    #[doc(alias = "PageGetItem")]
    pub fn item(&self, item: OffsetNumber) -> Result<Item<'a>, PageError> {
        let Some(pointer) = self.line_pointer(item) else {
            return Err(PageError::ItemMissing { item: item.get(), count: self.item_count() });
        };
        match pointer.state() {
            LineState::Unused => Ok(Item::Unused),
            LineState::Normal => Ok(Item::Normal(self.stored(item, pointer)?)),
            LineState::Redirect => Ok(Item::Redirect(pointer.target())),
            LineState::Dead => Ok(Item::Dead(self.stored(item, pointer)?)),
        }
    }

    /// The bytes that a line pointer names.
    #[inline]
    fn stored(&self, item: OffsetNumber, pointer: LinePointer) -> Result<&'a [u8], PageError> {
        let (offset, len) = (pointer.offset(), pointer.len());
        self.bytes[..].get(usize::from(offset)..usize::from(offset) + usize::from(len)).ok_or(
            PageError::ItemOutside {
                item: item.get(),
                offset,
                len,
                start: 0,
                end: self.block_size.bytes_u16(),
            },
        )
    }

    /// Where the first byte is that is not zero.
    fn first_nonzero(&self) -> Option<usize> {
        // Sixty-four bytes at a time, because a relation may end in very many pages of zeros.
        let (blocks, _) = self.bytes.as_chunks::<64>();
        let block =
            blocks.iter().position(|block| block.iter().fold(0, |all, byte| all | byte) != 0)?;
        let start = block * 64;
        self.bytes[start..].iter().position(|byte| *byte != 0).map(|at| start + at)
    }
}

impl fmt::Debug for Page<'_> {
    /// The header alone: nobody reads thousands of bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("header", self.header).finish_non_exhaustive()
    }
}

/// What an item number leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Nothing: the line pointer is free for use.
    Unused,
    /// The item's bytes, as long as its line pointer says.
    Normal(&'a [u8]),
    /// Another item of the page, where the row's next version is (heap only).
    Redirect(OffsetNumber),
    /// An item that is gone, with the bytes that are kept of it: none in a heap, the whole entry in
    /// an index.
    Dead(&'a [u8]),
}
