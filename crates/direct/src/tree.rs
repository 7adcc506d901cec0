//! A walk over the tree of one value: from the root to the leaves that hold some bytes.
//!
//! ```text
//! levels[0]  root        0 |                    |                     | len
//! levels[1]  node                0 |     |  ^  |    |
//! leaves                               leaf | leaf
//! ```
//! The nodes on the way to the current position stay fetched, one for each level; the next position pops
//! those that do not cover it. Leaves are equally deep. How deep is known once the first is met; from then
//! on the leaves below a node are fetched together, as far as they are wanted.
//!
//! Everything is checked on the way that can be checked without fetching more: a node's bounds against its
//! parent's, numbers, lengths. No node is entered that covers no byte of the value, and none below the
//! deepest level there can be, so that a walk ends on any graph of tuples.
use alloc::vec::Vec;
use core::ops::{ControlFlow, Range};

use pgtoast_base::ItemPointer;

use self::leaf::LeafRules;
use self::level::{Bounds, to_usize};
use crate::chunk_tuple::Shape;
use crate::group::GROUP_HEADER_LEN;
use crate::trailer::Trailer;
use crate::{ChunkStore, Cost, DirectError, Failure, Parameters, ValueTag};

mod leaf;
mod level;
mod root;

pub(crate) use self::leaf::HeldLeaf;
pub(crate) use self::level::{Level, to_i64};

/// What the root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The root is a leaf.
    Single,
    /// The root holds the last chunk, and the ids of the others.
    Flat,
    /// The root is an interior node.
    Tall,
}

/// One value's tree, and where the walk is.
pub(crate) struct Tree<'s, S: ChunkStore> {
    store: &'s S,
    rules: LeafRules,
    form: Form,
    /// The number of the root, without the mark.
    root_seq: i32,
    /// Where the root's own part of the value is in its tuple, and where it starts in the value.
    own: Range<usize>,
    own_start: usize,
    /// What the root's data begin with, in a value of groups.
    prefix: Option<[u8; GROUP_HEADER_LEN]>,
    levels: Vec<Level<S::Tuple<'s>>>,
    /// How many levels of nodes are above the leaves, once that is known.
    leaf_level: Option<usize>,
    /// The leaf that was met when the walk did not know where leaves are: below the last of `levels`.
    met: Option<(usize, S::Tuple<'s>)>,
    pub(crate) cost: Cost,
}

impl<'s, S: ChunkStore> Tree<'s, S> {
    pub(crate) const fn form(&self) -> Form {
        self.form
    }

    pub(crate) const fn is_edited(&self) -> bool {
        self.rules.is_edited
    }

    pub(crate) const fn chunk_bytes(&self) -> usize {
        self.rules.chunk_bytes
    }

    pub(crate) const fn has_trailers(&self) -> bool {
        self.rules.trailer_len > 0
    }

    /// The number of the root, without the mark.
    pub(crate) const fn root_seq(&self) -> i32 {
        self.root_seq
    }

    /// Where the root's own part starts in the value; its end where the root has none.
    pub(crate) const fn own_start(&self) -> usize {
        self.own_start
    }

    pub(crate) const fn stored_len(&self) -> usize {
        self.rules.stored_len
    }

    pub(crate) const fn prefix(&self) -> Option<[u8; GROUP_HEADER_LEN]> {
        self.prefix
    }

