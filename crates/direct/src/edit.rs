//! New versions of a value that share with the old one what did not change.
//!
//! ```text
//! before  root ── node a ── leaf 0, leaf 1        after  root' ┬─ node a ── leaf 0, leaf 1
//!              `─ node b ── leaf 2, leaf 3                     `─ node b' ── leaf 2', leaf 3
//! ```
//! Leaves that hold changed bytes are written anew, then the nodes on the way to them, then the root, which
//! carries the mark of an edited tree. Nothing is changed in place, so that whoever holds the old pointer
//! still reads the old bytes. Where bytes are put in or taken out, later leaves stay where they are: positions
//! come from the bounds, and a leaf may be short. A node that gets too many children is split, one that
//! has none left is gone, and a root with one child gives way to it.
//!
//! Numbers in an edited tree obey one rule, that a parent's is above its children's: a node that is written
//! anew keeps its number unless a new child needs a higher one.
use alloc::vec::Vec;
use core::ops::Range;

use pgtoast_base::{ItemPointer, ItemPointerData};
use pgtoast_varlena::DirectPointer;
use zerocopy::little_endian::I64;

use crate::draft::{Draft, EDITED, SHIFTED};
use crate::read::expect_range;
use crate::trailer::{StoredForm, TrailerDraft};
use crate::tree::{Form, to_i64};
use crate::{ChunkStore, DirectError, DirectRelation, Failure, Parameters, ValueTag};

mod leaves;
mod small;
mod splice;

use splice::Splice;

/// A new version of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// Points to it.
    pub pointer: DirectPointer,
    /// The tuples that the old version does not share with it: what may be deleted when nobody reads the
    /// old version any more.
    pub retired: Vec<ItemPointer>,
    /// How many tuples were written.
    pub written: usize,
}

impl DirectRelation {
    /// A version with other bytes at `offset`, as many as `bytes`. Its leaves are as long as before.
    ///
    /// # Errors
    /// [`DirectError::Compressed`] unless the value is stored as it is; [`DirectError::Range`] if the bytes
    /// are not all in the value; any error about its tree; the store's own. The old version is as it was,
    /// and nothing of the new one is left.
    pub fn patch<S: ChunkStore>(
        &self,
        store: &mut S,
        pointer: &DirectPointer,
        offset: usize,
        bytes: &[u8],
    ) -> Result<Edited, Failure<S::Error>> {
        self.splice(store, pointer, offset, bytes.len(), bytes)
    }

    /// A version with more bytes at its end.
    ///
    /// # Errors
    /// As [`patch`](Self::patch), and [`DirectError::TooLong`].
    pub fn append<S: ChunkStore>(
        &self,
        store: &mut S,
        pointer: &DirectPointer,
        bytes: &[u8],
    ) -> Result<Edited, Failure<S::Error>> {
        let len = self.resolve(pointer)?.stored_len;
        self.splice(store, pointer, len, 0, bytes)
    }

    /// A version of its first `len` bytes.
    ///
    /// # Errors
    /// As [`patch`](Self::patch); [`DirectError::Empty`] if no byte is to stay, [`DirectError::Range`] if
    /// the value is shorter than that.
    pub fn truncate<S: ChunkStore>(
        &self,
        store: &mut S,
        pointer: &DirectPointer,
        len: usize,
    ) -> Result<Edited, Failure<S::Error>> {
        let value_len = self.resolve(pointer)?.stored_len;
        expect_range(0, len, value_len)?;
        self.splice(store, pointer, len, value_len - len, &[])
    }

    /// A version with more bytes before the one at `offset`, or at its end.
    ///
    /// # Errors
    /// As [`patch`](Self::patch), and [`DirectError::TooLong`].
    pub fn insert_range<S: ChunkStore>(
        &self,
        store: &mut S,
        pointer: &DirectPointer,
        offset: usize,
        bytes: &[u8],
    ) -> Result<Edited, Failure<S::Error>> {
        self.splice(store, pointer, offset, 0, bytes)
    }

    /// A version without `len` of the bytes from `offset` on.
    ///
    /// # Errors
    /// As [`patch`](Self::patch), and [`DirectError::Empty`] if no byte is to stay.
    pub fn remove_range<S: ChunkStore>(
        &self,
        store: &mut S,
        pointer: &DirectPointer,
        offset: usize,
        len: usize,
    ) -> Result<Edited, Failure<S::Error>> {
        self.splice(store, pointer, offset, len, &[])
    }

