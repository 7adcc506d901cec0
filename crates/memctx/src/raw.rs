//! The only module with unsafe code: blocks of memory, the chunks in them, and what the allocator
//! trait promises for them.
//!
//! **Who owns what.** A context owns its blocks, each one allocation of the system's, from
//! [`BlockRef::acquire`] to [`BlockRef::release`]. A chunk is a part of a block that belongs to whoever
//! asked for it, until it is freed or the context is reset or dropped; the context does not touch it
//! meanwhile, but for the header before it. A freed chunk is the context's again.
//!
//! **How long.** A [`BlockRef`] points to a live block. Copies of it are kept in the lists of the
//! context and in its `current` and the like; whoever releases a block has taken it out of all of them
//! before, which is what the notes at each `release` show. Chunks cannot be reached after a reset:
//! resetting takes the context by `&mut`, so no reference into it lives, and chunks that are held by
//! value, without a borrow, carry the epoch they are of, which a reset ends.
//!
//! **Aliasing.** No reference to a header or a chunk is ever made in here, only reads and writes of
//! single fields through raw pointers, all of them derived from the pointer that the system gave for the
//! whole block. So it does not matter what references the user has to other parts of it. A box gives its
//! chunk back through a pointer that was a reference to the value alone: reading the word before it
//! is allowed by Tree Borrows, under which Miri passes with strict provenance, and not by Stacked Borrows.
//! Chunks held by value keep the pointer they were given.
//!
//! **Threads.** A context is used by one thread at a time: it is full of cells, so it is not `Sync`, and
//! `Send` since all that its pointers lead to is its own.
//!
//! **Alignment.** Blocks are aligned to 8 bytes, headers and chunks are multiples of 8, so every chunk
//! is. More than that is made by asking for more and moving up; where freeing needs the header, a
//! redirecting one is put before the moved address.
use core::cell::Cell;
use core::ptr::NonNull;

use crate::sizes::{MAX_HUGE, maxalign};
use crate::{Account, MemoryError};

mod alloc_set;
mod allocator;
mod block;
mod bump;
mod chunk_header;
mod cohorts;
mod generation;
mod held;
#[cfg(not(any(feature = "std", pgtoast_loom)))]
mod lock;
mod place;
mod shared_blocks;
mod slab;
mod supply;

pub use alloc_set::AllocSet;
pub use bump::Bump;
pub use cohorts::{Cohort, Cohorts};
pub use generation::Generation;
pub(crate) use held::HeldChunk;
#[cfg(not(any(feature = "std", pgtoast_loom)))]
pub(crate) use lock::Lock;
pub(crate) use place::{place, place_slice, place_with};
pub use slab::Slab;

use block::{BlockHeader, BlockList, BlockRef, Header, Links};
use chunk_header::ChunkHeader;
use supply::Supply;

/// The largest alignment that a redirecting header can speak of.
const LARGEST_ALIGN: usize = 1 << 28;
/// What every chunk and block is aligned to.
pub(crate) const MAXALIGN: usize = 8;

/// What a kind of context does with chunks.
///
/// # Safety
/// `allocate` returns memory of at least the asked-for size, aligned to 8, that stays valid and unshared
/// until it is freed, or the engine is reset or dropped, wherever the engine is moved.
pub unsafe trait Engine {
    /// Whether freeing needs the header before the chunk, so that an address that was moved up to an
    /// alignment needs a redirecting one.
    const REDIRECTS: bool;

    /// Where it is counted.
    fn account(&self) -> &Account;

    /// Memory for `size` bytes.
    fn allocate(&self, size: usize) -> Result<NonNull<u8>, MemoryError>;

    /// Takes a chunk back.
    ///
    /// # Safety
    /// The chunk was allocated by this engine for `size` bytes and has not been freed; where the engine
    /// does not redirect, `chunk` may be any address in it from which there are so many bytes.
    unsafe fn free(&self, chunk: NonNull<u8>, size: usize);

    /// The chunk with room for `new` bytes, at the same place or with its first `old.min(new)` bytes
    /// moved; `None` if the caller has to move it. An error leaves it as it was.
    ///
    /// # Safety
    /// As for [`Engine::free`] with the size `old`.
    unsafe fn resize(
        &self,
        chunk: NonNull<u8>,
        old: usize,
        new: usize,
    ) -> Result<Option<NonNull<u8>>, MemoryError>;

