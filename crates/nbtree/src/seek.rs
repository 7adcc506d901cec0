//! Where on a page something belongs.
//!
//! Plainly, one finds it by halves. Each half waits for memory twice, for a line pointer and then for
//! the item, and nobody can tell beforehand which half comes next. But ids are given out one after the
//! other, and chunks are numbered from 0, so keys lie nearly on a straight line over item numbers:
//!
//! ```text
//! key                 .·| high
//!                 .·*   |                1  the line between what bounds the page says where to look
//!             .·        |                   first
//!      low .·           |                2  from the key found there, along the line again, at a few
//!          | item ->    |                   neighbours at once: they wait for memory together
//! ```
//! The bounds are known from the page above, before this one has come out of memory. Mostly this finds
//! the place; where keys lie any other way, what is left is searched by halves. At worst that takes a
//! few looks more than halves alone.
//!
//! What is marked to be inlined is one function a width to the compiler: the parts of a page stay in
//! registers from one step to the next, and a search takes half the time.
use core::marker::PhantomData;

use pgtoast_page::LinePointer;

use crate::error::NbtreeError;
use crate::key::{Key, KeyWidth, Layout, Oid8Layout, OidLayout, Rank};
use crate::node::{Node, Target};
use crate::tuple::{IndexTuple, KEY_COLUMNS};

/// What is looked for, and between which bounds it lies, as far as pages further up have said. They are
/// for guessing: nothing relies on them.
#[derive(Clone, Copy)]
pub(crate) struct Search<L> {
    target: Target,
    rank: Rank,
    low: Option<Rank>,
    high: Option<Rank>,
    is_new: bool,
    layout: PhantomData<L>,
}

impl<L: Layout> Search<L> {
    #[inline]
    pub(crate) fn new(target: Target) -> Self {
        let rank = Rank::of(target.key);
        Self { target, rank, low: None, high: None, is_new: false, layout: PhantomData }
    }

    /// For a key that is hardly there yet. Keys around it may well be missing too, so that it does not
    /// lie where it would if they were not: more neighbours are looked at first.
    #[inline]
    pub(crate) fn of_new(target: Target) -> Self {
        Self { is_new: true, ..Self::new(target) }
    }

    /// The key that is looked for.
    pub(crate) fn key(&self) -> Key {
        self.target.key
    }

    /// Forgets the bounds: the next page is not the one they are of.
    #[inline]
    pub(crate) fn turn(&mut self) {
        (self.low, self.high) = (None, None);
    }
}

/// Which way a page sends a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// What is looked for is above the high key.
    Beyond,
    /// To that item: in a leaf, the first one that is not below; in an inner page, the one that leads
    /// there.
    Item(u16),
}

/// The item that is not there, or leads out of the page.
type Outside = u16;

