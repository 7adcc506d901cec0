//! Chunks of a value, by the index.
//!
//! A piece of the index is read first: which chunks, and where. Then their pages, each latched once for all
//! its chunks that follow one another. No two latches are held at a time, and nothing is allocated.
use core::ops::{ControlFlow, Range};

use pgtoast_base::ItemPointer;
use pgtoast_nbtree::Key;
use pgtoast_page::{HeapTuple, Infomask};
use pgtoast_toast::{Chunk, ChunkOrder, ChunkSource, ReadError, ValueKey};
use smallvec::SmallVec;

use super::ToastStore;
use crate::StoreError;
use crate::heap::{Relation, TupleReader};

/// How many entries are read from the index at a time: half a megabyte of value.
const BATCH: usize = 256;

/// Reads the chunks of a TOAST relation, for someone who has a snapshot that sees their rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkReader<'a> {
    toast: &'a ToastStore,
}

impl<'a> ChunkReader<'a> {
    pub(crate) fn new(toast: &'a ToastStore) -> Self {
        Self { toast }
    }

    /// Visits the chunks at those places, as far as there are any.
    fn visit_places(
        &self,
        places: &[ItemPointer],
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ReadError<StoreError>> {
        let mut tuples = self.toast.heap.reader();
        read_ahead(&self.toast.heap, places.iter().copied());
        for tid in places {
            if self.visit_place(&mut tuples, *tid, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    #[inline]
    fn visit_place(
        &self,
        tuples: &mut TupleReader<'_>,
        tid: ItemPointer,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ReadError<StoreError>> {
        // What has no tuple any more was dead to every snapshot.
        let tuple = tuples.tuple(tid).map_err(ReadError::Source)?;
        let Some(tuple) = tuple.filter(|tuple| !is_undone(tuple)) else {
            return Ok(ControlFlow::Continue(()));
        };
        match Chunk::parse(tuple, self.toast.width, Some(tid))? {
            Some(chunk) => Ok(visit(&chunk)),
            None => Ok(ControlFlow::Continue(())),
        }
    }
}

/// Has pages that are next to each other read by few system calls.
pub(super) fn read_ahead(heap: &Relation, tids: impl Iterator<Item = ItemPointer>) {
    let prefetch = |run: Range<u32>| {
        // One alone is read when it is asked for.
        if run.len() > 1 {
            heap.prefetch(run);
        }
    };
    let mut run = 0..0;
    for block in tids.map(|tid| tid.block.get()) {
        if block == run.end && !run.is_empty() {
            run.end = block.saturating_add(1);
        } else if !run.contains(&block) {
            prefetch(run);
            run = block..block.saturating_add(1);
        }
    }
    prefetch(run);
}

/// Whether a hint says that the chunk's transaction was undone. Whoever sees the row may read its chunks,
/// whatever else their headers say.
#[inline]
#[doc(alias = "HeapTupleSatisfiesToast")]
pub(super) fn is_undone(tuple: &[u8]) -> bool {
    HeapTuple::new(tuple).is_ok_and(|tuple| {
        let infomask = tuple.header().infomask();
        infomask.intersection(Infomask::XMIN_FROZEN) == Infomask::XMIN_INVALID
    })
}

impl ChunkSource for ChunkReader<'_> {
    type Error = StoreError;

    fn order(&self) -> ChunkOrder {
        ChunkOrder::Index
    }

    fn visit(
        &mut self,
        key: ValueKey,
        chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<StoreError>> {
        if key.toast_rel_id != self.toast.oid() || chunks.is_empty() {
            return Ok(());
        }
        // Of a whole value every chunk there is, so that none too many goes unnoticed.
        let is_whole = chunks == (0..u32::MAX);
        let last = i32::try_from(chunks.end - 1).unwrap_or(i32::MAX);
        let first = i32::try_from(chunks.start).unwrap_or(i32::MAX);
        let mut next = if is_whole { i32::MIN } else { first };
        let mut places = SmallVec::<[ItemPointer; BATCH]>::new();
        loop {
            places.clear();
            let range = Key::new(key.value_id, next)..=Key::new(key.value_id, last);
            let mut reached = next;
            let read = self.toast.index.visit(range, |entry, tid| {
                places.push(tid);
                reached = entry.chunk_seq;
                if places.len() < BATCH {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            read.map_err(|error| ReadError::Source(self.toast.index_error(error)))?;
            if self.visit_places(&places, visit)?.is_break()
                || places.len() < BATCH
                || reached >= last
            {
                return Ok(());
            }
            next = reached + 1;
        }
    }
}
