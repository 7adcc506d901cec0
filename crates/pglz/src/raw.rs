//! The fast reader: the same loop as in `safe`, with bounds checked once for several copies.
//!
//! # Contract
//!
//! The source is a slice, borrowed for the call. The target is a slice too, of bytes that may not be
//! initialised, borrowed mutably for the call and seen through the one pointer in [`Target`]; nothing
//! else points into it, and source and target cannot overlap. Nothing outlives the call. No access needs
//! an alignment.
//!
//! **Invariant of [`Target`]:** `start..start + len` is that one slice. Every read of it below needs one
//! thing more, said in each proof: its bytes were written before. `out` is always the count of value
//! bytes produced, and *all bytes below `out` have been written*, by induction: `out` only grows by `n`
//! after at least `n` bytes from `out` on were stored. Whatever lies behind `out` is never read.
//!
//! The methods of [`Target`] assert their needs in debug builds, which is what tests and fuzzing run.
//! The safe twin is `safe::run`; tests hold both against the naive reader.
#![expect(unsafe_code, reason = "the one module that may; see its contract")]
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use crate::PglzError;
use crate::decompress::State;
use crate::format::{GROUP_END, MATCH_LONG, MATCH_MAX, MATCH_MIN};
use crate::tag::Match;

/// Bytes of one block copy. Matches from at least so far back do not overlap within a block.
const BLOCK: usize = 16;
/// Bytes of a run of literals copied at once.
const RUN: usize = 8;
/// A match with a third byte is copied this far before asking how long it is.
const LONG_COPY: usize = 3 * BLOCK;
/// Source bytes that a turn of the fast loop may look at: a run of literals and the four bytes behind.
const SOURCE_SLACK: usize = RUN + 4;
/// Target bytes that a turn of the fast loop may write before it asks again: a run, and a match of 17.
const TARGET_SLACK: usize = RUN + BLOCK + 1;

/// Decompresses until either side ends.
pub(crate) fn run(source: &[u8], target: &mut [u8]) -> Result<State, PglzError> {
    run_at(source, Target::of(target))
}

/// Goes on until either side has little left; cuts no match. What `target` holds below the state's
/// offset is what the value has there.
pub(crate) fn advance(source: &[u8], target: &mut [u8], state: State) -> Result<State, PglzError> {
    assert!(state.target_offset <= target.len(), "so many bytes of it are written");
    advance_at(source, Target::of(target), state)
}

/// Goes on until either side ends, as [`advance`] but for the rest.
pub(crate) fn finish(source: &[u8], target: &mut [u8], state: State) -> Result<State, PglzError> {
    assert!(state.target_offset <= target.len(), "so many bytes of it are written");
    finish_at(source, Target::of(target), state)
}

/// Decompresses a whole value of `raw_len` bytes into the spare capacity of a vector, whose length
/// grows only if all went well.
#[cfg(feature = "alloc")]
pub(crate) fn extend(
    source: &[u8],
    raw_len: usize,
    target: &mut alloc::vec::Vec<u8>,
) -> Result<(), PglzError> {
    target.reserve(raw_len);
    let spare = &mut target.spare_capacity_mut()[..raw_len];
    let room = Target { start: spare.as_mut_ptr().cast(), len: raw_len, borrow: PhantomData };
    run_at(source, room)?.complete(source.len(), raw_len)?;
    let len = target.len() + raw_len;
    // SAFETY: `reserve` made room for `len` bytes, and a complete run has written all of `raw_len`: its
    // `target_offset` is the count of bytes written, and equals `raw_len`.
    unsafe { target.set_len(len) };
    Ok(())
}

fn run_at(source: &[u8], target: Target<'_>) -> Result<State, PglzError> {
    finish_at(source, target, advance_at(source, target, State::START)?)
}

