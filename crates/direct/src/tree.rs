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

use pgtoast_base::{ItemPointer, ItemPointerData};
use zerocopy::little_endian::I64;

use crate::chunk_tuple::{LEAF_HEAD_LEN, Shape, plain_leaf};
use crate::draft::EDITED;
use crate::group::GROUP_HEADER_LEN;
use crate::trailer::Trailer;
use crate::{ChunkFault, ChunkStore, Cost, DirectError, Failure, Parameters, ValueTag};

/// A node that is held.
pub(crate) struct Level<T> {
    pub(crate) tuple: T,
    pub(crate) tid: ItemPointer,
    pub(crate) shape: Shape,
    /// The bytes of the value below it.
    pub(crate) range: Range<usize>,
}

impl<T: core::ops::Deref<Target = [u8]>> Level<T> {
    #[inline]
    pub(crate) fn tids(&self) -> &[ItemPointerData] {
        self.shape.tids(&self.tuple)
    }

    #[inline]
    pub(crate) fn bounds(&self) -> Bounds<'_> {
        Bounds { bounds: self.shape.bounds(&self.tuple), start: self.range.start, chunk_bytes: 0 }
    }

    /// Whether the node's own columns agree with each other and with the bytes that it should cover.
    pub(crate) fn check(&self) -> Result<(), DirectError> {
        let (tid, len) = (self.tid, self.range.len());
        if self.shape.is_leaf() || self.shape.bounds.is_none() {
            return Err(DirectError::NotNode { tid });
        }
        let count = self.tids().len();
        let bounds = self.shape.bounds(&self.tuple);
        if bounds.len() != count + 1 {
            return Err(DirectError::NodeBounds { tid, found: bounds.len(), expected: count + 1 });
        }
        let ends = self.bounds();
        let (start, end) = (ends.bound(0), ends.bound(count));
        if start != 0 || end != to_i64(len) {
            return Err(DirectError::Bounds { tid, child: count, start, end, len });
        }
        Ok(())
    }
}

/// Where children of a node start and end in the value: by the node's bounds, or below a flat root by the
/// chunk size alone.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'t> {
    bounds: &'t [I64],
    start: usize,
    /// Not 0 below a flat root.
    chunk_bytes: usize,
}

