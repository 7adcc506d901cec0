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
//! whole block. So it does not matter what references the user has to other parts of it.
//!
//! **Threads.** A context is used by one thread at a time: it is full of cells, so it is not `Sync`, and
//! `Send` since all that its pointers lead to is its own.
//!
//! **Alignment.** Blocks are aligned to 8 bytes, headers and chunks are multiples of 8, so every chunk
//! is. More than that is made by asking for more and moving up; where freeing needs the header, a
//! redirecting one is put before the moved address.
use alloc::alloc::{alloc, dealloc, realloc};
use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::sizes::{MAX_HUGE, maxalign};
use crate::{Account, Context, Kind, MemoryError};

mod alloc_set;
mod bump;
mod cohorts;
mod generation;
mod held;
#[cfg(not(any(feature = "std", pgtoast_loom)))]
mod lock;
mod slab;

pub use alloc_set::AllocSet;
pub use bump::Bump;
pub use cohorts::{Cohort, Cohorts};
pub use generation::Generation;
pub(crate) use held::HeldChunk;
#[cfg(not(any(feature = "std", pgtoast_loom)))]
pub(crate) use lock::Lock;
pub use slab::Slab;

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

/// What the system said: nothing, or `bytes` bytes aligned to 8.
fn system_alloc(bytes: usize) -> Option<NonNull<u8>> {
    let layout =
        Layout::from_size_align(bytes, MAXALIGN).ok().filter(|layout| layout.size() > 0)?;
    // SAFETY: the layout is not of size 0.
    NonNull::new(unsafe { alloc(layout) })
}

/// The two ends by which blocks hang together; every block starts with them.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Links<H> {
    previous: Option<BlockRef<H>>,
    next: Option<BlockRef<H>>,
}

/// A header at the start of a block.
///
/// # Safety
/// `repr(C)` with [`Links`] first, aligned to at most 8.
pub(crate) unsafe trait Header: Sized {}

/// Of AllocSet, Generation and Bump.
///
/// ```text
/// byte 0          8      16     24           32       36      40     on a 64-bit machine
///      | previous | next | size | tail bytes | chunks | freed |      chunk header, chunk, ...
///                                            `- not in a Bump, whose chunks follow here
/// ```
#[repr(C)]
#[derive(Debug)]
pub(crate) struct BlockHeader {
    links: Links<Self>,
    size: usize,
    tail: usize,
}

#[repr(C)]
struct CountedHeader {
    block: BlockHeader,
    chunks: u32,
    freed: u32,
}

// SAFETY: as it is declared.
unsafe impl Header for BlockHeader {}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<BlockHeader>() == 32 && size_of::<CountedHeader>() == 40);
const _: () = assert!(size_of::<BlockHeader>() <= 32 && size_of::<CountedHeader>() <= 40);

/// A live block: it has at least as many bytes as the header of its kind.
#[derive(Debug)]
pub(crate) struct BlockRef<H>(NonNull<H>);

impl<H> Clone for BlockRef<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for BlockRef<H> {}

impl<H> PartialEq for BlockRef<H> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<H: Header> BlockRef<H> {
    /// A block from the system, counted; its links are empty.
    fn acquire_with(account: &Account, bytes: usize, header: H) -> Result<Self, MemoryError> {
        debug_assert!(bytes >= size_of::<H>());
        account.charge(bytes)?;
        let Some(start) = system_alloc(bytes) else {
            account.discharge(bytes);
            return Err(MemoryError::OutOfMemory { requested: bytes });
        };
        let block = start.cast::<H>();
        // SAFETY: it is a new allocation, aligned and large enough for a header.
        unsafe { block.write(header) };
        Ok(Self(block))
    }

    /// Gives the block back to the system.
    ///
    /// # Safety
    /// The block was acquired with so many bytes on this account, no copy of the reference is used
    /// afterwards, and none of the block's chunks.
    unsafe fn release_sized(self, account: &Account, bytes: usize) {
        sanitizer::unpoison(self.start(), bytes);
        // SAFETY: blocks are acquired with sizes for which this is a layout.
        let layout = unsafe { Layout::from_size_align_unchecked(bytes, MAXALIGN) };
        // SAFETY: it was allocated with this layout, and the caller lets go of it.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
        account.discharge(bytes);
    }

    #[inline]
    fn start(self) -> NonNull<u8> {
        self.0.cast()
    }

