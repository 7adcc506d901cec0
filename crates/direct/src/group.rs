//! Values compressed in groups, so that a slice decodes the groups that hold it and no more.
//!
//! ```text
//! root's data   | codec u8 | shift u8 | 0 0 | raw length u32 | what the root has of the stored bytes …
//! stored bytes  | group 0 | group 1 | … | group n - 1 | end of group 0 u32 | … | of n - 1 | the 8 bytes again |
//!                                                       `- bit 31: the group is stored as it is
//! ```
//! Each group is 2^shift bytes of the value, the last one what is left, and a pglz or lz4 stream of its own.
//! Ends count from the start of the stored bytes. The pointer has method bits 3, which no release of PostgreSQL uses, so that
//! a reader that knows nothing of groups refuses the value. The eight bytes at the end are for whoever has
//! lost the root.
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use pgtoast_base::ItemPointer;
use pgtoast_codec::{CodecError, CompressionMethod, compress, decompress, maximum_raw_len};
use pgtoast_varlena::{DirectPointer, MAX_PAYLOAD_LEN};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::leaves::fill;
use crate::read::visit_slices;
use crate::relation::{Promise, careful_vec};
use crate::trailer::StoredForm;
use crate::tree::{HeldLeaf, Tree};
use crate::{ChunkStore, Cost, DirectError, DirectRelation, Failure, SliceTarget, Writer};

/// In bytes.
pub(crate) const GROUP_HEADER_LEN: usize = size_of::<GroupHeader>();
/// Of the end of a group.
const ENTRY_LEN: usize = 4;
/// How much of a group is fetched before there is room for more of it.
const FILL_STEP: usize = 64 << 10;
/// In the end of a group: it is stored as it is.
const AS_IS: u32 = 1 << 31;

/// How a value is compressed in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOptions {
    method: CompressionMethod,
    shift: u8,
}

impl GroupOptions {
    /// Groups of 128 KiB: the size of a value grows by a percent or two against compression as a whole.
    pub const DEFAULT_GROUP_BYTES: usize = 128 << 10;
    /// The smallest and the largest shift of a group.
    const SHIFTS: core::ops::RangeInclusive<u8> = 12..=24;

    /// Groups of the default size.
    #[must_use]
    pub const fn new(method: CompressionMethod) -> Self {
        Self { method, shift: 17 }
    }

    /// Groups of so many bytes of the value.
    ///
    /// # Errors
    /// [`DirectError::Parameter`] for anything but a power of two from 4 KiB to 16 MiB.
    pub fn with_group_bytes(self, bytes: usize) -> Result<Self, DirectError> {
        let shift = bytes.trailing_zeros();
        match u8::try_from(shift) {
            Ok(shift) if bytes.is_power_of_two() && Self::SHIFTS.contains(&shift) => {
                Ok(Self { shift, ..self })
            }
            _ => Err(DirectError::Parameter {
                name: "group bytes",
                found: bytes,
                least: 1 << Self::SHIFTS.start(),
                most: 1 << Self::SHIFTS.end(),
            }),
        }
    }

    /// Bytes of the value in each group but the last.
    #[must_use]
    pub const fn group_bytes(&self) -> usize {
        1 << self.shift
    }

    /// The codec.
    #[must_use]
    pub const fn method(&self) -> CompressionMethod {
        self.method
    }
}

/// As drawn at the top of this file.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct GroupHeader {
    codec: u8,
    shift: u8,
    zeros: [u8; 2],
    raw_len: U32,
}
const _: () = assert!(size_of::<GroupHeader>() == 8);

impl GroupHeader {
    #[expect(clippy::cast_possible_truncation, reason = "a value has less than 2^30 bytes")]
    fn new(options: GroupOptions, raw_len: usize) -> Self {
        Self {
            codec: options.method.bits(),
            shift: options.shift,
            zeros: [0; 2],
            raw_len: U32::new(raw_len as u32),
        }
    }

    /// The header of a value of `raw_len` bytes.
    pub(crate) fn parse(
        bytes: [u8; GROUP_HEADER_LEN],
        raw_len: usize,
        tid: ItemPointer,
    ) -> Result<GroupOptions, DirectError> {
        let header: Self = zerocopy::transmute!(bytes);
        let Self { codec, shift, zeros, raw_len: found } = header;
        match CompressionMethod::from_bits(codec) {
            Some(method)
                if GroupOptions::SHIFTS.contains(&shift)
                    && zeros == [0; 2]
                    && found.get() as usize == raw_len =>
            {
                Ok(GroupOptions { method, shift })
            }
            _ => Err(DirectError::GroupHeader { tid, codec, shift, raw_len: found.get() }),
        }
    }

