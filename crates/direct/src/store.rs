//! All that a tree of chunks asks of whatever keeps its tuples.
use core::iter::FusedIterator;
use core::ops::{ControlFlow, Deref, Range};

use pgtoast_base::{ItemPointer, ItemPointerData};

/// Where tuples are kept: a heap in memory, a relation's file, an engine's buffer pool.
///
/// A store knows nothing of trees. What it must see to is that a tuple id leads to the tuple that it was
/// handed out for as long as anyone may hold a pointer to the value: see the crate's invariants.
pub trait ChunkStore {
    /// What can go wrong.
    type Error;

    /// A tuple that was fetched: the heap tuple's bytes, held in place ("pinned") while this lives.
    /// One is kept for each level of a tree while it is walked.
    type Tuple<'s>: Deref<Target = [u8]> + Clone
    where
        Self: 's;

    /// Stores a tuple of `len` bytes, at least 32, which `fill` writes in its place, and says where that
    /// is. `fill` writes all of the bytes; of the header, what is about transactions is left zero, for
    /// the store to see to. It is called once, or not at all when there is an error.
    ///
    /// # Errors
    /// The store's own; then no tuple was stored.
    fn insert_with(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<ItemPointer, Self::Error>;

    /// The tuple at `tid`.
    ///
    /// # Errors
    /// The store's own, among them that there is no such tuple or that it is not to be seen.
    fn fetch(&self, tid: ItemPointer) -> Result<Self::Tuple<'_>, Self::Error>;

    /// Fetches tuples in this order, and hands each to `visit` with its index, until that breaks. These are
    /// leaves next to each other in a value: a store that reads from a device takes adjacent blocks in one
    /// go ([`runs`]), as far ahead as its limit allows.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    #[inline]
    fn fetch_many(
        &self,
        tids: &[ItemPointerData],
        mut visit: impl FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Self::Error> {
        for (index, tid) in tids.iter().enumerate() {
            let tuple = self.fetch(tid.get())?;
            if visit(index, &tuple).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Deletes the tuple at `tid`, without looking at it.
    ///
    /// # Errors
    /// The store's own.
    fn delete(&mut self, tid: ItemPointer) -> Result<(), Self::Error>;
}

/// Tuple ids cut where the blocks are no longer adjacent: each run has the indexes of its ids, whose
/// blocks are the same as or follow the one before. No run has more than `limit` blocks.
///
/// With the ids of the leaves of a value that was written in one go, and a limit of `io_combine_limit`
/// blocks, each run is a read.
pub fn runs(
    tids: &[ItemPointerData],
    limit: u32,
) -> impl FusedIterator<Item = Range<usize>> + use<'_> {
    let mut start = 0;
    core::iter::from_fn(move || {
        let first = tids.get(start)?.get().block.get();
        let (mut last, mut end) = (first, start + 1);
        while let Some(tid) = tids.get(end) {
            let block = tid.get().block.get();
            let follows = block == last || block.checked_sub(1) == Some(last);
            if !follows || block - first >= limit.max(1) {
                break;
            }
            (last, end) = (block, end + 1);
        }
        let run = start..end;
        start = end;
        Some(run)
    })
    .fuse()
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use pgtoast_base::{BlockNumber, OffsetNumber};

    use super::*;

    #[test]
    fn a_run_ends_where_blocks_do_not_follow_or_the_limit_is_reached() {
        let tids = |blocks: &[u32]| -> Vec<_> {
            let tid =
                |block: &u32| ItemPointer::new(BlockNumber::new(*block), OffsetNumber::new(1));
            blocks.iter().map(tid).map(ItemPointerData::new).collect()
        };
        let of = |blocks: &[u32], limit| runs(&tids(blocks), limit).collect::<Vec<_>>();
        assert_eq!(of(&[], 4), Vec::<Range<usize>>::new());
        assert_eq!(of(&[5, 5, 6, 6, 7], 4), vec![0..5]);
        assert_eq!(of(&[5, 5, 6, 6, 7], 2), vec![0..4, 4..5]);
        assert_eq!(of(&[5, 4, 5, 7], 16), vec![0..1, 1..3, 3..4]);
        assert_eq!(of(&[u32::MAX, 0], 0), vec![0..1, 1..2]);
    }
}
