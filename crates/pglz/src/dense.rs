//! A compressor that takes its time: the same format, read by every server, in fewer bytes.
//!
//! PostgreSQL's own takes the longest match it sees and goes on behind it. Here all matches are known
//! before one is taken. An item costs one bit of a control byte and its own bytes: a literal 9 bits, a
//! match of up to 17 bytes 17, a longer one 25, from whatever distance. So of all matches at a position
//! only the longest counts, cut to any length, and the cheapest way from each position to the end follows
//! from those behind it:
//!
//! ```text
//! cost(at) = min( 9 + cost(at + 1),  17 + cost(at + 3..=17),  25 + cost(at + 18..=273) )
//! ```
//!
//! That is done for 64 KiB at a time, and what was chosen for the last of them is chosen again with the
//! next. Of the third sort only the last few lengths are tried: cutting a match down further can save
//! one bit, no more.
//!
//! That is as small as the format gets: with every length and every candidate tried, the streams of
//! fourteen kinds of values came out 0.02 % smaller still.
#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths to 273, distances to 4095, positions below 2^31"
)]
use alloc::vec;
use alloc::vec::Vec;

use crate::format::{MATCH_LONG, MATCH_MAX, MATCH_MIN};
use crate::output::Output;
use crate::words::{common_len, four_bytes};
use crate::{PglzError, maximum_output_size};

/// Positions whose way to the end of the piece is chosen at once.
const PIECE: usize = 1 << 16;
/// The last positions of a piece, chosen again with the next: what follows bears on them.
const OVERLAP: usize = 1024;
/// The farthest that a reader can be told to look back.
const DISTANCE_MAX: usize = 4095;
/// Positions that can be looked back on, rounded up to a power of two.
const RING: usize = DISTANCE_MAX + 1;
/// Slots of the table of newest positions, by three bytes.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 13;
/// No position: sources end before it.
const NONE: u32 = u32::MAX;

/// Positions looked at in search of the longest match. Only values full of the same few bytes have more.
const CANDIDATES: usize = 256;

const LITERAL_BITS: u32 = 9;
const SHORT_BITS: u32 = 17;
const LONG_BITS: u32 = 25;
/// How many of the longest lengths are tried for a match with a third byte.
const LONG_TRIES: usize = 4;

/// A compressor for values that are written once and kept: smaller streams than PostgreSQL's, at a
/// tenth of the speed or less. Every server reads them.
///
/// About 850 KiB of tables, kept from value to value.
#[derive(Clone, Debug)]
pub struct DenseCompressor {
    /// By slot of three bytes, the newest position.
    newest: Vec<u32>,
    /// By position modulo its length, the one that was newest in the slot before.
    previous: Vec<u32>,
    /// By position in the piece, the longest match.
    matches: Vec<Match>,
    /// By position in the piece, the length to take: 1 for a literal.
    taken: Vec<u16>,
    /// By position in the piece, the bits from there to its end.
    costs: Vec<u32>,
}

/// A match; none where `len` is below 3.
#[derive(Clone, Copy, Debug, Default)]
struct Match {
    len: u16,
    distance: u16,
}

impl DenseCompressor {
    /// A compressor with its tables.
    #[must_use]
    pub fn new() -> Self {
        Self {
            newest: vec![NONE; SLOTS],
            previous: vec![NONE; RING],
            matches: vec![Match::default(); PIECE],
            taken: vec![0; PIECE],
            costs: vec![0; PIECE + 1],
        }
    }

    /// Compresses `source` into `target` and says how many bytes the stream has; `None` if it is not
    /// smaller than `source`, or `source` has 2^31 bytes or more.
    ///
    /// What `target` holds behind the stream, or after `None`, means nothing.
    ///
    /// # Errors
    /// [`PglzError::TargetTooSmall`] if `target` has fewer than [`maximum_output_size`] bytes.
    pub fn compress(
        &mut self,
        source: &[u8],
        target: &mut [u8],
    ) -> Result<Option<usize>, PglzError> {
        let needed = maximum_output_size(source.len());
        if target.len() < needed {
            return Err(PglzError::TargetTooSmall { needed, available: target.len() });
        }
        if i32::try_from(source.len()).is_err() {
            return Ok(None);
        }
        Ok(self.run(source, target))
    }

