//! The safe reader: no unsafe code, every access checked by the slice it goes through.
//!
//! [`decompress`] and [`decompress_prefix`] here are those of the crate's root without its
//! `unsafe-fast` feature, for whoever wants them side by side.
#![forbid(unsafe_code)]
use crate::PglzError;
use crate::decompress::State;
use crate::format::{GROUP_END, MATCH_LONG, MATCH_MIN};
use crate::tag::Match;

/// Bytes of one block copy.
const BLOCK: usize = 16;
/// Bytes of a run of literals copied at once.
const RUN: usize = 8;
/// A turn of the fast loop writes a run, and of a match at most this much before it asks again.
const MATCH_COPY: usize = 2 * BLOCK;

/// As [`decompress`](crate::decompress()).
///
/// # Errors
/// As there.
pub fn decompress(source: &[u8], target: &mut [u8]) -> Result<(), PglzError> {
    run(source, target)?.complete(source.len(), target.len())
}

/// As [`decompress_prefix`](crate::decompress_prefix).
///
/// # Errors
/// As there.
pub fn decompress_prefix(source: &[u8], target: &mut [u8]) -> Result<usize, PglzError> {
    Ok(run(source, target)?.target_offset)
}

/// Appends a whole value of `raw_len` bytes to a vector, whose length grows only if all went well.
#[cfg(all(feature = "alloc", not(feature = "unsafe-fast")))]
pub(crate) fn extend(
    source: &[u8],
    raw_len: usize,
    target: &mut alloc::vec::Vec<u8>,
) -> Result<(), PglzError> {
    let start = target.len();
    target.resize(start + raw_len, 0);
    decompress(source, &mut target[start..]).inspect_err(|_| target.truncate(start))
}

/// Decompresses until either side ends.
pub(crate) fn run(source: &[u8], target: &mut [u8]) -> Result<State, PglzError> {
    let state = advance(source, target, State::START)?;
    finish(source, target, state)
}

/// Goes on until either side has little left; cuts no match. What `target` holds below the state's
/// offset is what the value has there.
pub(crate) fn advance(source: &[u8], target: &mut [u8], state: State) -> Result<State, PglzError> {
    let State { source_offset: mut at, target_offset: mut out, mut control } = state;
    // While these succeed there is slack on both sides for all that one turn does.
    while let Some(ahead) = source.get(at..at + RUN + 4)
        && let Some(room) = target.get_mut(out..out + RUN + MATCH_COPY)
    {
        let literals = control.trailing_zeros();
        control >>= literals;
        room[..RUN].copy_from_slice(&ahead[..RUN]);
        let literals = literals as usize & 15;
        at += literals;
        out += literals;
        let Some(&[first, second, ..]) = ahead.get(literals..).and_then(<[u8]>::first_chunk::<4>)
        else {
            break;
        };
        if control == GROUP_END {
            control = u32::from(first) | 0x100;
            at += 1;
            continue;
        }

        let short = usize::from(first & 15) + MATCH_MIN;
        let distance = usize::from(first >> 4) << 8 | usize::from(second);
        let is_far = distance.wrapping_sub(BLOCK) < out.saturating_sub(BLOCK - 1);
        if is_far && short < MATCH_LONG {
            let from = out - distance;
            target.copy_within(from..from + BLOCK, out);
            target[out + BLOCK] = target[from + BLOCK];
            out += short;
            at += 2;
            control >>= 1;
            continue;
        }
        let here = State { source_offset: at, target_offset: out, control };
        let found = Match::read(source, here)?;
        if found.len > target.len() - out {
            break;
        }
        let next = found.step_over(source, here, target.len());
        copy_match(target, out, found.distance, next.target_offset - out);
        State { source_offset: at, target_offset: out, control } = next;
    }
    Ok(State { source_offset: at, target_offset: out, control })
}

/// Goes on until either side ends, exact to the byte on both.
pub(crate) fn finish(
    source: &[u8],
    target: &mut [u8],
    mut state: State,
) -> Result<State, PglzError> {
    while state.source_offset < source.len() && state.target_offset < target.len() {
        let State { source_offset: at, target_offset: out, control } = state;
        if control == GROUP_END {
            state.control = u32::from(source[at]) | 0x100;
            state.source_offset += 1;
            continue;
        }
        if control & 1 == 0 {
            target[out] = source[at];
            state.target_offset += 1;
            state.source_offset += 1;
        } else {
            let found = Match::read(source, state)?;
            let len = found.len.min(target.len() - out);
            copy_match(target, out, found.distance, len);
            state.target_offset += len;
            state.source_offset += found.tag_len;
        }
        state.control >>= 1;
    }
    Ok(state)
}

/// Copies a match of any distance, and just its bytes.
fn copy_match(target: &mut [u8], mut out: usize, mut distance: usize, len: usize) {
    let end = out + len;
    // Bytes that repeat with a period repeat with its multiples too: each round doubles the period
    // until the rest is one copy.
    while distance < end - out {
        target.copy_within(out - distance..out, out);
        out += distance;
        distance *= 2;
    }
    let rest = end - out;
    target.copy_within(out - distance..out - distance + rest, out);
}
