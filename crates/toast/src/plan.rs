//! Which chunks a value has, which of them a read needs, and where their bytes belong.
//!
//! ```text
//! stored value    |---- 0 ----|---- 1 ----|---- 2 ----|- 3 -|      every chunk but the last is full
//! wanted                  offset|=============|offset + len
//! target                        |= 1 =|== 2 ==|                    first = 1, last = 2
//! ```
use core::ops::Range;

use pgtoast_base::{ItemPointer, Oid8};
use pgtoast_varlena::ToastPointer;

#[cfg(feature = "alloc")]
use crate::ChunkOrder;
#[cfg(feature = "alloc")]
use crate::seen::Seen;
use crate::{Chunk, ChunkSize, ToastError};

/// A read of some or all stored bytes of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlan {
    value_id: Oid8,
    stored_len: usize,
    chunk_size: ChunkSize,
    chunk_count: u32,
    wanted_start: usize,
    wanted_end: usize,
}

impl ChunkPlan {
    /// Every stored byte of the value that `pointer` points to.
    ///
    /// # Errors
    /// [`ToastError::Direct`] if it points to a direct value.
    pub fn new(pointer: &ToastPointer, chunk_size: ChunkSize) -> Result<Self, ToastError> {
        let value_id = pointer.value_id().ok_or(ToastError::Direct)?;
        let stored_len = pointer.stored_len();
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^30 - 1 bytes are stored")]
        let chunk_count = stored_len.div_ceil(chunk_size.bytes()) as u32;
        let (wanted_start, wanted_end) = (0, stored_len);
        Ok(Self { value_id, stored_len, chunk_size, chunk_count, wanted_start, wanted_end })
    }

    /// Of the same value `len` stored bytes from `offset` on; fewer or none where it ends before.
    #[must_use]
    pub fn slice(mut self, offset: usize, len: usize) -> Self {
        self.wanted_start = offset.min(self.stored_len);
        self.wanted_end = offset.saturating_add(len).min(self.stored_len);
        self
    }

    /// The value.
    #[must_use]
    pub const fn value_id(&self) -> Oid8 {
        self.value_id
    }