/// The fast loop. All bytes below `state.target_offset` have been written, and that is at most the
/// target's length.
#[inline(always)]
fn advance_at(source: &[u8], target: Target<'_>, state: State) -> Result<State, PglzError> {
    let State { source_offset: mut at, target_offset: mut out, mut control } = state;
    // Below these, a turn of the loop stays inside both slices.
    let source_stop = source.len().saturating_sub(SOURCE_SLACK);
    let target_stop = target.len.saturating_sub(TARGET_SLACK);
    while at < source_stop && out < target_stop {
        let literals = control.trailing_zeros();
        control >>= literals;
        // SAFETY: `at + 8` is inside the source by `source_stop`, `out + 8` inside the target by `target_stop`.
        unsafe { target.store_run(source, at, out) };
        // At most 8: the mark of the group's end was bit 8 or lower. Those bytes are written.
        at += literals as usize;
        out += literals as usize;
        if control == GROUP_END {
            // SAFETY: `at` grew by at most 8 since `at < source_stop`, and 12 bytes were there.
            control = u32::from(unsafe { load_byte(source, at) }) | 0x100;
            at += 1;
            continue;
        }
        // SAFETY: as above; four bytes are left.
        let tag = unsafe { load_tag(source, at) };

        let short = (tag & 15) as usize + MATCH_MIN;
        let distance = ((tag & 0xf0) << 4 | tag >> 8 & 0xff) as usize;
        // Far enough back for block copies, and inside the value: `16 <= distance <= out`.
        if distance.wrapping_sub(BLOCK) < out.saturating_sub(BLOCK - 1) {
            // SAFETY: 25 bytes were left at the turn's start, at most 8 are used: `out + 17` is inside.
            // `out - distance + 16 <= out`, so all that is read has been written.
            unsafe { target.copy_block(out - distance, out) };
            if short < MATCH_LONG {
                // SAFETY: `out + 16` is inside as above; the byte read lies at `out` or before, and the
                // block just copied wrote `out`.
                unsafe { target.copy_byte(out - distance + BLOCK, out + BLOCK) };
                out += short;
                at += 2;
            } else {
                let len = MATCH_LONG + (tag >> 16 & 0xff) as usize;
                if len.max(LONG_COPY) + 2 * BLOCK > target.len - out {
                    // Too near the end for blocks; nothing was consumed yet.
                    break;
                }
                if len == MATCH_MAX {
                    let found = Match { len, distance, tag_len: 3 };
                    let here = State { source_offset: at, target_offset: out, control };
                    let next = found.step_over(source, here, target.len);
                    // SAFETY: `distance <= out`, and `next` lies inside the target.
                    unsafe { target.copy_run(out, distance, next.target_offset) };
                    State { source_offset: at, target_offset: out, control } = next;
                    continue;
                }
                // SAFETY: `out..out + LONG_COPY` is inside by the check above; each block reads what
                // lies at least 16 before it, written by now.
                unsafe { target.copy_block(out - distance + BLOCK, out + BLOCK) };
                // SAFETY: as above.
                unsafe { target.copy_block(out - distance + 2 * BLOCK, out + 2 * BLOCK) };
                let mut done = LONG_COPY;
                while done < len {
                    // SAFETY: `done < len`, and 32 bytes behind `out + len` are inside; read as above.
                    unsafe { target.copy_block(out - distance + done, out + done) };
                    done += BLOCK;
                    // SAFETY: as above.
                    unsafe { target.copy_block(out - distance + done, out + done) };
                    done += BLOCK;
                }
                out += len;
                at += 3;
            }
        } else {
            if distance == 0 || distance > out {
                return Err(PglzError::distance(at, out, distance));
            }
            let (len, tag_len) = match short {
                MATCH_LONG => (MATCH_LONG + (tag >> 16 & 0xff) as usize, 3),
                _ => (short, 2),
            };
            if len > target.len - out {
                break;
            }
            if len == MATCH_MAX {
                let found = Match { len, distance, tag_len };
                let here = State { source_offset: at, target_offset: out, control };
                let next = found.step_over(source, here, target.len);
                // SAFETY: `distance <= out`, and `next` lies inside the target.
                unsafe { target.copy_run(out, distance, next.target_offset) };
                State { source_offset: at, target_offset: out, control } = next;
                continue;
            }
            // SAFETY: the distance was checked against `out`, and `len` bytes fit the target.
            unsafe { target.copy_exact(out, distance, len) };
            out += len;
            at += tag_len;
        }
        control >>= 1;
    }
    Ok(State { source_offset: at, target_offset: out, control })
}

