//! Taking out the entries of rows that are gone, and the pages that become empty.
//!
//! A page leaves the tree in two steps. First its downlink is made to lead to the page on its right,
//! whose own downlink goes: the page is half dead, and what belongs there belongs to its neighbour from
//! now on. Then its neighbours are linked to each other.
//!
//! ```text
//! parent   | k → A | m → B | q → C |        | k → A | m → C |             | k → A | m → C |
//! leaves   A ⇄ B (empty) ⇄ C          1     A ⇄ B (half dead) ⇄ C    2    A ⇄ C     B: links as before
//! ```
//! A search that was on its way to B finds it out of the tree and follows its link to C; so B must stay
//! as it is until every such search has ended. If B was the only child of its parent, the parent goes
//! with it, and so on upwards: the branch is unlinked from its top down to the leaf, whose high key
//! says meanwhile where the top of the rest is. The last page of a level never goes.
//!
//! The server visits leaves in the order of their blocks, and marks splits so that it can go back for
//! what they moved. Here they are visited from left to right, which needs no such marks: what is there at
//! the beginning only ever moves to the right.
//!
//! Source: `nbtree.c`, `nbtpage.c` (REL_18).
use alloc::vec::Vec;

use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber};
use pgtoast_page::{PageError, PageHeader, PageMut};

use crate::descent::{Path, Steps, expect_level};
use crate::error::{IndexError, NbtreeError};
use crate::index::{Index, Latched, Result};
use crate::log::Action;
use crate::meta::Meta;
use crate::node::{Node, item_number, unexpected};
use crate::packer::{Packer, special_mut};
use crate::pages::IndexPages;
use crate::special::{NodeFlags, Special};
use crate::sync::mutated;
use crate::tuple::{Bound, OwnedTuple, with_tids};

/// What a vacuum did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumReport {
    /// Tids taken out.
    pub deleted_tids: u64,
    /// Tids left in.
    pub left_tids: u64,
    /// Pages that left the tree just now.
    pub deleted_pages: u32,
    /// Pages out of the tree that are free for use.
    pub free_pages: u32,
    /// Pages out of the tree that searches may still be led to.
    pub waiting_pages: u32,
}

impl<P: IndexPages> Index<P> {
    /// Takes out every entry whose tid is among those of rows that are gone, and pages without entries
    /// out of the tree. Others may search and insert meanwhile; a second vacuum must not run. A leaf is
    /// latched while `is_gone` is asked.
    ///
    /// # Errors
    /// What is wrong with the pages; the storage's own. What was done until then stays done.
    #[doc(alias = "btbulkdelete")]
    pub fn vacuum(&self, mut is_gone: impl FnMut(ItemPointer) -> bool) -> Result<VacuumReport, P> {
        let mut report = VacuumReport::default();
        if self.meta()?.root().is_some() {
            let mut next = Some(self.leftmost(0)?);
            let mut steps = Steps::default();
            while let Some(block) = next {
                steps.right(self.pages(), block)?;
                let (is_empty, after) = self.vacuum_leaf(block, &mut is_gone, &mut report)?;
                next = after;
                if is_empty {
                    report.deleted_pages += self.delete_leaf(block)?;
                }
            }
        }
        let count = self.pages().block_count().map_err(IndexError::Storage)?;
        for block in (1..count).map(BlockNumber::new) {
            let page = self.latch_read(block)?;
            if self.may_be_used(block, &page) {
                report.free_pages += 1;
                self.pages().put_free(block);
            } else if Node::parse(&page, block)
                .is_ok_and(|node| node.flags().contains(NodeFlags::DELETED))
            {
                report.waiting_pages += 1;
            }
        }
        Ok(report)
    }

