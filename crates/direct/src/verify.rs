//! Everything that is wrong with a value, and with all values of a relation together.
//!
//! Where reading stops at the first fault, this goes on with what can still be reached. A tuple is looked at once,
//! however often it is referred to, so that the time is bounded by the tuples there are, and not by the paths to
//! them. Of a tree as a writer makes it every number and every bound is known beforehand; of an edited one only
//! the weaker rules are asked.
use alloc::collections::{BTreeMap, BTreeSet};

use pgtoast_base::ItemPointer;
use pgtoast_varlena::DirectPointer;

use crate::chunk_tuple::Shape;
use crate::relation::Promise;
use crate::trailer::StoredForm;
use crate::tree::{Form, Level, Tree, to_i64};
use crate::{ChunkFault, ChunkStore, DirectError, DirectRelation, Failure, Parameters};

impl DirectRelation {
    /// Hands every fault of a value to `report`, and says how many tuples it was found to take. Of a value
    /// whose tree is sound, what is compressed is decompressed, too.
    pub fn verify<S: ChunkStore>(
        &self,
        store: &S,
        pointer: &DirectPointer,
        mut report: impl FnMut(Failure<S::Error>),
    ) -> usize {
        self.check_value(store, pointer, &mut report).seen.len()
    }

    /// Verifies the values of a relation, and then what they leave of its tuples: one that belongs to two
    /// values, though at most one of them was not edited, and one that belongs to none. `pointers` are those in
    /// the parent table; the same one twice is one value with two row versions. `tuples` are all that
    /// can be seen in the relation; those of plain values are passed over.
    ///
    /// `report` is handed the root of the value at fault, if it is one's.
    pub fn verify_all<'t, S: ChunkStore>(
        &self,
        store: &S,
        pointers: impl IntoIterator<Item = DirectPointer>,
        tuples: impl IntoIterator<Item = (ItemPointer, &'t [u8])>,
        mut report: impl FnMut(Option<ItemPointer>, Failure<S::Error>),
    ) {
        // For each tuple of a value, whether one that was not edited has it.
        let mut owners = BTreeMap::<ItemPointer, bool>::new();
        let mut known = BTreeMap::<ItemPointer, DirectPointer>::new();
        for pointer in pointers {
            let root = pointer.root();
            if known.get(&root) == Some(&pointer) {
                continue;
            }
            known.insert(root, pointer);
            let checked = self.check_value(store, &pointer, &mut |fault| report(Some(root), fault));
            let unedited = !checked.is_edited;
            for tid in checked.seen {
                match owners.get_mut(&tid) {
                    Some(owner) if *owner && unedited => {
                        report(Some(root), DirectError::DoublyReferenced { tid }.into());
                    }
                    Some(owner) => *owner |= unedited,
                    None => drop(owners.insert(tid, unedited)),
                }
            }
        }
        for (tid, tuple) in tuples {
            match Shape::of(tuple, tid) {
                Ok(_) if owners.contains_key(&tid) => {}
                Ok(_) => report(None, DirectError::Orphan { tid }.into()),
                Err(DirectError::Chunk { fault: ChunkFault::PlainValue, .. }) => {}
                Err(_) if owners.contains_key(&tid) => {} // its value's fault, and reported as such
                Err(error) => report(None, error.into()),
            }
        }
    }

    fn check_value<S: ChunkStore>(
        &self,
        store: &S,
        pointer: &DirectPointer,
        report: &mut dyn FnMut(Failure<S::Error>),
    ) -> Checked {
        let mut checked = Checked { seen: BTreeSet::new(), is_edited: false };
        let mut faults = 0_usize;
        let mut counting = |fault| {
            faults += 1;
            report(fault);
        };
        match self.resolve(pointer) {
            Ok(promise) => {
                self.check_tree(store, &promise, &mut checked, &mut counting);
                if faults == 0
                    && promise.form != StoredForm::AsIs
                    && let Err(error) = self.read(store, pointer)
                {
                    report(error);
                }
            }
            Err(error) => counting(error.into()),
        }
        checked
    }

    fn check_tree<S: ChunkStore>(
        &self,
        store: &S,
        promise: &Promise,
        checked: &mut Checked,
        report: &mut dyn FnMut(Failure<S::Error>),
    ) {
        checked.seen.insert(promise.root);
        let tree = match self.tree(store, promise) {
            Ok(tree) => tree,
            Err(error) => return report(error),
        };
        checked.is_edited = tree.is_edited();
        let parameters = *self.parameters();
        let chunks = parameters.chunk_count(promise.stored_len);
        let tid = promise.root;
        let is_small = chunks <= parameters.flat_chunks();
        if !tree.is_edited() && is_small == (tree.form() == Form::Tall) {
            let flat_chunks = parameters.flat_chunks();
            report(DirectError::RootForm { tid, chunks, flat_chunks }.into());
        }
        let Some(root) = tree.root() else { return };
        let levels = Levels::of(chunks, parameters.fanout());
        let mut walk = Walk {
            store,
            tree: &tree,
            parameters,
            levels: (!tree.is_edited()).then_some(&levels),
            leaf_depth: None,
            seen: &mut checked.seen,
            report,
        };
        walk.children(root, 0);
    }
}

/// What a value was found to take.
struct Checked {
    seen: BTreeSet<ItemPointer>,
    is_edited: bool,
}

