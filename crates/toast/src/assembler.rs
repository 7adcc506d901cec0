//! Chunk after chunk to its place.
use crate::seen::Seen;
use crate::{Chunk, ChunkOrder, ChunkPlan, ToastError};

/// Puts the chunks of one value together in a buffer of the caller's, in whatever order they come.
///
/// It holds no bytes of the value, so any number of them can be under way in one pass over a
/// relation, each chunk copied once from its page to its place. While chunks come in the order of
/// their numbers it is a counter, and a few bits a chunk afterwards.
///
/// After an error the value is lost and the buffer's content means nothing. Whether a value is at
/// fault does not depend on the order of its chunks, but which of several faults is found first does.
#[derive(Clone, Debug)]
pub struct Assembler {
    plan: ChunkPlan,
    order: ChunkOrder,
    seen: Seen,
}

impl Assembler {
    /// To read what `plan` says.
    #[must_use]
    pub const fn new(plan: ChunkPlan, order: ChunkOrder) -> Self {
        Self { plan, order, seen: Seen::new(plan.chunks()) }
    }

    /// What is being read.
    #[must_use]
    pub const fn plan(&self) -> &ChunkPlan {
        &self.plan
    }

    /// Copies a chunk to its place in `target`, which is the same buffer each time, of
    /// [`ChunkPlan::len`] bytes. In any order, sound chunks that the plan has no need for are left.
    ///
    /// # Errors
    /// [`ToastError::ChunkValue`], [`ChunkOutOfRange`](ToastError::ChunkOutOfRange),
    /// [`ChunkNumber`](ToastError::ChunkNumber), [`ChunkSize`](ToastError::ChunkSize);
    /// [`TargetLength`](ToastError::TargetLength) for a buffer of another length.
    #[inline]
    pub fn accept(&mut self, chunk: &Chunk<'_>, target: &mut [u8]) -> Result<(), ToastError> {
        if target.len() != self.plan.len() {
            let (found, expected) = (target.len(), self.plan.len());
            return Err(ToastError::TargetLength { found, expected });
        }
        if let Some(placed) = self.plan.admit(chunk, self.order, &mut self.seen)? {
            target[placed.at..placed.at + placed.data.len()].copy_from_slice(placed.data);
        }
        Ok(())
    }

    /// Whether every chunk has come.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.seen.is_complete()
    }

    /// Says that no more chunks will come: the buffer now holds what was to be read, or it does not.
    ///
    /// # Errors
    /// [`ToastError::ChunkNumber`] for a hole with chunks behind it, and
    /// [`MissingChunk`](ToastError::MissingChunk) for one without.
    pub fn finish(&self) -> Result<(), ToastError> {
        self.plan.check_complete(&self.seen, |_| None)
    }
}