    /// Takes entries out of a leaf: whether it may leave the tree, and what is to its right.
    #[expect(clippy::cast_possible_truncation, reason = "as many as line pointers")]
    fn vacuum_leaf(
        &self,
        block: BlockNumber,
        is_gone: &mut impl FnMut(ItemPointer) -> bool,
        report: &mut VacuumReport,
    ) -> Result<(bool, Option<BlockNumber>), P> {
        let mut page = self.latch_write(block)?;
        let node = Node::parse(&page, block)?;
        let next = node.special().next();
        if node.flags().contains(NodeFlags::HALF_DEAD) {
            return Ok((true, next));
        }
        if node.flags().is_ignored() {
            return Ok((false, next));
        }
        expect_level(&node, 0)?;
        let first = node.first();
        let mut gone = Vec::new();
        let mut shortened = Vec::new();
        for item in first..=node.count() {
            let tuple = node.tuple(item)?;
            let outside = NbtreeError::ItemOutside { block: block.get(), item };
            let tids = || tuple.tids().ok_or(outside);
            if tuple.is_posting() {
                let all = tids()?.count();
                let left: Vec<_> = tids()?.filter(|tid| !is_gone(*tid)).collect();
                report.deleted_tids += (all - left.len()) as u64;
                report.left_tids += left.len() as u64;
                if left.is_empty() {
                    gone.push(item_number(item));
                } else if left.len() < all {
                    shortened.push((item, with_tids(tuple, &left).ok_or(outside)?));
                }
            } else if tids()?.any(&mut *is_gone) {
                report.deleted_tids += 1;
                gone.push(item_number(item));
            } else {
                report.left_tids += 1;
            }
        }
        let is_empty = gone.len() == usize::from(node.data_count());
        let may_go = is_empty
            && !node.is_rightmost()
            && !node.flags().intersects(NodeFlags::ROOT | NodeFlags::INCOMPLETE_SPLIT);
        if gone.is_empty() && shortened.is_empty() {
            return Ok((may_go, next));
        }
        let error = |error| NbtreeError::Page { block: block.get(), error };
        let mut view = PageMut::open(&mut page, self.pages().block_size()).map_err(error)?;
        let changed = replace_items(&mut view, &shortened);
        changed.and_then(|()| view.delete_items(&gone)).map_err(error)?;
        let special = special_mut(&mut page);
        special.set_flags(special.flags().difference(NodeFlags::HAS_GARBAGE));
        special.cycle_id.set(0);
        let action = Action::Vacuum { count: (gone.len() + shortened.len()) as u16 };
        self.pages().log(&action, &mut [(block, &mut page)]);
        Ok((may_go, next))
    }

    /// Takes an empty leaf out of the tree, with the branch that leads to it alone: how many pages.
    /// None if it cannot go: it is not empty after all, it is the last child of a page with others, or
    /// a neighbour is about to change.
    fn delete_leaf(&self, block: BlockNumber) -> Result<u32, P> {
        if !self.mark_half_dead(block)? {
            return Ok(0);
        }
        let mut count = 0;
        loop {
            // What is left of the branch is written in the leaf.
            let top = {
                let page = self.latch_read(block)?;
                let node = Node::parse(&page, block)?;
                if !node.flags().contains(NodeFlags::HALF_DEAD) {
                    return Err(unexpected(&node).into());
                }
                node.child(1)?
            };
            count += 1;
            if !top.is_valid() {
                self.unlink(block, block)?;
                return Ok(count);
            }
            self.unlink(block, top)?;
        }
    }