/// The rest of the value, exact to the byte on both sides. Needs what `advance_at` needs.
#[inline(always)]
fn finish_at(source: &[u8], target: Target<'_>, mut state: State) -> Result<State, PglzError> {
    while state.source_offset < source.len() && state.target_offset < target.len {
        let State { source_offset: at, target_offset: out, control } = state;
        if control == GROUP_END {
            state.control = u32::from(source[at]) | 0x100;
            state.source_offset += 1;
            continue;
        }
        let literals = control.trailing_zeros();
        if literals == 0 {
            let found = Match::read(source, state)?;
            let len = found.len.min(target.len - out);
            // SAFETY: the match was checked against `out`, and `len` cut to the room.
            unsafe { target.copy_exact(out, found.distance, len) };
            state.target_offset += len;
            state.source_offset += found.tag_len;
            state.control >>= 1;
        } else if source.len() - at >= RUN && target.len - out >= RUN {
            // SAFETY: just checked.
            unsafe { target.store_run(source, at, out) };
            state.target_offset += literals as usize;
            state.source_offset += literals as usize;
            state.control >>= literals;
        } else {
            let run = &source[at..source.len().min(at + literals as usize)];
            let run = &run[..run.len().min(target.len - out)];
            for (i, &byte) in run.iter().enumerate() {
                // SAFETY: the run was cut to the room behind `out`.
                unsafe { target.store_byte(byte, out + i) };
            }
            state.target_offset += run.len();
            state.source_offset += run.len();
            state.control >>= run.len();
        }
    }
    Ok(state)
}

/// The byte at `at`.
///
/// # Safety
/// `at < source.len()`.
#[inline(always)]
unsafe fn load_byte(source: &[u8], at: usize) -> u8 {
    debug_assert!(at < source.len());
    // SAFETY: inside the slice, the caller says.
    unsafe { *source.get_unchecked(at) }
}

/// The four bytes at `at`, the first the lowest.
///
/// # Safety
/// `at + 4 <= source.len()`.
#[inline(always)]
unsafe fn load_tag(source: &[u8], at: usize) -> u32 {
    debug_assert!(at + 4 <= source.len());
    // SAFETY: inside the slice, the caller says.
    let from = unsafe { source.as_ptr().add(at) };
    // SAFETY: four bytes of the slice; an array of bytes needs no alignment.
    u32::from_le_bytes(unsafe { from.cast::<[u8; 4]>().read() })
}

/// Where the value goes. See the module's contract for its invariant.
#[derive(Clone, Copy)]
struct Target<'a> {
    start: *mut u8,
    len: usize,
    borrow: PhantomData<&'a mut [MaybeUninit<u8>]>,
}

impl<'a> Target<'a> {
    /// All of a slice whose bytes are initialised; and only such are ever stored.
    fn of(target: &'a mut [u8]) -> Self {
        Self { start: target.as_mut_ptr(), len: target.len(), borrow: PhantomData }
    }

    /// Copies eight bytes of the source to `out`.
    ///
    /// # Safety
    /// `at + 8 <= source.len()` and `out + 8 <= self.len`.
    #[inline(always)]
    unsafe fn store_run(self, source: &[u8], at: usize, out: usize) {
        debug_assert!(at + RUN <= source.len() && out + RUN <= self.len);
        // SAFETY: inside the slice, the caller says.
        let from = unsafe { source.as_ptr().add(at) };
        // SAFETY: eight bytes of the slice; an array of bytes needs no alignment.
        let run = unsafe { from.cast::<[u8; RUN]>().read() };
        // SAFETY: inside the target, the caller says.
        let to = unsafe { self.start.add(out) };
        // SAFETY: eight bytes of the target, which is ours alone.
        unsafe { to.cast::<[u8; RUN]>().write(run) };
    }

    /// Stores one byte.
    ///
    /// # Safety
    /// `out < self.len`.
    #[inline(always)]
    unsafe fn store_byte(self, byte: u8, out: usize) {
        debug_assert!(out < self.len);
        // SAFETY: inside the target, the caller says.
        let to = unsafe { self.start.add(out) };
        // SAFETY: a byte of the target, which is ours alone.
        unsafe { to.write(byte) };
    }

