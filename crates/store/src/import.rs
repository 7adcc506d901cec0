//! A server's table, out of its files.
//!
//! ```text
//! heap   page by page: rows that a new session would see
//!          └─ value in the row, compressed or not ─────────────────┐
//!          └─ pointer ─▶ chunks: where each is, 24 bytes a chunk ──┴─▶ checked, then toasted by the
//! toast  one pass before: chunks that a new session would see         table's own rules
//! ```
//! What is compressed stays so. Versions that are dead, or of transactions that did not end, are left where
//! they are: they may point to chunks that are long gone, and that is no damage.
mod chunks;
mod source_file;

use core::ops::ControlFlow;
use std::path::PathBuf;

use pgtoast_base::{BlockSize, ItemPointer, OffsetNumber, Xid};
use pgtoast_page::{
    AttributeDescriptor, HeapTuple, Item, Page, TransactionStatus, TupleDescriptor, VacuumState,
    Value,
};
use pgtoast_toast::{ChunkSize, Detoaster};
use pgtoast_varlena::Varlena;

use self::chunks::SourceChunks;
use self::source_file::SourceFile;
use crate::finding::{Finding, told, value_id};
use crate::row_encoder::{Values, number};
use crate::table::TableInner;
use crate::transaction::Isolation;
use crate::{RelationKind, Schema, Store, StoreError, StoreFile, Table, ToastFlavour, Transaction};

/// The files of a server's table.
///
/// Where they are, what the columns are and what became of transactions, `pgtoast-datadir` finds out of a
/// data directory.
#[derive(Clone)]
pub struct ImportSource<'a> {
    heap: PathBuf,
    toast: Option<PathBuf>,
    block_size: BlockSize,
    checksums: bool,
    flavour: ToastFlavour,
    chunk_size: Option<ChunkSize>,
    columns: Option<&'a [AttributeDescriptor<'a>]>,
    transactions: &'a dyn TransactionStatus,
}

impl<'a> ImportSource<'a> {
    /// The table whose main fork's first file is at `heap`; the others are beside it, with `.1` and so on
    /// behind their names. It has no TOAST relation, 8 KiB pages without checksums, and the columns of the
    /// schema that it is imported with.
    pub fn new(heap: impl Into<PathBuf>, transactions: &'a dyn TransactionStatus) -> Self {
        Self {
            heap: heap.into(),
            toast: None,
            block_size: BlockSize::default(),
            checksums: false,
            flavour: ToastFlavour::Oid,
            chunk_size: None,
            columns: None,
            transactions,
        }
    }

    /// With a TOAST relation, whose main fork's first file that is.
    #[must_use]
    pub fn toast(mut self, file: impl Into<PathBuf>) -> Self {
        self.toast = Some(file.into());
        self
    }

    /// With pages of that length. A store takes in none but its own.
    #[must_use]
    pub fn block_size(mut self, block_size: BlockSize) -> Self {
        self.block_size = block_size;
        self
    }

    /// With checksums, or without.
    #[must_use]
    pub fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// With value ids of another width.
    #[must_use]
    pub fn flavour(mut self, flavour: ToastFlavour) -> Self {
        self.flavour = flavour;
        self
    }

    /// With chunks of another size, as in clusters that were upgraded from other builds.
    #[must_use]
    pub fn chunk_size(mut self, chunk_size: ChunkSize) -> Self {
        self.chunk_size = Some(chunk_size);
        self
    }

    /// With those columns, dropped ones and values of older rows included: `pg_attribute`'s. Those that were
    /// not dropped are the schema's, in order.
    #[must_use]
    pub fn columns(mut self, columns: &'a [AttributeDescriptor<'a>]) -> Self {
        self.columns = Some(columns);
        self
    }

    /// Reads the table and imports nothing: tells of each row that cannot be read, until told to stop, and
    /// says how many can.
    ///
    /// # Errors
    /// [`StoreError::Schema`] for columns that are not the schema's; those of opening files.
    pub fn verify(
        &self,
        schema: &Schema,
        mut tell: impl FnMut(Finding) -> ControlFlow<()>,
    ) -> Result<u64, StoreError> {
        let mut import = Reading::open(self, schema)?;
        let mut rows = 0;
        let _ = import.run(&mut tell, &mut |_, _| {
            rows += 1;
            Ok(())
        });
        Ok(rows)
    }
}

impl core::fmt::Debug for ImportSource<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ImportSource")
            .field("heap", &self.heap)
            .field("toast", &self.toast)
            .field("block_size", &self.block_size)
            .field("checksums", &self.checksums)
            .finish_non_exhaustive()
    }
}

/// What was imported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Import {
    /// The table.
    pub table: Table,
    /// How many rows there are.
    pub rows: u64,
    /// How many rows were left out, or could not be read.
    pub left_out: u64,
}

