//! The 24 bytes that open every page.
//!
//! ```text
//! byte 0        8          10      12      14      16        18             20          24
//!      | lsn    | checksum | flags | lower | upper | special | size_version | prune_xid |
//!      `- high half first                                    `- block size | layout version 4
//! ```
//! Source: `bufpage.h`, `PageHeaderData` (REL_18).
use bitflags::bitflags;
use pgtoast_base::{BlockSize, Lsn, LsnData, Xid};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A page's header, as drawn at the top of this file. Any 24 bytes are one; whether they make sense
/// is for [`Page::verify`](crate::Page::verify) and [`Page::check`](crate::Page::check) to say.
#[doc(alias = "PageHeaderData")]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PageHeader {
    pub(crate) lsn: LsnData,
    pub(crate) checksum: U16,
    pub(crate) flags: U16,
    pub(crate) lower: U16,
    pub(crate) upper: U16,
    pub(crate) special: U16,
    pub(crate) size_version: U16,
    pub(crate) prune_xid: U32,
}
const _: () = assert!(size_of::<PageHeader>() == 24 && align_of::<PageHeader>() == 1);

impl PageHeader {
    /// In bytes; the line pointers follow at once.
    #[doc(alias = "SizeOfPageHeaderData")]
    pub const LEN: usize = size_of::<Self>();
    /// The bytes of the page that hold its checksum.
    pub const CHECKSUM: core::ops::Range<usize> = 8..10;
    /// The layout every release since 8.3 writes.
    #[doc(alias = "PG_PAGE_LAYOUT_VERSION")]
    pub const LAYOUT_VERSION: u8 = 4;

    /// The end of the log record that last changed the page; 0 in relations that are not logged.
    #[doc(alias = "pd_lsn")]
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.lsn.get()
    }

    /// The stored checksum; 0 where checksums are off, and never 0 where they are on.
    #[doc(alias = "pd_checksum")]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// The flags, unknown bits retained.
    #[doc(alias = "pd_flags")]
    #[must_use]
    pub fn flags(&self) -> PageFlags {
        PageFlags::from_bits_retain(self.flags.get())
    }

    /// Where the line pointers end, in bytes from the start of the page.
    #[inline]
    #[doc(alias = "pd_lower")]
    #[must_use]
    pub fn lower(&self) -> u16 {
        self.lower.get()
    }

    /// Where the tuple space starts, in bytes from the start of the page; 0 in a new page.
    #[inline]
    #[doc(alias = "pd_upper")]
    #[must_use]
    pub fn upper(&self) -> u16 {
        self.upper.get()
    }

    /// Where the special space starts, in bytes from the start of the page; the block size where
    /// there is none.
    #[inline]
    #[doc(alias = "pd_special")]
    #[must_use]
    pub fn special(&self) -> u16 {
        self.special.get()
    }

    /// Block size and layout version in one word: `0x2004` for 8 KiB.
    #[doc(alias = "pd_pagesize_version")]
    #[must_use]
    pub fn size_version(&self) -> u16 {
        self.size_version.get()
    }

    /// The [`size_version`](Self::size_version) word that pages of this block size carry.
    #[must_use]
    pub const fn size_version_of(block_size: BlockSize) -> u16 {
        block_size.bytes_u16() | Self::LAYOUT_VERSION as u16
    }

    /// The block size that the page says it has, in bytes; it need not be one that exists.
    #[doc(alias = "PageGetPageSize")]
    #[must_use]
    pub fn page_bytes(&self) -> u16 {
        self.size_version.get() & 0xff00
    }

    /// The layout version that the page says it has.
    #[doc(alias = "PageGetPageLayoutVersion")]
    #[must_use]
    pub fn layout_version(&self) -> u8 {
        self.size_version.to_bytes()[0]
    }

    /// The oldest transaction whose end may make a tuple of the page removable; a hint, and
    /// [`Xid::INVALID`] for "none known". Unused in index pages.
    #[doc(alias = "pd_prune_xid")]
    #[must_use]
    pub fn prune_xid(&self) -> Xid {
        Xid::new(self.prune_xid.get())
    }
}

bitflags! {
    /// What a page header says about its page.
    #[doc(alias = "pd_flags")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct PageFlags: u16 {
        /// There may be unused line pointers; a hint.
        #[doc(alias = "PD_HAS_FREE_LINES")]
        const HAS_FREE_LINES = 0x0001;
        /// An update found no room here for the new version; a hint to prune.
        #[doc(alias = "PD_PAGE_FULL")]
        const PAGE_FULL = 0x0002;
        /// Every tuple is visible to everyone.
        #[doc(alias = "PD_ALL_VISIBLE")]
        const ALL_VISIBLE = 0x0004;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_read_from_its_place() {
        let bytes: [u8; 24] = core::array::from_fn(|at| u8::try_from(at).unwrap());
        let header = PageHeader::read_from_bytes(&bytes).unwrap();
        assert_eq!(header.lsn(), Lsn::new(0x0302_0100_0706_0504));
        assert_eq!((header.checksum(), header.flags().bits()), (0x0908, 0x0b0a));
        assert_eq!((header.lower(), header.upper(), header.special()), (0x0d0c, 0x0f0e, 0x1110));
        assert_eq!((header.page_bytes(), header.layout_version()), (0x1300, 0x12));
        assert_eq!(header.prune_xid(), Xid::new(0x1716_1514));
    }

    #[test]
    fn the_size_word_of_each_block_size_fits_beside_version_4() {
        let words = BlockSize::ALL.map(PageHeader::size_version_of);
        assert_eq!(words, [0x0404, 0x0804, 0x1004, 0x2004, 0x4004, 0x8004]);
    }
}