    /// How many bytes it reads.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.wanted_end - self.wanted_start
    }

    /// Whether it reads nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many chunks the whole value has.
    #[must_use]
    pub const fn chunk_count(&self) -> u32 {
        self.chunk_count
    }

    /// The chunks it needs: `first..last + 1`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 2^30 - 1 bytes are stored")]
    pub const fn chunks(&self) -> Range<u32> {
        if self.is_empty() {
            return 0..0;
        }
        let size = self.chunk_size.bytes();
        (self.wanted_start / size) as u32..self.wanted_end.div_ceil(size) as u32
    }

    /// How many bytes chunk `chunk` must have; it is one of the value's.
    const fn expected_len(&self, chunk: usize) -> usize {
        let (start, size) = (chunk * self.chunk_size.bytes(), self.chunk_size.bytes());
        if self.stored_len - start < size { self.stored_len - start } else { size }
    }

    /// Checks `chunk` against the value it should be a piece of: its turn, whose it is, its number, its
    /// size, and whether it has come before. `None` for a sound chunk that is not needed.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) fn admit<'a>(
        &self,
        chunk: &Chunk<'a>,
        order: ChunkOrder,
        seen: &mut Seen,
    ) -> Result<Option<Placed<'a>>, ToastError> {
        if order == ChunkOrder::Index {
            self.check_next(chunk, seen.next_in_order())?;
        }
        let Some(placed) = self.place(chunk)? else { return Ok(None) };
        if !seen.mark(placed.number) {
            return Err(self.out_of_turn(chunk.seq, placed.number + 1, chunk.tid));
        }
        Ok(Some(placed))
    }

    /// Whether all needed chunks have come. `tid_of` knows where some of those that did were.
    #[cfg(feature = "alloc")]
    pub(crate) fn check_complete(
        &self,
        seen: &Seen,
        tid_of: impl Fn(u32) -> Option<ItemPointer>,
    ) -> Result<(), ToastError> {
        match seen.hole() {
            None => Ok(()),
            #[expect(clippy::cast_possible_wrap, reason = "a value has less than 2^30 chunks")]
            Some((hole, Some(behind))) => {
                Err(self.out_of_turn(behind as i32, hole, tid_of(behind)))
            }
            Some((hole, None)) => Err(self.missing(hole)),
        }
    }

    /// The wanted part of a chunk, and where in the target it belongs; `None` if nothing of it is wanted.
    /// For who knows by an index that each chunk comes once: that is not looked at here.
    ///
    /// # Errors
    /// [`ToastError::ChunkValue`], [`ChunkOutOfRange`](ToastError::ChunkOutOfRange),
    /// [`ChunkSize`](ToastError::ChunkSize).
    #[inline]
    pub fn place_of<'a>(&self, chunk: &Chunk<'a>) -> Result<Option<(usize, &'a [u8])>, ToastError> {
        Ok(self.place(chunk)?.map(|placed| (placed.at, placed.data)))
    }

    #[inline]
    fn place<'a>(&self, chunk: &Chunk<'a>) -> Result<Option<Placed<'a>>, ToastError> {
        if chunk.value_id != self.value_id {
            return Err(self.other_value(chunk));
        }
        let number = match u32::try_from(chunk.seq) {
            Ok(number) if number < self.chunk_count => number,
            _ => return Err(self.out_of_range(chunk, &(0..self.chunk_count))),
        };
        if chunk.data.len() != self.expected_len(number as usize) {
            return Err(self.bad_size(chunk, number));
        }
        let start = number as usize * self.chunk_size.bytes();
        let end = start + chunk.data.len();
        let (from, to) = (start.max(self.wanted_start), end.min(self.wanted_end));
        if from >= to {
            return Ok(None);
        }
        let data = &chunk.data[from - start..to - start];
        Ok(Some(Placed { number, data, at: from - self.wanted_start }))
    }

    /// In index order: whether `chunk` is the `expected` one. The server asks this first, too.
    fn check_next(&self, chunk: &Chunk<'_>, expected: Option<u32>) -> Result<(), ToastError> {
        let Some(expected) = expected else { return Ok(()) };
        if u32::try_from(chunk.seq) != Ok(expected) {
            return Err(self.out_of_turn(chunk.seq, expected, chunk.tid));
        }
        let chunks = self.chunks();
        if expected >= chunks.end {
            return Err(self.out_of_range(chunk, &chunks));
        }
        Ok(())
    }

    /// Where in the target the wanted part of a needed chunk belongs.
    pub(crate) fn target_range(&self, number: u32) -> Range<usize> {
        let start = number as usize * self.chunk_size.bytes();
        let end = start + self.expected_len(number as usize);
        start.max(self.wanted_start) - self.wanted_start
            ..end.min(self.wanted_end) - self.wanted_start
    }

    #[cold]
    fn out_of_turn(&self, found: i32, expected: u32, tid: Option<ItemPointer>) -> ToastError {
        ToastError::ChunkNumber { value_id: self.value_id, found, expected, tid }
    }

    #[cold]
    fn other_value(&self, chunk: &Chunk<'_>) -> ToastError {
        let (found, expected) = (chunk.value_id, self.value_id);
        ToastError::ChunkValue { found, expected, tid: chunk.tid }
    }

    #[cold]
    fn bad_size(&self, chunk: &Chunk<'_>, number: u32) -> ToastError {
        ToastError::ChunkSize {
            value_id: self.value_id,
            chunk: number,
            chunk_count: self.chunk_count,
            found: chunk.data.len(),
            expected: self.expected_len(number as usize),
            tid: chunk.tid,
        }
    }

    #[cold]
    fn out_of_range(&self, chunk: &Chunk<'_>, chunks: &Range<u32>) -> ToastError {
        ToastError::ChunkOutOfRange {
            value_id: self.value_id,
            found: chunk.seq,
            first: chunks.start,
            last: chunks.end.saturating_sub(1),
            tid: chunk.tid,
        }
    }

    #[cold]
    fn missing(&self, chunk: u32) -> ToastError {
        let (value_id, chunk_count) = (self.value_id, self.chunk_count());
        ToastError::MissingChunk { value_id, chunk, chunk_count }
    }
}

/// The needed part of a chunk, and where in the target it belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) number: u32,
    pub(crate) data: &'a [u8],
    pub(crate) at: usize,
}
