//! The tree itself, and the way down it.
use pgtoast_base::{BlockNumber, ItemPointer};

use crate::error::{IndexError, NbtreeError};
use crate::key::{Key, KeyWidth};
use crate::meta::Meta;
use crate::node::{Node, Target};
use crate::pages::IndexPages;
use crate::special::NodeFlags;
use crate::sync::{Hint, mutated};

/// An index over `(chunk_id, chunk_seq)`.
///
/// All methods take it by reference: with pages that threads share, so is the index.
#[derive(Debug)]
pub struct Index<P> {
    pages: P,
    width: KeyWidth,
    /// The leaf that the last ascending insert went to.
    pub(crate) rightmost: Hint,
}

pub(crate) type Result<T, P> = core::result::Result<T, IndexError<<P as IndexPages>::Error>>;

impl<P: IndexPages> Index<P> {
    /// A new index without entries: one metapage. A server makes the same of an empty table, and of
    /// an index whose condition no row meets.
    ///
    /// # Errors
    /// The storage's own; [`NbtreeError::Flags`] if it has pages already.
    pub fn create(pages: P, width: KeyWidth) -> Result<Self, P> {
        let block_size = pages.block_size();
        {
            let (block, mut page) = pages.extend().map_err(IndexError::Storage)?;
            if block != Meta::BLOCK {
                return Err(NbtreeError::Flags { block: block.get(), found: 0 }.into());
            }
            Meta::new(None, 0).init(&mut page, block_size);
        }
        Ok(Self { pages, width, rightmost: Hint::none() })
    }

    /// An index that is there.
    ///
    /// # Errors
    /// [`NbtreeError::Meta`], [`NbtreeError::Missing`], the storage's own.
    pub fn open(pages: P, width: KeyWidth) -> Result<Self, P> {
        let index = Self { pages, width, rightmost: Hint::none() };
        index.meta()?;
        Ok(index)
    }

    /// The pages.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// The pages, which nobody else can be using.
    pub fn pages_mut(&mut self) -> &mut P {
        &mut self.pages
    }

    /// Ends with the pages.
    pub fn into_pages(self) -> P {
        self.pages
    }

    /// How wide its ids are.
    pub fn width(&self) -> KeyWidth {
        self.width
    }

    /// What the metapage says.
    ///
    /// # Errors
    /// [`NbtreeError::Meta`], [`NbtreeError::Missing`], the storage's own.
    pub fn meta(&self) -> Result<Meta, P> {
        Ok(Meta::parse(&self.latch_read(Meta::BLOCK)?)?)
    }

    pub(crate) fn latch_read(&self, block: BlockNumber) -> Result<P::Read<'_>, P> {
        let page = self.pages.read(block).map_err(IndexError::Storage)?;
        page.ok_or(NbtreeError::Missing { block: block.get() }.into())
    }

    pub(crate) fn latch_write(&self, block: BlockNumber) -> Result<P::Write<'_>, P> {
        let page = self.pages.write(block).map_err(IndexError::Storage)?;
        page.ok_or(NbtreeError::Missing { block: block.get() }.into())
    }

    /// Latches the leaf where a key belongs, to read it; `None` in an index without entries.
    #[inline]
    pub(crate) fn leaf(&self, target: Target) -> Result<Option<(BlockNumber, P::Read<'_>)>, P> {
        let Some((mut block, mut level)) = self.meta()?.fast_root() else { return Ok(None) };
        let mut steps = Steps::default();
        loop {
            let page = self.latch_read(block)?;
            match self.step(&page, block, level, target)? {
                Step::Here => return Ok(Some((block, page))),
                Step::Right(next) => {
                    steps.right(&self.pages, block)?;
                    block = next;
                }
                Step::Down(child, _) => {
                    block = child;
                    level -= 1;
                }
            }
        }
    }

    /// Which way a page sends a search.
    #[inline]
    pub(crate) fn step(
        &self,
        page: &[u8],
        block: BlockNumber,
        level: u32,
        target: Target,
    ) -> core::result::Result<Step, NbtreeError> {
        let node = Node::parse(page, block)?;
        let must_move = node.flags().is_ignored() || node.is_beyond(self.width, target)?;
        if must_move && !mutated!(NoMoveRight) {
            return match node.special().next() {
                Some(next) => Ok(Step::Right(next)),
                None => Err(unexpected(&node)),
            };
        }
        expect_level(&node, level)?;
        if level == 0 {
            return Ok(Step::Here);
        }
        let item = node.downlink(self.width, target)?;
        Ok(Step::Down(node.child(item)?, item))
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
                steps.right(&self.pages, block)?;
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

/// Where a page sends a search.
pub(crate) enum Step {
    /// It is the leaf.
    Here,
    /// To its right neighbour.
    Right(BlockNumber),
    /// To that child, by that item.
    Down(BlockNumber, u16),
}

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

/// A page with flags that it cannot have where it is.
pub(crate) fn unexpected(node: &Node<'_>) -> NbtreeError {
    NbtreeError::Flags { block: node.block().get(), found: node.flags().bits() }
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
    steps: [(BlockNumber, u16); MAX_LEVELS],
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
            steps: [(BlockNumber::INVALID, 0); MAX_LEVELS],
            len: 0,
            held: [BlockNumber::INVALID; MOST_HELD],
            held_len: 0,
        }
    }

    #[inline]
    pub(crate) fn push(
        &mut self,
        block: BlockNumber,
        item: u16,
    ) -> core::result::Result<(), NbtreeError> {
        let step = self.steps.get_mut(self.len).ok_or(NbtreeError::Cycle { block: block.get() })?;
        *step = (block, item);
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
        Some(self.steps[self.len])
    }
}

impl Target {
    /// The first entry of that key.
    pub(crate) const fn first_of(key: Key) -> Self {
        Self { key, tid: None }
    }

    /// The place of one entry.
    pub(crate) const fn entry(key: Key, tid: ItemPointer) -> Self {
        Self { key, tid: Some(tid) }
    }
}

/// Flags that a page keeps through a split.
pub(crate) fn kept_flags(flags: NodeFlags) -> NodeFlags {
    flags.difference(NodeFlags::ROOT | NodeFlags::SPLIT_END | NodeFlags::HAS_GARBAGE)
}
