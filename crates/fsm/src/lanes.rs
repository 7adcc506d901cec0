//! Thirty-two nodes in four words, the first in the lowest byte of the first, looked at together.
//!
//! A search with an early end does not become vector code by itself, atomics never do, and the
//! processors' own vectors need unsafe code. Plain arithmetic on words serves both the page in bytes and
//! the page in atomics.

/// Nodes looked at together: more than most searches pass over, so that one look is enough.
pub(crate) const WIDTH: usize = 32;
/// The words they fill.
pub(crate) const WORDS: usize = WIDTH / 8;

/// In each byte: its highest bit alone.
const HIGH: u64 = 0x8080_8080_8080_8080;
/// In each byte: 1.
const ONES: u64 = 0x0101_0101_0101_0101;

/// A category to compare with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Least {
    category: u8,
    all: u64,
}

impl Least {
    #[inline]
    pub(crate) const fn new(category: u8) -> Self {
        Self { category, all: category as u64 * ONES }
    }

    /// The category.
    #[inline]
    pub(crate) const fn category(self) -> u8 {
        self.category
    }

    /// One bit a node: whether it is at least the category.
    #[inline]
    pub(crate) fn reached_in(self, words: &[u64; WORDS]) -> u32 {
        words.iter().rev().fold(0, |bits, word| {
            // Brings the lowest bits of the eight bytes together in the highest byte, in order.
            let reached = (reaches(*word, self.all) >> 7).wrapping_mul(0x0102_0408_1020_4080);
            let [.., gathered] = reached.to_le_bytes();
            bits << 8 | u32::from(gathered)
        })
    }

    /// Where the first node is that is at least the category.
    #[inline]
    pub(crate) fn first_in(self, words: &[u64; WORDS]) -> Option<usize> {
        // The half that has it, then the half of that: by selection, since no branch on where a
        // search ends can be predicted.
        let [first, second, third, fourth] = words.map(|word| reaches(word, self.all));
        let (low, high, start) =
            if first | second != 0 { (first, second, 0) } else { (third, fourth, WIDTH / 2) };
        let (reached, start) = if low != 0 { (low, start) } else { (high, start + 8) };
        (reached != 0).then(|| start + reached.trailing_zeros() as usize / 8)
    }
}

/// The greatest node of some words, as many as a power of two.
#[cfg(any(test, feature = "alloc"))]
#[inline]
pub(crate) fn max_of<const COUNT: usize>(mut words: [u64; COUNT]) -> u8 {
    // Halved again and again: few steps wait for each other.
    let mut half = COUNT / 2;
    while half > 0 {
        for at in 0..half {
            words[at] = greater(words[at], words[at + half]);
        }
        half /= 2;
    }
    let halves = greater(words[0], words[0] >> 32);
    let [a, b, c, d, ..] = halves.to_le_bytes();
    a.max(b).max(c.max(d))
}

/// In each byte the greater of both.
#[cfg(any(test, feature = "alloc"))]
#[inline]
const fn greater(word: u64, other: u64) -> u64 {
    let whole = (reaches(word, other) >> 7) * 0xff;
    (word & whole) | (other & !whole)
}

/// The high bit of each byte of `word` that is at least that of `other`; all others clear.
#[inline]
const fn reaches(word: u64, other: u64) -> u64 {
    // With the high bits forced on, no byte borrows from the next: the high bit that is left tells
    // how the seven low bits compare. The high bits themselves decide first.
    let low = (word | HIGH) - (other & !HIGH);
    ((word & !other) | (!(word ^ other) & low)) & HIGH
}

/// Where the first byte is that reaches `least`, among the [`WIDTH`] from `from` on; `None` as well
/// where there are fewer.
#[inline]
pub(crate) fn near_position(bytes: &[u8], from: usize, least: Least) -> Option<usize> {
    let (words, _) = bytes.get(from..)?.as_chunks::<8>();
    let words = words.first_chunk::<WORDS>()?.map(u64::from_le_bytes);
    least.first_in(&words).map(|at| from + at)
}

/// Where the first byte is that reaches `least`, among those from `from` on.
#[inline]
pub(crate) fn position(bytes: &[u8], from: usize, least: Least) -> Option<usize> {
    let Some(last) = bytes.len().checked_sub(WIDTH) else {
        return short_position(bytes, from, least);
    };
    let mut at = from;
    while at < bytes.len() {
        // The last stretch begins earlier than it need, so that it is as long as the others.
        let start = at.min(last);
        let (words, _) = bytes.get(start..)?.as_chunks::<8>();
        let words = words.first_chunk::<WORDS>()?.map(u64::from_le_bytes);
        let mask = least.reached_in(&words) & (u32::MAX << (at - start));
        if mask != 0 {
            return Some(start + mask.trailing_zeros() as usize);
        }
        at = start + WIDTH;
    }
    None
}

/// The same for less than a stretch, as only pages of a model checker's size have.
#[cold]
fn short_position(bytes: &[u8], from: usize, least: Least) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.iter().position(|&byte| byte >= least.category).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8; WIDTH]) -> [u64; WORDS] {
        core::array::from_fn(|at| u64::from_le_bytes(core::array::from_fn(|i| bytes[8 * at + i])))
    }

    #[test]
    fn each_node_is_compared_on_its_own() {
        for node in 0..=255u8 {
            let around = [0, node, 255, node, 127, node, 128, node];
            let bytes = core::array::from_fn(|at| around[(at + at / 8) % 8]);
            for least in 0..=255u8 {
                let bit = |(at, &byte): (usize, &u8)| u32::from(byte >= least) << at;
                let expected: u32 = bytes.iter().enumerate().map(bit).sum();
                assert_eq!(Least::new(least).reached_in(&words(&bytes)), expected);
                let first = bytes.iter().position(|&byte| byte >= least);
                assert_eq!(Least::new(least).first_in(&words(&bytes)), first);
            }
        }
    }

    #[test]
    fn the_greatest_node_may_be_anywhere() {
        for at in 0..WIDTH {
            for greatest in [7, 128, 255] {
                let mut bytes = core::array::from_fn(|at| u8::try_from(at % 7).unwrap_or(0));
                bytes[at] = greatest;
                assert_eq!(max_of(words(&bytes)), greatest);
            }
        }
        assert_eq!(max_of([0x0100_0000_0000_0000]), 1);
    }

    #[test]
    fn the_first_node_may_be_anywhere() {
        for at in 0..WIDTH {
            let mut bytes = [0; WIDTH];
            bytes[at..].fill(7);
            assert_eq!(Least::new(7).first_in(&words(&bytes)), Some(at));
            assert_eq!(Least::new(8).first_in(&words(&bytes)), None);
        }
    }

    #[test]
    fn position_is_what_an_iterator_finds() {
        let bytes: [u8; 150] = core::array::from_fn(|i| u8::try_from(i * 151 % 256).unwrap_or(0));
        for len in [0, 1, 31, 32, 33, 37, 63, 64, 65, 127, 150] {
            for from in 0..=len + 1 {
                for least in [0, 1, 100, 128, 200, 250, 255] {
                    let expected = (from..len).find(|&at| bytes[at] >= least);
                    let least = Least::new(least);
                    assert_eq!(position(&bytes[..len], from, least), expected);
                    let near = expected.filter(|at| from + WIDTH <= len && *at < from + WIDTH);
                    assert_eq!(near_position(&bytes[..len], from, least), near);
                }
            }
        }
    }
}
