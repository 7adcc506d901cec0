//! Numbers that look random and are the same on every run of a seed, on every machine.

/// The splitmix64 generator: one 64-bit counter, mixed well. Not for secrets.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The sequence of that seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "no number is below 0");
        // The high half of the product spreads evenly but for a bias nobody's test will see.
        let product = u128::from(self.next_u64()) * bound as u128;
        usize::try_from(product >> 64).expect("a number below a usize is one")
    }

    /// A number in `low..=high`.
    ///
    /// # Panics
    /// When `low` is above `high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        assert!(low <= high, "nothing is between {low} and {high}");
        low + self.below(high - low + 1)
    }

    /// Whether something happens that does so in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// So many bytes, any of the 256.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.next_u64().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        let mut rng = Rng::new(0);
        // The values the algorithm's authors publish for seed 0.
        assert_eq!(rng.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next_u64(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(rng.next_u64(), 0x06c4_5d18_8009_454f);
    }

    #[test]
    fn both_ends_of_a_range_come_up() {
        let mut rng = Rng::new(7);
        let drawn: Vec<_> = (0..200).map(|_| rng.between(3, 6)).collect();
        for expected in 3..=6 {
            assert!(drawn.contains(&expected), "{expected}");
        }
        assert!(drawn.iter().all(|one| (3..=6).contains(one)));
    }

    #[test]
    fn as_many_bytes_come_as_were_asked_for() {
        for len in [0, 1, 7, 8, 9, 1000] {
            assert_eq!(Rng::new(1).bytes(len).len(), len);
        }
    }
}
