//! The nodes of the shared map: a row of slots and a row of groups for each level of pages.
//!
//! ```text
//!                          page 0                     page 1
//! level 1  groups          | one line or more |        ...
//!          slots           | line | line | ...         a line's maximum is its byte in the group row
//!                             |
//! level 0  groups          | one line or more | ...    a page's maximum is its byte among the slots
//!          slots           | line | line | ...         of the level above
//! ```
//! These are rows 6 and 12 of the tree in a page of 8 KiB; its other rows follow from them, and are
//! worked out when a page is written. Fewer rows are fewer places for threads to meet.
use alloc::boxed::Box;

use crate::lanes::{self, Least};
use crate::sync::Word;

/// Slots of a group, which fill one cache line.
pub(crate) const LANES: usize = 8 * WORDS;

/// Words of a line: few under the model checker, which pays for each.
const WORDS: usize = if cfg!(pgtoast_loom) { 1 } else { 8 };

/// Words looked at together.
const NEAR_WORDS: usize = if cfg!(pgtoast_loom) { 1 } else { lanes::WORDS };

/// A cache line of nodes.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Line([Word; WORDS]);

impl Line {
    /// The greatest node.
    #[inline]
    pub(crate) fn max(&self) -> u8 {
        lanes::max_of(self.0.each_ref().map(Word::load))
    }

    /// The first node with `least`, from `from` on.
    #[inline]
    pub(crate) fn position(&self, from: usize, least: Least) -> Option<usize> {
        let mut start = 0;
        for words in self.0.chunks(lanes::WORDS) {
            if from < start + lanes::WIDTH {
                // Zeros for the words that a model checker's line lacks.
                let mut seen = [0; lanes::WORDS];
                for (seen, word) in seen.iter_mut().zip(words) {
                    *seen = word.glance();
                }
                let mask = least.reached_in(&seen) & (u32::MAX << from.saturating_sub(start));
                if mask != 0 {
                    return Some(start + mask.trailing_zeros() as usize);
                }
            }
            start += lanes::WIDTH;
        }
        None
    }

    /// A node.
    #[inline]
    pub(crate) fn load(&self, lane: usize) -> u8 {
        lane_of(self.0[lane / 8].load(), lane)
    }

    /// Whether every node is 0, each seen in its turn.
    pub(crate) fn is_clear(&self) -> bool {
        self.0.iter().all(|word| word.load() == 0)
    }

    /// Sets a node and gives what was there.
    #[inline]
    pub(crate) fn swap(&self, lane: usize, value: u8) -> u8 {
        let word = &self.0[lane / 8];
        let mut seen = word.load();
        loop {
            let old = lane_of(seen, lane);
            if old == value {
                return old;
            }
            match word.replace(seen, with_lane(seen, lane, value)) {
                Ok(()) => return old,
                Err(_) => seen = word.load(),
            }
        }
    }

    /// Sets a node if it satisfies `wanted`; gives what was there if it was set.
    #[inline]
    pub(crate) fn replace_if(
        &self,
        lane: usize,
        wanted: impl Fn(u8) -> bool,
        value: u8,
    ) -> Option<u8> {
        let word = &self.0[lane / 8];
        let mut seen = word.glance();
        loop {
            let old = lane_of(seen, lane);
            if !wanted(old) {
                return None;
            }
            #[cfg(pgtoast_loom)]
            if crate::sync::mutant::is(crate::sync::mutant::Mutant::TakeByStore) {
                word.store(with_lane(seen, lane, value));
                return Some(old);
            }
            match word.replace(seen, with_lane(seen, lane, value)) {
                Ok(()) => return Some(old),
                Err(found) => seen = found,
            }
        }
    }
}

/// A row: so many lines for each page, one page behind the other.
#[derive(Debug)]
pub(crate) struct Row {
    lines_per_page: usize,
    lines: Box<[Line]>,
}

impl Row {
    pub(crate) fn new(pages: usize, nodes_per_page: usize) -> Self {
        let lines_per_page = nodes_per_page.div_ceil(LANES);
        let line = |_| Line(core::array::from_fn(|_| Word::new(0)));
        Self { lines_per_page, lines: (0..pages * lines_per_page).map(line).collect() }
    }

    /// The lines of a page.
    ///
    /// # Panics
    /// If there is no such page.
    #[inline]
    pub(crate) fn page(&self, page: usize) -> &[Line] {
        &self.lines[page * self.lines_per_page..][..self.lines_per_page]
    }

    pub(crate) fn pages(&self) -> usize {
        self.lines.len() / self.lines_per_page
    }
}

/// The first node with `least` in the next few from `from` on, over the end of a line; `None` as well
/// where fewer are left.
#[inline]
pub(crate) fn near_position(lines: &[Line], from: usize, least: Least) -> Option<usize> {
    let first = from / 8;
    // Zeros for the words that are not looked at under a model checker.
    let mut seen = [0; lanes::WORDS];
    for (at, seen) in (first..).zip(&mut seen).take(NEAR_WORDS) {
        *seen = lines.get(at / WORDS)?.0[at % WORDS].glance();
    }
    // A node of 0 has nothing that is looked for.
    seen[0] &= u64::MAX << (8 * (from % 8));
    least.first_in(&seen).map(|at| 8 * first + at)
}

/// Where a node is in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) line: &'a Line,
    pub(crate) lane: usize,
}

// By shifts: bytes of an array would go through memory, where a word written in pieces is slow to read.
#[inline]
fn lane_of(word: u64, lane: usize) -> u8 {
    let [lowest, ..] = (word >> (8 * (lane % 8))).to_le_bytes();
    lowest
}

#[inline]
fn with_lane(word: u64, lane: usize, value: u8) -> u64 {
    let shift = 8 * (lane % 8);
    (word & !(0xff << shift)) | (u64::from(value) << shift)
}
