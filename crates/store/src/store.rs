//! A directory of tables.
mod opening;

use core::fmt;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pgtoast_base::BlockSize;

use crate::buffer::PoolStatistics;
use crate::disk::{Disk, FileDisk};
use crate::file::{ControlFile, ControlState, DirectoryLock};
use crate::heap::{VacuumOptions, VacuumReport};
use crate::manifest::Manifest;
use crate::sync::{Mutex, RwLock};
use crate::table::{TableInner, TableRelations};
use crate::toast::{CacheStatistics, ToastShared, ValueIdStatistics};
use crate::transaction::{Isolation, LockMode, TransactionCore, WaitStatistics};
use crate::{RelationId, Schema, StoreError, StoreFile, StoreOptions, Table, Transaction};

/// A store: a directory that one process has open. Cheap to clone; threads share it.
///
/// See the [crate's documentation](crate) for an example.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<StoreInner>,
}

impl Store {
    /// Opens the store in a directory, or makes one there.
    ///
    /// # Errors
    /// [`StoreError::Locked`], [`StoreError::NotClosed`], [`StoreError::BlockSize`]; what is wrong with the
    /// control file or the manifest; those of files.
    pub fn open(directory: impl AsRef<Path>, options: StoreOptions) -> Result<Self, StoreError> {
        let directory = directory.as_ref();
        std::fs::create_dir_all(directory)
            .map_err(|error| StoreError::io(StoreFile::Control, 0, &error))?;
        Self::open_on(Arc::new(FileDisk::new(directory)), options)
    }

    /// The same on any disk.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(disk: Arc<dyn Disk>, options: StoreOptions) -> Result<Self, StoreError> {
        Ok(Self { inner: Arc::new(StoreInner::open(disk, options)?) })
    }

    /// The length of its pages.
    #[must_use]
    pub fn block_size(&self) -> BlockSize {
        self.inner.shared.pool.options().block_size
    }

    /// Makes a table. It is there at once, and for all transactions.
    ///
    /// # Errors
    /// [`StoreError::TableExists`]; [`StoreError::Schema`], [`StoreError::ColumnCount`] or
    /// [`ToastError::TupleTarget`](pgtoast_toast::ToastError::TupleTarget) for what no table can be; those of
    /// files.
    pub fn create_table(&self, name: &str, schema: Schema) -> Result<Table, StoreError> {
        self.inner.create_table(name, &schema)
    }

    /// The table of that name.
    ///
    /// # Errors
    /// [`StoreError::TableMissing`].
    pub fn table(&self, name: &str) -> Result<Table, StoreError> {
        self.inner.tables.read().get(name).cloned().ok_or(StoreError::TableMissing)
    }

    /// All tables, in the order of their names.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        self.inner.tables.read().values().cloned().collect()
    }

    /// Drops a table and its files, when the transactions that use it have ended.
    ///
    /// # Errors
    /// [`StoreError::TableMissing`] if it was dropped before; those of files.
    pub fn drop_table(&self, table: &Table) -> Result<(), StoreError> {
        let mut core = self.inner.shared.transactions.begin(Isolation::ReadCommitted);
        self.inner.lock(&mut core, table, LockMode::Exclusive)?;
        self.inner.drop_table(&table.inner)
    }

    /// Begins a transaction.
    #[must_use]
    pub fn begin(&self, isolation: Isolation) -> Transaction {
        let core = self.inner.shared.transactions.begin(isolation);
        Transaction::new(Arc::clone(&self.inner), core)
    }

    /// Clears away the rows and chunks that no transaction sees any more, and their entries in the index.
    /// Others read and write meanwhile.
    ///
    /// # Errors
    /// [`StoreError::TableMissing`]; what is wrong with pages. What was done until then stays.
    #[doc(alias = "VACUUM")]
    pub fn vacuum(
        &self,
        table: &Table,
        options: &VacuumOptions,
    ) -> Result<TableVacuum, StoreError> {
        table.inner.expect_there()?;
        let heap = table.inner.heap.vacuum(None, options)?;
        let toast = table.inner.toast().map(|toast| toast.vacuum(options)).transpose()?;
        self.inner.note_frozen();
        Ok(TableVacuum { heap, toast })
    }

    /// As [`vacuum`](Self::vacuum), but of the chunks alone: rows that are deleted stay, and may then point to
    /// values that are gone. `None` for a table without values out of line.
    ///
    /// # Errors
    /// As [`vacuum`](Self::vacuum).
    #[doc(alias = "PROCESS_MAIN")]
    pub fn vacuum_toast(
        &self,
        table: &Table,
        options: &VacuumOptions,
    ) -> Result<Option<VacuumReport>, StoreError> {
        table.inner.expect_there()?;
        table.inner.toast().map(|toast| toast.vacuum(options)).transpose()
    }

    /// Has the counter of value ids go on at `next`. Nothing is lost by turning it back: an id of 32 bits that is
    /// taken is passed over. Wide ids are not looked for, so that theirs must never come back to where it was.
    #[doc(alias = "pg_resetwal -o")]
    pub fn turn_value_ids(&self, next: u64) {
        self.inner.shared.ids.turn(next);
    }

    /// Makes all that was committed until now durable.
    ///
    /// A store that ends without being closed is not opened again, for all that: until there is a log, what
    /// happened since the checkpoint is half in its files.
    ///
    /// # Errors
    /// Those of files. Everything is in memory still then.
    #[doc(alias = "CHECKPOINT")]
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.inner.write_out(ControlState::InProduction)
    }

    /// Closes the store: everything is in its files afterwards.
    ///
    /// Dropping the last handle does the same, and hides what goes wrong.
    ///
    /// # Errors
    /// [`StoreError::InUse`] while there is another handle or a transaction; those of files.
    pub fn close(self) -> Result<(), StoreError> {
        let inner = Arc::into_inner(self.inner).ok_or(StoreError::InUse)?;
        inner.close()
    }

    /// Where the counter of value ids stands: what the next value out of line gets, if its low 32 bits are not
    /// below 16384, and nobody has it where ids have 32 bits.
    #[must_use]
    pub fn next_value_id(&self) -> u64 {
        self.inner.shared.ids.next()
    }

    /// Moves that counter. No two values get the same id for all that: ids of 32 bits are looked for first,
    /// and one of 64 bits that is taken is an error of the insert.
    #[doc(alias = "pg_resetwal -o")]
    pub fn set_next_value_id(&self, next: u64) {
        self.inner.shared.ids.set_next(next);
    }

    /// What it did since it was opened.
    #[must_use]
    pub fn statistics(&self) -> StoreStatistics {
        let ToastShared { pool, ids, cache, transactions, .. } = &self.inner.shared;
        StoreStatistics {
            pages: pool.statistics(),
            value_ids: ids.statistics(),
            cache: cache.as_ref().map(|cache| cache.statistics()).unwrap_or_default(),
            waits: transactions.wait_statistics(),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("disk", &self.inner.disk).finish_non_exhaustive()
    }
}

