//! A table: its schema, its relations.
use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use pgtoast_base::{BlockSize, ItemPointer, Oid};
use pgtoast_codec::CompressionMethod;
use pgtoast_page::{AttributeDescriptor, AttributeLen, TupleDescriptor, TupleError};
use pgtoast_toast::{RowToaster, Toaster};

use crate::heap::Relation;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::toast::{ToastShared, ToastStore};
use crate::{Fork, RelationId, RelationKind, Schema, StoreError, StoreFile};

/// A table of a store. Cheap to clone; threads share it.
#[derive(Clone)]
pub struct Table {
    pub(crate) inner: Arc<TableInner>,
}

impl Table {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its columns and rules.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.inner.schema
    }

    /// How long its relations are.
    #[must_use]
    pub fn size(&self) -> TableSize {
        let block_bytes = self.inner.shared.pool.options().block_size.bytes() as u64;
        let bytes = |blocks: u32| u64::from(blocks) * block_bytes;
        let toast = self.inner.toast.as_ref();
        TableSize {
            heap_bytes: bytes(self.inner.heap.blocks()),
            toast_bytes: toast.map_or(0, |toast| bytes(toast.heap.blocks())),
            index_bytes: toast.map_or(0, |toast| bytes(toast.index_blocks())),
        }
    }

    /// Which relations it is made of: its rows, and the chunks of its values and their index if it has
    /// columns whose values can go out of line.
    #[must_use]
    pub fn relations(&self) -> TableRelations {
        self.inner.relations()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.inner.name)
            .field("relations", &self.inner.relations())
            .finish_non_exhaustive()
    }
}

/// How long the relations of a table are, in bytes, maps not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSize {
    /// Of its rows.
    pub heap_bytes: u64,
    /// Of the chunks of its values out of line.
    pub toast_bytes: u64,
    /// Of the index over those.
    pub index_bytes: u64,
}

/// The relations of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableRelations {
    /// Its rows.
    pub heap: RelationId,
    /// The chunks of its values out of line; what pointers to those name.
    #[doc(alias = "reltoastrelid")]
    pub toast: Option<RelationId>,
    /// The index over those.
    pub toast_index: Option<RelationId>,
}

impl TableRelations {
    /// The numbers from `first` on, for a table that may have values out of line or not; and the next.
    pub(crate) fn numbered(first: u32, has_toast: bool) -> (Self, u32) {
        let number = |plus| has_toast.then(|| RelationId::new(first + plus));
        let relations =
            Self { heap: RelationId::new(first), toast: number(1), toast_index: number(2) };
        (relations, first + if has_toast { 3 } else { 1 })
    }
}

/// What all handles of a table share.
pub(crate) struct TableInner {
    name: String,
    schema: Schema,
    columns: Vec<AttributeDescriptor<'static>>,
    /// Where the leading columns of fixed length are in a row without nulls.
    fixed: Vec<Range<usize>>,
    methods: Vec<CompressionMethod>,
    toaster: Toaster,
    pub(crate) heap: Relation,
    toast: Option<ToastStore>,
    shared: ToastShared,
    is_dropped: AtomicBool,
}

impl TableInner {
    /// Makes the relations of a new table, or opens those of one that is there.
    pub(crate) fn new(
        name: &str,
        schema: &Schema,
        relations: TableRelations,
        shared: &ToastShared,
        is_new: bool,
    ) -> Result<Self, StoreError> {
        let toaster = schema.toaster(shared.pool.options().block_size)?;
        let (pool, transactions) = (Arc::clone(&shared.pool), Arc::clone(&shared.transactions));
        let make = if is_new { Relation::create } else { Relation::open };
        let heap = make(pool, transactions, relations.heap, RelationKind::Heap)?;
        let toast = match (relations.toast, relations.toast_index) {
            (Some(chunks), Some(index)) => {
                let make = if is_new { ToastStore::create } else { ToastStore::open };
                Some(make(shared, chunks, index, schema.flavour())?)
            }
            _ => None,
        };
        Ok(Self {
            name: name.to_owned(),
            schema: schema.clone(),
            fixed: leading_fixed(&schema.descriptors()),
            columns: schema.descriptors(),
            methods: schema.methods(),
            toaster,
            heap,
            toast,
            shared: shared.clone(),
            is_dropped: AtomicBool::new(false),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn block_size(&self) -> BlockSize {
        self.shared.pool.options().block_size
    }

    pub(crate) fn toast(&self) -> Option<&ToastStore> {
        self.toast.as_ref()
    }

    pub(crate) fn relations(&self) -> TableRelations {
        TableRelations {
            heap: self.heap.id(),
            toast: self.toast.as_ref().map(|toast| toast.heap.id()),
            toast_index: self.toast.as_ref().map(ToastStore::index_id),
        }
    }

    /// Where a column is in the data of a row without nulls, if that is the same in all of them.
    #[doc(alias = "attcacheoff")]
    #[inline]
    pub(crate) fn fixed_place(&self, index: usize) -> Option<Range<usize>> {
        self.fixed.get(index).cloned()
    }

    pub(crate) fn descriptor(&self) -> Result<TupleDescriptor<'_>, StoreError> {
        TupleDescriptor::new(&self.columns).map_err(|error| StoreError::Toast(error.into()))
    }

    /// What toasts its rows.
    pub(crate) fn row_toaster(&self) -> Result<RowToaster<'_>, StoreError> {
        let oid = self.toast.as_ref().map_or(Oid::INVALID, ToastStore::oid);
        let toaster = RowToaster::new(self.toaster, self.descriptor()?, oid);
        Ok(toaster.with_methods(&self.methods))
    }

    /// An error unless the table is there still.
    pub(crate) fn expect_there(&self) -> Result<(), StoreError> {
        if self.is_dropped.load(Ordering::Acquire) { Err(StoreError::TableMissing) } else { Ok(()) }
    }

    pub(crate) fn set_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }

    pub(crate) fn tuple_error(&self, tid: ItemPointer, error: TupleError) -> StoreError {
        StoreError::Tuple { file: self.file(), tid, error }
    }

    /// Its main file, for errors.
    pub(crate) fn file(&self) -> StoreFile {
        StoreFile::Relation { relation: self.heap.id(), fork: Fork::Main }
    }
}

fn leading_fixed(columns: &[AttributeDescriptor<'_>]) -> Vec<Range<usize>> {
    let mut end = 0_usize;
    let lens = columns.iter().map_while(|column| match column.len {
        AttributeLen::Fixed(len) if !column.is_dropped => {
            Some((usize::from(len), column.alignment.bytes()))
        }
        _ => None,
    });
    lens.map(|(len, align)| {
        let start = end.next_multiple_of(align);
        end = start + len;
        start..end
    })
    .collect()
}
