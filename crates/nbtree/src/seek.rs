//! Which way a page sends a search.
//!
//! What is marked to be inlined is one function a width to the compiler, which then knows how long
//! everything is. Where among the items of a page something belongs is found in `items`; the bounds that
//! help there are known from the page above, before this one has come out of memory.
use core::cmp::Ordering;
use core::marker::PhantomData;

use pgtoast_base::ItemPointer;
use pgtoast_page::LineState;

use crate::error::NbtreeError;
use crate::items::{self, Column, Line, Mark};
use crate::key::{Key, KeyWidth, Layout, Oid8Layout, OidLayout, Rank};
use crate::node::{Node, Target};
use crate::tuple::{IndexTuple, KEY_COLUMNS};

/// What is looked for, and between which bounds it lies, as far as pages further up have said. They are
/// for guessing: nothing relies on them.
#[derive(Clone, Copy)]
pub(crate) struct Search<L: Layout> {
    target: Target,
    rank: Rank,
    order: L::Order,
    low: Option<Mark>,
    high: Option<Mark>,
    is_new: bool,
}

impl<L: Layout> Search<L> {
    #[inline]
    pub(crate) fn new(target: Target) -> Self {
        let (rank, order) = (Rank::of(target.key), L::order_of(target.key));
        Self { target, rank, order, low: None, high: None, is_new: false }
    }

    /// For a key that is hardly there yet. Keys around it may well be missing too, so that it does not
    /// lie where it would if they were not.
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

/// What is to be seen at the place of the first row of a key.
#[derive(Clone, Copy)]
pub(crate) enum Seen {
    /// The row.
    Row(ItemPointer),
    /// One of a higher key.
    Other,
    /// Something that asks for a closer look, or nothing.
    Unclear,
}

impl Node<'_> {
    /// Which way this page sends a search, and its bounds further down.
    #[inline(always)]
    pub(crate) fn way<L: Layout>(&self, search: &mut Search<L>) -> Result<Way, NbtreeError> {
        self.way_in(search).ok_or_else(|| self.outside::<L>())
    }

    /// `None` where an item that is not there was asked for, or one that leads out of the page.
    #[inline(always)]
    fn way_in<L: Layout>(&self, search: &mut Search<L>) -> Option<Way> {
        if self.ends_before(search)? {
            return Some(Way::Beyond);
        }
        let item = if self.is_leaf() { self.lower_bound(search) } else { self.downlink(search) };
        item.map(Way::Item)
    }

    /// Whether what is looked for is beyond this page.
    #[inline]
    pub(crate) fn is_beyond(&self, width: KeyWidth, target: Target) -> Result<bool, NbtreeError> {
        match width {
            KeyWidth::Oid => self.is_beyond_in(&Search::<OidLayout>::new(target)),
            KeyWidth::Oid8 => self.is_beyond_in(&Search::<Oid8Layout>::new(target)),
        }
    }

    #[inline]
    fn is_beyond_in<L: Layout>(&self, search: &Search<L>) -> Result<bool, NbtreeError> {
        self.ends_before(search).ok_or_else(|| self.outside::<L>())
    }

