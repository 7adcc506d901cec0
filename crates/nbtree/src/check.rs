//! Whether an index is as it must be.
//!
//! Every level is walked from left to right, and the level above beside it: its downlinks, in order,
//! must lead to just the pages of this one, and the key of each must be the high key of the page
//! before.
//!
//! ```text
//! level 1    | -∞ → a | k → b | m → c |
//! level 0    a: … high key k    b: … high key m    c: …
//! ```
//! Source: `verify_nbtree.c` (REL_18).
use alloc::vec::Vec;

use pgtoast_base::{BlockNumber, ItemPointer, maxalign};
use pgtoast_page::LineState;

use crate::descent::expect_level;
use crate::error::{IndexError, NbtreeError};
use crate::index::{Index, Result};
use crate::key::{KeyWidth, Layout, Oid8Layout, OidLayout, Rank};
use crate::meta::Meta;
use crate::node::{Node, Target, unexpected};
use crate::pages::IndexPages;
use crate::special::NodeFlags;
use crate::tuple::{Bound, HEADER_LEN, IndexTuple, KEY_COLUMNS, OwnedTuple};

/// What a check came across.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Levels, leaves included.
    pub levels: u32,
    /// Leaves in the tree.
    pub leaf_pages: u32,
    /// Pages above them.
    pub inner_pages: u32,
    /// Empty leaves that lost their downlinks and are still linked to their neighbours.
    pub half_dead_pages: u32,
    /// Entries, those marked dead included.
    pub entries: u64,
    /// Entries marked dead.
    pub dead_entries: u64,
}

impl<P: IndexPages> Index<P> {
    /// Holds the whole index to the rules: the first fault that [`check_each`](Self::check_each)
    /// finds.
    ///
    /// # Errors
    /// That fault; the storage's own.
    pub fn check(&self) -> Result<CheckReport, P> {
        let mut first = None;
        let report = self.check_each(|error| _ = first.get_or_insert(error))?;
        match first {
            None => Ok(report),
            Some(error) => Err(error.into()),
        }
    }

    /// Every fault of the index.
    ///
    /// - Pages are led to by their neighbours and, but for the right page of a split that has not
    ///   ended, by one downlink; levels and flags are those of their places, and nothing goes round.
    /// - Items lie in the tuple space, apart, as long as their kind is, with the columns it has.
    /// - Entries ascend by key and tid, within a page and from one to the next, up to the high key.
    /// - A downlink's key is the high key of the page before.
    ///
    /// Nobody may change the index meanwhile. Rows that share a key are no fault: all but one may be
    /// dead. A level that is broken off is not followed further.
    ///
    /// # Errors
    /// The storage's own; faults go to `report`.
    pub fn check_each(&self, report: impl FnMut(NbtreeError)) -> Result<CheckReport, P> {
        let mut check = Check { index: self, report, counts: CheckReport::default() };
        match check.tree() {
            Ok(()) => {}
            Err(IndexError::Index(error)) => (check.report)(error),
            Err(error) => return Err(error),
        }
        Ok(check.counts)
    }
}

struct Check<'a, P, R> {
    index: &'a Index<P>,
    report: R,
    counts: CheckReport,
}

/// What is remembered of the page before.
struct Before {
    is_split_open: bool,
    high_key: Option<OwnedTuple>,
}