    /// The address so many bytes into the block.
    ///
    /// # Safety
    /// They are not more than the block has.
    #[inline]
    unsafe fn at(self, offset: usize) -> NonNull<u8> {
        // SAFETY: by this function's contract, it stays within one allocation.
        unsafe { self.start().add(offset) }
    }

    #[inline]
    fn links(self) -> NonNull<Links<H>> {
        self.0.cast()
    }

    #[inline]
    fn next(self) -> Option<Self> {
        // SAFETY: a live block starts with links, which nobody has a reference to.
        unsafe { (*self.links().as_ptr()).next }
    }

    #[inline]
    fn previous(self) -> Option<Self> {
        // SAFETY: as for `next`.
        unsafe { (*self.links().as_ptr()).previous }
    }

    #[inline]
    fn set_next(self, next: Option<Self>) {
        // SAFETY: as for `next`.
        unsafe { (*self.links().as_ptr()).next = next };
    }

    #[inline]
    fn set_previous(self, previous: Option<Self>) {
        // SAFETY: as for `next`.
        unsafe { (*self.links().as_ptr()).previous = previous };
    }
}

impl BlockRef<BlockHeader> {
    /// A block from the system, counted. Its counts, where its kind has them, are 0.
    fn acquire(account: &Account, bytes: usize, counted: bool) -> Result<Self, MemoryError> {
        let links = Links { previous: None, next: None };
        let header = BlockHeader { links, size: bytes, tail: 0 };
        let block = Self::acquire_with(account, bytes, header)?;
        if counted {
            block.set_chunks(0);
            block.set_freed(0);
        }
        Ok(block)
    }

    /// Gives the block back to the system.
    ///
    /// # Safety
    /// It was acquired on this account, no copy of the reference is used afterwards, and none of the
    /// block's chunks.
    unsafe fn release(self, account: &Account) {
        let bytes = self.size();
        // SAFETY: its size is what it was acquired with, the rest is this function's contract.
        unsafe { self.release_sized(account, bytes) };
    }

    /// Another size, at another place perhaps. The caller mends whatever refers to the block.
    ///
    /// # Safety
    /// As for [`Self::release`], except that the bytes that both sizes have are kept.
    unsafe fn resize(self, account: &Account, bytes: usize) -> Result<Self, MemoryError> {
        let old = self.size();
        if bytes > old {
            account.charge(bytes - old)?;
        }
        sanitizer::unpoison(self.start(), old);
        // SAFETY: the block was allocated with this layout.
        let layout = unsafe { Layout::from_size_align_unchecked(old, MAXALIGN) };
        // SAFETY: as above, and the new size is not 0 and was checked against the largest.
        let Some(start) = NonNull::new(unsafe { realloc(self.0.as_ptr().cast(), layout, bytes) })
        else {
            account.discharge(bytes.saturating_sub(old));
            return Err(MemoryError::OutOfMemory { requested: bytes });
        };
        account.discharge(old.saturating_sub(bytes));
        let block = Self(start.cast());
        block.set_size(bytes);
        Ok(block)
    }

    #[inline]
    fn size(self) -> usize {
        // SAFETY: a live block has a header, which nobody has a reference to.
        unsafe { (*self.0.as_ptr()).size }
    }

    fn set_size(self, size: usize) {
        // SAFETY: as for `size`.
        unsafe { (*self.0.as_ptr()).size = size };
    }

    /// Bytes at its end that no chunk has had; kept up to date once the block is no longer current.
    #[inline]
    fn tail(self) -> usize {
        // SAFETY: as for `size`.
        unsafe { (*self.0.as_ptr()).tail }
    }

    #[inline]
    fn set_tail(self, tail: usize) {
        // SAFETY: as for `size`.
        unsafe { (*self.0.as_ptr()).tail = tail };
    }

    /// Chunks placed in it. Of counted blocks alone.
    #[inline]
    fn chunks(self) -> u32 {
        // SAFETY: a live counted block has a counted header, which nobody has a reference to.
        unsafe { (*self.0.cast::<CountedHeader>().as_ptr()).chunks }
    }

    #[inline]
    fn set_chunks(self, chunks: u32) {
        // SAFETY: as for `chunks`.
        unsafe { (*self.0.cast::<CountedHeader>().as_ptr()).chunks = chunks };
    }

