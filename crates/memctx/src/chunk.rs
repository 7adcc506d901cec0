use core::marker::PhantomData;

use crate::raw::HeldChunk;

/// A chunk held by value, for structures that own their contexts: without a lifetime, and opened only
/// with the context at hand.
///
/// It cannot be copied, and giving it back takes it, so it is never freed twice. It remembers the epoch
/// of its context, so one from before a reset, or from another context, is refused:
///
/// ```
/// let mut context = pgtoast_memctx::root("Tuples").cohorts()?;
/// let chunk = context.take(b"a row")?;
/// assert_eq!(context.bytes(&chunk)?, b"a row");
/// context.reset();
/// assert!(context.bytes(&chunk).is_err());
/// # Ok::<(), pgtoast_memctx::MemoryError>(())
/// ```
///
/// Dropping one gives nothing back: its memory stays until the context is reset. What its kind cannot
/// do with it, does not compile:
///
/// ```compile_fail,E0277
/// let bump = pgtoast_memctx::root("Row").bump(pgtoast_memctx::BlockSizes::DEFAULT)?;
/// let chunk = bump.take(b"a row")?;
/// bump.give_back(chunk)?;
/// # Ok::<(), pgtoast_memctx::MemoryError>(())
/// ```
#[derive(Debug)]
#[must_use = "its memory stays until the context is reset, unless it is given back"]
pub struct Chunk<K> {
    pub(crate) held: HeldChunk,
    pub(crate) epoch: u64,
    pub(crate) kind: PhantomData<fn(&K)>,
}

impl<K> Chunk<K> {
    /// Bytes that it was taken for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether it was taken for none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