impl<P: IndexPages, R: FnMut(NbtreeError)> Check<'_, P, R> {
    fn tree(&mut self) -> Result<(), P> {
        let meta = self.index.meta()?;
        let Some((root, top)) = meta.root() else { return Ok(()) };
        let flags = {
            let page = self.index.latch_read(root)?;
            let node = Node::parse(&page, root)?;
            expect_level(&node, top)?;
            if node.special().prev().is_some() {
                return Err(NbtreeError::NotAlone { block: root.get() }.into());
            }
            node.flags()
        };
        // The first step of a split of the root takes that flag away, the second makes a new root.
        if !flags.intersects(NodeFlags::ROOT | NodeFlags::INCOMPLETE_SPLIT) {
            (self.report)(NbtreeError::Flags { block: root.get(), found: flags.bits() });
        }
        let mut above = None;
        let mut leftmost = root;
        let mut level = top;
        loop {
            self.counts.levels += 1;
            let below = self.level(level, leftmost, above, &meta)?;
            let Some(child) = below else { return Ok(()) };
            (above, leftmost) = (Some(leftmost), child);
            level -= 1;
        }
    }

    /// One level; where the next one below starts.
    fn level(
        &mut self,
        level: u32,
        leftmost: BlockNumber,
        above: Option<BlockNumber>,
        meta: &Meta,
    ) -> Result<Option<BlockNumber>, P> {
        let limit = self.index.pages().block_count().map_err(IndexError::Storage)?;
        let mut downlinks = above.map(|above| Downlinks::new(self.index, above, limit));
        let (mut pages, mut first_child, mut starts_open) = (0u32, None, false);
        let mut before: Option<Before> = None;
        let mut prev = None;
        let mut next = Some(leftmost);
        while let Some(block) = next {
            pages += 1;
            if pages > limit {
                return Err(NbtreeError::Cycle { block: block.get() }.into());
            }
            let page = self.index.latch_read(block)?;
            let node = Node::parse(&page, block)?;
            expect_level(&node, level)?;
            if node.special().prev() != prev {
                (self.report)(NbtreeError::Sibling {
                    block: block.get(),
                    expected: prev.map_or(0, BlockNumber::get),
                    found: node.special().prev.get(),
                });
            }
            (prev, next) = (Some(block), node.special().next());
            if node.flags().contains(NodeFlags::DELETED)
                || (node.flags().contains(NodeFlags::ROOT) && above.is_some())
            {
                (self.report)(unexpected(&node));
                continue;
            }
            if node.flags().contains(NodeFlags::HALF_DEAD) {
                self.counts.half_dead_pages += 1;
                continue;
            }
            if level > 0 && first_child.is_none() {
                first_child = Some(node.child(node.first())?);
            }
            self.page(&node, before.as_ref())?;
            self.downlink(&node, before.as_ref(), downlinks.as_mut())?;
            let high_key = match node.is_rightmost() {
                true => None,
                false => OwnedTuple::pivot(node.tuple(1)?, block),
            };
            let is_split_open = node.flags().contains(NodeFlags::INCOMPLETE_SPLIT);
            starts_open |= is_split_open && before.is_none();
            before = Some(Before { is_split_open, high_key });
        }
        if let Some(downlinks) = &mut downlinks
            && let Some(link) = downlinks.next()?
        {
            (self.report)(link.not_within());
        }
        // A page that was alone and was split still is, until the split has ended.
        let is_alone = pages == 1 || pages == 2 && starts_open;
        let splits_root = before.is_some() && above.is_none();
        if !is_alone && splits_root && pages > 2 {
            (self.report)(NbtreeError::NotAlone { block: leftmost.get() });
        }
        let fast = meta.fast_root();
        if let Some((fast_root, fast_level)) = fast
            && fast_level == level
            && (fast_root != leftmost || (!is_alone && above.is_some()))
        {
            (self.report)(NbtreeError::NotAlone { block: fast_root.get() });
        }
        Ok(first_child)
    }

    /// The downlink of a page, and its key.
    fn downlink(
        &mut self,
        node: &Node<'_>,
        before: Option<&Before>,
        downlinks: Option<&mut Downlinks<'_, P>>,
    ) -> Result<(), P> {
        let block = node.block();
        let has_none = before.is_some_and(|before| before.is_split_open);
        let Some(downlinks) = downlinks else {
            // On the level of the root, only a split of the root that has not ended has two pages.
            if before.is_some() && !has_none {
                (self.report)(NbtreeError::NotAlone { block: block.get() });
            }
            return Ok(());
        };
        if has_none {
            return Ok(());
        }
        let Some(link) = downlinks.next()? else {
            let above = downlinks.block.get();
            return Err(NbtreeError::DownlinkMissing { block: above, child: block.get() }.into());
        };
        if link.child != block {
            return Err(NbtreeError::DownlinkMissing {
                block: link.block.get(),
                child: block.get(),
            }
            .into());
        }
        let high_key = before.and_then(|before| before.high_key.as_ref());
        // The block in a pivot is its own affair.
        let key = |tuple: &OwnedTuple| tuple.bytes().get(4..).map(<[u8]>::to_vec);
        if link.bound.as_ref().map(key) != high_key.map(key) {
            (self.report)(link.not_within());
        }
        Ok(())
    }

    /// The items of a page.
    fn page(&mut self, node: &Node<'_>, before: Option<&Before>) -> Result<(), P> {
        let (block, level) = (node.block().get(), node.special().level());
        match level {
            0 => self.counts.leaf_pages += 1,
            _ => self.counts.inner_pages += 1,
        }
        if !node.is_rightmost() && node.count() == 0 || level > 0 && node.data_count() == 0 {
            (self.report)(NbtreeError::ItemOutside { block, item: 1 });
            return Ok(());
        }
        if node.is_leaf()
            && let Some(dead_entries) = self.plain_entries(node)
        {
            self.counts.entries += u64::from(node.data_count());
            self.counts.dead_entries += dead_entries;
            return self.ends(node, before);
        }
        let mut places = Vec::with_capacity(node.count().into());
        for item in 1..=node.count() {
            if let Err(error) = self.item(node, item, &mut places) {
                (self.report)(error);
                return Ok(());
            }
        }
        places.sort_unstable();
        if let Some(pair) = places.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            (self.report)(NbtreeError::ItemOutside { block, item: pair[1].2 });
        }
        if level == 0 {
            self.counts.entries += u64::from(node.data_count());
            let dead = (node.first()..=node.count()).filter(|item| node.is_dead(*item)).count();
            self.counts.dead_entries += dead as u64;
        }
        self.order(node, before)
    }

    /// How many entries of a leaf are marked dead, if it is one of the usual leaves: entries of one tid
    /// each, in the order of their keys, none upon another. Then its ends are all there is left to look
    /// at.
    fn plain_entries(&self, node: &Node<'_>) -> Option<u64> {
        let mut taken = Granules([0; 64]);
        if !node.is_rightmost() {
            let mut places = Vec::new();
            self.item(node, 1, &mut places).ok()?;
            places.iter().all(|(start, end, _)| taken.take(*start, *end)).then_some(())?;
        }
        match self.index.width() {
            KeyWidth::Oid => plain_entries::<OidLayout>(node, &mut taken),
            KeyWidth::Oid8 => plain_entries::<Oid8Layout>(node, &mut taken),
        }
    }

    /// One item by itself.
    fn item(
        &self,
        node: &Node<'_>,
        item: u16,
        places: &mut Vec<(u16, u16, u16)>,
    ) -> core::result::Result<(), NbtreeError> {
        let block = node.block().get();
        let outside = NbtreeError::ItemOutside { block, item };
        let pointer = node.pointer(item).ok_or(outside)?;
        let (start, len) = (pointer.offset(), pointer.len());
        let end = start + len;
        let is_stored = matches!(pointer.state(), LineState::Normal | LineState::Dead);
        if !is_stored
            || !start.is_multiple_of(8)
            || !node.tuple_space().contains(&usize::from(start))
            || usize::from(end) > node.tuple_space().end
        {
            return Err(outside);
        }
        places.push((start, end, item));
        let tuple = node.tuple(item)?;
        let (is_leaf, is_high_key) = (node.is_leaf(), item < node.first());
        let columns = tuple.pivot_columns();
        let bad_columns = Err(NbtreeError::ItemColumns { block, item, found: columns });
        let width = self.index.width();
        let expected = if tuple.has_nulls() {
            return bad_columns;
        } else if is_leaf && !is_high_key {
            if tuple.is_pivot() {
                return bad_columns;
            }
            let tids = tuple.tids().ok_or(outside)?;
            if tuple.is_posting() {
                let mut before = ItemPointer::new(BlockNumber::new(0), crate::node::item_number(0));
                for tid in tids {
                    if tid <= before {
                        return Err(NbtreeError::ItemOrder { block, item });
                    }
                    before = tid;
                }
                usize::from(len)
            } else {
                width.tuple_len()
            }
        } else {
            let is_lowest = item == node.first();
            let sound = tuple.is_pivot()
                && columns <= KEY_COLUMNS
                && (columns == 0) == (is_lowest && !is_high_key);
            if !sound {
                return bad_columns;
            }
            let tid = if tuple.pivot_tid().is_some() { 8 } else { 0 };
            match columns {
                0 => HEADER_LEN,
                1 => 16 + tid,
                _ => width.tuple_len() + tid,
            }
        };
        #[expect(clippy::cast_possible_truncation, reason = "lengths of tuples")]
        if usize::from(len) != expected || tuple.len() != expected || maxalign(expected) != expected
        {
            let found = if usize::from(len) == expected { tuple.len() as u16 } else { len };
            return Err(NbtreeError::ItemLen { block, item, expected: expected as u16, found });
        }
        Ok(())
    }

    /// The order of the items, within the page and from the one before.
    fn order(&mut self, node: &Node<'_>, before: Option<&Before>) -> Result<(), P> {
        let block = node.block().get();
        // The first downlink has no key of its own.
        let first_key = if node.is_leaf() { node.first() } else { node.first() + 1 };
        for item in first_key..node.count().max(first_key) {
            let (one, next) = (node.tuple(item)?, node.tuple(item + 1)?);
            if !is_below(self.index, one, next, node.is_leaf()) {
                (self.report)(NbtreeError::ItemOrder { block, item: item + 1 });
                return Ok(());
            }
        }
        self.ends(node, before)
    }

    /// The items at the ends of a page: below its high key, and above that of the page before.
    fn ends(&mut self, node: &Node<'_>, before: Option<&Before>) -> Result<(), P> {
        let block = node.block().get();
        let first_key = if node.is_leaf() { node.first() } else { node.first() + 1 };
        if node.count() < first_key {
            return Ok(());
        }
        if !node.is_rightmost() {
            let last = node.tuple(node.count())?;
            let within = if node.is_leaf() {
                let target = last_entry(self.index, last);
                let width = self.index.width();
                target.is_some_and(|target| node.is_beyond(width, target) == Ok(false))
            } else {
                is_below(self.index, last, node.tuple(1)?, false)
            };
            if !within {
                (self.report)(NbtreeError::HighKey { block, item: node.count() });
            }
        }
        if let Some(before) = before
            && let Some(high_key) = &before.high_key
        {
            let lowest = node.tuple(first_key)?;
            let above = if node.is_leaf() {
                first_entry(self.index, lowest).is_some_and(|target| {
                    Bound::of(self.index.width(), high_key.view())
                        .is_some_and(|b| b.is_below(target.key, target.tid))
                })
            } else {
                is_below(self.index, high_key.view(), lowest, false)
            };
            if !above {
                (self.report)(NbtreeError::ItemOrder { block, item: first_key });
            }
        }
        Ok(())
    }
}