    /// Those among them that were freed. Of counted blocks alone.
    #[inline]
    fn freed(self) -> u32 {
        // SAFETY: as for `chunks`.
        unsafe { (*self.0.cast::<CountedHeader>().as_ptr()).freed }
    }

    #[inline]
    fn set_freed(self, freed: u32) {
        // SAFETY: as for `chunks`.
        unsafe { (*self.0.cast::<CountedHeader>().as_ptr()).freed = freed };
    }

    /// The address after its last byte.
    fn end(self) -> NonNull<u8> {
        // SAFETY: a block has its size.
        unsafe { self.at(self.size()) }
    }
}

/// Blocks of one context that hang together. A block is in one list at most.
#[derive(Debug)]
pub(crate) struct BlockList<H>(Cell<Option<BlockRef<H>>>);

impl<H: Header> BlockList<H> {
    const fn new() -> Self {
        Self(Cell::new(None))
    }

    #[inline]
    fn first(&self) -> Option<BlockRef<H>> {
        self.0.get()
    }

    /// Puts a block that is in no list at the front.
    fn push(&self, block: BlockRef<H>) {
        let next = self.0.replace(Some(block));
        block.set_previous(None);
        block.set_next(next);
        if let Some(next) = next {
            next.set_previous(Some(block));
        }
    }

    /// Puts a block that is in no list behind one that is in this.
    fn push_behind(&self, before: BlockRef<H>, block: BlockRef<H>) {
        let next = before.next();
        block.set_previous(Some(before));
        block.set_next(next);
        before.set_next(Some(block));
        if let Some(next) = next {
            next.set_previous(Some(block));
        }
    }

    /// Takes a block out that is in it.
    fn remove(&self, block: BlockRef<H>) {
        let (previous, next) = (block.previous(), block.next());
        match previous {
            Some(previous) => previous.set_next(next),
            None => self.0.set(next),
        }
        if let Some(next) = next {
            next.set_previous(previous);
        }
    }

    /// Puts a block that was moved by the system where it was.
    fn mend(&self, block: BlockRef<H>) {
        match block.previous() {
            Some(previous) => previous.set_next(Some(block)),
            None => self.0.set(Some(block)),
        }
        if let Some(next) = block.next() {
            next.set_previous(Some(block));
        }
    }

    fn pop(&self) -> Option<BlockRef<H>> {
        let first = self.0.get()?;
        self.remove(first);
        Some(first)
    }
}

/// Where a context's blocks come from: those that a reset kept, then the system.
#[derive(Debug)]
struct Supply {
    account: Account,
    /// Bytes of each block that are not for chunks.
    header: usize,
    counted: bool,
    kept: BlockList<BlockHeader>,
}

impl Supply {
    fn new(account: Account, header: usize, counted: bool) -> Self {
        Self { account, header, counted, kept: BlockList::new() }
    }

    /// A block of `bytes`, or one that was kept and has `need` at least. It is in no list.
    fn take(&self, need: usize, bytes: usize) -> Result<BlockRef<BlockHeader>, MemoryError> {
        let mut kept = self.kept.first();
        while let Some(block) = kept {
            if block.size() >= need {
                self.kept.remove(block);
                self.account.tally().tails.subtract(block.size() - self.header);
                self.account.tally().empty.subtract(1);
                block.set_tail(0);
                if self.counted {
                    block.set_chunks(0);
                    block.set_freed(0);
                }
                return Ok(block);
            }
            kept = block.next();
        }
        self.take_new(bytes)
    }

    fn take_new(&self, bytes: usize) -> Result<BlockRef<BlockHeader>, MemoryError> {
        let block = BlockRef::acquire(&self.account, bytes, self.counted)?;
        self.account.tally().blocks.add(1);
        self.account.tally().overhead.add(self.header);
        Ok(block)
    }

    /// Gives a block back to the system.
    ///
    /// # Safety
    /// As for [`BlockRef::release`].
    unsafe fn release(&self, block: BlockRef<BlockHeader>) {
        self.account.tally().blocks.subtract(1);
        self.account.tally().overhead.subtract(self.header);
        // SAFETY: it came from `take`, the rest is this function's contract.
        unsafe { block.release(&self.account) };
    }

