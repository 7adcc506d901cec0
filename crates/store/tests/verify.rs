//! `Store::verify` tells of each fault with its place, and of nothing in a store that is sound. Faults are put
//! into the files of a store that is closed.
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Oid8};
use pgtoast_page::PageError;
use pgtoast_store::{
    Column, ColumnType, Finding, Fork, Isolation, RelationId, Schema, Storage, Store, StoreError,
    StoreFile, StoreOptions, Table, Transaction, VacuumOptions,
};
use pgtoast_toast::ToastError;
use tempfile::TempDir;

const BLOCK: usize = 8192;
const ROWS: i32 = 12;
/// Of each value: a page has four.
const CHUNKS: usize = 3;

fn options() -> StoreOptions {
    StoreOptions::new().checksums(false).buffer_bytes(4 << 20)
}

fn schema() -> Schema {
    Schema::new([
        Column::new("id", ColumnType::Int4).not_null(),
        Column::new("body", ColumnType::Bytea).with_storage(Storage::External),
    ])
}

/// A store that was closed, with rows whose values have three chunks each.
struct Closed {
    directory: TempDir,
    heap: RelationId,
    toast: RelationId,
    /// The id of the first row's value; the others follow.
    first_id: u64,
}

impl Closed {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Store::open(directory.path(), options()).expect("a new store");
        let table = store.create_table("t", schema()).expect("a table");
        let first_id = store.next_value_id();
        let mut transaction = store.begin(Isolation::ReadCommitted);
        let body = vec![7; 1996 * CHUNKS];
        for id in 0..ROWS {
            transaction.insert(&table, &[id.into(), (&body).into()]).expect("inserted");
        }
        transaction.commit().expect("committed");
        let relations = table.relations();
        let (heap, toast) = (relations.heap, relations.toast.expect("values out of line"));
        drop(table);
        store.close().expect("closed");
        Self { directory, heap, toast, first_id }
    }

    fn path(&self, relation: RelationId) -> PathBuf {
        self.directory.path().join(format!("base/{relation}"))
    }

    fn value_id(&self, row: usize) -> Oid8 {
        Oid8::new(self.first_id + row as u64)
    }

    /// All that is found, once the store is open again.
    fn findings(&self) -> Vec<Finding> {
        let store = Store::open(self.directory.path(), options()).expect("a closed store");
        let table = store.table("t").expect("there");
        let mut findings = Vec::new();
        let verified = store.verify(&table, |finding| {
            findings.push(finding);
            ControlFlow::Continue(())
        });
        assert_eq!(verified.expect("to the end").findings, findings.len() as u64);
        findings
    }
}

fn main_file(relation: RelationId) -> StoreFile {
    StoreFile::Relation { relation, fork: Fork::Main }
}

fn change(path: &Path, change: impl FnOnce(&mut [u8])) {
    let mut bytes = fs::read(path).expect("the file");
    change(&mut bytes);
    fs::write(path, bytes).expect("written");
}

/// The line pointer of an item, from 0, of a page that starts at `page`.
fn pointer(bytes: &mut [u8], page: usize, item: usize) -> &mut [u8] {
    &mut bytes[page * BLOCK + 24 + 4 * item..][..4]
}

/// Where the tuple of that item is in the file.
fn tuple(bytes: &mut [u8], page: usize, item: usize) -> usize {
    let pointer: [u8; 4] = pointer(bytes, page, item).try_into().expect("four bytes");
    page * BLOCK + (u32::from_le_bytes(pointer) & 0x7fff) as usize
}

/// The page and item, from 0, of a chunk.
fn place(row: usize, chunk: usize) -> (usize, usize) {
    let number = row * CHUNKS + chunk;
    (number / 4, number % 4)
}

fn tid(page: usize, item: usize) -> ItemPointer {
    let number = |number: usize| u16::try_from(number).expect("small");
    ItemPointer::new(BlockNumber::new(number(page).into()), OffsetNumber::new(number(item) + 1))
}

#[test]
fn a_store_that_was_closed_well_has_no_findings() {
    assert_eq!(Closed::new().findings(), []);
}

#[test]
fn a_line_pointer_that_leaves_its_page_is_told_with_its_block() {
    let closed = Closed::new();
    let (page, item) = place(5, 2);
    for (relation, page, item) in [(closed.heap, 0, 3), (closed.toast, page, item)] {
        // The length, in the upper 15 bits, is more than there is behind the tuple's beginning.
        change(&closed.path(relation), |bytes| pointer(bytes, page, item)[3] = 0x7f);
    }
    let findings = closed.findings();
    for (relation, page, item) in [(closed.heap, 0, 3), (closed.toast, page, item)] {
        let place = tid(page, item);
        let found = findings.iter().any(|finding| {
            let number = place.item.get();
            finding.file == main_file(relation)
                && finding.block == place.block
                && matches!(finding.error, StoreError::Page {
                    error: PageError::ItemOutside { item, .. }, ..
                } if item == number)
        });
        assert!(found, "{relation} {place}: {findings:?}");
    }
}

