//! How numbers are spread, in little memory however many there are.
use std::collections::BTreeMap;

use serde::Serialize;

/// How numbers are spread. Small numbers are kept as they are, larger ones to a part in 64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    buckets: BTreeMap<u64, u64>,
    count: u64,
    total: u64,
    most: u64,
}

/// Numbers below this have a bucket of their own.
const EXACT: u64 = 128;

impl Distribution {
    /// Takes one more number.
    pub fn add(&mut self, number: u64) {
        *self.buckets.entry(bucket(number)).or_default() += 1;
        self.count += 1;
        self.total = self.total.saturating_add(number);
        self.most = self.most.max(number);
    }

    /// Takes all numbers that another has taken.
    pub fn append(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.most = self.most.max(other.most);
    }

    /// How many numbers there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The number that a share of all, in hundredths, does not exceed: to a part in 64, never too low.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count.saturating_mul(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return end_of(*bucket).min(self.most);
            }
        }
        self.most
    }

    /// In a few numbers; `None` if there are none to tell of.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean is printed with one digit")]
    pub fn spread(&self) -> Option<Spread> {
        (self.count > 0).then(|| Spread {
            total: self.total,
            mean: self.total as f64 / self.count as f64,
            p50: self.percentile(50),
            p99: self.percentile(99),
            most: self.most,
        })
    }
}

/// Where a number's bucket starts.
const fn bucket(number: u64) -> u64 {
    if number < EXACT { number } else { number >> shift(number) << shift(number) }
}

/// The last number of the bucket that starts there.
const fn end_of(start: u64) -> u64 {
    if start < EXACT { start } else { start | ((1 << shift(start)) - 1) }
}

/// How many low bits a bucket leaves open: all but the seven highest.
const fn shift(number: u64) -> u32 {
    u64::BITS - number.leading_zeros() - EXACT.trailing_zeros()
}

/// How numbers are spread, in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    /// Their sum.
    pub total: u64,
    /// Their mean.
    pub mean: f64,
    /// Half of them are not larger; to a part in 64.
    pub p50: u64,
    /// All but a hundredth of them are not larger; to a part in 64.
    pub p99: u64,
    /// The largest.
    pub most: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_a_part_in_64_whatever_the_numbers() {
        let mut rng = 7_u64;
        for scale in [1_u64, 10, 1000, 1 << 40, u64::MAX >> 1] {
            let mut numbers: Vec<u64> = (0..999)
                .map(|_| {
                    rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (rng >> 1) % scale
                })
                .collect();
            let (mut whole, mut halves) =
                (Distribution::default(), [0, 1].map(|_| Distribution::default()));
            for (at, number) in numbers.iter().enumerate() {
                whole.add(*number);
                halves[at % 2].add(*number);
            }
            let [mut first, second] = halves;
            first.append(&second);
            assert_eq!(first, whole, "in parts as in one");
            numbers.sort_unstable();
            for percent in [1_usize, 50, 99, 100] {
                let exact = numbers[(999 * percent).div_ceil(100) - 1];
                let found = whole.percentile(percent as u64);
                assert!(
                    found >= exact && found - exact <= exact / 64,
                    "{scale} {percent}: {exact} {found}"
                );
            }
        }
    }

    #[test]
    fn of_no_numbers_there_is_nothing_to_tell() {
        assert_eq!(Distribution::default().spread(), None);
        assert_eq!(Distribution::default().percentile(50), 0);
    }
}
