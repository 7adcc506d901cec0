//! A counter of 32 bits laps at hundreds of millions of values, and each insert then probes taken ids one by one,
//! until nothing moves any more. The wrap skips what is reserved, probes are reported, and ids of 64 bits never
//! probe.
use std::sync::{Arc, Mutex};

use pgtoast_store::{Isolation, Storage, Store, StoreOptions, Table, ToastFlavour, ValueIdEvent};

use super::{documents, insert, noise, open, rows};

fn id_of(store: &Store, table: &Table, tid: pgtoast_store::ItemPointer) -> u64 {
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let row = transaction.fetch(table, tid).expect("a page").expect("a row");
    let value = row.get(1).expect("a column").as_value().expect("a value");
    value.value_id().expect("out of line").get()
}

#[test]
fn the_counter_wraps_past_what_is_reserved_and_over_what_is_taken() {
    let (_directory, store) = open(StoreOptions::new().next_value_id(16_384));
    let table = store.create_table("t", documents(Storage::External)).expect("a table");
    let body = noise(1, 2100);
    let taken = 300;
    for id in 0..taken {
        insert(&store, &table, id, &body);
    }
    store.turn_value_ids((1 << 32) - 2);
    let ids: Vec<_> = (0..4)
        .map(|id| insert(&store, &table, 1000 + id, &body))
        .map(|tid| id_of(&store, &table, tid))
        .collect();
    let free = 16_384 + u64::from(taken.unsigned_abs());
    assert_eq!(ids, [(1 << 32) - 2, (1 << 32) - 1, free, free + 1]);
    let statistics = store.statistics().value_ids;
    assert_eq!((statistics.wraps, statistics.probes), (1, u64::from(taken.unsigned_abs())));
    // Another table's ids are its own.
    let other = store.create_table("other", documents(Storage::External)).expect("a table");
    store.turn_value_ids(1 << 33 | 16_384);
    let tid = insert(&store, &other, 1, &body);
    assert_eq!(id_of(&store, &other, tid), 16_384);
    store.verify(&table, |finding| panic!("{finding}")).expect("readable");
}

#[test]
fn an_id_is_taken_while_a_dead_chunk_of_it_is_in_the_index() {
    let (_directory, store) = open(StoreOptions::new().next_value_id(20_000));
    let table = store.create_table("t", documents(Storage::External)).expect("a table");
    let body = noise(1, 2100);
    let tid = insert(&store, &table, 1, &body);
    let mut transaction = store.begin(Isolation::ReadCommitted);
    assert!(transaction.delete(&table, tid).expect("deleted"));
    transaction.commit().expect("committed");
    let mut aborted = store.begin(Isolation::ReadCommitted);
    aborted.insert(&table, &[2.into(), (&body).into()]).expect("inserted");
    aborted.abort();
    store.turn_value_ids(1 << 32 | 20_000);
    let tid = insert(&store, &table, 3, &body);
    assert_eq!(id_of(&store, &table, tid), 20_002);
}

#[test]
fn wide_ids_are_never_cut_and_never_probe() {
    let events = Arc::new(Mutex::new(Vec::<ValueIdEvent>::new()));
    let heard = Arc::clone(&events);
    let options = StoreOptions::new()
        .next_value_id((1 << 32) + 50_000)
        .on_value_id_search(move |event| heard.lock().expect("no panic").push(event));
    let (directory, store) = open(options);
    let schema = documents(Storage::External).with_flavour(ToastFlavour::Oid8);
    let table = store.create_table("t", schema).expect("a table");
    // Ids 2^32 + k and, after a turn back, k in the same table: two values, not one.
    let high: Vec<_> = (0..50)
        .map(|id| insert(&store, &table, id, &noise(id.unsigned_abs().into(), 4000)))
        .collect();
    store.turn_value_ids(50_000);
    let low: Vec<_> = (50..100)
        .map(|id| insert(&store, &table, id, &noise(id.unsigned_abs().into(), 4000)))
        .collect();
    for ((high, low), k) in high.iter().zip(&low).zip(0..) {
        assert_eq!(id_of(&store, &table, *high), (1 << 32) + 50_000 + k);
        assert_eq!(id_of(&store, &table, *low), 50_000 + k);
    }
    for (id, body) in rows(&mut store.begin(Isolation::ReadCommitted), &table) {
        assert!(body == noise(id.unsigned_abs().into(), 4000), "row {id}");
    }
    let statistics = store.statistics().value_ids;
    assert_eq!((statistics.given, statistics.probes), (100, 0));
    assert!(events.lock().expect("no panic").is_empty());
    let verified = store.verify(&table, |finding| panic!("{finding}")).expect("readable");
    assert_eq!(verified.values, 100);
    store.close().expect("closed");
    let store = Store::open(directory.path(), StoreOptions::new()).expect("there");
    let table = store.table("t").expect("there");
    assert_eq!(id_of(&store, &table, high[7]), (1 << 32) + 50_007);
}