    /// Stores 16 bytes, the lowest of `block` first.
    ///
    /// # Safety
    /// `out + 16 <= self.len`.
    #[inline(always)]
    unsafe fn store_block(self, block: u128, out: usize) {
        debug_assert!(out + BLOCK <= self.len);
        // SAFETY: inside the target, the caller says.
        let to = unsafe { self.start.add(out) };
        // SAFETY: 16 bytes of the target, which is ours alone.
        unsafe { to.cast::<[u8; BLOCK]>().write(block.to_le_bytes()) };
    }

    /// The eight bytes from `from`, the first the lowest.
    ///
    /// # Safety
    /// `from + 8 <= self.len`, and those bytes have been written.
    #[inline(always)]
    unsafe fn load(self, from: usize) -> u64 {
        debug_assert!(from + 8 <= self.len);
        // SAFETY: inside the target, the caller says.
        let from = unsafe { self.start.add(from) };
        // SAFETY: written before, the caller says; an array of bytes needs no alignment.
        u64::from_le_bytes(unsafe { from.cast::<[u8; 8]>().read() })
    }

    /// Copies one byte.
    ///
    /// # Safety
    /// `from` and `out` are below `self.len`, and the byte at `from` has been written.
    #[inline(always)]
    unsafe fn copy_byte(self, from: usize, out: usize) {
        debug_assert!(from < self.len && out < self.len);
        // SAFETY: inside the target, the caller says.
        let from = unsafe { self.start.add(from) };
        // SAFETY: written before, the caller says.
        let byte = unsafe { from.read() };
        // SAFETY: the caller's promise, passed on.
        unsafe { self.store_byte(byte, out) };
    }

    /// Copies 16 bytes.
    ///
    /// # Safety
    /// `from + 16` and `out + 16` are at most `self.len`, and the bytes at `from` have been written.
    #[inline(always)]
    unsafe fn copy_block(self, from: usize, out: usize) {
        debug_assert!(from + BLOCK <= self.len && out + BLOCK <= self.len);
        // SAFETY: inside the target, the caller says.
        let from = unsafe { self.start.add(from) };
        // SAFETY: written before, the caller says; an array of bytes needs no alignment.
        let block = unsafe { from.cast::<[u8; BLOCK]>().read() };
        // SAFETY: inside the target, the caller says.
        let to = unsafe { self.start.add(out) };
        // SAFETY: 16 bytes of the target, which is ours alone.
        unsafe { to.cast::<[u8; BLOCK]>().write(block) };
    }

    /// Copies a match that fills `out..end`, however long, by copies that double.
    ///
    /// # Safety
    /// All bytes below `out` have been written, `1 <= distance <= out <= end <= self.len`.
    #[inline(never)]
    unsafe fn copy_run(self, mut out: usize, mut distance: usize, end: usize) {
        debug_assert!(1 <= distance && distance <= out && out <= end && end <= self.len);
        while out < end {
            // A period's multiples are periods: what was copied so far is copied whole the next time.
            let len = distance.min(end - out);
            // SAFETY: `distance <= out`, so both start inside the target.
            let from = unsafe { self.start.add(out - distance) };
            // SAFETY: as above.
            let to = unsafe { self.start.add(out) };
            // SAFETY: `from..from + len` was written and ends at or before `to`, as `len <= distance`;
            // `to..to + len` ends at or before `end`.
            unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
            out += len;
            distance *= 2;
        }
    }

    /// Copies a match of any distance; up to 15 bytes more are written where there is room.
    ///
    /// # Safety
    /// All bytes below `out` have been written, `1 <= distance <= out`, `out + len <= self.len`.
    #[inline(never)]
    unsafe fn copy_exact(self, mut out: usize, distance: usize, len: usize) {
        debug_assert!(1 <= distance && distance <= out && out + len <= self.len);
        let end = out + len;
        if distance < BLOCK {
            // The pattern is cut out of the eight bytes before it.
            while out < end && out < 8 {
                // SAFETY: below `end`; read from below `out`.
                unsafe { self.copy_byte(out - distance, out) };
                out += 1;
            }
            if end - out >= BLOCK {
                // SAFETY: `8 <= out`, 16 bytes from there are before `end`.
                unsafe { self.repeat(out, distance, end) };
                return;
            }
            if out < end && self.len - out >= BLOCK {
                // SAFETY: `8 <= out`, and the distance was checked.
                let pattern = unsafe { self.pattern(out, distance) };
                // SAFETY: just checked.
                unsafe { self.store_block(pattern, out) };
                return;
            }
        } else {
            while out < end && self.len - out >= BLOCK {
                // SAFETY: just checked; read from at least 16 back, written by now.
                unsafe { self.copy_block(out - distance, out) };
                out += BLOCK;
            }
        }
        while out < end {
            // SAFETY: below `end`; read from below `out`.
            unsafe { self.copy_byte(out - distance, out) };
            out += 1;
        }
    }

