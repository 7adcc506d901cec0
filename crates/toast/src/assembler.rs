//! Chunk after chunk to its place.
use alloc::vec::Vec;
use core::ops::Range;

use crate::{Chunk, ChunkOrder, ChunkPlan, ToastError};

/// Puts the chunks of one value together in a buffer of the caller's, in whatever order they come.
///
/// It holds no bytes of the value, so any number of them can be under way in one pass over a
/// relation, each chunk copied once from its page to its place. While chunks come in the order of
/// their numbers it is a counter; from the first that does not it keeps one bit a chunk.
///
/// After an error the value is lost and the buffer's content means nothing. What the faults of a value
/// are does not depend on the order of its chunks, but which of several is found first does.
#[derive(Clone, Debug)]
pub struct Assembler {
    plan: ChunkPlan,
    order: ChunkOrder,
    chunks: Range<u32>,
    seen: Seen,
}

/// Which of the plan's chunks have come.
#[derive(Clone, Debug)]
enum Seen {
    /// All below this one, and no other.
    Below(u32),
    /// Those with a bit, counted from the plan's first chunk; `missing` have none.
    Bits { bits: Vec<u64>, missing: u32 },
}

impl Assembler {
    /// To read what `plan` says.
    #[must_use]
    pub fn new(plan: ChunkPlan, order: ChunkOrder) -> Self {
        let chunks = plan.chunks();
        Self { plan, order, seen: Seen::Below(chunks.start), chunks }
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
        if let (ChunkOrder::Index, Seen::Below(expected)) = (self.order, &self.seen) {
            self.plan.check_next(chunk, *expected)?;
        }
        if let Some(placed) = self.plan.place(chunk)? {
            if !self.mark(placed.number) {
                return Err(self.plan.out_of_turn(chunk.seq, placed.number + 1, chunk.tid));
            }
            target[placed.at..placed.at + placed.data.len()].copy_from_slice(placed.data);
        }
        Ok(())
    }

    /// Whether every chunk has come.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        match &self.seen {
            Seen::Below(next) => *next >= self.chunks.end,
            Seen::Bits { missing, .. } => *missing == 0,
        }
    }

    /// Says that no more chunks will come: the buffer now holds what was to be read, or it does not.
    ///
    /// # Errors
    /// [`ToastError::ChunkNumber`] for a hole with chunks behind it, and
    /// [`MissingChunk`](ToastError::MissingChunk) for one without.
    pub fn finish(&self) -> Result<(), ToastError> {
        if self.is_complete() {
            return Ok(());
        }
        let came = |number: &u32| self.has(*number);
        let hole = self.chunks.clone().find(|number| !came(number)).unwrap_or(self.chunks.end);
        match (hole..self.chunks.end).find(came) {
            #[expect(clippy::cast_possible_wrap, reason = "a value has less than 2^30 chunks")]
            Some(behind) => Err(self.plan.out_of_turn(behind as i32, hole, None)),
            None => Err(self.plan.missing(hole)),
        }
    }

    /// Notes that a chunk of the plan has come; `false` if it has before.
    #[inline]
    pub(crate) fn mark(&mut self, number: u32) -> bool {
        if let Seen::Below(next) = &mut self.seen {
            if number == *next {
                *next += 1;
                return true;
            }
            if number < *next {
                return false;
            }
            self.start_bits();
        }
        let Seen::Bits { bits, missing } = &mut self.seen else { return false };
        let (word, bit) = bit_of(number - self.chunks.start);
        let is_new = bits[word] & bit == 0;
        bits[word] |= bit;
        *missing -= u32::from(is_new);
        is_new
    }

    fn has(&self, number: u32) -> bool {
        match &self.seen {
            Seen::Below(next) => number < *next,
            Seen::Bits { bits, .. } => {
                let (word, bit) = bit_of(number - self.chunks.start);
                bits[word] & bit != 0
            }
        }
    }

    /// Turns the counter into bits. The caller has made a buffer for the chunks they stand for.
    fn start_bits(&mut self) {
        let Seen::Below(next) = self.seen else { return };
        let (count, done) = (self.chunks.len(), (next - self.chunks.start) as usize);
        let mut bits = alloc::vec![0_u64; count.div_ceil(64)];
        bits[..done / 64].fill(u64::MAX);
        if done % 64 != 0 {
            bits[done / 64] = (1 << (done % 64)) - 1;
        }
        self.seen = Seen::Bits { bits, missing: self.chunks.end - next };
    }
}

/// Where the bit of a chunk is, counted from the first one.
fn bit_of(index: u32) -> (usize, u64) {
    ((index / 64) as usize, 1 << (index % 64))
}
