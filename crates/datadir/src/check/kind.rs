//! What can be found.
use core::fmt;

use pgtoast_base::{ItemPointer, Oid, Xid};
use pgtoast_codec::CodecError;
use pgtoast_nbtree::NbtreeError;
use pgtoast_page::{PageError, TupleError};
use pgtoast_varlena::VarlenaError;

use super::Severity;
use crate::DatadirError;

/// What is wrong. Where it is, the [`Finding`](super::Finding) around it says; chunks are counted
/// from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum FindingKind {
    /// The block could not be read.
    BlockUnreadable { error: DatadirError },
    /// Blocks from here on verify when read `by` bytes later: bytes were inserted before them, or, if
    /// negative, removed.
    BytesShifted { by: i32 },
    /// Redirect or tuple leads to `target`, which `other` leads to, too.
    ChainShared { target: u16, other: u16 },
    /// The chunk numbered `chunk` is there more than once.
    ChunkAgain { chunk: u32, count: u32 },
    /// Chunk `found` is behind the last one, which is `last`.
    ChunkBeyond { found: u32, last: u32 },
    /// Chunks are deleted, by a transaction that committed, while the row that needs them lives: the
    /// next vacuum removes them.
    ChunkDeleted,
    /// The chunk is there, in block `block` of the TOAST relation, whose checksum is wrong: nobody
    /// knows whether what it holds is what was stored.
    ChunkDistrusted { chunk: u32, block: u32 },
    /// The chunk's data is null.
    ChunkNullData { chunk: u32 },
    /// A chunk has no number.
    ChunkNullSequence,
    /// The chunk has `found` bytes; it should have `expected`.
    ChunkSize { chunk: u32, found: u32, expected: u32 },
    /// The chunk is compressed or stored out of line itself.
    ChunkToasted { chunk: u32 },
    /// The tuple is no chunk: it has `attributes` attributes, or nulls where there are none.
    ChunkTuple { attributes: u16 },
    /// The checksum of the page is `found`; its content and number make `expected`. `torn_at` is the
    /// offset at which the page seems to be put together of two versions of it.
    Checksum { expected: u16, found: u16, torn_at: Option<u16> },
    /// What became of the tuple's transaction, or the members of its multixact, could not be read.
    CommitStatus { error: DatadirError },
    /// The value's first chunk begins with the compression word `found`; its pointer makes it
    /// `expected`.
    CompressionWord { found: u32, expected: u32 },
    /// The pointer says that the value is compressed, by a method that does not exist.
    CompressionMethod { bits: u8 },
    /// The compressed value does not decompress.
    Decompress { error: CodecError },
    /// A value is stored out of line, and the tuple's flags deny it.
    ExternalUnflagged,
    /// `bytes` bytes follow the last whole block.
    FileFragment { bytes: u32 },
    /// The file is not there.
    FileMissing,
    /// The file could not be opened as a relation's.
    FileUnusable { error: DatadirError },
    /// The free space map contradicts itself.
    FreeSpace(pgtoast_fsm::Finding),
    /// A heap-only tuple that nothing leads to.
    HeapOnlyUnreached,
    /// A heap-only tuple that does not come from an update.
    HeapOnlyWithoutUpdate,
    /// The update was not heap-only, and its new version `target` is.
    HotMissing { target: u16 },
    /// The update was heap-only, and its new version `target` is not.
    HotUnfounded { target: u16 },
    /// The tuple was updated heap-only, by nobody.
    HotWithoutXmax,
    /// The index breaks its own rules.
    Index(NbtreeError),
    /// The index does not lead to chunk `chunk`, which is there.
    IndexEntryMissing { chunk: i32 },
    /// The index leads to `tid` for chunk `chunk`, which is not there.
    IndexEntryStray { chunk: i32, tid: ItemPointer },
    /// The index's first block is new, where its metapage should be.
    IndexEmpty,
    /// An inline value says that it decompresses to `raw_len` bytes, by method `bits`; no stream of
    /// its length does.
    InlineCompression { raw_len: u32, bits: u8 },
    /// A multixact is marked as committed, which multixacts never are.
    MultiCommitted,
    /// The multixact `found` is not in the range of the `bound`.
    MultiOutside { found: u32, bound: Bound, limit: u32 },
    /// The block is all frozen by the map or all visible by its own flag, and the tuple is not
    /// frozen.
    NotFrozen,
    /// The block is all visible by the map or by its own flag, and the tuple is not.
    NotVisible,
    /// No row leads to the value, whose `chunks` chunks hold `bytes` bytes.
    Orphan { chunks: u32, bytes: u64 },
    /// The page's structure is broken.
    Page(PageError),
    /// The pointer's lengths cannot be: `stored_len` bytes are no value of `raw_len`.
    PointerLengths { raw_len: i32, stored_len: u32 },
    /// The pointer leads to TOAST relation `found`; the table's is `expected`.
    PointerRelation { found: Oid, expected: Oid },
    /// A pointer of a kind that these releases do not have.
    PointerKind,
    /// The pointer says that the value has `raw_len` bytes, more than any has.
    RawLength { raw_len: i32 },
    /// The redirect leads to `target`, which is not heap-only.
    RedirectNotHeapOnly { target: u16 },
    /// `found` is newer than its predecessor: its insertion is over, or goes on, and that of the
    /// version that it replaced is not.
    SuccessorFirst { target: u16 },
    /// The value is stored out of line, and the table has no TOAST relation.
    ToastRelationMissing,
    /// The tuple or one of its attributes is broken.
    Tuple(TupleError),
    /// The value ends before chunk `next` of `count`.
    ValueEnded { next: u32, count: u32 },
    /// The value lacks chunk `next` of `count`, and chunk `found` follows.
    ValueGap { next: u32, found: u32, count: u32 },
    /// There is no chunk of the value.
    ValueMissing { count: u32 },
    /// The pointer cannot be made sense of.
    Varlena(VarlenaError),
    /// The visibility map says that the block is all frozen and not that it is all visible.
    VisibilityBits,
    /// The visibility map says that the block is all visible, and the block does not.
    VisibilityFlag,
    /// The visibility map says something of a block that is behind the end.
    VisibilityPastEnd,
    /// The transaction id in `field` is not in the range of the `bound`.
    XidOutside { field: XidField, found: Xid, bound: Bound, limit: Xid },
}