/// See [`Check::plain_entries`]; `taken` is where the high key lies.
fn plain_entries<L: Layout>(node: &Node<'_>, taken: &mut Granules) -> Option<u64> {
    let (mut before, mut dead) = (None::<Rank>, 0);
    for item in node.first()..=node.count() {
        let pointer = node.pointer(item)?;
        let (start, end) = (pointer.offset(), pointer.offset() + pointer.len());
        let is_placed = start.is_multiple_of(8)
            && usize::from(start) >= node.tuple_space().start
            && usize::from(end) <= node.tuple_space().end
            && taken.take(start, end);
        let tuple = node.tuple(item).ok()?;
        let rank = L::rank(tuple.bytes())?;
        let is_plain =
            tuple.is_plain(tuple.bytes().len()) && tuple.bytes().len() == maxalign(L::KEY_END);
        if !is_placed || !is_plain || before.is_some_and(|before| !before.is_below(rank)) {
            return None;
        }
        match pointer.state() {
            LineState::Normal => {}
            LineState::Dead => dead += 1,
            LineState::Redirect | LineState::Unused => return None,
        }
        before = Some(rank);
    }
    Some(dead)
}

/// Which eight bytes of a page belong to an item, for pages of up to 32 KiB.
struct Granules([u64; 64]);

