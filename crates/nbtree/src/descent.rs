//! The way down the tree, and along a level.
//!
//! One page is latched at a time. Whoever comes to a page that was split after its parent was read, or
//! that has left the tree, goes on to the right.
//!
//! Source: `nbtsearch.c`, `_bt_search`, `_bt_moveright` (REL_18).
use pgtoast_base::BlockNumber;

use crate::error::{IndexError, NbtreeError};
use crate::index::{Index, Latched, Result};
use crate::key::{KeyWidth, Layout, Oid8Layout, OidLayout};
use crate::node::{Node, Target, shape, unexpected};
use crate::pages::IndexPages;
use crate::seek::{Search, Seen, Way};
use crate::special::NodeFlags;
use crate::sync::mutated;

impl<P: IndexPages> Index<P> {
    /// Latches the leaf where a key belongs, to read it, and finds its first item that is not below;
    /// `None` in an index without entries.
    #[inline]
    pub(crate) fn leaf(&self, target: Target) -> Result<Option<Leaf<'_, P>>, P> {
        let leaf = match self.width() {
            KeyWidth::Oid => self.leaf_in(Search::<OidLayout>::new(target))?,
            KeyWidth::Oid8 => self.leaf_in(Search::<Oid8Layout>::new(target))?,
        };
        Ok(leaf.map(|(leaf, _)| leaf))
    }

    /// The same, with what is to be seen there.
    #[inline(always)]
    pub(crate) fn leaf_in<L: Layout>(
        &self,
        mut search: Search<L>,
    ) -> Result<Option<(Leaf<'_, P>, Seen)>, P> {
        let Some(Start { mut block, mut level, mut is_known }) = self.start()? else {
            return Ok(None);
        };
        let mut steps = Steps::default();
        loop {
            let page = self.latch_read(block)?;
            let Some(node) = Node::of(&page, block) else { return Err(shape(&page, block).into()) };
            if !is_known {
                is_known = true;
                if !node.is_alone() {
                    drop(page);
                    let Some(root) = self.fast_root()? else { return Ok(None) };
                    (block, level) = root;
                    continue;
                }
                level = node.special().level();
            }
            match step(&node, level, &mut search)? {
                Step::Here(item) => {
                    let seen = node.seen(&search, item);
                    return Ok(Some(((block, page, item), seen)));
                }
                Step::Right(next) => {
                    steps.right(self.pages(), block)?;
                    block = next;
                }
                Step::Down(child, _) => {
                    block = child;
                    level -= 1;
                }
            }
        }
    }

    /// Latches the leaf where a tuple of so many bytes belongs, to change it, and finds its place. Ends
    /// splits on the way, and makes the first leaf if there is none.
    #[inline(always)]
    pub(crate) fn leaf_to_change<L: Layout>(
        &self,
        search: &mut Search<L>,
        len: usize,
        path: &mut Path,
    ) -> Result<(Latched<'_, P>, Place), P> {
        let (mut block, mut level, mut is_known) = match self.start()? {
            Some(Start { block, level, is_known }) => (block, level, is_known),
            None => (self.first_leaf()?, 0, true),
        };
        let mut steps = Steps::default();
        while level > 0 || !is_known {
            let page = self.latch_read(block)?;
            let Some(node) = Node::of(&page, block) else { return Err(shape(&page, block).into()) };
            if !is_known {
                is_known = true;
                if !node.is_alone() {
                    drop(page);
                    (block, level) = match self.fast_root()? {
                        Some(root) => root,
                        None => (self.first_leaf()?, 0),
                    };
                    continue;
                }
                level = node.special().level();
                if level == 0 {
                    break;
                }
            }
            if is_split_open(&node) {
                drop(page);
                steps.right(self.pages(), block)?;
                let page = self.latch_write(block)?;
                self.end_split_if_any((block, page), path)?;
                continue;
            }
            match step(&node, level, search)? {
                Step::Here(_) => return Err(unexpected(&node).into()),
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
        loop {
            let page = self.latch_write(block)?;
            let Some(node) = Node::of(&page, block) else { return Err(shape(&page, block).into()) };
            if is_split_open(&node) {
                steps.right(self.pages(), block)?;
                self.end_split_if_any((block, page), path)?;
                continue;
            }
            let way = match step(&node, 0, search)? {
                Step::Right(next) => {
                    steps.right(self.pages(), block)?;
                    block = next;
                    continue;
                }
                Step::Down(..) => return Err(unexpected(&node).into()),
                Step::Here(item) => Way::Item(item),
            };
            let place = Place::of(&node, search, way, len);
            return Ok(((block, page), place));
        }
    }

    /// Where to start: the page that the last search started at, to be looked at, or what the metapage
    /// says.
    #[inline]
    fn start(&self) -> Result<Option<Start>, P> {
        if let Some(block) = self.start.get() {
            return Ok(Some(Start { block, level: 0, is_known: false }));
        }
        let root = self.fast_root()?;
        Ok(root.map(|(block, level)| Start { block, level, is_known: true }))
    }

    /// The page to the right, in exchange for one that is latched; splits found there are ended.
    pub(crate) fn right_of<'a>(
        &'a self,
        (mut block, mut page): Latched<'a, P>,
        path: &mut Path,
    ) -> Result<Latched<'a, P>, P> {
        let mut steps = Steps::default();
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

    /// The leftmost page of a level, to be read; the level must be there.
    pub(crate) fn leftmost(&self, level: u32) -> Result<BlockNumber, P> {
        let missing = NbtreeError::Level { block: 0, expected: level, found: 0 };
        let (mut block, mut at) = self.meta()?.root().ok_or(missing)?;
        let mut steps = Steps::default();
        while at > level {
            let page = self.latch_read(block)?;
            let node = Node::parse(&page, block)?;
            if node.flags().is_ignored() {
                steps.right(self.pages(), block)?;
                block = node.special().next().ok_or(unexpected(&node))?;
                continue;
            }
            expect_level(&node, at)?;
            block = node.child(node.first())?;
            at -= 1;
        }
        Ok(block)
    }
}

