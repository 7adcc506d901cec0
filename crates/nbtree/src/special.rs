//! The 16 bytes that end every page of the index.
//!
//! ```text
//! byte 0      4      8       12      14         16
//!      | prev | next | level | flags | cycle_id |
//! ```
//! `level` is 0 in leaves and counts up to the root.
//!
//! Source: `nbtree.h`, `BTPageOpaqueData` (REL_18).
use bitflags::bitflags;
use pgtoast_base::BlockNumber;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The end of a page, as drawn at the top of this file. Any 16 bytes are one.
#[doc(alias = "BTPageOpaqueData")]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Special {
    pub(crate) prev: U32,
    pub(crate) next: U32,
    pub(crate) level: U32,
    pub(crate) flags: U16,
    pub(crate) cycle_id: U16,
}
const _: () = assert!(size_of::<Special>() == 16 && align_of::<Special>() == 1);

impl Special {
    /// In bytes.
    pub const LEN: usize = size_of::<Self>();

    pub(crate) fn new(
        prev: Option<BlockNumber>,
        next: Option<BlockNumber>,
        level: u32,
        flags: NodeFlags,
    ) -> Self {
        Self {
            prev: U32::new(link(prev)),
            next: U32::new(link(next)),
            level: U32::new(level),
            flags: U16::new(flags.bits()),
            cycle_id: U16::new(0),
        }
    }

    /// The neighbour to the left on the same level.
    #[doc(alias = "btpo_prev")]
    #[must_use]
    pub fn prev(&self) -> Option<BlockNumber> {
        block(self.prev)
    }

    /// The neighbour to the right on the same level.
    #[doc(alias = "btpo_next")]
    #[must_use]
    pub fn next(&self) -> Option<BlockNumber> {
        block(self.next)
    }

    /// How far above the leaves.
    #[doc(alias = "btpo_level")]
    #[must_use]
    pub fn level(&self) -> u32 {
        self.level.get()
    }

    /// What the page is; unknown bits retained.
    #[doc(alias = "btpo_flags")]
    #[must_use]
    pub fn flags(&self) -> NodeFlags {
        NodeFlags::from_bits_retain(self.flags.get())
    }

    /// Which vacuum saw the page split; 0 after it.
    #[doc(alias = "btpo_cycleid")]
    #[must_use]
    pub fn cycle_id(&self) -> u16 {
        self.cycle_id.get()
    }

    pub(crate) fn set_flags(&mut self, flags: NodeFlags) {
        self.flags.set(flags.bits());
    }

    pub(crate) fn set_prev(&mut self, prev: Option<BlockNumber>) {
        self.prev.set(link(prev));
    }

    pub(crate) fn set_next(&mut self, next: Option<BlockNumber>) {
        self.next.set(link(next));
    }
}

/// Block 0 is the metapage, so no page has it for a neighbour.
fn link(block: Option<BlockNumber>) -> u32 {
    block.map_or(0, BlockNumber::get)
}

fn block(link: U32) -> Option<BlockNumber> {
    (link.get() != 0).then(|| BlockNumber::new(link.get()))
}

bitflags! {
    /// What a page of the index is.
    #[doc(alias = "btpo_flags")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct NodeFlags: u16 {
        /// Holds the entries themselves.
        #[doc(alias = "BTP_LEAF")]
        const LEAF = 0x0001;
        /// Nothing is above it.
        #[doc(alias = "BTP_ROOT")]
        const ROOT = 0x0002;
        /// Out of the tree; its links still lead on.
        #[doc(alias = "BTP_DELETED")]
        const DELETED = 0x0004;
        /// The metapage.
        #[doc(alias = "BTP_META")]
        const META = 0x0008;
        /// An empty leaf that has no downlink any more.
        #[doc(alias = "BTP_HALF_DEAD")]
        const HALF_DEAD = 0x0010;
        /// The last of the pages that came of splits during one vacuum.
        #[doc(alias = "BTP_SPLIT_END")]
        const SPLIT_END = 0x0020;
        /// Some entries may be marked dead; a hint.
        #[doc(alias = "BTP_HAS_GARBAGE")]
        const HAS_GARBAGE = 0x0040;
        /// The page to the right has no downlink yet.
        #[doc(alias = "BTP_INCOMPLETE_SPLIT")]
        const INCOMPLETE_SPLIT = 0x0080;
        /// A deleted page with the id of the transaction after which it may be used anew.
        #[doc(alias = "BTP_HAS_FULLXID")]
        const HAS_FULLXID = 0x0100;
    }
}

impl NodeFlags {
    /// Whether searches pass the page over.
    #[doc(alias = "P_IGNORE")]
    #[must_use]
    pub fn is_ignored(self) -> bool {
        self.intersects(Self::DELETED.union(Self::HALF_DEAD))
    }
}