    /// A version with `inserted` in place of `removed` bytes at `offset`.
    fn splice<S: ChunkStore>(
        &self,
        store: &mut S,
        pointer: &DirectPointer,
        offset: usize,
        removed: usize,
        inserted: &[u8],
    ) -> Result<Edited, Failure<S::Error>> {
        let promise = self.resolve(pointer)?;
        if promise.form != StoredForm::AsIs {
            return Err(DirectError::Compressed.into());
        }
        let value_len = promise.stored_len;
        expect_range(offset, removed, value_len)?;
        if removed == 0 && inserted.is_empty() {
            return Ok(Edited { pointer: *pointer, retired: Vec::new(), written: 0 });
        }
        let (len, limit) = (
            (value_len - removed).saturating_add(inserted.len()),
            self.parameters().max_stored_len(),
        );
        if len > limit {
            return Err(DirectError::TooLong { len, limit }.into());
        }
        if len == 0 {
            return Err(DirectError::Empty.into());
        }
        let change = Change { offset, removed, inserted, value_len };
        let tree = self.tree(&*store, &promise)?;
        // Whatever the leaves say, the root was written by the latest edit.
        let tag = tree.tag().map(ValueTag::next_generation);
        let (parameters, is_tall) = (*self.parameters(), tree.form() == Form::Tall);
        let plan = if is_tall { leaves::tall(tree, &change)? } else { small::plan(tree, &change)? };
        let trailer = tag.map(|tag| TrailerDraft::new(tag, len, StoredForm::AsIs));
        let mut splice = Splice::new(store, parameters, trailer, &plan, inserted);
        let root = match splice.run(&plan) {
            Ok(root) => root,
            Err(error) => {
                splice.undo();
                return Err(error);
            }
        };
        let (retired, written) = splice.into_lists();
        Ok(Edited { pointer: self.pointer(root, len)?, retired, written })
    }
}

/// What is to become of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    offset: usize,
    removed: usize,
    inserted: &'a [u8],
    value_len: usize,
}

impl Change<'_> {
    /// Whether no byte changes its place.
    const fn is_patch(&self) -> bool {
        self.removed == self.inserted.len()
    }

    /// Where the bytes end that go.
    const fn end(&self) -> usize {
        self.offset + self.removed
    }
}

/// What was found out about a change before anything is written.
#[derive(Debug, Default)]
struct Plan {
    /// The root, and its number without the mark.
    root: ItemPointer,
    root_seq: i32,
    /// The children of the root, all leaves of a small value but its last.
    children: Vec<Entry>,
    /// Levels of nodes above the leaves, the root's among them; 0 for a small value.
    levels: usize,
    /// The leaves that go, as far as they reach in the old value.
    touched: Range<usize>,
    /// The new leaves, in order.
    fresh: Vec<Fresh>,
    /// What the new leaves begin and end with, around what is inserted.
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Of a small value whose last chunk stays as it is: that chunk.
    own: Option<Vec<u8>>,
    /// Whether the change reaches the end of the value, so that its leaves are filled as a writer does.
    is_at_end: bool,
}

/// A leaf to be written.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    len: usize,
    seq: i32,
    /// Where it belongs: in place of the old leaf that holds this byte, or behind it.
    at: usize,
}

/// A child of a node.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tid: ItemPointer,
    len: usize,
    /// Its number, or 0 if it is of the old version and was not looked at.
    seq: i32,
    /// Where it starts in the old value.
    at: usize,
}

/// Children that become a node.
#[derive(Debug)]
struct Group {
    children: Vec<Entry>,
    /// A number above all of theirs.
    seq: i32,
}

impl Group {
    fn insert<S: ChunkStore>(
        &self,
        store: &mut S,
        mark: i32,
        trailer: Option<TrailerDraft>,
    ) -> Result<Entry, Failure<S::Error>> {
        let tids: Vec<_> =
            self.children.iter().map(|child| ItemPointerData::new(child.tid)).collect();
        let mut len = 0;
        let mut bounds = Vec::with_capacity(tids.len() + 1);
        bounds.push(I64::new(0));
        for child in &self.children {
            len += child.len;
            bounds.push(I64::new(to_i64(len)));
        }
        let draft = Draft {
            seq: self.seq | mark,
            data: trailer.map(|_| [].as_slice()),
            trailer,
            tids: Some(&tids),
            bounds: Some(&bounds),
        };
        let at = self.children.first().map_or(0, |child| child.at);
        Ok(Entry { tid: draft.insert(store)?, len, seq: self.seq, at })
    }

    /// Nodes of these children, `seq` at least their number: as few as there can be, all but the last full
    /// or all about equally so.
    fn split(children: Vec<Entry>, seq: i32, parameters: &Parameters, fill: bool) -> Vec<Self> {
        let seq = children.iter().map(|child| child.seq + 1).fold(seq, i32::max);
        let fanout = parameters.fanout();
        let count = children.len().div_ceil(fanout);
        if count <= 1 {
            return if children.is_empty() {
                Vec::new()
            } else {
                alloc::vec![Self { children, seq }]
            };
        }
        let size = if fill { fanout } else { children.len().div_ceil(count) };
        children.chunks(size).map(|part| Self { children: part.to_vec(), seq }).collect()
    }
}

/// The lengths of leaves for `len` bytes: full but the last, and in the midst of a value the last two about
/// equally long.
fn cuts(len: usize, chunk_bytes: usize, is_at_end: bool) -> Vec<usize> {
    let mut cuts: Vec<_> =
        (0..len).step_by(chunk_bytes).map(|start| chunk_bytes.min(len - start)).collect();
    if !is_at_end
        && let [.., before, last] = cuts.as_mut_slice()
        && *last < chunk_bytes / 2
    {
        let both = *before + *last;
        (*before, *last) = (both - both / 2, both / 2);
    }
    cuts
}

/// The number of the `index`-th new leaf: counted on from that of the leaf it replaces. After very many
/// edits the count starts again; in an edited tree that is as good a number as any.
fn number(first: i32, index: usize) -> i32 {
    let index = i32::try_from(index).unwrap_or(i32::MAX);
    let number = first.saturating_add(index);
    if number < EDITED - (1 << 20) { number } else { index | first & SHIFTED.cast_signed() }
}