/// Whether the page to the right has no downlink yet.
#[inline]
fn is_split_open(node: &Node<'_>) -> bool {
    node.flags().contains(NodeFlags::INCOMPLETE_SPLIT) && !node.flags().is_ignored()
}

/// Where a search starts. A page that is remembered may be used if it is alone on its level; what that
/// is, it says itself.
struct Start {
    block: BlockNumber,
    level: u32,
    is_known: bool,
}

/// A leaf that is being read, and an item of it.
pub(crate) type Leaf<'a, P> = (BlockNumber, <P as IndexPages>::Read<'a>, u16);

/// Where on a leaf a tuple belongs, as far as a look at one item tells.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) way: Way,
    /// The item there is a row of another key, or there is none to come.
    pub(crate) is_free: bool,
    /// There is room for the tuple.
    pub(crate) fits: bool,
    pub(crate) is_rightmost: bool,
}

impl Place {
    #[inline(always)]
    pub(crate) fn of<L: Layout>(node: &Node<'_>, search: &Search<L>, way: Way, len: usize) -> Self {
        let is_rightmost = node.is_rightmost();
        let is_free = match way {
            // The end of the last leaf is where nearly all go.
            Way::Item(item) if item > node.count() => is_rightmost,
            Way::Item(item) => node.is_other(search, item),
            Way::Beyond => false,
        };
        Self { way, is_free, fits: node.fits(len), is_rightmost }
    }
}

/// Where a page of that level sends a search.
#[inline(always)]
pub(crate) fn step<L: Layout>(
    node: &Node<'_>,
    level: u32,
    search: &mut Search<L>,
) -> core::result::Result<Step, NbtreeError> {
    let is_out = node.flags().is_ignored() && !mutated!(NoMoveRight);
    let may_stay = !is_out || (mutated!(IgnoreHalfDead) && level == 0);
    let way = if may_stay { node.way(search)? } else { Way::Beyond };
    let item = match way {
        Way::Item(item) => item,
        Way::Beyond if mutated!(NoMoveRight) => node.count() + u16::from(level == 0),
        Way::Beyond => {
            search.turn();
            return node.special().next().map(Step::Right).ok_or_else(|| unexpected(node));
        }
    };
    expect_level(node, level)?;
    if level == 0 {
        return Ok(Step::Here(item));
    }
    Ok(Step::Down(node.child(item)?, item))
}

