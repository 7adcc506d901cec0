//! The hashes of a stretch of positions, computed side by side.
//!
//! One after the other each hash would cost as much as the rest of what a position needs; in a loop
//! without branches over bytes next to each other the compiler does eight at a time.
use crate::CharSign;

/// Positions in a block.
pub(crate) const BLOCK: usize = 256;
/// Positions hashed at once.
const STRETCH: usize = 32;
/// Bytes that a stretch looks at.
const STRETCH_BYTES: usize = STRETCH + 3;

/// For each position of a block, where it belongs in the two tables.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The slot of its four bytes: equal bytes have equal slots, and others seldom.
    pub(crate) slots: [u16; BLOCK],
    /// Its bucket in PostgreSQL's table.
    pub(crate) buckets: [u16; BLOCK],
}

impl Block {
    pub(crate) const fn new() -> Self {
        Self { slots: [0; BLOCK], buckets: [0; BLOCK] }
    }

    /// Hashes the first `positions` of `source`, each of which has four bytes.
    pub(crate) fn hash(&mut self, source: &[u8], positions: usize, mask: u16, sign: CharSign) {
        let stretches =
            self.slots.chunks_exact_mut(STRETCH).zip(self.buckets.chunks_exact_mut(STRETCH));
        for ((slots, buckets), start) in stretches.zip((0..positions).step_by(STRETCH)) {
            let mut padded = [0; STRETCH_BYTES];
            let rest = &source[start..];
            let bytes = rest.first_chunk().unwrap_or_else(|| {
                padded[..rest.len()].copy_from_slice(rest);
                &padded
            });
            hash_slots(bytes, slots);
            match sign {
                CharSign::Signed => {
                    hash_buckets(bytes, buckets, mask, |byte| i16::from(byte.cast_signed()))
                }
                CharSign::Unsigned => hash_buckets(bytes, buckets, mask, i16::from),
            }
        }
    }
}

/// PostgreSQL's hash. It is an `int` there; the mask keeps at most 13 bits, so 16 are enough here.
#[inline(always)]
fn hash_buckets(
    bytes: &[u8; STRETCH_BYTES],
    buckets: &mut [u16],
    mask: u16,
    char: impl Fn(u8) -> i16,
) {
    for (i, bucket) in buckets.iter_mut().enumerate().take(STRETCH) {
        let hash = char(bytes[i]) << 6
            ^ char(bytes[i + 1]) << 4
            ^ char(bytes[i + 2]) << 2
            ^ char(bytes[i + 3]);
        *bucket = hash.cast_unsigned() & mask;
    }
}

/// A hash of our own, of two halves with two odd numbers. Its high bits are the good ones.
#[inline(always)]
fn hash_slots(bytes: &[u8; STRETCH_BYTES], slots: &mut [u16]) {
    for (i, slot) in slots.iter_mut().enumerate().take(STRETCH) {
        *slot = slot_of([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
    }
}

/// The slot of four bytes.
#[inline(always)]
pub(crate) fn slot_of(four: [u8; 4]) -> u16 {
    let low = u16::from_le_bytes([four[0], four[1]]);
    let high = u16::from_le_bytes([four[2], four[3]]);
    low.wrapping_mul(0x9e37).wrapping_add(high.wrapping_mul(0x79b5)) >> SLOT_SHIFT
}

/// Slots are what is left of 16 bits.
const SLOT_SHIFT: u32 = 3;
/// How many slots there are.
pub(crate) const SLOTS: usize = 1 << (16 - SLOT_SHIFT);
