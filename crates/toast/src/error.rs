use core::fmt;

use pgtoast_base::{BlockNumber, ItemPointer, Oid8};
use pgtoast_codec::CodecError;
use pgtoast_page::{PageError, TupleError};
use pgtoast_varlena::VarlenaError;

/// Why chunks are not the value their pointer promises, why it cannot be read, or why a row cannot be
/// stored.
///
/// `value_id` is the value's id in either width; `chunk` counts from 0 and is below `chunk_count`; `tid`
/// is the tuple at fault, where the source of the chunks knows it. Byte counts of chunks are payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum ToastError {
    /// `chunk_data` is no varlena at all.
    ChunkData { tid: Option<ItemPointer>, error: VarlenaError },
    /// Chunk `found` came where `expected` had to: there is a hole, or chunk `found` came before.
    ChunkNumber { value_id: Oid8, found: i32, expected: u32, tid: Option<ItemPointer> },
    /// Chunk `found` is none of `first..=last`.
    ChunkOutOfRange { value_id: Oid8, found: i32, first: u32, last: u32, tid: Option<ItemPointer> },
    /// A chunk has `found` bytes; `expected` are the full size, or in the last chunk the rest.
    ChunkSize {
        value_id: Oid8,
        chunk: u32,
        chunk_count: u32,
        found: usize,
        expected: usize,
        tid: Option<ItemPointer>,
    },
    /// `chunk_data` is itself compressed or out of line.
    ChunkToasted { value_id: Oid8, chunk: i32, tid: Option<ItemPointer> },
    /// A tuple is not one of a TOAST relation; `attributes` is what its header counts.
    ChunkTuple { attributes: u16, tid: Option<ItemPointer> },
    /// A chunk of value `found` came among those of value `expected`.
    ChunkValue { found: Oid8, expected: Oid8, tid: Option<ItemPointer> },
    /// A compressed value does not decompress.
    Codec(CodecError),
    /// The word in front of the stored stream is `found`; the pointer makes `expected`. `raw_len` has
    /// 30 bits, the method 2.
    CompressionInfo { value_id: Oid8, found: u32, expected: u32 },
    /// A direct value has no id to look up: its chunks are a tree, which another crate reads.
    Direct,
    /// Chunk `chunk` and all that should follow are not there.
    MissingChunk { value_id: Oid8, chunk: u32, chunk_count: u32 },
    /// A page is broken.
    Page { block: BlockNumber, error: PageError },
    /// The pointer is at odds with itself: `stored_len` bytes cannot make `raw_len`.
    PointerLengths { value_id: Oid8, raw_len: usize, stored_len: usize },
    /// A compressed value's stream ends after `found` of the `expected` bytes that a slice needs.
    PrefixShort { found: usize, expected: usize },
    /// A row takes `size` bytes of a page, rounded up as tuples are there; `limit` is the most.
    RowTooBig { size: usize, limit: usize },
    /// A slice starts, or a count of characters is, below zero.
    SliceNegative { found: i32 },
    /// A pointer was to be stored out of line: its value is there already, or is to be fetched first.
    StorePointer,
    /// The target has `found` bytes, and what is to be read `expected`.
    TargetLength { found: usize, expected: usize },
    /// Values make no tuple.
    Tuple(TupleError),
    /// A table's target of `found` bytes is none of `least..=most`.
    TupleTarget { found: usize, least: usize, most: usize },
    /// The bytes of the value that start at `offset` are not UTF-8.
    Utf8 { offset: usize },
    /// No value has the id `found`, which is 0 or takes more than the `bits` that a relation's ids have.
    ValueId { found: Oid8, bits: u32 },
    /// A datum is broken.
    Varlena(VarlenaError),
}

