//! A table of four gigabytes with 46 of TOAST, and growth that goes on after the rows are gone. Chunks of replaced
//! values are space that only a vacuum gives back: without one a table of values grows with each pass over it,
//! as a server's does; with one it does not.
use pgtoast_store::{Isolation, ItemPointer, Storage, Store, StoreOptions, Table, VacuumOptions};

use super::{documents, noise, open, rows};

const ROWS: usize = 50;
/// Ten kilobytes, in five full chunks.
const LEN: usize = 5 * 1996;
const PASSES: u64 = 20;

fn pass(store: &Store, table: &Table, tids: &mut [ItemPointer], seed: u64) {
    for (number, tid) in (0..).zip(tids) {
        let mut transaction = store.begin(Isolation::ReadCommitted);
        let body = noise(seed * 1000 + number, LEN);
        let updated = transaction.update(table, *tid, &[(1, (&body).into())]).expect("updated");
        *tid = updated.expect("a row");
        transaction.commit().expect("committed");
    }
}

fn toast_pages(table: &Table) -> u64 {
    table.size().toast_bytes / 8192
}

#[test]
fn replaced_values_take_space_until_a_vacuum_and_none_after_it() {
    let mut ends = Vec::new();
    for vacuums in [false, true] {
        let (_directory, store) = open(StoreOptions::new());
        let table = store.create_table("t", documents(Storage::External)).expect("a table");
        let mut tids: Vec<_> = (0..ROWS)
            .map(|id| {
                super::insert(
                    &store,
                    &table,
                    i32::try_from(id).expect("few"),
                    &noise(id as u64, LEN),
                )
            })
            .collect();
        let first = toast_pages(&table);
        for seed in 1..=PASSES {
            pass(&store, &table, &mut tids, seed);
            if vacuums {
                store.vacuum(&table, &VacuumOptions::default()).expect("vacuumed");
            }
        }
        let end = toast_pages(&table);
        ends.push(end);
        assert_eq!(first, 63);
        if vacuums {
            assert!(end <= 2 * first + 8, "{end} pages after {first}");
        } else {
            assert_eq!(end, 1313, "as was measured on a server");
        }
        let found = rows(&mut store.begin(Isolation::ReadCommitted), &table);
        assert_eq!(found.len(), ROWS);
        for (id, body) in found {
            assert!(body == noise(PASSES * 1000 + u64::from(id.unsigned_abs()), LEN), "row {id}");
        }
        store.verify(&table, |finding| panic!("{finding}")).expect("readable");
    }
    assert!(ends[0] > 8 * ends[1], "{ends:?}");
}

#[test]
fn passes_in_one_transaction_each_reach_a_steady_state() {
    let (_directory, store) = open(StoreOptions::new());
    let table = store.create_table("t", documents(Storage::External)).expect("a table");
    let mut tids: Vec<_> = (0..ROWS)
        .map(|id| {
            super::insert(&store, &table, i32::try_from(id).expect("few"), &noise(id as u64, LEN))
        })
        .collect();
    let mut pages = Vec::new();
    for seed in 1..=6 {
        let mut transaction = store.begin(Isolation::ReadCommitted);
        for (number, tid) in (0..).zip(&mut tids) {
            let body = noise(seed * 1000 + number, LEN);
            let updated = transaction.update(&table, *tid, &[(1, (&body).into())]);
            *tid = updated.expect("updated").expect("a row");
        }
        transaction.commit().expect("committed");
        store.vacuum(&table, &VacuumOptions::default()).expect("vacuumed");
        pages.push(toast_pages(&table));
    }
    assert!(pages[5] <= pages[1], "{pages:?}");
}