#[test]
fn tuples_that_share_bytes_are_told_though_both_can_be_read() {
    let closed = Closed::new();
    change(&closed.path(closed.heap), |bytes| {
        let other: [u8; 4] = pointer(bytes, 0, 4).try_into().expect("four bytes");
        pointer(bytes, 0, 6).copy_from_slice(&other);
    });
    // What the page is told for is that, whatever is made of the rows.
    let findings = closed.findings();
    let of_page: Vec<_> = findings.iter().filter(|f| f.file == main_file(closed.heap)).collect();
    assert_eq!(of_page.len(), 1, "{findings:?}");
    assert!(
        matches!(of_page[0].error, StoreError::Page { error: PageError::ItemOverlap { .. }, .. }),
        "{findings:?}"
    );
    // A row was lost by it, and its value is not taken for one that no row ever had.
    assert_eq!(findings.len(), 1, "{findings:?}");
}

#[test]
fn chunks_of_a_row_that_is_gone_are_told_once_a_value() {
    let closed = Closed::new();
    change(&closed.path(closed.heap), |bytes| {
        for row in [0, 7] {
            pointer(bytes, 0, row).fill(0);
        }
    });
    let expected = [0, 7].map(|row| {
        let (page, item) = place(row, 0);
        let (value_id, tid) = (closed.value_id(row), tid(page, item));
        let error = StoreError::ValueOrphaned { value_id, chunks: CHUNKS as u64, tid };
        (main_file(closed.toast), Some(tid), Some(value_id), error)
    });
    let findings = closed.findings();
    let found: Vec<_> = findings.iter().map(|f| (f.file, f.tid, f.value_id, f.error)).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_chunk_that_is_missing_is_told_with_row_column_and_value() {
    for (chunk, is_expected) in [
        (
            0,
            (|error| matches!(error, ToastError::ChunkNumber { found: 1, expected: 0, .. }))
                as fn(ToastError) -> bool,
        ),
        (1, |error| matches!(error, ToastError::ChunkNumber { found: 2, expected: 1, .. })),
        (2, |error| matches!(error, ToastError::MissingChunk { chunk: 2, chunk_count: 3, .. })),
    ] {
        let closed = Closed::new();
        let (page, item) = place(9, chunk);
        change(&closed.path(closed.toast), |bytes| pointer(bytes, page, item).fill(0));
        let findings = closed.findings();
        let [finding] = findings[..] else { panic!("chunk {chunk}: {findings:?}") };
        let row = tid(0, 9);
        assert_eq!(finding.file, main_file(closed.heap));
        assert_eq!((finding.tid, finding.column), (Some(row), Some(2)));
        assert_eq!(finding.value_id, Some(closed.value_id(9)));
        let StoreError::Row { tid, column: 2, error } = finding.error else {
            panic!("{finding}");
        };
        assert!(tid == row && is_expected(error), "chunk {chunk}: {finding}");
    }
}

#[test]
fn a_chunk_that_was_deleted_without_its_row_is_told_before_a_vacuum_takes_it() {
    let closed = Closed::new();
    let (page, item) = place(4, 1);
    change(&closed.path(closed.toast), |bytes| {
        let start = tuple(bytes, page, item);
        // Ended by the transaction that made it, and that one committed.
        bytes.copy_within(start..start + 4, start + 4);
        let infomask = u16::from_le_bytes([bytes[start + 20], bytes[start + 21]]);
        let infomask = infomask & !0x0800 | 0x0400;
        bytes[start + 20..start + 22].copy_from_slice(&infomask.to_le_bytes());
    });
    let (value_id, tid) = (closed.value_id(4), tid(page, item));
    let findings = closed.findings();
    let [finding] = findings[..] else { panic!("{findings:?}") };
    assert_eq!(finding.error, StoreError::ChunkUnseen { value_id, chunk: 1, tid });
    assert_eq!((finding.file, finding.tid), (main_file(closed.toast), Some(tid)));
}

#[test]
fn a_cached_value_does_not_hide_that_its_chunks_are_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = options().buffer_bytes(1 << 20).detoast_cache_bytes(1 << 20);
    let store = Store::open(directory.path(), options).expect("a new store");
    let table = store.create_table("t", schema()).expect("a table");
    let other = store.create_table("other", schema()).expect("a table");
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let body = vec![7; 1996 * CHUNKS];
    let tid = transaction.insert(&table, &[1.into(), (&body).into()]).expect("inserted");
    let read = |transaction: &mut Transaction| {
        let row = transaction.fetch(&table, tid).expect("readable").expect("a row");
        row.get(1).expect("whole").as_value().expect("a value").to_vec()
    };
    assert_eq!(read(&mut transaction), Ok(body.clone()));
    store.checkpoint().expect("written");
    for id in 0..400 {
        // Four times what the pool holds: the page of the chunks is not among it any more.
        transaction.insert(&other, &[id.into(), (&vec![1; 9000]).into()]).expect("inserted");
    }
    transaction.commit().expect("committed");
    let toast = table.relations().toast.expect("values out of line");
    let path = directory.path().join(format!("base/{toast}"));
    change(&path, |bytes| pointer(bytes, 0, 1).fill(0));
    let mut transaction = store.begin(Isolation::ReadCommitted);
    assert_eq!(read(&mut transaction), Ok(body), "the cache has it");

    let mut findings = Vec::new();
    let verified = store.verify(&table, |finding| {
        findings.push(finding);
        ControlFlow::Continue(())
    });
    assert_eq!(verified.expect("to the end").findings, 1, "{findings:?}");
    assert_eq!((findings[0].tid, findings[0].column), (Some(tid), Some(2)));
}

