//! Writing.
//!
//! ```text
//! insert   chunks and entries in, then the row
//! update   the new values' chunks in, the new version in the old one's place, then the old values' chunks out
//! delete   the row, then its values' chunks
//! ```
//! If another transaction was at the row first, what an update wrote in vain is deleted again.
use pgtoast_base::{ItemPointer, Oid8};
use pgtoast_page::{HeapTuple, Infomask, Value};

use super::{RowUpdate, Transaction, Work};
use crate::heap::Modified;
use crate::row_encoder::Values;
use crate::table::TableInner;
use crate::toast::{OtherSource, ToastWriter, delete_value, take_back};
use crate::transaction::{Savepoint, TransactionCore};
use crate::{Datum, Row, StoreError, Table};

impl Transaction {
    /// Inserts a row, a value for each column in order, and says where it is.
    ///
    /// # Errors
    /// Why a column cannot hold its value; [`ToastError::RowTooBig`](pgtoast_toast::ToastError::RowTooBig)
    /// as the server tells it; [`StoreError::ValueIdsTaken`]; those of pages.
    pub fn insert(&mut self, table: &Table, row: &[Datum<'_>]) -> Result<ItemPointer, StoreError> {
        self.begin_write(table)?;
        self.put(&table.inner, row)
    }

    /// Inserts rows, all of them or none, and says how many those were.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). A panic of the iterator leaves nothing either.
    pub fn insert_many<'d, R: AsRef<[Datum<'d>]>>(
        &mut self,
        table: &Table,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, StoreError> {
        self.begin_write(table)?;
        let undo = Undo::begin(self);
        let mut count = 0;
        for row in rows {
            undo.transaction.put(&table.inner, row.as_ref())?;
            count += 1;
        }
        undo.keep()?;
        Ok(count)
    }

    /// Gives some columns of a row new values, named by where they stand, from 0. Says where the row is then;
    /// `None` if there is none at that address, or no more.
    ///
    /// # Errors
    /// As [`update_with`](Self::update_with).
    pub fn update(
        &mut self,
        table: &Table,
        tid: ItemPointer,
        values: &[(usize, Datum<'_>)],
    ) -> Result<Option<ItemPointer>, StoreError> {
        self.update_with(table, tid, |_, update| {
            for (index, value) in values {
                update.set(*index, *value)?;
            }
            Ok(())
        })
    }

    /// Updates a row by what it holds. `change` sees the row and says what becomes of it; if it says nothing,
    /// nothing is done.
    ///
    /// A read committed transaction that finds the row changed by another waits for that one, and then calls
    /// `change` again, with the newest version.
    ///
    /// # Errors
    /// [`StoreError::Deadlock`]; [`StoreError::SerializationFailure`] if it is repeatable read; those of
    /// [`insert`](Self::insert) and of `change`.
    pub fn update_with(
        &mut self,
        table: &Table,
        tid: ItemPointer,
        mut change: impl FnMut(&Row<'_>, &mut RowUpdate<'_>) -> Result<(), StoreError>,
    ) -> Result<Option<ItemPointer>, StoreError> {
        self.begin_write(table)?;
        self.work.wasted.clear();
        let updated = self.update_newest(&table.inner, tid, &mut change);
        self.work.clear_away(&mut self.core, &table.inner)?;
        updated
    }

    /// Updates the newest version of a row.
    fn update_newest(
        &mut self,
        inner: &TableInner,
        tid: ItemPointer,
        change: &mut impl FnMut(&Row<'_>, &mut RowUpdate<'_>) -> Result<(), StoreError>,
    ) -> Result<Option<ItemPointer>, StoreError> {
        let (core, work) = (&mut self.core, &mut self.work);
        let mut tid = tid;
        loop {
            if inner.heap.fetch(core, tid, &mut work.old)?.is_none() {
                return Ok(None);
            }
            let mut update = RowUpdate::new(inner.schema());
            change(&Row::lent(inner, core, tid, &work.old), &mut update)?;
            if update.is_empty() {
                return Ok(Some(tid));
            }
            match work.replace(core, inner, tid, &update)? {
                Modified::Done(tid) => {
                    work.delete_values(core, inner)?;
                    return Ok(Some(tid));
                }
                Modified::ByOther { by, next } => {
                    work.wasted.append(&mut work.inserted);
                    let Some(next) = next else { return Ok(None) };
                    core.renew_snapshot();
                    match inner.heap.follow(core, by, next)? {
                        Some(newest) => tid = newest,
                        None => return Ok(None),
                    }
                }
                Modified::BySelf | Modified::NotVisible => {
                    work.wasted.append(&mut work.inserted);
                    return Ok(None);
                }
            }
        }
    }

    /// Deletes a row and its values. Says whether there was one.
    ///
    /// # Errors
    /// As [`update_with`](Self::update_with).
    pub fn delete(&mut self, table: &Table, tid: ItemPointer) -> Result<bool, StoreError> {
        self.begin_write(table)?;
        let inner = &*table.inner;
        let mut tid = tid;
        loop {
            let (core, work) = (&mut self.core, &mut self.work);
            if inner.heap.fetch(core, tid, &mut work.old)?.is_none() {
                return Ok(false);
            }
            work.note_values(core, inner, tid)?;
            match inner.heap.delete(core, tid)? {
                Modified::Done(_) => {
                    work.delete_values(core, inner)?;
                    return Ok(true);
                }
                Modified::ByOther { by, next: Some(next) } => {
                    core.renew_snapshot();
                    match inner.heap.follow(core, by, next)? {
                        Some(newest) => tid = newest,
                        None => return Ok(false),
                    }
                }
                Modified::ByOther { next: None, .. } | Modified::BySelf | Modified::NotVisible => {
                    return Ok(false);
                }
            }
        }
    }

    pub(crate) fn begin_write(&mut self, table: &Table) -> Result<(), StoreError> {
        if self.work.has_failed {
            return Err(StoreError::TransactionFailed);
        }
        self.begin_statement(table)
    }

    fn put(&mut self, table: &TableInner, row: &[Datum<'_>]) -> Result<ItemPointer, StoreError> {
        let mut encoder = core::mem::take(&mut self.work.encoder);
        let encoded = encoder.encode(table.schema(), row);
        let put =
            encoded.and_then(|()| self.work.insert(&mut self.core, table, &encoder.values(), None));
        self.work.encoder = encoder;
        put
    }

    /// Inserts a row whose values are stored ones; those out of line are fetched from `other`.
    pub(crate) fn put_values(
        &mut self,
        table: &TableInner,
        values: &Values<'_>,
        other: &mut OtherSource<'_>,
    ) -> Result<ItemPointer, StoreError> {
        self.work.insert(&mut self.core, table, values, Some(other))
    }
}

impl Work {
    /// Inserts a row; values that are elsewhere come from `other`.
    fn insert(
        &mut self,
        core: &mut TransactionCore,
        table: &TableInner,
        values: &Values<'_>,
        other: Option<&mut OtherSource<'_>>,
    ) -> Result<ItemPointer, StoreError> {
        let Self { buffers, deleted, inserted, has_failed, .. } = self;
        deleted.clear();
        inserted.clear();
        let mut toaster = table.row_toaster()?.with_buffers(core::mem::take(buffers));
        let toast = table.toast();
        let mut writer = ToastWriter { toast, core, deleted, inserted, has_failed, other };
        let result = match toaster.insert(values, &mut writer) {
            Ok(row) => table.heap.insert(writer.core, row.tuple),
            Err(error) => Err(error.into()),
        };
        *buffers = toaster.into_buffers();
        if result.is_err() {
            take_back_values(table, core, inserted, has_failed)?;
        }
        result
    }

    /// Puts a new version in the place of the row that was fetched.
    fn replace(
        &mut self,
        core: &mut TransactionCore,
        table: &TableInner,
        tid: ItemPointer,
        update: &RowUpdate<'_>,
    ) -> Result<Modified, StoreError> {
        let Self { buffers, old, deleted, inserted, has_failed, .. } = self;
        deleted.clear();
        inserted.clear();
        let old_values = values(table, tid, old)?;
        let mut new_values = old_values.clone();
        update.apply(&mut new_values);
        let mut toaster = table.row_toaster()?.with_buffers(core::mem::take(buffers));
        let toast = table.toast();
        let mut writer = ToastWriter { toast, core, deleted, inserted, has_failed, other: None };
        let result = match toaster.update(&old_values, &new_values, &mut writer) {
            Ok(row) => table.heap.update(writer.core, tid, row.tuple),
            Err(error) => Err(error.into()),
        };
        *buffers = toaster.into_buffers();
        if result.is_err() {
            take_back_values(table, core, inserted, has_failed)?;
        }
        result
    }

    /// Notes the values out of line of the row that was fetched.
    fn note_values(
        &mut self,
        core: &mut TransactionCore,
        table: &TableInner,
        tid: ItemPointer,
    ) -> Result<(), StoreError> {
        let Self { buffers, old, deleted, inserted, has_failed, .. } = self;
        deleted.clear();
        inserted.clear();
        let tuple = HeapTuple::new(old).map_err(|error| table.tuple_error(tid, error))?;
        if !tuple.header().infomask().contains(Infomask::HAS_EXTERNAL) {
            return Ok(());
        }
        let old_values = values(table, tid, old)?;
        let mut toaster = table.row_toaster()?.with_buffers(core::mem::take(buffers));
        let toast = table.toast();
        let mut writer = ToastWriter { toast, core, deleted, inserted, has_failed, other: None };
        let noted = toaster.delete(&old_values, &mut writer);
        *buffers = toaster.into_buffers();
        Ok(noted?)
    }

    /// Deletes the values that were noted: the row does not point to them any more.
    fn delete_values(
        &mut self,
        core: &mut TransactionCore,
        table: &TableInner,
    ) -> Result<(), StoreError> {
        let Some(toast) = table.toast() else { return Ok(()) };
        for pointer in self.deleted.drain(..) {
            let Some(value_id) = pointer.value_id() else { continue };
            if let Err(error) = delete_value(toast, core, value_id) {
                // The row is changed and some chunks are left: half a statement.
                self.has_failed = true;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Deletes the values that were written in vain.
    fn clear_away(
        &mut self,
        core: &mut TransactionCore,
        table: &TableInner,
    ) -> Result<(), StoreError> {
        take_back_values(table, core, &mut self.wasted, &mut self.has_failed)
    }
}

fn take_back_values(
    table: &TableInner,
    core: &mut TransactionCore,
    inserted: &mut Vec<Oid8>,
    has_failed: &mut bool,
) -> Result<(), StoreError> {
    let Some(toast) = table.toast() else { return Ok(()) };
    let taken = take_back(toast, core, inserted);
    *has_failed |= taken.is_err();
    taken
}

/// The values of a tuple.
fn values<'v>(
    table: &'v TableInner,
    tid: ItemPointer,
    tuple: &'v [u8],
) -> Result<Values<'v>, StoreError> {
    let broken = |error| table.tuple_error(tid, error);
    let descriptor = table.descriptor()?;
    let mut values = Values::from_elem(Value::Null, table.schema().columns().len());
    HeapTuple::new(tuple)
        .and_then(|tuple| tuple.deform_into(descriptor, &mut values))
        .map_err(broken)?;
    Ok(values)
}

/// Undoes a statement of many rows unless all of them are in.
struct Undo<'a> {
    transaction: &'a mut Transaction,
    savepoint: Option<Savepoint>,
}

impl<'a> Undo<'a> {
    fn begin(transaction: &'a mut Transaction) -> Self {
        let savepoint = Some(transaction.core.savepoint());
        Self { transaction, savepoint }
    }

    fn keep(mut self) -> Result<(), StoreError> {
        match self.savepoint.take() {
            Some(savepoint) => self.transaction.core.release(savepoint),
            None => Ok(()),
        }
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(savepoint) = self.savepoint.take() {
            let core = &mut self.transaction.core;
            let undone = core.rollback_to(savepoint).and_then(|()| core.release(savepoint));
            // What could not be taken back of a row is undone with it.
            self.transaction.work.has_failed = undone.is_err();
        }
    }
}
