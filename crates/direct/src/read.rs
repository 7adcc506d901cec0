//! Whole values and parts of them.
//!
//! A value stored as it is comes in one copy from its tuples. Of a compressed value the prefix is decoded
//! that ends with what is wanted, of one in groups only the groups that hold it.
use alloc::vec::Vec;
use core::ops::Range;

use pgtoast_codec::{
    COMPRESSION_INFO_LEN, CompressionMethod, decompress, decompress_prefix, lz4, stored_prefix_len,
};
use pgtoast_varlena::{CompressionInfo, DirectPointer};

use crate::relation::{Promise, careful_vec};
use crate::trailer::StoredForm;
use crate::tree::Tree;
use crate::{ChunkStore, Cost, DirectError, DirectRelation, Failure};

/// Some bytes of a value, and where they go.
#[derive(Debug, PartialEq, Eq)]
pub struct SliceTarget<'t> {
    /// The first byte's place in the value.
    pub offset: usize,
    /// As many bytes as are wanted.
    pub bytes: &'t mut [u8],
}

impl SliceTarget<'_> {
    fn end(&self) -> usize {
        self.offset.saturating_add(self.bytes.len())
    }

    /// Takes from a piece of the value what it wants of it.
    #[inline]
    fn take(&mut self, at: usize, piece: &[u8]) {
        let start = self.offset.max(at);
        let end = self.end().min(at + piece.len());
        if start < end {
            let target = &mut self.bytes[start - self.offset..end - self.offset];
            target.copy_from_slice(&piece[start - at..end - at]);
        }
    }
}

impl DirectRelation {
    /// The whole value. Memory grows with the chunks that come, not with what the pointer claims.
    ///
    /// # Errors
    /// Any [`DirectError`] about trees, pointers and streams, and the store's own.
    pub fn read<S: ChunkStore>(
        &self,
        store: &S,
        pointer: &DirectPointer,
    ) -> Result<Vec<u8>, Failure<S::Error>> {
        let promise = self.resolve(pointer)?;
        if promise.form != StoredForm::AsIs {
            let mut cost = Cost::default();
            return self.decode_all(store, &promise, &mut cost);
        }
        let mut tree = self.tree(store, &promise)?;
        let mut value = careful_vec(promise.raw_len);
        tree.visit(0..promise.stored_len, |_, piece| value.extend_from_slice(piece))?;
        Ok(value)
    }

    /// The whole value into `target`, which is exactly as long.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`DirectError::TargetLen`]. What is in `target` means nothing then.
    pub fn read_into<S: ChunkStore>(
        &self,
        store: &S,
        pointer: &DirectPointer,
        target: &mut [u8],
    ) -> Result<Cost, Failure<S::Error>> {
        let promise = self.resolve(pointer)?;
        let (found, expected) = (target.len(), promise.raw_len);
        if found != expected {
            return Err(DirectError::TargetLen { found, expected }.into());
        }
        self.fill(store, &promise, 0, target)
    }

    /// The bytes of the value from `offset` on, as many as `target` has.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`DirectError::Range`] for a slice that is not all in the value. What
    /// is in `target` means nothing then.
    pub fn slice_into<S: ChunkStore>(
        &self,
        store: &S,
        pointer: &DirectPointer,
        offset: usize,
        target: &mut [u8],
    ) -> Result<Cost, Failure<S::Error>> {
        let promise = self.resolve(pointer)?;
        expect_range(offset, target.len(), promise.raw_len)?;
        if target.is_empty() {
            return Ok(Cost::default());
        }
        self.fill(store, &promise, offset, target)
    }

