//! The metapage, block 0: where the tree starts.
//!
//! ```text
//! byte 24      28        32     36      40         44          48         56          64
//!      | magic | version | root | level | fastroot | fastlevel | cleanup  | cleanup   | equal | …  72
//!                                                              | deletions| tuples f64| image
//! ```
//! The contents end at 72, which is the header's `lower`. `fastroot` is the lowest page that is alone
//! on its level: searches start there.
//!
//! Source: `nbtree.h`, `BTMetaPageData`; `nbtpage.c`, `_bt_initmetapage` (REL_18).
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::{PageHeader, PageMut};
use zerocopy::little_endian::{F64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::NbtreeError;
use crate::special::{NodeFlags, Special};

/// The contents of the metapage, as drawn at the top of this file.
#[doc(alias = "BTMetaPageData")]
#[derive(
    Clone, Copy, Debug, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Meta {
    magic: U32,
    version: U32,
    root: U32,
    level: U32,
    fast_root: U32,
    fast_level: U32,
    last_cleanup_deleted_pages: U32,
    pad: U32,
    last_cleanup_heap_tuples: F64,
    all_equal_image: u8,
    pad_end: [u8; 7],
}
const _: () = assert!(size_of::<Meta>() == 48 && align_of::<Meta>() == 1);

impl Meta {
    /// The block it is in.
    #[doc(alias = "BTREE_METAPAGE")]
    pub const BLOCK: BlockNumber = BlockNumber::new(0);
    /// What every index of this kind starts with.
    #[doc(alias = "BTREE_MAGIC")]
    pub const MAGIC: u32 = 0x0005_3162;
    /// What every release since 12 writes: tids are part of the order.
    #[doc(alias = "BTREE_VERSION")]
    pub const VERSION: u32 = 4;

    /// An index with that root, or with none.
    #[must_use]
    pub fn new(root: Option<BlockNumber>, level: u32) -> Self {
        let root = U32::new(root.map_or(0, BlockNumber::get));
        let level = U32::new(level);
        Self {
            magic: U32::new(Self::MAGIC),
            version: U32::new(Self::VERSION),
            root,
            level,
            fast_root: root,
            fast_level: level,
            last_cleanup_deleted_pages: U32::new(0),
            pad: U32::new(0),
            last_cleanup_heap_tuples: F64::new(-1.0),
            all_equal_image: 1,
            pad_end: [0; 7],
        }
    }

    /// The same index, as one in which equal keys may be other bytes. Release 14 says so of every index of
    /// a TOAST relation, and never merges entries there; later releases say the opposite.
    #[must_use]
    pub const fn without_equal_images(self) -> Self {
        Self { all_equal_image: 0, ..self }
    }

    /// Out of block 0.
    ///
    /// # Errors
    /// [`NbtreeError::Meta`] unless it is the metapage of an index of version 4.
    pub fn parse(bytes: &[u8]) -> Result<Self, NbtreeError> {
        Self::view(bytes).copied()
    }

    /// The same in its place.
    #[inline]
    pub(crate) fn view(bytes: &[u8]) -> Result<&Self, NbtreeError> {
        let contents = bytes.get(PageHeader::LEN..).unwrap_or_default();
        let (Ok((meta, _)), Ok((_, special))) =
            (Self::ref_from_prefix(contents), Special::ref_from_suffix(bytes))
        else {
            return Err(NbtreeError::Meta { magic: 0, version: 0 });
        };
        let is_meta = special.flags().contains(NodeFlags::META);
        if is_meta && meta.magic == Self::MAGIC && meta.version == Self::VERSION {
            Ok(meta)
        } else {
            Err(NbtreeError::Meta { magic: meta.magic.get(), version: meta.version.get() })
        }
    }

    /// Makes the metapage of any bytes as long as a block.
    ///
    /// # Panics
    /// When they are not.
    pub fn init(self, bytes: &mut [u8], block_size: BlockSize) {
        let page = PageMut::init(bytes, block_size, Special::LEN).expect("as long as a block");
        let bytes = page.into_bytes();
        let special = Special::new(None, None, 0, NodeFlags::META);
        if let Some(end) = bytes.last_chunk_mut::<{ Special::LEN }>() {
            *end = zerocopy::transmute!(special);
        }
        self.store(bytes);
        let end = PageHeader::LEN + size_of::<Self>();
        #[expect(clippy::cast_possible_truncation, reason = "72")]
        bytes[12..14].copy_from_slice(&(end as u16).to_le_bytes());
    }

    /// Writes the contents into the metapage.
    pub(crate) fn store(self, bytes: &mut [u8]) {
        bytes[PageHeader::LEN..][..size_of::<Self>()].copy_from_slice(self.as_bytes());
    }

    /// The root and its level; `None` while nothing was ever inserted.
    #[doc(alias = "btm_root")]
    #[must_use]
    pub fn root(&self) -> Option<(BlockNumber, u32)> {
        (self.root != 0).then(|| (BlockNumber::new(self.root.get()), self.level.get()))
    }

    /// Where searches start: the lowest page that is alone on its level.
    #[doc(alias = "btm_fastroot")]
    #[must_use]
    pub fn fast_root(&self) -> Option<(BlockNumber, u32)> {
        let fast = (BlockNumber::new(self.fast_root.get()), self.fast_level.get());
        (self.fast_root != 0).then_some(fast)
    }

    /// Pages that were deleted and not yet to be used anew when the last vacuum ended.
    #[doc(alias = "btm_last_cleanup_num_delpages")]
    #[must_use]
    pub fn last_cleanup_deleted_pages(&self) -> u32 {
        self.last_cleanup_deleted_pages.get()
    }

    /// Whether equal keys are always equal bytes, so that a server may merge them.
    #[doc(alias = "btm_allequalimage")]
    #[must_use]
    pub fn is_all_equal_image(&self) -> bool {
        self.all_equal_image != 0
    }

    pub(crate) fn set_root(&mut self, root: BlockNumber, level: u32) {
        self.root.set(root.get());
        self.level.set(level);
        self.set_fast_root(root, level);
    }

    pub(crate) fn set_fast_root(&mut self, root: BlockNumber, level: u32) {
        self.fast_root.set(root.get());
        self.fast_level.set(level);
    }
}