    /// The first step: the leaf loses its downlink. Whether it is half dead now.
    fn mark_half_dead(&self, block: BlockNumber) -> Result<bool, P> {
        let high_key = {
            let page = self.latch_read(block)?;
            let node = Node::parse(&page, block)?;
            if node.flags().contains(NodeFlags::HALF_DEAD) {
                return Ok(true);
            }
            if !may_go(&node) {
                return Ok(false);
            }
            let outside = NbtreeError::ItemOutside { block: block.get(), item: 1 };
            Bound::of(self.width(), node.tuple(1)?).ok_or(outside)?
        };
        // The way down to the leaf, with no latch on it: others may change it meanwhile.
        let mut path = self.path_to(high_key)?;
        let mut page = self.latch_write(block)?;
        let node = Node::parse(&page, block)?;
        if !may_go(&node) && !mutated!(NoSecondLook) {
            return Ok(false);
        }
        let Some(next) = node.special().next() else { return Ok(false) };
        path.hold(block)?;
        path.expect_free(next)?;
        if self.is_right_of_open_split(block, node.special().prev())? {
            return Ok(false);
        }
        {
            let page = self.latch_read(next)?;
            if Node::parse(&page, next)?.flags().contains(NodeFlags::HALF_DEAD) {
                return Ok(false);
            }
        }
        let Some(Branch { top, right, parent: (parent, mut parent_page), item }) =
            self.branch_of(block, next, &mut path)?
        else {
            return Ok(false);
        };
        let node = Node::parse(&parent_page, parent)?;
        let missing = NbtreeError::DownlinkMissing { block: parent.get(), child: right.get() };
        if node.child(item + 1)? != right {
            return Err(missing.into());
        }
        let downlink = OwnedTuple::pivot(node.tuple(item)?, right).ok_or(missing)?;
        let special = *Node::parse(&page, block)?.special();
        let error = |error| NbtreeError::Page { block: parent.get(), error };
        let block_size = self.pages().block_size();
        let mut view = PageMut::open(&mut parent_page, block_size).map_err(error)?;
        // The key stays, so the tuple is as long as before and lies where it lay.
        view.delete_item(item_number(item + 1)).map_err(error)?;
        overwrite(view.into_bytes(), item, downlink.bytes());
        let top = if top == block { BlockNumber::INVALID } else { top };
        let mut packer = Packer::new(&mut page, block_size, special);
        let packed = packer.push(OwnedTuple::minus_infinity(top).bytes());
        packer.finish();
        debug_assert!(packed.is_some());
        let special = special_mut(&mut page);
        special.set_flags(special.flags() | NodeFlags::HALF_DEAD);
        let pages = &mut [(block, &mut page), (parent, &mut parent_page)];
        self.pages().log(&Action::MarkHalfDead, pages);
        Ok(true)
    }

