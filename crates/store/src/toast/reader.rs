//! Chunks of a value, by the index.
//!
//! A piece of the index is read first: which chunks, and where. Then their pages, each latched once for all
//! its chunks that follow one another. No two latches are held at a time, and nothing is allocated.
use core::ops::{ControlFlow, Range};

use pgtoast_base::{ItemPointer, Oid8};
use pgtoast_nbtree::Key;
use pgtoast_page::{HeapTuple, Infomask};
use pgtoast_toast::{Chunk, ChunkOrder, ChunkSource, ReadError, ToastError, ValueKey};
use smallvec::SmallVec;

use super::ToastStore;
use crate::StoreError;
use crate::heap::TupleReader;

/// How many entries are read from the index at a time: half a megabyte of value.
const BATCH: usize = 256;

/// Reads the chunks of a TOAST relation, for someone who has a snapshot that sees their rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkReader<'a> {
    toast: &'a ToastStore,
    order: ChunkOrder,
}

impl<'a> ChunkReader<'a> {
    pub(crate) fn new(toast: &'a ToastStore) -> Self {
        Self { toast, order: ChunkOrder::Index }
    }

    /// The same, but chunks that follow one another in a page come as their bytes lie there: from the last
    /// one's on, which was put below the others. The processor foresees what is read then.
    pub(crate) fn by_place(toast: &'a ToastStore) -> Self {
        Self { toast, order: ChunkOrder::Any }
    }

    /// Visits the chunks at those places, as far as there are any.
    fn visit_places(
        &self,
        places: &[Place],
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ReadError<StoreError>> {
        let mut tuples = self.toast.heap.reader();
        read_ahead(&tuples, places);
        let mut visit_one = |place: &Place| self.visit_place(&mut tuples, *place, visit);
        for of_block in places.chunk_by(|one, other| one.tid.block == other.tid.block) {
            let flow = match self.order {
                ChunkOrder::Index => of_block.iter().try_for_each(&mut visit_one),
                ChunkOrder::Any => of_block.iter().rev().try_for_each(&mut visit_one),
            };
            match flow {
                Ok(()) => {}
                Err(Stop::Enough) => return Ok(ControlFlow::Break(())),
                Err(Stop::Failed(error)) => return Err(error),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    #[inline]
    fn visit_place(
        &self,
        tuples: &mut TupleReader<'_>,
        Place { number, tid }: Place,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        let failed = |error| Stop::Failed(ReadError::Source(error));
        // What has no tuple any more was dead to every snapshot.
        let tuple = tuples.tuple(tid).map_err(failed)?;
        let Some(tuple) = tuple.filter(|tuple| !is_undone(tuple)) else { return Ok(()) };
        let parsed = Chunk::parse(tuple, self.toast.width, Some(tid));
        let parsed = parsed.map_err(|error| Stop::Failed(error.into()))?;
        let Some(chunk) = parsed else { return Ok(()) };
        if self.order == ChunkOrder::Any && chunk.seq != number {
            // Where the order does not show it, the index does.
            let error = misplaced(chunk.value_id, Place { number: chunk.seq, tid }, number);
            return Err(Stop::Failed(error.into()));
        }
        if visit(&chunk).is_break() { Err(Stop::Enough) } else { Ok(()) }
    }
}

/// The error of a chunk that is not the one that is expected where it is.
#[cold]
fn misplaced(value_id: Oid8, found: Place, expected: i32) -> ToastError {
    let expected = u32::try_from(expected).unwrap_or_default();
    ToastError::ChunkNumber { value_id, found: found.number, expected, tid: Some(found.tid) }
}

/// An entry of the index.
#[derive(Clone, Copy)]
struct Place {
    number: i32,
    tid: ItemPointer,
}

/// Why no more chunks are visited.
enum Stop {
    Enough,
    Failed(ReadError<StoreError>),
}

/// Has pages that are next to each other read by few system calls.
fn read_ahead(tuples: &TupleReader<'_>, places: &[Place]) {
    let prefetch = |run: Range<u32>| {
        // One alone is read when it is asked for.
        if run.len() > 1 {
            tuples.prefetch(run);
        }
    };
    let mut run = 0..0;
    for block in places.iter().map(|place| place.tid.block.get()) {
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
#[doc(alias = "HeapTupleSatisfiesToast")]
fn is_undone(tuple: &[u8]) -> bool {
    HeapTuple::new(tuple).is_ok_and(|tuple| {
        let infomask = tuple.header().infomask();
        infomask.intersection(Infomask::XMIN_FROZEN) == Infomask::XMIN_INVALID
    })
}

impl ChunkSource for ChunkReader<'_> {
    type Error = StoreError;

    fn order(&self) -> ChunkOrder {
        self.order
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
        let mut places = SmallVec::<[Place; BATCH]>::new();
        loop {
            places.clear();
            let range = Key::new(key.value_id, next)..=Key::new(key.value_id, last);
            let mut reached = next;
            let read = self.toast.index.visit(range, |entry, tid| {
                places.push(Place { number: entry.chunk_seq, tid });
                reached = entry.chunk_seq;
                if places.len() < BATCH {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            read.map_err(|error| ReadError::Source(self.toast.index_error(error)))?;
            if self.order == ChunkOrder::Any
                && let Some(pair) = places.windows(2).find(|pair| pair[0].number >= pair[1].number)
            {
                return Err(
                    misplaced(key.value_id, pair[1], pair[0].number.saturating_add(1)).into()
                );
            }
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
