//! Where to split a page.
//!
//! Every boundary between two entries, the new one among them, that leaves both sides room is a
//! candidate. They are weighed by how evenly they share out the free space; where entries come in
//! ascending order, most of it is to stay on the right. Among those nearly as good as the best, the
//! first wins that tells its sides apart by the fewest columns: in an index of chunks that is a
//! boundary between two values.
//!
//! Free space falls on the left and grows on the right from one candidate to the next, so the weight
//! has one lowest point, and candidates in order of weight are found by going outward from it.
//!
//! Source: `nbtsplitloc.c` (REL_15 to REL_18).
use alloc::vec::Vec;
use core::ops::Range;

use pgtoast_base::maxalign;
use pgtoast_page::{LinePointer, PageHeader};

use crate::error::NbtreeError;
use crate::key::KeyWidth;
use crate::node::Node;
use crate::special::Special;
use crate::tuple::{HEADER_LEN, IndexTuple, KEY_COLUMNS, OwnedTuple, kept_columns};

/// How full a leaf is left behind by ascending inserts, and by building an index, in percent.
pub(crate) const LEAF_FILL: f64 = 90.0;
/// The same of inner pages.
pub(crate) const INNER_FILL: f64 = 70.0;
/// The same of leaves with one key throughout.
const ONE_KEY_FILL: f64 = 96.0;
/// How far from the best boundary others are looked at, as a part of what is on the page.
const LEAF_TOLERANCE: f64 = 0.050;
const INNER_TOLERANCE: f64 = 0.075;
/// Entries beyond these are too long for "after the new one": two 64-bit columns.
const LONGEST_IN_SEQUENCE: i32 = 24 + 4;
/// A run of equal keys that is this close behind the new entry is no reason to split after it.
const NEAR: u16 = 9;
const TID_LEN: i32 = 8;

/// A boundary. `first_right` is the first item of the old page to go right; where that is the place of
/// the new entry, `new_on_left` says which side that one goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitPoint {
    pub(crate) first_right: u16,
    pub(crate) new_on_left: bool,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    point: SplitPoint,
    left_free: i32,
    right_free: i32,
    weight: i32,
}

impl SplitPoint {
    /// The boundary that a server would choose.
    ///
    /// # Errors
    /// [`NbtreeError::NoSplitPoint`] and what is wrong with an item.
    pub(crate) fn choose(
        node: &Node<'_>,
        width: KeyWidth,
        item: u16,
        tuple: &OwnedTuple,
    ) -> Result<Self, NbtreeError> {
        Choice::of(node, width, item, tuple)?.choose()
    }

    /// The last entry on the left.
    pub(crate) fn last_left_tuple<'a>(
        self,
        node: &Node<'a>,
        item: u16,
        new: IndexTuple<'a>,
    ) -> Result<IndexTuple<'a>, NbtreeError> {
        if self.new_on_left && self.first_right == item {
            Ok(new)
        } else {
            node.tuple(self.first_right - 1)
        }
    }

    /// The first entry on the right.
    pub(crate) fn first_right_tuple<'a>(
        self,
        node: &Node<'a>,
        item: u16,
        new: IndexTuple<'a>,
    ) -> Result<IndexTuple<'a>, NbtreeError> {
        if !self.new_on_left && self.first_right == item {
            Ok(new)
        } else {
            node.tuple(self.first_right)
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Default,
    ManyDuplicates,
    OneKey,
}

struct Choice<'a> {
    node: &'a Node<'a>,
    width: KeyWidth,
    item: u16,
    new: IndexTuple<'a>,
    new_len: i32,
    old_total: i32,
    shortest_first_right: i32,
    candidates: Vec<Candidate>,
}

