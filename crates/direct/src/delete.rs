//! Deletes a value, and finds the tuples it takes.
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use pgtoast_base::{ItemPointer, ItemPointerData};
use pgtoast_varlena::DirectPointer;

use crate::chunk_tuple::Shape;
use crate::tree::{Form, Tree};
use crate::{ChunkStore, DirectError, DirectRelation, Failure, Parameters};

impl DirectRelation {
    /// Deletes every tuple of a value, and says how many. No leaf is read: a flat root names them all, in a
    /// taller tree the interior nodes do. All that has to be read is read before the first is deleted.
    ///
    /// Of a value that was edited, tuples may belong to other versions of it, too: what an edit returned as
    /// the old version's own is what may go, see [`Edited`](crate::Edited).
    ///
    /// # Errors
    /// Any [`DirectError`] about trees; then nothing was deleted. The store's own.
    pub fn delete<S: ChunkStore>(
        &self,
        store: &mut S,
        pointer: &DirectPointer,
    ) -> Result<usize, Failure<S::Error>> {
        let tids = self.tuples(store, pointer)?;
        for tid in &tids {
            store.delete(*tid).map_err(Failure::Store)?;
        }
        Ok(tids.len())
    }

    /// The tuples that a value takes, its root last; found without reading leaves, but for one where the
    /// value was edited.
    ///
    /// # Errors
    /// Any [`DirectError`] about trees, and the store's own.
    pub fn tuples<S: ChunkStore>(
        &self,
        store: &S,
        pointer: &DirectPointer,
    ) -> Result<Vec<ItemPointer>, Failure<S::Error>> {
        let promise = self.resolve(pointer)?;
        let mut tree = self.tree(store, &promise)?;
        let mut tids = Vec::new();
        if tree.form() == Form::Tall {
            let levels = self.node_levels(&mut tree)?;
            let mut nodes = Nodes { store, seen: BTreeSet::new(), tids: &mut tids };
            let root = tree.root().map(|root| (root.tids().to_vec(), root.shape.seq));
            let (children, seq) = root.unwrap_or_default();
            nodes.walk(&children, seq, levels)?;
        } else if let Some(root) = tree.root() {
            tids.extend(root.tids().iter().map(|tid| tid.get()));
        }
        tids.push(promise.root);
        Ok(tids)
    }

    /// How many levels of nodes are above the leaves of a tall tree.
    pub(crate) fn node_levels<S: ChunkStore>(
        &self,
        tree: &mut Tree<'_, S>,
    ) -> Result<usize, Failure<S::Error>> {
        if tree.is_edited() {
            // Nothing but a leaf itself tells that it is one.
            tree.descend(0)?;
            return Ok(tree.leaf_level().unwrap_or(1));
        }
        // The levels are as full as they can be, so that the length alone says how many there are.
        let parameters = self.parameters();
        let mut count = parameters.chunk_count(tree.stored_len()).div_ceil(parameters.fanout());
        let mut levels = 1;
        while count > 1 {
            count = count.div_ceil(parameters.fanout());
            levels += 1;
        }
        Ok(levels)
    }
}

/// Gathers the tuples below a node without entering one twice.
pub(crate) struct Nodes<'n, S> {
    pub(crate) store: &'n S,
    pub(crate) seen: BTreeSet<ItemPointer>,
    pub(crate) tids: &'n mut Vec<ItemPointer>,
}

impl<S: ChunkStore> Nodes<'_, S> {
    /// The tuples below a node of number `parent`, `levels` of nodes above the leaves, its own among them;
    /// each node behind what is below it.
    pub(crate) fn walk(
        &mut self,
        children: &[ItemPointerData],
        parent: i32,
        levels: usize,
    ) -> Result<(), Failure<S::Error>> {
        if levels <= 1 {
            self.tids.extend(children.iter().map(|tid| tid.get()));
            return Ok(());
        }
        for tid in children {
            let tid = tid.get();
            if !self.seen.insert(tid) {
                return Err(DirectError::DoublyReferenced { tid }.into());
            }
            let (grandchildren, seq) = self.node(tid, parent)?;
            self.walk(&grandchildren, seq, levels - 1)?;
            self.tids.push(tid);
        }
        Ok(())
    }

    /// The children of a node, and its number.
    fn node(
        &self,
        tid: ItemPointer,
        parent: i32,
    ) -> Result<(Vec<ItemPointerData>, i32), Failure<S::Error>> {
        let tuple = self.store.fetch(tid).map_err(Failure::Store)?;
        let shape = Shape::of(&tuple, tid)?;
        if shape.bounds.is_none() || shape.is_leaf() {
            return Err(DirectError::NotNode { tid }.into());
        }
        if shape.seq >= parent {
            let found = shape.seq;
            return Err(DirectError::ParentNumber { tid, found, parent }.into());
        }
        Ok((shape.tids(&tuple).to_vec(), shape.seq))
    }
}

const _: () = assert!(Parameters::MAX_DEPTH < 64, "walks call themselves as deep");
