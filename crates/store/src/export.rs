//! A table as the files of a server's table of the same shape.
//!
//! ```text
//! store                                    directory
//! rows a snapshot sees    ──frozen──▶      heap, heap.1, …          pointers lead to the target's relation
//! their chunks, by index  ──frozen──▶      toast, toast.1, …        in the order of ids and numbers
//!                         ──packed──▶      toast_index, …           as REINDEX makes it
//! ```
//! Tuples are visible to everyone, log positions are zero, nothing dead is there, and there are no maps: the
//! server makes those. A file has its name when all of it is written.
mod index_file;
mod relation_file;

use core::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use pgtoast_base::{ItemPointer, Oid, Oid8, Xid};
use pgtoast_nbtree::{Index, Key, Meta};
use pgtoast_page::{HeapTuple, HeapTupleMut, Infomask};
use pgtoast_toast::{Chunk, ChunkPlan};
use pgtoast_varlena::{CompressionInfo, Kind, Oid8Pointer, OidPointer, ToastPointer};

use self::index_file::IndexFile;
use self::relation_file::{HeapWriter, RelationFile, Shape};
use crate::buffer::PoolOptions;
use crate::store::StoreInner;
use crate::table::TableInner;
use crate::toast::{ToastStore, key_width};
use crate::transaction::{Isolation, LockMode, TransactionCore};
use crate::{RelationKind, Store, StoreError, Table};

/// The server's table that an export is to go under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportTarget {
    toast_oid: u32,
    checksums: bool,
    release: u32,
    segment_blocks: Option<u32>,
}

impl ExportTarget {
    /// A table whose TOAST relation has that oid (`pg_class.reltoastrelid`; any number if it has none), of a
    /// server with checksums.
    #[doc(alias = "reltoastrelid")]
    #[must_use]
    pub const fn new(toast_oid: u32) -> Self {
        Self { toast_oid, checksums: true, release: 18, segment_blocks: None }
    }

    /// Whether the server's pages carry checksums.
    #[must_use]
    pub const fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// Its major release. It matters for 14, whose index says another thing of itself.
    #[must_use]
    pub const fn release(mut self, major: u32) -> Self {
        self.release = major;
        self
    }

    /// How many blocks its files have at most; 1 GiB of them by default.
    #[doc(alias = "RELSEG_SIZE")]
    #[must_use]
    pub const fn segment_blocks(mut self, blocks: u32) -> Self {
        self.segment_blocks = Some(blocks);
        self
    }
}

/// What was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Export {
    /// The rows.
    pub heap: ExportedFile,
    /// The chunks of values out of line, if the table has a TOAST relation.
    pub toast: Option<ExportedFile>,
    /// The index over those.
    pub toast_index: Option<ExportedFile>,
    /// How many rows there are.
    pub rows: u64,
    /// How many values out of line they have.
    pub values: u64,
    /// How many chunks those have.
    pub chunks: u64,
}

/// A relation's main fork in files: this one, then the same name with `.1`, `.2` and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportedFile {
    /// The first file.
    pub path: PathBuf,
    /// How many blocks there are.
    pub blocks: u32,
    /// How many files.
    pub segments: u32,
}

impl Store {
    /// Writes the rows of a table, as a transaction that begins now sees them, into files that a server takes
    /// as its own: `heap`, `toast` and `toast_index` in a directory, which is made if it is not there. Memory
    /// does not grow with the table.
    ///
    /// Put them in the places of the main forks of an empty table of the same shape
    /// ([`Schema::to_sql`](crate::Schema::to_sql)), its TOAST relation and that one's index, while the server
    /// is stopped, and remove the other forks.
    ///
    /// # Errors
    /// [`StoreError::TableMissing`]; what is wrong with pages or rows; [`StoreError::ChunkCount`] if values
    /// have not the chunks that their pointers say; those of files. No file has its name then.
    pub fn export(
        &self,
        table: &Table,
        directory: impl AsRef<Path>,
        target: &ExportTarget,
    ) -> Result<Export, StoreError> {
        let mut core = self.inner.shared.transactions.begin(Isolation::RepeatableRead);
        self.inner.lock(&mut core, table, LockMode::Shared)?;
        core.begin_statement()?;
        let directory = directory.as_ref();
        fs::create_dir_all(directory)
            .map_err(|error| relation_file::error(RelationKind::Heap, 0, &error))?;
        Exporter { store: &self.inner, table: &table.inner, core: &core, directory, target }.run()
    }
}

