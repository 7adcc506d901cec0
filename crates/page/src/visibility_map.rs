//! Two bits for each block of a heap: whether all its tuples are visible to everyone, and frozen.
//!
//! ```text
//! map page    0        24                             block size
//!             | header | 4 heap blocks | 4 … |        no line pointers, no special space
//! byte        bit 0      2      4      6      8
//!             | block n | n + 1 | n + 2 | n + 3 |     each: bit 0 all visible, bit 1 all frozen
//! ```
//! So an 8 KiB map page speaks for 32672 heap blocks. Both bits are hints in one direction: clear
//! means nothing, set is a promise.
//!
//! Source: `visibilitymap.c`, `visibilitymapdefs.h` (REL_18).
use bitflags::bitflags;
use pgtoast_base::{BlockNumber, BlockSize, maxalign};

use crate::{Page, PageHeader};

bitflags! {
    /// What the visibility map promises of a heap block.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct VisibilityBits: u8 {
        /// Every tuple is visible to everyone.
        #[doc(alias = "VISIBILITYMAP_ALL_VISIBLE")]
        const ALL_VISIBLE = 0b01;
        /// Every tuple is frozen; never without [`ALL_VISIBLE`](Self::ALL_VISIBLE).
        #[doc(alias = "VISIBILITYMAP_ALL_FROZEN")]
        const ALL_FROZEN = 0b10;
    }
}

/// Where the bits of a heap block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisibilityAddress {
    /// The block of the map's own fork.
    pub map_block: BlockNumber,
    /// The byte, from the start of that map page.
    pub offset: usize,
    /// How far to shift the byte to the right: 0, 2, 4 or 6.
    pub shift: u32,
}

const _: () = assert!(VisibilityAddress::START as usize == maxalign(PageHeader::LEN));

impl VisibilityAddress {
    /// Bits a heap block has.
    const BITS_PER_BLOCK: u32 = 2;
    /// Heap blocks a byte speaks for.
    const BLOCKS_PER_BYTE: u32 = u8::BITS / Self::BITS_PER_BLOCK;
    /// Where the bits start in a map page.
    const START: u32 = 24;

    /// How many heap blocks a map page speaks for.
    #[doc(alias = "HEAPBLOCKS_PER_PAGE")]
    #[must_use]
    pub const fn blocks_per_page(block_size: BlockSize) -> u32 {
        (block_size.bytes_u16() as u32 - Self::START) * Self::BLOCKS_PER_BYTE
    }

    /// Where the bits of heap block `heap_block` are.
    #[must_use]
    pub const fn of(heap_block: BlockNumber, block_size: BlockSize) -> Self {
        let per_page = Self::blocks_per_page(block_size);
        let slot = heap_block.get() % per_page;
        Self {
            map_block: BlockNumber::new(heap_block.get() / per_page),
            offset: (Self::START + slot / Self::BLOCKS_PER_BYTE) as usize,
            shift: slot % Self::BLOCKS_PER_BYTE * Self::BITS_PER_BLOCK,
        }
    }
}

impl<'a> Page<'a> {
    /// What this page of a visibility map, which must be the right one, promises of a heap block.
    /// A new page promises nothing.
    #[doc(alias = "visibilitymap_get_status")]
    #[must_use]
    pub fn visibility(&self, heap_block: BlockNumber) -> VisibilityBits {
        let address = VisibilityAddress::of(heap_block, self.block_size());
        VisibilityBits::from_bits_truncate(self.bytes()[address.offset] >> address.shift)
    }

    /// What this page of a visibility map promises, for each heap block that it speaks for, in order.
    pub fn visibility_bits(&self) -> impl Iterator<Item = VisibilityBits> + use<'a> {
        let bytes = &self.bytes()[VisibilityAddress::START as usize..];
        bytes.iter().flat_map(|byte| {
            [0, 2, 4, 6].map(|shift| VisibilityBits::from_bits_truncate(byte >> shift))
        })
    }
}