/// Rows come, change and go; some of that is undone.
fn work(store: &Store, table: &Table, round: i32) {
    let body = |len: usize| vec![u8::try_from(round & 0x7f).expect("small"); len];
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let short = body(3000);
    let mut insert = |id: i32| transaction.insert(table, &[id.into(), (&short).into()]);
    let tids: Vec<_> = (0..20).map(|id| insert(id).expect("inserted")).collect();
    let many = (20..30).map(|id| [id.into(), (&short).into()]);
    transaction.insert_many(table, many).expect("inserted");
    let savepoint = transaction.savepoint();
    for tid in &tids[..5] {
        transaction.delete(table, *tid).expect("deleted");
    }
    transaction.insert(table, &[99.into(), (&body(9000)).into()]).expect("inserted");
    transaction.rollback_to(savepoint).expect("open");
    transaction.delete(table, tids[6]).expect("deleted");
    transaction.commit().expect("committed");

    let mut transaction = store.begin(Isolation::ReadCommitted);
    for (number, tid) in tids.iter().enumerate() {
        match number % 4 {
            0 => drop(transaction.update(table, *tid, &[(1, (&body(6000)).into())])),
            1 => drop(transaction.update(table, *tid, &[(0, round.into())])),
            2 => drop(transaction.delete(table, *tid)),
            _ => {}
        }
    }
    if round % 3 == 0 { transaction.abort() } else { transaction.commit().expect("committed") }
}

#[test]
fn a_sound_store_has_no_findings_whatever_was_done_to_it() {
    // Without waiting for those who keep the relation's end from being cut off.
    let quick = VacuumOptions { truncate_wait: Duration::ZERO, ..VacuumOptions::default() };
    for vacuum in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Store::open(directory.path(), options()).expect("a new store");
        let table = store.create_table("t", schema()).expect("a table");
        let verify = |store: &Store, table: &Table| {
            let verified = store.verify(table, |finding| panic!("{finding}")).expect("readable");
            assert!(verified.rows > 0 && verified.values > 0 && verified.chunks > 0);
        };
        // Somebody who still sees what was there at the beginning, and somebody who is at work.
        work(&store, &table, 1);
        let mut old = store.begin(Isolation::RepeatableRead);
        old.insert(&table, &[1.into(), (&vec![1; 4000]).into()]).expect("inserted");
        for round in 2..8 {
            work(&store, &table, round);
            verify(&store, &table);
            if vacuum {
                store.vacuum(&table, &quick).expect("vacuumed");
                store.vacuum_toast(&table, &quick).expect("vacuumed");
                verify(&store, &table);
            }
        }
        drop(old);
        verify(&store, &table);
        // While others are at work.
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                for round in 8..32 {
                    work(&store, &table, round);
                    if vacuum && round % 4 == 0 {
                        store.vacuum(&table, &quick).expect("vacuumed");
                    }
                }
            });
            while !worker.is_finished() {
                verify(&store, &table);
            }
        });
        drop(table);
        store.close().expect("closed");
        let store = Store::open(directory.path(), options()).expect("closed");
        let table = store.table("t").expect("there");
        verify(&store, &table);
    }
}
