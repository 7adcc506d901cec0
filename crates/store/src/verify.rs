//! Whether a table is what it should be.
//!
//! ```text
//! pages     of rows and of chunks: header, line pointers, what these lead to
//! rows      each that a snapshot sees: its tuple, and all of every value
//! index     its pages; each entry leads to the chunk that it says, or to nothing
//! chunks    each that the snapshot sees is in the index, and of a value that a row has that it sees; of
//!           such a value it sees all
//! ```
//! Rows and their chunks come and go in one transaction. So a chunk that is seen without its row is one that
//! nobody will ever delete, and one that is not seen with its row is one that a vacuum may take away.
mod references;

use core::ops::{ControlFlow, Range};

use pgtoast_base::{BlockNumber, ItemPointer, Oid8};
use pgtoast_nbtree::{IndexError, Key};
use pgtoast_page::{HeapTuple, Page};
use pgtoast_toast::{Chunk, ToastError};

use self::references::References;
use crate::finding::{Finding, told};
use crate::heap::{Relation, TupleReader};
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

/// The blocks that are looked at in one go: few enough to be in memory all at once.
const PIECE: u32 = 32;
/// Ids that are kept at a time, with 8 bytes each.
const IDS: usize = 1 << 20;

impl Store {
    /// Reads all of a table, every value and all of the index, and tells of each thing that is wrong, with its
    /// row and column, until it is told to stop. Others read and write meanwhile.
    ///
    /// Of a row that is deleted nothing is asked: its values may be gone. Values that no row has are looked for
    /// only if all rows can be read: those of the others would be among them.
    ///
    /// Memory is that of one value and 16 MiB; a table that has more than a million values is gone through once
    /// for each million. Values that are cached are forgotten, so that what is read is what is stored.
    ///
    /// # Errors
    /// [`StoreError::TableMissing`]; the error of the finding after which it was told to stop.
    #[doc(alias = "verify_heapam")]
    #[doc(alias = "bt_index_check")]
    pub fn verify(
        &self,
        table: &Table,
        tell: impl FnMut(Finding) -> ControlFlow<()>,
    ) -> Result<Verified, StoreError> {
        self.verify_with(table, IDS, tell)
    }

    fn verify_with(
        &self,
        table: &Table,
        ids: usize,
        mut tell: impl FnMut(Finding) -> ControlFlow<()>,
    ) -> Result<Verified, StoreError> {
        let mut core = self.inner.shared.transactions.begin(Isolation::RepeatableRead);
        self.inner.lock(&mut core, table, LockMode::Shared)?;
        core.begin_statement()?;
        let mut verifier = Verifier {
            table: &table.inner,
            core: &core,
            ids,
            all_rows: true,
            verified: Verified::default(),
            tell: &mut tell,
        };
        let references = verifier.rows()?;
        if let Some(toast) = table.inner.toast() {
            verifier.entries(toast, references)?;
            verifier.chunks(toast)?;
        }
        Ok(verifier.verified)
    }
}

struct Verifier<'a> {
    table: &'a TableInner,
    core: &'a TransactionCore,
    /// How many ids are kept at a time.
    ids: usize,
    /// Whether all rows could be read so far.
    all_rows: bool,
    verified: Verified,
    tell: &'a mut dyn FnMut(Finding) -> ControlFlow<()>,
}

/// A chunk as an entry leads to it.
struct Found {
    key: Key,
    is_seen: bool,
}

/// What of a value the index led to so far.
struct Chunks {
    value_id: Oid8,
    /// The first that is seen, and how many are.
    seen: Option<(ItemPointer, u64)>,
}