impl Store {
    /// Makes a table of that name and schema, and takes in the rows of a server's table that a new session
    /// would see. Values are toasted by the schema's rules; what is compressed stays so.
    ///
    /// # Errors
    /// The first thing that is wrong with the files, located; then nothing is imported. Those of
    /// [`create_table`](Self::create_table) and [`insert`](Transaction::insert).
    pub fn import(
        &self,
        name: &str,
        schema: Schema,
        source: &ImportSource<'_>,
    ) -> Result<Import, StoreError> {
        self.import_with(name, schema, source, |_| ControlFlow::Break(()))
    }

    /// As [`import`](Self::import), but tells of each thing that is wrong, and leaves the row out if told to
    /// go on.
    ///
    /// # Errors
    /// As [`import`](Self::import), when told to stop.
    pub fn import_with(
        &self,
        name: &str,
        schema: Schema,
        source: &ImportSource<'_>,
        mut tell: impl FnMut(Finding) -> ControlFlow<()>,
    ) -> Result<Import, StoreError> {
        let mut reading = Reading::open(source, &schema)?;
        if source.block_size != self.block_size() {
            let bytes = |size: BlockSize| u32::from(size.bytes_u16());
            let (stored, asked) = (bytes(self.block_size()), bytes(source.block_size));
            return Err(StoreError::BlockSize { stored, asked });
        }
        let table = self.create_table(name, schema)?;
        let mut transaction = self.begin(Isolation::ReadCommitted);
        let mut left_out = 0;
        let mut tell = |finding| {
            left_out += 1;
            tell(finding)
        };
        let imported = transaction.take_in(&table, &mut reading, &mut tell);
        match imported.and_then(|rows| transaction.commit().map(|()| rows)) {
            Ok(rows) => Ok(Import { table, rows, left_out }),
            Err(error) => {
                self.drop_table(&table)?;
                Err(error)
            }
        }
    }
}

impl Transaction {
    fn take_in(
        &mut self,
        table: &Table,
        reading: &mut Reading<'_>,
        tell: &mut dyn FnMut(Finding) -> ControlFlow<()>,
    ) -> Result<u64, StoreError> {
        self.begin_write(table)?;
        let inner: &TableInner = &table.inner;
        let mut rows = 0;
        reading.run(tell, &mut |values, chunks| {
            self.put_values(inner, values, chunks)?;
            rows += 1;
            Ok(())
        })?;
        Ok(rows)
    }
}

/// The files, open.
struct Reading<'a> {
    heap: SourceFile,
    chunks: SourceChunks<'a>,
    columns: Vec<AttributeDescriptor<'a>>,
    transactions: &'a dyn TransactionStatus,
    /// Columns of the schema whose values have a length of their own.
    is_varlena: Vec<bool>,
    /// Those that are never null.
    not_null: Vec<bool>,
}

/// What to do with a row.
type Take<'t> = dyn FnMut(&Values<'_>, &mut SourceChunks<'_>) -> Result<(), StoreError> + 't;

impl<'a> Reading<'a> {
    fn open(source: &ImportSource<'a>, schema: &Schema) -> Result<Self, StoreError> {
        let columns = match source.columns {
            Some(columns) => columns.to_vec(),
            None => schema.descriptors(),
        };
        expect_columns(&columns, schema)?;
        let (block_size, checksums) = (source.block_size, source.checksums);
        let open = |path: &PathBuf, kind| SourceFile::open(path, kind, block_size, checksums);
        let toast = source.toast.as_ref();
        let toast = toast.map(|path| open(path, RelationKind::Toast)).transpose()?;
        let width = source.flavour.width();
        let chunk_size = source.chunk_size.unwrap_or(ChunkSize::of(block_size, width));
        Ok(Self {
            heap: open(&source.heap, RelationKind::Heap)?,
            chunks: SourceChunks::new(toast, width, chunk_size, source.transactions),
            columns,
            transactions: source.transactions,
            is_varlena: schema.columns().iter().map(|it| it.column_type().is_varlena()).collect(),
            not_null: schema.columns().iter().map(crate::Column::is_not_null).collect(),
        })
    }