/// Which of a tuple's transaction ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XidField {
    /// Who inserted it.
    Xmin,
    /// Who deleted, updated or locked it.
    Xmax,
    /// The vacuum that moved it, before 9.0.
    Xvac,
}

/// Which limit an id does not keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// It is not below the next one to be given out.
    Next,
    /// It is below the oldest of the whole cluster.
    Oldest,
    /// It is below the oldest of its table.
    Relation,
    /// It is zero.
    Zero,
}

impl FindingKind {
    /// How bad it is.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::FreeSpace(pgtoast_fsm::Finding::PastEnd { .. }) => Severity::Note,
            Self::Orphan { .. } => Severity::Waste,
            Self::FreeSpace(_)
            | Self::Index(_)
            | Self::IndexEmpty
            | Self::IndexEntryMissing { .. }
            | Self::IndexEntryStray { .. }
            | Self::VisibilityBits
            | Self::VisibilityFlag
            | Self::VisibilityPastEnd => Severity::Derived,
            Self::BytesShifted { .. }
            | Self::ChainShared { .. }
            | Self::ChunkDeleted
            | Self::ExternalUnflagged
            | Self::FileFragment { .. }
            | Self::HeapOnlyUnreached
            | Self::HeapOnlyWithoutUpdate
            | Self::HotMissing { .. }
            | Self::HotUnfounded { .. }
            | Self::HotWithoutXmax
            | Self::MultiCommitted
            | Self::MultiOutside { .. }
            | Self::NotFrozen
            | Self::NotVisible
            | Self::RedirectNotHeapOnly { .. }
            | Self::SuccessorFirst { .. }
            | Self::PointerRelation { .. } => Severity::Suspect,
            _ => Severity::Lost,
        }
    }

    /// A name that stays the same: for programs that read reports.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::BlockUnreadable { .. } => "block-unreadable",
            Self::BytesShifted { .. } => "bytes-shifted",
            Self::ChainShared { .. } => "chain-shared",
            Self::ChunkAgain { .. } => "chunk-again",
            Self::ChunkBeyond { .. } => "chunk-beyond",
            Self::ChunkDeleted => "chunk-deleted",
            Self::ChunkDistrusted { .. } => "chunk-distrusted",
            Self::ChunkNullData { .. } => "chunk-null-data",
            Self::ChunkNullSequence => "chunk-null-sequence",
            Self::ChunkSize { .. } => "chunk-size",
            Self::ChunkToasted { .. } => "chunk-toasted",
            Self::ChunkTuple { .. } => "chunk-tuple",
            Self::Checksum { .. } => "checksum",
            Self::CommitStatus { .. } => "commit-status",
            Self::CompressionWord { .. } => "compression-word",
            Self::CompressionMethod { .. } => "compression-method",
            Self::Decompress { .. } => "decompress",
            Self::ExternalUnflagged => "external-unflagged",
            Self::FileFragment { .. } => "file-fragment",
            Self::FileMissing => "file-missing",
            Self::FileUnusable { .. } => "file-unusable",
            Self::FreeSpace(_) => "free-space",
            Self::HeapOnlyUnreached => "heap-only-unreached",
            Self::HeapOnlyWithoutUpdate => "heap-only-without-update",
            Self::HotMissing { .. } => "hot-missing",
            Self::HotUnfounded { .. } => "hot-unfounded",
            Self::HotWithoutXmax => "hot-without-xmax",
            Self::Index(_) => "index",
            Self::IndexEmpty => "index-empty",
            Self::IndexEntryMissing { .. } => "index-entry-missing",
            Self::IndexEntryStray { .. } => "index-entry-stray",
            Self::InlineCompression { .. } => "inline-compression",
            Self::MultiCommitted => "multi-committed",
            Self::MultiOutside { .. } => "multi-outside",
            Self::NotFrozen => "not-frozen",
            Self::NotVisible => "not-visible",
            Self::Orphan { .. } => "orphan",
            Self::Page(error) => page_name(error),
            Self::PointerKind => "pointer-kind",
            Self::PointerLengths { .. } => "pointer-lengths",
            Self::PointerRelation { .. } => "pointer-relation",
            Self::RawLength { .. } => "raw-length",
            Self::RedirectNotHeapOnly { .. } => "redirect-not-heap-only",
            Self::SuccessorFirst { .. } => "successor-first",
            Self::ToastRelationMissing => "toast-relation-missing",
            Self::Tuple(error) => tuple_name(error),
            Self::ValueEnded { .. } => "value-ended",
            Self::ValueGap { .. } => "value-gap",
            Self::ValueMissing { .. } => "value-missing",
            Self::Varlena(_) => "pointer",
            Self::VisibilityBits => "visibility-bits",
            Self::VisibilityFlag => "visibility-flag",
            Self::VisibilityPastEnd => "visibility-past-end",
            Self::XidOutside { .. } => "xid-outside",
        }
    }
}

