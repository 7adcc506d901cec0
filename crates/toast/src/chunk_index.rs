//! An index of chunks that were found without one.
use alloc::vec::Vec;
use core::convert::Infallible;
use core::ops::{ControlFlow, Range};

use crate::{Chunk, ChunkOrder, ChunkSource, ReadError, ValueKey};

/// The chunks of one TOAST relation whose pages are in memory, sorted by value and number: what its
/// B-tree would lead to, had it been asked. Made in one pass over the relation, with
/// [`page_chunks`](crate::page_chunks) for example.
///
/// It holds only references, and it is a [`ChunkSource`]. It cannot tell relations apart.
#[derive(Clone, Debug, Default)]
pub struct ChunkIndex<'a> {
    sorted: Vec<Chunk<'a>>,
}

impl<'a> ChunkIndex<'a> {
    /// Every chunk, of whichever value.
    #[must_use]
    pub fn chunks(&self) -> &[Chunk<'a>] {
        &self.sorted
    }
}

impl<'a> FromIterator<Chunk<'a>> for ChunkIndex<'a> {
    fn from_iter<I: IntoIterator<Item = Chunk<'a>>>(chunks: I) -> Self {
        let mut sorted: Vec<_> = chunks.into_iter().collect();
        sorted.sort_by_key(|chunk| (chunk.value_id, chunk.seq));
        Self { sorted }
    }
}

impl ChunkSource for ChunkIndex<'_> {
    type Error = Infallible;

    fn order(&self) -> ChunkOrder {
        ChunkOrder::Index
    }

    fn visit(
        &mut self,
        key: ValueKey,
        chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<Infallible>> {
        let wanted = (key.value_id, i64::from(chunks.start));
        let from = self.sorted.partition_point(|c| (c.value_id, i64::from(c.seq)) < wanted);
        for chunk in &self.sorted[from..] {
            let is_wanted =
                chunk.value_id == key.value_id && i64::from(chunk.seq) < i64::from(chunks.end);
            if !is_wanted || visit(chunk).is_break() {
                break;
            }
        }
        Ok(())
    }
}