impl Bounds<'_> {
    /// Where child `child` starts, relative to the node; what is stored, whatever that is.
    #[inline]
    fn bound(&self, child: usize) -> i64 {
        if self.chunk_bytes > 0 {
            to_i64(child * self.chunk_bytes)
        } else {
            self.bounds.get(child).map_or(-1, |bound| bound.get())
        }
    }

    /// The bytes of the value that child `child` holds, none of them outside the node's `len`.
    #[inline]
    pub(crate) fn child(
        &self,
        tid: ItemPointer,
        child: usize,
        len: usize,
    ) -> Result<Range<usize>, DirectError> {
        let (start, end) = (self.bound(child), self.bound(child + 1));
        match (usize::try_from(start), usize::try_from(end)) {
            (Ok(from), Ok(to)) if from < to && to <= len => Ok(self.start + from..self.start + to),
            _ => Err(DirectError::Bounds { tid, child, start, end, len }),
        }
    }

    /// The child that should hold byte `at` of the node: nearly always all children but the last hold
    /// equally much, so that the first one's size leads to it.
    #[inline]
    fn find(&self, at: usize, count: usize) -> usize {
        let first = usize::try_from(self.bound(1)).unwrap_or_default().max(1);
        let guess = (at / first).min(count.saturating_sub(1));
        let at = to_i64(at);
        if self.bound(guess) <= at && at < self.bound(guess + 1) {
            return guess;
        }
        let starts = self.bounds.get(..count).unwrap_or_default();
        starts.partition_point(|start| start.get() <= at).saturating_sub(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The root is a leaf.
    Single,
    /// The root holds the last chunk, and the ids of the others.
    Flat,
    /// The root is an interior node.
    Tall,
}

/// What is asked of each leaf.
#[derive(Clone, Copy)]
struct LeafRules {
    chunk_bytes: usize,
    trailer_len: usize,
    is_edited: bool,
    stored_len: usize,
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
    /// Fetches the root of a value of `stored_len` bytes.
    pub(crate) fn open(
        store: &'s S,
        parameters: Parameters,
        root: ItemPointer,
        stored_len: usize,
        has_groups: bool,
    ) -> Result<Self, Failure<S::Error>> {
        let mut cost = Cost::default();
        cost.count(0);
        let tuple = store.fetch(root).map_err(Failure::Store)?;
        let mut shape = Shape::of(&tuple, root)?;
        let is_edited = shape.seq & EDITED != 0;
        shape.seq &= !EDITED;
        let form = match (&shape.tids, &shape.bounds) {
            (None, None) => Form::Single,
            (Some(_), None) => Form::Flat,
            (Some(_), Some(_)) => Form::Tall,
            (None, Some(_)) => return Err(DirectError::NotNode { tid: root }.into()),
        };
        let chunk_bytes = parameters.chunk_bytes();
        let count = shape.tids(&tuple).len();
        let own_start = match form {
            Form::Single => 0,
            Form::Flat => count * chunk_bytes,
            Form::Tall => stored_len,
        };
        let trailer_len = parameters.trailer_len();
        let (own, prefix) = own_data(&shape, &tuple, root, has_groups, trailer_len)?;
        let rules =
            LeafRules { chunk_bytes, trailer_len: parameters.trailer_len(), is_edited, stored_len };
        let tree = Self {
            store,
            rules,
            form,
            root_seq: shape.seq,
            own,
            own_start,
            prefix,
            levels: {
                let mut levels = Vec::with_capacity(5);
                levels.push(Level { tuple, tid: root, shape, range: 0..own_start });
                levels
            },
            leaf_level: (form == Form::Flat).then_some(1),
            met: None,
            cost,
        };
        tree.check_root(count)?;
        Ok(tree)
    }

    fn check_root(&self, count: usize) -> Result<(), DirectError> {
        let Some(root) = self.levels.first() else { return Ok(()) };
        let (tid, stored_len) = (root.tid, self.rules.stored_len);
        let chunk_bytes = self.rules.chunk_bytes;
        if root.shape.seq < 0 {
            return Err(DirectError::ChunkNumber { tid, found: root.shape.seq, expected: 0 });
        }
        if self.form == Form::Tall {
            root.check()?;
            let (len, data) = (self.rules.trailer_len, root.shape.data.as_ref());
            return check_trailer(len, data, &root.tuple, root.shape.seq, tid);
        }
        let expected = stored_len.div_ceil(chunk_bytes).saturating_sub(1);
        if self.form == Form::Flat && count != expected {
            return Err(DirectError::FlatChildren { tid, found: count, expected });
        }
        let found = self.own.len();
        let most = stored_len.saturating_sub(self.own_start);
        if found != most || found > chunk_bytes {
            let expected = most.min(chunk_bytes);
            return Err(DirectError::ChunkLen { tid, found, expected });
        }
        let expected = i32::try_from(count).unwrap_or(i32::MAX);
        // Of an edited value the leaves keep their numbers, which the root's has to be above of.
        let found = root.shape.seq;
        if found < expected || found > expected && !self.rules.is_edited {
            return Err(DirectError::ChunkNumber { tid, found, expected });
        }
        check_trailer(self.rules.trailer_len, root.shape.data.as_ref(), &root.tuple, found, tid)
    }

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
        let is_flat = self.form == Form::Flat;
        let Some(node) = self.levels.last() else { return Ok(at) };
        let tids = node.tids();
        let mut bounds = node.bounds();
        if is_flat {
            bounds.chunk_bytes = self.rules.chunk_bytes;
        }
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
        let mut bounds = node.bounds();
        if self.form == Form::Flat {
            bounds.chunk_bytes = self.rules.chunk_bytes;
        }
        let range = bounds.child(node.tid, child, node.range.len())?;
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

/// A leaf that is held.
pub(crate) struct HeldLeaf<T> {
    pub(crate) tuple: T,
    pub(crate) data: Range<usize>,
    /// Where its data start in the value.
    pub(crate) start: usize,
    pub(crate) tid: ItemPointer,
    pub(crate) seq: i32,
}

impl<T: core::ops::Deref<Target = [u8]>> HeldLeaf<T> {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.tuple[self.data.clone()]
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.start + self.data.len()
    }
}

impl LeafRules {
    /// As [`payload`](Self::payload), for what is nearly every leaf that is read: full or the last, without a
    /// trailer, of a value that was not edited. `None` for all others, sound or not.
    #[inline(always)]
    fn full_payload<'t>(
        &self,
        tuple: &'t [u8],
        range: &Range<usize>,
        number: usize,
    ) -> Option<&'t [u8]> {
        let seq = plain_leaf(tuple)?;
        let data = tuple.get(LEAF_HEAD_LEN..)?;
        let start = number * self.chunk_bytes;
        let is_it = usize::try_from(seq) == Ok(number)
            && range.start == start
            && data.len() == range.len()
            && data.len() == self.chunk_bytes.min(self.stored_len - start)
            && !self.is_edited
            && self.trailer_len == 0;
        is_it.then_some(data)
    }

    /// The data of a leaf that should hold `range` of the value; `number` is that of the leaf there, where
    /// all before it are full.
    #[inline]
    fn payload<'t>(
        &self,
        tuple: &'t [u8],
        tid: ItemPointer,
        range: &Range<usize>,
        parent: i32,
        number: usize,
    ) -> Result<&'t [u8], DirectError> {
        let (seq, data) = match plain_leaf(tuple) {
            Some(seq) => (seq, &tuple[LEAF_HEAD_LEN..]),
            None => {
                let chunk = Shape::of(tuple, tid)?.view(tuple);
                match (chunk.data, chunk.tids) {
                    (Some(data), None) => (chunk.seq, data),
                    (_, Some(_)) => return Err(DirectError::NotLeaf { tid }),
                    (None, None) => {
                        return Err(DirectError::Chunk { tid, fault: ChunkFault::Empty });
                    }
                }
            }
        };
        if self.is_edited {
            if seq < 0 || seq >= parent {
                return Err(DirectError::ParentNumber { tid, found: seq, parent });
            }
            if range.len() > self.chunk_bytes {
                let (found, expected) = (range.len(), self.chunk_bytes);
                return Err(DirectError::ChunkLen { tid, found, expected });
            }
        } else {
            let start = number * self.chunk_bytes;
            let full = self.chunk_bytes.min(self.stored_len - start);
            if range.start != start || range.len() != full {
                return Err(DirectError::ChunkLen { tid, found: range.len(), expected: full });
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "2^26")]
            let expected = number as i32;
            if seq != expected {
                return Err(DirectError::ChunkNumber { tid, found: seq, expected });
            }
        }
        let expected = range.len() + self.trailer_len;
        if data.len() != expected {
            return Err(DirectError::ChunkLen { tid, found: data.len(), expected });
        }
        if self.trailer_len > 0 {
            check_trailer(self.trailer_len, Some(&(0..data.len())), data, seq, tid)?;
        }
        Ok(&data[..range.len()])
    }
}

