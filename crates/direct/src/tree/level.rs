//! A node of the tree that is held, and where its children start and end in the value.
use core::ops::{Deref, Range};

use pgtoast_base::{ItemPointer, ItemPointerData};
use zerocopy::little_endian::I64;

use crate::DirectError;
use crate::chunk_tuple::Shape;

/// A node that is held.
pub(crate) struct Level<T> {
    pub(crate) tuple: T,
    pub(crate) tid: ItemPointer,
    pub(crate) shape: Shape,
    /// The bytes of the value below it.
    pub(crate) range: Range<usize>,
}

impl<T: Deref<Target = [u8]>> Level<T> {
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
    pub(super) start: usize,
    /// Not 0 below a flat root.
    pub(super) chunk_bytes: usize,
}

impl Bounds<'_> {
    /// Where child `child` starts, relative to the node; what is stored, whatever that is.
    #[inline]
    pub(super) fn bound(&self, child: usize) -> i64 {
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
    pub(super) fn find(&self, at: usize, count: usize) -> usize {
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

/// A length or place in a value or tuple: less than 2^31.
#[inline]
#[expect(clippy::cast_possible_wrap, reason = "less than 2^31")]
pub(crate) const fn to_i64(bytes: usize) -> i64 {
    bytes as i64
}

/// A bound that was checked.
#[inline]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "inside the value")]
pub(super) const fn to_usize(bound: i64) -> usize {
    bound as usize
}