impl Granules {
    /// Takes a range of bytes, from a multiple of eight on; false if some are taken or beyond.
    #[inline]
    fn take(&mut self, start: u16, end: u16) -> bool {
        (start / 8..end.div_ceil(8)).all(|granule| {
            let Some(word) = self.0.get_mut(usize::from(granule / 64)) else { return false };
            let bit = 1 << (granule % 64);
            let is_free = *word & bit == 0;
            *word |= bit;
            is_free
        })
    }
}

fn first_entry<P: IndexPages>(index: &Index<P>, tuple: IndexTuple<'_>) -> Option<Target> {
    Some(Target::entry(tuple.key(index.width())?, tuple.tids()?.next()?))
}

fn last_entry<P: IndexPages>(index: &Index<P>, tuple: IndexTuple<'_>) -> Option<Target> {
    Some(Target::entry(tuple.key(index.width())?, tuple.tids()?.last()?))
}

/// Whether one item is below another of its kind.
fn is_below<P: IndexPages>(
    index: &Index<P>,
    one: IndexTuple<'_>,
    other: IndexTuple<'_>,
    is_leaf: bool,
) -> bool {
    if is_leaf {
        let pair = last_entry(index, one).zip(first_entry(index, other));
        pair.is_some_and(|(one, other)| (one.key, one.tid) < (other.key, other.tid))
    } else {
        let pair = Bound::of(index.width(), one).zip(Bound::of(index.width(), other));
        pair.is_some_and(|(one, other)| one < other)
    }
}