    /// A chunk that was allocated for `old` bytes will be freed as one of `new`, which are not more.
    fn shrunk_in_place(&self, _chunk: NonNull<u8>, _old: usize, _new: usize) {}

    /// Whether chunks of an epoch before the present one are still valid.
    fn knows_epoch(&self, _epoch: u64) -> bool {
        false
    }

    /// Says the epoch of what is allocated from now on.
    fn epoch_begins(&self, _epoch: u64) {}

    /// Takes everything back, and keeps up to so many bytes of blocks, or the first block if that is
    /// more.
    fn reset(&mut self, keep_bytes: usize);
}

/// The part of the current block that no chunk has had: the tally's `remaining` bytes before `end`.
#[derive(Debug)]
struct Cursor {
    end: Cell<NonNull<u8>>,
}

impl Cursor {
    /// Of no block; nothing remains.
    fn new() -> Self {
        Self { end: Cell::new(NonNull::<u64>::dangling().cast()) }
    }

    /// Takes `bytes`, a multiple of 8, off its front if there are so many.
    #[inline]
    fn carve(&self, account: &Account, bytes: usize) -> Option<NonNull<u8>> {
        let remaining = &account.tally().remaining;
        let left = remaining.get();
        if bytes > left {
            return None;
        }
        remaining.set(left - bytes);
        // SAFETY: whoever set `end` to the end of a block set `remaining` to no more than lies between
        // the block's header and there, and it has only shrunk since.
        Some(unsafe { self.end.get().sub(left) })
    }

    /// Goes on with the last `remaining` bytes of a block.
    fn enter(&self, account: &Account, block: BlockRef<BlockHeader>, remaining: usize) {
        debug_assert!(remaining <= block.size() - size_of::<BlockHeader>());
        self.end.set(block.end());
        account.tally().remaining.set(remaining);
        sanitizer::poison(self.rest(remaining), remaining);
    }

    /// Where the rest begins.
    fn rest(&self, remaining: usize) -> NonNull<u8> {
        // SAFETY: as in `carve`.
        unsafe { self.end.get().sub(remaining) }
    }
}

/// Bytes that were freed are overwritten under the feature `poison`, and out of bounds for a program
/// built with the address sanitizer and `--cfg pgtoast_asan`.
///
/// # Safety
/// The bytes are a part of a live block, and nobody's.
unsafe fn wipe(start: NonNull<u8>, bytes: usize) {
    if cfg!(feature = "poison") {
        // SAFETY: by this function's contract.
        unsafe { start.write_bytes(WIPED, bytes) };
    }
    sanitizer::poison(start, bytes);
}

/// What freed memory is overwritten with, as by a server built with assertions.
const WIPED: u8 = 0x7f;

/// Makes a chunk that is being handed out accessible again.
#[inline]
fn hand_out(chunk: NonNull<u8>, bytes: usize) -> NonNull<u8> {
    sanitizer::unpoison(chunk, bytes);
    chunk
}

/// What the address sanitizer is told, where there is one.
mod sanitizer {
    use core::ptr::NonNull;

    #[cfg(pgtoast_asan)]
    unsafe extern "C" {
        safe fn __asan_poison_memory_region(start: *const u8, bytes: usize);
        safe fn __asan_unpoison_memory_region(start: *const u8, bytes: usize);
    }

    #[inline]
    pub(super) fn poison(start: NonNull<u8>, bytes: usize) {
        #[cfg(pgtoast_asan)]
        __asan_poison_memory_region(start.as_ptr(), bytes);
        let _ = (start, bytes);
    }

    #[inline]
    pub(super) fn unpoison(start: NonNull<u8>, bytes: usize) {
        #[cfg(pgtoast_asan)]
        __asan_unpoison_memory_region(start.as_ptr(), bytes);
        let _ = (start, bytes);
    }
}

/// Checks a request that does not go into a shared block, and rounds it up.
fn checked_large(size: usize, huge: bool) -> Result<usize, MemoryError> {
    let limit = if huge { MAX_HUGE } else { crate::MAX_ALLOC };
    if size > limit {
        return Err(MemoryError::TooLarge { requested: size, limit });
    }
    Ok(maxalign(size))
}
