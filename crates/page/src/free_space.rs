//! How much of a page is free, in the ways that servers ask.
//!
//! Source: `bufpage.c`, `PageGetFreeSpace`, `PageGetFreeSpaceForMultipleTuples` and
//! `PageGetHeapFreeSpace` (REL_18).
use pgtoast_base::{BlockSize, OffsetNumber, maxalign};

use crate::{LinePointer, LineState, Page, PageFlags, PageHeader, TupleHeader};

impl Page<'_> {
    /// The most line pointers that a heap page of that size ever has: 291 in 8 KiB.
    #[doc(alias = "MaxHeapTuplesPerPage")]
    #[must_use]
    pub const fn max_heap_items(block_size: BlockSize) -> u16 {
        let least = maxalign(TupleHeader::LEN) + LinePointer::LEN;
        #[expect(clippy::cast_possible_truncation, reason = "at most 1169")]
        let count = ((block_size.bytes() - PageHeader::LEN) / least) as u16;
        count
    }

    /// The longest tuple that a heap page of that size takes, in bytes: 8160 in 8 KiB.
    #[doc(alias = "MaxHeapTupleSize")]
    #[must_use]
    pub const fn max_tuple_len(block_size: BlockSize) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "at most 32768")]
        let header = maxalign(PageHeader::LEN + LinePointer::LEN) as u16;
        block_size.bytes_u16() - header
    }

    /// Bytes for one more item, once its line pointer has taken its own; 0 when there is not even
    /// room for that.
    #[doc(alias = "PageGetFreeSpace")]
    #[must_use]
    pub fn free_bytes_for_item(&self) -> u16 {
        self.free_bytes_for_items(1)
    }

    /// Bytes for so many more items together, once their line pointers have taken their own.
    #[doc(alias = "PageGetFreeSpaceForMultipleTuples")]
    #[must_use]
    pub fn free_bytes_for_items(&self, count: u16) -> u16 {
        let pointers = usize::from(count) * LinePointer::LEN;
        u16::try_from(pointers).map_or(0, |bytes| self.free_bytes().saturating_sub(bytes))
    }

    /// Bytes for one more tuple of a heap: [`free_bytes_for_item`](Self::free_bytes_for_item), but 0
    /// once there are [`max_heap_items`](Self::max_heap_items) line pointers and none is for reuse.
    #[doc(alias = "PageGetHeapFreeSpace")]
    #[must_use]
    pub fn heap_free_bytes(&self) -> u16 {
        let full = self.item_count() >= Self::max_heap_items(self.block_size());
        if full && self.reusable_item().is_none() { 0 } else { self.free_bytes_for_item() }
    }

    /// The line pointer that the next tuple reuses: the first unused one, if the header's hint says
    /// that there may be any.
    #[must_use]
    pub fn reusable_item(&self) -> Option<OffsetNumber> {
        if !self.header().flags().contains(PageFlags::HAS_FREE_LINES) {
            return None;
        }
        let is_unused = |pointer: LinePointer| pointer.state() == LineState::Unused;
        self.items().find(|(_, pointer)| is_unused(*pointer)).map(|(item, _)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_8_kib_are_those_everyone_knows() {
        assert_eq!(Page::max_heap_items(BlockSize::KIB_8), 291);
        assert_eq!(Page::max_tuple_len(BlockSize::KIB_8), 8160);
        assert_eq!(Page::max_heap_items(BlockSize::KIB_1), 35);
        assert_eq!(Page::max_tuple_len(BlockSize::KIB_32), 32_736);
    }
}
