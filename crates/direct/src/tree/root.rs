//! The root of the tree, fetched and checked: which form the value has, and what of it the root holds.
use alloc::vec::Vec;
use core::ops::Range;

use pgtoast_base::ItemPointer;

use super::leaf::{LeafRules, check_trailer};
use super::{Form, Level, Tree};
use crate::chunk_tuple::Shape;
use crate::draft::EDITED;
use crate::group::GROUP_HEADER_LEN;
use crate::{ChunkFault, ChunkStore, Cost, DirectError, Failure, Parameters};

/// Room for the nodes above a leaf of the largest value, which by default are four, and one more.
const LEVELS: usize = 5;

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
        let root_seq = shape.seq;
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
        let mut levels = Vec::with_capacity(LEVELS);
        levels.push(Level { tuple, tid: root, shape, range: 0..own_start });
        let tree = Self {
            store,
            rules: LeafRules { chunk_bytes, trailer_len, is_edited, stored_len },
            form,
            root_seq,
            own,
            own_start,
            prefix,
            levels,
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