/// The downlinks of a level from left to right.
struct Downlinks<'a, P> {
    index: &'a Index<P>,
    block: BlockNumber,
    item: u16,
    /// The high key of the page before, which is the bound of the first downlink of the next.
    before: Option<OwnedTuple>,
    steps: u32,
    limit: u32,
}

struct Downlink {
    block: BlockNumber,
    item: u16,
    child: BlockNumber,
    bound: Option<OwnedTuple>,
}

impl Downlink {
    fn not_within(&self) -> NbtreeError {
        let (block, child) = (self.block.get(), self.child.get());
        NbtreeError::ChildBounds { block, item: self.item, child }
    }
}

impl<'a, P: IndexPages> Downlinks<'a, P> {
    fn new(index: &'a Index<P>, leftmost: BlockNumber, limit: u32) -> Self {
        Self { index, block: leftmost, item: 0, before: None, steps: 0, limit }
    }

    fn next(&mut self) -> Result<Option<Downlink>, P> {
        loop {
            let page = self.index.latch_read(self.block)?;
            let node = Node::parse(&page, self.block)?;
            let first = node.first();
            let item = self.item.max(first - 1) + 1;
            if item <= node.count() && !node.flags().is_ignored() {
                self.item = item;
                let tuple = node.tuple(item)?;
                let bound = if item == first {
                    self.before
                } else {
                    OwnedTuple::pivot(tuple, tuple.tid().block)
                };
                let child = tuple.tid().block;
                return Ok(Some(Downlink { block: self.block, item, child, bound }));
            }
            let Some(next) = node.special().next() else { return Ok(None) };
            self.steps += 1;
            if self.steps > self.limit {
                return Err(NbtreeError::Cycle { block: self.block.get() }.into());
            }
            if !node.flags().is_ignored() {
                self.before = OwnedTuple::pivot(node.tuple(1)?, self.block);
            }
            (self.block, self.item) = (next, 0);
        }
    }
}
