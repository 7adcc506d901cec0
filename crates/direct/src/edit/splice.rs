//! Writes the leaves, nodes and root of a new version.
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use pgtoast_base::{ItemPointer, ItemPointerData};

use super::{Entry, Fresh, Group, Plan, leaves};
use crate::chunk_tuple::Shape;
use crate::delete::Nodes;
use crate::draft::{Draft, EDITED};
use crate::trailer::TrailerDraft;
use crate::tree::Level;
use crate::{ChunkFault, ChunkStore, DirectError, Failure, Parameters};

/// A new version in the making.
pub(super) struct Splice<'s, 'p, S> {
    store: &'s mut S,
    parameters: Parameters,
    trailer: Option<TrailerDraft>,
    rope: Rope<'p>,
    created: Vec<ItemPointer>,
    retired: Vec<ItemPointer>,
}

/// The bytes of the new leaves.
#[derive(Clone, Copy)]
struct Rope<'p> {
    pieces: [&'p [u8]; 3],
}

impl<'p> Rope<'p> {
    /// Some of them, which are there.
    fn slice(&self, start: usize, len: usize) -> [&'p [u8]; 3] {
        let mut from = start;
        let mut left = len;
        self.pieces.map(|piece| {
            let skipped = from.min(piece.len());
            let taken = left.min(piece.len() - skipped);
            from -= skipped;
            left -= taken;
            &piece[skipped..skipped + taken]
        })
    }
}

impl<'s, 'p, S: ChunkStore> Splice<'s, 'p, S> {
    pub(super) fn new(
        store: &'s mut S,
        parameters: Parameters,
        trailer: Option<TrailerDraft>,
        plan: &'p Plan,
        inserted: &'p [u8],
    ) -> Self {
        let rope = Rope { pieces: [&plan.head, inserted, &plan.tail] };
        Self { store, parameters, trailer, rope, created: Vec::new(), retired: Vec::new() }
    }

    /// Deletes what was written, as far as that works.
    pub(super) fn undo(&mut self) {
        for tid in core::mem::take(&mut self.created) {
            let _ = self.store.delete(tid);
        }
    }

    pub(super) fn into_lists(self) -> (Vec<ItemPointer>, usize) {
        (self.retired, self.created.len())
    }

    /// Writes everything, the root last, and says where that is.
    pub(super) fn run(&mut self, plan: &Plan) -> Result<ItemPointer, Failure<S::Error>> {
        if plan.levels == 0 {
            return self.small(plan);
        }
        let mut fresh = Vec::with_capacity(plan.fresh.len());
        let mut start = 0;
        for leaf in &plan.fresh {
            fresh.push(self.leaf(leaf, start)?);
            start += leaf.len;
        }
        let groups = self.node(plan, plan.children.clone(), plan.root_seq, &fresh, plan.levels)?;
        self.retired.push(plan.root);
        self.root(plan, groups, plan.levels)
    }

    fn leaf(&mut self, leaf: &Fresh, start: usize) -> Result<Entry, Failure<S::Error>> {
        let tid = self.chunk(leaf.seq, &self.rope.slice(start, leaf.len), None)?;
        Ok(Entry { tid, len: leaf.len, seq: leaf.seq, at: leaf.at })
    }

    fn chunk(
        &mut self,
        seq: i32,
        pieces: &[&[u8]],
        tids: Option<&[ItemPointerData]>,
    ) -> Result<ItemPointer, Failure<S::Error>> {
        let draft = Draft { seq, data: Some(pieces), trailer: self.trailer, tids, bounds: None };
        let tid = draft.insert(self.store)?;
        self.created.push(tid);
        Ok(tid)
    }

    /// What becomes of a node, `levels` above the leaves, with these children.
    fn node(
        &mut self,
        plan: &Plan,
        children: Vec<Entry>,
        seq: i32,
        fresh: &[Entry],
        levels: usize,
    ) -> Result<Vec<Group>, Failure<S::Error>> {
        let touched = &plan.touched;
        let mut kept = Vec::with_capacity(children.len() + 1);
        for child in children {
            let (start, end) = (child.at, child.at + child.len);
            let mine = fresh.partition_point(|leaf| leaf.at < start)
                ..fresh.partition_point(|leaf| leaf.at < end);
            let mine = &fresh[mine];
            let overlaps = touched.start < end && start < touched.end;
            if !overlaps && mine.is_empty() {
                kept.push(child);
            } else if levels <= 1 {
                // Touched leaves go whole.
                if overlaps {
                    self.retired.push(child.tid);
                } else {
                    kept.push(child);
                }
                kept.extend_from_slice(mine);
            } else if mine.is_empty() && touched.start <= start && end <= touched.end {
                self.retire_below(&child, seq, levels - 1)?;
            } else {
                let (grandchildren, child_seq) = self.load(&child, seq)?;
                self.retired.push(child.tid);
                for group in self.node(plan, grandchildren, child_seq, mine, levels - 1)? {
                    kept.push(self.insert(&group, 0)?);
                }
            }
        }
        Ok(Group::split(kept, seq, &self.parameters, plan.is_at_end))
    }

    fn insert(&mut self, group: &Group, mark: i32) -> Result<Entry, Failure<S::Error>> {
        let entry = group.insert(self.store, mark, self.trailer.filter(|_| mark != 0))?;
        self.created.push(entry.tid);
        Ok(entry)
    }