/// What a vacuum of a table did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableVacuum {
    /// With its rows.
    pub heap: VacuumReport,
    /// With the chunks of its values out of line, if it can have any.
    pub toast: Option<VacuumReport>,
}

/// What a store did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStatistics {
    /// Pages, by what they are for.
    pub pages: PoolStatistics,
    /// Ids for values.
    pub value_ids: ValueIdStatistics,
    /// The cache of values.
    pub cache: CacheStatistics,
    /// Transactions that waited for others, or were refused to.
    pub waits: WaitStatistics,
}

/// What all handles of a store share.
pub(crate) struct StoreInner {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) shared: ToastShared,
    tables: RwLock<BTreeMap<String, Table>>,
    manifest: Mutex<Manifest>,
    /// As it was last written.
    control: Mutex<ControlFile>,
    is_closed: bool,
    _lock: DirectoryLock,
}

impl StoreInner {
    pub(crate) fn create_table(&self, name: &str, schema: &Schema) -> Result<Table, StoreError> {
        let mut manifest = self.manifest.lock();
        if self.tables.read().contains_key(name) {
            return Err(StoreError::TableExists);
        }
        let first = manifest.next_relation;
        let (relations, next) = TableRelations::numbered(first, schema.needs_toast());
        let made = TableInner::new(name, schema, relations, &self.shared, true).and_then(|inner| {
            let mut changed = manifest.clone();
            changed.next_relation = next;
            changed.add(name, relations, schema);
            changed.replace(&*self.disk)?;
            *manifest = changed;
            Ok(inner)
        });
        match made {
            Ok(inner) => {
                let table = Table { inner: Arc::new(inner) };
                self.tables.write().insert(name.to_owned(), table.clone());
                Ok(table)
            }
            Err(error) => {
                // Its files may be there in part. That they cannot be removed is not what went wrong.
                for number in first..next {
                    let _ = self.shared.pool.drop_relation(RelationId::new(number));
                }
                Err(error)
            }
        }
    }

    /// Lets ids be given out that all tables are ready for.
    fn note_frozen(&self) {
        let tables = self.tables.read();
        let oldest = |table: &Table| {
            let toast = table.inner.toast().map(|toast| toast.heap.oldest_unfrozen());
            toast.into_iter().fold(table.inner.heap.oldest_unfrozen(), u64::min)
        };
        if let Some(oldest) = tables.values().map(oldest).min() {
            self.shared.transactions.set_oldest_unfrozen(oldest);
        }
    }

    /// Drops a table that the caller has to itself.
    pub(crate) fn drop_table(&self, table: &TableInner) -> Result<(), StoreError> {
        {
            let mut manifest = self.manifest.lock();
            let mut changed = manifest.clone();
            changed.remove(table.name());
            changed.replace(&*self.disk)?;
            *manifest = changed;
            self.tables.write().remove(table.name());
            table.set_dropped();
        }
        let TableRelations { heap, toast, toast_index } = table.relations();
        for relation in [Some(heap), toast, toast_index].into_iter().flatten() {
            self.shared.pool.drop_relation(relation)?;
        }
        Ok(())
    }

    /// Locks a table's relations.
    pub(crate) fn lock(
        &self,
        core: &mut TransactionCore,
        table: &Table,
        mode: LockMode,
    ) -> Result<(), StoreError> {
        core.lock_relation(table.inner.heap.id(), mode)?;
        if let Some(toast) = table.inner.toast() {
            core.lock_relation(toast.heap.id(), mode)?;
        }
        table.inner.expect_there()
    }
}

impl Drop for StoreInner {
    fn drop(&mut self) {
        // What a panic left half done stays out of the files: they say that they were not closed.
        if !self.is_closed && !std::thread::panicking() {
            let _ = self.write_out(ControlState::Shutdown);
        }
    }
}
