//! Putting entries in.
//!
//! An entry goes to the first leaf that its key can be on, or further right among rows of the same key,
//! which lie in order of their tids. Ids grow, so most go to the last leaf, which is remembered. A leaf
//! without room gives up its dead entries, and is split when there are none.
//!
//! Source: `nbtinsert.c`, `_bt_doinsert`, `_bt_check_unique`, `_bt_findinsertloc` (REL_18).
use alloc::vec::Vec;

use pgtoast_base::{BlockNumber, ItemPointer};
use pgtoast_page::PageMut;

use crate::descent::{Path, Place, Steps};
use crate::error::{IndexError, NbtreeError};
use crate::index::{Index, Latched, Result};
use crate::key::{Key, KeyWidth, Layout, Oid8Layout, OidLayout};
use crate::log::Action;
use crate::node::{Node, Target, item_number};
use crate::packer::{insert_item, special_mut};
use crate::pages::IndexPages;
use crate::seek::{Search, Way};
use crate::special::NodeFlags;
use crate::sync::mutated;
use crate::tuple::OwnedTuple;

/// What became of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Insertion {
    /// The entry is in.
    Done,
    /// The row at that tid has the key; nothing was changed.
    Duplicate(ItemPointer),
}

impl<P: IndexPages> Index<P> {
    /// Inserts an entry, unless there is one of that key.
    ///
    /// # Errors
    /// [`NbtreeError::IdTooWide`], what is wrong with the pages on the way, the storage's own. If a leaf
    /// was split and the downlink to its new half could not be made, the entry is in for all that: the
    /// next insert that comes by makes the downlink.
    pub fn insert(&self, key: Key, tid: ItemPointer) -> Result<Insertion, P> {
        self.insert_unless(key, tid, |_| true)
    }