    /// Goes through all rows: to `take` with those that are sound, to `tell` with what is wrong. Stops with
    /// the error if told so.
    fn run(
        &mut self,
        tell: &mut dyn FnMut(Finding) -> ControlFlow<()>,
        take: &mut Take<'_>,
    ) -> Result<(), StoreError> {
        self.chunks.find(tell)?;
        let Self { heap, chunks, columns, transactions, is_varlena, not_null } = self;
        let descriptor =
            TupleDescriptor::new(columns).map_err(|error| StoreError::Toast(error.into()))?;
        let file = StoreFile::Import { kind: RelationKind::Heap };
        let mut bytes = Vec::new();
        for block in heap.blocks() {
            let page = match heap.read(block, &mut bytes) {
                Ok(page) => page,
                Err(error) => {
                    told(tell, Finding::of_block(file, block, error))?;
                    continue;
                }
            };
            for (tid, tuple) in live_tuples(page, block, *transactions) {
                let read = tuple.and_then(|tuple| {
                    values(tuple, descriptor).map_err(|error| StoreError::Tuple {
                        file,
                        tid,
                        error,
                    })
                });
                let values = match read {
                    Ok(values) => values,
                    Err(error) => {
                        told(tell, Finding::of_tuple(file, tid, error))?;
                        continue;
                    }
                };
                match check(&values, is_varlena, not_null, chunks) {
                    Ok(()) => take(&values, chunks)?,
                    Err((index, error)) => {
                        let column = number(index);
                        let error = match error {
                            StoreError::Toast(error) => StoreError::Row { tid, column, error },
                            other => other,
                        };
                        let value_id = values[index].bytes().and_then(value_id);
                        told(tell, Finding::of_value(file, tid, column, value_id, error))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The tuples of a page that a new session would see.
fn live_tuples<'p>(
    page: Page<'p>,
    block: pgtoast_base::BlockNumber,
    transactions: &'p dyn TransactionStatus,
) -> impl Iterator<Item = (ItemPointer, Result<HeapTuple<'p>, StoreError>)> {
    (1..=page.item_count()).map(OffsetNumber::new).filter_map(move |item| {
        let tid = ItemPointer::new(block, item);
        let file = StoreFile::Import { kind: RelationKind::Heap };
        let bytes = match page.item(item) {
            Ok(Item::Normal(bytes)) => bytes,
            Ok(_) => return None,
            Err(error) => return Some((tid, Err(StoreError::Page { file, block, error }))),
        };
        match HeapTuple::new(bytes) {
            Ok(tuple) if is_live(&tuple, transactions) => Some((tid, Ok(tuple))),
            Ok(_) => None,
            Err(error) => Some((tid, Err(StoreError::Tuple { file, tid, error }))),
        }
    })
}

/// Whether a new session would see it: it was inserted, and nobody who is through has deleted it.
fn is_live(tuple: &HeapTuple<'_>, transactions: &dyn TransactionStatus) -> bool {
    // No horizon is needed: whoever is dead is dead, recently or not.
    let state = tuple.header().vacuum_state(Xid::FIRST_NORMAL, &transactions);
    matches!(state, VacuumState::Live | VacuumState::DeleteInProgress)
}

/// The values of the columns that were not dropped.
fn values<'v>(
    tuple: HeapTuple<'v>,
    descriptor: TupleDescriptor<'v>,
) -> Result<Values<'v>, pgtoast_page::TupleError> {
    let tuple = HeapTuple::parse(tuple.bytes())?;
    let mut values = Values::new();
    for attribute in tuple.deform(descriptor)? {
        let attribute = attribute?;
        if !attribute.is_dropped {
            // What a row is too old to have is stored in the new one.
            values.push(attribute.value.bytes().map_or(Value::Null, Value::stored));
        }
    }
    Ok(values)
}

/// Reads every value, whatever it takes.
fn check(
    values: &Values<'_>,
    is_varlena: &[bool],
    not_null: &[bool],
    chunks: &mut SourceChunks<'_>,
) -> Result<(), (usize, StoreError)> {
    for (index, value) in values.iter().enumerate() {
        let Some(bytes) = value.bytes() else {
            if not_null.get(index).copied().unwrap_or_default() {
                return Err((index, StoreError::ColumnNull { column: number(index) }));
            }
            continue;
        };
        if !is_varlena.get(index).copied().unwrap_or_default() {
            continue;
        }
        let datum = match Varlena::parse(bytes, 0) {
            Ok((datum @ (Varlena::External(_) | Varlena::Compressed(_)), _)) => datum,
            Ok(_) => continue,
            Err(error) => {
                return Err((index, pgtoast_toast::ToastError::from(error).into()));
            }
        };
        let chunk_size = chunks.chunk_size();
        let read = Detoaster::new(&mut *chunks, chunk_size).detoast(&datum).map(|_| ());
        read.map_err(|error| (index, error.into()))?;
    }
    Ok(())
}

/// An error unless the columns that were not dropped are stored as those of the schema.
fn expect_columns(columns: &[AttributeDescriptor<'_>], schema: &Schema) -> Result<(), StoreError> {
    let there: Vec<_> = columns.iter().filter(|column| !column.is_dropped).collect();
    let (found, expected) = (there.len(), schema.columns().len());
    if found != expected {
        return Err(StoreError::ColumnCount { expected, found });
    }
    for (index, (column, wanted)) in there.iter().zip(schema.columns()).enumerate() {
        let wanted = wanted.descriptor();
        if (column.len, column.alignment) != (wanted.len, wanted.alignment) {
            let problem = "is stored otherwise than its type in the schema";
            return Err(StoreError::Schema { column: number(index), problem });
        }
    }
    Ok(())
}
