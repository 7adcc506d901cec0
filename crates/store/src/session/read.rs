//! Reading.
use core::fmt;

use pgtoast_base::ItemPointer;

use crate::heap;
use crate::transaction::TransactionCore;
use crate::{RelationId, Row, StoreError, Table};

/// Reads of one snapshot. Made by [`Transaction::statement`](crate::Transaction::statement).
#[derive(Debug)]
pub struct Statement<'t> {
    core: &'t TransactionCore,
    tables: Vec<RelationId>,
}

impl<'t> Statement<'t> {
    pub(super) fn new(core: &'t TransactionCore, tables: Vec<RelationId>) -> Self {
        Self { core, tables }
    }

    /// Copies out the row at an address, if the snapshot sees one there.
    ///
    /// # Errors
    /// [`StoreError::TableMissing`] for a table that the statement was not begun for; those of pages.
    pub fn fetch(&self, table: &'t Table, tid: ItemPointer) -> Result<Option<Row<'t>>, StoreError> {
        self.expect(table)?;
        fetch(self.core, table, tid)
    }

    /// All rows that the snapshot sees, in the order of their places.
    ///
    /// # Errors
    /// [`StoreError::TableMissing`] for a table that the statement was not begun for.
    pub fn scan(&self, table: &'t Table) -> Result<Scan<'t>, StoreError> {
        self.expect(table)?;
        Ok(Scan::new(self.core, table))
    }

    fn expect(&self, table: &Table) -> Result<(), StoreError> {
        if self.tables.contains(&table.inner.heap.id()) {
            Ok(())
        } else {
            Err(StoreError::TableMissing)
        }
    }
}

pub(super) fn fetch<'t>(
    core: &'t TransactionCore,
    table: &'t Table,
    tid: ItemPointer,
) -> Result<Option<Row<'t>>, StoreError> {
    let copy = |_, tuple: &[u8]| Row::owned(&table.inner, core, tid, tuple.to_vec());
    table.inner.heap.fetch_with(core, tid, copy)
}

/// Rows, one after the other. Its [`next`](Self::next) lends them, so it is no `Iterator`.
pub struct Scan<'t> {
    rows: heap::Scan<'t>,
    core: &'t TransactionCore,
    table: &'t Table,
}

impl<'t> Scan<'t> {
    pub(super) fn new(core: &'t TransactionCore, table: &'t Table) -> Self {
        Self { rows: table.inner.heap.scan(core), core, table }
    }

    /// The next row. It is lent until the next call.
    ///
    /// # Errors
    /// Those of pages; the scan goes on behind one that cannot be read.
    #[expect(clippy::should_implement_trait, reason = "it lends, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<Row<'_>>, StoreError> {
        let next = self.rows.next()?;
        Ok(next.map(|(tid, tuple)| Row::lent(&self.table.inner, self.core, tid, tuple)))
    }
}

impl fmt::Debug for Scan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("table", &self.table).finish_non_exhaustive()
    }
}
