//! A page of the map: a tree of maxima over its slots.
//!
//! ```text
//! byte 0           4        5        6              4 + inner            content_bytes
//!      | next_slot | node 0 | node 1 | ...          | slot 0 | slot 1 ...|
//!      `- i32      `- root                          `- the bottom row
//!
//! row 0                0                children of node x: 2x + 1 and 2x + 2
//! row 1            1       2            a node: the greater of its children
//! row 2          3   4   5   6          a child past the end of the page counts as 0
//! ```
//! Byte 0 here is the first behind the page header. The rows lie one behind the other, and so do
//! the nodes that are some rows below a given one: the 64 slots below a node six rows up are 64 bytes
//! in a row. That is what makes looking for a slot two short scans here, where walking the tree one
//! node at a time would do (and does, in [`crate::twin`]).
//!
//! **Invariant:** whatever the bytes are, each call ends, and a slot it returns has what was asked for.
//!
//! Source: `fsm_internals.h` (`FSMPageData`), `fsmpage.c` (REL_18).
use core::fmt;
use core::ops::Range;

use zerocopy::little_endian::I32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::geometry::Shape;
use crate::lanes::{Least, near_position, position};
use crate::{Category, FsmError, Geometry};

/// The bytes as drawn: any bytes are such a page.
#[doc(alias = "FSMPageData")]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct FsmPageData {
    /// The slot at which the next search starts: a hint, nonsense allowed.
    #[doc(alias = "fp_next_slot")]
    next_slot: I32,
    #[doc(alias = "fp_nodes")]
    nodes: [u8],
}

/// A page of the map to look at.
#[derive(Clone, Copy)]
pub struct FsmPage<'a> {
    shape: Shape,
    data: &'a FsmPageData,
}

/// A page of the map to work on.
pub struct FsmPageMut<'a> {
    shape: Shape,
    data: &'a mut FsmPageData,
}

impl<'a> FsmPage<'a> {
    /// The page whose contents, behind its header, are `contents`. No byte is looked at.
    ///
    /// # Errors
    /// [`FsmError::ContentLength`] when that is not the length of a page's contents.
    pub fn parse(geometry: Geometry, contents: &'a [u8]) -> Result<Self, FsmError> {
        let data = checked(geometry, contents).and_then(|contents| {
            FsmPageData::ref_from_bytes(contents).map_err(|_| length_error(geometry, contents))
        })?;
        Ok(Self { shape: geometry.shape(), data })
    }

    /// The greatest category of the page, if its tree can be believed.
    #[doc(alias = "fsm_get_max_avail")]
    #[inline]
    #[must_use]
    pub fn root(self) -> Category {
        Category::new(node(&self.data.nodes, 0))
    }

    /// What a slot says; [`Category::NONE`] past the last slot.
    #[doc(alias = "fsm_get_avail")]
    #[inline]
    #[must_use]
    pub fn slot(self, slot: u32) -> Category {
        let slot = slot.min(self.shape.slots()) as usize;
        Category::new(node(&self.data.nodes, self.shape.inner_nodes() + slot))
    }

    /// Every slot, from 0.
    #[must_use]
    pub fn slots(self) -> &'a [u8] {
        self.data.nodes.get(self.shape.inner_nodes()..).unwrap_or_default()
    }

    /// Where the next search would start, as stored.
    #[must_use]
    pub fn next_slot(self) -> i32 {
        self.data.next_slot.get()
    }

    /// The nodes, the root first.
    #[must_use]
    pub fn nodes(self) -> &'a [u8] {
        &self.data.nodes
    }

    /// Whether a search that does not advance finds that slot, and changes nothing.
    #[inline]
    pub(crate) fn leads_to(self, slot: u32, min: Category) -> bool {
        self.data.next_slot.get() == slot.cast_signed()
            && self.root() >= min
            && self.slot(slot) >= min
    }

    /// What an inner node should say, going by its children.
    #[inline]
    #[must_use]
    pub(crate) fn expected(self, inner: usize) -> u8 {
        let child = 2 * inner + 1;
        node(&self.data.nodes, child).max(node(&self.data.nodes, child + 1))
    }
}

impl<'a> FsmPageMut<'a> {
    /// The page whose contents, behind its header, are `contents`. No byte is looked at.
    ///
    /// # Errors
    /// [`FsmError::ContentLength`] when that is not the length of a page's contents.
    #[inline]
    pub fn parse(geometry: Geometry, contents: &'a mut [u8]) -> Result<Self, FsmError> {
        Self::with_shape(geometry.shape(), contents)
    }