impl Verifier<'_> {
    fn told(&mut self, finding: Finding) -> Result<(), StoreError> {
        self.verified.findings += 1;
        told(self.tell, finding)
    }

    /// All rows; the first of the values that they have.
    fn rows(&mut self) -> Result<References, StoreError> {
        let (table, core) = (self.table, self.core);
        let (mut references, mut buffer) = (References::new(0, self.ids), Vec::new());
        for piece in pieces(&table.heap) {
            self.all_rows &= self.pages(&table.heap, table.file(), piece.clone())?;
            let mut rows = table.heap.scan_blocks(core, piece);
            loop {
                match rows.next() {
                    Ok(Some((tid, tuple))) => {
                        self.verified.rows += 1;
                        let row = Row::lent(table, core, tid, tuple);
                        self.all_rows &= self.row(&row, &mut buffer, &mut references)?;
                    }
                    Ok(None) => break,
                    Err(error) => {
                        self.all_rows = false;
                        self.told(Finding::of_block(table.file(), rows.block(), error))?;
                    }
                }
            }
        }
        references.sort();
        Ok(references)
    }

    /// The structure of pages. Whether nothing is wrong with it; what cannot be read at all is for those who
    /// look at what is on it.
    fn pages(
        &mut self,
        heap: &Relation,
        file: StoreFile,
        blocks: Range<u32>,
    ) -> Result<bool, StoreError> {
        heap.prefetch(blocks.clone());
        let mut all = true;
        for block in blocks.map(BlockNumber::new) {
            let Ok(bytes) = heap.read_page(block) else { continue };
            let copy = bytes.to_vec();
            drop(bytes);
            let faults = Page::new(&copy, self.table.block_size()).map(|page| page.findings());
            for error in faults.unwrap_or_default() {
                all = false;
                self.told(Finding::of_block(file, block, StoreError::Page { file, block, error }))?;
            }
        }
        Ok(all)
    }

    /// A row and its values. Whether all of its columns could be found.
    fn row(
        &mut self,
        row: &Row<'_>,
        buffer: &mut Vec<u8>,
        references: &mut References,
    ) -> Result<bool, StoreError> {
        let (file, tid) = (self.table.file(), row.tid());
        let parsed = HeapTuple::parse(row.tuple_bytes());
        if let Err(error) = parsed {
            let error = self.table.tuple_error(tid, error);
            self.told(Finding::of_tuple(file, tid, error))?;
            return Ok(false);
        }
        let fields = match row.fields() {
            Ok(fields) => fields,
            Err(error) => {
                self.told(Finding::of_tuple(file, tid, error))?;
                return Ok(false);
            }
        };
        for (column, field) in (1..).zip(fields) {
            let value = match field {
                Ok(field) => field.as_value(),
                Err(error) => {
                    // What is behind a broken attribute cannot be found.
                    self.told(Finding::of_value(file, tid, column, None, error))?;
                    return Ok(false);
                }
            };
            let Some(value) = value else { continue };
            self.verified.values += u64::from(value.is_out_of_line());
            if let Some(value_id) = value.value_id() {
                references.add(value_id);
                self.table.toast().into_iter().for_each(|toast| toast.forget_cached(value_id));
            }
            if let Err(error) = value.read_into(buffer) {
                self.told(Finding::of_value(file, tid, column, value.value_id(), error))?;
            }
        }
        Ok(true)
    }

    /// The values that rows have, from that id on; `None` if a row cannot be read any more.
    fn references_from(&self, from: u64) -> Option<References> {
        let mut references = References::new(from, self.ids);
        let mut rows = self.table.heap.scan(self.core);
        while let Some((tid, tuple)) = rows.next().ok()? {
            for field in Row::lent(self.table, self.core, tid, tuple).fields().ok()? {
                let value = field.ok()?.as_value();
                value
                    .and_then(|value| value.value_id())
                    .into_iter()
                    .for_each(|id| references.add(id));
            }
        }
        references.sort();
        Some(references)
    }

    /// The index, and each entry of it.
    fn entries(&mut self, toast: &ToastStore, references: References) -> Result<(), StoreError> {
        if let Err(error) = toast.index.check() {
            return self.index_told(toast, error);
        }
        let mut references = Some(references).filter(|_| self.all_rows);
        let mut from = 0;
        loop {
            self.entries_of(toast, from, references.as_ref())?;
            let Some(next) = references.as_ref().and_then(References::end) else { return Ok(()) };
            references = self.references_from(next);
            from = next;
        }
    }

    /// The entries of values from `from` on, up to where the references end.
    fn entries_of(
        &mut self,
        toast: &ToastStore,
        from: u64,
        references: Option<&References>,
    ) -> Result<(), StoreError> {
        let last = references.and_then(References::end).map_or(u64::MAX, |end| end - 1);
        let range = Key::new(Oid8::new(from), i32::MIN)..=Key::new(Oid8::new(last), i32::MAX);
        let mut chunks = Chunks { value_id: Oid8::new(0), seen: None };
        for entry in toast.index.range(range) {
            let (key, tid) = match entry {
                Ok(entry) => entry,
                Err(error) => return self.index_told(toast, error),
            };
            let value_id = key.chunk_id;
            if chunks.value_id != value_id {
                self.value_ends(toast, &chunks, references)?;
                chunks = Chunks { value_id, seen: None };
            }
            let mut tuples = toast.heap.reader();
            let found = self.chunk_at(toast, &mut tuples, tid);
            tuples.release();
            // What is wrong with chunks is told where those are looked at.
            let Ok(Some(found)) = found else { continue };
            if found.key != key {
                // Unless a vacuum was there first, and the place has another's chunk by now.
                if matches!(toast.index.get(key), Ok(Some(still)) if still == tid) {
                    let error = StoreError::ChunkEntry { value_id, chunk: key.chunk_seq, tid };
                    self.told(Finding::of_tuple(toast.index_file(), tid, error))?;
                }
            } else if found.is_seen {
                chunks.seen.get_or_insert((tid, 0)).1 += 1;
            } else if references.is_some_and(|references| references.contains(value_id)) {
                let error = StoreError::ChunkUnseen { value_id, chunk: key.chunk_seq, tid };
                let finding = Finding::of_tuple(toast.file(), tid, error);
                self.told(Finding { value_id: Some(value_id), ..finding })?;
            }
        }
        self.value_ends(toast, &chunks, references)
    }

    /// Tells of a value that no row has.
    fn value_ends(
        &mut self,
        toast: &ToastStore,
        &Chunks { value_id, seen }: &Chunks,
        references: Option<&References>,
    ) -> Result<(), StoreError> {
        match (seen, references) {
            (Some((tid, chunks)), Some(references)) if !references.contains(value_id) => {
                let error = StoreError::ValueOrphaned { value_id, chunks, tid };
                let finding = Finding::of_tuple(toast.file(), tid, error);
                self.told(Finding { value_id: Some(value_id), ..finding })
            }
            _ => Ok(()),
        }
    }

    fn index_told(
        &mut self,
        toast: &ToastStore,
        error: IndexError<StoreError>,
    ) -> Result<(), StoreError> {
        let (file, error) = (toast.index_file(), toast.index_error(error));
        self.told(Finding::of_block(file, BlockNumber::new(0), error))
    }

    /// The chunk at a place, if there is one.
    fn chunk_at(
        &self,
        toast: &ToastStore,
        tuples: &mut TupleReader<'_>,
        tid: ItemPointer,
    ) -> Result<Option<Found>, StoreError> {
        let Some(tuple) = tuples.tuple(tid)? else { return Ok(None) };
        let Some(chunk) = Chunk::parse(tuple, toast.width, Some(tid))? else { return Ok(None) };
        let view = self.core.view();
        let is_seen = HeapTuple::new(tuple)
            .is_ok_and(|tuple| tuple.header().is_visible(&view.snapshot(), &view));
        Ok(Some(Found { key: Key::new(chunk.value_id, chunk.seq), is_seen }))
    }

    /// All chunks that are seen, and their pages.
    fn chunks(&mut self, toast: &ToastStore) -> Result<(), StoreError> {
        let file = toast.file();
        for piece in pieces(&toast.heap) {
            self.pages(&toast.heap, file, piece.clone())?;
            let mut rows = toast.heap.scan_blocks(self.core, piece);
            loop {
                match rows.next() {
                    Ok(Some((tid, tuple))) => {
                        let chunk = Chunk::parse(tuple, toast.width, Some(tid));
                        self.chunk(toast, tid, chunk)?;
                    }
                    Ok(None) => break,
                    Err(error) => self.told(Finding::of_block(file, rows.block(), error))?,
                }
            }
        }
        Ok(())
    }

    fn chunk(
        &mut self,
        toast: &ToastStore,
        tid: ItemPointer,
        chunk: Result<Option<Chunk<'_>>, ToastError>,
    ) -> Result<(), StoreError> {
        self.verified.chunks += 1;
        let key = match chunk {
            Ok(Some(chunk)) => Key::new(chunk.value_id, chunk.seq),
            Ok(None) => return Ok(()),
            Err(error) => return self.told(Finding::of_tuple(toast.file(), tid, error.into())),
        };
        match toast.index.get(key) {
            Ok(Some(found)) if found == tid => Ok(()),
            Ok(_) => {
                let (value_id, chunk) = (key.chunk_id, key.chunk_seq);
                let error = StoreError::ChunkUnindexed { value_id, chunk, tid };
                self.told(Finding::of_tuple(toast.file(), tid, error))
            }
            // The index was told of as a whole.
            Err(_) => Ok(()),
        }
    }
}

