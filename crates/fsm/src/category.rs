//! Free space as the map keeps it: one byte a block.
//!
//! ```text
//! category        0      1 ..           254          255
//! free bytes      < s    s * category   254 * s ..   the longest tuple's length, or more
//!                                                    s = BLCKSZ / 256: 32 bytes with 8 KiB
//! ```
//! What is stored is rounded down and what is asked for is rounded up, so that a block with the
//! category asked for has the bytes asked for. Source: `freespace.c` (REL_18).
use core::fmt;

use pgtoast_base::{BlockSize, maxalign};

use crate::FsmError;

/// How much free space a block has, as the map knows it: 0 for next to nothing, 255 for a block
/// that takes the longest tuple.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Category(u8);

impl Category {
    /// Nothing worth looking for: what a block is that the map has not heard of.
    pub const NONE: Self = Self(0);
    /// Room for the longest tuple.
    pub const MAX: Self = Self(u8::MAX);

    /// Any byte is a category.
    #[must_use]
    pub const fn new(category: u8) -> Self {
        Self(category)
    }

    /// The byte itself.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The category of a block that has so many bytes free.
    #[doc(alias = "fsm_space_avail_to_cat")]
    #[must_use]
    pub const fn of_free(free_bytes: usize, block_size: BlockSize) -> Self {
        if free_bytes >= max_request(block_size) {
            return Self::MAX;
        }
        let steps = free_bytes / step(block_size);
        // One less than `MAX`, which promises more than a multiple of the step.
        Self(if steps > 254 { 254 } else { low_byte(steps) })
    }

    /// The lowest category that promises so many bytes; at least 1, for 0 promises nothing.
    ///
    /// # Errors
    /// [`FsmError::RequestTooLong`] for more than the longest tuple takes.
    #[doc(alias = "fsm_space_needed_to_cat")]
    pub const fn needed_for(needed_bytes: usize, block_size: BlockSize) -> Result<Self, FsmError> {
        let limit = max_request(block_size);
        if needed_bytes > limit {
            return Err(FsmError::RequestTooLong { needed_bytes, limit });
        }
        let steps = needed_bytes.div_ceil(step(block_size));
        Ok(match steps {
            0 => Self(1),
            1..=255 => Self(low_byte(steps)),
            _ => Self::MAX,
        })
    }

    /// The bytes a block of this category has at least.
    #[doc(alias = "fsm_space_cat_to_avail")]
    #[must_use]
    pub const fn free_bytes(self, block_size: BlockSize) -> usize {
        match self.0 {
            u8::MAX => max_request(block_size),
            steps => steps as usize * step(block_size),
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[doc(alias = "FSM_CAT_STEP")]
const fn step(block_size: BlockSize) -> usize {
    block_size.bytes() / 256
}

/// The longest tuple of a page: all but the page header and one line pointer.
#[doc(alias = "MaxFSMRequestSize")]
const fn max_request(block_size: BlockSize) -> usize {
    block_size.bytes() - maxalign(PAGE_HEADER_BYTES + LINE_POINTER_BYTES)
}

#[expect(clippy::cast_possible_truncation, reason = "callers pass at most 255")]
const fn low_byte(steps: usize) -> u8 {
    debug_assert!(steps <= 255);
    steps as u8
}

pub(crate) const PAGE_HEADER_BYTES: usize = 24;
const LINE_POINTER_BYTES: usize = 4;
