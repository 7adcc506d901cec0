//! Looking things up.
use alloc::vec::Vec;
use core::fmt;
use core::ops::{ControlFlow, RangeInclusive};

use pgtoast_base::{BlockNumber, ItemPointer, Oid8};

use crate::descent::{Leaf, Steps};
use crate::error::NbtreeError;
use crate::index::{Index, Result};
use crate::key::{Key, KeyWidth, Layout, Oid8Layout, OidLayout};
use crate::node::{Node, Target, unexpected};
use crate::pages::IndexPages;
use crate::seek::{Search, Seen};

impl<P: IndexPages> Index<P> {
    /// The first entry of a key that is not marked dead. While rows of which at most one is alive
    /// share a key, there may be more: [`range`](Self::range) shows them all.
    ///
    /// # Errors
    /// What is wrong with the pages on the way; the storage's own.
    pub fn get(&self, key: Key) -> Result<Option<ItemPointer>, P> {
        if key.chunk_id.get() > self.width().highest_id() {
            return Ok(None);
        }
        match self.width() {
            KeyWidth::Oid => self.get_in::<OidLayout>(key),
            KeyWidth::Oid8 => self.get_in::<Oid8Layout>(key),
        }
    }

    #[inline(always)]
    fn get_in<L: Layout>(&self, key: Key) -> Result<Option<ItemPointer>, P> {
        let search = Search::<L>::new(Target::first_of(key));
        match self.leaf_in(search)? {
            Some((_, Seen::Row(tid))) => Ok(Some(tid)),
            Some((leaf, Seen::Unclear)) => self.get_from(leaf, key),
            Some((_, Seen::Other)) | None => Ok(None),
        }
    }

    /// The same where the first row is not alive, is a list, or is not on that leaf.
    #[cold]
    fn get_from<'a>(&'a self, leaf: Leaf<'a, P>, key: Key) -> Result<Option<ItemPointer>, P> {
        let mut found = None;
        self.walk_from(leaf, key, false, |_, tid| {
            found = Some(tid);
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Whether any entry has that id, marked dead or not: what a server asks before it gives the id to
    /// a new value.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn contains_id(&self, chunk_id: Oid8) -> Result<bool, P> {
        let mut found = false;
        self.walk(ids(chunk_id..=chunk_id), true, |_, _| {
            found = true;
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// The lowest id from `from` on that no entry has; `None` if all are taken up to the highest that
    /// the index can hold. A run of taken ids is read along the leaves, not probed one by one.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn first_free_id(&self, from: Oid8) -> Result<FreeId, P> {
        let highest = self.width().highest_id();
        let mut free = FreeId { chunk_id: Some(from), taken: 0 };
        if from.get() > highest {
            return Ok(FreeId { chunk_id: None, taken: 0 });
        }
        self.walk(ids(from..=Oid8::new(highest)), true, |key, _| {
            match free.chunk_id {
                // Another chunk of the value that was taken just now.
                Some(id) if key.chunk_id < id => ControlFlow::Continue(()),
                Some(id) if key.chunk_id == id => {
                    free.taken += 1;
                    let next = id.get().checked_add(1).filter(|next| *next <= highest);
                    free.chunk_id = next.map(Oid8::new);
                    ControlFlow::Continue(())
                }
                _ => ControlFlow::Break(()),
            }
        })?;
        Ok(free)
    }

    /// Hands the entries of a range that are not marked dead to `visit`, in order, until it has enough.
    /// Nothing is allocated. The leaf is latched meanwhile: `visit` must not wait for another thread,
    /// nor change the index.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn visit(
        &self,
        range: RangeInclusive<Key>,
        visit: impl FnMut(Key, ItemPointer) -> ControlFlow<()>,
    ) -> Result<(), P> {
        self.walk(range, false, visit)
    }

    /// The entries of a range that are not marked dead, in order.
    pub fn range(&self, range: RangeInclusive<Key>) -> Range<'_, P> {
        let (start, end) = range.into_inner();
        Range {
            index: self,
            end,
            next: if start <= end { Next::Descend(start) } else { Next::Done },
            entries: Vec::new(),
            at: 0,
            steps: Steps::default(),
        }
    }

    fn walk(
        &self,
        range: RangeInclusive<Key>,
        with_dead: bool,
        visit: impl FnMut(Key, ItemPointer) -> ControlFlow<()>,
    ) -> Result<(), P> {
        let (start, end) = range.into_inner();
        if start > end || start.chunk_id.get() > self.width().highest_id() {
            return Ok(());
        }
        match self.leaf(Target::first_of(start))? {
            Some(leaf) => self.walk_from(leaf, end, with_dead, visit),
            None => Ok(()),
        }
    }

    fn walk_from<'a>(
        &'a self,
        (mut block, mut page, mut first): Leaf<'a, P>,
        end: Key,
        with_dead: bool,
        mut visit: impl FnMut(Key, ItemPointer) -> ControlFlow<()>,
    ) -> Result<(), P> {
        let mut steps = Steps::default();
        loop {
            let node = Node::parse(&page, block)?;
            let flow = self.read_leaf(&node, first, end, with_dead, &mut visit)?;
            let Some(next) = flow else { return Ok(()) };
            steps.right(self.pages(), block)?;
            // One latch at a time: a vacuum latches the page to the left while it has this one.
            drop(page);
            block = next;
            page = self.latch_read(block)?;
            first = 0;
        }
    }