/// All blocks, a few at a time.
fn pieces(heap: &Relation) -> impl Iterator<Item = Range<u32>> + use<> {
    let blocks = heap.blocks();
    let starts = (0..blocks).step_by(PIECE as usize);
    starts.map(move |start| start..start.saturating_add(PIECE).min(blocks))
}

#[cfg(all(test, not(pgtoast_loom)))]
mod tests {
    use std::fs;

    use super::*;
    use crate::{Column, ColumnType, Schema, Storage, StoreOptions};

    #[test]
    fn more_values_than_are_kept_at_a_time_are_told_apart_all_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let options = || StoreOptions::new().checksums(false).buffer_bytes(4 << 20);
        let store = Store::open(directory.path(), options()).expect("a store");
        let body = Column::new("body", ColumnType::Bytea).with_storage(Storage::External);
        let table = store.create_table("t", Schema::new([body])).expect("a table");
        let mut transaction = store.begin(Isolation::ReadCommitted);
        let first = store.next_value_id();
        let rows = (0..20_u8).map(|row| [vec![row; 5000]]);
        for row in rows {
            transaction.insert(&table, &[(&row[0]).into()]).expect("inserted");
        }
        transaction.commit().expect("committed");
        let heap = directory.path().join(format!("base/{}", table.relations().heap));
        drop(table);
        store.close().expect("closed");
        let mut bytes = fs::read(&heap).expect("the file");
        for row in [5, 17] {
            // The line pointer is free, and the row is gone.
            bytes[24 + 4 * row..][..4].fill(0);
        }
        fs::write(&heap, bytes).expect("written");

        let store = Store::open(directory.path(), options()).expect("a store");
        let table = store.table("t").expect("there");
        for ids in [1, 3, 18, 100] {
            let mut found = Vec::new();
            let verified = store.verify_with(&table, ids, |finding| {
                assert!(
                    matches!(finding.error, StoreError::ValueOrphaned { chunks: 3, .. }),
                    "{finding}"
                );
                found.push(finding.value_id.expect("a value").get());
                ControlFlow::Continue(())
            });
            assert_eq!(found, [first + 5, first + 17], "{ids} at a time");
            assert_eq!(verified.expect("readable").findings, 2);
        }
    }
}
