//! What happens to the items of a heap page.
//!
//! ```text
//!            add, place            set_dead             set_unused
//!   unused ------------> in use ------------> dead ----------------> unused
//!      ^                  |    `--- redirect ---> redirected --.
//!      `--- set_unused ---'                          `---------+--> dead, unused, redirected
//! ```
//! Source: `bufpage.c`, `PageAddItemExtended`; `heapam.c`; `pruneheap.c` (REL_18).
use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Xid};

use super::{PageMut, expect_state};
use crate::{
    HeapTupleMut, LinePointer, LineState, Page, PageError, PageFlags, RowUpdate, TupleHeader,
};

impl PageMut<'_> {
    /// Adds a tuple as it is and says which item it is. With the header's hint that there may be
    /// unused line pointers, the first of them is reused; without it none is looked for. The hint
    /// goes when a search finds none.
    ///
    /// # Errors
    /// [`PageError::NotHeap`], [`PageError::ItemTooShort`], [`PageError::ItemLimit`],
    /// [`PageError::Full`].
    #[doc(alias = "PageAddItem")]
    pub fn add_tuple(&mut self, tuple: &[u8]) -> Result<OffsetNumber, PageError> {
        self.expect_heap()?;
        let hinted = self.header().flags().contains(PageFlags::HAS_FREE_LINES);
        let reused = if hinted { self.page().reusable_item() } else { None };
        let item = reused.unwrap_or(OffsetNumber::new(self.item_count() + 1));
        self.store_tuple(item, tuple)?;
        if hinted && reused.is_none() {
            self.set_flags(PageFlags::HAS_FREE_LINES, false);
        }
        Ok(item)
    }

    /// Adds a tuple as item `item`, which is unused or the next there would be: what replaying a log
    /// needs. The hint about unused line pointers stays as it is.
    ///
    /// # Errors
    /// [`PageError::NotHeap`], [`PageError::ItemMissing`], [`PageError::ItemState`], and those of
    /// [`add_tuple`](Self::add_tuple).
    #[doc(alias = "PAI_OVERWRITE")]
    pub fn place_tuple(&mut self, item: OffsetNumber, tuple: &[u8]) -> Result<(), PageError> {
        self.expect_heap()?;
        let count = self.item_count();
        if item == OffsetNumber::INVALID || item.get() > count + 1 {
            return Err(PageError::ItemMissing { item: item.get(), count });
        }
        if item.get() <= count {
            expect_state(item, self.pointer(item)?, &[LineState::Unused])?;
        }
        self.store_tuple(item, tuple)
    }

    /// Inserts a tuple into this page, which is block `block`: adds it, has its header name its place,
    /// and takes from the page that all its tuples are visible.
    ///
    /// # Errors
    /// Those of [`add_tuple`](Self::add_tuple).
    #[doc(alias = "RelationPutHeapTuple")]
    pub fn insert_tuple(
        &mut self,
        block: BlockNumber,
        tuple: &[u8],
    ) -> Result<ItemPointer, PageError> {
        let tid = ItemPointer::new(block, self.add_tuple(tuple)?);
        self.tuple_mut(tid.item)?.header_mut().set_ctid(tid);
        self.set_flags(PageFlags::ALL_VISIBLE, false);
        Ok(tid)
    }

    /// Inserts a tuple of `len` bytes that `fill` writes in its place, for a tuple that is not in memory
    /// as one piece: what [`insert_tuple`](Self::insert_tuple) does, with one copy less. `fill` is
    /// handed whatever the page held there before and writes all of it; only then does the header name
    /// the tuple's place. It is not called when there is no room.
    ///
    /// # Errors
    /// Those of [`add_tuple`](Self::add_tuple).
    pub fn insert_tuple_with(
        &mut self,
        block: BlockNumber,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<ItemPointer, PageError> {
        self.expect_heap()?;
        let hinted = self.header().flags().contains(PageFlags::HAS_FREE_LINES);
        let reused = if hinted { self.page().reusable_item() } else { None };
        let item = reused.unwrap_or(OffsetNumber::new(self.item_count() + 1));
        let offset = self.tuple_room(item, len)?;
        fill(&mut self.bytes[usize::from(offset)..usize::from(offset) + len]);
        self.record(item, offset, len);
        if hinted && reused.is_none() {
            self.set_flags(PageFlags::HAS_FREE_LINES, false);
        }
        let tid = ItemPointer::new(block, item);
        self.tuple_mut(item)?.header_mut().set_ctid(tid);
        self.set_flags(PageFlags::ALL_VISIBLE, false);
        Ok(tid)
    }

    /// Marks the tuple at `tid`, in this page, as deleted by command `cid` of transaction `xmax`.
    /// Its bytes stay until the page is pruned, of which the page remembers the oldest chance.
    ///
    /// # Errors
    /// [`PageError::NotHeap`], [`PageError::ItemMissing`], [`PageError::ItemState`].
    #[doc(alias = "heap_delete")]
    pub fn delete_tuple(&mut self, tid: ItemPointer, xmax: Xid, cid: u32) -> Result<(), PageError> {
        self.tuple_mut(tid.item)?.header_mut().set_deleted(xmax, cid, tid);
        self.remember_ended(xmax);
        Ok(())
    }

    /// Marks the tuple of item `item` as updated by command `cid` of transaction `xmax`. Its next version
    /// is at `next`, where it was inserted before; after a HOT update in this page. As for the page's
    /// memory, it is as with [`delete_tuple`](Self::delete_tuple).
    ///
    /// # Errors
    /// [`PageError::NotHeap`]; [`PageError::ItemMissing`] and [`PageError::ItemState`] for `item`, and
    /// after a HOT update for the item that `next` names.
    #[doc(alias = "heap_update")]
    pub fn update_tuple(
        &mut self,
        item: OffsetNumber,
        xmax: Xid,
        cid: u32,
        next: ItemPointer,
        update: RowUpdate,
    ) -> Result<(), PageError> {
        if update == RowUpdate::Hot {
            self.tuple_mut(next.item)?;
        }
        self.tuple_mut(item)?.header_mut().set_updated(xmax, cid, next, update);
        self.remember_ended(xmax);
        Ok(())
    }

    /// The page has a tuple that goes when `xmax` is over.
    fn remember_ended(&mut self, xmax: Xid) {
        let oldest = self.header().prune_xid();
        if !oldest.is_valid() || xmax.precedes(oldest) {
            self.set_prune_xid(xmax);
        }
        self.set_flags(PageFlags::ALL_VISIBLE, false);
    }

    /// A stored tuple, its header to be changed.
    ///
    /// # Errors
    /// [`PageError::NotHeap`], [`PageError::ItemMissing`], [`PageError::ItemState`].
    pub fn tuple_mut(&mut self, item: OffsetNumber) -> Result<HeapTupleMut<'_>, PageError> {
        self.expect_heap()?;
        let pointer = self.pointer(item)?;
        expect_state(item, pointer, &[LineState::Normal])?;
        let (start, len) = (usize::from(pointer.offset()), usize::from(pointer.len()));
        HeapTupleMut::new(&mut self.bytes[start..start + len]).map_err(|_| {
            let needed = TupleHeader::MIN_TUPLE_LEN;
            PageError::ItemTooShort { item: item.get(), len: pointer.len(), needed }
        })
    }

    /// Has item `item`, whose tuple is gone, lead to item `target`, where the row's next version is.
    ///
    /// # Errors
    /// [`PageError::NotHeap`], [`PageError::ItemMissing`]; [`PageError::ItemState`] unless `item` is
    /// in use or redirected already; [`PageError::ItemBadTarget`], [`PageError::ItemEmptyTarget`]
    /// unless `target` holds another tuple; [`PageError::ItemRedirected`].
    #[doc(alias = "ItemIdSetRedirect")]
    pub fn redirect(&mut self, item: OffsetNumber, target: OffsetNumber) -> Result<(), PageError> {
        self.expect_heap()?;
        expect_state(item, self.pointer(item)?, &[LineState::Normal, LineState::Redirect])?;
        let (from, to) = (item.get(), target.get());
        match self.page().line_pointer(target).map(LinePointer::state) {
            Some(LineState::Normal) if target != item => {}
            Some(_) => return Err(PageError::ItemEmptyTarget { item: from, target: to }),
            None => {
                let count = self.item_count();
                return Err(PageError::ItemBadTarget { item: from, target: to, count });
            }
        }
        self.expect_unreferenced(item)?;
        self.put_pointer(item, LinePointer::redirect(target));
        Ok(())
    }

    /// Gives up an item's tuple, while indexes may still name the item.
    ///
    /// # Errors
    /// [`PageError::NotHeap`], [`PageError::ItemMissing`]; [`PageError::ItemState`] unless `item` is
    /// in use or redirected; [`PageError::ItemRedirected`].
    #[doc(alias = "ItemIdSetDead")]
    pub fn set_dead(&mut self, item: OffsetNumber) -> Result<(), PageError> {
        self.expect_heap()?;
        expect_state(item, self.pointer(item)?, &[LineState::Normal, LineState::Redirect])?;
        self.expect_unreferenced(item)?;
        self.put_pointer(item, LinePointer::dead());
        Ok(())
    }

    /// Gives up an item that nothing names any more. The line pointer is reused only once
    /// [`compact`](Self::compact) or [`truncate_line_pointers`](Self::truncate_line_pointers) has
    /// left a hint of it.
    ///
    /// # Errors
    /// [`PageError::NotHeap`], [`PageError::ItemMissing`]; [`PageError::ItemState`] if it is unused
    /// already; [`PageError::ItemRedirected`].
    #[doc(alias = "ItemIdSetUnused")]
    pub fn set_unused(&mut self, item: OffsetNumber) -> Result<(), PageError> {
        self.expect_heap()?;
        let used = [LineState::Normal, LineState::Redirect, LineState::Dead];
        expect_state(item, self.pointer(item)?, &used)?;
        self.expect_unreferenced(item)?;
        self.put_pointer(item, LinePointer::UNUSED);
        Ok(())
    }

    /// Writes a tuple as `item`, which is unused or the next there would be.
    #[inline]
    fn store_tuple(&mut self, item: OffsetNumber, tuple: &[u8]) -> Result<(), PageError> {
        let offset = self.tuple_room(item, tuple.len())?;
        self.store(item, offset, tuple);
        Ok(())
    }

    /// Where a tuple of `len` bytes goes as `item`, if it may.
    #[inline]
    fn tuple_room(&self, item: OffsetNumber, len: usize) -> Result<u16, PageError> {
        let limit = Page::max_heap_items(self.block_size);
        if item.get() > limit {
            return Err(PageError::ItemLimit { item: item.get(), limit });
        }
        let needed = TupleHeader::MIN_TUPLE_LEN;
        if len < usize::from(needed) {
            let len = super::to_u16(len);
            return Err(PageError::ItemTooShort { item: item.get(), len, needed });
        }
        self.room(len, usize::from(item.get() > self.item_count()))
    }

    #[inline]
    pub(super) fn expect_heap(&self) -> Result<(), PageError> {
        let special = self.header().special();
        if special == self.block_size.bytes_u16() {
            Ok(())
        } else {
            Err(PageError::NotHeap { special })
        }
    }

    /// An error if a line pointer is redirected to `item`: it would lead nowhere.
    fn expect_unreferenced(&self, item: OffsetNumber) -> Result<(), PageError> {
        let to_item = LinePointer::redirect(item);
        match self.page().items().find(|(_, pointer)| *pointer == to_item) {
            Some((by, _)) => Err(PageError::ItemRedirected { item: item.get(), by: by.get() }),
            None => Ok(()),
        }
    }
}
