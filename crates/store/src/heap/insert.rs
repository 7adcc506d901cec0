//! Tuples go into pages: one, many, or many that are written in place.
use pgtoast_base::{BlockNumber, ItemPointer, Xid, maxalign};
use pgtoast_page::{HeapTupleMut, LinePointer, Page, PageHeader, PageMut};
use smallvec::SmallVec;

use super::relation::Relation;
use super::target::Reserve;
use crate::StoreError;
use crate::transaction::TransactionCore;

impl Relation {
    /// Inserts a tuple, as of the current command, and says where it is. Its header is filled in.
    ///
    /// # Errors
    /// [`StoreError::TupleTooLong`]; those of [`TransactionCore::xid`]; [`StoreError::Io`],
    /// [`StoreError::Page`].
    #[doc(alias = "heap_insert")]
    pub fn insert(
        &self,
        transaction: &mut TransactionCore,
        tuple: HeapTupleMut<'_>,
    ) -> Result<ItemPointer, StoreError> {
        let mut feed = One { tuple: Some(tuple), tid: ItemPointer::INVALID };
        self.insert_from(transaction, &mut feed)?;
        Ok(feed.tid)
    }

    /// Inserts tuples, page by page, and hands out where each went, in order. Says how many there
    /// were.
    ///
    /// The iterator and `placed` run while no page is latched. If either panics, or a tuple is
    /// refused, those before are in, and belong to a transaction that can be aborted.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    #[doc(alias = "heap_multi_insert")]
    pub fn insert_many<'t>(
        &self,
        transaction: &mut TransactionCore,
        tuples: impl IntoIterator<Item = HeapTupleMut<'t>>,
        placed: impl FnMut(ItemPointer),
    ) -> Result<usize, StoreError> {
        let mut feed =
            Batches { tuples: tuples.into_iter(), batch: SmallVec::new(), at: 0, count: 0, placed };
        self.insert_from(transaction, &mut feed)?;
        Ok(feed.count)
    }

    /// Inserts tuples of the lengths given, which `fill` writes in their places in the page:
    /// tuples that are not in memory as one piece, such as the chunks of a value, are copied once.
    ///
    /// `fill` is called with the number of the tuple, from 0, and as many bytes as it is long, of
    /// any content, while the page is latched: it must not use the store. It writes the header as
    /// a tuple is formed; who inserted it is filled in here. `placed` is told where each tuple
    /// went, in order, while nothing is latched. A panic of either leaves whole tuples only.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_in_place(
        &self,
        transaction: &mut TransactionCore,
        lens: &[usize],
        fill: impl FnMut(usize, &mut [u8]),
        placed: impl FnMut(usize, ItemPointer),
    ) -> Result<(), StoreError> {
        let mut feed = InPlace { lens, filled: 0, told: 0, fill, placed };
        self.insert_from(transaction, &mut feed)
    }

    /// Fills pages until the feed is empty.
    #[inline]
    fn insert_from(
        &self,
        transaction: &mut TransactionCore,
        feed: &mut impl Feed,
    ) -> Result<(), StoreError> {
        let Some(mut len) = feed.next_len() else { return Ok(()) };
        let inserter = Inserter {
            xid: transaction.xid()?,
            command: transaction.command(),
            slot: transaction.slot(),
        };
        let mut reserve = Reserve::none(self);
        let mut tids: SmallVec<[ItemPointer; 16]> = SmallVec::new();
        loop {
            let filled = self.fill_page(inserter, len, feed, &mut reserve, &mut tids);
            for tid in tids.drain(..) {
                feed.placed(tid);
            }
            filled?;
            match feed.next_len() {
                Some(next) => len = next,
                None => return Ok(()),
            }
        }
    }

    /// Puts a tuple of `len` bytes into a page, and those after it for which the page has room.
    #[inline]
    fn fill_page<'a>(
        &'a self,
        inserter: Inserter,
        mut len: usize,
        feed: &mut impl Feed,
        reserve: &mut Reserve<'a>,
        tids: &mut SmallVec<[ItemPointer; 16]>,
    ) -> Result<(), StoreError> {
        self.expect_fits(len)?;
        let blocks = feed.alike().div_euclid(self.tuples_per_page(len));
        let mut bytes = self.page_for(inserter.slot, len, blocks, reserve)?;
        let block = bytes.block();
        self.before_change(&mut bytes)?;
        let opened = bytes.open(self.block_size);
        let mut page = opened.map_err(|error| {
            self.forget_target(inserter.slot);
            self.page_error(block, error)
        })?;
        loop {
            let tid = inserter
                .put(&mut page, block, len, |bytes| feed.fill(bytes))
                .map_err(|error| self.page_error(block, error))?;
            tids.push(tid);
            match feed.next_len_at_hand() {
                Some(next) if maxalign(next) <= page.page().heap_free_bytes().into() => len = next,
                _ => return Ok(()),
            }
        }
    }

    pub(super) fn expect_fits(&self, len: usize) -> Result<(), StoreError> {
        let limit = self.max_tuple_len();
        // A line pointer speaks of padded lengths only as far as there is room for the padding.
        if maxalign(len) > limit {
            return Err(StoreError::TupleTooLong { len, limit });
        }
        Ok(())
    }

    /// How many tuples of `len` bytes fill an empty page.
    fn tuples_per_page(&self, len: usize) -> u32 {
        let room = self.block_size.bytes() - PageHeader::LEN;
        let count = (room / (maxalign(len) + LinePointer::LEN)).max(1);
        u32::try_from(count).unwrap_or(u32::MAX).min(Page::max_heap_items(self.block_size).into())
    }
}