impl Node<'_> {
    /// Which way this page sends a search, and its bounds further down.
    #[inline(always)]
    pub(crate) fn way<L: Layout>(&self, search: &mut Search<L>) -> Result<Way, NbtreeError> {
        self.way_in(search).map_err(|item| self.outside(item))
    }

    #[inline(always)]
    fn way_in<L: Layout>(&self, search: &mut Search<L>) -> Result<Way, Outside> {
        if self.ends_before(search)? {
            return Ok(Way::Beyond);
        }
        let item = if self.is_leaf() { self.lower_bound(search) } else { self.downlink(search) };
        item.map(Way::Item)
    }

    /// Whether what is looked for is beyond this page.
    #[inline]
    pub(crate) fn is_beyond(&self, width: KeyWidth, target: Target) -> Result<bool, NbtreeError> {
        let is_beyond = match width {
            KeyWidth::Oid => self.ends_before(&Search::<OidLayout>::new(target)),
            KeyWidth::Oid8 => self.ends_before(&Search::<Oid8Layout>::new(target)),
        };
        is_beyond.map_err(|item| self.outside(item))
    }

    #[inline]
    fn ends_before<L: Layout>(&self, search: &Search<L>) -> Result<bool, Outside> {
        if self.is_rightmost() {
            return Ok(false);
        }
        // Mostly the id alone tells.
        let high_key = self.pointer(1).and_then(|pointer| self.key_bytes(pointer, L::KEY_END));
        let id = high_key.and_then(L::id).ok_or(1u16)?;
        if id > search.rank.id { Ok(false) } else { self.is_below(1, search) }
    }

    /// Whether the first row of a leaf is below what is looked for.
    #[inline]
    pub(crate) fn begins_below<L: Layout>(&self, search: &Search<L>) -> bool {
        self.row::<L>(self.first()).is_some_and(|row| row.is_below(search.rank))
    }

    /// Whether an item of a leaf is a row of another key than the one that is looked for.
    #[inline]
    pub(crate) fn is_other<L: Layout>(&self, search: &Search<L>, item: u16) -> bool {
        self.row::<L>(item).is_some_and(|row| row != search.rank)
    }

    #[cold]
    fn outside(&self, item: u16) -> NbtreeError {
        NbtreeError::ItemOutside { block: self.block().get(), item }
    }

    /// The first item of a leaf whose key is not below; one past the last if all are.
    #[inline(always)]
    fn lower_bound<L: Layout>(&self, search: &Search<L>) -> Result<u16, Outside> {
        let (first, last, sought) = (self.first(), self.count(), search.rank);
        if last < first {
            return Ok(first);
        }
        let (end, high) = match search.high {
            Some(high) => (last + 1, high),
            None => {
                let row = self.row::<L>(last).ok_or(last)?;
                // Ids grow, so in the last leaf the place is mostly past the end.
                if row.is_below(sought) {
                    return Ok(last + 1);
                }
                (last, row)
            }
        };
        let low = match search.low {
            Some(low) => low,
            None => self.row::<L>(first).ok_or(first)?,
        };
        let is_below = |pointer| Some(self.row_at::<L>(pointer)?.is_below(sought));
        let line = Line::through((first, low), (end, high), CHUNK);
        let mut gap = Gap { low: first, end: last + 1 };
        let place = line.place((first, low), sought);
        if search.is_new {
            self.look::<12>(&mut gap, place + 1.0, is_below)?;
        } else {
            // Where each id and each chunk is there, the place is that of the key itself.
            self.look::<2>(&mut gap, place + 0.5, is_below)?;
        }
        if gap.is_open() {
            let known = gap.known(first);
            let row = self.row::<L>(known).ok_or(known)?;
            self.look::<6>(&mut gap, line.place((known, row), sought) + 1.0, is_below)?;
        }
        self.by_halves(gap, is_below)
    }

    /// The item of an inner page that leads towards what is looked for: the last one below it. The first
    /// is below everything, whatever is in it.
    #[inline(always)]
    fn downlink<L: Layout>(&self, search: &mut Search<L>) -> Result<u16, Outside> {
        let (first, last, sought) = (self.first() + 1, self.count(), search.rank);
        if last < first {
            return if last == first - 1 { Ok(last) } else { Err(first - 1) };
        }
        // Mostly the ids alone tell.
        let is_below = |pointer| Some(L::id(self.key_bytes(pointer, L::KEY_END)?)? < sought.id);
        let mut gap = Gap { low: first, end: last + 1 };
        if last - first < FEW {
            self.look::<FEW>(&mut gap, 0.0, is_below)?;
        } else {
            let low = match search.low {
                Some(low) => (first - 1, low),
                None => (first, self.bound::<L>(first).ok_or(first)?),
            };
            let high = match search.high {
                Some(high) => (last + 1, high),
                None => (last, self.bound::<L>(last).ok_or(last)?),
            };
            let line = Line::through(low, high, CHUNK_OF_PIVOT);
            let near = nearest(line.place(low, sought), first, last);
            let known = self.bound::<L>(near).ok_or(near)?;
            self.look::<4>(&mut gap, line.place((near, known), sought) + 1.0, is_below)?;
        }
        let mut item = self.by_halves(gap, is_below)?;
        let mut high = self.bound::<L>(item);
        if high.is_some_and(|high| high.id == sought.id) {
            item = self.by_halves_among_ties(search)?;
            high = self.bound::<L>(item);
        }
        if item > first {
            search.low = self.bound::<L>(item - 1);
        }
        if item <= last {
            search.high = high;
        }
        Ok(item - 1)
    }

    /// The first item of an inner page that is not below, told plainly, and where rows share a key.
    #[cold]
    fn by_halves_among_ties<L: Layout>(&self, search: &Search<L>) -> Result<u16, Outside> {
        let (mut low, mut end) = (self.first() + 1, self.count() + 1);
        while low < end {
            let middle = low + (end - low) / 2;
            match self.is_below(middle, search)? {
                true => low = middle + 1,
                false => end = middle,
            }
        }
        Ok(low)
    }

    /// Whether a pivot is below what is looked for.
    #[inline(always)]
    fn is_below<L: Layout>(&self, item: u16, search: &Search<L>) -> Result<bool, Outside> {
        let bound = self.bound::<L>(item).ok_or(item)?;
        Ok(bound.is_below(search.rank)
            || (bound == search.rank && self.tie_is_below(item, search.target)?))
    }

    /// Whether a pivot with the key that is looked for is below the place that is: what lacks a tid is
    /// below everything that has one.
    #[cold]
    fn tie_is_below(&self, item: u16, target: Target) -> Result<bool, Outside> {
        let tuple = self.tuple(item).map_err(|_| item)?;
        Ok(match (tuple.pivot_tid(), target.tid) {
            (None, _) => true,
            (Some(bound), Some(tid)) => bound < tid,
            (Some(_), None) => false,
        })
    }

    /// Where a leaf item stands, whatever kind of tuple it says it is.
    #[inline(always)]
    fn row<L: Layout>(&self, item: u16) -> Option<Rank> {
        self.row_at::<L>(self.pointer(item)?)
    }

    #[inline(always)]
    fn row_at<L: Layout>(&self, pointer: LinePointer) -> Option<Rank> {
        L::rank(self.key_bytes(pointer, L::KEY_END)?)
    }

    /// Where a pivot stands.
    #[inline(always)]
    fn bound<L: Layout>(&self, item: u16) -> Option<Rank> {
        self.bound_at::<L>(self.pointer(item)?)
    }

    #[inline(always)]
    fn bound_at<L: Layout>(&self, pointer: LinePointer) -> Option<Rank> {
        // Behind a tuple that is too short for both columns there is always the special space.
        let tuple = self.key_bytes(pointer, L::KEY_END)?;
        let Rank { id, seq } = L::rank(tuple)?;
        let has_seq = IndexTuple::parse(tuple)?.pivot_columns() >= KEY_COLUMNS;
        Some(Rank { id, seq: if has_seq { seq } else { Rank::NO_SEQ } })
    }

    /// Narrows a gap by looking at so many neighbours around a place, all of them together.
    #[inline(always)]
    fn look<const NEIGHBOURS: u16>(
        &self,
        gap: &mut Gap,
        place: f64,
        is_below: impl Fn(LinePointer) -> Option<bool>,
    ) -> Result<(), Outside> {
        let most = gap.end.saturating_sub(gap.low);
        if most < NEIGHBOURS {
            let mut below = 0;
            for item in gap.low..gap.end {
                below += u16::from(self.pointer(item).and_then(&is_below).ok_or(item)?);
            }
            gap.low += below;
            gap.end = gap.low;
            return Ok(());
        }
        let start = nearest(place - f64::from(NEIGHBOURS / 2), gap.low, gap.end - NEIGHBOURS);
        let mut below = 0;
        for item in start..start + NEIGHBOURS {
            below += u16::from(self.pointer(item).and_then(&is_below).ok_or(item)?);
        }
        if below > 0 {
            gap.low = start + below;
        }
        if below < NEIGHBOURS {
            gap.end = start + below;
        }
        Ok(())
    }

    /// The first item of a gap that is not below; its end if all are.
    #[inline(always)]
    fn by_halves(
        &self,
        gap: Gap,
        is_below: impl Fn(LinePointer) -> Option<bool>,
    ) -> Result<u16, Outside> {
        if gap.is_open() { self.halve(gap, is_below) } else { Ok(gap.low) }
    }

    #[cold]
    fn halve(
        &self,
        mut gap: Gap,
        is_below: impl Fn(LinePointer) -> Option<bool>,
    ) -> Result<u16, Outside> {
        while gap.is_open() {
            let middle = gap.low + (gap.end - gap.low) / 2;
            match self.pointer(middle).and_then(&is_below).ok_or(middle)? {
                true => gap.low = middle + 1,
                false => gap.end = middle,
            }
        }
        Ok(gap.low)
    }
}

