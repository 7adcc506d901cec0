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
//! - **Chains of equal fours.** Two positions in one bucket that share three bytes share the fourth as
//!   well: it enters the hash unshifted, so its low bits would tell them apart. So every match C finds
//!   has four bytes at least, and only positions that start with the same four need be looked at. The
//!   last three bytes of a value are hashed by their first alone; they are the one exception.
//! - **Ranks instead of a walk.** What is good enough falls with each position that C visits, and it
//!   visits those that only share the bucket too. How many those were is the difference of two counts:
//!   of the bucket now, and of the bucket when the candidate was entered. A table says, for each length
//!   of the best match so far, up to which rank a better one is still taken.
//! - **Short matches first.** What is good enough never falls below 9 in the default strategy and 16 in
//!   the other, so matches of up to seven bytes never end a search: among them the longest and nearest
//!   wins, whatever their ranks. Eight bytes are compared at once, and ranks looked at only from there.
//! - **The end of a match leads on.** A longer match agrees in the four bytes that end behind the best
//!   one. Where many positions share a match's start, few share these, and their chain is looked at instead.
//! - **No list surgery.** C keeps 4096 list entries and unlinks the oldest to reuse it. Here a ring over
//!   positions is overwritten 4096 positions later, and every search stops one short of that.
//! - **No clearing.** C clears its table for each value. Here positions are counted on from value to
//!   value, and a search stops at the start of its own.
//! - **Hashes by the block**, for positions side by side.
//!
//! What bounds it: prose takes 64 instructions a byte and XML 41, where C takes 130 and 81. Of the time on
//! XML half goes into the loop over positions, mostly entering them (two loads, three stores a byte), a
//! third into longer matches, and a tenth each into first matches and hashing. What was tried and was
//! no faster: fewer slots for short values (they bring candidates that are none, and a misprediction each);
//! more slots for them; the chain of the last four bytes from the first step on (JSON lost a tenth, where
//! the chain of the first four is short).
//!
//! One sort of strategy needs the walk itself: if what is good enough falls below three bytes, so that
//! positions that share next to nothing end a search. A `match_size_drop` of 34 or more does that, and
//! searches are short then. `walk` keeps chains of whole buckets for it, in the same tables.
#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths to 273, distances to 4094, their bytes"
)]
use crate::block::{BLOCK, Block, Sorting};
use crate::format::{DISTANCE_STOP, MATCH_MAX};
use crate::index::{FullIndex, Index};
use crate::output::Output;
use crate::strategy::Limits;
use crate::words::{common_len, eight_bytes, four_bytes};
use crate::{CharSign, PglzError, Strategy, maximum_output_size, walk};

/// Positions looked at in the chain of a match's first bytes before that of its last is tried.
const FIRST_STEPS: usize = 4;
/// Positions looked at in that one before the first is gone on with.
const KEY_STEPS: usize = 16;