    pub(crate) fn root(&self) -> Option<&Level<S::Tuple<'s>>> {
        self.levels.first()
    }

    /// The root's own part of the value.
    pub(crate) fn own_data(&self) -> &[u8] {
        self.levels.first().map(|root| &root.tuple[self.own.clone()]).unwrap_or_default()
    }

    /// How many levels of nodes are above the leaves, if a leaf was met.
    pub(crate) const fn leaf_level(&self) -> Option<usize> {
        self.leaf_level
    }

    /// Hands out the leaves that hold `range`, each whole and with its place in the value, and says
    /// where the last of them ends. `range` is in the value, and not empty.
    #[inline]
    pub(crate) fn visit(
        &mut self,
        range: Range<usize>,
        mut sink: impl FnMut(usize, &[u8]),
    ) -> Result<usize, Failure<S::Error>> {
        let mut at = range.start;
        while at < range.end {
            if at >= self.own_start {
                let own = self.own_data();
                let len = own.len();
                sink(self.own_start, own);
                self.cost.leaf_bytes += len as u64;
                return Ok(self.rules.stored_len);
            }
            at = self.visit_siblings(at, range.end, &mut sink)?;
        }
        Ok(at)
    }

    /// Hands out the leaves below one node from the one that holds `at` on, and says where the last ends.
    #[inline]
    fn visit_siblings(
        &mut self,
        at: usize,
        wanted_end: usize,
        sink: &mut impl FnMut(usize, &[u8]),
    ) -> Result<usize, Failure<S::Error>> {
        let first = self.descend(at)?;
        let level = self.levels.len();
        let Some(node) = self.levels.last() else { return Ok(at) };
        let tids = node.tids();
        let bounds = self.bounds_of(node);
        // The wanted leaves, all of them somewhere in the node.
        let (mut last, len) = (first, node.range.len());
        loop {
            let child = bounds.child(node.tid, last, len)?;
            last += 1;
            if child.end >= wanted_end || last >= tids.len() {
                break;
            }
        }
        let (parent, rules) = (node.shape.seq, self.rules);
        let first_number = (bounds.start + to_usize(bounds.bound(first))) / rules.chunk_bytes;
        let Some(tids) = tids.get(first..last) else { return Ok(at) };
        let mut start = bounds.start + to_usize(bounds.bound(first));
        let mut skipped = 0;
        if let Some((child, tuple)) = self.met.take()
            && child == first
        {
            // Met on the way, and counted then.
            let range = start..bounds.start + to_usize(bounds.bound(first + 1));
            let tid = tids.first().map(|tid| tid.get()).unwrap_or_default();
            let data = rules.payload(&tuple, tid, &range, parent, first_number)?;
            self.cost.leaf_bytes += data.len() as u64;
            sink(start, data);
            (start, skipped) = (range.end, 1);
        }
        let (tids, number) = (&tids[skipped..], first_number + skipped);
        let bound_of = |index: usize| bounds.bound(first + skipped + index + 1);
        let (mut fetched, mut leaf_bytes) = (0_u32, 0_u64);
        let mut verdict = Ok(());
        let result = self.store.fetch_many(tids, |index, tuple| {
            let range = start..bounds.start + to_usize(bound_of(index));
            let data = match rules.full_payload(tuple, &range, number + index) {
                Some(data) => data,
                None => {
                    let tid = tids.get(index).map(|tid| tid.get()).unwrap_or_default();
                    match rules.payload(tuple, tid, &range, parent, number + index) {
                        Ok(data) => data,
                        Err(error) => {
                            verdict = Err(error);
                            return ControlFlow::Break(());
                        }
                    }
                }
            };
            fetched += 1;
            leaf_bytes += data.len() as u64;
            sink(start, data);
            start = range.end;
            ControlFlow::Continue(())
        });
        self.cost.leaf_bytes += leaf_bytes;
        self.cost.add(level, fetched);
        result.map_err(Failure::Store)?;
        verdict?;
        let end = start;
        if end <= at {
            return Err(self.stuck().into());
        }
        Ok(end)
    }

    /// A store that hands out fewer tuples than it was asked for would have the walk stand still.
    fn stuck(&self) -> DirectError {
        let tid = self.levels.last().map(|node| node.tid).unwrap_or_default();
        DirectError::NotLeaf { tid }
    }

    /// Holds the nodes above the leaf at `at`, and says which child of the last it is.
    #[inline]
    pub(crate) fn descend(&mut self, at: usize) -> Result<usize, Failure<S::Error>> {
        while self.levels.len() > 1
            && self.levels.last().is_some_and(|node| !node.range.contains(&at))
        {
            self.levels.pop();
            self.met = None;
        }
        loop {
            let level = self.levels.len();
            let Some(node) = self.levels.last() else { return Ok(0) };
            if self.form == Form::Flat {
                return Ok(at / self.rules.chunk_bytes);
            }
            let bounds = node.bounds();
            let child = bounds.find(at - node.range.start, node.tids().len());
            if self.leaf_level == Some(level) {
                return Ok(child);
            }
            let range = bounds.child(node.tid, child, node.range.len())?;
            if !range.contains(&at) {
                let (start, end) = (to_i64(range.start), to_i64(range.end));
                let (tid, len) = (node.tid, node.range.len());
                return Err(DirectError::Bounds { tid, child, start, end, len }.into());
            }
            let parent = node.shape.seq;
            let Some(tid) = node.tids().get(child).map(|tid| tid.get()) else { return Ok(child) };
            self.cost.count(level);
            let tuple = self.store.fetch(tid).map_err(Failure::Store)?;
            let shape = Shape::of(&tuple, tid)?;
            if shape.is_leaf() {
                if self.leaf_level.is_some() {
                    return Err(DirectError::NotNode { tid }.into());
                }
                self.leaf_level = Some(level);
                self.met = Some((child, tuple));
                return Ok(child);
            }
            self.enter(Level { tuple, tid, shape, range }, parent)?;
        }
    }

    /// Holds a node below the current one.
    fn enter(&mut self, node: Level<S::Tuple<'s>>, parent: i32) -> Result<(), Failure<S::Error>> {
        let tid = node.tid;
        if self.levels.len() >= Parameters::MAX_DEPTH
            || self.leaf_level.is_some_and(|level| self.levels.len() >= level)
        {
            return Err(DirectError::Depth { tid, limit: Parameters::MAX_DEPTH }.into());
        }
        if node.shape.bounds.is_none() {
            return Err(DirectError::NotNode { tid }.into());
        }
        if node.shape.data.is_some() {
            return Err(DirectError::NodeData { tid }.into());
        }
        let found = node.shape.seq;
        if found < 0 || found >= parent {
            return Err(DirectError::ParentNumber { tid, found, parent }.into());
        }
        node.check()?;
        self.levels.push(node);
        Ok(())
    }

    /// The leaf at `at`, held: where it starts in the value, where its data are in its tuple.
    pub(crate) fn leaf(&mut self, at: usize) -> Result<HeldLeaf<S::Tuple<'s>>, Failure<S::Error>> {
        if at >= self.own_start {
            let Some(root) = self.levels.first() else {
                return Err(DirectError::Empty.into());
            };
            self.cost.leaf_bytes += self.own.len() as u64;
            return Ok(HeldLeaf {
                tuple: root.tuple.clone(),
                data: self.own.clone(),
                start: self.own_start,
                tid: root.tid,
                seq: self.root_seq,
            });
        }
        let child = self.descend(at)?;
        let Some(node) = self.levels.last() else { return Err(DirectError::Empty.into()) };
        let range = self.bounds_of(node).child(node.tid, child, node.range.len())?;
        let parent = node.shape.seq;
        let tid = node.tids().get(child).map(|tid| tid.get()).unwrap_or_default();
        let tuple = match self.met.take() {
            Some((met, tuple)) if met == child => tuple,
            _ => {
                let level = self.levels.len();
                self.cost.count(level);
                self.store.fetch(tid).map_err(Failure::Store)?
            }
        };
        let len = self
            .rules
            .payload(&tuple, tid, &range, parent, range.start / self.rules.chunk_bytes)?
            .len();
        self.cost.leaf_bytes += len as u64;
        let shape = Shape::of(&tuple, tid)?;
        let start = shape.data.map_or(0, |data| data.start);
        Ok(HeldLeaf { tuple, data: start..start + len, start: range.start, tid, seq: shape.seq })
    }

    /// Where the leaf that holds byte `at` starts and ends, in a tall tree; it is fetched only where
    /// nothing else says how deep leaves are.
    pub(crate) fn leaf_range(&mut self, at: usize) -> Result<Range<usize>, Failure<S::Error>> {
        let child = self.descend(at)?;
        let Some(node) = self.levels.last() else { return Err(DirectError::Empty.into()) };
        Ok(node.bounds().child(node.tid, child, node.range.len())?)
    }

    /// Where the children of a node start and end.
    #[inline]
    pub(crate) fn bounds_of<'t>(&self, node: &'t Level<S::Tuple<'_>>) -> Bounds<'t> {
        let mut bounds = node.bounds();
        if self.form == Form::Flat {
            bounds.chunk_bytes = self.rules.chunk_bytes;
        }
        bounds
    }

    /// Whether a leaf is what it has to be, to hold `range` of the value.
    pub(crate) fn check_leaf(
        &self,
        tuple: &[u8],
        tid: ItemPointer,
        range: &Range<usize>,
        parent: i32,
    ) -> Result<(), DirectError> {
        let number = range.start / self.rules.chunk_bytes;
        self.rules.payload(tuple, tid, range, parent, number).map(|_| ())
    }

    /// The tag in the trailer of the root: that of the latest edition.
    pub(crate) fn tag(&self) -> Option<ValueTag> {
        let root = self.levels.first().filter(|_| self.rules.trailer_len > 0)?;
        let data = root.tuple.get(root.shape.data.clone()?)?;
        Trailer::split(data).map(|(_, trailer)| trailer.draft().tag)
    }
}