/// What is before `low` is below what is looked for, what is from `end` on is not.
#[derive(Clone, Copy)]
struct Gap {
    low: u16,
    end: u16,
}

impl Gap {
    #[inline]
    fn is_open(self) -> bool {
        self.low < self.end
    }

    /// An item that was looked at, next to the gap among those from the first on.
    #[inline]
    fn known(self, first: u16) -> u16 {
        if self.low > first { self.low - 1 } else { self.end }
    }
}

/// The straight line that keys would lie on if they were spread evenly.
#[derive(Clone, Copy)]
struct Line {
    /// How many items an id takes.
    per_id: f64,
    /// How many items a chunk takes.
    per_chunk: f64,
}

/// In a leaf a chunk has an item of its own.
const CHUNK: f64 = 1.0;
/// In an inner page so many chunks of one value, a leaf full of them, share one.
const CHUNK_OF_PIVOT: f64 = 1.0 / 256.0;

/// Fewer pivots than these are all looked at.
const FEW: u16 = 8;

impl Line {
    #[inline]
    fn through(low: (u16, Rank), high: (u16, Rank), per_chunk: f64) -> Self {
        let (ids, chunks) = steps(low.1, high.1);
        let items = f64::from(high.0) - f64::from(low.0);
        Self { per_id: (items - chunks * per_chunk) / ids, per_chunk }
    }

