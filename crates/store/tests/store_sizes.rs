//! One session loads values of one length in one transaction, and the TOAST relation and its index are as
//! long as PostgreSQL 15 makes them, to the byte: four chunks to a page, leaves split where the server splits.
use pgtoast_store::{Column, ColumnType, Isolation, Schema, Storage, Store, StoreOptions};

fn load(len: usize, count: usize) -> (u64, u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(directory.path(), StoreOptions::new()).expect("a store");
    let schema = Schema::new([
        Column::new("id", ColumnType::Int4),
        Column::new("value", ColumnType::Bytea).with_storage(Storage::External),
    ]);
    let table = store.create_table("load", schema).expect("a table");
    let bytes: Vec<u8> = (0..len).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect();
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let rows = (0..count).map(|id| [i32::try_from(id).expect("few").into(), (&bytes).into()]);
    assert_eq!(transaction.insert_many(&table, rows).expect("inserted"), count as u64);
    transaction.commit().expect("committed");
    (table.size().toast_bytes, table.size().index_bytes)
}

#[test]
fn three_loads_take_the_servers_bytes() {
    assert_eq!(load(2048, 5000), (13_656_064, 245_760));
    assert_eq!(load(22_400, 1000), (24_576_000, 294_912));
    assert_eq!(load(320_000, 100), (32_874_496, 385_024));
}
