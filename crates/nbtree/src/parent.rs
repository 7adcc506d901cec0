//! The second step of a split: the new page gets its downlink.
//!
//! ```text
//! parent  | k → A | …         1  A is split: A's right half is B, which only A leads to;
//!             ↓                  the flag INCOMPLETE_SPLIT of A says so
//! level   | A | ⇄ | B |       2  | k → A | m → B | …, where m is A's high key; the flag goes
//! ```
//! A parent without room is split the same way, and that one change ends the split below it. Whoever
//! comes by to change something and finds the flag takes the second step first.
//!
//! Source: `nbtinsert.c`, `_bt_insert_parent`, `_bt_newlevel`, `_bt_finish_split` (REL_18).
use pgtoast_base::BlockNumber;

use crate::descent::{Path, Steps, expect_level};
use crate::error::NbtreeError;
use crate::index::{Index, Latched, Result};
use crate::log::Action;
use crate::meta::Meta;
use crate::node::{Node, unexpected};
use crate::packer::{Packer, insert_item, special_mut};
use crate::pages::IndexPages;
use crate::special::{NodeFlags, Special};
use crate::sync::mutated;
use crate::tuple::OwnedTuple;

impl<P: IndexPages> Index<P> {
    /// Puts a tuple on a page, at an item, and splits the page if there is no room. `child` is the left
    /// page of the split that the tuple, a downlink then, ends.
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
            self.add((block, page), item, tuple);
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
        let action = Action::InsertUpper { tuple_len: tuple.short_len(), with_meta };
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

/// Marks a split as ended.
pub(crate) fn end_split(left: &mut [u8]) {
    let special = special_mut(left);
    special.set_flags(special.flags().difference(NodeFlags::INCOMPLETE_SPLIT));
}
