//! Where chunks come from.
use core::ops::{ControlFlow, Range};

use pgtoast_base::{Oid, Oid8};
use pgtoast_varlena::ToastPointer;

use crate::{Chunk, ChunkSize, ReadError, ToastError};

/// Names a value: its id, which is unique in its TOAST relation only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueKey {
    /// The TOAST relation.
    pub toast_rel_id: Oid,
    /// The value.
    pub value_id: Oid8,
}

impl ValueKey {
    /// The value that `pointer` points to.
    ///
    /// # Errors
    /// [`ToastError::Direct`] if it points to a direct value.
    pub fn of(pointer: &ToastPointer) -> Result<Self, ToastError> {
        let value_id = pointer.value_id().ok_or(ToastError::Direct)?;
        Ok(Self { toast_rel_id: pointer.toast_rel_id(), value_id })
    }
}

/// How a source orders the chunks of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkOrder {
    /// By `chunk_seq`, as an index gives them, and none that was not asked for. Then a chunk whose
    /// number is not the next one is broken, and what two chunks with swapped numbers make is an error.
    Index,
    /// As they lie in the relation, or in any other way. Then only the numbers say what belongs where.
    Any,
}

/// Finds the chunks of a value: an index scan, a walk over a relation's pages, a map.
pub trait ChunkSource {
    /// What can go wrong besides the chunks themselves.
    type Error;

    /// How [`visit`](Self::visit) orders chunks.
    fn order(&self) -> ChunkOrder {
        ChunkOrder::Any
    }

    /// Calls `visit` with every chunk of value `key` whose number is in `chunks`, until it breaks.
    /// In any order it may pass other chunks of the value along; they are checked and left.
    ///
    /// For a whole value it is asked for all numbers there are, more than the value should have.
    ///
    /// No chunk at all is no error here: the caller knows how many there must be.
    ///
    /// # Errors
    /// Its own, or what [`Chunk::parse`] finds.
    fn visit(
        &mut self,
        key: ValueKey,
        chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<Self::Error>>;
}

impl<S: ChunkSource + ?Sized> ChunkSource for &mut S {
    type Error = S::Error;

    fn order(&self) -> ChunkOrder {
        (**self).order()
    }

    fn visit(
        &mut self,
        key: ValueKey,
        chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<Self::Error>> {
        (**self).visit(key, chunks, visit)
    }
}

/// Visits `chunks` of `key` until `accept` finds fault with one. A source that goes on afterwards finds
/// deaf ears.
pub(crate) fn visit_checked<S: ChunkSource>(
    source: &mut S,
    key: ValueKey,
    chunks: Range<u32>,
    mut accept: impl FnMut(&Chunk<'_>) -> Result<(), ToastError>,
) -> Result<(), ReadError<S::Error>> {
    let mut verdict = Ok(());
    source.visit(key, chunks, &mut |chunk| {
        if verdict.is_ok() {
            verdict = accept(chunk);
        }
        if verdict.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(verdict?)
}

/// The chunk size of the relation that `pointer` points into, told from the value itself: chunk 0 is
/// full if there is a chunk 1. `None` for a value of one chunk, which any size fits.
///
/// # Errors
/// [`ToastError::Direct`]; whatever the source says. A chunk 0 without a byte gives `None`.
pub fn infer_chunk_size<S: ChunkSource>(
    source: &mut S,
    pointer: &ToastPointer,
) -> Result<Option<ChunkSize>, ReadError<S::Error>> {
    let (mut first_len, mut is_followed) = (None, false);
    source.visit(ValueKey::of(pointer)?, 0..2, &mut |chunk| {
        match chunk.seq {
            0 => first_len = Some(chunk.data.len()),
            1 => is_followed = true,
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(if is_followed { first_len.and_then(ChunkSize::new) } else { None })
}
