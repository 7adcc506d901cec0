//! What happens to the items of an index page: they are kept in order, so line pointers move.
//!
//! All items of an index page are stored, also those marked dead.
//!
//! Source: `bufpage.c`, `PageAddItemExtended`, `PageIndexTupleDelete`, `PageIndexMultiDelete`
//! (REL_18).
use pgtoast_base::{OffsetNumber, maxalign};

use super::{PageMut, expect_state, pointer_offset, to_u16};
use crate::{LinePointer, LineState, PageError};

/// Up to so many items are deleted one by one.
const FEW: usize = 2;

impl PageMut<'_> {
    /// Adds an item as number `item`; those from there on move up by one.
    ///
    /// # Errors
    /// [`PageError::NotIndex`], [`PageError::LinePointers`], [`PageError::ItemMissing`] for a number
    /// beyond the next there would be, [`PageError::ItemTooShort`] for no bytes at all,
    /// [`PageError::Full`].
    #[doc(alias = "PageAddItem")]
    pub fn insert_item(&mut self, item: OffsetNumber, bytes: &[u8]) -> Result<(), PageError> {
        self.expect_index()?;
        let count = self.item_count();
        if item == OffsetNumber::INVALID || item.get() > count + 1 {
            return Err(PageError::ItemMissing { item: item.get(), count });
        }
        if bytes.is_empty() {
            return Err(PageError::ItemTooShort { item: item.get(), len: 0, needed: 1 });
        }
        let offset = self.room(bytes.len(), 1)?;
        let (start, end) = (pointer_offset(item), usize::from(self.header().lower()));
        self.bytes.copy_within(start..end, start + LinePointer::LEN);
        self.header_mut().lower.set(to_u16(end + LinePointer::LEN));
        self.store(item, offset, bytes);
        Ok(())
    }

    /// Marks an item as dead. It stays where it is until it is deleted.
    ///
    /// # Errors
    /// [`PageError::NotIndex`], [`PageError::LinePointers`], [`PageError::ItemMissing`],
    /// [`PageError::ItemState`] unless it is in use.
    #[doc(alias = "ItemIdMarkDead")]
    pub fn mark_item_dead(&mut self, item: OffsetNumber) -> Result<(), PageError> {
        self.expect_index()?;
        let pointer = self.pointer(item)?;
        expect_state(item, pointer, &[LineState::Normal])?;
        let dead = pointer.word() | LinePointer::dead().word();
        self.put_pointer(item, LinePointer::from_word(dead));
        Ok(())
    }

    /// Deletes an item: later ones move down by one, and the bytes of those that lie below it in the
    /// page move up.
    ///
    /// # Errors
    /// [`PageError::NotIndex`], [`PageError::ItemMissing`], and what is wrong with a line pointer of
    /// the page, which nobody has asked before: [`PageError::LinePointers`],
    /// [`PageError::ItemMisaligned`], [`PageError::ItemOutside`], [`PageError::ItemOverlap`].
    #[doc(alias = "PageIndexTupleDelete")]
    pub fn delete_item(&mut self, item: OffsetNumber) -> Result<(), PageError> {
        self.expect_index_items()?;
        self.pointer(item)?;
        self.remove_item(item);
        Ok(())
    }

    /// Deletes some items, in ascending order. Up to two go one by one; for more the rest is moved
    /// together in the order of their line pointers, as a server does, which can lead to another
    /// order in the page.
    ///
    /// # Errors
    /// Those of [`delete_item`](Self::delete_item); [`PageError::ItemMissing`] also for an item that
    /// is not above the one before.
    #[doc(alias = "PageIndexMultiDelete")]
    pub fn delete_items(&mut self, items: &[OffsetNumber]) -> Result<(), PageError> {
        self.expect_index_items()?;
        let count = self.item_count();
        let mut before = OffsetNumber::INVALID;
        for item in items {
            if *item <= before || item.get() > count {
                return Err(PageError::ItemMissing { item: item.get(), count });
            }
            before = *item;
        }
        if items.len() <= FEW {
            items.iter().rev().for_each(|item| self.remove_item(*item));
            return Ok(());
        }
        let mut victims = items.iter().peekable();
        let mut end = OffsetNumber::FIRST;
        for item in (1..=count).map(OffsetNumber::new) {
            if victims.next_if_eq(&&item).is_some() {
                continue;
            }
            let start = pointer_offset(item);
            self.bytes.copy_within(start..start + LinePointer::LEN, pointer_offset(end));
            end = OffsetNumber::new(end.get() + 1);
        }
        self.header_mut().lower.set(to_u16(pointer_offset(end)));
        self.move_together();
        Ok(())
    }

    /// Removes an item that is there from a page whose items are sound.
    fn remove_item(&mut self, item: OffsetNumber) {
        let Some(pointer) = self.page().line_pointer(item) else { return };
        let (lower, upper) = (self.header().lower(), self.header().upper());
        let start = pointer_offset(item);
        self.bytes.copy_within(start + LinePointer::LEN..lower.into(), start);
        let lower = lower - to_u16(LinePointer::LEN);
        let len = to_u16(maxalign(pointer.len().into()));
        let below = usize::from(upper)..usize::from(pointer.offset());
        self.bytes.copy_within(below, usize::from(upper + len));
        for at in (pointer_offset(OffsetNumber::FIRST)..lower.into()).step_by(LinePointer::LEN) {
            let Some(word) = self.bytes[at..].first_chunk() else { break };
            let word = u32::from_le_bytes(*word);
            if LinePointer::from_word(word).offset() <= pointer.offset() {
                // The offset is in the low bits and stays below the end of the page.
                let moved = word + u32::from(len);
                self.bytes[at..at + LinePointer::LEN].copy_from_slice(&moved.to_le_bytes());
            }
        }
        let header = self.header_mut();
        header.lower.set(lower);
        header.upper.set(upper + len);
    }

    fn expect_index(&self) -> Result<(), PageError> {
        let lower = self.header().lower();
        if self.header().special() == self.block_size.bytes_u16() {
            Err(PageError::NotIndex)
        } else if !usize::from(lower).is_multiple_of(LinePointer::LEN) {
            Err(PageError::LinePointers { lower })
        } else {
            Ok(())
        }
    }

    /// Whether this is an index page with items that can be moved about: other pages of an index keep
    /// other things in the place of line pointers.
    fn expect_index_items(&self) -> Result<(), PageError> {
        self.expect_index()?;
        self.page().check_index_items()
    }
}
