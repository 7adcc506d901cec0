//! A value that is not in memory takes few system calls, however many pages it is on.
use pgtoast_store::{
    Column, ColumnType, Fork, Isolation, RelationKind, Schema, Storage, Store, StoreOptions,
};

#[test]
fn a_cold_value_is_read_sixteen_pages_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Store::open(directory.path(), StoreOptions::new().buffer_bytes(16 << 20));
    let store = open().unwrap();
    let schema =
        Schema::new([Column::new("body", ColumnType::Bytea).with_storage(Storage::External)]);
    let table = store.create_table("documents", schema).unwrap();
    let body: Vec<u8> = (0..1_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let tid = transaction.insert(&table, &[(&body).into()]).unwrap();
    transaction.commit().unwrap();
    drop(table);
    store.close().unwrap();

    let store = open().unwrap();
    let table = store.table("documents").unwrap();
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let row = transaction.fetch(&table, tid).unwrap().unwrap();
    let value = row.get(0).unwrap().as_value().unwrap();
    let chunks = || store.statistics().pages.of(RelationKind::Toast, Fork::Main);
    let before = chunks();
    assert!(value.to_vec().unwrap() == body);
    let whole = chunks() - before;
    assert_eq!(whole.reads, 126, "four chunks of 1996 bytes a page");
    assert!(whole.read_calls <= 126 / 16 + 4, "{} calls", whole.read_calls);
    // All of it is there now.
    assert!(value.to_vec().unwrap() == body);
    assert_eq!((chunks() - before).read_calls, whole.read_calls);
}
