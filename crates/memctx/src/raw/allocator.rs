//! The allocator trait, and alignments that engines know nothing of.
use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use super::chunk_header::ChunkHeader;
use super::{Engine, LARGEST_ALIGN, MAXALIGN};
use crate::sizes::MAX_HUGE;
use crate::{Context, Kind, MemoryError};

/// Memory for a layout of any size and alignment.
#[inline]
pub(super) fn allocate<E: Engine>(
    engine: &E,
    size: usize,
    align: usize,
) -> Result<NonNull<u8>, MemoryError> {
    if align <= MAXALIGN {
        return engine.allocate(size);
    }
    allocate_aligned(engine, size, align)
}

#[cold]
fn allocate_aligned<E: Engine>(
    engine: &E,
    size: usize,
    align: usize,
) -> Result<NonNull<u8>, MemoryError> {
    // The address is moved up by less than the alignment, or by all of it so that the redirecting header
    // has its place.
    let extra = if E::REDIRECTS { align } else { align - MAXALIGN };
    let too_large = MemoryError::TooLarge { requested: size.max(align), limit: MAX_HUGE };
    if align > LARGEST_ALIGN {
        return Err(too_large);
    }
    let chunk = engine.allocate(size.checked_add(extra).ok_or(too_large)?)?;
    let least = if E::REDIRECTS { size_of::<ChunkHeader>() } else { 0 };
    let address = chunk.addr().get();
    let moved_by = (address + least).next_multiple_of(align) - address;
    debug_assert!(moved_by <= extra);
    // SAFETY: the chunk has `size + extra` bytes and this is at most `extra`: both numbers are multiples
    // of 8, and an address that is a multiple of 8 is less than `align` from the next aligned one.
    let moved = unsafe { chunk.add(moved_by) };
    if E::REDIRECTS {
        let header = ChunkHeader::new(ChunkHeader::REDIRECT, align.ilog2() as usize, moved_by);
        // SAFETY: the 8 bytes before are in the chunk, since it was moved up by that much at least.
        unsafe { header.put_before(moved) };
    }
    Ok(moved)
}

/// Takes back what [`allocate`] gave.
///
/// # Safety
/// It was allocated by this engine with this size and alignment, and was not freed.
#[inline]
unsafe fn free<E: Engine>(engine: &E, chunk: NonNull<u8>, size: usize, align: usize) {
    if align <= MAXALIGN {
        // SAFETY: this function's contract, and no extra was asked for.
        unsafe { engine.free(chunk, size) };
    } else {
        // SAFETY: the same.
        unsafe { free_aligned(engine, chunk, size, align) };
    }
}

/// # Safety
/// As for [`free`], with an alignment of more than 8.
#[cold]
unsafe fn free_aligned<E: Engine>(engine: &E, moved: NonNull<u8>, size: usize, align: usize) {
    let (mut chunk, mut bytes) = (moved, size);
    if E::REDIRECTS {
        bytes = size + align;
        // SAFETY: the header was put there when the chunk was handed out.
        let header = unsafe { ChunkHeader::before(moved) };
        debug_assert_eq!(header.id(), ChunkHeader::REDIRECT);
        // SAFETY: that far the address was moved up, in one chunk.
        chunk = unsafe { moved.sub(header.distance()) };
    }
    // SAFETY: this is what the engine gave, for that many bytes; or, where it does not redirect, an
    // address in it.
    unsafe { engine.free(chunk, bytes) };
}

/// A reference and a length; of size 0 without memory behind it.
fn slice_of(chunk: NonNull<u8>, size: usize) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(chunk, size)
}

fn dangling(align: usize) -> NonNull<u8> {
    core::num::NonZeroUsize::new(align).map_or(NonNull::dangling(), NonNull::without_provenance)
}

// SAFETY: what is allocated stays valid until it is deallocated or the context is reset or dropped,
// which take it by `&mut` or by value, so not while this reference or a clone of it lives. Moving the
// reference moves no block. Clones are the same reference.
unsafe impl<K: Kind> Allocator for &Context<'_, K> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(slice_of(dangling(layout.align()), 0));
        }
        let chunk =
            allocate(self.engine(), layout.size(), layout.align()).map_err(|_| AllocError)?;
        Ok(slice_of(chunk, layout.size()))
    }

    // SAFETY: what the caller promises stands at the trait's method.
    #[inline]
    unsafe fn deallocate(&self, chunk: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: the caller's contract is the same.
            unsafe { free(self.engine(), chunk, layout.size(), layout.align()) };
        }
    }

    #[inline]
    unsafe fn grow(
        &self,
        chunk: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's contract is the same.
        unsafe { resize(self, chunk, old, new) }
    }

    unsafe fn grow_zeroed(
        &self,
        chunk: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's contract is the same.
        let grown = unsafe { resize(self, chunk, old, new) }?;
        // SAFETY: the new layout is at least as large as the old one.
        let added = unsafe { grown.cast::<u8>().add(old.size()) };
        // SAFETY: from there on it is new, and nobody's but the caller's.
        unsafe { added.write_bytes(0, new.size() - old.size()) };
        Ok(grown)
    }

    #[inline]
    unsafe fn shrink(
        &self,
        chunk: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's contract is the same.
        unsafe { resize(self, chunk, old, new) }
    }
}

/// Grows or shrinks.
///
/// # Safety
/// `chunk` is a live allocation of the context with the layout `old`.
unsafe fn resize<K: Kind>(
    context: &&Context<'_, K>,
    chunk: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<[u8]>, AllocError> {
    if old.align() <= MAXALIGN && new.align() <= MAXALIGN && old.size() > 0 && new.size() > 0 {
        // SAFETY: the contract, for a chunk that was not moved up.
        let resized = unsafe { context.engine().resize(chunk, old.size(), new.size()) };
        if let Some(resized) = resized.map_err(|_| AllocError)? {
            return Ok(slice_of(resized, new.size()));
        }
    }
    let moved = match context.allocate(new) {
        Ok(moved) => moved,
        // Who asks for less must not end with an error where there is an answer: the same chunk. It is freed
        // as it was made, with or without a redirecting header.
        Err(_)
            if new.size() <= old.size()
                && new.align() <= old.align()
                && (new.align() > MAXALIGN) == (old.align() > MAXALIGN) =>
        {
            let with_align = |layout: Layout| layout.size() + layout.align();
            context.engine().shrunk_in_place(chunk, with_align(old), with_align(new));
            return Ok(slice_of(chunk, new.size()));
        }
        Err(error) => return Err(error),
    };
    // SAFETY: both have at least so many bytes, and the new one overlaps nothing that lives.
    unsafe {
        chunk.copy_to_nonoverlapping(moved.cast(), old.size().min(new.size()));
    }
    // SAFETY: the contract; it is not used any more.
    unsafe { context.deallocate(chunk, old) };
    Ok(moved)
}
