//! A match as its tag says it.
use crate::format::{GROUP_END, MATCH_LONG, MATCH_MAX, MATCH_MIN};
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

    /// The state behind this match, which was read at `state` and fits a target of `target_len` bytes.
    ///
    /// Where a value repeats for long, matches of the greatest length from one distance follow each
    /// other: each goes on where the one before ended, so together they are one match, and one copy.
    #[inline(always)]
    pub(crate) fn step_over(self, source: &[u8], state: State, target_len: usize) -> State {
        let next = State {
            source_offset: state.source_offset + self.tag_len,
            target_offset: state.target_offset + self.len,
            control: state.control >> 1,
        };
        if self.len < MATCH_MAX {
            return next;
        }
        self.step_over_continuations(source, next, target_len)
    }

    /// Steps over the matches behind `state` that have a third byte, this distance, and room.
    #[inline(never)]
    fn step_over_continuations(self, source: &[u8], mut state: State, target_len: usize) -> State {
        loop {
            let State { source_offset, target_offset, control } = state;
            let room = target_len - target_offset;
            if room == 0 {
                // No control byte is read for a value that is complete.
                return state;
            }
            let Some(tag) = source.get(source_offset..) else { return state };
            if control == GROUP_END {
                let Some(&control) = tag.first() else { return state };
                state.control = u32::from(control) | 0x100;
                state.source_offset += 1;
                continue;
            }
            let &[first, second, third, ..] = tag else { return state };
            let distance = usize::from(first >> 4) << 8 | usize::from(second);
            let len = MATCH_LONG + usize::from(third);
            let goes_on = control & 1 == 1 && first & 15 == 15 && distance == self.distance;
            if !goes_on || len > room {
                return state;
            }
            state = State {
                source_offset: source_offset + 3,
                target_offset: target_offset + len,
                control: control >> 1,
            };
        }
    }
}
