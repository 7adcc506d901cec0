//! What an operation fetched.
use core::fmt;

use crate::Parameters;

/// What reading took: tuples fetched, by their level in the tree, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    levels: [u32; Parameters::MAX_DEPTH + 2],
    /// Bytes of the stored value in the leaves that were fetched.
    pub leaf_bytes: u64,
    /// Bytes that were decompressed, wanted or not; 0 for a value that is stored as it is.
    pub decoded_bytes: u64,
}

impl Cost {
    pub(crate) const NONE: Self =
        Self { levels: [0; Parameters::MAX_DEPTH + 2], leaf_bytes: 0, decoded_bytes: 0 };

    /// Tuples fetched at so many levels below the root. A tuple counts each time that it is fetched.
    #[must_use]
    pub fn at_level(&self, level: usize) -> u32 {
        self.levels.get(level).copied().unwrap_or_default()
    }

    /// All tuples fetched.
    #[must_use]
    pub fn fetches(&self) -> u32 {
        self.levels.iter().sum()
    }

    /// Levels that were looked at, the root's among them.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.levels.iter().rposition(|count| *count > 0).map_or(0, |level| level + 1)
    }

    #[inline]
    pub(crate) fn count(&mut self, level: usize) {
        self.add(level, 1);
    }

    #[inline]
    pub(crate) fn add(&mut self, level: usize, fetches: u32) {
        if let Some(count) = self.levels.get_mut(level) {
            *count = count.saturating_add(fetches);
        }
    }
}

impl fmt::Display for Cost {
    /// As `3 fetches (1, 1, 1), 1996 bytes of leaves`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fetches (", self.fetches())?;
        for level in 0..self.depth() {
            let comma = if level == 0 { "" } else { ", " };
            write!(f, "{comma}{}", self.levels[level])?;
        }
        write!(f, "), {} bytes of leaves", self.leaf_bytes)?;
        if self.decoded_bytes > 0 {
            write!(f, ", {} bytes decoded", self.decoded_bytes)?;
        }
        Ok(())
    }
}
