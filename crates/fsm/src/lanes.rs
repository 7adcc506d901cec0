//! Eight nodes in a `u64`, the first in the lowest byte, looked at together.
//!
//! Compilers do not turn a search with an early end into vector code, and atomics never become it;
//! plain arithmetic on words serves both the page in bytes and the page in atomics.

/// In each byte: its highest bit alone.
const HIGH: u64 = 0x8080_8080_8080_8080;
/// In each byte: 1.
const ONES: u64 = 0x0101_0101_0101_0101;

/// A category in all eight bytes, ready to be compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Least {
    all: u64,
    low_bits: u64,
}

impl Least {
    #[inline]
    pub(crate) const fn new(category: u8) -> Self {
        let all = category as u64 * ONES;
        Self { all, low_bits: all & !HIGH }
    }

    /// The high bit of each byte that is at least the category; all others clear.
    #[inline]
    pub(crate) const fn reached_in(self, word: u64) -> u64 {
        // With the high bits forced on, no byte borrows from the next: the high bit that is left
        // tells how the seven low bits compare. The high bits themselves decide first.
        let low = (word | HIGH) - self.low_bits;
        ((word & !self.all) | (!(word ^ self.all) & low)) & HIGH
    }
}

/// The number of the first byte whose high bit is set in such a mask, which is not zero.
#[inline]
pub(crate) const fn first_lane(mask: u64) -> usize {
    (mask.trailing_zeros() / 8) as usize
}

/// Byte by byte the greater of two words.
#[inline]
pub(crate) const fn max_lanes(a: u64, b: u64) -> u64 {
    let low = (a | HIGH) - (b & !HIGH);
    let a_reaches = ((a & !b) | (!(a ^ b) & low)) & HIGH;
    let whole = (a_reaches >> 7) * 0xff;
    (a & whole) | (b & !whole)
}

/// The greatest byte of a word.
#[inline]
pub(crate) const fn max_lane(word: u64) -> u8 {
    let pairs = max_lanes(word, word >> 32);
    let pairs = max_lanes(pairs, pairs >> 16);
    #[expect(clippy::cast_possible_truncation, reason = "the lowest byte is asked for")]
    return max_lanes(pairs, pairs >> 8) as u8;
}

/// Where the first byte is that reaches `least`, among those from `from` on.
#[inline]
pub(crate) fn position(bytes: &[u8], from: usize, least: Least) -> Option<usize> {
    let mut at = from;
    let rest = bytes.get(from..)?;
    let mut words = rest.chunks_exact(8);
    for word in &mut words {
        let mask = least.reached_in(word_of(word));
        if mask != 0 {
            return Some(at + first_lane(mask));
        }
        at += 8;
    }
    let mask = least.reached_in(word_of(words.remainder()));
    // Bytes past the end read as zero: they would reach a category of 0.
    (mask != 0).then(|| at + first_lane(mask)).filter(|&at| at < bytes.len())
}

/// Up to eight bytes as a word, zeros behind them.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    match bytes.try_into() {
        Ok(eight) => u64::from_le_bytes(eight),
        Err(_) => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_compared_on_its_own() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                let around = [0, a, 255, a, 127, a, 128, a];
                let word = u64::from_le_bytes(around);
                let mask = Least::new(b).reached_in(word);
                for (lane, &byte) in around.iter().enumerate() {
                    let expected = if byte >= b { 0x80 } else { 0 };
                    assert_eq!(mask.to_le_bytes()[lane], expected, "{byte} against {b}");
                }
                let other = u64::from_le_bytes([b; 8]);
                assert_eq!(max_lanes(word, other).to_le_bytes(), around.map(|byte| byte.max(b)));
            }
        }
    }

    #[test]
    fn the_greatest_byte_may_be_anywhere() {
        for lane in 0..8 {
            let mut bytes = [3, 1, 4, 1, 5, 9, 2, 6];
            bytes[lane] = 200;
            assert_eq!(max_lane(u64::from_le_bytes(bytes)), 200);
        }
    }

    #[test]
    fn position_is_what_an_iterator_finds() {
        let bytes: [u8; 37] = core::array::from_fn(|i| u8::try_from(i * 151 % 256).unwrap_or(0));
        for len in 0..=bytes.len() {
            for from in 0..=len + 1 {
                for least in [0, 1, 100, 128, 200, 250, 255] {
                    let expected = (from..len).find(|&at| bytes[at] >= least);
                    assert_eq!(position(&bytes[..len], from, Least::new(least)), expected);
                }
            }
        }
    }
}
