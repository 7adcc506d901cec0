//! Chunks into a vector that grows no faster than they come.
use alloc::vec::Vec;

use pgtoast_base::ItemPointer;

use crate::seen::Seen;
use crate::{Chunk, ChunkOrder, ChunkPlan, ToastError};

/// Puts the chunks of one value together in a vector of its own.
///
/// A pointer can claim a gigabyte and a chunk can claim to be its last one, so neither decides how
/// much memory is taken: bytes are kept in the order they come. If that was not the order of their
/// numbers they are moved to their places at the end, once all have turned out to be there. Where the
/// buffer is there anyhow, an [`Assembler`](crate::Assembler) is for free.
#[derive(Clone, Debug)]
pub struct Collector {
    plan: ChunkPlan,
    order: ChunkOrder,
    seen: Seen,
    /// The wanted parts of the chunks that came, back to back.
    bytes: Vec<u8>,
    /// How many of those are in order, and what came behind them.
    in_order_bytes: usize,
    others: Vec<Arrival>,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    number: u32,
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
        let seen = Seen::new(plan.chunks());
        Self { plan, order, seen, bytes: buffer, in_order_bytes: 0, others: Vec::new() }
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
            self.bytes.extend_from_slice(placed.data);
            if self.seen.next_in_order().is_some() {
                self.in_order_bytes = self.bytes.len();
            } else {
                self.others.push(Arrival { number: placed.number, tid: chunk.tid });
            }
        }
        Ok(())
    }

    /// Says that no more chunks will come, and gives what was to be read.
    ///
    /// # Errors
    /// [`ToastError::ChunkNumber`] for a hole with chunks behind it, and
    /// [`MissingChunk`](ToastError::MissingChunk) for one without.
    pub fn finish(self) -> Result<Vec<u8>, ToastError> {
        let arrival_of = |number| self.others.iter().find(|other| other.number == number);
        self.plan.check_complete(&self.seen, |number| arrival_of(number)?.tid)?;
        if self.others.is_empty() {
            return Ok(self.bytes);
        }
        // Every one is there, once, so the bytes are as many as the target has.
        let mut target = alloc::vec![0; self.plan.len()];
        let (in_order, mut rest) = self.bytes.split_at(self.in_order_bytes);
        target[..in_order.len()].copy_from_slice(in_order);
        for other in &self.others {
            let place = self.plan.target_range(other.number);
            let (data, behind) = rest.split_at(place.len());
            target[place].copy_from_slice(data);
            rest = behind;
        }
        Ok(target)
    }
}