impl<'a> Choice<'a> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "lengths in a page"
    )]
    fn of(
        node: &'a Node<'a>,
        width: KeyWidth,
        item: u16,
        tuple: &'a OwnedTuple,
    ) -> Result<Self, NbtreeError> {
        let pointer_len = LinePointer::LEN as i32;
        let item_len = |item| {
            let outside = NbtreeError::ItemOutside { block: node.block().get(), item };
            let pointer = node.pointer(item).ok_or(outside)?;
            Ok::<_, NbtreeError>(maxalign(pointer.len().into()) as i32 + pointer_len)
        };
        let page_len = node.page_len() as i32;
        let left_space = page_len - PageHeader::LEN as i32 - Special::LEN as i32;
        let high_key = if node.is_rightmost() { 0 } else { item_len(1)? };
        let right_space = left_space - high_key;
        let new_len = tuple.len() as i32 + pointer_len;
        let mut this = Self {
            node,
            width,
            item,
            new: tuple.view(),
            new_len,
            old_total: right_space - node.free_bytes() as i32,
            shortest_first_right: i32::MAX,
            candidates: Vec::with_capacity(usize::from(node.count()) + 2),
        };
        let mut on_left = 0;
        for at in node.first()..=node.count() {
            let len = item_len(at)?;
            if at <= item {
                let first_right = if at == item { new_len } else { len };
                this.add(at, false, on_left, first_right, left_space, right_space);
            }
            if at >= item {
                this.add(at, true, on_left, len, left_space, right_space);
            }
            on_left += len;
        }
        if item > node.count() {
            this.add(item, false, this.old_total, new_len, left_space, right_space);
        }
        if this.candidates.is_empty() {
            return Err(NbtreeError::NoSplitPoint { block: node.block().get() });
        }
        Ok(this)
    }

    /// Adds a candidate if both sides have room.
    fn add(
        &mut self,
        first_right: u16,
        new_on_left: bool,
        on_left: i32,
        first_right_len: i32,
        left_space: i32,
        right_space: i32,
    ) {
        let is_leaf = self.node.is_leaf();
        let mut left_free = left_space - on_left - first_right_len;
        let mut right_free = right_space - (self.old_total - on_left);
        if is_leaf {
            // The high key may need a tid.
            left_free -= TID_LEN;
        } else {
            // The first entry on the right loses its key.
            right_free += first_right_len - i32::from(ENTRY_WITHOUT_KEY);
        }
        if new_on_left {
            left_free -= self.new_len;
        } else {
            right_free -= self.new_len;
        }
        if left_free >= 0 && right_free >= 0 {
            self.shortest_first_right = self.shortest_first_right.min(first_right_len);
            let point = SplitPoint { first_right, new_on_left };
            self.candidates.push(Candidate { point, left_free, right_free, weight: 0 });
        }
    }

    fn choose(mut self) -> Result<SplitPoint, NbtreeError> {
        let is_leaf = self.node.is_leaf();
        let fill = if !is_leaf {
            self.node.is_rightmost().then_some(INNER_FILL)
        } else if self.node.is_rightmost() {
            Some(LEAF_FILL)
        } else {
            match self.after_new()? {
                After::No => None,
                After::Fill => Some(LEAF_FILL),
                After::Exactly => {
                    let point = SplitPoint { first_right: self.item, new_on_left: true };
                    if self.candidates.iter().any(|candidate| candidate.point == point) {
                        return Ok(point);
                    }
                    None
                }
            }
        };
        self.weigh(fill);
        let best = self.best();
        let interval = self.interval(best);
        let (mut strategy, mut perfect) = (Strategy::Default, self.shortest_first_right);
        if is_leaf {
            (strategy, perfect) = self.strategy(&interval)?;
        }
        match strategy {
            Strategy::Default => self.lowest_penalty(best, interval, perfect, strategy),
            Strategy::ManyDuplicates => {
                self.lowest_penalty(best, 0..self.candidates.len(), perfect, strategy)
            }
            Strategy::OneKey => {
                self.weigh(Some(ONE_KEY_FILL));
                Ok(self.candidates[self.best()].point)
            }
        }
    }

    /// Whether entries come in ascending order here although this is not the last leaf: values are
    /// written chunk by chunk, and another's ids may be above.
    fn after_new(&self) -> Result<After, NbtreeError> {
        let (node, item) = (self.node, self.item);
        let last = node.count();
        let equal_len = self.new_len == self.shortest_first_right
            && self.new_len * (i32::from(last) - 1) == self.old_total;
        // Item 2 is the first behind the high key.
        if item <= 2 || !equal_len || self.new_len > LONGEST_IN_SEQUENCE {
            return Ok(After::No);
        }
        let before = node.tuple(item.min(last + 1) - 1)?;
        let same_value = || {
            let columns = self.columns(before, self.new)?;
            Ok::<_, NbtreeError>(columns > 1 && columns <= KEY_COLUMNS)
        };
        if item > last {
            return Ok(if same_value()? { After::Fill } else { After::No });
        }
        let (tid, new) = (before.tid(), self.new.tid());
        // The row before was written not long ago: into the same heap block, or the one that was full.
        let same_block = tid.block == new.block;
        let next_block = tid.block.get().wrapping_add(1) == new.block.get() && new.item.get() == 1;
        if before.is_posting() || !(same_block || next_block) || !same_value()? {
            return Ok(After::No);
        }
        let place = f64::from(item) / (f64::from(last) + 1.0);
        Ok(if place > LEAF_FILL / 100.0 { After::Fill } else { After::Exactly })
    }

    /// Weighs every candidate: for so much of the page on the left, in percent, or for halves.
    #[expect(clippy::cast_possible_truncation, reason = "cut off on purpose, as the server does")]
    fn weigh(&mut self, fill: Option<f64>) {
        for candidate in &mut self.candidates {
            let (left, right) = (candidate.left_free, candidate.right_free);
            let weight = match fill {
                Some(fill) => {
                    let fill = fill / 100.0;
                    (fill * f64::from(left) - (1.0 - fill) * f64::from(right)) as i32
                }
                None => left - right,
            };
            candidate.weight = weight.abs();
        }
    }

    /// The candidate of the lowest weight.
    fn best(&self) -> usize {
        let weights = self.candidates.iter().enumerate();
        weights.min_by_key(|(_, candidate)| candidate.weight).map_or(0, |(index, _)| index)
    }

    /// Candidates in order of weight: outward from the best.
    fn outward(&self, best: usize) -> impl Iterator<Item = usize> + '_ {
        let (mut below, mut above) = (best, best);
        let weight = |index: usize| self.candidates.get(index).map(|candidate| candidate.weight);
        core::iter::once(best).chain(core::iter::from_fn(move || {
            let lower = below.checked_sub(1).and_then(weight);
            let upper = weight(above + 1);
            match (lower, upper) {
                (None, None) => None,
                (Some(lower), upper) if upper.is_none_or(|upper| lower <= upper) => {
                    below -= 1;
                    Some(below)
                }
                _ => {
                    above += 1;
                    Some(above)
                }
            }
        }))
    }

    /// The candidates that are nearly as good as the best.
    #[expect(clippy::cast_possible_truncation, reason = "cut off on purpose, as the server does")]
    fn interval(&self, best: usize) -> Range<usize> {
        let part = if self.node.is_leaf() { LEAF_TOLERANCE } else { INNER_TOLERANCE };
        let tolerance = (f64::from(self.old_total) * part) as i32;
        let optimum = self.candidates[best];
        let near = |index: &usize| {
            let candidate = self.candidates[*index];
            (candidate.left_free - optimum.left_free).abs() <= tolerance
                && (candidate.right_free - optimum.right_free).abs() <= tolerance
        };
        let mut range = best..best + 1;
        for index in self.outward(best).take_while(near) {
            range = range.start.min(index)..range.end.max(index + 1);
        }
        range
    }

    /// How to go on, and the penalty that cannot be undercut.
    fn strategy(&self, interval: &Range<usize>) -> Result<(Strategy, i32), NbtreeError> {
        let across = |range: &Range<usize>| {
            let (first, last) = (self.candidates[range.start], self.candidates[range.end - 1]);
            self.columns(self.last_left(first)?, self.first_right(last)?)
        };
        let columns = across(interval)?;
        if columns <= KEY_COLUMNS {
            return Ok((Strategy::Default, columns.into()));
        }
        if across(&(0..self.candidates.len()))? <= KEY_COLUMNS {
            return Ok((Strategy::ManyDuplicates, KEY_COLUMNS.into()));
        }
        let columns = i32::from(columns);
        if self.node.is_rightmost() {
            return Ok((Strategy::OneKey, columns));
        }
        let high_key = self.node.tuple(1)?;
        let goes_on = high_key.pivot_columns() >= KEY_COLUMNS
            && self.columns(high_key, self.new)? > KEY_COLUMNS;
        Ok((if goes_on { Strategy::Default } else { Strategy::OneKey }, columns))
    }

    fn lowest_penalty(
        &self,
        best: usize,
        interval: Range<usize>,
        perfect: i32,
        strategy: Strategy,
    ) -> Result<SplitPoint, NbtreeError> {
        let mut lowest = i32::MAX;
        let mut chosen = self.candidates[best].point;
        for index in self.outward(best).take(interval.len()) {
            let candidate = self.candidates[index];
            let penalty = self.penalty(candidate)?;
            if penalty < lowest {
                lowest = penalty;
                chosen = candidate.point;
            }
            if penalty <= perfect {
                break;
            }
        }
        // Descending inserts to the right of a group of equal keys: splitting at its end again and
        // again would leave a row of nearly empty pages.
        if strategy == Strategy::ManyDuplicates
            && !self.node.is_rightmost()
            && !chosen.new_on_left
            && chosen.first_right >= self.item
            && chosen.first_right < self.item + NEAR
        {
            chosen = self.candidates[best].point;
        }
        Ok(chosen)
    }

    /// What a boundary costs: columns in a leaf, bytes further up.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "lengths in a page"
    )]
    fn penalty(&self, candidate: Candidate) -> Result<i32, NbtreeError> {
        if self.node.is_leaf() {
            let columns = self.columns(self.last_left(candidate)?, self.first_right(candidate)?)?;
            return Ok(columns.into());
        }
        let len = self.first_right(candidate)?.bytes().len();
        Ok((maxalign(len) + LinePointer::LEN) as i32)
    }

    fn last_left(&self, candidate: Candidate) -> Result<IndexTuple<'a>, NbtreeError> {
        candidate.point.last_left_tuple(self.node, self.item, self.new)
    }

    fn first_right(&self, candidate: Candidate) -> Result<IndexTuple<'a>, NbtreeError> {
        candidate.point.first_right_tuple(self.node, self.item, self.new)
    }

    fn columns(&self, left: IndexTuple<'_>, right: IndexTuple<'_>) -> Result<u16, NbtreeError> {
        let bad = NbtreeError::ItemColumns {
            block: self.node.block().get(),
            item: self.item,
            found: left.pivot_columns(),
        };
        let (left, right) = (left.key(self.width).ok_or(bad)?, right.key(self.width).ok_or(bad)?);
        Ok(kept_columns(left, right))
    }
}

/// Whether to split behind the new entry.
enum After {
    No,
    /// With most of the page on the left.
    Fill,
    /// At just that place.
    Exactly,
}

#[expect(clippy::cast_possible_truncation, reason = "12")]
const ENTRY_WITHOUT_KEY: u16 = (HEADER_LEN + LinePointer::LEN) as u16;
