use crate::{Headers, MemoryError};

/// How large a context's blocks are: the first, the second, and the largest. From `init` they double
/// up to `max`.
///
/// Source: `memutils.h`, `ALLOCSET_DEFAULT_SIZES` and its like (REL_18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// The least that the first block has, the keeper, which a reset leaves; 0 for `init`.
    pub min: usize,
    /// Where doubling starts.
    pub init: usize,
    /// Where doubling ends.
    pub max: usize,
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl BlockSizes {
    /// 8 KiB to 8 MiB.
    #[doc(alias = "ALLOCSET_DEFAULT_SIZES")]
    pub const DEFAULT: Self = Self { min: 0, init: 8 << 10, max: 8 << 20 };
    /// 1 KiB to 8 KiB, for contexts that never hold much.
    #[doc(alias = "ALLOCSET_SMALL_SIZES")]
    pub const SMALL: Self = Self { min: 0, init: 1 << 10, max: 8 << 10 };
    /// 1 KiB to 8 MiB.
    #[doc(alias = "ALLOCSET_START_SMALL_SIZES")]
    pub const START_SMALL: Self = Self { min: 0, init: 1 << 10, max: 8 << 20 };

    /// Every block of that size.
    #[must_use]
    pub const fn fixed(bytes: usize) -> Self {
        Self { min: bytes, init: bytes, max: bytes }
    }

    /// The largest block size there can be: a chunk's distance from its block's start has 30 bits.
    pub const LARGEST: usize = 0x3fff_ffff & !7;

    pub(crate) fn checked(self) -> Result<Self, MemoryError> {
        let Self { min, init, max } = self;
        let size =
            |bytes: usize| bytes.is_multiple_of(8) && (1024..=Self::LARGEST).contains(&bytes);
        let min_is_right = min == 0 || (size(min) && min <= max);
        if size(init) && size(max) && init <= max && min_is_right {
            Ok(self)
        } else {
            Err(MemoryError::BlockSizes { min, init, max })
        }
    }

    /// The size of the first block, the context's structure in it counted.
    pub(crate) fn first(self, headers: Headers) -> usize {
        let least = headers.context + headers.block + headers.chunk;
        least.max(if self.min == 0 { self.init } else { self.min })
    }

    /// The largest chunk that goes into a shared block: `start`, halved until `fraction` of them with
    /// their headers fit into the largest block.
    pub(crate) fn chunk_limit(self, headers: Headers, start: usize, fraction: usize) -> usize {
        let mut limit = start;
        while limit + headers.chunk > (self.max - headers.block) / fraction {
            limit >>= 1;
        }
        limit
    }

    /// What an AllocSet's chunks may be without a block of their own.
    pub(crate) fn alloc_set_limit(self, headers: Headers) -> usize {
        self.chunk_limit(headers, LARGEST_CLASS, 4)
    }

    /// What a Generation's or Bump's chunks may be without a block of their own.
    pub(crate) fn generation_limit(self, headers: Headers) -> usize {
        self.chunk_limit(headers, self.max.min(MAX_ALLOC), 8)
    }
}

/// The largest request that a context takes, unless it was built to take more.
#[doc(alias = "MaxAllocSize")]
pub const MAX_ALLOC: usize = 0x3fff_ffff;
/// The largest request that any context takes: what is left of the address space's half after headers.
#[doc(alias = "MaxAllocHugeSize")]
pub const MAX_HUGE: usize = usize::MAX / 2 - (1 << 16);

/// Size classes of an AllocSet: powers of two from 8.
pub(crate) const CLASSES: usize = 11;
/// The largest of them.
pub(crate) const LARGEST_CLASS: usize = 8 << (CLASSES - 1);

/// The class of the smallest chunk that holds `size` bytes, of at most [`LARGEST_CLASS`].
#[inline]
pub(crate) const fn class_of(size: usize) -> usize {
    if size <= 8 { 0 } else { (usize::BITS - ((size - 1) >> 3).leading_zeros()) as usize }
}

/// Rounded up to a multiple of 8; the argument is at most [`MAX_HUGE`].
#[inline]
pub(crate) const fn maxalign(size: usize) -> usize {
    (size + 7) & !7
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Release;

    #[test]
    fn classes_are_powers_of_two_from_eight() {
        for (size, class) in
            [(0, 0), (1, 0), (8, 0), (9, 1), (16, 1), (17, 2), (4097, 10), (8192, 10)]
        {
            assert_eq!(class_of(size), class, "{size}");
        }
    }

    #[test]
    fn chunk_limits_are_those_of_a_server() {
        let headers = Release::V18.alloc_set();
        assert_eq!(BlockSizes::DEFAULT.alloc_set_limit(headers), 8192);
        assert_eq!(BlockSizes::SMALL.alloc_set_limit(headers), 1024);
        let headers = Release::V18.generation();
        for (block, limit) in [(8 << 10, 512), (64 << 10, 4096), (8 << 20, 524_288)] {
            assert_eq!(BlockSizes::fixed(block).generation_limit(headers), limit, "{block}");
        }
        assert_eq!(BlockSizes::fixed(8 << 10).generation_limit(Release::V18.bump()), 512);
    }
}