struct Exporter<'a> {
    store: &'a StoreInner,
    table: &'a TableInner,
    core: &'a TransactionCore,
    directory: &'a Path,
    target: &'a ExportTarget,
}

/// What the rows lead to.
#[derive(Default)]
struct Counts {
    rows: u64,
    values: u64,
    chunks: u64,
}

impl Exporter<'_> {
    fn run(&self) -> Result<Export, StoreError> {
        let (heap, counts) = self.heap()?;
        let mut files = vec![heap];
        if let Some(toast) = self.table.toast() {
            let (chunks, index, found) = self.toast(toast)?;
            if found != counts.chunks {
                return Err(StoreError::ChunkCount { expected: counts.chunks, found });
            }
            files.extend([chunks, index]);
        }
        let mut named = Vec::new();
        for file in files {
            named.push(file.finish()?);
        }
        relation_file::sync_directory(self.directory)?;
        let mut named = named.into_iter();
        let missing = StoreError::TableMissing;
        let Counts { rows, values, chunks } = counts;
        Ok(Export {
            heap: named.next().ok_or(missing)?,
            toast: named.next(),
            toast_index: named.next(),
            rows,
            values,
            chunks,
        })
    }

    fn file(&self, kind: RelationKind) -> Result<RelationFile, StoreError> {
        let block_size = self.store.shared.pool.options().block_size;
        let segment_blocks = self.target.segment_blocks;
        let shape = Shape {
            block_size,
            checksums: self.target.checksums,
            segment_blocks: segment_blocks.unwrap_or(PoolOptions::segment_blocks(block_size)),
        };
        RelationFile::create(self.directory, kind, shape)
    }

    fn heap(&self) -> Result<(RelationFile, Counts), StoreError> {
        let mut writer = HeapWriter::new(self.file(RelationKind::Heap)?);
        let mut rows = self.table.heap.scan(self.core);
        let mut counts = Counts::default();
        let mut copy = Vec::new();
        while let Some((tid, tuple)) = rows.next()? {
            copy.clear();
            copy.extend_from_slice(tuple);
            self.redirect(tid, &mut copy, &mut counts)?;
            writer.push(frozen(&mut copy, |error| self.table.tuple_error(tid, error))?)?;
            counts.rows += 1;
        }
        Ok((writer.finish()?, counts))
    }

    /// Has the pointers of a tuple lead to the target's TOAST relation.
    fn redirect(
        &self,
        tid: ItemPointer,
        tuple: &mut [u8],
        counts: &mut Counts,
    ) -> Result<(), StoreError> {
        let broken = |error| self.table.tuple_error(tid, error);
        let view = HeapTuple::new(tuple).map_err(broken)?;
        if !view.header().infomask().contains(Infomask::HAS_EXTERNAL) {
            return Ok(());
        }
        let mut places = Vec::new();
        for attribute in view.deform(self.table.descriptor()?).map_err(broken)? {
            let attribute = attribute.map_err(broken)?;
            let pgtoast_page::Value::Stored(datum) = attribute.value else { continue };
            let Some(toast) = self.table.toast() else { continue };
            let index = usize::from(attribute.number) - 1;
            let column = self.table.schema().columns().get(index);
            let is_varlena = column.is_some_and(|column| column.column_type().is_varlena());
            if is_varlena
                && datum.bytes.first().is_some_and(|byte| Kind::of(*byte) == Kind::Pointer)
            {
                let row = |error| StoreError::Row { tid, column: attribute.number, error };
                let pointer =
                    ToastPointer::parse(datum.bytes, 0).map_err(|error| row(error.into()))?;
                let plan = ChunkPlan::new(&pointer, toast.chunk_size).map_err(row)?;
                counts.values += 1;
                counts.chunks += u64::from(plan.chunk_count());
                let other = redirected(&pointer, Oid::new(self.target.toast_oid));
                places.push((datum.offset, other.map_err(row)?));
            }
        }
        for (offset, pointer) in places {
            pointer.encode(&mut tuple[offset..]).map_err(|error| StoreError::Row {
                tid,
                column: 0,
                error: error.into(),
            })?;
        }
        Ok(())
    }

    /// The chunks in the order of the index, and the index that is packed meanwhile.
    fn toast(&self, toast: &ToastStore) -> Result<(RelationFile, RelationFile, u64), StoreError> {
        let mut writer = HeapWriter::new(self.file(RelationKind::Toast)?);
        let pages = IndexFile::new(self.file(RelationKind::ToastIndex)?);
        let failure = RefCell::new(None);
        let mut count = 0;
        let view = self.core.view();
        let snapshot = view.snapshot();
        let mut copy = Vec::new();
        let all = Key::new(Oid8::new(0), i32::MIN)..=Key::new(Oid8::new(u64::MAX), i32::MAX);
        let mut entries = toast.index.range(all);
        let mut next = || -> Result<Option<(Key, ItemPointer)>, StoreError> {
            for entry in entries.by_ref() {
                let (key, tid) = entry.map_err(|error| toast.index_error(error))?;
                copy.clear();
                {
                    let mut tuples = toast.heap.reader();
                    let Some(tuple) = tuples.tuple(tid)? else { continue };
                    let header =
                        HeapTuple::new(tuple).map_err(|error| toast.tuple_error(tid, error))?;
                    if !header.header().is_visible(&snapshot, &view) {
                        continue;
                    }
                    copy.extend_from_slice(tuple);
                }
                expect_chunk(toast, &copy, key, tid)?;
                let place =
                    writer.push(frozen(&mut copy, |error| toast.tuple_error(tid, error))?)?;
                count += 1;
                return Ok(Some((key, place)));
            }
            Ok(None)
        };
        let entries = core::iter::from_fn(|| {
            next().unwrap_or_else(|error| {
                *failure.borrow_mut() = Some(error);
                None
            })
        });
        let index = Index::build(pages, key_width(toast.width), entries);
        let index = index.map_err(|error| toast.index_error(error))?;
        if let Some(error) = failure.into_inner() {
            return Err(error);
        }
        let pages = index.into_pages();
        if self.target.release < FIRST_WITH_EQUAL_IMAGES {
            pages.change_meta(Meta::without_equal_images)?;
        }
        Ok((writer.finish()?, pages.finish()?, count))
    }
}