impl fmt::Display for ToastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ChunkData { tid, error } => write!(f, "chunk data{}: {error}", At(tid)),
            Self::ChunkNumber { value_id, found, expected, tid } => {
                write!(f, "toast value {value_id}: chunk {found}{}, expected {expected}", At(tid))
            }
            Self::ChunkOutOfRange { value_id, found, first, last, tid } => write!(
                f,
                "toast value {value_id}: chunk {found}{}, expected {first} to {last}",
                At(tid)
            ),
            Self::ChunkSize { value_id, chunk, chunk_count, found, expected, tid } => write!(
                f,
                "toast value {value_id}: {found} bytes in chunk {chunk} of {chunk_count}{}, \
                 expected {expected}",
                At(tid)
            ),
            Self::ChunkToasted { value_id, chunk, tid } => {
                write!(f, "toast value {value_id}: chunk {chunk}{} is toasted itself", At(tid))
            }
            Self::ChunkTuple { attributes, tid } => {
                write!(f, "tuple{} with {attributes} attributes is no chunk", At(tid))
            }
            Self::ChunkValue { found, expected, tid } => {
                write!(f, "chunk{} of toast value {found}, expected {expected}", At(tid))
            }
            Self::Codec(error) => write!(f, "{error}"),
            Self::CompressionInfo { value_id, found, expected } => write!(
                f,
                "toast value {value_id}: stored compression info {found:#010x}, the pointer makes \
                 it {expected:#010x}"
            ),
            Self::Direct => f.write_str("a direct toast value is not found by an id"),
            Self::MissingChunk { value_id, chunk, chunk_count } => {
                write!(f, "toast value {value_id}: chunk {chunk} of {chunk_count} is missing")
            }
            Self::Page { block, error } => write!(f, "block {block}: {error}"),
            Self::PointerLengths { value_id, raw_len, stored_len } => write!(
                f,
                "toast value {value_id}: {stored_len} bytes stored cannot be {raw_len} bytes raw"
            ),
            Self::PrefixShort { found, expected } => {
                write!(f, "stream ends after {found} of the {expected} bytes of a slice")
            }
            Self::RowTooBig { size, limit } => {
                write!(f, "row is too big: size {size}, maximum size {limit}")
            }
            Self::SliceNegative { found } => write!(f, "slice of {found}, expected 0 or more"),
            Self::StorePointer => f.write_str("a toast pointer is not stored out of line"),
            Self::TargetLength { found, expected } => {
                write!(f, "target of {found} bytes, expected {expected}")
            }
            Self::Tuple(error) => write!(f, "{error}"),
            Self::TupleTarget { found, least, most } => {
                write!(f, "tuple target of {found} bytes, expected {least} to {most}")
            }
            Self::Utf8 { offset } => write!(f, "bytes at {offset} of the value are not utf-8"),
            Self::ValueId { found, bits } => {
                write!(f, "toast value id {found}, expected one of {bits} bits that is not 0")
            }
            Self::Varlena(error) => write!(f, "{error}"),
        }
    }
}

/// Where a tuple is, for the middle of a sentence; nothing where that is unknown.
struct At(Option<ItemPointer>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(tid) => write!(f, " at {tid}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for ToastError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::ChunkData { error, .. } | Self::Varlena(error) => Some(error),
            Self::Codec(error) => Some(error),
            Self::Page { error, .. } => Some(error),
            Self::Tuple(error) => Some(error),
            _ => None,
        }
    }
}

impl From<CodecError> for ToastError {
    fn from(error: CodecError) -> Self {
        Self::Codec(error)
    }
}

impl From<TupleError> for ToastError {
    fn from(error: TupleError) -> Self {
        Self::Tuple(error)
    }
}

impl From<VarlenaError> for ToastError {
    fn from(error: VarlenaError) -> Self {
        Self::Varlena(error)
    }
}

/// Why a value could not be read: the source of its chunks failed, or what came from there is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError<E> {
    /// The source failed.
    Source(E),
    /// The source worked, and the value is broken.
    Toast(ToastError),
}

impl<E> ReadError<E> {
    /// The same with another error of the source's: for a source that asks others.
    pub fn map_source<F>(self, map: impl FnOnce(E) -> F) -> ReadError<F> {
        match self {
            Self::Source(error) => ReadError::Source(map(error)),
            Self::Toast(error) => ReadError::Toast(error),
        }
    }
}

impl<E> From<ToastError> for ReadError<E> {
    fn from(error: ToastError) -> Self {
        Self::Toast(error)
    }
}

impl<E> From<CodecError> for ReadError<E> {
    fn from(error: CodecError) -> Self {
        Self::Toast(error.into())
    }
}

impl<E> From<VarlenaError> for ReadError<E> {
    fn from(error: VarlenaError) -> Self {
        Self::Toast(error.into())
    }
}

impl<E: fmt::Display> fmt::Display for ReadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => write!(f, "reading chunks: {error}"),
            Self::Toast(error) => write!(f, "{error}"),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for ReadError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Source(error) => Some(error),
            Self::Toast(error) => Some(error),
        }
    }
}

/// Why a row could not be written: its TOAST relation failed, or something is wrong with the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError<E> {
    /// The relation failed.
    Relation(E),
    /// The relation worked, and the row or a value that it points to is broken or too big.
    Toast(ToastError),
}

impl<E> From<ToastError> for WriteError<E> {
    fn from(error: ToastError) -> Self {
        Self::Toast(error)
    }
}

impl<E> From<TupleError> for WriteError<E> {
    fn from(error: TupleError) -> Self {
        Self::Toast(error.into())
    }
}

impl<E> From<VarlenaError> for WriteError<E> {
    fn from(error: VarlenaError) -> Self {
        Self::Toast(error.into())
    }
}

impl<E> From<ReadError<E>> for WriteError<E> {
    fn from(error: ReadError<E>) -> Self {
        match error {
            ReadError::Source(error) => Self::Relation(error),
            ReadError::Toast(error) => Self::Toast(error),
        }
    }
}

impl<E: fmt::Display> fmt::Display for WriteError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relation(error) => write!(f, "toast relation: {error}"),
            Self::Toast(error) => write!(f, "{error}"),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for WriteError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Relation(error) => Some(error),
            Self::Toast(error) => Some(error),
        }
    }
}
