//! Allocators for whole programs, in the shape that collections take them in.
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

/// Such an allocator. Requests of no bytes are not made here.
#[derive(Debug)]
pub(super) struct Outside<'a, G>(pub(super) &'a G);

impl<G> Clone for Outside<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G> Copy for Outside<'_, G> {}

// SAFETY: memory is valid until it is given back, whatever happens to this reference: the allocator is
// the whole program's.
unsafe impl<G: GlobalAlloc> Allocator for Outside<'_, G> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Err(AllocError);
        }
        // SAFETY: the layout is not of size 0.
        let chunk = NonNull::new(unsafe { self.0.alloc(layout) }).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(chunk, layout.size()))
    }

    #[inline]
    unsafe fn deallocate(&self, chunk: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.dealloc(chunk.as_ptr(), layout) };
    }
}
