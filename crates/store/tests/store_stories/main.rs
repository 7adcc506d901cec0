//! What went wrong elsewhere with large values, and must not here: one file a story.
mod block_sizes;
mod cached_values;
mod damage;
mod dead_versions;
mod growth;
mod iterators;
mod row_versions;
mod segments;
mod threads;
mod value_ids;
mod which_rows;

use pgtoast_store::{
    Column, ColumnType, Isolation, ItemPointer, Schema, Storage, Store, StoreOptions, Table,
    Transaction,
};
use pgtoast_testkit::Rng;
use tempfile::TempDir;

/// A new store, and the directory that goes when it is done.
fn open(options: StoreOptions) -> (TempDir, Store) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(directory.path(), options.buffer_bytes(16 << 20)).expect("a new store");
    (directory, store)
}

/// `id int4, body bytea`.
fn documents(storage: Storage) -> Schema {
    Schema::new([
        Column::new("id", ColumnType::Int4).not_null(),
        Column::new("body", ColumnType::Bytea).with_storage(storage),
    ])
}

/// Bytes that do not compress, other ones for each seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    Rng::new(seed).bytes(len)
}

fn insert(store: &Store, table: &Table, id: i32, body: &[u8]) -> ItemPointer {
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let tid = transaction.insert(table, &[id.into(), body.into()]).expect("inserted");
    transaction.commit().expect("committed");
    tid
}

/// The ids of all rows, each with its body.
fn rows(transaction: &mut Transaction, table: &Table) -> Vec<(i32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut scan = transaction.scan(table).expect("a scan");
    while let Some(row) = scan.next().expect("a row") {
        let id = row.get(0).expect("a column").as_int4().expect("not null");
        let body = row.get(1).expect("a column").as_value().expect("not null");
        found.push((id, body.to_vec().expect("whole")));
    }
    found
}