/// Where a page sends a search.
pub(crate) enum Step {
    /// It is the leaf, and this the first item that is not below.
    Here(u16),
    /// To its right neighbour.
    Right(BlockNumber),
    /// To that child, by that item.
    Down(BlockNumber, u16),
}

#[inline]
pub(crate) fn expect_level(node: &Node<'_>, level: u32) -> core::result::Result<(), NbtreeError> {
    let found = node.special().level();
    if found != level {
        return Err(NbtreeError::Level { block: node.block().get(), expected: level, found });
    }
    if node.is_leaf() != (level == 0) {
        return Err(unexpected(node));
    }
    Ok(())
}

/// Steps to the right, so that links that go round are noticed.
#[derive(Debug, Default)]
pub(crate) struct Steps(u32);

impl Steps {
    /// As many as nobody asks about: other threads' splits seldom take more.
    const FREE: u32 = 16;

    #[inline]
    pub(crate) fn right<P: IndexPages>(&mut self, pages: &P, block: BlockNumber) -> Result<(), P> {
        self.0 += 1;
        if self.0 > Self::FREE && self.0 > pages.block_count().map_err(IndexError::Storage)? {
            return Err(NbtreeError::Cycle { block: block.get() }.into());
        }
        Ok(())
    }
}

/// Where a search came down: the inner pages from the root to the leaf's parent, and the item in each.
/// Others may change those pages meanwhile, so it says where to start looking.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    // Apart, so that they are cleared at once.
    blocks: [BlockNumber; MAX_LEVELS],
    items: [u16; MAX_LEVELS],
    len: usize,
    /// Latched on lower levels; waiting for one of these would be for ever.
    held: [BlockNumber; MOST_HELD],
    held_len: usize,
}

/// Two on each level that a change can go through at once.
const MOST_HELD: usize = 24;

/// More levels than 2^32 pages can have: each has at least two downlinks, but for the rightmost.
pub(crate) const MAX_LEVELS: usize = 34;

impl Path {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            blocks: [BlockNumber::new(0); MAX_LEVELS],
            items: [0; MAX_LEVELS],
            len: 0,
            held: [BlockNumber::new(0); MOST_HELD],
            held_len: 0,
        }
    }

    #[inline]
    pub(crate) fn push(
        &mut self,
        block: BlockNumber,
        item: u16,
    ) -> core::result::Result<(), NbtreeError> {
        let cycle = NbtreeError::Cycle { block: block.get() };
        *self.blocks.get_mut(self.len).ok_or(cycle)? = block;
        *self.items.get_mut(self.len).ok_or(cycle)? = item;
        self.len += 1;
        Ok(())
    }

    /// Notes a page that stays latched while others are latched by this path.
    pub(crate) fn hold(&mut self, block: BlockNumber) -> core::result::Result<(), NbtreeError> {
        self.expect_free(block)?;
        let cycle = NbtreeError::Cycle { block: block.get() };
        *self.held.get_mut(self.held_len).ok_or(cycle)? = block;
        self.held_len += 1;
        Ok(())
    }

    /// Forgets the last so many pages that were noted.
    pub(crate) fn release(&mut self, count: usize) {
        self.held_len = self.held_len.saturating_sub(count);
    }

    /// That latching a page is not waiting for oneself, as it would be where links go round.
    pub(crate) fn expect_free(&self, block: BlockNumber) -> core::result::Result<(), NbtreeError> {
        if self.held[..self.held_len].contains(&block) {
            return Err(NbtreeError::Cycle { block: block.get() });
        }
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<(BlockNumber, u16)> {
        self.len = self.len.checked_sub(1)?;
        Some((self.blocks[self.len], self.items[self.len]))
    }
}
