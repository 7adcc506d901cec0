//! The hashes of a stretch of positions, computed side by side.
//!
//! One after the other each hash would cost as much as the rest of what a position needs; in a loop
//! without branches over bytes next to each other the compiler does eight at a time.
#![expect(clippy::cast_possible_truncation, reason = "a char fits 16 bits")]
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
    pub(crate) fn hash(&mut self, source: &[u8], positions: usize, sorting: Sorting) {
        let stretches =
            self.slots.chunks_exact_mut(STRETCH).zip(self.buckets.chunks_exact_mut(STRETCH));
        for ((slots, buckets), start) in stretches.zip((0..positions).step_by(STRETCH)) {
            let mut padded = [0; STRETCH_BYTES];
            let rest = &source[start..];
            let bytes = rest.first_chunk().unwrap_or_else(|| {
                padded[..rest.len()].copy_from_slice(rest);
                &padded
            });
            match sorting.sign {
                CharSign::Signed => {
                    hash(bytes, slots, buckets, sorting, |byte| i16::from(byte.cast_signed()))
                }
                CharSign::Unsigned => hash(bytes, slots, buckets, sorting, i16::from),
            }
        }
    }
}

/// Both hashes of each position.
#[inline(always)]
fn hash(
    bytes: &[u8; STRETCH_BYTES],
    slots: &mut [u16],
    buckets: &mut [u16],
    sorting: Sorting,
    char: impl Fn(u8) -> i16,
) {
    for (i, (slot, bucket)) in slots.iter_mut().zip(buckets).enumerate().take(STRETCH) {
        let four = [char(bytes[i]), char(bytes[i + 1]), char(bytes[i + 2]), char(bytes[i + 3])];
        *slot = slot_of(four, sorting.slot_shift);
        *bucket = full_bucket(four) & sorting.bucket_mask;
    }
}

/// PostgreSQL's hash. It is an `int` there; the mask keeps at most 13 bits, so 16 are enough here.
#[inline(always)]
const fn full_bucket(four: [i16; 4]) -> u16 {
    (four[0] << 6 ^ four[1] << 4 ^ four[2] << 2 ^ four[3]).cast_unsigned()
}

/// A hash of our own: a sum of products with odd numbers, whose high bits are the good ones.
#[inline(always)]
const fn slot_of(four: [i16; 4], shift: u32) -> u16 {
    let first = four[0].cast_unsigned().wrapping_mul(0x9e37);
    let second = four[1].cast_unsigned().wrapping_mul(0x79b5);
    let third = four[2].cast_unsigned().wrapping_mul(0xc2b3);
    let fourth = four[3].cast_unsigned().wrapping_mul(0x58a7);
    first.wrapping_add(second).wrapping_add(third).wrapping_add(fourth) >> shift
}

/// How a value's positions are sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sorting {
    sign: CharSign,
    /// One less than the buckets that PostgreSQL takes for a value of this length.
    bucket_mask: u16,
    /// Slots are what is left of 16 bits.
    slot_shift: u32,
}

impl Sorting {
    /// For a value of `source_len` bytes, in a table whose slots are what is left after `slot_shift`.
    pub(crate) const fn new(source_len: usize, sign: CharSign, slot_shift: u32) -> Self {
        let bucket_mask = match source_len {
            ..128 => 0x1ff,
            128..256 => 0x3ff,
            256..512 => 0x7ff,
            512..1024 => 0xfff,
            1024.. => 0x1fff,
        };
        // Where there are few positions, few slots stay in the cache.
        let slot_shift = if source_len < 4096 && slot_shift < 3 { 3 } else { slot_shift };
        Self { sign, bucket_mask, slot_shift }
    }

    /// The slot of four bytes.
    pub(crate) fn slot(self, four: [u8; 4]) -> u16 {
        slot_of(four.map(|byte| self.sign.widen(byte) as i16), self.slot_shift)
    }

    /// PostgreSQL's bucket of the position that these bytes start at: of four bytes, or of the first
    /// alone where fewer are left. `bytes` must not be empty.
    pub(crate) fn bucket(self, bytes: &[u8]) -> u16 {
        let char = |byte| self.sign.widen(byte) as i16;
        let full = match *bytes {
            [a, b, c, d, ..] => full_bucket([a, b, c, d].map(char)),
            [a, ..] => char(a).cast_unsigned(),
            [] => 0,
        };
        full & self.bucket_mask
    }

    /// The fourth byte that puts four bytes into the bucket of the first one alone, if there is one.
    pub(crate) fn fourth(self, [a, b, c]: [u8; 3]) -> Option<u8> {
        let [a, b, c] = [a, b, c].map(|byte| self.sign.widen(byte) as i16);
        // The first byte alone hashes to itself, so the fourth must make up for the other terms.
        let wanted = full_bucket([a, b, c, a]) & self.bucket_mask;
        let fourth = wanted as u8;
        let hash = (self.sign.widen(fourth) as i16).cast_unsigned() & self.bucket_mask;
        (hash == wanted).then_some(fourth)
    }
}
