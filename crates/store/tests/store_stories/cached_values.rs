//! The same value was fetched and decompressed again for each expression that used it. A cache does that once, and
//! must neither pass its budget nor answer with the value that an id had before.
use pgtoast_store::{Isolation, Storage, StoreOptions};

use super::{documents, insert, noise, open};

#[test]
fn three_reads_fetch_once_and_the_budget_holds() {
    let budget = 2_000_000;
    let (_directory, store) = open(StoreOptions::new().detoast_cache_bytes(budget));
    let table = store.create_table("t", documents(Storage::Extended)).expect("a table");
    // Compresses a little, so that it is stored compressed and out of line.
    let body = |seed| [vec![b'x'; 20_000], noise(seed, 30_000)].concat();
    let tids: Vec<_> =
        (0..100).map(|id| insert(&store, &table, id, &body(id.unsigned_abs().into()))).collect();
    let mut transaction = store.begin(Isolation::ReadCommitted);
    for (id, tid) in (0..).zip(&tids) {
        let row = transaction.fetch(&table, *tid).expect("a page").expect("a row");
        let value = row.get(1).expect("a column").as_value().expect("a value");
        assert!(value.is_out_of_line() && value.compression().is_some());
        let expected = body(id);
        assert!(value.slice(40_000..40_100).expect("a slice") == expected[40_000..40_100]);
        assert!(value.to_vec().expect("whole") == expected);
        assert!(value.slice(10..20).expect("a slice") == expected[10..20]);
        assert!(store.statistics().cache.bytes <= budget);
    }
    let cache = store.statistics().cache;
    assert_eq!((cache.hits, cache.misses), (200, 200), "one of three, and its second look");
}

#[test]
fn an_id_that_is_given_again_never_serves_the_old_value() {
    let options = StoreOptions::new().detoast_cache_bytes(4_000_000).next_value_id(20_000);
    let (directory, store) = open(options.clone());
    let table = store.create_table("t", documents(Storage::External)).expect("a table");
    let (old, new) = (noise(1, 10_000), noise(2, 10_000));
    let read = |tid| {
        let mut transaction = store.begin(Isolation::ReadCommitted);
        let row = transaction.fetch(&table, tid).expect("a page").expect("a row");
        let value = row.get(1).expect("a column").as_value().expect("a value");
        (value.value_id().expect("out of line").get(), value.to_vec().expect("whole"))
    };
    let tid = insert(&store, &table, 1, &old);
    assert!(read(tid) == (20_000, old.clone()));
    let mut transaction = store.begin(Isolation::ReadCommitted);
    assert!(transaction.delete(&table, tid).expect("deleted"));
    transaction.commit().expect("committed");
    let vacuum = pgtoast_store::VacuumOptions {
        index_cleanup: pgtoast_store::IndexCleanup::Always,
        ..pgtoast_store::VacuumOptions::default()
    };
    store.vacuum(&table, &vacuum).expect("vacuumed");
    // Once round: 2^32 values later the counter is where it was. A closed store has no cache, so the counter
    // is turned by ids of values that are not there, which costs nothing but the turning.
    store.turn_value_ids((1 << 32) + 20_000);
    let tid = insert(&store, &table, 2, &new);
    assert!(read(tid) == (20_000, new));
    drop(directory);
}
