//! A leaf of the tree: what is asked of each, and one that is held.
use core::ops::{Deref, Range};

use pgtoast_base::ItemPointer;

use crate::chunk_tuple::{LEAF_HEAD_LEN, Shape, plain_leaf};
use crate::trailer::Trailer;
use crate::{ChunkFault, DirectError};

/// What is asked of each leaf.
#[derive(Clone, Copy)]
pub(super) struct LeafRules {
    pub(super) chunk_bytes: usize,
    pub(super) trailer_len: usize,
    pub(super) is_edited: bool,
    pub(super) stored_len: usize,
}

impl LeafRules {
    /// As [`payload`](Self::payload), for what is nearly every leaf that is read: full or the last, without a
    /// trailer, of a value that was not edited. `None` for all others, sound or not.
    #[inline(always)]
    pub(super) fn full_payload<'t>(
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
    pub(super) fn payload<'t>(
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
pub(super) fn check_trailer(
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

/// A leaf that is held.
pub(crate) struct HeldLeaf<T> {
    pub(crate) tuple: T,
    pub(crate) data: Range<usize>,
    /// Where its data start in the value.
    pub(crate) start: usize,
    pub(crate) tid: ItemPointer,
    pub(crate) seq: i32,
}

impl<T: Deref<Target = [u8]>> HeldLeaf<T> {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.tuple[self.data.clone()]
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.start + self.data.len()
    }
}