    /// Visits the entries of a leaf from an item on; where to go on, if that is not all.
    fn read_leaf(
        &self,
        node: &Node<'_>,
        first: u16,
        end: Key,
        with_dead: bool,
        visit: &mut impl FnMut(Key, ItemPointer) -> ControlFlow<()>,
    ) -> core::result::Result<Option<BlockNumber>, NbtreeError> {
        if node.flags().is_ignored() {
            return node.special().next().ok_or(unexpected(node)).map(Some);
        }
        if !node.is_leaf() {
            return Err(unexpected(node));
        }
        for item in first.max(node.first())..=node.count() {
            if let Some((key, tid, is_dead)) = node.plain_entry(self.width(), item) {
                if key > end {
                    return Ok(None);
                }
                if (with_dead || !is_dead) && visit(key, tid).is_break() {
                    return Ok(None);
                }
                continue;
            }
            let key = node.key(self.width(), item)?;
            if key > end {
                return Ok(None);
            }
            if node.is_dead(item) && !with_dead {
                continue;
            }
            let outside = NbtreeError::ItemOutside { block: node.block().get(), item };
            for tid in node.tuple(item)?.tids().ok_or(outside)? {
                if visit(key, tid).is_break() {
                    return Ok(None);
                }
            }
        }
        // Most of the time the high key says that the next page has nothing more.
        let last = Target::entry(end, ItemPointer::INVALID);
        if !node.is_rightmost() && !node.is_beyond(self.width(), last)? {
            return Ok(None);
        }
        Ok(node.special().next())
    }
}

fn ids(range: RangeInclusive<Oid8>) -> RangeInclusive<Key> {
    Key::new(*range.start(), i32::MIN)..=Key::new(*range.end(), i32::MAX)
}

/// An id for a new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeId {
    /// It; `None` if there is none.
    pub chunk_id: Option<Oid8>,
    /// How many ids before it are taken. A server probes the index for each of them.
    pub taken: u64,
}

/// The entries of a range. Made by [`Index::range`].
///
/// It reads a leaf at a time and latches nothing in between, so that entries which others insert or
/// delete meanwhile may be among them or not. After an error there is nothing more.
pub struct Range<'a, P: IndexPages> {
    index: &'a Index<P>,
    end: Key,
    next: Next,
    entries: Vec<(Key, ItemPointer)>,
    at: usize,
    steps: Steps,
}

enum Next {
    Descend(Key),
    Leaf(BlockNumber),
    Done,
}

impl<P: IndexPages> Range<'_, P> {
    /// Reads the next leaf.
    fn fill(&mut self) -> Result<(), P> {
        self.entries.clear();
        self.at = 0;
        let next = core::mem::replace(&mut self.next, Next::Done);
        let (block, page, first) = match next {
            Next::Done => return Ok(()),
            Next::Descend(start) if start.chunk_id.get() > self.index.width().highest_id() => {
                return Ok(());
            }
            Next::Descend(start) => match self.index.leaf(Target::first_of(start))? {
                Some(leaf) => leaf,
                None => return Ok(()),
            },
            Next::Leaf(block) => {
                self.steps.right(self.index.pages(), block)?;
                (block, self.index.latch_read(block)?, 0)
            }
        };
        let node = Node::parse(&page, block)?;
        let entries = &mut self.entries;
        let flow = self.index.read_leaf(&node, first, self.end, false, &mut |key, tid| {
            entries.push((key, tid));
            ControlFlow::Continue(())
        })?;
        if let Some(next) = flow {
            self.next = Next::Leaf(next);
        }
        Ok(())
    }
}

impl<P: IndexPages> Iterator for Range<'_, P> {
    type Item = Result<(Key, ItemPointer), P>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.entries.get(self.at) {
                self.at += 1;
                return Some(Ok(*entry));
            }
            if matches!(self.next, Next::Done) {
                return None;
            }
            if let Err(error) = self.fill() {
                self.entries.clear();
                return Some(Err(error));
            }
        }
    }
}

impl<P: IndexPages> fmt::Debug for Range<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("end", &self.end).finish_non_exhaustive()
    }
}
