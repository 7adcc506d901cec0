//! Chunks into a vector that grows no faster than they come.
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use pgtoast_base::ItemPointer;

use crate::seen::Seen;
use crate::{Chunk, ChunkOrder, ChunkPlan, ToastError};

/// Puts the chunks of one value together in a vector of its own.
///
/// A pointer can claim a gigabyte and a chunk can claim to be its last one, so neither decides how
/// much memory is taken. The next chunk in the order of numbers is appended; one that comes before its
/// turn is kept aside until then. So of a value whose last chunk was put into a gap on an earlier page,
/// that chunk alone is copied twice.
#[derive(Clone, Debug)]
pub struct Collector {
    plan: ChunkPlan,
    order: ChunkOrder,
    seen: Seen,
    /// What is wanted of all chunks below `next`.
    bytes: Vec<u8>,
    next: u32,
    /// Those that came before their turn, and where their bytes are in `early_bytes`.
    early: BTreeMap<u32, Early>,
    early_bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Early {
    bytes: Range<usize>,
    tid: Option<ItemPointer>,
}

impl Collector {
    /// To read what `plan` says.
    #[must_use]
    pub fn new(plan: ChunkPlan, order: ChunkOrder) -> Self {
        Self::with_buffer(plan, order, Vec::new())
    }

    /// As [`new`](Self::new), with the memory of a vector whose content is not needed any more.
    #[must_use]
    pub fn with_buffer(plan: ChunkPlan, order: ChunkOrder, mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        let (seen, next) = (Seen::new(plan.chunks()), plan.chunks().start);
        let (early, early_bytes) = (BTreeMap::new(), Vec::new());
        Self { plan, order, seen, bytes: buffer, next, early, early_bytes }
    }

    /// What is being read.
    #[must_use]
    pub const fn plan(&self) -> &ChunkPlan {
        &self.plan
    }

    /// Whether every chunk has come.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.seen.is_complete()
    }

    /// Takes a chunk in. In any order, sound chunks that the plan has no need for are left.
    ///
    /// # Errors
    /// [`ToastError::ChunkValue`], [`ChunkOutOfRange`](ToastError::ChunkOutOfRange),
    /// [`ChunkNumber`](ToastError::ChunkNumber), [`ChunkSize`](ToastError::ChunkSize).
    #[inline]
    pub fn accept(&mut self, chunk: &Chunk<'_>) -> Result<(), ToastError> {
        if let Some(placed) = self.plan.admit(chunk, self.order, &mut self.seen)? {
            if placed.number == self.next {
                self.bytes.extend_from_slice(placed.data);
                self.next += 1;
                if !self.early.is_empty() {
                    self.append_early();
                }
            } else {
                let start = self.early_bytes.len();
                self.early_bytes.extend_from_slice(placed.data);
                let bytes = start..self.early_bytes.len();
                self.early.insert(placed.number, Early { bytes, tid: chunk.tid });
            }
        }
        Ok(())
    }

    /// Appends those whose turn it is now.
    fn append_early(&mut self) {
        while let Some(early) = self.early.remove(&self.next) {
            self.bytes.extend_from_slice(&self.early_bytes[early.bytes]);
            self.next += 1;
        }
        if self.early.is_empty() {
            self.early_bytes.clear();
        }
    }

    /// The chunks that came, if the plan is for a whole value. Where they were is known of some.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = Chunk<'_>> {
        let chunk = |number: u32, data, tid| {
            #[expect(clippy::cast_possible_wrap, reason = "a value has less than 2^30 chunks")]
            let seq = number as i32;
            Chunk { value_id: self.plan.value_id(), seq, data, tid }
        };
        let in_turn = (self.plan.chunks().start..self.next)
            .map(move |number| chunk(number, &self.bytes[self.plan.target_range(number)], None));
        in_turn.chain(self.early.iter().map(move |(number, early)| {
            chunk(*number, &self.early_bytes[early.bytes.clone()], early.tid)
        }))
    }

    /// Says that no more chunks will come, and gives what was to be read.
    ///
    /// # Errors
    /// [`ToastError::ChunkNumber`] for a hole with chunks behind it, and
    /// [`MissingChunk`](ToastError::MissingChunk) for one without.
    pub fn finish(self) -> Result<Vec<u8>, ToastError> {
        self.plan.check_complete(&self.seen, |number| self.early.get(&number)?.tid)?;
        // The turn of each has come, of those before their turn too.
        Ok(self.bytes)
    }
}
