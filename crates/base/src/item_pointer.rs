//! A tuple id: block and item.
//!
//! ```text
//! byte 0          2          4          6
//!      | block hi | block lo | offset   |     u16 each, as the host that wrote them stores a u16
//! ```
//! Source: `itemptr.h`, `ItemPointerData`; `block.h`, `BlockIdData` (REL_18).
use core::fmt;

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{BlockNumber, OffsetNumber};

/// Where a tuple is (a "tid"). Ordered by block, then item.
#[doc(alias = "tid")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemPointer {
    /// The block of the fork.
    pub block: BlockNumber,
    /// The line pointer in the block.
    pub item: OffsetNumber,
}

impl ItemPointer {
    /// "No tuple": no block, no item.
    pub const INVALID: Self = Self::new(BlockNumber::INVALID, OffsetNumber::INVALID);

    /// The tuple at `item` of `block`.
    #[inline]
    #[must_use]
    pub const fn new(block: BlockNumber, item: OffsetNumber) -> Self {
        Self { block, item }
    }

    /// From the six bytes in a page.
    #[inline]
    #[must_use]
    pub fn from_bytes(bytes: [u8; 6]) -> Self {
        let data: ItemPointerData = zerocopy::transmute!(bytes);
        data.get()
    }

    /// As the six bytes in a page.
    #[inline]
    #[must_use]
    pub fn to_bytes(self) -> [u8; 6] {
        zerocopy::transmute!(ItemPointerData::new(self))
    }
}

impl fmt::Display for ItemPointer {
    /// As SQL shows a `ctid`: `(block,item)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.block, self.item)
    }
}

/// The six bytes of an [`ItemPointer`] on disk, as drawn at the top of this file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ItemPointerData {
    block_hi: U16,
    block_lo: U16,
    item: U16,
}
const _: () = assert!(size_of::<ItemPointerData>() == 6 && align_of::<ItemPointerData>() == 1);

impl ItemPointerData {
    /// The bytes of a tuple id.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a u32")]
    pub fn new(tid: ItemPointer) -> Self {
        let block = tid.block.get();
        Self {
            block_hi: U16::new((block >> 16) as u16),
            block_lo: U16::new(block as u16),
            item: U16::new(tid.item.get()),
        }
    }

    /// The tuple id of the bytes; any six bytes are one.
    #[inline]
    #[must_use]
    pub fn get(self) -> ItemPointer {
        let block = u32::from(self.block_hi.get()) << 16 | u32::from(self.block_lo.get());
        ItemPointer::new(BlockNumber::new(block), OffsetNumber::new(self.item.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_half_of_the_block_comes_first() {
        let tid = ItemPointer::new(BlockNumber::new(0x0001_0002), OffsetNumber::new(0x0304));
        assert_eq!(tid.to_bytes(), [0x01, 0x00, 0x02, 0x00, 0x04, 0x03]);
        assert_eq!(ItemPointer::from_bytes(tid.to_bytes()), tid);
    }

    #[test]
    fn order_is_by_block_before_item() {
        let tid = |block, item| ItemPointer::new(BlockNumber::new(block), OffsetNumber::new(item));
        assert!(tid(1, 9) < tid(2, 1) && tid(2, 1) < tid(2, 2) && tid(70_000, 1) > tid(1, 1));
    }
}
