//! Users fear that a change of one large column rewrites the other. It does not: the pointer is carried over, and
//! all versions of the row share the value, of which a vacuum must take no chunk while any of them is alive.
use pgtoast_store::{
    Column, ColumnType, ExportTarget, IndexCleanup, Isolation, Schema, Storage, StoreOptions,
    Table, Transaction, VacuumOptions,
};

use super::{noise, open};

fn values(transaction: &mut Transaction, table: &Table) -> Vec<(u64, Vec<u8>)> {
    let mut scan = transaction.scan(table).expect("a scan");
    let row = scan.next().expect("a page").expect("a row");
    let value = |index| row.get(index).expect("a column").as_value().expect("a value");
    (0..2)
        .map(value)
        .map(|value| (value.value_id().expect("out of line").get(), value.to_vec().expect("whole")))
        .collect()
}

#[test]
fn eleven_versions_share_the_value_that_never_changed() {
    let (directory, store) = open(StoreOptions::new());
    let column = |name| Column::new(name, ColumnType::Bytea).with_storage(Storage::External);
    let table = store.create_table("t", Schema::new([column("a"), column("b")])).expect("a table");
    let a = noise(1, 2048);
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let first = noise(100, 2048);
    let mut tid = transaction.insert(&table, &[(&a).into(), (&first).into()]).expect("inserted");
    transaction.commit().expect("committed");
    let loaded = table.size().toast_bytes;

    // One reader for each version, each with a snapshot of its own.
    let mut readers = Vec::new();
    for version in 0..10 {
        let mut reader = store.begin(Isolation::RepeatableRead);
        let seen = values(&mut reader, &table);
        readers.push((reader, seen));
        let mut transaction = store.begin(Isolation::ReadCommitted);
        let b = noise(101 + version, 2048);
        tid =
            transaction.update(&table, tid, &[(1, (&b).into())]).expect("updated").expect("a row");
        transaction.commit().expect("committed");
    }
    let always = VacuumOptions { index_cleanup: IndexCleanup::Always, ..VacuumOptions::default() };
    let vacuum = store.vacuum(&table, &always).expect("vacuumed");
    assert_eq!(vacuum.toast.expect("a TOAST relation").tuples_removed, 0, "all are still seen");
    for (reader, seen) in &mut readers {
        let found = values(reader, &table);
        assert_eq!(found[0], readers_first(&a));
        assert!(found == *seen, "the version that it saw");
    }
    // Chunks of one value written once, of the other eleven times.
    assert_eq!(store.statistics().value_ids.given, 2 + 10);
    assert!(table.size().toast_bytes <= 6 * loaded + 8192);
    let export = store.export(&table, directory.path().join("out"), &ExportTarget::new(1));
    let export = export.expect("exported");
    assert_eq!((export.rows, export.values, export.chunks), (1, 2, 4));

    // When the readers are gone, so are the versions; what is left has its value.
    drop(readers);
    let vacuum = store.vacuum(&table, &always).expect("vacuumed");
    assert_eq!(vacuum.toast.expect("a TOAST relation").tuples_removed, 20);
    let found = values(&mut store.begin(Isolation::ReadCommitted), &table);
    assert_eq!(found[0], readers_first(&a));
    assert!(found[1].1 == noise(110, 2048));
    store.verify(&table, |finding| panic!("{finding}")).expect("readable");
}

/// The value that never changed, under the first id that there is.
fn readers_first(a: &[u8]) -> (u64, Vec<u8>) {
    (16_384, a.to_vec())
}

#[test]
fn a_version_that_is_undone_takes_nothing_from_the_one_before() {
    let (_directory, store) = open(StoreOptions::new());
    let column = |name| Column::new(name, ColumnType::Bytea).with_storage(Storage::External);
    let table = store.create_table("t", Schema::new([column("a"), column("b")])).expect("a table");
    let (a, b) = (noise(1, 5000), noise(2, 5000));
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let tid = transaction.insert(&table, &[(&a).into(), (&b).into()]).expect("inserted");
    transaction.commit().expect("committed");
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let other = noise(3, 5000);
    transaction.update(&table, tid, &[(1, (&other).into())]).expect("updated").expect("a row");
    assert!(transaction.delete(&table, tid).expect("deleted"));
    transaction.abort();
    let always = VacuumOptions { index_cleanup: IndexCleanup::Always, ..VacuumOptions::default() };
    store.vacuum(&table, &always).expect("vacuumed");
    let found = values(&mut store.begin(Isolation::ReadCommitted), &table);
    assert!(found[0].1 == a && found[1].1 == b);
}
