//! Values that are moved into a context.
use core::alloc::Layout;
use core::ptr::NonNull;

use super::Engine;
use super::allocator::allocate;
use crate::MemoryError;
use crate::sizes::MAX_HUGE;

/// Moves a value into a context, where it is never dropped.
#[expect(clippy::mut_from_ref, reason = "each call gives other memory")]
pub(crate) fn place<E: Engine, T>(engine: &E, value: T) -> Result<&mut T, MemoryError> {
    let place = if size_of::<T>() == 0 {
        NonNull::dangling()
    } else {
        allocate(engine, size_of::<T>(), align_of::<T>())?.cast::<T>()
    };
    // SAFETY: it has the size and alignment of the value.
    unsafe { place.write(value) };
    // SAFETY: it was just written, and lives as long as the engine is borrowed: what takes memory back
    // without a chunk at hand takes the engine by `&mut`.
    Ok(unsafe { &mut *place.as_ptr() })
}

/// Copies values into a context.
#[expect(clippy::mut_from_ref, reason = "each call gives other memory")]
pub(crate) fn place_slice<'a, E: Engine, T: Copy>(
    engine: &'a E,
    values: &[T],
) -> Result<&'a mut [T], MemoryError> {
    let place = allocate_array::<E, T>(engine, values.len())?;
    let source = NonNull::from(values).cast::<T>();
    // SAFETY: the place has room for as many, and is nobody else's.
    unsafe { source.copy_to_nonoverlapping(place, values.len()) };
    // SAFETY: all of them were just written; as for `place`.
    Ok(unsafe { NonNull::slice_from_raw_parts(place, values.len()).as_mut() })
}

/// Makes so many values in a context.
#[expect(clippy::mut_from_ref, reason = "each call gives other memory")]
pub(crate) fn place_with<E: Engine, T>(
    engine: &E,
    count: usize,
    mut make: impl FnMut(usize) -> T,
) -> Result<&mut [T], MemoryError> {
    let place = allocate_array::<E, T>(engine, count)?;
    for index in 0..count {
        let value = make(index);
        // SAFETY: there is room for `count`.
        let slot = unsafe { place.add(index) };
        // SAFETY: the slot is aligned and nobody's. If `make` panics, what was made is never dropped, as
        // all that lies in a context.
        unsafe { slot.write(value) };
    }
    // SAFETY: all of them were just written; as for `place`.
    Ok(unsafe { NonNull::slice_from_raw_parts(place, count).as_mut() })
}

fn allocate_array<E: Engine, T>(engine: &E, count: usize) -> Result<NonNull<T>, MemoryError> {
    let too_large = MemoryError::TooLarge { requested: usize::MAX, limit: MAX_HUGE };
    let layout = Layout::array::<T>(count).map_err(|_| too_large)?;
    if layout.size() == 0 {
        return Ok(NonNull::dangling());
    }
    Ok(allocate(engine, layout.size(), layout.align())?.cast())
}
