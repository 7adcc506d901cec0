//! Gives back the room of items that are gone.
//!
//! ```text
//! before  | header | 1 | 2 | 3 | hole   | item 3 | gone | item 1 | gone |
//! after   | header | 1 | 2 | 3 | hole, old bytes      | item 3 | item 1 |
//! ```
//! Items go to the end of the tuple space in the order of their line pointers, item 1 last in the
//! page. So where each one goes is known without looking at where it was.
//!
//! Source: `bufpage.c`, `PageRepairFragmentation` and `PageTruncateLinePointerArray` (REL_18).
use pgtoast_base::{BlockSize, OffsetNumber, maxalign};

use super::{PageMut, to_u16};
use crate::{LinePointer, LineState, PageError, PageFlags, PageHeader};

/// What compaction does with unused line pointers at the end of the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TrailingPointers {
    /// They go, all of them if need be: release 15 and later.
    #[default]
    Drop,
    /// They stay, up to release 14.
    Keep,
}

impl PageMut<'_> {
    /// Moves the items of a heap page together, has the header say whether unused line pointers
    /// remain, and drops or keeps those at the end.
    ///
    /// # Errors
    /// [`PageError::NotHeap`].
    #[doc(alias = "PageRepairFragmentation")]
    pub fn compact(&mut self, trailing: TrailingPointers) -> Result<(), PageError> {
        self.expect_heap()?;
        for item in 1..=self.item_count() {
            // What is left of an unused line pointer's offset goes too.
            let item = OffsetNumber::new(item);
            if self.pointer(item)?.state() == LineState::Unused {
                self.put_pointer(item, LinePointer::UNUSED);
            }
        }
        self.move_together();
        let kept = match trailing {
            TrailingPointers::Drop => self.last_used(),
            TrailingPointers::Keep => self.item_count(),
        };
        self.cut_line_pointers(kept);
        Ok(())
    }

    /// Drops unused line pointers from the end of the array, but never item 1: a page that had items
    /// does not become one that never had. For use once index entries are gone, when dead items were
    /// made unused and no tuple is to be moved.
    ///
    /// # Errors
    /// [`PageError::NotHeap`].
    #[doc(alias = "PageTruncateLinePointerArray")]
    pub fn truncate_line_pointers(&mut self) -> Result<(), PageError> {
        self.expect_heap()?;
        self.cut_line_pointers(self.last_used().max(1).min(self.item_count()));
        Ok(())
    }

    /// The last item that is not unused, 0 if there is none.
    fn last_used(&self) -> u16 {
        let pointers = self.page().line_pointers();
        let last = pointers.iter().rposition(|pointer| pointer.state() != LineState::Unused);
        last.map_or(0, |index| to_u16(index + 1))
    }

    /// Keeps so many line pointers, and has the header say whether one of them is unused.
    fn cut_line_pointers(&mut self, count: u16) {
        let lower = PageHeader::LEN + LinePointer::LEN * usize::from(count);
        self.header_mut().lower.set(to_u16(lower));
        let mut pointers = self.page().line_pointers().iter();
        let any = pointers.any(|pointer| pointer.state() == LineState::Unused);
        self.set_flags(PageFlags::HAS_FREE_LINES, any);
    }

    /// Places every stored item directly below the one before, from the special space down. The page
    /// has no overlapping items.
    pub(super) fn move_together(&mut self) {
        let mut last = u16::MAX;
        let descending =
            self.page().line_pointers().iter().filter(|one| !one.is_empty()).all(|one| {
                let below = one.offset() < last;
                last = one.offset();
                below
            });
        if descending {
            // Each moves up, past the bytes that the ones before have left.
            self.place_items(|bytes, from, to, len| bytes.copy_within(from..from + len, to));
        } else {
            match self.block_size {
                BlockSize::KIB_1 => self.move_by_copy::<{ BlockSize::KIB_1.bytes() }>(),
                BlockSize::KIB_2 => self.move_by_copy::<{ BlockSize::KIB_2.bytes() }>(),
                BlockSize::KIB_4 => self.move_by_copy::<{ BlockSize::KIB_4.bytes() }>(),
                BlockSize::KIB_8 => self.move_by_copy::<{ BlockSize::KIB_8.bytes() }>(),
                BlockSize::KIB_16 => self.move_by_copy::<{ BlockSize::KIB_16.bytes() }>(),
                _ => self.move_by_copy::<{ BlockSize::KIB_32.bytes() }>(),
            }
        }
    }

    /// Moves items that may trade places, out of a copy of all of them.
    #[inline(never)]
    fn move_by_copy<const N: usize>(&mut self) {
        let mut copy = [0; N];
        let (upper, special) = (self.header().upper().into(), self.header().special().into());
        copy[upper..special].copy_from_slice(&self.bytes[upper..special]);
        self.place_items(|bytes, from, to, len| {
            bytes[to..to + len].copy_from_slice(&copy[from..from + len]);
        });
    }

    /// Has `copy` bring each item, its padding included, to its place.
    #[inline]
    fn place_items(&mut self, mut copy: impl FnMut(&mut [u8], usize, usize, usize)) {
        let mut upper = self.header().special();
        for at in (PageHeader::LEN..self.header().lower().into()).step_by(LinePointer::LEN) {
            let Some(word) = self.bytes[at..].first_chunk() else { break };
            let pointer = LinePointer::from_word(u32::from_le_bytes(*word));
            if pointer.is_empty() {
                continue;
            }
            let len = maxalign(pointer.len().into());
            upper -= to_u16(len);
            if pointer.offset() != upper {
                copy(self.bytes, pointer.offset().into(), upper.into(), len);
                let offset = u32::from(upper) ^ u32::from(pointer.offset());
                let moved = pointer.word() ^ offset;
                self.bytes[at..at + LinePointer::LEN].copy_from_slice(&moved.to_le_bytes());
            }
        }
        self.header_mut().upper.set(upper);
    }
}
