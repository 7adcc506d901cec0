use core::fmt;

use pgtoast_base::{ItemPointer, Oid};
use pgtoast_codec::CodecError;
use pgtoast_page::TupleError;
use pgtoast_varlena::VarlenaError;

/// Why a tree of chunks is not the value its pointer promises, or why a value cannot be written or edited.
///
/// `tid` is the tuple at fault. Lengths and offsets are bytes of the stored value, without headers and
/// trailers, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum DirectError {
    /// Child `child` of the node is said to hold `start..end` of the `len` bytes below it.
    Bounds { tid: ItemPointer, child: usize, start: i64, end: i64, len: usize },
    /// The tuple is no tuple of a direct value.
    Chunk { tid: ItemPointer, fault: ChunkFault },
    /// A chunk, or the data of a root, has `found` bytes instead of `expected`.
    ChunkLen { tid: ItemPointer, found: usize, expected: usize },
    /// The tuple has number `found` instead of `expected`.
    ChunkNumber { tid: ItemPointer, found: i32, expected: i32 },
    /// A compressed value does not decompress.
    Codec(CodecError),
    /// The value is compressed, and only a value that is stored as it is can be edited.
    Compressed,
    /// The word in front of the stored stream is `found`; the pointer makes it `expected`.
    CompressionInfo { found: u32, expected: u32 },
    /// The node lies deeper than `limit` levels.
    Depth { tid: ItemPointer, limit: usize },
    /// The tuple is reached twice, though no edited value may share it.
    DoublyReferenced { tid: ItemPointer },
    /// A value has at least one byte.
    Empty,
    /// The root has `found` children, and the length of the value makes that `expected`.
    FlatChildren { tid: ItemPointer, found: usize, expected: usize },
    /// The root's word on groups is not one: codec, size or raw length, as found.
    GroupHeader { tid: ItemPointer, codec: u8, shift: u8, raw_len: u32 },
    /// Group `group` is said to lie in `start..end` of `len` stored bytes.
    GroupRange { group: usize, start: usize, end: usize, len: usize },
    /// Leaf `number` of the `count` leaves of a value that is to be rebuilt was not found; with a count of 0
    /// no leaf says how many there are. `value` is the number in its tag.
    LeafMissing { value: u64, number: u32, count: usize },
    /// The leaves that were found of a value do not say how it was.
    LeavesAmbiguous { value: u64 },
    /// The node has `found` bounds, `expected` are one more than it has children.
    NodeBounds { tid: ItemPointer, found: usize, expected: usize },
    /// The node has `found` children, expected `least..=most`.
    NodeChildren { tid: ItemPointer, found: usize, least: usize, most: usize },
    /// A node below the root holds data.
    NodeData { tid: ItemPointer },
    /// There is a node where a leaf should be: leaves are all equally deep.
    NotLeaf { tid: ItemPointer },
    /// There is a leaf, or something else without bounds, where a node should be.
    NotNode { tid: ItemPointer },
    /// A tuple of a direct value that no root leads to.
    Orphan { tid: ItemPointer },
    /// `name` is `found`, expected `least..=most`.
    Parameter { name: &'static str, found: usize, least: usize, most: usize },
    /// The number of the tuple, `found`, is not below that of its parent.
    ParentNumber { tid: ItemPointer, found: i32, parent: i32 },
    /// The pointer is at odds with itself: `stored_len` bytes cannot make `raw_len`.
    PointerLengths { raw_len: usize, stored_len: usize },
    /// Bytes `offset..offset + len` are not all in the value's `value_len`.
    Range { offset: usize, len: usize, value_len: usize },
    /// The pointer leads into relation `found` instead of `expected`.
    Relation { found: Oid, expected: Oid },
    /// A value of `chunks` chunks has a root of the wrong form: up to `flat_chunks` it is the last chunk.
    RootForm { tid: ItemPointer, chunks: usize, flat_chunks: usize },
    /// The relation's leaves have trailers, and no tag was given for them.
    TagMissing,
    /// The target has `found` bytes, the value `expected`.
    TargetLen { found: usize, expected: usize },
    /// A value of `len` bytes or more; `limit` are the most.
    TooLong { len: usize, limit: usize },
    /// The trailer of the leaf says `found` of what its data make `expected`.
    Trailer { tid: ItemPointer, found: u32, expected: u32 },
    /// A pointer is broken.
    Varlena(VarlenaError),
    /// The writer failed before, and nothing of its value is left.
    WriterClosed,
}

/// Why a tuple is none of a direct value. `column` counts from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum ChunkFault {
    /// A part of an array is `found` instead of `expected`.
    Array { column: u16, part: &'static str, found: i64, expected: i64 },
    /// It has `found` attributes, neither 5 nor, from before the last two were added, 3 or more.
    Attributes { found: u16 },
    /// It has neither data nor children.
    Empty,
    /// `chunk_seq` is null.
    NoNumber,
    /// `chunk_id` is not null: it is a chunk of a plain value.
    PlainValue,
    /// A column is itself compressed or out of line.
    Toasted { column: u16 },
    /// It is no heap tuple.
    Tuple(TupleError),
    /// A column is no varlena.
    Varlena { column: u16, error: VarlenaError },
}