    #[inline(always)]
    fn ends_before<L: Layout>(&self, search: &Search<L>) -> Option<bool> {
        if self.is_rightmost() {
            return Some(false);
        }
        // Mostly the id alone tells.
        let id = L::id(self.key_bytes(self.pointer(1)?, L::KEY_END)?)?;
        if id > search.rank.id { Some(false) } else { self.is_below(1, search) }
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

    /// What is to be seen at the place of the first row of a key.
    #[inline(always)]
    pub(crate) fn seen<L: Layout>(&self, search: &Search<L>, item: u16) -> Seen {
        self.plain::<L>(item).map_or(Seen::Unclear, |(order, tid)| match order.cmp(&search.order) {
            Ordering::Equal => Seen::Row(tid),
            Ordering::Greater => Seen::Other,
            Ordering::Less => Seen::Unclear,
        })
    }

    /// Key and tid of an item of a leaf, if it is an entry of one tid and not marked dead.
    #[inline(always)]
    fn plain<L: Layout>(&self, item: u16) -> Option<(L::Order, ItemPointer)> {
        let pointer = self.pointer(item)?;
        let tuple = IndexTuple::parse(self.key_bytes(pointer, L::LEN)?)?;
        let has_len = usize::from(pointer.len()) == L::LEN && tuple.is_plain(L::LEN);
        let is_alive = has_len && pointer.state() != LineState::Dead;
        is_alive.then_some((L::order(tuple.bytes())?, tuple.tid()))
    }

    /// The first item that leads out of the page; the one after the last if none does.
    #[cold]
    fn outside<L: Layout>(self) -> NbtreeError {
        let leads_out = |item: &u16| {
            self.pointer(*item).and_then(|pointer| self.key_bytes(pointer, L::KEY_END)).is_none()
        };
        let item = (1..=self.count()).find(leads_out).unwrap_or(self.count() + 1);
        NbtreeError::ItemOutside { block: self.block().get(), item }
    }

    /// The first item of a leaf whose key is not below; one past the last if all are.
    #[inline(always)]
    fn lower_bound<L: Layout>(&self, search: &Search<L>) -> Option<u16> {
        let (first, last) = (self.first(), self.count());
        if last < first {
            return Some(first);
        }
        let count = i64::from(last + 1 - first);
        let high = match search.high {
            Some(high) => (count, high),
            None => {
                let row = self.row::<L>(last)?;
                // Ids grow, so in the last leaf the place is mostly past the end.
                if row.is_below(search.rank) {
                    return Some(last + 1);
                }
                (count - 1, Mark::of(row))
            }
        };
        let low = match search.low {
            Some(low) => low,
            None => Mark::of(self.row::<L>(first)?),
        };
        let line = Line { low: (0, low), high, sought: Mark::of(search.rank) };
        self.first_not_below::<WholeKey<L>>(first, search.order, line.place(), !search.is_new)
    }

    /// The item of an inner page that leads towards what is looked for: the last one below it. The first
    /// is below everything, whatever is in it.
    #[inline(always)]
    fn downlink<L: Layout>(&self, search: &mut Search<L>) -> Option<u16> {
        let (first, last) = (self.first() + 1, self.count());
        if last < first {
            return (last == first - 1).then_some(last);
        }
        let place = match usize::from(last - first) {
            ..items::FEW => 0,
            _ => self.place_of_downlink(first, last, search)?,
        };
        // Mostly the ids alone tell.
        let mut item = self.first_not_below::<IdAlone<L>>(first, search.rank.id, place, false)?;
        let mut high = self.mark::<L>(item);
        if high.is_some_and(|high| high.id == search.rank.id) {
            item = self.by_halves_among_ties(*search)?;
            high = self.mark::<L>(item);
        }
        if item > first {
            search.low = self.mark::<L>(item - 1);
        }
        if item <= last {
            search.high = high;
        }
        Some(item - 1)
    }

    /// Where among the pivots from `first` on the first one is that is not below, presumably.
    #[inline(always)]
    fn place_of_downlink<L: Layout>(
        &self,
        first: u16,
        last: u16,
        search: &Search<L>,
    ) -> Option<usize> {
        let count = i64::from(last + 1 - first);
        let low = match search.low {
            Some(low) => (-1, low),
            None => (0, self.mark::<L>(first)?),
        };
        let high = match search.high {
            Some(high) => (count, high),
            None => (count - 1, self.mark::<L>(last)?),
        };
        Some(Line { low, high, sought: Mark::of(search.rank) }.place())
    }

    /// The first item from that one on that is not below; one past the last if all are.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "no more than there are items")]
    fn first_not_below<C: Column>(
        &self,
        first: u16,
        value: C::Value,
        place: usize,
        is_there: bool,
    ) -> Option<u16> {
        let items = self.pointers().get(usize::from(first) - 1..)?;
        let below = items::count_below::<C>(self.page(), items, value, place, is_there)?;
        Some(first + below as u16)
    }

    /// The first item of an inner page that is not below, told plainly, and where rows share a key.
    #[cold]
    fn by_halves_among_ties<L: Layout>(self, search: Search<L>) -> Option<u16> {
        let (mut low, mut end) = (self.first() + 1, self.count() + 1);
        while low < end {
            let middle = low + (end - low) / 2;
            match self.is_below(middle, &search)? {
                true => low = middle + 1,
                false => end = middle,
            }
        }
        Some(low)
    }

    /// Whether a pivot is below what is looked for.
    #[inline(always)]
    fn is_below<L: Layout>(&self, item: u16, search: &Search<L>) -> Option<bool> {
        let bound = self.bound::<L>(item)?;
        let is_tie = bound == search.rank;
        Some(bound.is_below(search.rank) || (is_tie && self.tie_is_below(item, search.target)?))
    }

    /// Whether a pivot with the key that is looked for is below the place that is: what lacks a tid is
    /// below everything that has one.
    #[cold]
    fn tie_is_below(self, item: u16, target: Target) -> Option<bool> {
        let tuple = self.tuple(item).ok()?;
        Some(match (tuple.pivot_tid(), target.tid) {
            (None, _) => true,
            (Some(bound), Some(tid)) => bound < tid,
            (Some(_), None) => false,
        })
    }

    /// Where a leaf item stands, whatever kind of tuple it says it is.
    #[inline(always)]
    fn row<L: Layout>(&self, item: u16) -> Option<Rank> {
        L::rank(self.key_bytes(self.pointer(item)?, L::KEY_END)?)
    }

    /// Where a pivot stands.
    #[inline(always)]
    fn bound<L: Layout>(&self, item: u16) -> Option<Rank> {
        // Behind a tuple that is too short for both columns there is always the special space.
        let tuple = self.key_bytes(self.pointer(item)?, L::KEY_END)?;
        let Rank { id, seq } = L::rank(tuple)?;
        let has_seq = IndexTuple::parse(tuple)?.pivot_columns() >= KEY_COLUMNS;
        Some(Rank { id, seq: if has_seq { seq } else { Rank::NO_SEQ } })
    }

    /// The same for guessing.
    #[inline(always)]
    fn mark<L: Layout>(&self, item: u16) -> Option<Mark> {
        self.bound::<L>(item).map(Mark::of)
    }
}

/// All of a row's key.
struct WholeKey<L>(PhantomData<L>);

impl<L: Layout> Column for WholeKey<L> {
    type Value = L::Order;
    const END: usize = L::KEY_END;

    #[inline]
    fn of(tuple: &[u8]) -> Option<L::Order> {
        L::order(tuple)
    }
}

/// The first column of a pivot.
struct IdAlone<L>(PhantomData<L>);

impl<L: Layout> Column for IdAlone<L> {
    type Value = u64;
    const END: usize = L::KEY_END;

    #[inline]
    fn of(tuple: &[u8]) -> Option<u64> {
        L::id(tuple)
    }
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
        let count = rng.pick(&[0, 1, 2, 3, 8, 9, 13, 28, 29, 30, 40, 200, 400]);
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
            search.low = rng.chance(50).then(|| Mark { id: rng.next_u64() & rank.id, chunk: 0 });
            search.high = rng
                .chance(50)
                .then(|| Mark { id: rank.id | rng.next_u64(), chunk: i64::from(i32::MAX) });
            let shown = (width, level, target);
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
