//! A transaction, as the store's user has it.
mod read;
mod update;
mod write;

use core::fmt;
use std::sync::Arc;

use pgtoast_base::{ItemPointer, Oid8};
use pgtoast_toast::RowBuffers;
use pgtoast_varlena::ToastPointer;

pub use self::read::{Scan, Statement};
pub use self::update::RowUpdate;
use crate::row_encoder::RowEncoder;
use crate::store::StoreInner;
use crate::transaction::{Isolation, LockMode, Savepoint, TransactionCore};
use crate::{RelationId, Row, StoreError, Table};

/// A transaction: what is done in it is seen by others when it commits, all at once, or never. Dropped it
/// is aborted.
///
/// Each call is a statement, which either happens or not; after an error the transaction can go on. What it
/// reads borrows it: a row's values can be read until the next statement begins.
pub struct Transaction {
    core: TransactionCore,
    work: Work,
    /// The table that was used last, which is locked.
    locked: Option<RelationId>,
    /// After the rest: what keeps the directory open.
    _store: Arc<StoreInner>,
}

/// Buffers, from statement to statement.
#[derive(Debug, Default)]
struct Work {
    encoder: RowEncoder,
    buffers: RowBuffers,
    /// The row that is replaced.
    old: Vec<u8>,
    /// Values that go when the row is in its place.
    deleted: Vec<ToastPointer>,
    /// Values that were written for the row.
    inserted: Vec<Oid8>,
    /// Values that were written in vain, because another transaction was at the row first.
    wasted: Vec<Oid8>,
    /// Whether something could not be taken back.
    has_failed: bool,
}

impl Transaction {
    pub(crate) fn new(store: Arc<StoreInner>, core: TransactionCore) -> Self {
        Self { core, work: Work::default(), locked: None, _store: store }
    }

    /// What it sees of those that commit while it runs.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.core.isolation()
    }

    /// A place to go back to.
    pub fn savepoint(&mut self) -> Savepoint {
        self.core.savepoint()
    }

    /// Undoes all since that savepoint, which stays. Tables that were not used before it are free for others.
    ///
    /// # Errors
    /// [`StoreError::NoSavepoint`] if it is not open in this transaction.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), StoreError> {
        // Its lock may be gone.
        self.locked = None;
        self.core.rollback_to(savepoint)
    }

    /// Makes what was done since that savepoint part of what is around it. The savepoint is gone.
    ///
    /// # Errors
    /// [`StoreError::NoSavepoint`] if it is not open in this transaction.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<(), StoreError> {
        self.core.release(savepoint)
    }

    /// Ends it well. That is in memory: [`checkpoint`](crate::Store::checkpoint) and
    /// [`close`](crate::Store::close) make it durable.
    ///
    /// # Errors
    /// [`StoreError::TransactionFailed`]; it is aborted then.
    pub fn commit(self) -> Result<(), StoreError> {
        if self.work.has_failed {
            return Err(StoreError::TransactionFailed);
        }
        self.core.commit()
    }

    /// Undoes it.
    pub fn abort(self) {
        self.core.abort();
    }

    /// Copies out the row at an address, if the transaction sees one there.
    ///
    /// # Errors
    /// [`StoreError::TableMissing`]; those of pages.
    pub fn fetch<'t>(
        &'t mut self,
        table: &'t Table,
        tid: ItemPointer,
    ) -> Result<Option<Row<'t>>, StoreError> {
        self.begin_statement(table)?;
        read::fetch(&self.core, table, tid)
    }

    /// All rows that the transaction sees, in the order of their places.
    ///
    /// # Errors
    /// [`StoreError::TableMissing`].
    pub fn scan<'t>(&'t mut self, table: &'t Table) -> Result<Scan<'t>, StoreError> {
        self.begin_statement(table)?;
        Ok(Scan::new(&self.core, table))
    }

    /// A statement that reads as often as it likes, of several tables too, and sees the same all the time.
    ///
    /// # Errors
    /// [`StoreError::TableMissing`].
    pub fn statement<'t>(&'t mut self, tables: &[&Table]) -> Result<Statement<'t>, StoreError> {
        let mut locked = Vec::new();
        for table in tables {
            self.lock(table)?;
            locked.push(table.inner.heap.id());
        }
        self.core.begin_statement()?;
        Ok(Statement::new(&self.core, locked))
    }

    /// Begins a statement that uses a table.
    fn begin_statement(&mut self, table: &Table) -> Result<(), StoreError> {
        self.lock(table)?;
        self.core.begin_statement()
    }

    /// Keeps others from having the table to themselves, until the transaction ends.
    #[inline]
    fn lock(&mut self, table: &Table) -> Result<(), StoreError> {
        let heap = table.inner.heap.id();
        if self.locked != Some(heap) {
            self.core.lock_relation(heap, LockMode::Shared)?;
            if let Some(toast) = table.inner.toast() {
                self.core.lock_relation(toast.heap.id(), LockMode::Shared)?;
            }
            self.locked = Some(heap);
        }
        table.inner.expect_there()
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("isolation", &self.isolation()).finish_non_exhaustive()
    }
}