    /// Takes all blocks of a list but one back, at a reset: keeps them as long as `keep_bytes` last,
    /// and gives the others to the system.
    ///
    /// # Safety
    /// None of the blocks is referred to from elsewhere, nor any of their chunks.
    unsafe fn take_back(
        &self,
        blocks: &BlockList<BlockHeader>,
        but: Option<BlockRef<BlockHeader>>,
        mut keep_bytes: usize,
    ) {
        while let Some(block) = self.kept.pop() {
            self.account.tally().empty.subtract(1);
            blocks.push(block);
        }
        self.account.tally().tails.set(0);
        while let Some(block) = blocks.pop() {
            if Some(block) == but {
                continue;
            }
            match keep_bytes.checked_sub(block.size()) {
                Some(less) => {
                    keep_bytes = less;
                    let tail = block.size() - self.header;
                    self.account.tally().tails.add(tail);
                    self.account.tally().empty.add(1);
                    self.kept.push(block);
                }
                // SAFETY: it is out of the list, and not referred to from elsewhere.
                None => unsafe { self.release(block) },
            }
        }
        if let Some(but) = but {
            blocks.push(but);
        }
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        while let Some(block) = self.kept.pop() {
            // SAFETY: kept blocks are in no other place and have no chunks.
            unsafe { self.release(block) };
        }
    }
}

/// The word before each chunk of the kinds that have one.
///
/// ```text
/// bit 0    4          5          34               64
///     | id | external | value    | distance       |
///                     |          `- from the block's start to the chunk, in bytes
///                     `- an AllocSet's class, a Generation's chunk size
/// ```
/// An external chunk is alone in its block; the rest of its word is a mark.
///
/// Source: `memutils_memorychunk.h` (REL_18); the bits are those, the distance is ours.
#[derive(Clone, Copy)]
struct ChunkHeader(u64);

impl ChunkHeader {
    const ALLOC_SET: u64 = 3;
    const GENERATION: u64 = 4;
    const SLAB: u64 = 5;
    const REDIRECT: u64 = 6;
    const EXTERNAL: u64 = 1 << 4;
    const MARK: u64 = 0x70a5_7ca5_e000_0000 & !0x1f;

    #[inline]
    fn new(id: u64, value: usize, distance: usize) -> Self {
        debug_assert!(value < 1 << 29 && distance < 1 << 30);
        Self(id | (value as u64) << 5 | (distance as u64) << 34)
    }

    fn external(id: u64) -> Self {
        Self(id | Self::EXTERNAL | Self::MARK)
    }

    #[inline]
    fn id(self) -> u64 {
        self.0 & 0xf
    }

    #[inline]
    fn is_external(self) -> bool {
        self.0 & Self::EXTERNAL != 0
    }

    #[inline]
    fn value(self) -> usize {
        (self.0 >> 5) as usize & ((1 << 29) - 1)
    }

    #[inline]
    fn distance(self) -> usize {
        (self.0 >> 34) as usize
    }

    /// Writes the word before a chunk.
    ///
    /// # Safety
    /// The 8 bytes before `chunk` are a part of a block, aligned to 8, and nobody's.
    #[inline]
    unsafe fn put_before(self, chunk: NonNull<u8>) {
        // SAFETY: by this function's contract, these bytes are in the block.
        let word = unsafe { chunk.sub(size_of::<Self>()) };
        // SAFETY: and nobody's, and aligned.
        unsafe { word.cast::<Self>().write(self) };
    }

    /// The word before a chunk.
    ///
    /// # Safety
    /// `chunk` is live and of a kind with headers.
    #[inline]
    unsafe fn before(chunk: NonNull<u8>) -> Self {
        // SAFETY: a live chunk has its word before it.
        let word = unsafe { chunk.sub(size_of::<Self>()) };
        // SAFETY: it was written when the chunk was made, and only the context writes it.
        unsafe { word.cast::<Self>().read() }
    }
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

/// Memory for a layout of any size and alignment.
#[inline]
fn allocate<E: Engine>(engine: &E, size: usize, align: usize) -> Result<NonNull<u8>, MemoryError> {
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

/// Checks a request that does not go into a shared block, and rounds it up.
fn checked_large(size: usize, huge: bool) -> Result<usize, MemoryError> {
    let limit = if huge { MAX_HUGE } else { crate::MAX_ALLOC };
    if size > limit {
        return Err(MemoryError::TooLarge { requested: size, limit });
    }
    Ok(maxalign(size))
}