    /// The `distance` bytes before `out`, over and over.
    ///
    /// # Safety
    /// All bytes below `out` have been written, `8 <= out`, `1 <= distance <= 15`, `distance <= out`.
    #[inline(always)]
    unsafe fn pattern(self, out: usize, distance: usize) -> u128 {
        debug_assert!(8 <= out && distance <= out && (1..BLOCK).contains(&distance));
        // SAFETY: the eight bytes before `out`.
        let last = unsafe { self.load(out - 8) };
        if distance < 8 {
            widen(last >> (64 - 8 * distance), distance)
        } else {
            // SAFETY: eight of the `distance` bytes before `out`.
            let first = unsafe { self.load(out - distance) };
            // Two words that overlap, or touch, give the `distance` bytes.
            let once = u128::from(first) | u128::from(last) << (8 * (distance - 8));
            once | once << (8 * distance)
        }
    }

    /// Fills `out..end` with what stands before it, `distance` bytes, over and over.
    ///
    /// # Safety
    /// All bytes below `out` have been written, `8 <= out`, `1 <= distance <= 15`, `distance <= out`,
    /// `out + 16 <= end <= self.len`.
    #[inline(always)]
    unsafe fn repeat(self, mut out: usize, distance: usize, end: usize) {
        debug_assert!(8 <= out && distance <= out && (1..BLOCK).contains(&distance));
        debug_assert!(out + BLOCK <= end && end <= self.len);
        // SAFETY: the caller's promise, passed on.
        let pattern = unsafe { self.pattern(out, distance) };
        // Each store starts a whole number of repetitions behind the last.
        let stride = STRIDES[distance];
        let last_block = end - BLOCK;
        // The last block starts somewhere in a repetition, and is stored last and alone: whoever looks back
        // at these bytes next finds them all in one store.
        #[expect(clippy::cast_possible_truncation, reason = "a match has 273 bytes at most")]
        let phase = ((last_block - out) as u32 % distance as u32) as usize;
        let turned = match phase {
            0 => pattern,
            _ => pattern >> (8 * phase) | pattern << (8 * (stride - phase)),
        };
        while last_block.saturating_sub(out) > stride {
            // SAFETY: 16 bytes from before `end - 16`.
            unsafe { self.store_block(pattern, out) };
            // SAFETY: as above.
            unsafe { self.store_block(pattern, out + stride) };
            out += 2 * stride;
        }
        if out < last_block {
            // SAFETY: as above.
            unsafe { self.store_block(pattern, out) };
        }
        // SAFETY: the 16 bytes before `end`.
        unsafe { self.store_block(turned, last_block) };
    }
}

/// By distance below 16, the largest multiple of it that is at most 16.
const STRIDES: [usize; BLOCK] = {
    let mut strides = [BLOCK; BLOCK];
    let mut distance = 1;
    while distance < BLOCK {
        strides[distance] = BLOCK - BLOCK % distance;
        distance += 1;
    }
    strides
};

/// Sixteen bytes of a pattern of 1 to 7 bytes, which `once` holds with zeros above.
#[inline(always)]
fn widen(once: u64, distance: usize) -> u128 {
    /// By distance, a one every `distance` bytes.
    const EVERY: [u128; 8] = {
        let mut every = [0; 8];
        let mut distance = 1;
        while distance < 8 {
            let mut byte = 0;
            while byte < 16 {
                every[distance] |= 1 << (8 * byte);
                byte += distance;
            }
            distance += 1;
        }
        every
    };
    u128::from(once).wrapping_mul(EVERY[distance])
}
