//! Where among the items of a page something belongs.
//!
//! Plainly, one finds it by halves. Each half waits for memory twice, for a line pointer and then for
//! the item, and nobody can tell beforehand which half comes next. But ids are given out one after the
//! other, and chunks are numbered from 0, so keys lie nearly on a straight line over item numbers:
//!
//! ```text
//! key                 .·| high
//!                 .·*   |                1  the line between what bounds the page says where to look
//!             .·        |                   first
//!      low .·           |                2  every fourth item around there is looked at: they wait for
//!          | item ->    |                   memory together; then those between two of them
//! ```
//! Mostly this finds the place; where keys lie any other way, what is left is searched by halves. Which
//! way a comparison goes is not to be foreseen, so nothing branches on one until then.
use pgtoast_page::LinePointer;

use crate::key::Rank;

/// What items are compared by.
pub(crate) trait Column {
    /// Its value as a number, in the same order.
    type Value: Copy + Ord;

    /// Bytes from the start of a tuple through it.
    const END: usize;

    /// That of a tuple of `END` bytes or more.
    fn of(tuple: &[u8]) -> Option<Self::Value>;
}

/// How many items come before the first one that is not below a value; `None` where one of them leaves
/// the page. `place` is where it may be, and `is_there` says that it likely is, if it is anywhere.
// Not inlined, so that everything stays in registers.
#[inline(never)]
pub(crate) fn count_below<C: Column>(
    bytes: &[u8],
    items: &[LinePointer],
    value: C::Value,
    place: usize,
    is_there: bool,
) -> Option<usize> {
    let mut gap = Gap { low: 0, end: items.len() };
    if gap.len() >= AROUND {
        if is_there {
            gap = look::<C, 2, 1>(bytes, items, gap, place, value)?;
        }
        if gap.len() >= AROUND {
            gap = look::<C, AROUND, 4>(bytes, items, gap, place, value)?;
        }
    }
    if gap.len() > FEW {
        gap = halves::<C>(bytes, items, gap, value)?;
    }
    let mut below = gap.low;
    for item in items.get(gap.low..gap.end)? {
        below += usize::from(is_below::<C>(bytes, *item, value)?);
    }
    Some(below)
}

/// Narrows a gap by looking at some items around a place, so far apart, all of them together.
#[inline(always)]
fn look<C: Column, const WIDTH: usize, const APART: usize>(
    bytes: &[u8],
    items: &[LinePointer],
    mut gap: Gap,
    place: usize,
    value: C::Value,
) -> Option<Gap> {
    let start = place.saturating_sub(WIDTH / 2).min(gap.end - WIDTH).max(gap.low);
    let seen: &[_; WIDTH] = items.get(start..)?.first_chunk()?;
    let mut below = 0;
    for item in seen.iter().step_by(APART) {
        below += usize::from(is_below::<C>(bytes, *item, value)?);
    }
    // Between the last that is below and the first that is not.
    let end = start + below * APART;
    if below > 0 {
        gap.low = end - (APART - 1);
    }
    if below * APART < WIDTH {
        gap.end = end;
    }
    Some(gap)
}

/// Halves a gap until few items are left.
#[cold]
fn halves<C: Column>(
    bytes: &[u8],
    items: &[LinePointer],
    mut gap: Gap,
    value: C::Value,
) -> Option<Gap> {
    while gap.len() > FEW {
        let middle = gap.low + gap.len() / 2;
        match is_below::<C>(bytes, *items.get(middle)?, value)? {
            true => gap.low = middle + 1,
            false => gap.end = middle,
        }
    }
    Some(gap)
}

#[inline(always)]
fn is_below<C: Column>(bytes: &[u8], item: LinePointer, value: C::Value) -> Option<bool> {
    let start = usize::from(item.offset());
    Some(C::of(bytes.get(start..start + C::END)?)? < value)
}

/// What is before `low` is below what is looked for, what is from `end` on is not.
#[derive(Clone, Copy)]
struct Gap {
    low: usize,
    end: usize,
}

impl Gap {
    #[inline]
    fn len(self) -> usize {
        self.end.saturating_sub(self.low)
    }
}

/// What a look takes in; shorter gaps are searched by halves.
const AROUND: usize = 7 * 4 + 1;

/// So many items are just looked at.
pub(crate) const FEW: usize = 8;

/// A key, or a bound, for guessing: what lacks its second column is a value's beginning.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) id: u64,
    pub(crate) chunk: i64,
}

impl Mark {
    #[inline]
    pub(crate) fn of(rank: Rank) -> Self {
        Self { id: rank.id, chunk: rank.seq.max(0) }
    }
}

/// The straight line that keys would lie on if each chunk between two of them were there, and as many
/// chunks of each value. Items are counted from 0.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    pub(crate) low: (i64, Mark),
    pub(crate) high: (i64, Mark),
    pub(crate) sought: Mark,
}

impl Line {
    /// Where what is sought would be; any number, if keys lie anyhow.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "for a guess"
    )]
    pub(crate) fn place(&self) -> usize {
        let ((first, low), (last, high)) = (self.low, self.high);
        let ids = |mark: Mark| mark.id.wrapping_sub(low.id).cast_signed();
        // From what is known before the page has come out of memory.
        let part = ids(self.sought) as f64 / ids(high).max(1) as f64;
        let items = ((last - first - (high.chunk - low.chunk)) as f64 * part) as i32;
        (i64::from(items) + self.sought.chunk - low.chunk + first).max(0) as usize
    }
}