    /// As [`compress`](Self::compress), into a vector of just the stream's length.
    #[must_use]
    pub fn compress_to_vec(&mut self, source: &[u8]) -> Option<Vec<u8>> {
        let mut target = vec![0; maximum_output_size(source.len())];
        let len = self.compress(source, &mut target).ok()??;
        target.truncate(len);
        target.shrink_to_fit();
        Some(target)
    }

    fn run(&mut self, source: &[u8], target: &mut [u8]) -> Option<usize> {
        self.newest.fill(NONE);
        let mut output = Output::new(target, source.len(), usize::MAX);
        // The piece is `start..end`; `at` is how far items were written.
        let (mut start, mut end, mut at) = (0, 0, 0);
        while at < source.len() {
            self.matches.copy_within(at - start..end - start, 0);
            start = at;
            let known = end;
            end = source.len().min(start + PIECE);
            let mut before = match known.checked_sub(start + 1) {
                Some(last) => self.matches[last],
                None => Match::default(),
            };
            for position in known..end {
                before = self.longest(source, position, before);
                self.matches[position - start] = before;
                self.enter(source, position);
            }
            self.choose(end - start);
            let stop = if end == source.len() { end } else { end - OVERLAP };
            while at < stop {
                if output.is_over() {
                    return None;
                }
                let len = usize::from(self.taken[at - start]);
                if len < MATCH_MIN {
                    output.literal(source[at]);
                } else {
                    output.tag(len, usize::from(self.matches[at - start].distance));
                }
                at += len;
            }
        }
        let len = output.finish();
        (len < source.len()).then_some(len)
    }

    /// Of the first `len` positions of the piece, from the last to the first, chooses what to take.
    fn choose(&mut self, len: usize) {
        self.costs[len] = 0;
        for at in (0..len).rev() {
            let longest = usize::from(self.matches[at].len).min(len - at);
            let (mut taken, mut cost) = (1, LITERAL_BITS + self.costs[at + 1]);
            let mut offer = |len: usize, bits: u32| {
                if bits < cost {
                    (taken, cost) = (len, bits);
                }
            };
            // Of equals the longest: what is chosen again with the next piece can only gain by it.
            for long in ((longest + 1).saturating_sub(LONG_TRIES).max(MATCH_LONG)..=longest).rev() {
                offer(long, LONG_BITS + self.costs[at + long]);
            }
            for short in (MATCH_MIN..=longest.min(MATCH_LONG - 1)).rev() {
                offer(short, SHORT_BITS + self.costs[at + short]);
            }
            self.costs[at] = cost;
            self.taken[at] = taken as u16;
        }
    }

    /// The longest match at `at`. The one at the position before goes on here, one byte shorter.
    fn longest(&self, source: &[u8], at: usize, before: Match) -> Match {
        let here = &source[at..source.len().min(at + MATCH_MAX)];
        let mut best = Match { len: before.len.saturating_sub(1), distance: before.distance };
        if usize::from(best.len) < MATCH_MIN {
            best = Match::default();
        }
        let Some(slot) = slot(source, at) else { return best };
        let mut there = self.newest[slot];
        for _ in 0..CANDIDATES {
            if there == NONE || at - there as usize > DISTANCE_MAX {
                break;
            }
            let found = &source[there as usize..];
            let len = usize::from(best.len);
            if len == here.len() {
                break;
            }
            // A longer match must agree where the best one ends.
            if len < MATCH_MIN || four_bytes(found, len - 3) == four_bytes(here, len - 3) {
                let found = common_len(here, found);
                if found > len.max(MATCH_MIN - 1) {
                    best = Match { len: found as u16, distance: (at - there as usize) as u16 };
                }
            }
            let before = self.previous[there as usize % RING];
            // An entry that was overwritten since belongs to a later position: the chain ends here.
            if before >= there {
                break;
            }
            there = before;
        }
        best
    }

    /// Makes a position the newest of its slot.
    fn enter(&mut self, source: &[u8], at: usize) {
        if let Some(slot) = slot(source, at) {
            self.previous[at % RING] = self.newest[slot];
            self.newest[slot] = at as u32;
        }
    }
}

impl Default for DenseCompressor {
    fn default() -> Self {
        Self::new()
    }
}

/// The slot of the three bytes at `at`, if there are so many.
fn slot(source: &[u8], at: usize) -> Option<usize> {
    let &[a, b, c] = source[at..].first_chunk()?;
    let three = u32::from_le_bytes([0, a, b, c]);
    Some((three.wrapping_mul(0x9e37_79b1) >> (32 - SLOT_BITS)) as usize)
}
