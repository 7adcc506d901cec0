//! A match as its tag says it.
use crate::format::{MATCH_LONG, MATCH_MIN};
use crate::{PglzError, decompress::State};

/// A match that was read and checked: `1 <= distance <= ` the bytes produced so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match {
    pub(crate) len: usize,
    pub(crate) distance: usize,
    /// Bytes of its tag.
    pub(crate) tag_len: usize,
}

impl Match {
    /// Reads the match at `state.source_offset` of `source`, with `state.target_offset` bytes produced.
    #[inline]
    pub(crate) fn read(source: &[u8], state: State) -> Result<Self, PglzError> {
        let State { source_offset, target_offset, .. } = state;
        let truncated = PglzError::Truncated { source_offset, target_offset };
        let tag = source.get(source_offset..).unwrap_or_default();
        let &[first, second, ..] = tag else { return Err(truncated) };
        let short = usize::from(first & 15) + MATCH_MIN;
        let distance = usize::from(first >> 4) << 8 | usize::from(second);
        let (len, tag_len) = if short == MATCH_LONG {
            (MATCH_LONG + usize::from(*tag.get(2).ok_or(truncated)?), 3)
        } else {
            (short, 2)
        };
        if distance == 0 || distance > target_offset {
            return Err(PglzError::distance(source_offset, target_offset, distance));
        }
        Ok(Self { len, distance, tag_len })
    }
}
