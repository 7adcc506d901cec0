//! Where a tuple is: which block of the fork, which line pointer of the block.
use core::fmt;

/// The number of a block in its fork, from 0 through all segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNumber(u32);

impl BlockNumber {
    /// The highest number a block can have: a relation holds at most `2^32 - 1` blocks.
    #[doc(alias = "MaxBlockNumber")]
    pub const MAX: Self = Self(u32::MAX - 1);
    /// "No block": never the number of one.
    #[doc(alias = "InvalidBlockNumber")]
    pub const INVALID: Self = Self(u32::MAX);

    /// Any 32 bits are a block number or [`INVALID`](Self::INVALID).
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether it can be the number of a block.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 != Self::INVALID.0
    }
}

impl fmt::Display for BlockNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a line pointer in its page, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OffsetNumber(u16);

impl OffsetNumber {
    /// "No item".
    #[doc(alias = "InvalidOffsetNumber")]
    pub const INVALID: Self = Self(0);
    /// The first item of a page.
    #[doc(alias = "FirstOffsetNumber")]
    pub const FIRST: Self = Self(1);
    /// In a `t_ctid`: the block field holds a speculative insertion's token.
    #[doc(alias = "SpecTokenOffsetNumber")]
    pub const SPECULATIVE_TOKEN: Self = Self(0xfffe);
    /// In a `t_ctid`, with [`BlockNumber::INVALID`]: the row moved to another partition.
    #[doc(alias = "MovedPartitionsOffsetNumber")]
    pub const MOVED_PARTITIONS: Self = Self(0xfffd);

    /// Any 16 bits; whether a page has such an item is for the page to say.
    #[must_use]
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Where the line pointer stands in the page's array, from 0; `None` for "no item".
    #[inline]
    #[must_use]
    pub const fn index(self) -> Option<usize> {
        match self.0.checked_sub(1) {
            Some(index) => Some(index as usize),
            None => None,
        }
    }
}

impl fmt::Display for OffsetNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