    /// Many slices of one value at once, in any order and overlapping as they like. No leaf, node or group
    /// is fetched twice.
    ///
    /// # Errors
    /// As [`slice_into`](Self::slice_into).
    pub fn slices_into<S: ChunkStore>(
        &self,
        store: &S,
        pointer: &DirectPointer,
        slices: &mut [SliceTarget<'_>],
    ) -> Result<Cost, Failure<S::Error>> {
        let promise = self.resolve(pointer)?;
        for slice in &*slices {
            expect_range(slice.offset, slice.bytes.len(), promise.raw_len)?;
        }
        let mut sorted: Vec<_> =
            slices.iter_mut().filter(|slice| !slice.bytes.is_empty()).collect();
        sorted.sort_unstable_by_key(|slice| slice.offset);
        let Some(end) = sorted.iter().map(|slice| slice.end()).max() else {
            return Ok(Cost::default());
        };
        match promise.form {
            StoredForm::AsIs => {
                let mut tree = self.tree(store, &promise)?;
                visit_slices(&mut sorted, |range, sink| tree.visit(range, sink))?;
                Ok(tree.cost)
            }
            StoredForm::Groups => self.slices_of_groups(store, &promise, &mut sorted),
            StoredForm::Pglz | StoredForm::Lz4 => {
                let mut cost = Cost::default();
                let prefix = self.decode_prefix(store, &promise, end, &mut cost)?;
                sorted.iter_mut().for_each(|slice| slice.take(0, &prefix));
                Ok(cost)
            }
        }
    }

    /// `target.len()` bytes at `offset`, which are in the value.
    #[inline]
    fn fill<S: ChunkStore>(
        &self,
        store: &S,
        promise: &Promise,
        offset: usize,
        target: &mut [u8],
    ) -> Result<Cost, Failure<S::Error>> {
        let end = offset + target.len();
        let mut cost = Cost::default();
        match promise.form {
            StoredForm::AsIs => {
                let mut tree = self.tree(store, promise)?;
                let mut slice = SliceTarget { offset, bytes: target };
                tree.visit(offset..end, |at, piece| slice.take(at, piece))?;
                return Ok(tree.cost);
            }
            StoredForm::Groups => {
                let slice = &mut SliceTarget { offset, bytes: target };
                return self.slices_of_groups(store, promise, &mut [slice]);
            }
            StoredForm::Pglz | StoredForm::Lz4 if offset == 0 && end == promise.raw_len => {
                let stored = self.fetch_stored(store, promise, promise.stored_len, &mut cost)?;
                let (method, stream) = stream_of(promise, &stored)?;
                decompress(method, stream, target)?;
                cost.decoded_bytes = end as u64;
            }
            StoredForm::Pglz | StoredForm::Lz4 => {
                let prefix = self.decode_prefix(store, promise, end, &mut cost)?;
                target.copy_from_slice(&prefix[offset..end]);
            }
        }
        Ok(cost)
    }

    #[inline]
    pub(crate) fn tree<'s, S: ChunkStore>(
        &self,
        store: &'s S,
        promise: &Promise,
    ) -> Result<Tree<'s, S>, Failure<S::Error>> {
        let has_groups = promise.form == StoredForm::Groups;
        Tree::open(store, *self.parameters(), promise.root, promise.stored_len, has_groups)
    }

    fn decode_all<S: ChunkStore>(
        &self,
        store: &S,
        promise: &Promise,
        cost: &mut Cost,
    ) -> Result<Vec<u8>, Failure<S::Error>> {
        if promise.form == StoredForm::Groups {
            return self.read_groups(store, promise, cost);
        }
        self.decode_prefix(store, promise, promise.raw_len, cost)
    }

    /// The first `len` bytes of a compressed value, 1 at least.
    fn decode_prefix<S: ChunkStore>(
        &self,
        store: &S,
        promise: &Promise,
        len: usize,
        cost: &mut Cost,
    ) -> Result<Vec<u8>, Failure<S::Error>> {
        let (raw_len, stored_len) = (promise.raw_len, promise.stored_len);
        let needed = match promise.form {
            _ if len >= raw_len => stored_len,
            StoredForm::Lz4 => lz4::stored_prefix_len(len, raw_len, stored_len),
            _ => stored_prefix_len(CompressionMethod::Pglz, len, stored_len),
        };
        let stored = self.fetch_stored(store, promise, needed, cost)?;
        let (method, stream) = stream_of(promise, &stored)?;
        let limit = pgtoast_codec::maximum_raw_len(method, stream.len());
        if len > limit {
            let stream_len = stream.len();
            return Err(pgtoast_codec::CodecError::Expansion { stream_len, raw_len: len, limit })?;
        }
        let mut prefix = alloc::vec![0; len];
        let found = decompress_prefix(method, stream, raw_len, &mut prefix)?;
        if found < len {
            return Err(pgtoast_codec::CodecError::Short { target_offset: found, expected: len })?;
        }
        cost.decoded_bytes += len as u64;
        Ok(prefix)
    }

    /// The first bytes of what is stored, at least `len` of them.
    fn fetch_stored<S: ChunkStore>(
        &self,
        store: &S,
        promise: &Promise,
        len: usize,
        cost: &mut Cost,
    ) -> Result<Vec<u8>, Failure<S::Error>> {
        let mut tree = self.tree(store, promise)?;
        let mut stored = careful_vec(len);
        tree.visit(0..len, |_, piece| stored.extend_from_slice(piece))?;
        *cost = tree.cost;
        Ok(stored)
    }
}

/// Has `visit` hand out the pieces that hold what the slices want, none of them twice. `visit` takes a
/// range and a sink, and says where the last piece ended; `slices` are sorted by their offset.
pub(crate) fn visit_slices<E>(
    slices: &mut [&mut SliceTarget<'_>],
    mut visit: impl FnMut(Range<usize>, &mut dyn FnMut(usize, &[u8])) -> Result<usize, E>,
) -> Result<(), E> {
    let mut done = 0;
    let mut rest = slices;
    while let Some(first) = rest.first() {
        let start = first.offset.max(done);
        let mut end = first.end();
        if end <= done {
            rest = &mut rest[1..];
            continue;
        }
        for slice in &rest[1..] {
            if slice.offset > end {
                break;
            }
            end = end.max(slice.end());
        }
        done = visit(start..end, &mut |at, piece| {
            let piece_end = at + piece.len();
            for slice in rest.iter_mut() {
                if slice.offset >= piece_end {
                    break;
                }
                slice.take(at, piece);
            }
        })?;
    }
    Ok(())
}

pub(crate) fn expect_range(offset: usize, len: usize, value_len: usize) -> Result<(), DirectError> {
    if offset.checked_add(len).is_none_or(|end| end > value_len) {
        return Err(DirectError::Range { offset, len, value_len });
    }
    Ok(())
}

/// The stream behind the word that a stored compressed value starts with, which the pointer has too.
fn stream_of<'t>(
    promise: &Promise,
    stored: &'t [u8],
) -> Result<(CompressionMethod, &'t [u8]), DirectError> {
    let method = match promise.form {
        StoredForm::Lz4 => CompressionMethod::Lz4,
        _ => CompressionMethod::Pglz,
    };
    let expected = CompressionInfo::new(promise.raw_len, method)?.word();
    let Some((word, stream)) = stored.split_first_chunk::<COMPRESSION_INFO_LEN>() else {
        let (raw_len, stored_len) = (promise.raw_len, promise.stored_len);
        return Err(DirectError::PointerLengths { raw_len, stored_len });
    };
    let found = u32::from_le_bytes(*word);
    if found == expected {
        Ok((method, stream))
    } else {
        Err(DirectError::CompressionInfo { found, expected })
    }
}