/// How many tuples each level of an unedited tree has, leaves first, and the first number of each.
struct Levels {
    levels: alloc::vec::Vec<(usize, usize)>,
    fanout: usize,
}

impl Levels {
    fn of(chunks: usize, fanout: usize) -> Self {
        let mut levels = alloc::vec![(chunks, 0)];
        let (mut count, mut next) = (chunks, chunks);
        while count > 1 {
            count = count.div_ceil(fanout);
            levels.push((count, next));
            next += count;
        }
        Self { levels, fanout }
    }

    /// What a node has to be: its number, and how many children it has. `depth` is 0 for the root.
    fn node(&self, depth: usize, start: usize, chunk_bytes: usize) -> Option<(usize, usize)> {
        let level = self.levels.len().checked_sub(depth + 1)?;
        let below = level.checked_sub(1)?;
        let span = (0..level).fold(chunk_bytes, |span, _| span.saturating_mul(self.fanout));
        let index = start / span;
        let (count, first) = *self.levels.get(level)?;
        let (children, _) = *self.levels.get(below)?;
        let is_there = index < count && index * span == start;
        is_there.then(|| (first + index, self.fanout.min(children - index * self.fanout)))
    }
}

/// A look at every tuple below a root.
struct Walk<'w, 's, S: ChunkStore> {
    store: &'s S,
    tree: &'w Tree<'s, S>,
    parameters: Parameters,
    /// For a tree that was not edited.
    levels: Option<&'w Levels>,
    leaf_depth: Option<usize>,
    seen: &'w mut BTreeSet<ItemPointer>,
    report: &'w mut dyn FnMut(Failure<S::Error>),
}

impl<S: ChunkStore> Walk<'_, '_, S> {
    fn fault(&mut self, error: DirectError) {
        (self.report)(error.into());
    }

    /// Looks at what is below a node, `depth` levels below the root.
    fn children(&mut self, node: &Level<S::Tuple<'_>>, depth: usize) {
        let (tid, count) = (node.tid, node.tids().len());
        let is_tall = self.tree.form() == Form::Tall;
        if is_tall {
            let least = if depth == 0 { 2 } else { 1 };
            let (mut least, mut most) = (least, self.parameters.fanout());
            if let Some(levels) = self.levels {
                let chunk_bytes = self.parameters.chunk_bytes();
                match levels.node(depth, node.range.start, chunk_bytes) {
                    Some((number, children)) => {
                        (least, most) = (children, children);
                        let expected = i32::try_from(number).unwrap_or(i32::MAX);
                        if node.shape.seq != expected {
                            let found = node.shape.seq;
                            self.fault(DirectError::ChunkNumber { tid, found, expected });
                        }
                    }
                    None => self.fault(DirectError::NotLeaf { tid }),
                }
            }
            if !(least..=most).contains(&count) {
                self.fault(DirectError::NodeChildren { tid, found: count, least, most });
            }
        }
        let bounds = self.tree.bounds_of(node);
        let mut end = node.range.start;
        for index in 0..count {
            let Some(child_tid) = node.tids().get(index).map(|child| child.get()) else { break };
            let range = match bounds.child(tid, index, node.range.len()) {
                Ok(range) if range.start == end => range,
                Ok(range) => {
                    let (start, stop) = (to_i64(range.start), to_i64(range.end));
                    let len = node.range.len();
                    self.fault(DirectError::Bounds { tid, child: index, start, end: stop, len });
                    range
                }
                Err(error) => {
                    self.fault(error);
                    continue;
                }
            };
            end = range.end;
            if self.seen.insert(child_tid) {
                self.child(child_tid, range, node.shape.seq, depth + 1);
            } else {
                self.fault(DirectError::DoublyReferenced { tid: child_tid });
            }
        }
    }

    fn child(
        &mut self,
        tid: ItemPointer,
        range: core::ops::Range<usize>,
        parent: i32,
        depth: usize,
    ) {
        let tuple = match self.store.fetch(tid) {
            Ok(tuple) => tuple,
            Err(error) => return (self.report)(Failure::Store(error)),
        };
        let shape = match Shape::of(&tuple, tid) {
            Ok(shape) => shape,
            Err(error) => return self.fault(error),
        };
        if self.tree.form() == Form::Flat || shape.is_leaf() {
            if *self.leaf_depth.get_or_insert(depth) != depth {
                self.fault(DirectError::NotNode { tid });
            }
            if let Err(error) = self.tree.check_leaf(&tuple, tid, &range, parent) {
                self.fault(error);
            }
            return;
        }
        let found = shape.seq;
        if found < 0 || found >= parent {
            self.fault(DirectError::ParentNumber { tid, found, parent });
        }
        if shape.data.is_some() {
            self.fault(DirectError::NodeData { tid });
        }
        let limit = Parameters::MAX_DEPTH;
        if depth >= limit {
            return self.fault(DirectError::Depth { tid, limit });
        }
        if self.leaf_depth.is_some_and(|leaf_depth| depth >= leaf_depth) {
            self.fault(DirectError::NotLeaf { tid });
        }
        let node = Level { tuple, tid, shape, range };
        if let Err(error) = node.check() {
            self.fault(error);
        }
        self.children(&node, depth);
    }
}