/// Who inserts.
#[derive(Clone, Copy)]
struct Inserter {
    xid: Xid,
    command: u32,
    slot: usize,
}

impl Inserter {
    #[inline]
    fn put(
        self,
        page: &mut PageMut<'_>,
        block: BlockNumber,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<ItemPointer, pgtoast_page::PageError> {
        let stamped = |bytes: &mut [u8]| {
            fill(bytes);
            if let Ok(mut tuple) = HeapTupleMut::new(bytes) {
                tuple.header_mut().set_inserted(self.xid, self.command);
            }
        };
        page.insert_tuple_with(block, len, stamped)
    }
}

/// Where tuples come from.
trait Feed {
    /// The length of the next tuple; may run the caller's code.
    fn next_len(&mut self) -> Option<usize>;
    /// The same without running any of it: `None` too when it would have to.
    fn next_len_at_hand(&self) -> Option<usize>;
    /// How many tuples from the next one on are as long as it, as far as is known; at least 1.
    fn alike(&self) -> u32;
    /// Writes the next tuple.
    fn fill(&mut self, bytes: &mut [u8]);
    /// Where the first tuple went that this was not called for yet.
    fn placed(&mut self, tid: ItemPointer);
}

struct One<'t> {
    tuple: Option<HeapTupleMut<'t>>,
    tid: ItemPointer,
}

impl Feed for One<'_> {
    fn next_len(&mut self) -> Option<usize> {
        self.next_len_at_hand()
    }

    fn next_len_at_hand(&self) -> Option<usize> {
        self.tuple.as_ref().map(|tuple| tuple.bytes().len())
    }

    fn alike(&self) -> u32 {
        1
    }

    #[inline]
    fn fill(&mut self, bytes: &mut [u8]) {
        if let Some(tuple) = self.tuple.take() {
            bytes.copy_from_slice(tuple.bytes());
        }
    }

    fn placed(&mut self, tid: ItemPointer) {
        self.tid = tid;
    }
}

/// Tuples of an iterator, so many at a time.
struct Batches<'t, I, P> {
    tuples: I,
    batch: SmallVec<[HeapTupleMut<'t>; BATCH]>,
    at: usize,
    count: usize,
    placed: P,
}

impl<'t, I: Iterator<Item = HeapTupleMut<'t>>, P: FnMut(ItemPointer)> Feed for Batches<'t, I, P> {
    fn next_len(&mut self) -> Option<usize> {
        if self.at == self.batch.len() {
            self.batch.clear();
            self.at = 0;
            self.batch.extend(self.tuples.by_ref().take(BATCH));
        }
        self.next_len_at_hand()
    }

    fn next_len_at_hand(&self) -> Option<usize> {
        self.batch.get(self.at).map(|tuple| tuple.bytes().len())
    }

    fn alike(&self) -> u32 {
        let rest = &self.batch[self.at.min(self.batch.len())..];
        let Some(first) = rest.first() else { return 1 };
        let len = first.bytes().len();
        let count = rest.iter().take_while(|tuple| tuple.bytes().len() == len).count();
        u32::try_from(count).unwrap_or(1)
    }

    #[inline]
    fn fill(&mut self, bytes: &mut [u8]) {
        if let Some(tuple) = self.batch.get(self.at) {
            bytes.copy_from_slice(tuple.bytes());
        }
        self.at += 1;
    }

    fn placed(&mut self, tid: ItemPointer) {
        self.count += 1;
        (self.placed)(tid);
    }
}

struct InPlace<'a, F, P> {
    lens: &'a [usize],
    filled: usize,
    told: usize,
    fill: F,
    placed: P,
}

impl<F: FnMut(usize, &mut [u8]), P: FnMut(usize, ItemPointer)> Feed for InPlace<'_, F, P> {
    fn next_len(&mut self) -> Option<usize> {
        self.next_len_at_hand()
    }

    fn next_len_at_hand(&self) -> Option<usize> {
        self.lens.get(self.filled).copied()
    }

    fn alike(&self) -> u32 {
        let Some((len, rest)) = self.lens.get(self.filled..).and_then(<[_]>::split_first) else {
            return 1;
        };
        let count = 1 + rest.iter().take_while(|other| *other == len).count();
        u32::try_from(count).unwrap_or(1)
    }

    #[inline]
    fn fill(&mut self, bytes: &mut [u8]) {
        (self.fill)(self.filled, bytes);
        self.filled += 1;
    }

    fn placed(&mut self, tid: ItemPointer) {
        (self.placed)(self.told, tid);
        self.told += 1;
    }
}

/// Tuples that are taken from an iterator before a page is latched.
const BATCH: usize = 64;
