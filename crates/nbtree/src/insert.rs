//! Putting entries in, and what that does to the pages above.
//!
//! A page without room is split in two steps: first its right half becomes a page of its own, which
//! the link to the right leads to at once, and then that page gets a downlink. The flag
//! [`NodeFlags::INCOMPLETE_SPLIT`] on the left half says that the second step is to come; whoever
//! comes by to change something and finds it takes that step first.
//!
//! Source: `nbtinsert.c` (REL_18).
use pgtoast_base::{BlockNumber, ItemPointer};
use pgtoast_page::{PageHeader, PageMut};

use crate::error::{IndexError, NbtreeError};
use crate::index::{Index, Path, Result, Step, Steps, expect_level, unexpected};
use crate::key::Key;
use crate::log::Action;
use crate::meta::Meta;
use crate::node::{self, Node, Packer, Target, insert_item, item_number, special_mut};
use crate::pages::IndexPages;
use crate::special::{NodeFlags, Special};
use crate::sync::mutated;
use crate::tuple::{IndexTuple, OwnedTuple};

/// What became of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Insertion {
    /// The entry is in.
    Done,
    /// The row at that tid has the key; nothing was changed.
    Duplicate(ItemPointer),
}

/// A latched page and its number.
pub(crate) type Latched<'a, P> = (BlockNumber, <P as IndexPages>::Write<'a>);

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
        let tuple = OwnedTuple::leaf(self.width(), key, tid);
        let target = Target::entry(key, tid);
        if let Some(block) = self.rightmost.get()
            && let Some(mut page) = self.pages().try_write(block).map_err(IndexError::Storage)?
            && let Ok(node) = Node::parse(&page, block)
            && is_last_leaf(&node, tuple.len())
            && node.lower_bound(self.width(), key)? > 1
        {
            let item = match self.place(&node, target, &mut conflicts)? {
                Place::Here(item) | Place::Beyond(item) => item,
                Place::Duplicate(tid) => return Ok(Insertion::Duplicate(tid)),
            };
            self.add(&mut page, block, item, &tuple);
            return Ok(Insertion::Done);
        }
        self.insert_by_search(target, &tuple, conflicts)
    }

    fn insert_by_search(
        &self,
        target: Target,
        tuple: &OwnedTuple,
        mut conflicts: impl FnMut(ItemPointer) -> bool,
    ) -> Result<Insertion, P> {
        let mut path = Path::new();
        // Without the tid: where the first entry of the key would be.
        let (mut block, mut page) = self.leaf_to_change(Target::first_of(target.key), &mut path)?;
        let item = loop {
            let node = Node::parse(&page, block)?;
            match self.place(&node, target, &mut conflicts)? {
                Place::Duplicate(tid) => return Ok(Insertion::Duplicate(tid)),
                Place::Here(item) => {
                    if let Some(tid) = self.conflict_to_the_right(&node, target, &mut conflicts)? {
                        return Ok(Insertion::Duplicate(tid));
                    }
                    break item;
                }
                Place::Beyond(_) => {
                    (block, page) = self.right_of(block, page, &mut path)?;
                }
            }
        };
        let node = Node::parse(&page, block)?;
        if node.fits(tuple.len()) {
            if node.is_rightmost() {
                self.rightmost.set(block);
            }
            self.add(&mut page, block, item, tuple);
            return Ok(Insertion::Done);
        }
        let item = match self.delete_dead(block, &mut page)? {
            // The items before it that are gone are not counted; finding its place again is simpler.
            true => match self.place(&Node::parse(&page, block)?, target, &mut |_| false)? {
                Place::Here(item) | Place::Beyond(item) => item,
                Place::Duplicate(tid) => return Ok(Insertion::Duplicate(tid)),
            },
            false => item,
        };
        self.insert_on_page((block, page), item, tuple, None, false, &mut path)?;
        Ok(Insertion::Done)
    }

    /// Writes a leaf tuple where there is room for it.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_LEN")]
    fn add<'a>(
        &'a self,
        page: &mut P::Write<'a>,
        block: BlockNumber,
        item: u16,
        tuple: &OwnedTuple,
    ) {
        insert_item(page, item, tuple.bytes());
        let action = Action::InsertLeaf { tuple_len: tuple.len() as u16 };
        self.pages().log(&action, &mut [(block, page)]);
    }

    /// Where on this leaf an entry belongs.
    #[inline]
    fn place(
        &self,
        node: &Node<'_>,
        target: Target,
        conflicts: &mut impl FnMut(ItemPointer) -> bool,
    ) -> core::result::Result<Place, NbtreeError> {
        let mut item = node.lower_bound(self.width(), target.key)?;
        let mut place = None;
        while item <= node.count() && node.key(self.width(), item)? == target.key {
            let here = NbtreeError::ItemOutside { block: node.block().get(), item };
            let (mut below, mut above) = (false, false);
            for tid in node.tuple(item)?.tids().ok_or(here)? {
                if !node.is_dead(item) && conflicts(tid) {
                    return Ok(Place::Duplicate(tid));
                }
                below |= Some(tid) < target.tid;
                above |= Some(tid) >= target.tid;
            }
            if below && above {
                return Err(NbtreeError::PostingList { block: node.block().get(), item });
            }
            if above && place.is_none() {
                place = Some(item);
            }
            item += 1;
        }
        let item = place.unwrap_or(item);
        // Only what belongs behind everything here can belong to another page.
        if item > node.count() && node.is_beyond(self.width(), target)? {
            return Ok(Place::Beyond(item));
        }
        Ok(Place::Here(item))
    }

    /// Looks at rows of the same key on pages to the right, where there can be some.
    fn conflict_to_the_right(
        &self,
        node: &Node<'_>,
        target: Target,
        conflicts: &mut impl FnMut(ItemPointer) -> bool,
    ) -> Result<Option<ItemPointer>, P> {
        if node.is_rightmost() || !self.is_cut_at(node, target.key)? {
            return Ok(None);
        }
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
                if node.key(self.width(), item)? != target.key {
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
            if node.is_rightmost() || !self.is_cut_at(&node, target.key)? {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Whether a leaf's high key cuts between entries of that key.
    fn is_cut_at(&self, node: &Node<'_>, key: Key) -> core::result::Result<bool, NbtreeError> {
        let high_key = node.tuple(1)?;
        Ok(high_key.pivot_tid().is_some() && high_key.key(self.width()) == Some(key))
    }

    /// Latches the leaf where something belongs, to change it. Ends splits on the way, and makes the
    /// first leaf if there is none.
    pub(crate) fn leaf_to_change(
        &self,
        target: Target,
        path: &mut Path,
    ) -> Result<Latched<'_, P>, P> {
        let mut start = self.meta()?.fast_root();
        if start.is_none() {
            start = Some((self.first_leaf()?, 0));
        }
        let (mut block, mut level) = start.unwrap_or((Meta::BLOCK, 0));
        let mut steps = Steps::default();
        while level > 0 {
            let page = self.latch_read(block)?;
            let node = Node::parse(&page, block)?;
            if node.flags().contains(NodeFlags::INCOMPLETE_SPLIT) && !node.flags().is_ignored() {
                drop(page);
                steps.right(self.pages(), block)?;
                let page = self.latch_write(block)?;
                self.end_split_if_any((block, page), path)?;
                continue;
            }
            match self.step(&page, block, level, target)? {
                Step::Here => return Err(unexpected(&node).into()),
                Step::Right(next) => {
                    steps.right(self.pages(), block)?;
                    block = next;
                }
                Step::Down(child, item) => {
                    path.push(block, item)?;
                    block = child;
                    level -= 1;
                }
            }
        }
        let mut page = self.latch_write(block)?;
        loop {
            let node = Node::parse(&page, block)?;
            let flags = node.flags();
            let may_stay = !flags.is_ignored() || mutated!(IgnoreHalfDead);
            if flags.contains(NodeFlags::INCOMPLETE_SPLIT) && !flags.is_ignored() {
                steps.right(self.pages(), block)?;
                self.end_split_if_any((block, page), path)?;
                page = self.latch_write(block)?;
                continue;
            }
            if may_stay && (!node.is_beyond(self.width(), target)? || mutated!(NoMoveRight)) {
                expect_level(&node, 0)?;
                return Ok((block, page));
            }
            let next = node.special().next().ok_or(unexpected(&node))?;
            steps.right(self.pages(), block)?;
            drop(page);
            block = next;
            page = self.latch_write(block)?;
        }
    }

    /// The page to the right, in exchange for one that is latched; splits found there are ended.
    fn right_of<'a>(
        &'a self,
        block: BlockNumber,
        page: P::Write<'a>,
        path: &mut Path,
    ) -> Result<Latched<'a, P>, P> {
        let mut steps = Steps::default();
        let (mut block, mut page) = (block, page);
        let mut move_on = true;
        loop {
            if move_on {
                let node = Node::parse(&page, block)?;
                let next = node.special().next().ok_or(unexpected(&node))?;
                steps.right(self.pages(), block)?;
                if next == block {
                    return Err(NbtreeError::Cycle { block: block.get() }.into());
                }
                // The new latch is taken before the old one is let go: an entry with the same key must
                // not slip in behind the check.
                page = self.latch_write(next)?;
                block = next;
            }
            let node = Node::parse(&page, block)?;
            let flags = node.flags();
            move_on = flags.is_ignored();
            if move_on {
                continue;
            }
            if !flags.contains(NodeFlags::INCOMPLETE_SPLIT) {
                expect_level(&node, 0)?;
                return Ok((block, page));
            }
            steps.right(self.pages(), block)?;
            self.end_split_if_any((block, page), path)?;
            page = self.latch_write(block)?;
        }
    }

    /// Makes the first leaf, unless someone else just did: its block.
    fn first_leaf(&self) -> Result<BlockNumber, P> {
        let mut meta_page = self.latch_write(Meta::BLOCK)?;
        let mut meta = Meta::parse(&meta_page)?;
        if let Some((root, level)) = meta.fast_root() {
            // It may have been split too; a new start finds that out.
            return match level {
                0 => Ok(root),
                _ => {
                    drop(meta_page);
                    self.leftmost(0)
                }
            };
        }
        let (block, mut page) = self.allocate()?;
        let flags = NodeFlags::LEAF | NodeFlags::ROOT;
        node::init(&mut page, self.pages().block_size(), Special::new(None, None, 0, flags));
        meta.set_root(block, 0);
        meta.store(&mut meta_page);
        let pages = &mut [(block, &mut page), (Meta::BLOCK, &mut meta_page)];
        self.pages().log(&Action::NewRoot { items_len: 0 }, pages);
        Ok(block)
    }

    /// A page that nobody uses, latched; its contents are whatever they are.
    pub(crate) fn allocate(&self) -> Result<Latched<'_, P>, P> {
        while let Some(block) = self.pages().take_free() {
            // Somebody may still be led there, and have it latched for a moment.
            let Some(page) = self.pages().try_write(block).map_err(IndexError::Storage)? else {
                continue;
            };
            if self.may_be_used(block, &page) {
                return Ok((block, page));
            }
        }
        self.pages().extend().map_err(IndexError::Storage)
    }

    /// Whether a page was never used, or left the tree so long ago that nobody is led to it any more.
    pub(crate) fn may_be_used(&self, block: BlockNumber, page: &[u8]) -> bool {
        match Node::parse(page, block) {
            Ok(node) if node.flags().contains(NodeFlags::DELETED) => {
                let xid = page.get(PageHeader::LEN..).and_then(|rest| rest.first_chunk());
                let xid = u64::from_le_bytes(xid.copied().unwrap_or_default());
                // Releases before 14 kept 32 bits elsewhere; those pages wait for a rebuild.
                let known = node.flags().contains(NodeFlags::HAS_FULLXID);
                (known && self.pages().is_past(xid)) || mutated!(ReuseAtOnce)
            }
            Ok(_) => false,
            Err(_) => page.iter().all(|byte| *byte == 0),
        }
    }

    /// Deletes the entries of a leaf that are marked dead; whether there were any.
    #[expect(clippy::cast_possible_truncation, reason = "as many as line pointers")]
    fn delete_dead<'a>(&'a self, block: BlockNumber, page: &mut P::Write<'a>) -> Result<bool, P> {
        let node = Node::parse(page, block)?;
        let first = node.first();
        if !(first..=node.count()).any(|item| node.is_dead(item)) {
            return Ok(false);
        }
        let dead: alloc::vec::Vec<_> =
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

    /// Puts a tuple on a page, at an item, and splits the page if there is no room. `child` is the left
    /// page of the split that the tuple, a downlink then, ends.
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_LEN")]
    pub(crate) fn insert_on_page<'a>(
        &'a self,
        (block, mut page): Latched<'a, P>,
        item: u16,
        tuple: &OwnedTuple,
        child: Option<Latched<'a, P>>,
        child_was_alone: bool,
        path: &mut Path,
    ) -> Result<(), P> {
        let node = Node::parse(&page, block)?;
        if !node.fits(tuple.len()) {
            return self.split((block, page), item, tuple, child, path);
        }
        let (level, is_last_leaf) = (node.special().level(), node.is_leaf() && node.is_rightmost());
        if is_last_leaf {
            self.rightmost.set(block);
        }
        let Some((left, mut left_page)) = child else {
            self.add(&mut page, block, item, tuple);
            return Ok(());
        };
        // The page that was split below was alone on its level and yet not the root: searches may have
        // started at it, and have to start here from now on.
        let mut meta_page = None;
        if child_was_alone {
            let latched = self.latch_write(Meta::BLOCK)?;
            let meta = Meta::parse(&latched)?;
            if meta.fast_root().is_none_or(|(_, fast)| fast < level) {
                meta_page = Some((meta, latched));
            }
        }
        insert_item(&mut page, item, tuple.bytes());
        end_split(&mut left_page);
        let with_meta = meta_page.is_some();
        let action = Action::InsertUpper { tuple_len: tuple.len() as u16, with_meta };
        match &mut meta_page {
            Some((meta, meta_page)) => {
                meta.set_fast_root(block, level);
                meta.store(meta_page);
                let pages =
                    &mut [(block, &mut page), (left, &mut left_page), (Meta::BLOCK, meta_page)];
                self.pages().log(&action, pages);
            }
            None => self.pages().log(&action, &mut [(block, &mut page), (left, &mut left_page)]),
        }
        Ok(())
    }

    /// Gives the right page of a split its downlink.
    pub(crate) fn insert_into_parent<'a>(
        &'a self,
        left: Latched<'a, P>,
        right: Latched<'a, P>,
        was_root: bool,
        was_alone: bool,
        path: &mut Path,
    ) -> Result<(), P> {
        let node = Node::parse(&left.1, left.0)?;
        let level = node.special().level();
        let high_key = node.tuple(1)?;
        let bad_high_key = NbtreeError::ItemColumns {
            block: left.0.get(),
            item: 1,
            found: high_key.pivot_columns(),
        };
        let downlink = OwnedTuple::pivot(high_key, right.0).ok_or(bad_high_key)?;
        if was_root {
            return self.new_root(left, right, &downlink, level + 1);
        }
        let (parent, item) = if mutated!(TrustRememberedParent) {
            let (block, item) = path.pop().unwrap_or((Meta::BLOCK, 0));
            ((block, self.latch_write(block)?), item)
        } else {
            path.hold(left.0)?;
            path.hold(right.0)?;
            let parent = self.parent_of(left.0, level, path)?;
            path.release(2);
            parent
        };
        // Whoever splits the right page next waits for the same parent.
        drop(right);
        self.insert_on_page(parent, item + 1, &downlink, Some(left), was_alone, path)
    }

    /// A root above two pages.
    #[expect(clippy::cast_possible_truncation, reason = "two tuples")]
    fn new_root<'a>(
        &'a self,
        (left, mut left_page): Latched<'a, P>,
        right: Latched<'a, P>,
        downlink: &OwnedTuple,
        level: u32,
    ) -> Result<(), P> {
        let (root, mut page) = self.allocate()?;
        let latched = self.latch_write(Meta::BLOCK).and_then(|meta_page| {
            let meta = Meta::parse(&meta_page)?;
            Ok((meta, meta_page))
        });
        let (mut meta, mut meta_page) = match latched {
            Ok(latched) => latched,
            Err(error) => {
                self.give_back(root, page);
                return Err(error);
            }
        };
        let special = Special::new(None, None, level, NodeFlags::ROOT);
        let lowest = OwnedTuple::minus_infinity(left);
        let mut packer = Packer::new(&mut page, self.pages().block_size(), special);
        // A page has room for two entries.
        let packed = packer.push(lowest.bytes()).and_then(|()| packer.push(downlink.bytes()));
        packer.finish();
        debug_assert!(packed.is_some());
        meta.set_root(root, level);
        meta.store(&mut meta_page);
        end_split(&mut left_page);
        let action = Action::NewRoot { items_len: (lowest.len() + downlink.len()) as u16 };
        let pages = &mut [(root, &mut page), (left, &mut left_page), (Meta::BLOCK, &mut meta_page)];
        self.pages().log(&action, pages);
        drop(right);
        Ok(())
    }

    /// A page that was allocated and is not needed: as if it never was.
    pub(crate) fn give_back<'a>(&'a self, block: BlockNumber, mut page: P::Write<'a>) {
        page.fill(0);
        drop(page);
        self.pages().put_free(block);
    }

    /// Latches the page that has the downlink to a block of `level`: it, and the item.
    pub(crate) fn parent_of(
        &self,
        child: BlockNumber,
        level: u32,
        path: &mut Path,
    ) -> Result<(Latched<'_, P>, u16), P> {
        // A path may start below what is the root by now.
        let (mut block, mut hint) = match path.pop() {
            Some(step) => step,
            None => (self.leftmost(level + 1)?, 0),
        };
        let mut steps = Steps::default();
        loop {
            path.expect_free(block)?;
            let page = self.latch_write(block)?;
            let node = Node::parse(&page, block)?;
            let flags = node.flags();
            let missing = NbtreeError::DownlinkMissing { block: block.get(), child: child.get() };
            if !flags.is_ignored() {
                if flags.contains(NodeFlags::INCOMPLETE_SPLIT) {
                    steps.right(self.pages(), block)?;
                    self.end_split_if_any((block, page), path)?;
                    continue;
                }
                expect_level(&node, level + 1)?;
                // Entries are inserted more often than deleted, so it is here or further right.
                let first = node.first();
                let from = hint.clamp(first, node.count().max(first));
                let found = (from..=node.count())
                    .chain((first..from).rev())
                    .find(|item| node.child(*item) == Ok(child));
                if let Some(item) = found {
                    return Ok(((block, page), item));
                }
            }
            steps.right(self.pages(), block)?;
            block = node.special().next().ok_or(missing)?;
            hint = 0;
        }
    }

    /// Takes the second step of a page's split, if that is still to come.
    pub(crate) fn end_split_if_any<'a>(
        &'a self,
        (block, page): Latched<'a, P>,
        path: &mut Path,
    ) -> Result<(), P> {
        let node = Node::parse(&page, block)?;
        if !node.flags().contains(NodeFlags::INCOMPLETE_SPLIT) {
            return Ok(());
        }
        let missing = unexpected(&node);
        let next = node.special().next().ok_or(missing)?;
        path.expect_free(next)?;
        if next == block {
            return Err(NbtreeError::Cycle { block: block.get() }.into());
        }
        let is_leftmost = node.special().prev().is_none();
        let right = self.latch_write(next)?;
        let right_node = Node::parse(&right, next)?;
        let was_alone = is_leftmost && right_node.is_rightmost();
        // The path is that of a search which may have come from further left.
        let was_root = self.meta()?.root().is_some_and(|(root, _)| root == block);
        let mut to_parent = path.clone();
        self.insert_into_parent((block, page), (next, right), was_root, was_alone, &mut to_parent)
    }
}

/// Where an entry belongs.
enum Place {
    /// On this leaf, as that item.
    Here(u16),
    /// On a leaf further right; behind that item if it were here.
    Beyond(u16),
    /// Nowhere: a row of that key is alive.
    Duplicate(ItemPointer),
}

/// Whether a page is the last leaf, and what is above its first entry can be put there at once.
#[inline]
fn is_last_leaf(node: &Node<'_>, len: usize) -> bool {
    let flags = node.flags();
    let other = NodeFlags::DELETED | NodeFlags::HALF_DEAD | NodeFlags::INCOMPLETE_SPLIT;
    (node.is_leaf()
        && node.is_rightmost()
        && !flags.intersects(other)
        && node.count() > 0
        && node.fits(len))
        || mutated!(TrustHint)
}

/// Marks a split as ended.
pub(crate) fn end_split(left: &mut [u8]) {
    let special = special_mut(left);
    special.set_flags(special.flags().difference(NodeFlags::INCOMPLETE_SPLIT));
}

/// The first entry of the right page of a split of inner pages: its downlink, and no key.
pub(crate) fn without_key(tuple: IndexTuple<'_>) -> OwnedTuple {
    OwnedTuple::minus_infinity(tuple.tid().block)
}