    /// The raw length that a header claims.
    pub(crate) fn raw_len(bytes: [u8; GROUP_HEADER_LEN]) -> usize {
        let header: Self = zerocopy::transmute!(bytes);
        header.raw_len.get() as usize
    }
}

impl DirectRelation {
    /// Writes a value that is compressed as a whole, as PostgreSQL does it; `None`, and nothing is written,
    /// where a server would keep the value as it is.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_compressed<S: ChunkStore>(
        &self,
        store: &mut S,
        method: CompressionMethod,
        value: &[u8],
    ) -> Result<Option<DirectPointer>, Failure<S::Error>> {
        expect_len(value.len())?;
        let Some(stream) = compress(method, value) else { return Ok(None) };
        if !pgtoast_codec::saves_enough(value.len(), stream.len()) {
            return Ok(None);
        }
        let info = pgtoast_varlena::CompressionInfo::new(value.len(), method)
            .map_err(DirectError::Varlena)?;
        let form = match method {
            CompressionMethod::Pglz => StoredForm::Pglz,
            CompressionMethod::Lz4 => StoredForm::Lz4,
        };
        let pieces = [&info.word().to_le_bytes()[..], &stream];
        self.write_form(store, form, value.len(), &pieces).map(Some)
    }

    /// Writes a value compressed in groups; `None`, and nothing is left in the store, where that is no
    /// shorter than the value.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_grouped<S: ChunkStore>(
        &self,
        store: &mut S,
        options: GroupOptions,
        value: &[u8],
    ) -> Result<Option<DirectPointer>, Failure<S::Error>> {
        let mut writer = self.group_writer(store, options);
        writer.write(value)?;
        writer.finish()
    }

    /// Writes a value in groups, of a length that need not be known.
    pub fn group_writer<'s, S: ChunkStore>(
        &self,
        store: &'s mut S,
        options: GroupOptions,
    ) -> GroupWriter<'s, S> {
        let parameters = *self.parameters();
        GroupWriter {
            writer: Writer::new(store, parameters, self.tag(), StoredForm::Groups, None),
            relation: *self,
            options,
            group: Vec::new(),
            ends: Vec::new(),
            raw_len: 0,
        }
    }

    pub(crate) fn groups<'s, S: ChunkStore>(
        &self,
        store: &'s S,
        promise: &Promise,
    ) -> Result<GroupReader<'s, S>, Failure<S::Error>> {
        let tree = self.tree(store, promise)?;
        GroupReader::new(tree, promise).map_err(Failure::Direct)
    }

    pub(crate) fn read_groups<S: ChunkStore>(
        &self,
        store: &S,
        promise: &Promise,
        cost: &mut Cost,
    ) -> Result<Vec<u8>, Failure<S::Error>> {
        let mut groups = self.groups(store, promise)?;
        groups.load_ends(0..groups.count())?;
        let mut value = careful_vec(promise.raw_len);
        for group in 0..groups.count() {
            value.extend_from_slice(groups.decode(group)?);
        }
        *cost = groups.cost();
        Ok(value)
    }

    pub(crate) fn slices_of_groups<S: ChunkStore>(
        &self,
        store: &S,
        promise: &Promise,
        sorted: &mut [&mut SliceTarget<'_>],
    ) -> Result<Cost, Failure<S::Error>> {
        let mut groups = self.groups(store, promise)?;
        let end = |slice: &&mut SliceTarget<'_>| slice.offset + slice.bytes.len();
        let first = sorted.first().map_or(0, |slice| slice.offset);
        let last = sorted.iter().map(end).max().unwrap_or_default();
        let size = groups.options.group_bytes();
        if sorted.len() == 1 {
            groups.load_ends(first / size..last.div_ceil(size))?;
        }
        visit_slices(sorted, |range, sink| {
            let (first, last) = (range.start / size, range.end.div_ceil(size));
            for group in first..last {
                sink(group * size, groups.decode(group)?);
            }
            Ok::<_, Failure<S::Error>>((last * size).min(promise.raw_len))
        })?;
        Ok(groups.cost())
    }
}

