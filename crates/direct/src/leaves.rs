//! Leaf by leaf, without a copy; and streaming on top of that.
use core::fmt;
use core::ops::{Deref, Range};

use pgtoast_varlena::DirectPointer;

use crate::trailer::StoredForm;
use crate::tree::{HeldLeaf, Tree};
use crate::{ChunkStore, Cost, DirectRelation, Failure};

impl DirectRelation {
    /// The leaves of a value in order, each held in the store while its [`Leaf`] lives. Of a compressed
    /// value these are the bytes as stored.
    ///
    /// # Errors
    /// As [`read`](Self::read), for what the root says.
    pub fn leaves<'s, S: ChunkStore>(
        &self,
        store: &'s S,
        pointer: &DirectPointer,
    ) -> Result<Leaves<'s, S>, Failure<S::Error>> {
        let promise = self.resolve(pointer)?;
        Ok(Leaves { tree: self.tree(store, &promise)?, at: 0, is_broken: false })
    }

    /// The value as something to read from and to seek in. A value stored as it is takes the memory of the
    /// nodes that are held, one in groups that of a group; one compressed as a whole is decoded whole.
    ///
    /// # Errors
    /// As [`read`](Self::read), for what is fetched at once.
    pub fn source<'s, S: ChunkStore>(
        &self,
        store: &'s S,
        pointer: &DirectPointer,
    ) -> Result<Source<'s, S>, Failure<S::Error>> {
        let promise = self.resolve(pointer)?;
        let origin = match promise.form {
            StoredForm::AsIs => Origin::Leaves { tree: self.tree(store, &promise)?, leaf: None },
            StoredForm::Groups => Origin::Groups(self.groups(store, &promise)?),
            StoredForm::Pglz | StoredForm::Lz4 => Origin::Value(self.read(store, pointer)?),
        };
        Ok(Source { origin, position: 0, len: promise.raw_len })
    }
}

/// An iterator over the leaves of a value; made by [`DirectRelation::leaves`]. It ends after an error.
pub struct Leaves<'s, S: ChunkStore> {
    tree: Tree<'s, S>,
    at: usize,
    is_broken: bool,
}

impl<S: ChunkStore> Leaves<'_, S> {
    /// What was fetched so far.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        self.tree.cost
    }
}

impl<'s, S: ChunkStore> Iterator for Leaves<'s, S> {
    type Item = Result<Leaf<S::Tuple<'s>>, Failure<S::Error>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_broken || self.at >= self.tree.stored_len() {
            return None;
        }
        let leaf = self.tree.leaf(self.at);
        match &leaf {
            Ok(leaf) => self.at = leaf.range().end,
            Err(_) => self.is_broken = true,
        }
        Some(leaf.map(|leaf| Leaf { tuple: leaf.tuple, data: leaf.data, offset: leaf.start }))
    }
}

impl<S: ChunkStore> core::iter::FusedIterator for Leaves<'_, S> {}

impl<S: ChunkStore> fmt::Debug for Leaves<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaves").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Some bytes of a value where they lie in the store; derefs to them.
#[derive(Clone)]
pub struct Leaf<T> {
    tuple: T,
    data: Range<usize>,
    offset: usize,
}

impl<T> Leaf<T> {
    /// Where the first of them is in the stored value.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }
}

impl<T: Deref<Target = [u8]>> Deref for Leaf<T> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.tuple[self.data.clone()]
    }
}

impl<T: Deref<Target = [u8]>> fmt::Debug for Leaf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaf").field("offset", &self.offset).field("len", &self.len()).finish()
    }
}

/// A value to be read from, at any place; made by [`DirectRelation::source`]. With `std` it is
/// [`std::io::Read`] and [`std::io::Seek`].
pub struct Source<'s, S: ChunkStore> {
    origin: Origin<'s, S>,
    position: usize,
    len: usize,
}

