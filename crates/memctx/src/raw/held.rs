//! Chunks that are held by value: valid as long as their context is of the epoch they were taken in.
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::{Chunk, Cohort, Cohorts, Context, Kind, MAX_ALLOC, MemoryError, ReturnsChunks};

/// Where a chunk is, and for how many bytes it was taken.
#[derive(Debug)]
pub(crate) struct HeldChunk {
    start: NonNull<u8>,
    len: u32,
}

// SAFETY: the memory belongs to whoever holds this, and nothing about it is of a thread. It is reached
// only with the context at hand.
unsafe impl Send for HeldChunk {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for HeldChunk {}

impl HeldChunk {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    fn slice(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.start, self.len())
    }
}

impl<K: Kind> Context<'_, K> {
    /// A chunk with those bytes, to be held by value.
    ///
    /// # Errors
    /// As for [`Self::alloc`].
    #[inline]
    pub fn take(&self, bytes: &[u8]) -> Result<Chunk<K>, MemoryError> {
        let len = held_len(bytes.len())?;
        self.filled(self.engine().allocate(bytes.len())?, bytes, len)
    }

    /// A chunk of so many zeros, to be held by value.
    ///
    /// # Errors
    /// As for [`Self::alloc`].
    pub fn take_zeroed(&self, len: usize) -> Result<Chunk<K>, MemoryError> {
        let held = held_len(len)?;
        let start = self.engine().allocate(len)?;
        // SAFETY: the chunk has at least so many bytes, and is nobody else's.
        unsafe { start.write_bytes(0, len) };
        Ok(self.held(HeldChunk { start, len: held }))
    }

    /// What is in a chunk.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`].
    #[inline]
    pub fn bytes<'a>(&'a self, chunk: &'a Chunk<K>) -> Result<&'a [u8], MemoryError> {
        self.check(chunk)?;
        // SAFETY: it lives, and as long as the context is borrowed and the chunk is not given back, which
        // takes it by value. All its bytes were written when it was taken, and nobody else reaches them.
        Ok(unsafe { chunk.held.slice().as_ref() })
    }

    /// What is in a chunk, to be changed.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`].
    #[inline]
    pub fn bytes_mut<'a>(&'a self, chunk: &'a mut Chunk<K>) -> Result<&'a mut [u8], MemoryError> {
        self.check(chunk)?;
        // SAFETY: as in `bytes`; and the chunk is borrowed for as long, so there is no other such slice.
        Ok(unsafe { chunk.held.slice().as_mut() })
    }

    /// Gives a chunk back.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`]; then nothing happens.
    #[doc(alias = "pfree")]
    #[inline]
    pub fn give_back(&self, chunk: Chunk<K>) -> Result<(), MemoryError>
    where
        K: ReturnsChunks,
    {
        self.check(&chunk)?;
        // SAFETY: it lives and is of this engine, with this size; it cannot be given back twice as it is
        // given by value, and no slice of it is borrowed.
        unsafe { self.engine().free(chunk.held.start, chunk.len()) };
        Ok(())
    }

    /// Copies bytes into a new chunk.
    #[inline]
    fn filled(&self, start: NonNull<u8>, bytes: &[u8], len: u32) -> Result<Chunk<K>, MemoryError> {
        debug_assert_eq!(bytes.len(), len as usize);
        let source = NonNull::from(bytes).cast::<u8>();
        // SAFETY: the chunk was asked for with this size, and is nobody else's, so they do not overlap.
        unsafe { source.copy_to_nonoverlapping(start, bytes.len()) };
        Ok(self.held(HeldChunk { start, len }))
    }

    #[inline]
    fn held(&self, held: HeldChunk) -> Chunk<K> {
        Chunk { held, epoch: self.epoch(), kind: PhantomData }
    }

    /// Whether a chunk is one of this context's that live.
    #[inline]
    fn check(&self, chunk: &Chunk<K>) -> Result<(), MemoryError> {
        if chunk.epoch == self.epoch() || self.engine().knows_epoch(chunk.epoch) {
            Ok(())
        } else {
            Err(MemoryError::Foreign)
        }
    }
}

impl Context<'_, Cohorts> {
    /// A chunk with those bytes, beside others of its cohort.
    ///
    /// # Errors
    /// As for [`Self::alloc`]; [`MemoryError::Foreign`] for a cohort that has memory of its own in another
    /// context, or had it before a reset.
    #[inline]
    pub fn take_for(
        &self,
        cohort: &mut Cohort,
        bytes: &[u8],
    ) -> Result<Chunk<Cohorts>, MemoryError> {
        let len = held_len(bytes.len())?;
        self.filled(self.engine().allocate_for(cohort, bytes.len())?, bytes, len)
    }
}

#[inline]
fn held_len(len: usize) -> Result<u32, MemoryError> {
    if len > MAX_ALLOC {
        return Err(MemoryError::TooLarge { requested: len, limit: MAX_ALLOC });
    }
    // The limit is below 2^32.
    Ok(u32::try_from(len).unwrap_or(u32::MAX))
}
