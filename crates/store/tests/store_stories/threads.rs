//! Threads insert, update, delete and read values at once, and none of them ever sees a value that is not whole.
use std::thread;

use pgtoast_store::{
    Datum, Isolation, ItemPointer, Storage, Store, StoreError, StoreOptions, Table, VacuumOptions,
};

use super::{documents, noise, open};

const THREADS: u64 = 4;
const ROUNDS: u64 = 150;

/// A body that says how long it is and what it is of.
fn body(seed: u64) -> Vec<u8> {
    let len = 100 + usize::try_from(seed * 7919 % 20_000).expect("small");
    let mut body = noise(seed, len);
    body[..8].copy_from_slice(&seed.to_le_bytes());
    body
}

fn write(store: &Store, table: &Table, thread: u64) -> Result<usize, StoreError> {
    let mut own: Vec<ItemPointer> = Vec::new();
    for round in 0..ROUNDS {
        let seed = thread * 1_000_000 + round;
        let mut transaction = store.begin(Isolation::ReadCommitted);
        let tid = transaction.insert(table, &[Datum::Int4(0), (&body(seed)).into()])?;
        let mut gone = None;
        if round % 3 == 0 && !own.is_empty() {
            let at = usize::try_from(seed).expect("small") % own.len();
            let changed = body(seed + 500_000);
            let moved = transaction.update(table, own[at], &[(1, (&changed).into())])?;
            if let Some(moved) = moved.filter(|_| round % 2 == 0) {
                own[at] = moved;
            }
        }
        if round % 5 == 0 && round % 3 != 0 && own.len() > 3 {
            let at = usize::try_from(seed).expect("small") % own.len();
            assert!(transaction.delete(table, own[at])?);
            gone = Some(at);
        }
        if round % 2 == 0 {
            transaction.commit()?;
            own.push(tid);
            if let Some(at) = gone {
                own.swap_remove(at);
            }
        }
    }
    Ok(own.len())
}

fn read(store: &Store, table: &Table) -> Result<usize, StoreError> {
    let mut count = 0;
    for _ in 0..20 {
        let mut transaction = store.begin(Isolation::ReadCommitted);
        let mut scan = transaction.scan(table)?;
        while let Some(row) = scan.next()? {
            let value = row.get(1)?.as_value().expect("not null");
            let found = value.to_vec()?;
            let seed = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
            assert!(found == body(seed), "value of seed {seed}");
            assert!(value.slice(50..90)? == found[50..90]);
            count += 1;
        }
    }
    Ok(count)
}

#[test]
fn values_are_whole_while_others_write_and_vacuum() {
    let (_directory, store) = open(StoreOptions::new().detoast_cache_bytes(1 << 20));
    let table = store.create_table("t", documents(Storage::Extended)).expect("a table");
    let (store, table) = (&store, &table);
    let kept: usize = thread::scope(|scope| {
        let writers: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || write(store, table, thread))).collect();
        let reader = scope.spawn(move || read(store, table));
        let vacuum = scope.spawn(move || {
            (0..10).try_for_each(|_| store.vacuum(table, &VacuumOptions::default()).map(|_| ()))
        });
        reader.join().expect("no panic").expect("no error");
        vacuum.join().expect("no panic").expect("no error");
        writers.into_iter().map(|writer| writer.join().expect("no panic").expect("no error")).sum()
    });
    let verified = store.verify(table, |finding| panic!("{finding}")).expect("readable");
    assert_eq!(verified.rows, kept as u64);
}

/// Where the only row of a table is.
fn only_tid(store: &Store, table: &Table) -> ItemPointer {
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let mut scan = transaction.scan(table).expect("a scan");
    scan.next().expect("a page").expect("a row").tid()
}

#[test]
fn an_update_that_came_second_works_on_what_the_first_one_left() {
    let (_directory, store) = open(StoreOptions::new());
    let table = store.create_table("t", documents(Storage::External)).expect("a table");
    let tid = super::insert(&store, &table, 0, &noise(1, 5000));
    let (store, table) = (&store, &table);
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                let mut tid = tid;
                for round in 0..50 {
                    let mut transaction = store.begin(Isolation::ReadCommitted);
                    let large = noise(thread * 100 + round, 5000);
                    let mut change = |tid| {
                        let updated = transaction.update_with(table, tid, |row, update| {
                            let count = row.get(0)?.as_int4().unwrap_or_default();
                            update.set(0, count + 1)?.set(1, &large)?;
                            Ok(())
                        });
                        updated.expect("no deadlock, one row")
                    };
                    // While a thread sleeps in a transaction its page may fill with what it could still see, and
                    // the row go to another: then nothing is at its old address, for who begins after that.
                    while change(tid).is_none() {
                        let moved = only_tid(store, table);
                        assert_ne!(moved, tid, "nothing was found where the row is");
                        tid = moved;
                    }
                    transaction.commit().expect("committed");
                }
            });
        }
    });
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let mut scan = transaction.scan(table).expect("a scan");
    let row = scan.next().expect("a page").expect("a row");
    assert_eq!(row.get(0).expect("a column").as_int4(), Some(200));
    drop(row);
    assert!(scan.next().expect("a page").is_none());
    drop(transaction);
    let verified = store.verify(table, |finding| panic!("{finding}")).expect("readable");
    assert_eq!((verified.rows, verified.chunks), (1, 3), "what was written in vain is gone");
}
