//! When to compress, when to give up, and how hard to look.
use crate::format::MATCH_MAX;

/// The numbers that steer the compressor.
///
/// Every size is in bytes. Values outside a field's range act as the nearest one inside.
///
/// Source: `pg_lzcompress.h`, `PGLZ_Strategy`; `pg_lzcompress.c`, `strategy_default_data` and
/// `strategy_always_data` (REL_18).
#[doc(alias = "PGLZ_Strategy")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strategy {
    /// Shorter inputs are refused.
    pub min_input_size: u32,
    /// Longer inputs are refused; inputs above 2^31 - 1 always are.
    pub max_input_size: u32,
    /// How much smaller the stream must be than the input, in percent, `0..=99`.
    pub min_comp_rate: u32,
    /// Give up when this many bytes of output hold no match yet.
    pub first_success_by: u32,
    /// A match this long ends the search at once, `17..=273`; 0 refuses every input.
    pub match_size_good: u32,
    /// By how many percent `match_size_good` falls with each candidate seen, `0..=100`.
    pub match_size_drop: u32,
}

impl Strategy {
    /// What TOAST uses: 32 bytes at least, a quarter saved, a match in the first kilobyte of output.
    #[doc(alias = "PGLZ_strategy_default")]
    pub const DEFAULT: Self = Self {
        min_input_size: 32,
        max_input_size: i32::MAX as u32,
        min_comp_rate: 25,
        first_success_by: 1024,
        match_size_good: 128,
        match_size_drop: 10,
    };

    /// Compress whatever gets smaller at all.
    #[doc(alias = "PGLZ_strategy_always")]
    pub const ALWAYS: Self = Self {
        min_input_size: 0,
        max_input_size: i32::MAX as u32,
        min_comp_rate: 0,
        first_success_by: i32::MAX as u32,
        match_size_good: 128,
        match_size_drop: 6,
    };

    /// The limits for an input of this many bytes; `None` if the input is refused unseen.
    pub(crate) fn limits(&self, source_len: usize) -> Option<Limits> {
        let len = u32::try_from(source_len).ok().filter(|&len| i32::try_from(len).is_ok())?;
        if self.match_size_good == 0 || len < self.min_input_size || len > self.max_input_size {
            return None;
        }
        let keep_percent = 100 - self.min_comp_rate.min(99);
        // C multiplies first where an `int` can hold the product, and that decides the rounding.
        const LARGEST_PRODUCT: u32 = i32::MAX as u32 / 100;
        let output_limit =
            if len > LARGEST_PRODUCT { len / 100 * keep_percent } else { len * keep_percent / 100 };
        Some(Limits {
            output_limit: output_limit as usize,
            first_success_by: self.first_success_by as usize,
            good_match: self.match_size_good.clamp(17, 273),
            drop_percent: self.match_size_drop.min(100),
        })
    }
}

impl Default for Strategy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A strategy's numbers for one input, clamped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The stream must stay below this many bytes.
    pub(crate) output_limit: usize,
    /// A match must have come before the stream reaches this many bytes.
    pub(crate) first_success_by: usize,
    /// The match length that ends a search before any candidate was seen.
    pub(crate) good_match: u32,
    /// By how many percent it falls with each candidate.
    pub(crate) drop_percent: u32,
}

impl Limits {
    /// For each match length, the last rank at which a better match is still taken: a search that has
    /// visited ranks `0..=r` with a best match of `len` goes on if `r < last_ranks[len]`.
    ///
    /// `None` where lengths below three can end a search: those are no matches, and all of a bucket has them.
    pub(crate) fn last_ranks(&self) -> Option<[u16; MATCH_MAX + 1]> {
        let mut last_ranks = [u16::MAX; MATCH_MAX + 1];
        let (mut good, mut rank) = (self.good_match, 0);
        let mut unset = MATCH_MAX + 1;
        loop {
            while unset > good as usize {
                unset -= 1;
                last_ranks[unset] = rank;
            }
            let next = self.decay(good);
            if next == good {
                return (good > 2).then_some(last_ranks);
            }
            (good, rank) = (next, rank + 1);
        }
    }

    /// The good-enough length after one more candidate was seen.
    pub(crate) const fn decay(&self, good_match: u32) -> u32 {
        good_match - good_match * self.drop_percent / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_good_match_falls_in_whole_bytes_and_stays_at_nine() {
        let limits = Strategy::DEFAULT.limits(100).expect("accepted");
        let mut good = limits.good_match;
        let mut seen = [0; 32];
        for slot in &mut seen {
            *slot = good;
            good = limits.decay(good);
        }
        assert_eq!(
            seen,
            [
                128, 116, 105, 95, 86, 78, 71, 64, 58, 53, 48, 44, 40, 36, 33, 30, 27, 25, 23, 21,
                19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 9
            ]
        );
    }

    #[test]
    fn the_output_limit_rounds_as_c_does_on_either_side_of_the_overflow() {
        let limit = |len| Strategy::DEFAULT.limits(len).map(|limits| limits.output_limit);
        assert_eq!(limit(31), None);
        assert_eq!(limit(33), Some(24));
        assert_eq!(limit(21_474_836), Some(16_106_127));
        assert_eq!(limit(21_474_837), Some(16_106_100));
        assert_eq!(limit(i32::MAX as usize), Some(21_474_836 * 75));
        assert_eq!(limit(i32::MAX as usize + 1), None);
    }

    #[test]
    fn numbers_out_of_range_act_as_the_nearest_in_range() {
        let odd = Strategy {
            min_comp_rate: 1000,
            match_size_good: 1,
            match_size_drop: 101,
            ..Strategy::ALWAYS
        };
        let limits = odd.limits(1000).expect("accepted");
        assert_eq!((limits.output_limit, limits.good_match, limits.drop_percent), (10, 17, 100));
        assert!(Strategy { match_size_good: 0, ..odd }.limits(1000).is_none());
    }
}