fn expect_len(len: usize) -> Result<(), DirectError> {
    match len {
        0 => Err(DirectError::Empty),
        1..=MAX_PAYLOAD_LEN => Ok(()),
        _ => Err(DirectError::TooLong { len, limit: MAX_PAYLOAD_LEN }),
    }
}

/// Writes one value in groups; made by [`DirectRelation::group_writer`]. It holds one group, and four
/// bytes for each.
pub struct GroupWriter<'s, S: ChunkStore> {
    writer: Writer<'s, S>,
    relation: DirectRelation,
    options: GroupOptions,
    group: Vec<u8>,
    ends: Vec<U32>,
    raw_len: usize,
}

impl<S: ChunkStore> GroupWriter<'_, S> {
    /// Adds bytes to the end of the value.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Failure<S::Error>> {
        self.raw_len = self.raw_len.saturating_add(bytes.len());
        if self.raw_len > MAX_PAYLOAD_LEN {
            let (len, limit) = (self.raw_len, MAX_PAYLOAD_LEN);
            return Err(DirectError::TooLong { len, limit }.into());
        }
        let size = self.options.group_bytes();
        while !bytes.is_empty() {
            let taken = bytes.len().min(size - self.group.len());
            self.group.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.group.len() == size {
                self.store_group()?;
            }
        }
        Ok(())
    }

    /// Stores the last group, the ends of all, and the root; `None`, and nothing is left in the store,
    /// where that is no shorter than the value.
    ///
    /// # Errors
    /// As [`Writer::finish`].
    pub fn finish(mut self) -> Result<Option<DirectPointer>, Failure<S::Error>> {
        if !self.group.is_empty() {
            self.store_group()?;
        }
        expect_len(self.raw_len)?;
        let header = GroupHeader::new(self.options, self.raw_len);
        self.writer.write(self.ends.as_bytes())?;
        self.writer.write(header.as_bytes())?;
        if self.writer.stored_len() >= self.raw_len {
            return Ok(None); // dropped, and with it what was written
        }
        self.writer.set_prefix(zerocopy::transmute!(header));
        let written = self.writer.complete()?;
        let (root, len) = (written.root, written.stored_len);
        let pointer = self.relation.pointer_to(root, self.raw_len, len, StoredForm::Groups)?;
        Ok(Some(pointer))
    }

    #[expect(clippy::cast_possible_truncation, reason = "less than 2^30, as the writer checks")]
    fn store_group(&mut self) -> Result<(), Failure<S::Error>> {
        let stream = compress(self.options.method, &self.group);
        let stream = stream.filter(|stream| stream.len() < self.group.len());
        self.writer.write(stream.as_deref().unwrap_or(&self.group))?;
        let flag = if stream.is_none() { AS_IS } else { 0 };
        self.ends.push(U32::new(self.writer.stored_len() as u32 | flag));
        self.group.clear();
        Ok(())
    }
}

impl<S: ChunkStore> fmt::Debug for GroupWriter<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupWriter")
            .field("options", &self.options)
            .field("raw_len", &self.raw_len)
            .finish_non_exhaustive()
    }
}

/// Reads a value in groups, one group at a time.
pub(crate) struct GroupReader<'s, S: ChunkStore> {
    tree: Tree<'s, S>,
    options: GroupOptions,
    raw_len: usize,
    /// The leaf that the last group ended in, where the next one starts.
    leaf: Option<HeldLeaf<S::Tuple<'s>>>,
    /// Where groups end, from the end of the one before `first_end`'s on.
    ends: Vec<U32>,
    ends_range: Range<usize>,
    stored: Vec<u8>,
    group: Vec<u8>,
    decoded: Option<usize>,
}

impl<'s, S: ChunkStore> GroupReader<'s, S> {
    pub(crate) fn new(tree: Tree<'s, S>, promise: &Promise) -> Result<Self, DirectError> {
        let raw_len = promise.raw_len;
        let prefix = tree.prefix().unwrap_or_default();
        let options = GroupHeader::parse(prefix, raw_len, promise.root)?;
        let reader = Self {
            tree,
            options,
            raw_len,
            leaf: None,
            ends: Vec::new(),
            ends_range: 0..0,
            stored: Vec::new(),
            group: Vec::new(),
            decoded: None,
        };
        let directory = reader.count() * ENTRY_LEN + GROUP_HEADER_LEN;
        if directory >= promise.stored_len {
            let stored_len = promise.stored_len;
            return Err(DirectError::PointerLengths { raw_len, stored_len });
        }
        Ok(reader)
    }

