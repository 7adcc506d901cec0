//! A disk fails in the middle of a statement: the statement is undone, or its transaction is, and the store is
//! sound.
#![cfg(not(pgtoast_loom))]

mod support;

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::Arc;

use pgtoast_base::BlockSize;
use pgtoast_store::{
    Column, ColumnType, Isolation, Schema, Storage, Store, StoreError, StoreOptions,
};
use support::{Call, MemoryDisk};

const ROWS: i32 = 60;
/// The row that is inserted, with a value of so many chunks that a page of the index is split.
const NEW: i32 = 8000;

/// So few frames that most pages come from the disk.
fn options() -> StoreOptions {
    StoreOptions::new().buffer_bytes(16 * BlockSize::KIB_8.bytes())
}

fn body(id: i32, version: u8) -> Vec<u8> {
    let marks = (0..7000 + 100 * id).map(|at| (at / 7 + id).to_le_bytes()[0] ^ version);
    marks.collect()
}

/// A store on a disk, with rows whose values have four chunks and more.
fn filled() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let store = Store::open_on(Arc::new(disk.clone()), options()).expect("a disk that works");
    let schema = Schema::new([
        Column::new("id", ColumnType::Int4).not_null(),
        Column::new("body", ColumnType::Bytea).with_storage(Storage::External),
    ]);
    let table = store.create_table("t", schema).expect("a disk that works");
    let mut transaction = store.begin(Isolation::ReadCommitted);
    for id in 0..ROWS {
        transaction.insert(&table, &[id.into(), (&body(id, 0)).into()]).expect("a disk that works");
    }
    transaction.commit().expect("a disk that works");
    drop(table);
    store.close().expect("a disk that works");
    disk
}

#[test]
fn a_call_that_fails_in_a_statement_leaves_no_chunk_without_a_row_and_no_row_without_a_chunk() {
    let mut failed = 0;
    let counts = [1, 3, 16, u64::MAX];
    for (call, count) in
        [Call::Read, Call::Write].into_iter().flat_map(|call| counts.map(|count| (call, count)))
    {
        for skip in 0.. {
            let disk = filled();
            let store = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
            let table = store.table("t").unwrap();
            let mut transaction = store.begin(Isolation::ReadCommitted);
            let mut scan = transaction.scan(&table).unwrap();
            let mut tids = Vec::new();
            while let Some(row) = scan.next().unwrap() {
                tids.push(row.tid());
            }
            drop(scan);

            let before = disk.calls(call);
            disk.fail(Some(call), skip, count, ErrorKind::Other);
            let mut expected = ROWS;
            let mut errors = Vec::new();
            match transaction.insert(&table, &[NEW.into(), (&body(NEW, 0)).into()]) {
                Ok(_) => expected += 1,
                Err(error) => errors.push(error),
            }
            let (old, new) = (body(7, 0), body(300, 1));
            let mut changed = &old;
            match transaction.update(&table, tids[7], &[(1, (&new).into())]) {
                Ok(updated) => {
                    assert!(updated.is_some());
                    changed = &new;
                }
                Err(error) => errors.push(error),
            }
            match transaction.delete(&table, tids[50]) {
                Ok(deleted) => {
                    assert!(deleted);
                    expected -= 1;
                }
                Err(error) => errors.push(error),
            }
            disk.heal();
            let calls = disk.calls(call) - before;
            if errors.contains(&StoreError::TransactionFailed) || transaction.commit().is_err() {
                (expected, changed) = (ROWS, &old);
            }

            let mut found = Vec::new();
            let verified = store.verify(&table, |finding| {
                found.push(finding.to_string());
                ControlFlow::Continue(())
            });
            verified.unwrap();
            assert_eq!(found, Vec::<String>::new(), "{call:?} {skip}: after {errors:?}");
            let mut transaction = store.begin(Isolation::ReadCommitted);
            let mut scan = transaction.scan(&table).unwrap();
            let mut rows = 0;
            while let Some(row) = scan.next().unwrap() {
                let id = row.get(0).unwrap().as_int4().unwrap();
                let value = row.get(1).unwrap().as_value().unwrap().to_vec().unwrap();
                assert_eq!(value, if id == 7 { changed.clone() } else { body(id, 0) }, "row {id}");
                rows += 1;
            }
            assert_eq!(rows, expected, "{call:?} {skip}: after {errors:?}");
            failed += errors.len();
            if calls <= skip {
                break;
            }
        }
    }
    assert!(failed > 20, "{failed} statements failed");
}
