//! Which chunks have come.
use alloc::collections::BTreeMap;
use core::ops::Range;

/// Numbers one leaf has bits for.
const LEAF_BITS: u32 = 512;

/// The numbers of a plan's chunks that have come.
///
/// While they come in order it is a counter. From the first that does not it also has leaves of 64
/// bytes, each for the 512 numbers around one that came: a number costs that much at most, however
/// large it is.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The plan's.
    chunks: Range<u32>,
    /// All below this one came, of those from the plan's first on.
    next: u32,
    leaves: BTreeMap<u32, [u64; 8]>,
    missing: u32,
}

impl Seen {
    pub(crate) const fn new(chunks: Range<u32>) -> Self {
        let (next, missing) = (chunks.start, chunks.end - chunks.start);
        Self { chunks, next, leaves: BTreeMap::new(), missing }
    }

    /// Notes that a chunk of the plan has come; `false` if it has before.
    #[inline]
    pub(crate) fn mark(&mut self, number: u32) -> bool {
        if number == self.next && self.leaves.is_empty() {
            self.next += 1;
            self.missing -= 1;
            return true;
        }
        self.mark_leaf(number)
    }

    fn mark_leaf(&mut self, number: u32) -> bool {
        if number < self.next {
            return false;
        }
        let (leaf, word, bit) = place_of(number);
        let words = self.leaves.entry(leaf).or_default();
        let is_new = words[word] & bit == 0;
        words[word] |= bit;
        self.missing -= u32::from(is_new);
        is_new
    }

    /// The one to come next, as long as none has come out of turn.
    pub(crate) fn next_in_order(&self) -> Option<u32> {
        self.leaves.is_empty().then_some(self.next)
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// The first that is missing, and the first behind it that has come; `None` if all have.
    pub(crate) fn hole(&self) -> Option<(u32, Option<u32>)> {
        if self.is_complete() {
            return None;
        }
        // The leaves bound both walks, so their length is that of what came.
        let hole = (self.next..self.chunks.end).find(|number| !self.has(*number))?;
        let behind = self.leaves.range(place_of(hole).0..).find_map(|(leaf, words)| {
            let start = leaf * LEAF_BITS;
            (start.max(hole)..start + LEAF_BITS).find(|number| {
                let (_, word, bit) = place_of(*number);
                words[word] & bit != 0
            })
        });
        Some((hole, behind))
    }

    fn has(&self, number: u32) -> bool {
        let (leaf, word, bit) = place_of(number);
        number < self.next || self.leaves.get(&leaf).is_some_and(|words| words[word] & bit != 0)
    }
}

/// The leaf of a number, the word in it and the bit.
const fn place_of(number: u32) -> (u32, usize, u64) {
    let bit = number % LEAF_BITS;
    (number / LEAF_BITS, (bit / 64) as usize, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn numbers_in_order_take_no_leaf_and_others_few() {
        let mut seen = Seen::new(5..600_000);
        assert!((5..1000).all(|number| seen.mark(number)));
        assert!(seen.leaves.is_empty() && seen.next_in_order() == Some(1000));
        assert!(!seen.mark(5) && !seen.mark(999) && seen.leaves.is_empty());
        assert!(seen.mark(599_999) && !seen.mark(599_999));
        assert!((1000..1512).all(|number| seen.mark(number)));
        assert_eq!((seen.leaves.len(), seen.next_in_order()), (3, None));
        assert_eq!(seen.hole(), Some((1512, Some(599_999))));
    }

    #[test]
    fn the_hole_is_the_first_missing_and_what_came_first_behind_it() {
        let seen = |numbers: &[u32]| {
            let mut seen = Seen::new(0..2000);
            assert!(numbers.iter().all(|number| seen.mark(*number)));
            seen.hole()
        };
        assert_eq!(seen(&[]), Some((0, None)));
        assert_eq!(seen(&[0, 1]), Some((2, None)));
        assert_eq!(seen(&[0, 2]), Some((1, Some(2))));
        assert_eq!(seen(&[2, 0, 1]), Some((3, None)));
        assert_eq!(seen(&[1999, 1500, 600]), Some((0, Some(600))));
        let all_but_one: Vec<u32> = (0..2000).rev().filter(|number| *number != 777).collect();
        assert_eq!(seen(&all_but_one), Some((777, Some(778))));
        let all: Vec<u32> = (0..2000).rev().collect();
        assert_eq!(seen(&all), None);
    }
}