/// A compressor that keeps its tables from value to value and never clears them.
///
/// About 65 KiB, all inline: it needs no allocator and can live in a `static`.
#[derive(Clone, Debug)]
pub struct Compressor {
    sign: CharSign,
    tables: Tables<FullIndex>,
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
        Self { sign, tables: Tables::new(Index::new()) }
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
        self.tables.compress(source, strategy, self.sign, target)
    }

    /// As [`compress`](Self::compress), into a vector of just the stream's length.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn compress_to_vec(
        &mut self,
        source: &[u8],
        strategy: &Strategy,
    ) -> Option<alloc::vec::Vec<u8>> {
        self.tables.compress_to_vec(source, strategy, self.sign)
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
/// To compress many values keep a [`Compressor`]: this one sets up tables each time, though small ones
/// for a small value.
#[cfg(feature = "alloc")]
#[must_use]
pub fn compress(source: &[u8], strategy: &Strategy) -> Option<alloc::vec::Vec<u8>> {
    let sign = CharSign::Signed;
    type Small = Index<{ 1 << 10 }, { 1 << 11 }, 512>;
    type Medium = Index<{ 1 << 12 }, { 1 << 13 }, 2048>;
    match source.len() {
        // PostgreSQL takes more buckets from 512 bytes on.
        ..512 => Tables::new(Small::new()).compress_to_vec(source, strategy, sign),
        512..=2048 => Tables::new(Medium::new()).compress_to_vec(source, strategy, sign),
        _ => Tables::new(FullIndex::new()).compress_to_vec(source, strategy, sign),
    }
}

/// What is kept from value to value.
#[derive(Clone, Debug)]
struct Tables<I> {
    index: I,
    block: Block,
    /// The strategy's numbers that `last_ranks` was made for.
    ranks_for: (u32, u32),
    last_ranks: [u16; MATCH_MAX + 1],
}

impl<const SLOTS: usize, const BUCKETS: usize, const RING: usize>
    Tables<Index<SLOTS, BUCKETS, RING>>
{
    const fn new(index: Index<SLOTS, BUCKETS, RING>) -> Self {
        Self { index, block: Block::new(), ranks_for: (0, 0), last_ranks: [0; MATCH_MAX + 1] }
    }

    fn compress(
        &mut self,
        source: &[u8],
        strategy: &Strategy,
        sign: CharSign,
        target: &mut [u8],
    ) -> Result<Option<usize>, PglzError> {
        let Some(limits) = strategy.limits(source.len()) else { return Ok(None) };
        let needed = maximum_output_size(source.len());
        if target.len() < needed {
            return Err(PglzError::TargetTooSmall { needed, available: target.len() });
        }
        Ok(self.run(source, &limits, sign, target))
    }

    #[cfg(feature = "alloc")]
    fn compress_to_vec(
        &mut self,
        source: &[u8],
        strategy: &Strategy,
        sign: CharSign,
    ) -> Option<alloc::vec::Vec<u8>> {
        strategy.limits(source.len())?;
        let mut target = alloc::vec![0; maximum_output_size(source.len())];
        let len = self.compress(source, strategy, sign, &mut target).ok()??;
        target.truncate(len);
        target.shrink_to_fit();
        Some(target)
    }

    fn run(
        &mut self,
        source: &[u8],
        limits: &Limits,
        sign: CharSign,
        target: &mut [u8],
    ) -> Option<usize> {
        debug_assert!(Index::<SLOTS, BUCKETS, RING>::takes(source.len()));
        let sorting = Sorting::new(source.len(), sign, Index::<SLOTS, BUCKETS, RING>::SLOT_SHIFT);
        let key = (limits.good_match, limits.drop_percent);
        if self.ranks_for != key {
            let Some(last_ranks) = limits.last_ranks() else {
                return walk::run(source, limits, sorting, &mut self.index, target);
            };
            (self.last_ranks, self.ranks_for) = (last_ranks, key);
        }
        let search = Search {
            source,
            last_ranks: &self.last_ranks,
            good_match: limits.good_match as usize,
            patient: self.last_ranks[8] == u16::MAX,
            sorting,
        };
        search.run(&mut self.index, &mut self.block, limits, target)
    }
}

/// One value being compressed.
struct Search<'a> {
    source: &'a [u8],
    last_ranks: &'a [u16; MATCH_MAX + 1],
    good_match: usize,
    /// Whether no match of up to eight bytes ends a search, at no rank.
    patient: bool,
    sorting: Sorting,
}