/// Whether the trailer at the end of `data`, which is in `tuple`, is that of the data before it.
fn check_trailer(
    trailer_len: usize,
    data: Option<&Range<usize>>,
    tuple: &[u8],
    seq: i32,
    tid: ItemPointer,
) -> Result<(), DirectError> {
    let bytes = data.and_then(|range| tuple.get(range.clone()));
    if trailer_len == 0 {
        return Ok(());
    }
    let Some((data, trailer)) = bytes.and_then(Trailer::split) else {
        return Err(DirectError::ChunkLen { tid, found: 0, expected: trailer_len });
    };
    match trailer.sums(seq.cast_unsigned(), data) {
        (found, expected) if found != expected => {
            Err(DirectError::Trailer { tid, found, expected })
        }
        _ => Ok(()),
    }
}

type OwnData = (Range<usize>, Option<[u8; GROUP_HEADER_LEN]>);

/// Which of the root's data is of the value, behind what a value of groups has there and without the
/// trailer.
fn own_data(
    shape: &Shape,
    tuple: &[u8],
    tid: ItemPointer,
    has_groups: bool,
    trailer_len: usize,
) -> Result<OwnData, DirectError> {
    let is_node = shape.bounds.is_some();
    let prefix_len = if has_groups { GROUP_HEADER_LEN } else { 0 };
    let expected = prefix_len + trailer_len;
    let Some(data) = shape.data.clone() else {
        if !is_node || expected > 0 {
            return Err(DirectError::Chunk { tid, fault: ChunkFault::Empty });
        }
        return Ok((0..0, None));
    };
    if is_node && expected == 0 {
        return Err(DirectError::NodeData { tid });
    }
    let found = data.len();
    if found < expected || is_node && found > expected {
        return Err(DirectError::ChunkLen { tid, found, expected });
    }
    let own = data.start + prefix_len..data.end - trailer_len;
    let prefix = if has_groups { tuple[data].first_chunk().copied() } else { None };
    Ok((own, prefix))
}

/// A length or place in a value or tuple: less than 2^31.
#[inline]
#[expect(clippy::cast_possible_wrap, reason = "less than 2^31")]
pub(crate) const fn to_i64(bytes: usize) -> i64 {
    bytes as i64
}

/// A bound that was checked.
#[inline]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "inside the value")]
const fn to_usize(bound: i64) -> usize {
    bound as usize
}