/// Where the bytes come from.
enum Origin<'s, S: ChunkStore> {
    Leaves { tree: Tree<'s, S>, leaf: Option<HeldLeaf<S::Tuple<'s>>> },
    Groups(crate::group::GroupReader<'s, S>),
    Value(alloc::vec::Vec<u8>),
}

impl<S: ChunkStore> Source<'_, S> {
    /// Fills `target` from the current position on, with fewer bytes only at the end of the value, and
    /// says how many.
    ///
    /// # Errors
    /// As [`DirectRelation::read`]. The position is then as before.
    pub fn read(&mut self, target: &mut [u8]) -> Result<usize, Failure<S::Error>> {
        let start = self.position.min(self.len);
        let end = start + target.len().min(self.len - start);
        let target = &mut target[..end - start];
        match &mut self.origin {
            Origin::Leaves { tree, leaf } => fill(tree, leaf, start, target)?,
            Origin::Groups(groups) => groups.fill(start, target)?,
            Origin::Value(value) => target.copy_from_slice(&value[start..end]),
        }
        self.position = end.max(self.position);
        Ok(end - start)
    }

    /// The next byte's place in the value.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Has the next byte be the one at `position`; behind the end there are none.
    pub const fn set_position(&mut self, position: usize) {
        self.position = position;
    }

    /// Bytes of the whole value.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no value is empty")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// What was fetched so far.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        match &self.origin {
            Origin::Leaves { tree, .. } => tree.cost,
            Origin::Groups(groups) => groups.cost(),
            Origin::Value(_) => Cost::NONE,
        }
    }
}

/// From where it is wanted in large pieces, leaves are fetched together; a leaf that is wanted in parts is
/// kept.
pub(crate) fn fill<'s, S: ChunkStore>(
    tree: &mut Tree<'s, S>,
    held: &mut Option<HeldLeaf<S::Tuple<'s>>>,
    start: usize,
    target: &mut [u8],
) -> Result<(), Failure<S::Error>> {
    let end = start + target.len();
    let mut at = start;
    while at < end {
        let leaf = match held.take() {
            Some(leaf) if leaf.range().contains(&at) => leaf,
            _ => {
                let leaf = tree.leaf(at)?;
                let whole = leaf.start == at && leaf.range().end < end;
                if whole {
                    // More than this leaf is wanted: take it and those that follow in one go, as far
                    // as whole leaves are wanted.
                    target[at - start..at - start + leaf.data.len()].copy_from_slice(leaf.bytes());
                    at = leaf.range().end;
                    let whole_end = end - (end - at) % leaf.data.len();
                    if at < whole_end {
                        let mut last = at;
                        tree.visit(at..whole_end, |from, piece| {
                            let len = piece.len().min(end - from);
                            target[from - start..from - start + len].copy_from_slice(&piece[..len]);
                            last = from + len;
                        })?;
                        at = last;
                    }
                    continue;
                }
                leaf
            }
        };
        let from = at - leaf.start;
        let len = (leaf.data.len() - from).min(end - at);
        target[at - start..at - start + len].copy_from_slice(&leaf.bytes()[from..from + len]);
        at += len;
        *held = Some(leaf);
    }
    Ok(())
}

impl<S: ChunkStore> fmt::Debug for Source<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("position", &self.position)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "std")]
impl<S: ChunkStore<Error: Into<std::io::Error>>> std::io::Read for Source<'_, S> {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        Ok(Self::read(self, target)?)
    }
}

#[cfg(feature = "std")]
impl<S: ChunkStore> std::io::Seek for Source<'_, S> {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        use std::io::{Error, ErrorKind, SeekFrom};

        let (base, by) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::End(by) => (self.len as u64, by),
            SeekFrom::Current(by) => (self.position as u64, by),
        };
        let position = base.checked_add_signed(by).and_then(|it| usize::try_from(it).ok());
        self.position = position.ok_or_else(|| Error::from(ErrorKind::InvalidInput))?;
        Ok(self.position as u64)
    }
}