    /// The pages that lead to the leaf alone, and the page above them with a downlink to spare, latched.
    fn branch_of(
        &self,
        leaf: BlockNumber,
        right_of_leaf: BlockNumber,
        path: &mut Path,
    ) -> Result<Option<Branch<'_, P>>, P> {
        let (mut top, mut right, mut level) = (leaf, right_of_leaf, 0);
        loop {
            let ((parent, page), item) = self.parent_of(top, level, path)?;
            let node = Node::parse(&page, parent)?;
            if item < node.count() {
                return Ok(Some(Branch { top, right, parent: (parent, page), item }));
            }
            let flags = NodeFlags::ROOT | NodeFlags::INCOMPLETE_SPLIT;
            let (prev, next) = (node.special().prev(), node.special().next());
            let Some(next) = next else { return Ok(None) };
            // The key space of its last child cannot go to a page of another parent.
            if item > node.first() || node.flags().intersects(flags) {
                return Ok(None);
            }
            // While the leaf is latched nothing can be inserted into pages that lead to it alone.
            drop(page);
            if self.is_right_of_open_split(parent, prev)? {
                return Ok(None);
            }
            (top, right, level) = (parent, next, level + 1);
        }
    }

    /// Whether a page has no downlink yet because the split that made it has not ended.
    fn is_right_of_open_split(
        &self,
        block: BlockNumber,
        prev: Option<BlockNumber>,
    ) -> Result<bool, P> {
        let Some(prev) = prev else { return Ok(false) };
        // The order of latches is from left to right, so this one is only tried for.
        let Some(page) = self.pages().try_write(prev).map_err(IndexError::Storage)? else {
            return Ok(true);
        };
        let node = Node::parse(&page, prev)?;
        let is_open = node.flags().contains(NodeFlags::INCOMPLETE_SPLIT);
        Ok(node.special().next() != Some(block) || is_open)
    }

    /// The inner pages down to the leaf with that high key.
    fn path_to(&self, high_key: Bound) -> Result<Path, P> {
        let mut path = Path::new();
        let mut steps = Steps::default();
        let Some((mut block, mut level)) = self.meta()?.root() else { return Ok(path) };
        while level > 0 {
            let page = self.latch_read(block)?;
            let node = Node::parse(&page, block)?;
            if node.flags().is_ignored() || node.ends_below(self.width(), high_key)? {
                steps.right(self.pages(), block)?;
                block = node.special().next().ok_or(unexpected(&node))?;
                continue;
            }
            expect_level(&node, level)?;
            let item = node.last_below_bound(self.width(), high_key)?;
            path.push(block, item)?;
            block = node.child(item)?;
            level -= 1;
        }
        Ok(path)
    }

    /// The second step, of one page of the branch of a half-dead leaf.
    fn unlink<'a>(&'a self, leaf: BlockNumber, target: BlockNumber) -> Result<(), P> {
        let is_leaf = leaf == target;
        let mut leaf_page = if is_leaf { None } else { Some(self.latch_write(leaf)?) };
        let mut prev = {
            let page = self.latch_read(target)?;
            Node::parse(&page, target)?.special().prev()
        };
        // Splits may have put pages between since then, or still do.
        let mut steps = Steps::default();
        let mut left = None;
        while let Some(block) = prev {
            if block == target || (block == leaf && !is_leaf) {
                return Err(NbtreeError::Cycle { block: block.get() }.into());
            }
            let page = self.latch_write(block)?;
            let node = Node::parse(&page, block)?;
            let next = node.special().next();
            if next == Some(target) && !node.flags().contains(NodeFlags::DELETED) {
                left = Some((block, page));
                break;
            }
            steps.right(self.pages(), block)?;
            prev = Some(next.ok_or(unexpected(&node))?);
        }
        let mut page = self.latch_write(target)?;
        let node = Node::parse(&page, target)?;
        let flags = node.flags();
        let level = node.special().level();
        let expected = if is_leaf { NodeFlags::HALF_DEAD } else { NodeFlags::empty() };
        let sound = flags.contains(expected)
            && !flags.intersects(NodeFlags::ROOT | NodeFlags::DELETED)
            && node.is_leaf() == is_leaf
            && node.data_count() == u16::from(!is_leaf);
        if !sound {
            return Err(unexpected(&node).into());
        }
        let found_prev = node.special().prev();
        let left_block = left.as_ref().map(|(block, _)| *block);
        if found_prev != left_block {
            return Err(sibling(target, left_block, found_prev).into());
        }
        let right = node.special().next().ok_or(unexpected(&node))?;
        let below = if is_leaf { BlockNumber::INVALID } else { node.child(node.first())? };
        let below = if below == leaf { BlockNumber::INVALID } else { below };
        if right == target || Some(right) == left_block || Some(right) == Some(leaf) && !is_leaf {
            return Err(NbtreeError::Cycle { block: target.get() }.into());
        }
        let mut right_page = self.latch_write(right)?;
        let right_node = Node::parse(&right_page, right)?;
        if right_node.special().prev() != Some(target) {
            return Err(sibling(right, Some(target), right_node.special().prev()).into());
        }
        // A page that is alone on its level now is where searches may start.
        let mut meta_page = None;
        if left.is_none() && right_node.is_rightmost() {
            let latched = self.latch_write(Meta::BLOCK)?;
            let meta = Meta::parse(&latched)?;
            if meta.fast_root().is_some_and(|(_, fast)| fast <= level + 1) {
                meta_page = Some((meta, latched));
            }
        }

        let xid = self.pages().next_xid();
        if let Some((_, page)) = &mut left {
            special_mut(page).set_next(Some(right));
        }
        special_mut(&mut right_page).set_prev(left_block);
        if let Some(leaf_page) = &mut leaf_page {
            overwrite(leaf_page, 1, OwnedTuple::minus_infinity(below).bytes());
        }
        mark_deleted(&mut page, xid);
        let action = Action::Unlink {
            with_left_sibling: left.is_some(),
            with_leaf: !is_leaf,
            with_meta: meta_page.is_some(),
        };
        let mut pages: Vec<(BlockNumber, &mut P::Write<'a>)> = Vec::with_capacity(5);
        pages.push((target, &mut page));
        pages.push((right, &mut right_page));
        pages.extend(left.as_mut().map(|(block, page)| (*block, page)));
        pages.extend(leaf_page.as_mut().map(|page| (leaf, page)));
        if let Some((meta, page)) = &mut meta_page {
            meta.set_fast_root(right, level);
            self.start.clear();
            meta.store(page);
            pages.push((Meta::BLOCK, page));
        }
        self.pages().log(&action, &mut pages);
        drop(pages);
        if mutated!(ReuseAtOnce) {
            drop(page);
            self.pages().put_free(target);
        }
        Ok(())
    }
}

