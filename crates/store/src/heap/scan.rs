//! All rows that a transaction sees, page by page.
//!
//! A page is copied under its latch, and the copy is looked through without any: so a scan never
//! holds a latch while its caller is at work, and a page is latched for as long as a copy takes.
use core::fmt;
use core::ops::Range;

use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber};
use pgtoast_page::{LineState, Page, PageFlags, Snapshot};

use super::chain::{addresses, tuple_at};
use super::relation::Relation;
use crate::StoreError;
use crate::transaction::{TransactionCore, View};

impl Relation {
    /// All rows that the transaction sees, in the order of their places.
    #[must_use]
    pub fn scan<'a>(&'a self, transaction: &'a TransactionCore) -> Scan<'a> {
        self.scan_blocks(transaction, 0..u32::MAX)
    }

    /// The rows of some blocks that the transaction sees. Blocks past the end, as it is at the
    /// beginning of the scan, have none.
    #[must_use]
    pub fn scan_blocks<'a>(
        &'a self,
        transaction: &'a TransactionCore,
        blocks: Range<u32>,
    ) -> Scan<'a> {
        let end = blocks.end.min(self.blocks());
        let view = transaction.view();
        Scan {
            relation: self,
            view,
            copy: vec![0; self.block_size.bytes()],
            addresses: Vec::new(),
            block: BlockNumber::new(blocks.start.min(end)),
            item: 0,
            count: 0,
            all_visible: false,
            next_block: blocks.start.min(end),
            end,
            prefetched: blocks.start.min(end),
        }
    }
}

/// Goes through rows. See [`Relation::scan`].
pub struct Scan<'a> {
    relation: &'a Relation,
    view: View<'a>,
    copy: Vec<u8>,
    /// Where the chain of each item of the page begins; empty until it is asked for.
    addresses: Vec<u16>,
    block: BlockNumber,
    /// The item that was looked at last.
    item: u16,
    /// Items of the page.
    count: u16,
    all_visible: bool,
    next_block: u32,
    end: u32,
    prefetched: u32,
}

impl Scan<'_> {
    /// The next row: its address, and the version that is seen.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Page`]. The scan goes on behind a page that cannot be
    /// read.
    #[expect(clippy::should_implement_trait, reason = "it lends, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<(ItemPointer, &[u8])>, StoreError> {
        loop {
            if let Some(item) = self.next_item() {
                let tid = ItemPointer::new(self.block, self.address(item));
                let page = self.relation.view_page(&self.copy, self.block)?;
                return Ok(tuple_at(page, item).map(|tuple| (tid, tuple.bytes())));
            }
            if !self.next_page()? {
                return Ok(None);
            }
        }
    }

    /// The block whose rows are handed out at the moment: [`Relation::scan_blocks`] from the next
    /// one on goes on from there.
    #[must_use]
    pub fn block(&self) -> BlockNumber {
        self.block
    }

    /// The next item of the page that is seen.
    #[inline]
    fn next_item(&mut self) -> Option<OffsetNumber> {
        let page = Page::new(&self.copy, self.relation.block_size).ok()?;
        let snapshot: Snapshot<'_> = self.view.snapshot();
        while self.item < self.count {
            self.item += 1;
            let item = OffsetNumber::new(self.item);
            let pointer = page.line_pointer(item)?;
            if pointer.state() != LineState::Normal {
                continue;
            }
            let Some(tuple) = tuple_at(page, item) else { continue };
            if self.all_visible || tuple.header().is_visible(&snapshot, &self.view) {
                return Some(item);
            }
        }
        None
    }

    /// Where the chain of an item begins.
    #[inline]
    fn address(&mut self, item: OffsetNumber) -> OffsetNumber {
        let Ok(page) = Page::new(&self.copy, self.relation.block_size) else { return item };
        if !tuple_at(page, item).is_some_and(|tuple| tuple.header().is_heap_only()) {
            return item;
        }
        if self.addresses.is_empty() {
            addresses(page, self.block, &mut self.addresses);
        }
        let address = item.index().and_then(|index| self.addresses.get(index)).copied();
        match address {
            Some(address) if address > 0 => OffsetNumber::new(address),
            _ => item,
        }
    }

    /// Copies the next page; says whether there was one.
    fn next_page(&mut self) -> Result<bool, StoreError> {
        (self.item, self.count) = (0, 0);
        self.addresses.clear();
        if self.next_block >= self.end {
            return Ok(false);
        }
        let relation = self.relation;
        if self.next_block >= self.prefetched {
            self.prefetched = self.next_block.saturating_add(READ_AHEAD).min(self.end);
            relation.pool.prefetch(relation.main, self.next_block..self.prefetched);
        }
        self.block = BlockNumber::new(self.next_block);
        self.next_block += 1;
        let mut bytes = relation.pool.read(relation.main, self.block)?;
        if Page::new(&bytes, relation.block_size).is_ok_and(|page| relation.may_prune(page)) {
            drop(bytes);
            relation.prune_on_access(self.block)?;
            bytes = relation.pool.read(relation.main, self.block)?;
        }
        self.copy.copy_from_slice(&bytes);
        drop(bytes);
        let page = relation.view_page(&self.copy, self.block)?;
        self.count = page.item_count();
        self.all_visible = page.header().flags().contains(PageFlags::ALL_VISIBLE);
        Ok(true)
    }
}

impl fmt::Debug for Scan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan")
            .field("relation", &self.relation)
            .field("block", &self.block)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// Blocks that a scan has read at once.
const READ_AHEAD: u32 = 32;