    /// Inserts an entry, unless `conflicts` says of the row of another entry with that key that it
    /// is alive. A leaf is latched meanwhile: `conflicts` must not wait.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn insert_unless(
        &self,
        key: Key,
        tid: ItemPointer,
        mut conflicts: impl FnMut(ItemPointer) -> bool,
    ) -> Result<Insertion, P> {
        if key.chunk_id.get() > self.width().highest_id() {
            return Err(NbtreeError::IdTooWide { id: key.chunk_id.get() }.into());
        }
        match self.width() {
            KeyWidth::Oid => self.insert_in::<OidLayout>(key, tid, &mut conflicts),
            KeyWidth::Oid8 => self.insert_in::<Oid8Layout>(key, tid, &mut conflicts),
        }
    }

    #[inline(always)]
    fn insert_in<L: Layout>(
        &self,
        key: Key,
        tid: ItemPointer,
        conflicts: &mut impl FnMut(ItemPointer) -> bool,
    ) -> Result<Insertion, P> {
        let tuple = OwnedTuple::leaf(self.width(), key, tid);
        // Without the tid: where the first entry of the key would be.
        let mut search = Search::<L>::of_new(Target::first_of(key));
        if let Some((leaf, place)) = self.last_leaf(&mut search, tuple.len())? {
            match self.spot(&leaf, &place, key, tid, conflicts)? {
                Spot::Taken(tid) => return Ok(Insertion::Duplicate(tid)),
                Spot::Here(item) | Spot::Last(item) => {
                    self.add(leaf, item, &tuple);
                    return Ok(Insertion::Done);
                }
                Spot::Beyond => {}
            }
        }
        self.insert_by_search(search, tid, &tuple, conflicts)
    }

    fn insert_by_search<L: Layout>(
        &self,
        mut search: Search<L>,
        tid: ItemPointer,
        tuple: &OwnedTuple,
        conflicts: &mut impl FnMut(ItemPointer) -> bool,
    ) -> Result<Insertion, P> {
        let mut path = Path::new();
        let (mut leaf, mut place) = self.leaf_to_change(&mut search, tuple.len(), &mut path)?;
        let item = loop {
            match self.spot(&leaf, &place, search.key(), tid, conflicts)? {
                Spot::Taken(tid) => return Ok(Insertion::Duplicate(tid)),
                Spot::Here(item) => break item,
                Spot::Last(item) => {
                    let node = Node::parse(&leaf.1, leaf.0)?;
                    match self.conflict_to_the_right(&node, search.key(), conflicts)? {
                        Some(tid) => return Ok(Insertion::Duplicate(tid)),
                        None => break item,
                    }
                }
                Spot::Beyond => {
                    leaf = self.right_of(leaf, &mut path)?;
                    search.turn();
                    let node = Node::parse(&leaf.1, leaf.0)?;
                    let way = node.way(&mut search)?;
                    place = Place::of(&node, &search, way, tuple.len());
                }
            }
        };
        if place.fits {
            if place.is_rightmost {
                self.rightmost.set(leaf.0);
            }
            self.add(leaf, item, tuple);
        } else {
            self.insert_on_full_leaf(leaf, item, search, tid, tuple, &mut path)?;
        }
        Ok(Insertion::Done)
    }

    #[cold]
    fn insert_on_full_leaf<'a, L: Layout>(
        &'a self,
        (block, mut page): Latched<'a, P>,
        mut item: u16,
        mut search: Search<L>,
        tid: ItemPointer,
        tuple: &OwnedTuple,
        path: &mut Path,
    ) -> Result<(), P> {
        if self.delete_dead(block, &mut page)? {
            // Those before it that are gone do not count any more; finding the spot again is simpler.
            let leaf = (block, page);
            let node = Node::parse(&leaf.1, block)?;
            let way = node.way(&mut search)?;
            let place = Place::of(&node, &search, way, tuple.len());
            let spot = self.spot(&leaf, &place, search.key(), tid, &mut |_| false)?;
            if let Spot::Here(again) | Spot::Last(again) = spot {
                item = again;
            }
            page = leaf.1;
        }
        self.insert_on_page((block, page), item, tuple, None, false, path)
    }

    /// Puts a tuple on a leaf that has room for it.
    #[inline]
    pub(crate) fn add<'a>(
        &'a self,
        (block, mut page): Latched<'a, P>,
        item: u16,
        tuple: &OwnedTuple,
    ) {
        insert_item(&mut page, item, tuple.bytes());
        let action = Action::InsertLeaf { tuple_len: tuple.short_len() };
        self.pages().log(&action, &mut [(block, &mut page)]);
    }

    /// Latches the leaf that the last ascending insert went to, to change it, if it is still the last
    /// one, begins below what is looked for and has room for so many bytes; finds the place there.
    #[inline]
    fn last_leaf<L: Layout>(
        &self,
        search: &mut Search<L>,
        len: usize,
    ) -> Result<Option<(Latched<'_, P>, Place)>, P> {
        let Some(block) = self.rightmost.get() else { return Ok(None) };
        let page = self.pages().try_write(block).map_err(IndexError::Storage)?;
        let Some(page) = page else { return Ok(None) };
        let Some(node) = Node::of(&page, block) else { return Ok(None) };
        let out = NodeFlags::DELETED | NodeFlags::HALF_DEAD | NodeFlags::INCOMPLETE_SPLIT;
        let is_last = node.is_leaf() && node.is_rightmost() && !node.flags().intersects(out);
        let begins_below = is_last && node.begins_below(search);
        if !begins_below {
            // Inserts do not ascend any more, so the next one will hardly belong there either.
            self.rightmost.clear();
        }
        let is_it = begins_below && node.fits(len);
        if !is_it && !mutated!(TrustHint) {
            return Ok(None);
        }
        let way = node.way(search)?;
        let place = Place::of(&node, search, way, len);
        Ok(Some(((block, page), place)))
    }

    /// Where on this leaf an entry belongs: behind what a search for its key came to, among rows of
    /// that key in order of their tids.
    #[inline(always)]
    fn spot(
        &self,
        leaf: &Latched<'_, P>,
        place: &Place,
        key: Key,
        tid: ItemPointer,
        conflicts: &mut impl FnMut(ItemPointer) -> bool,
    ) -> core::result::Result<Spot, NbtreeError> {
        match place.way {
            Way::Item(item) if place.is_free => Ok(Spot::Here(item)),
            Way::Item(item) => {
                let node = Node::parse(&leaf.1, leaf.0)?;
                self.spot_among_rows(&node, item, key, tid, conflicts)
            }
            Way::Beyond if mutated!(TrustHint) => {
                Ok(Spot::Here(Node::parse(&leaf.1, leaf.0)?.count() + 1))
            }
            Way::Beyond => Ok(Spot::Beyond),
        }
    }

    /// The same, from the first row of that key on.
    #[cold]
    fn spot_among_rows(
        &self,
        node: &Node<'_>,
        mut item: u16,
        key: Key,
        tid: ItemPointer,
        conflicts: &mut impl FnMut(ItemPointer) -> bool,
    ) -> core::result::Result<Spot, NbtreeError> {
        let mut spot = None;
        while item <= node.count() && node.key(self.width(), item)? == key {
            let here = NbtreeError::ItemOutside { block: node.block().get(), item };
            let (mut is_below, mut is_above) = (false, false);
            for other in node.tuple(item)?.tids().ok_or(here)? {
                if !node.is_dead(item) && conflicts(other) {
                    return Ok(Spot::Taken(other));
                }
                is_below |= other < tid;
                is_above |= other >= tid;
            }
            if is_below && is_above {
                return Err(NbtreeError::PostingList { block: node.block().get(), item });
            }
            if is_above && spot.is_none() {
                spot = Some(item);
            }
            item += 1;
        }
        if item <= node.count() {
            return Ok(Spot::Here(spot.unwrap_or(item)));
        }
        let item = spot.unwrap_or(item);
        // Only what belongs behind everything here can belong to another page.
        let entry = Target::entry(key, tid);
        if item > node.count() && node.is_beyond(self.width(), entry)? {
            return Ok(Spot::Beyond);
        }
        Ok(Spot::Last(item))
    }

    /// Looks at rows of the same key on pages to the right, where there can be some.
    #[inline]
    fn conflict_to_the_right(
        &self,
        node: &Node<'_>,
        key: Key,
        conflicts: &mut impl FnMut(ItemPointer) -> bool,
    ) -> Result<Option<ItemPointer>, P> {
        if node.is_rightmost() || !self.is_cut_at(node, key)? {
            return Ok(None);
        }
        self.conflict_on_pages_to_the_right(node, key, conflicts)
    }

    #[cold]
    fn conflict_on_pages_to_the_right(
        &self,
        node: &Node<'_>,
        key: Key,
        conflicts: &mut impl FnMut(ItemPointer) -> bool,
    ) -> Result<Option<ItemPointer>, P> {
        let mut steps = Steps::default();
        let (held, mut next) = (node.block(), node.special().next());
        while let Some(block) = next {
            steps.right(self.pages(), block)?;
            if block == held {
                return Err(NbtreeError::Cycle { block: block.get() }.into());
            }
            let page = self.latch_read(block)?;
            let node = Node::parse(&page, block)?;
            next = node.special().next();
            if node.flags().is_ignored() {
                continue;
            }
            for item in node.first()..=node.count() {
                if node.key(self.width(), item)? != key {
                    return Ok(None);
                }
                let here = NbtreeError::ItemOutside { block: block.get(), item };
                let mut tids = node.tuple(item)?.tids().ok_or(here)?;
                if !node.is_dead(item)
                    && let Some(tid) = tids.find(|tid| conflicts(*tid))
                {
                    return Ok(Some(tid));
                }
            }
            if node.is_rightmost() || !self.is_cut_at(&node, key)? {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Whether a leaf's high key cuts between entries of that key.
    #[inline]
    fn is_cut_at(&self, node: &Node<'_>, key: Key) -> core::result::Result<bool, NbtreeError> {
        let high_key = node.tuple(1)?;
        Ok(high_key.pivot_tid().is_some() && high_key.key(self.width()) == Some(key))
    }

    /// Deletes the entries of a leaf that are marked dead; whether there were any.
    #[expect(clippy::cast_possible_truncation, reason = "as many as line pointers")]
    fn delete_dead<'a>(&'a self, block: BlockNumber, page: &mut P::Write<'a>) -> Result<bool, P> {
        let node = Node::parse(page, block)?;
        let first = node.first();
        if !(first..=node.count()).any(|item| node.is_dead(item)) {
            return Ok(false);
        }
        let dead: Vec<_> =
            (first..=node.count()).filter(|item| node.is_dead(*item)).map(item_number).collect();
        let error = |error| NbtreeError::Page { block: block.get(), error };
        let block_size = self.pages().block_size();
        let mut view = PageMut::open(page, block_size).map_err(error)?;
        view.delete_items(&dead).map_err(error)?;
        let special = special_mut(page);
        special.set_flags(special.flags().difference(NodeFlags::HAS_GARBAGE));
        let action = Action::Delete { count: dead.len() as u16 };
        self.pages().log(&action, &mut [(block, page)]);
        Ok(true)
    }
}

/// Where an entry belongs.
enum Spot {
    /// On this leaf, as that item; rows of the key, if there are any, end there.
    Here(u16),
    /// On this leaf, as that item; pages to the right may have more rows of the key.
    Last(u16),
    /// On a leaf further right.
    Beyond,
    /// Nowhere: the row at that tid has the key and is alive.
    Taken(ItemPointer),
}
