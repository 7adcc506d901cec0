//! The ids of a level's tuples while a value is written: six bytes each, and never moved.
use alloc::vec::Vec;

use pgtoast_base::{ItemPointer, ItemPointerData};

use crate::Parameters;

/// A list that grows by segments, so that it is never twice as large as what is in it. Each segment
/// holds a whole number of nodes' children.
#[derive(Debug)]
pub(crate) struct TidList {
    fanout: usize,
    segment_nodes: usize,
    segments: Vec<Vec<ItemPointerData>>,
    len: usize,
}

/// Of 50 children each: 19 KB.
const SEGMENT_NODES: usize = 64;

impl TidList {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        let fanout = parameters.fanout();
        // The children of a flat root lie in one piece, too.
        let segment_nodes = SEGMENT_NODES.max(parameters.flat_chunks().div_ceil(fanout));
        Self { fanout, segment_nodes, segments: Vec::new(), len: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, tid: ItemPointer) {
        let capacity = self.fanout * self.segment_nodes;
        let segment = match self.segments.last_mut() {
            Some(segment) if segment.len() < capacity => segment,
            _ => {
                // A value of few chunks is the rule, so that the first segment grows as it likes.
                let first = self.segments.is_empty();
                self.segments.push(Vec::with_capacity(if first { 0 } else { capacity }));
                match self.segments.last_mut() {
                    Some(segment) => segment,
                    None => unreachable!("pushed above"),
                }
            }
        };
        segment.push(ItemPointerData::new(tid));
        self.len += 1;
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first of them, as far as they lie in one piece: at least those of one node.
    pub(crate) fn first(&self) -> &[ItemPointerData] {
        self.segments.first().map(Vec::as_slice).unwrap_or_default()
    }

    /// How many nodes have these as their children.
    pub(crate) const fn node_count(&self) -> usize {
        self.len.div_ceil(self.fanout)
    }

    /// The children of a node, `fanout` at a time.
    pub(crate) fn node(&self, node: usize) -> Option<&[ItemPointerData]> {
        let within = node % self.segment_nodes * self.fanout;
        let segment = self.segments.get(node / self.segment_nodes)?;
        segment.get(within..segment.len().min(within + self.fanout))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ItemPointer> + '_ {
        self.segments.iter().flatten().map(|tid| tid.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_the_largest_value_take_six_bytes_each_and_little_more() {
        let parameters = Parameters::default();
        let mut list = TidList::new(&parameters);
        let count = parameters.chunk_count(parameters.max_stored_len());
        for _ in 0..count {
            list.push(ItemPointer::INVALID);
        }
        let reserved: usize = list.segments.iter().map(Vec::capacity).sum();
        assert!(6 * reserved + 24 * list.segments.capacity() <= 6 * count + (64 << 10));
        assert_eq!((list.len(), list.iter().count()), (count, count));
        assert_eq!(list.node_count(), count.div_ceil(50));
        assert_eq!(list.node(list.node_count() - 1).map(<[_]>::len), Some(count % 50));
        assert_eq!(list.node(list.node_count()), None);
    }
}