    /// Puts a root on top of nodes that are `levels` above the leaves.
    fn root(
        &mut self,
        plan: &Plan,
        mut groups: Vec<Group>,
        mut levels: usize,
    ) -> Result<ItemPointer, Failure<S::Error>> {
        loop {
            if levels > Parameters::MAX_DEPTH {
                let limit = Parameters::MAX_DEPTH;
                return Err(DirectError::Depth { tid: plan.root, limit }.into());
            }
            match groups.as_slice() {
                [] => return Err(DirectError::Empty.into()),
                [group] => match group.children.as_slice() {
                    [only] if levels <= 1 => {
                        let only = *only;
                        return self.single(&only);
                    }
                    [only] => {
                        let only = *only;
                        let (children, seq) = self.load(&only, i32::MAX)?;
                        self.discard(only.tid)?;
                        groups = Group::split(children, seq, &self.parameters, true);
                        levels -= 1;
                    }
                    _ => return Ok(self.insert(group, EDITED)?.tid),
                },
                _ => {
                    let mut children = Vec::with_capacity(groups.len());
                    for group in &groups {
                        children.push(self.insert(group, 0)?);
                    }
                    groups =
                        Group::split(children, plan.root_seq, &self.parameters, plan.is_at_end);
                    levels += 1;
                }
            }
        }
    }

    /// The only leaf that is left becomes the root.
    fn single(&mut self, leaf: &Entry) -> Result<ItemPointer, Failure<S::Error>> {
        let (tid, expected) = (leaf.tid, leaf.len);
        let data = {
            let tuple = self.store.fetch(tid).map_err(Failure::Store)?;
            let shape = Shape::of(&tuple, tid)?;
            let fault = ChunkFault::Empty;
            let data = shape.view(&tuple).data.ok_or(DirectError::Chunk { tid, fault })?;
            let found = data.len().saturating_sub(self.parameters.trailer_len());
            if found != expected {
                return Err(DirectError::ChunkLen { tid, found, expected }.into());
            }
            data[..expected].to_vec()
        };
        self.discard(tid)?;
        self.chunk(EDITED, &[&data], None)
    }

    /// A tuple that the new version turned out not to need.
    fn discard(&mut self, tid: ItemPointer) -> Result<(), Failure<S::Error>> {
        match self.created.iter().position(|created| *created == tid) {
            Some(index) => {
                self.store.delete(tid).map_err(Failure::Store)?;
                self.created.swap_remove(index);
            }
            None => self.retired.push(tid),
        }
        Ok(())
    }

    /// The children of a node, and its number.
    fn load(&self, node: &Entry, parent: i32) -> Result<(Vec<Entry>, i32), Failure<S::Error>> {
        let tid = node.tid;
        let tuple = self.store.fetch(tid).map_err(Failure::Store)?;
        let shape = Shape::of(&tuple, tid)?;
        let seq = shape.seq;
        if seq < 0 || seq >= parent {
            return Err(DirectError::ParentNumber { tid, found: seq, parent }.into());
        }
        let level = Level { tuple, tid, shape, range: node.at..node.at + node.len };
        level.check()?;
        Ok((leaves::children_of(&level)?, seq))
    }

    /// The old version alone has what is below `child`, `levels` of nodes above the leaves, and itself.
    fn retire_below(
        &mut self,
        child: &Entry,
        parent: i32,
        levels: usize,
    ) -> Result<(), Failure<S::Error>> {
        let mut nodes =
            Nodes { store: &*self.store, seen: BTreeSet::new(), tids: &mut self.retired };
        nodes.walk(&[ItemPointerData::new(child.tid)], parent, levels + 1)
    }

    /// A value that was small: it stays so if its chunks are as a writer cuts them, and few enough.
    fn small(&mut self, plan: &Plan) -> Result<ItemPointer, Failure<S::Error>> {
        let chunk_bytes = self.parameters.chunk_bytes();
        let (touched, fresh) = (&plan.touched, &plan.fresh);
        let before = plan.children.iter().filter(|child| child.at < touched.start);
        let behind = plan.children.iter().filter(|child| child.at >= touched.end);
        let gone = plan.children.iter().filter(|child| touched.contains(&child.at));
        self.retired.extend(gone.map(|child| child.tid));
        self.retired.push(plan.root);

        let own_len = plan.own.as_ref().map(Vec::len);
        let lens = (before.clone().map(|child| child.len))
            .chain(fresh.iter().map(|leaf| leaf.len))
            .chain(behind.clone().map(|child| child.len))
            .chain(own_len);
        let count = lens.clone().count();
        let is_uniform = lens.take(count - 1).all(|len| len == chunk_bytes);
        let is_flat = is_uniform && count <= self.parameters.flat_chunks();

        // The last chunk is held back from a flat tree, for the root.
        let held_back = usize::from(is_flat && plan.own.is_none());
        let mut children: Vec<_> = before.copied().collect();
        let mut start = 0;
        for leaf in &fresh[..fresh.len() - held_back] {
            children.push(self.leaf(leaf, start)?);
            start += leaf.len;
        }
        children.extend(behind);
        let least = super::number(0, children.len());
        let seq = children.iter().map(|child| child.seq + 1).fold(least, i32::max);
        if is_flat {
            let tids: Vec<_> =
                children.iter().map(|child| ItemPointerData::new(child.tid)).collect();
            let tids = Some(tids.as_slice()).filter(|tids| !tids.is_empty());
            return match (&plan.own, fresh.last()) {
                (Some(own), _) => self.chunk(seq | EDITED, &[own], tids),
                (None, Some(last)) => {
                    self.chunk(seq | EDITED, &self.rope.slice(start, last.len), tids)
                }
                (None, None) => Err(DirectError::Empty.into()),
            };
        }
        if let Some(own) = &plan.own {
            let tid = self.chunk(seq, &[own], None)?;
            children.push(Entry { tid, len: own.len(), seq, at: touched.end });
        }
        let groups = Group::split(children, plan.root_seq, &self.parameters, true);
        self.root(plan, groups, 1)
    }
}
