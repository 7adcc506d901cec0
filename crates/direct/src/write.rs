//! Writes a value, of a length that need not be known, leaf by leaf.
//!
//! ```text
//! 1 chunk                  leaf 0, which is the root
//! up to 100 chunks         leaf 0, 1, … n - 2, then chunk n - 1 as the root: its data and the leaves' ids
//! more                     leaf 0, 1, … n - 1, then nodes level by level, each level from left to right,
//!                          50 children each but the last; a level of one node is the root
//! ```
//! Leaves are stored as soon as another chunk is known to follow; the last chunk is held back, because the
//! number of chunks decides what becomes of it. Numbers are handed out in the order of storing.
use alloc::vec::Vec;
use core::fmt;

use pgtoast_base::ItemPointer;
use zerocopy::little_endian::I64;

use crate::draft::Draft;
use crate::tid_list::TidList;
use crate::trailer::{StoredForm, TrailerDraft};
use crate::tree::to_i64;
use crate::{ChunkStore, DirectError, Failure, Parameters, ValueTag};

/// Writes one value; made by [`DirectRelation::writer`](crate::DirectRelation::writer).
///
/// Takes about the memory of a chunk, and six bytes a chunk for the ids of what was written. When
/// something fails, and when it is dropped before [`finish`](Self::finish), what was stored is deleted.
pub struct Writer<'s, S: ChunkStore> {
    store: &'s mut S,
    parameters: Parameters,
    tag: Option<ValueTag>,
    form: StoredForm,
    /// The whole value's stored length, if the caller knows it.
    known_len: Option<usize>,
    /// The start of the root's data that is not of the value: what a value in groups has there.
    prefix: Option<[u8; crate::group::GROUP_HEADER_LEN]>,
    /// The last chunk so far, which may get longer.
    held: Vec<u8>,
    levels: Vec<TidList>,
    stored_len: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Failed,
    Finished,
}

/// A value that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its root.
    pub root: ItemPointer,
    /// Bytes in its leaves.
    pub stored_len: usize,
    /// Tuples that it takes.
    pub tuples: usize,
}

impl<'s, S: ChunkStore> Writer<'s, S> {
    pub(crate) fn new(
        store: &'s mut S,
        parameters: Parameters,
        tag: Option<ValueTag>,
        form: StoredForm,
        known_len: Option<usize>,
    ) -> Self {
        Self {
            store,
            parameters,
            tag: tag.filter(|_| parameters.has_trailer()),
            form,
            known_len,
            prefix: None,
            held: Vec::new(),
            levels: alloc::vec![TidList::new(&parameters)],
            stored_len: 0,
            state: State::Open,
        }
    }

