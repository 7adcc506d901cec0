//! A row by its address, and tuples by their places.
use core::fmt;
use core::ops::Range;

use pgtoast_base::{BlockNumber, ItemPointer};
use pgtoast_page::{Item, Page};

use super::chain::Chain;
use super::relation::Relation;
use crate::StoreError;
use crate::buffer::PageRead;
use crate::transaction::TransactionCore;

impl Relation {
    /// Copies out the version of a row that the transaction sees, if there is one at that address:
    /// where it is, which is the address itself or a later version in the same page. An address
    /// where nothing is has none.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Page`].
    #[doc(alias = "heap_hot_search_buffer")]
    pub fn fetch(
        &self,
        transaction: &TransactionCore,
        tid: ItemPointer,
        target: &mut Vec<u8>,
    ) -> Result<Option<ItemPointer>, StoreError> {
        target.clear();
        self.fetch_with(transaction, tid, |here, tuple| {
            target.extend_from_slice(tuple);
            here
        })
    }

    /// Hands the version of a row that the transaction sees to `work`, with its place, while the
    /// page is latched: `work` must not use the store.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    #[inline]
    pub fn fetch_with<R>(
        &self,
        transaction: &TransactionCore,
        tid: ItemPointer,
        work: impl FnOnce(ItemPointer, &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        if tid.block.get() >= self.blocks() {
            return Ok(None);
        }
        let view = transaction.view();
        let snapshot = view.snapshot();
        let mut bytes = self.pool.read(self.main, tid.block)?;
        if Page::new(&bytes, self.block_size).is_ok_and(|page| self.may_prune(page)) {
            drop(bytes);
            self.prune_on_access(tid.block)?;
            bytes = self.pool.read(self.main, tid.block)?;
        }
        let page = self.view_page(&bytes, tid.block)?;
        let mut versions = Chain::new(page, tid.block, tid.item);
        let seen = versions.find(|(_, tuple)| tuple.header().is_visible(&snapshot, &view));
        Ok(seen.map(|(item, tuple)| work(ItemPointer::new(tid.block, item), tuple.bytes())))
    }

    /// A page, to read.
    #[inline]
    pub(crate) fn read_page(&self, block: BlockNumber) -> Result<PageRead<'_>, StoreError> {
        self.pool.read(self.main, block)
    }

    /// Has the pool read blocks ahead.
    pub fn prefetch(&self, blocks: Range<u32>) {
        let end = blocks.end.min(self.blocks());
        if blocks.start < end {
            self.pool.prefetch(self.main, blocks.start..end);
        }
    }

    /// A reader of tuples by their places, whoever sees them.
    #[must_use]
    pub fn reader(&self) -> TupleReader<'_> {
        TupleReader { relation: self, page: None }
    }
}

/// Reads tuples by their places, visible or not: those that another row, which is visible, leads
/// to.
///
/// It keeps the page of the last tuple latched, so that tuples of one page cost one look-up. So
/// whoever has one [releases](Self::release) it before using the store otherwise.
pub struct TupleReader<'a> {
    relation: &'a Relation,
    page: Option<(BlockNumber, PageRead<'a>)>,
}

impl TupleReader<'_> {
    /// The tuple at a place; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError::BlockMissing`], [`StoreError::Io`], [`StoreError::Page`].
    #[inline]
    pub fn tuple(&mut self, tid: ItemPointer) -> Result<Option<&[u8]>, StoreError> {
        let relation = self.relation;
        if self.page.as_ref().is_none_or(|(block, _)| *block != tid.block) {
            // Never two latches at once: the one that is wanted may be held for this one.
            self.page = None;
            self.page = Some((tid.block, relation.pool.read(relation.main, tid.block)?));
        }
        let Some((_, bytes)) = &self.page else { return Ok(None) };
        let page = relation.view_page(bytes, tid.block)?;
        if page.line_pointer(tid.item).is_none() {
            return Ok(None);
        }
        match page.item(tid.item) {
            Ok(Item::Normal(tuple)) => Ok(Some(tuple)),
            Ok(_) => Ok(None),
            Err(error) => Err(relation.page_error(tid.block, error)),
        }
    }

    /// Lets go of the page.
    pub fn release(&mut self) {
        self.page = None;
    }
}

impl fmt::Debug for TupleReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = self.page.as_ref().map(|(block, _)| *block);
        f.debug_struct("TupleReader").field("block", &block).finish_non_exhaustive()
    }
}