    /// Where on a parallel through that item a key lies; any number, if keys lie anyhow.
    #[inline]
    fn place(self, from: (u16, Rank), sought: Rank) -> f64 {
        let (ids, chunks) = steps(from.1, sought);
        let by_id = if ids == 0.0 { 0.0 } else { ids * self.per_id };
        f64::from(from.0) + by_id + chunks * self.per_chunk
    }
}

/// How many ids and how many chunks one key is above another. What lacks its second column is a value's
/// beginning.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "for a guess")]
fn steps(low: Rank, high: Rank) -> (f64, f64) {
    let ids = high.id.wrapping_sub(low.id).cast_signed();
    (ids as f64, (high.seq.max(0) - low.seq.max(0)) as f64)
}

/// The nearest item of `low..=high`; one of them for what is no number.
#[inline]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two items")]
fn nearest(place: f64, low: u16, high: u16) -> u16 {
    place.max(low.into()).min(high.into()) as u16
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "small numbers, and random ones"
)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber, Oid8};
    use pgtoast_testkit::Rng;

    use super::*;
    use crate::packer::Packer;
    use crate::special::{NodeFlags, Special};
    use crate::tuple::OwnedTuple;

    type Entry = (Key, ItemPointer);

    /// Entries in order, spread in some way that a page may have.
    fn entries(rng: &mut Rng, width: KeyWidth) -> Vec<Entry> {
        let count = rng.pick(&[0, 1, 2, 3, 9, 13, 40, 200]);
        let start = rng.pick(&[0, 1, 20_000, width.highest_id() / 2, width.highest_id() - 60_000]);
        let (shape, mut id, mut seq) = (rng.below(6), start, 0);
        let mut entries: Vec<Entry> = (0..count)
            .map(|n| {
                match shape {
                    // Whole values, all of one length.
                    0 => (id, seq) = (start + n / 4, (n % 4) as i32),
                    // Values of any length.
                    1 if rng.chance(30) => (id, seq) = (id + 1, 0),
                    1 => seq += 1,
                    // One large value.
                    2 => seq += 1,
                    // Gaps that double.
                    3 => id = start.wrapping_add(1 << (n % 16)),
                    // Rows that share keys.
                    4 => (id, seq) = (start + rng.below(3) as u64, rng.below(3) as i32 - 1),
                    _ => (id, seq) = (rng.next_u64(), rng.next_u64() as i32),
                }
                let tid = ItemPointer::new(BlockNumber::new(n as u32), OffsetNumber::FIRST);
                (Key::new(Oid8::new(id % (width.highest_id() - 1)), seq), tid)
            })
            .collect();
        entries.sort_unstable();
        entries
    }

    /// A bound between each two of those entries that are next to each other.
    fn bounds(width: KeyWidth, entries: &[Entry]) -> Vec<OwnedTuple> {
        let leaf = |(key, tid): Entry| OwnedTuple::leaf(width, key, tid);
        let bound = |pair: &[Entry]| {
            OwnedTuple::bound(width, leaf(pair[0]).view(), leaf(pair[1]).view()).unwrap()
        };
        entries.windows(2).map(bound).collect()
    }

    fn page(level: u32, high_key: Option<&OwnedTuple>, items: &[OwnedTuple]) -> Vec<u8> {
        let mut bytes = vec![0; BlockSize::KIB_16.bytes()];
        let flags = if level == 0 { NodeFlags::LEAF } else { NodeFlags::empty() };
        let next = high_key.map(|_| BlockNumber::new(9));
        let special = Special::new(None, next, level, flags);
        let mut packer = Packer::new(&mut bytes, BlockSize::KIB_16, special);
        for item in high_key.into_iter().chain(items) {
            packer.push(item.bytes()).unwrap();
        }
        packer.finish();
        bytes
    }

    /// What the module's first sentence says, told once more: one item after the other.
    fn plain_way<L: Layout>(node: &Node<'_>, target: Target) -> Way {
        let search = Search::<L>::new(target);
        if !node.is_rightmost() && node.is_below(1, &search).unwrap() {
            return Way::Beyond;
        }
        let items = node.first()..=node.count();
        if node.is_leaf() {
            let below = items.filter(|item| node.row::<L>(*item).unwrap().is_below(search.rank));
            return Way::Item(node.first() + below.count() as u16);
        }
        let below = items.skip(1).filter(|item| node.is_below(*item, &search).unwrap());
        Way::Item(node.first() + below.count() as u16)
    }

    fn compare<L: Layout>(rng: &mut Rng, width: KeyWidth) {
        let entries = entries(rng, width);
        let (level, mut items) = if rng.chance(50) {
            (0, entries.iter().map(|(key, tid)| OwnedTuple::leaf(width, *key, *tid)).collect())
        } else {
            let lowest = OwnedTuple::minus_infinity(BlockNumber::new(1));
            (1, [lowest].into_iter().chain(bounds(width, &entries)).collect::<Vec<_>>())
        };
        let last = entries.last().copied().unwrap_or_default();
        let above = (Key::new(Oid8::new(width.highest_id()), 7), last.1);
        let high_key = bounds(width, &[last, above]).pop().filter(|_| rng.chance(70));
        if rng.chance(10) {
            // A page that is not in order has no right answer, but one all the same.
            let (one, other) = (rng.below(items.len().max(1)), rng.below(items.len().max(1)));
            if level == 0 && one < items.len() {
                items.swap(one, other);
            }
            let bytes = page(level, high_key.as_ref(), &items);
            let node = Node::parse(&bytes, BlockNumber::new(1)).unwrap();
            let key = Key::new(Oid8::new(rng.next_u64()), 0);
            let way = node.way(&mut Search::<L>::new(Target::first_of(key))).unwrap();
            assert!(matches!(way, Way::Beyond | Way::Item(1..)));
            return;
        }
        let bytes = page(level, high_key.as_ref(), &items);
        let node = Node::parse(&bytes, BlockNumber::new(1)).unwrap();
        for _ in 0..40 {
            let near = if entries.is_empty() { last } else { rng.pick(&entries) };
            let id = near.0.chunk_id.get().wrapping_add(rng.below(3) as u64).wrapping_sub(1);
            let seq = near.0.chunk_seq.wrapping_add(rng.below(3) as i32 - 1);
            let seq = if rng.chance(10) { i32::MIN } else { seq };
            let key = Key::new(Oid8::new(id.min(width.highest_id())), seq);
            let target = Target { key, tid: rng.chance(30).then_some(near.1) };
            let expected = plain_way::<L>(&node, target);
            // Bounds are for guessing, so any will do, as long as they are bounds.
            let rank = Rank::of(key);
            let mut search = Search::<L>::new(target);
            search.is_new = rng.chance(50);
            search.low = rng.chance(50).then(|| Rank { id: rng.next_u64() & rank.id, seq: 0 });
            search.high =
                rng.chance(50).then(|| Rank { id: rank.id | rng.next_u64(), seq: i64::MAX });
            let shown = (width, level, target, search.low, search.high);
            assert_eq!(node.way(&mut search).unwrap(), expected, "{shown:?} among {entries:?}");
        }
    }

    #[test]
    fn a_search_comes_to_the_item_that_a_walk_comes_to() {
        for seed in 0..6000 {
            compare::<OidLayout>(&mut Rng::new(seed), KeyWidth::Oid);
            compare::<Oid8Layout>(&mut Rng::new(seed), KeyWidth::Oid8);
        }
    }
}