    pub(crate) const fn count(&self) -> usize {
        self.raw_len.div_ceil(self.options.group_bytes())
    }

    pub(crate) const fn cost(&self) -> Cost {
        self.tree.cost
    }

    /// Where the ends of groups start.
    const fn directory(&self) -> usize {
        self.tree.stored_len() - GROUP_HEADER_LEN - self.count() * ENTRY_LEN
    }

    /// Has the ends of these groups, and of the one before, at hand.
    pub(crate) fn load_ends(&mut self, groups: Range<usize>) -> Result<(), Failure<S::Error>> {
        let first = groups.start.saturating_sub(1);
        let start = self.directory() + first * ENTRY_LEN;
        let end = self.directory() + groups.end.min(self.count()) * ENTRY_LEN;
        let mut bytes = careful_vec(end - start);
        self.tree.visit(start..end, |at, piece| {
            let (from, to) = (start.max(at), end.min(at + piece.len()));
            bytes.extend_from_slice(&piece[from - at..to - at]);
        })?;
        self.ends =
            bytes.chunks_exact(ENTRY_LEN).filter_map(|it| U32::read_from_bytes(it).ok()).collect();
        self.ends_range = first..first + self.ends.len();
        Ok(())
    }

    fn end_of(&self, group: usize) -> Option<u32> {
        let index = group.checked_sub(self.ends_range.start)?;
        self.ends.get(index).map(|end| end.get())
    }

    /// The bytes of a group.
    pub(crate) fn decode(&mut self, group: usize) -> Result<&[u8], Failure<S::Error>> {
        if self.decoded == Some(group) {
            return Ok(&self.group);
        }
        self.decoded = None;
        let has_ends =
            self.end_of(group).is_some() && (group == 0 || self.end_of(group - 1).is_some());
        if !has_ends {
            self.load_ends(group..group + 1)?;
        }
        let size = self.options.group_bytes();
        let start = match group {
            0 => 0,
            _ => (self.end_of(group - 1).unwrap_or_default() & !AS_IS) as usize,
        };
        let word = self.end_of(group).unwrap_or_default();
        let (end, len) = ((word & !AS_IS) as usize, self.directory());
        let group_len = size.min(self.raw_len - group * size);
        let as_is = word & AS_IS != 0;
        let fits = if as_is { end.checked_sub(start) == Some(group_len) } else { true };
        if start >= end || end > len || end - start > group_len || !fits {
            return Err(DirectError::GroupRange { group, start, end, len }.into());
        }
        // Memory grows with what is there, not with what the ends say.
        self.stored.clear();
        while self.stored.len() < end - start {
            let done = self.stored.len();
            self.stored.resize((done + FILL_STEP).min(end - start), 0);
            fill(&mut self.tree, &mut self.leaf, start + done, &mut self.stored[done..])?;
        }
        if as_is {
            core::mem::swap(&mut self.stored, &mut self.group);
        } else {
            let (method, stream_len) = (self.options.method, self.stored.len());
            let limit = maximum_raw_len(method, stream_len);
            if group_len > limit {
                return Err(CodecError::Expansion { stream_len, raw_len: group_len, limit }.into());
            }
            self.group.resize(group_len, 0);
            decompress(method, &self.stored, &mut self.group)?;
            self.tree.cost.decoded_bytes += group_len as u64;
        }
        self.decoded = Some(group);
        Ok(&self.group)
    }

    /// `target.len()` bytes from `start` on, which are in the value.
    pub(crate) fn fill(
        &mut self,
        start: usize,
        target: &mut [u8],
    ) -> Result<(), Failure<S::Error>> {
        let (size, end) = (self.options.group_bytes(), start + target.len());
        let mut at = start;
        while at < end {
            let group = at / size;
            let from = at - group * size;
            let bytes = self.decode(group)?;
            let len = (bytes.len() - from).min(end - at);
            target[at - start..at - start + len].copy_from_slice(&bytes[from..from + len]);
            at += len;
        }
        Ok(())
    }
}
