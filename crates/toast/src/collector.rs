//! Chunks into a vector that grows no faster than they come.
use alloc::vec::Vec;

use pgtoast_base::ItemPointer;

use crate::{Assembler, Chunk, ChunkOrder, ChunkPlan, ToastError};

/// Puts the chunks of one value together in a vector of its own.
///
/// A pointer can claim a gigabyte and a chunk can claim to be its last one, so neither decides how
/// much memory is taken: bytes are kept in the order they come. If that was not the order of their
/// numbers they are moved to their places at the end, once all have turned out to be there. Where the
/// buffer is there anyhow, an [`Assembler`] is for free.
#[derive(Clone, Debug)]
pub struct Collector {
    plan: ChunkPlan,
    order: ChunkOrder,
    /// The wanted parts of the chunks that came, back to back.
    bytes: Vec<u8>,
    /// Their numbers: from the plan's first to below this one, and then
    next: u32,
    /// these.
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
        Self { plan, order, bytes: buffer, next: plan.chunks().start, others: Vec::new() }
    }

    /// What is being read.
    #[must_use]
    pub const fn plan(&self) -> &ChunkPlan {
        &self.plan
    }

    /// Whether as many chunks have come as there should be; [`finish`](Self::finish) says whether they
    /// are the right ones.
    #[inline]
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.bytes.len() == self.plan.len()
    }

    /// Takes a chunk in. In any order, sound chunks that the plan has no need for are left.
    ///
    /// # Errors
    /// [`ToastError::ChunkValue`], [`ChunkOutOfRange`](ToastError::ChunkOutOfRange),
    /// [`ChunkNumber`](ToastError::ChunkNumber), [`ChunkSize`](ToastError::ChunkSize). A chunk that
    /// comes twice may only be noticed by [`finish`](Self::finish).
    #[inline]
    pub fn accept(&mut self, chunk: &Chunk<'_>) -> Result<(), ToastError> {
        if self.order == ChunkOrder::Index {
            self.plan.check_next(chunk, self.next)?;
        }
        let Some(placed) = self.plan.place(chunk)? else { return Ok(()) };
        if placed.number == self.next && self.others.is_empty() {
            self.next += 1;
        } else {
            self.others.push(Arrival { number: placed.number, tid: chunk.tid });
        }
        self.bytes.extend_from_slice(placed.data);
        if self.bytes.len() > self.plan.len() {
            return Err(self.fault());
        }
        Ok(())
    }

    /// Says that no more chunks will come, and gives what was to be read.
    ///
    /// # Errors
    /// [`ToastError::ChunkNumber`] for a hole with chunks behind it or a chunk that came twice, and
    /// [`MissingChunk`](ToastError::MissingChunk) for a hole at the end.
    pub fn finish(self) -> Result<Vec<u8>, ToastError> {
        let chunks = self.plan.chunks();
        let came = (self.next - chunks.start) as usize + self.others.len();
        if came != chunks.len() || self.bytes.len() != self.plan.len() {
            return Err(self.fault());
        }
        if self.others.is_empty() {
            return Ok(self.bytes);
        }
        // As many as there should be. If all are different every one of them is there.
        let mut target = alloc::vec![0; self.plan.len()];
        let mut seen = Assembler::new(self.plan, ChunkOrder::Any);
        let numbers = (chunks.start..self.next).chain(self.others.iter().map(|other| other.number));
        let mut rest = &self.bytes[..];
        for number in numbers {
            if !seen.mark(number) {
                return Err(self.fault());
            }
            let place = self.plan.target_range(number);
            let Some((data, behind)) = rest.split_at_checked(place.len()) else {
                return Err(self.fault());
            };
            target[place].copy_from_slice(data);
            rest = behind;
        }
        Ok(target)
    }

    /// The first thing wrong with the chunks that came, as an index scan would have met it.
    #[cold]
    fn fault(&self) -> ToastError {
        let mut others = self.others.clone();
        others.sort_by_key(|other| other.number);
        let mut expected = self.next;
        for other in others {
            if other.number != expected {
                // A smaller number has come before, and the one behind it should have followed.
                let expected = expected.min(other.number + 1);
                #[expect(
                    clippy::cast_possible_wrap,
                    reason = "a value has less than 2^30 chunks"
                )]
                return self.plan.out_of_turn(other.number as i32, expected, other.tid);
            }
            expected += 1;
        }
        self.plan.missing(expected)
    }
}