/// In releases before this one, the index of a TOAST relation says that its entries are never merged.
const FIRST_WITH_EQUAL_IMAGES: u32 = 15;

/// An error unless a tuple is the chunk that its entry says.
fn expect_chunk(
    toast: &ToastStore,
    tuple: &[u8],
    key: Key,
    tid: ItemPointer,
) -> Result<(), StoreError> {
    let chunk = Chunk::parse(tuple, toast.width, Some(tid))?;
    match chunk {
        Some(chunk) if chunk.value_id == key.chunk_id && chunk.seq == key.chunk_seq => Ok(()),
        _ => {
            let (value_id, chunk) = (key.chunk_id, key.chunk_seq);
            Err(StoreError::ChunkEntry { value_id, chunk, tid })
        }
    }
}

/// A tuple that everyone sees.
fn frozen(
    bytes: &mut [u8],
    broken: impl Fn(pgtoast_page::TupleError) -> StoreError,
) -> Result<&[u8], StoreError> {
    let mut tuple = HeapTupleMut::new(bytes).map_err(broken)?;
    tuple.header_mut().set_inserted(Xid::FROZEN, 0);
    tuple.header_mut().set_frozen();
    Ok(tuple.into_bytes())
}

/// The same value of another relation.
fn redirected(
    pointer: &ToastPointer,
    relation: Oid,
) -> Result<ToastPointer, pgtoast_toast::ToastError> {
    let raw_len = pointer.raw_len();
    let stored: CompressionInfo = pointer.ext_info();
    let value_id = pointer.value_id().ok_or(pgtoast_toast::ToastError::Direct)?;
    Ok(match pointer {
        ToastPointer::Oid8(_) => {
            ToastPointer::Oid8(Oid8Pointer::new(raw_len, stored, value_id, relation))
        }
        _ => {
            let value_id = Oid::new(u32::try_from(value_id.get()).unwrap_or_default());
            ToastPointer::Oid(OidPointer::new(raw_len, stored, value_id, relation))
        }
    })
}