    /// Adds bytes to the end of the value.
    ///
    /// # Errors
    /// [`DirectError::TooLong`], [`DirectError::TagMissing`], [`DirectError::WriterClosed`], and those of
    /// the store. After an error nothing of the value is left, and nothing more can be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure<S::Error>> {
        let result = self.append(bytes);
        if result.is_err() {
            self.undo();
        }
        result
    }

    /// Stores the last chunk and the root, and says where the root is.
    ///
    /// # Errors
    /// [`DirectError::Empty`] for a value of no bytes, and as [`write`](Self::write).
    pub fn finish(mut self) -> Result<Written, Failure<S::Error>> {
        self.complete()
    }

    /// Bytes so far.
    #[must_use]
    pub const fn stored_len(&self) -> usize {
        self.stored_len
    }

    pub(crate) fn set_prefix(&mut self, prefix: [u8; crate::group::GROUP_HEADER_LEN]) {
        self.prefix = Some(prefix);
    }

    pub(crate) fn complete(&mut self) -> Result<Written, Failure<S::Error>> {
        let result = self.store_root();
        match result {
            Ok(_) => self.state = State::Finished,
            Err(_) => self.undo(),
        }
        result
    }

    #[inline]
    fn append(&mut self, mut bytes: &[u8]) -> Result<(), Failure<S::Error>> {
        self.expect_open()?;
        let limit = self.parameters.max_stored_len();
        let len = self.stored_len.saturating_add(bytes.len());
        if len > limit {
            return Err(DirectError::TooLong { len, limit }.into());
        }
        self.stored_len = len;
        let chunk_bytes = self.parameters.chunk_bytes();
        if !self.held.is_empty() {
            let taken = bytes.len().min(chunk_bytes - self.held.len());
            self.held.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if bytes.is_empty() {
                return Ok(());
            }
            self.store_held()?;
        }
        while bytes.len() > chunk_bytes {
            let (chunk, rest) = bytes.split_at(chunk_bytes);
            self.store_leaf(chunk)?;
            bytes = rest;
        }
        if self.held.capacity() == 0 && !self.levels[0].is_empty() {
            self.held.reserve_exact(chunk_bytes);
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    fn expect_open(&self) -> Result<(), DirectError> {
        if self.state != State::Open {
            return Err(DirectError::WriterClosed);
        }
        if self.parameters.has_trailer() && self.tag.is_none() {
            return Err(DirectError::TagMissing);
        }
        Ok(())
    }

    fn store_held(&mut self) -> Result<(), Failure<S::Error>> {
        let held = core::mem::take(&mut self.held);
        let result = self.store_leaf(&held);
        self.held = held;
        self.held.clear();
        result
    }

    #[inline]
    fn store_leaf(&mut self, chunk: &[u8]) -> Result<(), Failure<S::Error>> {
        let trailer = self.trailer(self.known_len);
        let seq = number(self.levels[0].len());
        let draft = Draft { seq, data: Some(&[chunk]), trailer, tids: None, bounds: None };
        self.levels[0].push(draft.insert(self.store)?);
        Ok(())
    }

    #[inline]
    fn trailer(&self, stored_len: Option<usize>) -> Option<TrailerDraft> {
        let tag = self.tag?;
        Some(TrailerDraft::new(tag, stored_len.unwrap_or_default(), self.form))
    }

    fn store_root(&mut self) -> Result<Written, Failure<S::Error>> {
        self.expect_open()?;
        if self.stored_len == 0 {
            return Err(DirectError::Empty.into());
        }
        let chunk_count = self.levels[0].len() + 1;
        let root = if chunk_count <= self.parameters.flat_chunks().max(1) {
            let tids = Some(self.levels[0].first()).filter(|tids| !tids.is_empty());
            let prefix = self.prefix.as_ref().map(<[u8; 8]>::as_slice).unwrap_or_default();
            let pieces = [prefix, &self.held];
            let draft = Draft {
                seq: number(chunk_count - 1),
                data: Some(&pieces),
                trailer: self.trailer(Some(self.stored_len)),
                tids,
                bounds: None,
            };
            draft.insert(self.store)?
        } else {
            let known_len = self.known_len.replace(self.stored_len);
            self.store_held()?;
            self.known_len = known_len;
            self.store_levels()?
        };
        let tuples = self.levels.iter().map(TidList::len).sum::<usize>();
        let tuples = if self.levels.len() == 1 { tuples + 1 } else { tuples };
        Ok(Written { root, stored_len: self.stored_len, tuples })
    }

    /// Stores the nodes above the leaves, and says where the last one, the root, is.
    fn store_levels(&mut self) -> Result<ItemPointer, Failure<S::Error>> {
        let fanout = self.parameters.fanout();
        let mut span = self.parameters.chunk_bytes();
        let mut next_number = self.levels[0].len();
        let mut bounds = Vec::with_capacity(fanout + 1);
        loop {
            let level = self.levels.len() - 1;
            let count = self.levels[level].node_count();
            self.levels.push(TidList::new(&self.parameters));
            let mut root = ItemPointer::INVALID;
            for node in 0..count {
                let Some(tids) = self.levels[level].node(node) else { continue };
                // What is below the node starts here, and the last leaf may be short.
                let start = (node * fanout).saturating_mul(span);
                bounds.clear();
                let end = |child: usize| child.saturating_mul(span).min(self.stored_len - start);
                bounds.extend((0..=tids.len()).map(|child| I64::new(to_i64(end(child)))));
                // Of nodes the root alone may have data: what it says of groups, and a trailer.
                let is_root = count == 1;
                let prefix = self.prefix.filter(|_| is_root);
                let trailer = self.trailer(Some(self.stored_len)).filter(|_| is_root);
                let pieces = prefix.as_ref().map(<[u8; 8]>::as_slice);
                let has_data = prefix.is_some() || trailer.is_some();
                let draft = Draft {
                    seq: number(next_number),
                    data: has_data.then_some(pieces.as_slice()),
                    trailer,
                    tids: Some(tids),
                    bounds: Some(&bounds),
                };
                root = draft.insert(self.store)?;
                self.levels[level + 1].push(root);
                next_number += 1;
            }
            if count == 1 {
                return Ok(root);
            }
            span = span.saturating_mul(fanout);
        }
    }

    /// Puts nodes above leaves that are there already, more than one, and says where the root is. After an
    /// error the leaves are left as they were, and no node is.
    pub(crate) fn adopt(
        store: &'s mut S,
        parameters: Parameters,
        leaves: &[ItemPointer],
        stored_len: usize,
        prefix: Option<[u8; crate::group::GROUP_HEADER_LEN]>,
        (tag, form): (Option<ValueTag>, StoredForm),
    ) -> Result<ItemPointer, Failure<S::Error>> {
        let mut writer = Self::new(store, parameters, tag, form, None);
        leaves.iter().for_each(|tid| writer.levels[0].push(*tid));
        (writer.stored_len, writer.prefix) = (stored_len, prefix);
        let root = writer.store_levels();
        match &root {
            Ok(_) => writer.state = State::Finished,
            Err(_) => {
                writer.levels[0] = TidList::new(&parameters);
                writer.undo();
            }
        }
        root
    }

    /// Deletes what was stored, as far as that works: there is an error already that says more.
    fn undo(&mut self) {
        for tid in self.levels.iter().flat_map(TidList::iter) {
            let _ = self.store.delete(tid);
        }
        self.levels = alloc::vec![TidList::new(&self.parameters)];
        self.held = Vec::new();
        self.state = State::Failed;
    }
}

/// The number of a tuple; there are far fewer than 2^30 in a value.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "below 2^30")]
fn number(index: usize) -> i32 {
    index as i32
}

impl<S: ChunkStore> Drop for Writer<'_, S> {
    fn drop(&mut self) {
        if self.state == State::Open {
            self.undo();
        }
    }
}

impl<S: ChunkStore> fmt::Debug for Writer<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("parameters", &self.parameters)
            .field("stored_len", &self.stored_len)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "std")]
impl<S: ChunkStore<Error: Into<std::io::Error>>> std::io::Write for Writer<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Self::write(self, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
