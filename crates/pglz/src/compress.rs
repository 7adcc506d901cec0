//! From value to stream, to the byte as PostgreSQL's C does it.
//!
//! In plain words: at each position of the source, look at the earlier positions whose next four
//! bytes hash alike, nearest first; take the longest match, the nearest of equals; if it has at least
//! three bytes emit a tag and step over it, else emit the byte itself. Three rules bound the search, and
//! each shows in the output: it ends at a distance of 4095; it ends once the best match so far is
//! good enough, and what is good enough falls with every position looked at; and it gives up on the
//! value when the stream grows past the strategy's limits.
//!
//! Where this code departs from C, and why the bytes stay equal:
//!
//! - C keeps 4096 list entries and unlinks the oldest to reuse it. Here `previous` is a ring over
//!   positions and nothing is unlinked: an entry is overwritten 4096 positions later, and every search
//!   stops one short of that distance.
//! - C clears its table for each value. Here positions carry an offset that grows from value to value,
//!   so whatever an earlier value left behind is too far away to be looked at.
use crate::format::{GROUP_ITEMS, MATCH_LONG, MATCH_MAX, MATCH_MIN};
use crate::history::{Bucket, History};
use crate::strategy::Limits;
use crate::{CharSign, PglzError, Strategy, maximum_output_size};

/// A compressor that keeps its tables from value to value and never clears them.
///
/// About 48 KiB, all inline: it needs no allocator and can live in a `static`.
#[derive(Clone, Debug)]
pub struct Compressor {
    sign: CharSign,
    history: History,
}

impl Compressor {
    /// A compressor whose bytes are those of a server where `char` is signed, x86-64 among them.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_char_sign(CharSign::Signed)
    }

    /// A compressor whose bytes are those of a server where `char` is as named.
    #[must_use]
    pub const fn with_char_sign(sign: CharSign) -> Self {
        Self { sign, history: History::new() }
    }

    /// Compresses `source` into `target` and says how many bytes the stream has, or `None` where
    /// PostgreSQL would keep the value as it is: `strategy` refuses the size, or the stream does not
    /// save enough.
    ///
    /// What `target` holds behind the stream, or after `None`, means nothing.
    ///
    /// # Errors
    /// [`PglzError::TargetTooSmall`] if `target` has fewer than [`maximum_output_size`] bytes, unless
    /// the size of `source` is reason enough to refuse it.
    ///
    /// Source: `pg_lzcompress.c`, `pglz_compress` (REL_18).
    #[doc(alias = "pglz_compress")]
    pub fn compress(
        &mut self,
        source: &[u8],
        strategy: &Strategy,
        target: &mut [u8],
    ) -> Result<Option<usize>, PglzError> {
        let Some(limits) = strategy.limits(source.len()) else { return Ok(None) };
        let needed = maximum_output_size(source.len());
        if target.len() < needed {
            return Err(PglzError::TargetTooSmall { needed, available: target.len() });
        }
        Ok(self.run(source, &limits, target))
    }

    /// As [`compress`](Self::compress), into a vector of just the stream's length.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn compress_to_vec(
        &mut self,
        source: &[u8],
        strategy: &Strategy,
    ) -> Option<alloc::vec::Vec<u8>> {
        strategy.limits(source.len())?;
        let mut target = alloc::vec![0; maximum_output_size(source.len())];
        let len = self.compress(source, strategy, &mut target).ok()??;
        target.truncate(len);
        target.shrink_to_fit();
        Some(target)
    }

    fn run(&mut self, source: &[u8], limits: &Limits, target: &mut [u8]) -> Option<usize> {
        let bucket = Bucket::new(source, self.sign);
        let mut history = self.history.start(source.len());
        let mut output = Output::new(target);
        let (mut at, mut found_any) = (0, false);
        while at < source.len() {
            if output.len >= limits.output_limit
                || (!found_any && output.len >= limits.first_success_by)
            {
                return None;
            }
            let best = find_match(source, at, limits, history.candidates(at, bucket.of(at)));
            let step = match best {
                Some((len, distance)) => {
                    output.tag(len, distance);
                    found_any = true;
                    len
                }
                None => {
                    output.literal(source[at]);
                    1
                }
            };
            for entered in at..at + step {
                history.enter(entered, bucket.of(entered));
            }
            at += step;
        }
        (output.len < limits.output_limit).then_some(output.len)
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

/// Compresses `source` as a server does where `char` is signed, x86-64 among them; `None` where it
/// would keep the value as it is.
///
/// To compress many values keep a [`Compressor`]: this one sets up its tables each time.
#[cfg(feature = "alloc")]
#[must_use]
pub fn compress(source: &[u8], strategy: &Strategy) -> Option<alloc::vec::Vec<u8>> {
    Compressor::new().compress_to_vec(source, strategy)
}

/// The match PostgreSQL takes at `at`, as length and distance, from the distances of the earlier
/// positions in the same bucket, nearest first.
fn find_match(
    source: &[u8],
    at: usize,
    limits: &Limits,
    candidates: impl Iterator<Item = usize>,
) -> Option<(usize, usize)> {
    let here = &source[at..source.len().min(at + MATCH_MAX)];
    let (mut best, mut best_distance) = (0, 0);
    let mut good = limits.good_match;
    let mut first = true;
    for distance in candidates {
        if !first {
            if best >= good as usize {
                break;
            }
            good = limits.decay(good);
        }
        first = false;
        let there = &source[at - distance..];
        // A longer match must agree where the best one ends, and most candidates do not.
        if best > 0 && here.get(best) != there.get(best) {
            continue;
        }
        let len = here.iter().zip(there).take_while(|(a, b)| a == b).count();
        if len > best {
            (best, best_distance) = (len, distance);
        }
    }
    (best >= MATCH_MIN).then_some((best, best_distance))
}

/// The stream being written. The caller has made sure of its room: see [`maximum_output_size`].
struct Output<'a> {
    target: &'a mut [u8],
    len: usize,
    /// Where the control byte of the current group is.
    control: usize,
    items: usize,
}

impl<'a> Output<'a> {
    fn new(target: &'a mut [u8]) -> Self {
        Self { target, len: 0, control: 0, items: 0 }
    }

    fn push(&mut self, byte: u8) {
        self.target[self.len] = byte;
        self.len += 1;
    }

    /// Starts an item, with a new control byte where the group is full.
    fn item(&mut self, is_tag: bool) {
        let bit = self.items % GROUP_ITEMS;
        if bit == 0 {
            self.control = self.len;
            self.push(0);
        }
        self.target[self.control] |= u8::from(is_tag) << bit;
        self.items += 1;
    }

    fn literal(&mut self, byte: u8) {
        self.item(false);
        self.push(byte);
    }

    #[expect(clippy::cast_possible_truncation, reason = "lengths to 273, distances to 4094")]
    fn tag(&mut self, len: usize, distance: usize) {
        self.item(true);
        let short = (len.min(MATCH_LONG) - MATCH_MIN) as u8;
        self.push(((distance >> 8) as u8) << 4 | short);
        self.push(distance as u8);
        if len >= MATCH_LONG {
            self.push((len - MATCH_LONG) as u8);
        }
    }
}