/// A branch that leads to one leaf alone: its top, what is to the right of that, and the downlink to it.
struct Branch<'a, P: IndexPages + 'a> {
    top: BlockNumber,
    right: BlockNumber,
    parent: Latched<'a, P>,
    item: u16,
}

/// Whether a page looks like a leaf that may leave the tree.
fn may_go(node: &Node<'_>) -> bool {
    let not =
        NodeFlags::ROOT | NodeFlags::INCOMPLETE_SPLIT | NodeFlags::HALF_DEAD | NodeFlags::DELETED;
    node.is_leaf()
        && !node.is_rightmost()
        && node.data_count() == 0
        && !node.flags().intersects(not)
}

fn sibling(
    block: BlockNumber,
    expected: Option<BlockNumber>,
    found: Option<BlockNumber>,
) -> NbtreeError {
    let link = |block: Option<BlockNumber>| block.map_or(0, BlockNumber::get);
    NbtreeError::Sibling { block: block.get(), expected: link(expected), found: link(found) }
}

/// Writes a tuple where one of the same length lies.
fn overwrite(bytes: &mut [u8], item: u16, tuple: &[u8]) {
    let start = PageHeader::LEN - 4 + 4 * usize::from(item);
    let word = bytes.get(start..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    let offset = (u32::from_le_bytes(word) & 0x7fff) as usize;
    if let Some(place) = bytes.get_mut(offset..offset + tuple.len()) {
        place.copy_from_slice(tuple);
    }
}

/// Makes a deleted page of one that has left the tree. Its links stay, for searches that are led to it.
#[expect(clippy::cast_possible_truncation, reason = "offsets in a page")]
fn mark_deleted(bytes: &mut [u8], xid: u64) {
    let special = special_mut(bytes);
    let flags = special.flags().difference(NodeFlags::HALF_DEAD);
    special.set_flags(flags | NodeFlags::DELETED | NodeFlags::HAS_FULLXID);
    special.cycle_id.set(0);
    if mutated!(ForgetLinks) {
        special.set_next(None);
    }
    let (lower, upper) = (PageHeader::LEN + 8, bytes.len() - Special::LEN);
    bytes[12..14].copy_from_slice(&(lower as u16).to_le_bytes());
    bytes[14..16].copy_from_slice(&(upper as u16).to_le_bytes());
    bytes[PageHeader::LEN..lower].copy_from_slice(&xid.to_le_bytes());
}

/// Puts shorter tuples in the place of others.
fn replace_items(
    page: &mut PageMut<'_>,
    items: &[(u16, Vec<u8>)],
) -> core::result::Result<(), PageError> {
    for (item, tuple) in items {
        let item = OffsetNumber::new(*item);
        page.delete_item(item)?;
        page.insert_item(item, tuple)?;
    }
    Ok(())
}