impl fmt::Display for DirectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bounds { tid, child, start, end, len } => {
                write!(f, "node {tid}: child {child} holds {start}..{end} of {len} bytes")
            }
            Self::Chunk { tid, fault } => write!(f, "tuple {tid}: {fault}"),
            Self::ChunkLen { tid, found, expected } => {
                write!(f, "chunk {tid} has {found} bytes, expected {expected}")
            }
            Self::ChunkNumber { tid, found, expected } => {
                write!(f, "tuple {tid} is number {found}, expected {expected}")
            }
            Self::Codec(error) => write!(f, "{error}"),
            Self::Compressed => f.write_str("a compressed value cannot be edited"),
            Self::CompressionInfo { found, expected } => write!(
                f,
                "stored compression info {found:#010x}, the pointer makes it {expected:#010x}"
            ),
            Self::Depth { tid, limit } => write!(f, "node {tid} is deeper than {limit} levels"),
            Self::DoublyReferenced { tid } => write!(f, "tuple {tid} is referenced twice"),
            Self::Empty => f.write_str("a value of no bytes is not stored out of line"),
            Self::FlatChildren { tid, found, expected } => {
                write!(f, "flat root {tid} has {found} children, expected {expected}")
            }
            Self::GroupHeader { tid, codec, shift, raw_len } => write!(
                f,
                "root {tid}: no groups have codec {codec}, size 2^{shift} and raw length {raw_len}"
            ),
            Self::GroupRange { group, start, end, len } => {
                write!(f, "group {group} lies in {start}..{end} of {len} stored bytes")
            }
            Self::LeafMissing { value, number, count } => {
                write!(f, "value {value}: leaf {number} of {count} is missing")
            }
            Self::LeavesAmbiguous { value } => {
                write!(f, "value {value}: its leaves do not say how it was")
            }
            Self::NodeBounds { tid, found, expected } => {
                write!(f, "node {tid} has {found} bounds, expected {expected}")
            }
            Self::NodeChildren { tid, found, least, most } => {
                write!(f, "node {tid} has {found} children, expected {least} to {most}")
            }
            Self::NodeData { tid } => write!(f, "node {tid} below the root holds data"),
            Self::NotLeaf { tid } => write!(f, "tuple {tid} is a node, expected a leaf"),
            Self::NotNode { tid } => write!(f, "tuple {tid} is no node"),
            Self::Orphan { tid } => write!(f, "no root leads to tuple {tid}"),
            Self::Parameter { name, found, least, most } => {
                write!(f, "{name} of {found}, expected {least} to {most}")
            }
            Self::ParentNumber { tid, found, parent } => {
                write!(f, "tuple {tid} is number {found}, its parent {parent}")
            }
            Self::PointerLengths { raw_len, stored_len } => {
                write!(f, "{stored_len} bytes stored cannot be {raw_len} bytes raw")
            }
            Self::Range { offset, len, value_len } => {
                write!(f, "{len} bytes at {offset} are not in a value of {value_len}")
            }
            Self::Relation { found, expected } => {
                write!(f, "pointer into relation {found}, expected {expected}")
            }
            Self::RootForm { tid, chunks, flat_chunks } => write!(
                f,
                "root {tid} of {chunks} chunks has the wrong form, {flat_chunks} are the most below one"
            ),
            Self::TagMissing => f.write_str("no tag for the trailers of a value"),
            Self::TargetLen { found, expected } => {
                write!(f, "target of {found} bytes, expected {expected}")
            }
            Self::TooLong { len, limit } => write!(f, "value of {len} bytes, at most {limit}"),
            Self::Trailer { tid, found, expected } => {
                write!(f, "trailer of {tid}: found {found:#010x}, expected {expected:#010x}")
            }
            Self::Varlena(error) => write!(f, "{error}"),
            Self::WriterClosed => f.write_str("the writer failed before"),
        }
    }
}

impl core::error::Error for DirectError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Chunk { fault, .. } => Some(fault),
            Self::Codec(error) => Some(error),
            Self::Varlena(error) => Some(error),
            _ => None,
        }
    }
}

impl From<CodecError> for DirectError {
    fn from(error: CodecError) -> Self {
        Self::Codec(error)
    }
}

impl From<VarlenaError> for DirectError {
    fn from(error: VarlenaError) -> Self {
        Self::Varlena(error)
    }
}

impl fmt::Display for ChunkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Array { column, part, found, expected } => {
                write!(f, "array in column {column}: {part} {found}, expected {expected}")
            }
            Self::Attributes { found } => write!(f, "{found} attributes, expected 5"),
            Self::Empty => f.write_str("neither data nor children"),
            Self::NoNumber => f.write_str("no chunk number"),
            Self::PlainValue => f.write_str("chunk of a plain value"),
            Self::Toasted { column } => write!(f, "column {column} is toasted itself"),
            Self::Tuple(error) => write!(f, "{error}"),
            Self::Varlena { column, error } => write!(f, "column {column}: {error}"),
        }
    }
}

impl core::error::Error for ChunkFault {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Tuple(error) => Some(error),
            Self::Varlena { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Why something did not work: the store failed, or the store worked and a value is broken or impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// The value.
    Direct(DirectError),
    /// The store.
    Store(E),
}

impl<E> From<DirectError> for Failure<E> {
    fn from(error: DirectError) -> Self {
        Self::Direct(error)
    }
}

impl<E> From<CodecError> for Failure<E> {
    fn from(error: CodecError) -> Self {
        Self::Direct(error.into())
    }
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(error) => write!(f, "{error}"),
            Self::Store(error) => write!(f, "chunk store: {error}"),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for Failure<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Direct(error) => Some(error),
            Self::Store(error) => Some(error),
        }
    }
}

#[cfg(feature = "std")]
impl<E: Into<std::io::Error>> From<Failure<E>> for std::io::Error {
    fn from(failure: Failure<E>) -> Self {
        match failure {
            Failure::Direct(error) => Self::new(std::io::ErrorKind::InvalidData, error),
            Failure::Store(error) => error.into(),
        }
    }
}