    #[inline]
    pub(crate) fn with_shape(shape: Shape, contents: &'a mut [u8]) -> Result<Self, FsmError> {
        let found = contents.len();
        let expected = shape.content_bytes();
        match FsmPageData::mut_from_bytes(contents) {
            Ok(data) if found == expected => Ok(Self { shape, data }),
            _ => Err(FsmError::ContentLength { expected, found }),
        }
    }

    /// The same page to look at.
    #[inline]
    #[must_use]
    pub fn as_page(&self) -> FsmPage<'_> {
        FsmPage { shape: self.shape, data: self.data }
    }

    /// The greatest category of the page, if its tree can be believed.
    #[inline]
    #[must_use]
    pub fn root(&self) -> Category {
        self.as_page().root()
    }

    /// Sets a slot and the nodes above it; does nothing past the last slot.
    ///
    /// The nodes up to that of the group are written without looking for the one where nothing
    /// changes any more: it is found by a branch that no processor can predict, and a few stores cost
    /// less. Most changes end in their group, and that can be predicted.
    #[doc(alias = "fsm_set_avail")]
    #[inline]
    pub fn set(&mut self, slot: u32, category: Category) {
        if slot >= self.shape.slots() {
            return;
        }
        let nodes = &mut self.data.nodes;
        let mut value = category.get();
        let mut at = self.shape.inner_nodes() + slot as usize;
        if let Some(slot) = nodes.get_mut(at) {
            *slot = value;
        }
        // Counted from 1, the parent of node n is n / 2 and the other child is n ^ 1.
        at += 1;
        let mut up = |at: &mut usize| {
            value = value.max(node(nodes, (*at ^ 1) - 1));
            *at /= 2;
            nodes.get_mut(*at - 1).map(|parent| core::mem::replace(parent, value)) == Some(value)
        };
        let mut rows = self.shape.height();
        if rows >= GROUP_ROWS {
            let mut unchanged = false;
            for _ in 0..GROUP_ROWS {
                unchanged = up(&mut at);
            }
            if unchanged && value <= node(nodes, 0) {
                return;
            }
            rows -= GROUP_ROWS;
        }
        for _ in 0..rows {
            value = value.max(node(nodes, (at ^ 1) - 1));
            at /= 2;
            if let Some(parent) = nodes.get_mut(at - 1) {
                *parent = value;
            }
        }
    }

    /// The first slot with at least `min`, going round from where the last search left off; `None`
    /// if the page has none. With `advance` the next search starts behind it, without at it.
    ///
    /// Nodes that contradict each other are set right on the way. A `min` of [`Category::NONE`] is
    /// taken as 1: a slot that promises nothing is never an answer.
    #[doc(alias = "fsm_search_avail")]
    #[inline]
    pub fn search(&mut self, min: Category, advance: bool) -> Option<u32> {
        let start = self.start();
        // A page above level 0 stays with its slot until that has too little.
        let stays = !advance && self.root() >= min && self.as_page().slot(start) >= min.max(ONE);
        let slot = if stays { start } else { self.find(min)? };
        self.data.next_slot.set((slot + u32::from(advance)).cast_signed());
        Some(slot)
    }

    /// The slot that a search finds; where the next one starts stays as it was.
    #[inline]
    pub(crate) fn find(&mut self, min: Category) -> Option<u32> {
        let min = min.max(ONE).get();
        if self.root().get() < min {
            return None;
        }
        let start = self.start() as usize;
        let found = match self.first_from(start, min) {
            Some(slot) => slot,
            None => {
                // The root promised what no slot has: after this, it does no longer.
                self.rebuild();
                self.first_from(start, min)?
            }
        };
        u32::try_from(found).ok()
    }

    /// The slot to begin a search with.
    #[inline]
    fn start(&self) -> u32 {
        match u32::try_from(self.data.next_slot.get()) {
            Ok(slot) if slot < self.shape.slots() => slot,
            _ => 0,
        }
    }

    /// Works out every inner node anew; says whether any was wrong.
    #[doc(alias = "fsm_rebuild_page")]
    pub fn rebuild(&mut self) -> bool {
        let mut wrong = false;
        // Row by row from the lowest: a row and the one below it lie one behind the other.
        for row in (0..self.shape.height()).rev() {
            let first = (1 << row) - 1;
            let Some((parents, children)) = self
                .data
                .nodes
                .get_mut(first..)
                .and_then(|nodes| nodes.split_at_mut_checked(first + 1))
            else {
                continue;
            };
            let mut pairs = children.chunks_exact(2);
            let mut parents = parents.iter_mut();
            for (pair, parent) in (&mut pairs).zip(&mut parents) {
                let expected = pair[0].max(pair[1]);
                wrong |= *parent != expected;
                *parent = expected;
            }
            // The page may end within the bottom row: one slot without a neighbour, then none.
            let last = pairs.remainder().first().copied();
            for (parent, expected) in parents.zip(last.into_iter().chain(core::iter::repeat(0))) {
                wrong |= *parent != expected;
                *parent = expected;
            }
        }
        wrong
    }

    /// Clears every slot from `slots` on; says whether any was set.
    #[doc(alias = "fsm_truncate_avail")]
    pub fn truncate(&mut self, slots: u32) -> bool {
        self.clear(slots..self.shape.slots())
    }

    /// Clears some slots; says whether any was set.
    pub(crate) fn clear(&mut self, slots: Range<u32>) -> bool {
        let slots = slots.start as usize..slots.end as usize;
        let cleared = self.slots_mut().get_mut(slots).unwrap_or_default();
        let any = cleared.iter().any(|&slot| slot != 0);
        if any {
            cleared.fill(0);
            self.rebuild();
        }
        any
    }

    /// Says where the next search starts; the server resets it to 0 when it vacuums.
    #[inline]
    pub fn set_next_slot(&mut self, next_slot: i32) {
        self.data.next_slot.set(next_slot);
    }

    /// The slots, to be filled in bulk; [`rebuild`](Self::rebuild) must follow.
    pub(crate) fn slots_mut(&mut self) -> &mut [u8] {
        self.data.nodes.get_mut(self.shape.inner_nodes()..).unwrap_or_default()
    }

    /// The first slot at or after `start` that has `min`, else the first before it; `None` if the
    /// nodes mislead. `start` is a slot of the page.
    #[inline]
    fn first_from(&self, start: usize, min: u8) -> Option<usize> {
        let least = Least::new(min);
        let slots = self.as_page().slots();
        // Most searches end in the slots that are looked at first.
        if let Some(slot) = near_position(slots, start, least) {
            return Some(slot);
        }
        self.first_far(start, least)
    }

    /// The same when the next few slots do not have it.
    fn first_far(&self, start: usize, least: Least) -> Option<usize> {
        let (slots, min) = (self.as_page().slots(), least.category());
        let group_rows = self.shape.height().min(GROUP_ROWS);
        let group = start >> group_rows;
        // The row whose nodes stand for a group of slots each.
        let groups = 1 << (self.shape.height() - group_rows);
        let row = self.data.nodes.get(groups - 1..2 * groups - 1)?;
        if *row.get(group)? >= min {
            let group_end = ((group + 1) << group_rows).min(slots.len());
            if let Some(slot) = position(slots.get(..group_end)?, start, least) {
                return Some(slot);
            }
        }
        let group =
            position(row, group + 1, least).or_else(|| position(row.get(..=group)?, 0, least))?;
        let group_start = group << group_rows;
        let group_end = ((group + 1) << group_rows).min(slots.len());
        position(slots.get(..group_end)?, group_start, least)
    }
}

/// A node, or 0 past the last one.
#[inline]
fn node(nodes: &[u8], at: usize) -> u8 {
    nodes.get(at).copied().unwrap_or(0)
}

fn checked(geometry: Geometry, contents: &[u8]) -> Result<&[u8], FsmError> {
    if contents.len() == geometry.content_bytes() {
        Ok(contents)
    } else {
        Err(length_error(geometry, contents))
    }
}

fn length_error(geometry: Geometry, contents: &[u8]) -> FsmError {
    FsmError::ContentLength { expected: geometry.content_bytes(), found: contents.len() }
}

impl fmt::Debug for FsmPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FsmPage")
            .field("root", &self.root().get())
            .field("next_slot", &self.next_slot())
            .field("slots_set", &self.slots().iter().filter(|&&slot| slot != 0).count())
            .finish()
    }
}

impl fmt::Debug for FsmPageMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_page().fmt(f)
    }
}

/// A group of 2^6 slots is one cache line long.
const GROUP_ROWS: u32 = 6;
const ONE: Category = Category::new(1);
