use core::ptr::NonNull;

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
pub(super) struct ChunkHeader(u64);

impl ChunkHeader {
    pub(super) const ALLOC_SET: u64 = 3;
    pub(super) const GENERATION: u64 = 4;
    pub(super) const SLAB: u64 = 5;
    pub(super) const REDIRECT: u64 = 6;
    const EXTERNAL: u64 = 1 << 4;
    const MARK: u64 = 0x70a5_7ca5_e000_0000 & !0x1f;

    #[inline]
    pub(super) fn new(id: u64, value: usize, distance: usize) -> Self {
        debug_assert!(value < 1 << 29 && distance < 1 << 30);
        Self(id | (value as u64) << 5 | (distance as u64) << 34)
    }

    pub(super) fn external(id: u64) -> Self {
        Self(id | Self::EXTERNAL | Self::MARK)
    }

    #[inline]
    pub(super) fn id(self) -> u64 {
        self.0 & 0xf
    }

    #[inline]
    pub(super) fn is_external(self) -> bool {
        self.0 & Self::EXTERNAL != 0
    }

    #[inline]
    pub(super) fn value(self) -> usize {
        (self.0 >> 5) as usize & ((1 << 29) - 1)
    }

    #[inline]
    pub(super) fn distance(self) -> usize {
        (self.0 >> 34) as usize
    }

    /// Writes the word before a chunk.
    ///
    /// # Safety
    /// The 8 bytes before `chunk` are a part of a block, aligned to 8, and nobody's.
    #[inline]
    pub(super) unsafe fn put_before(self, chunk: NonNull<u8>) {
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
    pub(super) unsafe fn before(chunk: NonNull<u8>) -> Self {
        // SAFETY: a live chunk has its word before it.
        let word = unsafe { chunk.sub(size_of::<Self>()) };
        // SAFETY: it was written when the chunk was made, and only the context writes it.
        unsafe { word.cast::<Self>().read() }
    }
}
