//! Values out of line: their chunks in a heap, an index over those, ids, and a cache.
//!
//! ```text
//! pointer ──value id──▶ index ──tids──▶ chunks on pages ──a page at a time──▶ bytes
//! value ──id, chunks──▶ heap, then index          row gone ──▶ chunks deleted, entries left to vacuum
//! ```
//! Whoever reads a value holds a snapshot that saw its row: so its chunks are there as long as it takes.
mod cache;
mod index_pages;
mod reader;
mod value_ids;
mod whole;
mod writer;

use std::sync::Arc;

use pgtoast_base::{ItemPointer, Oid, Oid8};
use pgtoast_nbtree::{Index, IndexError, Key, KeyWidth, NbtreeError};
use pgtoast_page::TupleError;
use pgtoast_toast::{ChunkSize, ValueIdWidth};

pub use self::cache::CacheStatistics;
pub(crate) use self::cache::DetoastCache;
pub(crate) use self::index_pages::PoolIndexPages;
pub(crate) use self::reader::ChunkReader;
pub(crate) use self::value_ids::ValueIds;
pub use self::value_ids::{ValueIdEvent, ValueIdListener, ValueIdStatistics};
pub(crate) use self::writer::{OtherSource, ToastWriter, delete_value, take_back};
use crate::buffer::BufferPool;
use crate::heap::{IndexVacuum, Relation, VacuumOptions, VacuumReport};
use crate::transaction::Transactions;
use crate::{Fork, RelationId, RelationKind, StoreError, StoreFile, ToastFlavour};

/// The chunks of a table's values, and the index over them.
#[derive(Debug)]
pub(crate) struct ToastStore {
    pub(crate) heap: Relation,
    pub(crate) index: Index<PoolIndexPages>,
    pub(crate) width: ValueIdWidth,
    pub(crate) chunk_size: ChunkSize,
    pub(crate) ids: Arc<ValueIds>,
    pub(crate) cache: Option<Arc<DetoastCache>>,
    pub(crate) pool: Arc<BufferPool>,
    index_id: RelationId,
}

/// What all of a store's TOAST relations share.
#[derive(Clone, Debug)]
pub(crate) struct ToastShared {
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) transactions: Arc<Transactions>,
    pub(crate) ids: Arc<ValueIds>,
    pub(crate) cache: Option<Arc<DetoastCache>>,
}

impl ToastStore {
    pub(crate) fn create(
        shared: &ToastShared,
        heap_id: RelationId,
        index_id: RelationId,
        flavour: ToastFlavour,
    ) -> Result<Self, StoreError> {
        let heap = Relation::create(
            Arc::clone(&shared.pool),
            Arc::clone(&shared.transactions),
            heap_id,
            RelationKind::Toast,
        )?;
        let pages = PoolIndexPages::new(shared, index_id, true)?;
        let index = Index::create(pages, key_width(flavour.width()));
        let index = index.map_err(|error| index_error(index_id, error))?;
        Ok(Self::new(shared, heap, index, index_id, flavour))
    }

    pub(crate) fn open(
        shared: &ToastShared,
        heap_id: RelationId,
        index_id: RelationId,
        flavour: ToastFlavour,
    ) -> Result<Self, StoreError> {
        let heap = Relation::open(
            Arc::clone(&shared.pool),
            Arc::clone(&shared.transactions),
            heap_id,
            RelationKind::Toast,
        )?;
        let pages = PoolIndexPages::new(shared, index_id, false)?;
        let index = Index::open(pages, key_width(flavour.width()));
        let index = index.map_err(|error| index_error(index_id, error))?;
        Ok(Self::new(shared, heap, index, index_id, flavour))
    }

    fn new(
        shared: &ToastShared,
        heap: Relation,
        index: Index<PoolIndexPages>,
        index_id: RelationId,
        flavour: ToastFlavour,
    ) -> Self {
        let width = flavour.width();
        Self {
            heap,
            index,
            width,
            chunk_size: ChunkSize::of(shared.pool.options().block_size, width),
            ids: Arc::clone(&shared.ids),
            cache: shared.cache.clone(),
            pool: Arc::clone(&shared.pool),
            index_id,
        }
    }

    /// What pointers call it.
    pub(crate) fn oid(&self) -> Oid {
        Oid::new(self.heap.id().get())
    }

    pub(crate) fn index_id(&self) -> RelationId {
        self.index_id
    }

    /// How long the index is, in blocks.
    pub(crate) fn index_blocks(&self) -> u32 {
        self.index.pages().block_count()
    }

    /// The main file of the chunks, for errors.
    pub(crate) fn file(&self) -> StoreFile {
        StoreFile::Relation { relation: self.heap.id(), fork: Fork::Main }
    }

    /// The index's.
    pub(crate) fn index_file(&self) -> StoreFile {
        StoreFile::Relation { relation: self.index_id, fork: Fork::Main }
    }

    pub(crate) fn tuple_error(&self, tid: ItemPointer, error: TupleError) -> StoreError {
        StoreError::Tuple { file: self.file(), tid, error }
    }

    pub(crate) fn index_error(&self, error: IndexError<StoreError>) -> StoreError {
        index_error(self.index_id, error)
    }

    /// An id for a new value, of which nothing of an old one is left.
    pub(crate) fn new_value_id(&self) -> Result<Oid8, StoreError> {
        let value_id = self.ids.give(self.width, |from| {
            self.index.first_free_id(from).map_err(|error| self.index_error(error))
        })?;
        self.forget_cached(value_id);
        Ok(value_id)
    }

    /// Has the next reader of a value read its chunks.
    pub(crate) fn forget_cached(&self, value_id: Oid8) {
        if let Some(cache) = &self.cache {
            cache.forget(self.heap.id(), value_id);
        }
    }

    /// Removes the chunks that nobody sees any more, and their entries.
    pub(crate) fn vacuum(&self, options: &VacuumOptions) -> Result<VacuumReport, StoreError> {
        self.heap.vacuum(Some(self), options)
    }

    /// The entry of a chunk.
    pub(crate) fn insert_entry(&self, key: Key, tid: ItemPointer) -> Result<(), StoreError> {
        match self.index.insert(key, tid).map_err(|error| self.index_error(error))? {
            pgtoast_nbtree::Insertion::Done => Ok(()),
            pgtoast_nbtree::Insertion::Duplicate(other) => Err(StoreError::ChunkTaken {
                value_id: key.chunk_id,
                chunk: key.chunk_seq,
                tid: other,
            }),
        }
    }
}

impl IndexVacuum for ToastStore {
    fn remove(&self, is_gone: &mut dyn FnMut(ItemPointer) -> bool) -> Result<u64, StoreError> {
        // It finds out anew which pages are free.
        self.index.pages().forget_free();
        let report = self.index.vacuum(is_gone).map_err(|error| self.index_error(error))?;
        Ok(report.deleted_tids)
    }
}

pub(crate) fn key_width(width: ValueIdWidth) -> KeyWidth {
    match width {
        ValueIdWidth::Oid => KeyWidth::Oid,
        ValueIdWidth::Oid8 => KeyWidth::Oid8,
    }
}

fn index_error(index: RelationId, error: IndexError<StoreError>) -> StoreError {
    match error {
        IndexError::Storage(error) => error,
        IndexError::Index(error) => located(index, error),
    }
}

fn located(index: RelationId, error: NbtreeError) -> StoreError {
    StoreError::Index { file: StoreFile::Relation { relation: index, fork: Fork::Main }, error }
}