const fn page_name(error: &PageError) -> &'static str {
    match error {
        PageError::ItemBadTarget { .. } => "redirect-outside",
        PageError::ItemEmptyTarget { .. } => "redirect-to-no-tuple",
        PageError::ItemMisaligned { .. } => "item-misaligned",
        PageError::ItemOutside { .. } => "item-outside",
        PageError::ItemOverlap { .. } => "item-overlap",
        PageError::ItemStored { .. } => "item-stored",
        PageError::ItemTooShort { .. } => "item-too-short",
        PageError::NewNotZero { .. } => "new-not-zero",
        PageError::SizeVersion { .. } => "page-size",
        _ => "page-header",
    }
}

const fn tuple_name(error: &TupleError) -> &'static str {
    match error {
        TupleError::AttributeCount { .. } => "attribute-count",
        TupleError::AttributeEnd { .. } => "attribute-end",
        TupleError::AttributeStart { .. } => "attribute-start",
        TupleError::DataPastEnd { .. } => "data-past-end",
        TupleError::DataStart { .. } | TupleError::BitmapPastData { .. } => "data-start",
        TupleError::Varlena { error: VarlenaError::UnknownTag { .. }, .. } => "pointer-tag",
        TupleError::Varlena { error: VarlenaError::MemoryOnlyTag { .. }, .. } => "pointer-tag",
        _ => "attribute",
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BlockUnreadable { error } | Self::FileUnusable { error } => error.fmt(f),
            Self::BytesShifted { by } => {
                write!(f, "blocks from here on verify when read {by} bytes later")
            }
            Self::ChainShared { target, other } => {
                write!(f, "leads to item {target}, and so does item {other}")
            }
            Self::ChunkAgain { chunk, count } => {
                write!(f, "chunk {chunk} of {count} is there more than once")
            }
            Self::ChunkBeyond { found, last } => {
                write!(f, "chunk {found} is behind the last one, {last}")
            }
            Self::ChunkDeleted => f.write_str("chunks of a living row are deleted"),
            Self::ChunkDistrusted { chunk, block } => {
                write!(f, "chunk {chunk} lies in TOAST block {block}, whose checksum is wrong")
            }
            Self::ChunkNullData { chunk } => write!(f, "the data of chunk {chunk} is null"),
            Self::ChunkNullSequence => f.write_str("a chunk has no number"),
            Self::ChunkSize { chunk, found, expected } => {
                write!(f, "{found} bytes in chunk {chunk}, expected {expected}")
            }
            Self::ChunkToasted { chunk } => write!(f, "chunk {chunk} is toasted itself"),
            Self::ChunkTuple { attributes } => {
                write!(f, "a tuple of {attributes} attributes that is no chunk")
            }
            Self::Checksum { expected, found, torn_at } => {
                write!(f, "checksum {found:#06x}, expected {expected:#06x}")?;
                match (torn_at, found) {
                    (Some(offset), _) => write!(f, ", looks torn at byte {offset}"),
                    (None, 0) => f.write_str(", written without checksums?"),
                    _ => Ok(()),
                }
            }
            Self::CommitStatus { error } => error.fmt(f),
            Self::CompressionWord { found, expected } => write!(
                f,
                "the chunks begin with compression word {found:#010x}, the pointer makes it \
                 {expected:#010x}"
            ),
            Self::CompressionMethod { bits } => write!(f, "there is no compression method {bits}"),
            Self::Decompress { error } => write!(f, "does not decompress: {error}"),
            Self::ExternalUnflagged => {
                f.write_str("out of line, though the tuple says it has no such value")
            }
            Self::FileFragment { bytes } => write!(f, "{bytes} bytes behind the last whole block"),
            Self::FileMissing => f.write_str("the file is not there"),
            Self::FreeSpace(finding) => finding.fmt(f),
            Self::HeapOnlyUnreached => f.write_str("heap-only, and nothing leads to it"),
            Self::HeapOnlyWithoutUpdate => f.write_str("heap-only, and not of an update"),
            Self::HotMissing { target } => {
                write!(f, "not updated heap-only, and its new version {target} is heap-only")
            }
            Self::HotUnfounded { target } => {
                write!(f, "updated heap-only, and its new version {target} is not heap-only")
            }
            Self::HotWithoutXmax => f.write_str("updated heap-only by transaction 0"),
            Self::Index(error) => error.fmt(f),
            Self::IndexEntryMissing { chunk } => {
                write!(f, "no entry leads to chunk {chunk}, which is there")
            }
            Self::IndexEntryStray { chunk, tid } => {
                write!(f, "an entry leads to {tid} for chunk {chunk}, which is not there")
            }
            Self::IndexEmpty => f.write_str("the index has no metapage"),
            Self::InlineCompression { raw_len, bits } => {
                write!(f, "no stream of its length decompresses to {raw_len} bytes, method {bits}")
            }
            Self::MultiCommitted => f.write_str("a multixact is marked as committed"),
            Self::MultiOutside { found, bound, limit } => {
                write!(f, "multixact {found} {}", Limit(bound, limit))
            }
            Self::NotFrozen => f.write_str("not frozen, in a block that is all frozen"),
            Self::NotVisible => f.write_str("not visible to all, in a block that is all visible"),
            Self::Orphan { chunks, bytes } => {
                write!(f, "no row leads to it: {chunks} chunks, {bytes} bytes")
            }
            Self::Page(error) => error.fmt(f),
            Self::PointerKind => f.write_str("a pointer of a kind that this release has not"),
            Self::PointerLengths { raw_len, stored_len } => {
                write!(f, "{stored_len} bytes stored cannot be {raw_len} bytes raw")
            }
            Self::PointerRelation { found, expected } => {
                write!(f, "points to TOAST relation {found}, the table's is {expected}")
            }
            Self::RawLength { raw_len } => write!(f, "no value has {raw_len} bytes"),
            Self::RedirectNotHeapOnly { target } => {
                write!(f, "redirected to item {target}, which is not heap-only")
            }
            Self::SuccessorFirst { target } => write!(
                f,
                "its new version {target} is there, though it was itself never inserted for good"
            ),
            Self::ToastRelationMissing => f.write_str("the table has no TOAST relation"),
            Self::Tuple(error) => error.fmt(f),
            Self::ValueEnded { next, count } => {
                write!(f, "missing chunk {next} of {count}: the value ends there")
            }
            Self::ValueGap { next, found, count } => {
                write!(f, "missing chunk {next} of {count}: chunk {found} follows")
            }
            Self::ValueMissing { count } => write!(f, "none of its {count} chunks is there"),
            Self::Varlena(error) => error.fmt(f),
            Self::VisibilityBits => {
                f.write_str("all frozen by the visibility map, and not all visible")
            }
            Self::VisibilityFlag => {
                f.write_str("all visible by the visibility map, and not by its own flag")
            }
            Self::VisibilityPastEnd => {
                f.write_str("the visibility map speaks of it, and the relation has no such block")
            }
            Self::XidOutside { field, found, bound, limit } => {
                let field = match field {
                    XidField::Xmin => "xmin",
                    XidField::Xmax => "xmax",
                    XidField::Xvac => "xvac",
                };
                write!(f, "{field} {found} {}", Limit(bound, limit.get()))
            }
        }
    }
}

/// Which limit was not kept to, for the end of a sentence.
struct Limit(Bound, u32);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.1;
        match self.0 {
            Bound::Next => write!(f, "was never given out: the next is {limit}"),
            Bound::Oldest => write!(f, "is older than the oldest of the cluster, {limit}"),
            Bound::Relation => write!(f, "is older than the oldest of the table, {limit}"),
            Bound::Zero => f.write_str("is none"),
        }
    }
}