impl Search<'_> {
    fn run<const SLOTS: usize, const BUCKETS: usize, const RING: usize>(
        &self,
        index: &mut Index<SLOTS, BUCKETS, RING>,
        block: &mut Block,
        limits: &Limits,
        target: &mut [u8],
    ) -> Option<usize> {
        let source = self.source;
        let mut output = Output::new(target, limits.output_limit, limits.first_success_by);
        let mut at = self.run_blocks(index, block, &mut output)?;
        while at < source.len() {
            if output.is_over() {
                return None;
            }
            let near = if at + 3 == source.len() { self.find_last(index, at) } else { None };
            if let Some(distance) = near {
                output.tag(3, distance);
                at += 3;
            } else {
                output.literal(source[at]);
                at += 1;
            }
        }
        let len = output.finish();
        (len < limits.output_limit).then_some(len)
    }

    /// All positions that four bytes start from; the position it got to, or `None` if it gave up.
    fn run_blocks<const SLOTS: usize, const BUCKETS: usize, const RING: usize>(
        &self,
        index: &mut Index<SLOTS, BUCKETS, RING>,
        block: &mut Block,
        output: &mut Output<'_>,
    ) -> Option<usize> {
        let source = self.source;
        let positions = source.len().saturating_sub(3);
        let mut at = 0;
        let mut start = 0;
        while start < positions {
            let end = positions.min(start + BLOCK);
            let bytes = &source[start..end];
            block.hash(&source[start..], bytes.len(), self.sorting);
            let slots = &block.slots[..bytes.len()];
            let buckets = &block.buckets[..bytes.len()];
            let first = index.ticket();
            // A match of the block before may reach into this one, or beyond it.
            let mut i = at - start;
            let skipped = i.min(bytes.len());
            index.enter_all(first, &slots[..skipped], &buckets[..skipped]);
            while i < bytes.len() {
                if output.is_over() {
                    index.advance(i);
                    return None;
                }
                let at = start + i;
                let ticket = first.wrapping_add(i as u16);
                let distance = index.nearest(ticket, slots[i]);
                let mut found = Found::NONE;
                if distance <= at.min(DISTANCE_STOP - 1) {
                    found = self.find(index, at, ticket, distance, buckets[i]);
                }
                if found.distance == 0 {
                    output.literal(bytes[i]);
                    index.enter(ticket, slots[i], buckets[i]);
                    i += 1;
                } else {
                    let len = usize::from(found.len);
                    output.tag(len, usize::from(found.distance));
                    let stop = bytes.len().min(i + len);
                    index.enter_all(ticket, &slots[i..stop], &buckets[i..stop]);
                    i += len;
                }
            }
            index.advance(bytes.len());
            at = start + i;
            start = end;
        }
        Some(at)
    }

    /// The match at `at`, first looked for at `distance`.
    #[inline(never)]
    fn find<const SLOTS: usize, const BUCKETS: usize, const RING: usize>(
        &self,
        index: &Index<SLOTS, BUCKETS, RING>,
        at: usize,
        ticket: u16,
        mut distance: usize,
        bucket: u16,
    ) -> Found {
        let source = self.source;
        let reach = at.min(DISTANCE_STOP - 1);
        let Some(here) = eight_bytes(source, at).filter(|_| self.patient) else {
            return self.find_plain(index, at, ticket, distance, bucket);
        };
        let window = &source[at - reach..at + 8];
        // Up to seven bytes never end a search, so ranks do not matter.
        let (mut best, mut best_distance) = (3, 0);
        loop {
            let there = eight_bytes(window, reach - distance).unwrap_or_default();
            let unlike = here ^ there;
            if unlike == 0 {
                return self.find_long(index, at, ticket, distance, bucket);
            }
            let len = unlike.trailing_zeros() / 8;
            (best, best_distance) =
                if len > best { (len, distance) } else { (best, best_distance) };
            distance = index.farther(ticket, distance);
            if distance > reach {
                break;
            }
        }
        Found::new(best as usize, best_distance)
    }

    /// As `find`, where fewer than eight bytes are left, or for strategies that end a search early.
    #[inline(never)]
    fn find_plain<const SLOTS: usize, const BUCKETS: usize, const RING: usize>(
        &self,
        index: &Index<SLOTS, BUCKETS, RING>,
        at: usize,
        ticket: u16,
        mut distance: usize,
        bucket: u16,
    ) -> Found {
        let source = self.source;
        let here = &source[at..source.len().min(at + MATCH_MAX)];
        let four = four_bytes(here, 0);
        let reach = at.min(DISTANCE_STOP - 1);
        let (mut best, mut best_distance) = (3, 0);
        while distance <= reach {
            let there = &source[at - distance..];
            if four_bytes(there, 0) == four {
                if best > 3 && index.rank(ticket, bucket, distance) > self.last_ranks[best] {
                    break;
                }
                let len = common_len(here, there);
                if len > best {
                    (best, best_distance) = (len, distance);
                    if best == here.len() {
                        break;
                    }
                }
            }
            distance = index.farther(ticket, distance);
        }
        Found::new(best, best_distance)
    }

    /// The longest match of eight bytes or more, the first of which is at `best_distance`.
    #[inline(never)]
    fn find_long<const SLOTS: usize, const BUCKETS: usize, const RING: usize>(
        &self,
        index: &Index<SLOTS, BUCKETS, RING>,
        at: usize,
        ticket: u16,
        mut best_distance: usize,
        bucket: u16,
    ) -> Found {
        let source = self.source;
        let here = &source[at..source.len().min(at + MATCH_MAX)];
        let mut best = 8 + common_len(&here[8..], &source[at - best_distance + 8..]);
        while best < here.len() && best < self.good_match {
            let longer = self.find_longer(index, at, ticket, bucket, (best, best_distance));
            let Some(longer) = longer else { break };
            (best, best_distance) = longer;
        }
        Found::new(best, best_distance)
    }

    /// The next match, farther away and longer, that the search still gets to.
    #[inline(always)]
    fn find_longer<const SLOTS: usize, const BUCKETS: usize, const RING: usize>(
        &self,
        index: &Index<SLOTS, BUCKETS, RING>,
        at: usize,
        ticket: u16,
        bucket: u16,
        (best, best_distance): (usize, usize),
    ) -> Option<(usize, usize)> {
        let source = self.source;
        let here = &source[at..source.len().min(at + MATCH_MAX)];
        let reach = at.min(DISTANCE_STOP - 1);
        let last_rank = self.last_ranks[best];
        let four = four_bytes(here, 0);
        // A longer match must agree in the four bytes that end behind the best one.
        let offset = best - 3;
        let key = four_bytes(here, offset);
        let mut distance = index.farther(ticket, best_distance);
        let mut steps = 0;
        while distance <= reach {
            steps += 1;
            // Those four are rarer than the first four, which the best match has too: where the chain is
            // long, theirs is short, or has none. It has all from `distance` on unless they overlap it.
            if steps == FIRST_STEPS && distance > offset {
                let key_ticket = ticket.wrapping_add(offset as u16);
                let mut keyed = index.nearest(key_ticket, self.sorting.slot(key.to_le_bytes()));
                for _ in 0..KEY_STEPS {
                    if keyed > reach {
                        return None;
                    }
                    if keyed >= distance && four_bytes(source, at - keyed) == four {
                        if index.rank(ticket, bucket, keyed) > last_rank {
                            return None;
                        }
                        let len = common_len(here, &source[at - keyed..]);
                        if len > best {
                            return Some((len, keyed));
                        }
                    }
                    keyed = index.farther(key_ticket, keyed);
                }
            }
            let in_bucket = four_bytes(source, at - distance) == four;
            if in_bucket & (index.rank(ticket, bucket, distance) > last_rank) {
                break;
            }
            if in_bucket & (four_bytes(source, at + offset - distance) == key) {
                let len = common_len(here, &source[at - distance..]);
                if len > best {
                    return Some((len, distance));
                }
            }
            distance = index.farther(ticket, distance);
        }
        None
    }

    /// The distance of a match for the last three bytes, which are hashed by their first alone.
    ///
    /// Four bytes that start with these three share their bucket for one value of the fourth at most.
    fn find_last<const SLOTS: usize, const BUCKETS: usize, const RING: usize>(
        &self,
        index: &Index<SLOTS, BUCKETS, RING>,
        at: usize,
    ) -> Option<usize> {
        let &[a, b, c] = self.source.get(at..)? else { return None };
        let bytes = [a, b, c, self.sorting.fourth([a, b, c])?];
        let four = u32::from_le_bytes(bytes);
        let ticket = index.ticket();
        let mut distance = index.nearest(ticket, self.sorting.slot(bytes));
        while distance <= at.min(DISTANCE_STOP - 1) {
            if four_bytes(self.source, at - distance) == four {
                return Some(distance);
            }
            distance = index.farther(ticket, distance);
        }
        None
    }
}

/// A match, or none: packed, to be handed back in a register.
#[derive(Clone, Copy)]
struct Found {
    len: u16,
    /// 0 if there is none.
    distance: u16,
}

impl Found {
    const NONE: Self = Self { len: 0, distance: 0 };

    #[inline(always)]
    const fn new(len: usize, distance: usize) -> Self {
        Self { len: len as u16, distance: distance as u16 }
    }
}
