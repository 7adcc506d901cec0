//! Whether a table is what it should be.
//!
//! ```text
//! rows      each that a snapshot sees: its tuple, and all of every value
//! index     its pages; each entry leads to the chunk that it says, or to nothing
//! chunks    each that the snapshot sees is in the index
//! ```
use core::ops::ControlFlow;

use pgtoast_base::{BlockNumber, ItemPointer, Oid8};
use pgtoast_nbtree::Key;
use pgtoast_page::HeapTuple;
use pgtoast_toast::{Chunk, ToastError};

use crate::finding::{Finding, told};
use crate::table::TableInner;
use crate::toast::ToastStore;
use crate::transaction::{Isolation, LockMode, TransactionCore};
use crate::{Row, Store, StoreError, StoreFile, Table};

/// How much of a table was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Rows.
    pub rows: u64,
    /// Their values out of line, read as a whole.
    pub values: u64,
    /// Chunks that are seen.
    pub chunks: u64,
    /// Things that are wrong.
    pub findings: u64,
}

impl Store {
    /// Reads all of a table, every value and all of the index, and tells of each thing that is wrong, with its
    /// row and column, until it is told to stop. Others read and write meanwhile.
    ///
    /// Of a row that is deleted nothing is asked: its values may be gone.
    ///
    /// # Errors
    /// [`StoreError::TableMissing`]; the error of the finding after which it was told to stop.
    #[doc(alias = "verify_heapam")]
    #[doc(alias = "bt_index_check")]
    pub fn verify(
        &self,
        table: &Table,
        mut tell: impl FnMut(Finding) -> ControlFlow<()>,
    ) -> Result<Verified, StoreError> {
        let mut core = self.inner.shared.transactions.begin(Isolation::RepeatableRead);
        self.inner.lock(&mut core, table, LockMode::Shared)?;
        core.begin_statement()?;
        let mut verified = Verified::default();
        let mut findings = 0;
        let mut tell = |finding| {
            findings += 1;
            tell(finding)
        };
        let verifier = Verifier { table: &table.inner, core: &core };
        verifier.rows(&mut verified, &mut tell)?;
        if let Some(toast) = table.inner.toast() {
            verifier.entries(toast, &mut tell)?;
            verifier.chunks(toast, &mut verified, &mut tell)?;
        }
        verified.findings = findings;
        Ok(verified)
    }
}

type Tell<'t> = dyn FnMut(Finding) -> ControlFlow<()> + 't;

struct Verifier<'a> {
    table: &'a TableInner,
    core: &'a TransactionCore,
}

impl Verifier<'_> {
    fn rows(&self, verified: &mut Verified, tell: &mut Tell<'_>) -> Result<(), StoreError> {
        let mut rows = self.table.heap.scan(self.core);
        let mut buffer = Vec::new();
        loop {
            match rows.next() {
                Ok(Some((tid, tuple))) => {
                    verified.rows += 1;
                    let row = Row::lent(self.table, self.core, tid, tuple);
                    self.row(&row, &mut buffer, verified, tell)?;
                }
                Ok(None) => return Ok(()),
                Err(error) => {
                    let block = rows.block();
                    told(tell, Finding::of_block(self.table.file(), block, error))?;
                }
            }
        }
    }

    fn row(
        &self,
        row: &Row<'_>,
        buffer: &mut Vec<u8>,
        verified: &mut Verified,
        tell: &mut Tell<'_>,
    ) -> Result<(), StoreError> {
        let (file, tid) = (self.table.file(), row.tid());
        let parsed = HeapTuple::parse(row.tuple_bytes());
        if let Err(error) = parsed {
            let error = self.table.tuple_error(tid, error);
            return told(tell, Finding::of_tuple(file, tid, error));
        }
        let fields = match row.fields() {
            Ok(fields) => fields,
            Err(error) => return told(tell, Finding::of_tuple(file, tid, error)),
        };
        for (column, field) in (1..).zip(fields) {
            let value = match field {
                Ok(field) => field.as_value(),
                Err(error) => {
                    // What is behind a broken attribute cannot be found.
                    return told(tell, Finding::of_value(file, tid, column, None, error));
                }
            };
            let Some(value) = value else { continue };
            verified.values += u64::from(value.is_out_of_line());
            if let Err(error) = value.read_into(buffer) {
                told(tell, Finding::of_value(file, tid, column, value.value_id(), error))?;
            }
        }
        Ok(())
    }

    fn entries(&self, toast: &ToastStore, tell: &mut Tell<'_>) -> Result<(), StoreError> {
        let block = BlockNumber::new(0);
        if let Err(error) = toast.index.check() {
            let error = toast.index_error(error);
            return told(tell, Finding::of_block(toast.index_file(), block, error));
        }
        let all = Key::new(Oid8::new(0), i32::MIN)..=Key::new(Oid8::new(u64::MAX), i32::MAX);
        for entry in toast.index.range(all) {
            let (key, tid) = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    let error = toast.index_error(error);
                    return told(tell, Finding::of_block(toast.index_file(), block, error));
                }
            };
            match self.chunk_at(toast, tid) {
                Ok(found) if found.is_none_or(|found| found == key) => {}
                Ok(_) => {
                    let (value_id, chunk) = (key.chunk_id, key.chunk_seq);
                    let error = StoreError::ChunkEntry { value_id, chunk, tid };
                    told(tell, Finding::of_tuple(toast.index_file(), tid, error))?;
                }
                // The chunks are looked at for themselves.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// The key of a chunk, if there is one.
    fn chunk_at(&self, toast: &ToastStore, tid: ItemPointer) -> Result<Option<Key>, StoreError> {
        let mut tuples = toast.heap.reader();
        let Some(tuple) = tuples.tuple(tid)? else { return Ok(None) };
        let chunk = Chunk::parse(tuple, toast.width, Some(tid))?;
        Ok(chunk.map(|chunk| Key::new(chunk.value_id, chunk.seq)))
    }

    fn chunks(
        &self,
        toast: &ToastStore,
        verified: &mut Verified,
        tell: &mut Tell<'_>,
    ) -> Result<(), StoreError> {
        let file: StoreFile = toast.file();
        let mut rows = toast.heap.scan(self.core);
        loop {
            let (tid, tuple) = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(()),
                Err(error) => {
                    let block = rows.block();
                    told(tell, Finding::of_block(file, block, error))?;
                    continue;
                }
            };
            verified.chunks += 1;
            let chunk: Result<Option<Chunk<'_>>, ToastError> =
                Chunk::parse(tuple, toast.width, Some(tid));
            let key = match chunk {
                Ok(Some(chunk)) => Key::new(chunk.value_id, chunk.seq),
                Ok(None) => continue,
                Err(error) => {
                    told(tell, Finding::of_tuple(file, tid, error.into()))?;
                    continue;
                }
            };
            match toast.index.get(key) {
                Ok(Some(found)) if found == tid => {}
                Ok(_) => {
                    let (value_id, chunk) = (key.chunk_id, key.chunk_seq);
                    let error = StoreError::ChunkUnindexed { value_id, chunk, tid };
                    told(tell, Finding::of_tuple(file, tid, error))?;
                }
                // The index was told of as a whole.
                Err(_) => {}
            }
        }
    }
}
