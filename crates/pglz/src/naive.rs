//! The codec in its plainest words: slow, short, and what the fast one answers to.
//!
//! No tables and no tricks. The compressor looks at every earlier position within reach and asks of
//! each whether PostgreSQL would have found it in the bucket; the decompressor goes byte by byte.
//! Both are for tests: compressing takes about four thousand steps for each input byte.
//!
//! Source: `pg_lzcompress.c` (REL_18), `pglz_compress`, `pglz_find_match`, `pglz_decompress`.
use crate::format::{DISTANCE_STOP, GROUP_ITEMS, MATCH_LONG, MATCH_MAX, MATCH_MIN};
use crate::strategy::Limits;
use crate::{CharSign, PglzError, Strategy, maximum_output_size};

/// As [`Compressor::compress`](crate::Compressor::compress).
///
/// # Errors
/// [`PglzError::TargetTooSmall`] if `target` has fewer than [`maximum_output_size`] bytes.
pub fn compress(
    source: &[u8],
    strategy: &Strategy,
    sign: CharSign,
    target: &mut [u8],
) -> Result<Option<usize>, PglzError> {
    let Some(limits) = strategy.limits(source.len()) else { return Ok(None) };
    let needed = maximum_output_size(source.len());
    if target.len() < needed {
        return Err(PglzError::TargetTooSmall { needed, available: target.len() });
    }
    Ok(run(source, &limits, sign, target))
}

/// Compresses into a target that is large enough.
fn run(source: &[u8], limits: &Limits, sign: CharSign, target: &mut [u8]) -> Option<usize> {
    let (mut at, mut out, mut items, mut control) = (0, 0, 0, 0);
    let mut found_any = false;
    while at < source.len() {
        if out >= limits.output_limit || (!found_any && out >= limits.first_success_by) {
            return None;
        }
        if items % GROUP_ITEMS == 0 {
            (control, target[out]) = (out, 0);
            out += 1;
        }
        match find_match(source, at, limits, sign) {
            Some((len, distance)) => {
                found_any = true;
                target[control] |= 1 << (items % GROUP_ITEMS);
                out += write_tag(&mut target[out..], len, distance);
                at += len;
            }
            None => {
                target[out] = source[at];
                out += 1;
                at += 1;
            }
        }
        items += 1;
    }
    (out < limits.output_limit).then_some(out)
}

/// The match PostgreSQL takes for the bytes at `at`, as length and distance.
fn find_match(source: &[u8], at: usize, limits: &Limits, sign: CharSign) -> Option<(usize, usize)> {
    let (mut best, mut best_distance) = (0, 0);
    let mut good = limits.good_match;
    let bucket = hash(source, at, sign);
    let in_bucket = |&distance: &usize| hash(source, at - distance, sign) == bucket;
    for (rank, distance) in (1..DISTANCE_STOP.min(at + 1)).filter(in_bucket).enumerate() {
        if rank > 0 {
            if best >= good as usize {
                break;
            }
            good = limits.decay(good);
        }
        let (here, there) = (&source[at..], &source[at - distance..]);
        let len = here.iter().zip(there).take(MATCH_MAX).take_while(|(a, b)| a == b).count();
        if len > best {
            (best, best_distance) = (len, distance);
        }
    }
    (best >= MATCH_MIN).then_some((best, best_distance))
}

/// The bucket of the position `at`: its next four bytes, or the one byte where fewer are left.
fn hash(source: &[u8], at: usize, sign: CharSign) -> i32 {
    let buckets = match source.len() {
        ..128 => 512,
        128..256 => 1024,
        256..512 => 2048,
        512..1024 => 4096,
        1024.. => 8192,
    };
    let char = |i: usize| sign.widen(source[at + i]);
    let full = if source.len() - at < 4 {
        char(0)
    } else {
        char(0) << 6 ^ char(1) << 4 ^ char(2) << 2 ^ char(3)
    };
    full & (buckets - 1)
}

/// Writes a match, and says how many bytes that took.
#[expect(clippy::cast_possible_truncation, reason = "a length to 273 and a distance to 4095")]
fn write_tag(target: &mut [u8], len: usize, distance: usize) -> usize {
    let short = (len.min(MATCH_LONG) - MATCH_MIN) as u8;
    target[0] = ((distance >> 8) as u8) << 4 | short;
    target[1] = distance as u8;
    if len < MATCH_LONG {
        return 2;
    }
    target[2] = (len - MATCH_LONG) as u8;
    3
}

/// As [`decompress`](crate::decompress()).
///
/// # Errors
/// As there.
pub fn decompress(source: &[u8], target: &mut [u8]) -> Result<(), PglzError> {
    let (at, out) = read(source, target)?;
    if out < target.len() {
        return Err(PglzError::Short { target_offset: out, expected: target.len() });
    }
    if at < source.len() {
        return Err(PglzError::Trailing { source_offset: at, source_len: source.len() });
    }
    Ok(())
}

/// As [`decompress_prefix`](crate::decompress_prefix).
///
/// # Errors
/// As there.
pub fn decompress_prefix(source: &[u8], target: &mut [u8]) -> Result<usize, PglzError> {
    read(source, target).map(|(_, out)| out)
}

/// Decompresses until either side ends; the bytes consumed and produced.
fn read(source: &[u8], target: &mut [u8]) -> Result<(usize, usize), PglzError> {
    let (mut at, mut out) = (0, 0);
    while at < source.len() && out < target.len() {
        let control = source[at];
        at += 1;
        for item in 0..GROUP_ITEMS {
            if at == source.len() || out == target.len() {
                break;
            }
            if control >> item & 1 == 0 {
                target[out] = source[at];
                at += 1;
                out += 1;
                continue;
            }
            let (len, distance, tag_len) = read_tag(source, at, out)?;
            for _ in 0..len.min(target.len() - out) {
                target[out] = target[out - distance];
                out += 1;
            }
            at += tag_len;
        }
    }
    Ok((at, out))
}

/// Reads a match: its length and distance, and how many bytes said so.
fn read_tag(source: &[u8], at: usize, out: usize) -> Result<(usize, usize, usize), PglzError> {
    let truncated = PglzError::Truncated { source_offset: at, target_offset: out };
    let byte = |i: usize| source.get(at + i).copied().map(usize::from).ok_or(truncated);
    let short = (byte(0)? & 15) + MATCH_MIN;
    let distance = byte(0)? >> 4 << 8 | byte(1)?;
    let (len, tag_len) = if short < MATCH_LONG { (short, 2) } else { (MATCH_LONG + byte(2)?, 3) };
    if distance == 0 || distance > out {
        return Err(PglzError::distance(at, out, distance));
    }
    Ok((len, distance, tag_len))
}
