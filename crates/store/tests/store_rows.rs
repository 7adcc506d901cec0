//! Rows in, rows out: of every type, in every form that a value can have.
use std::io::{Read as _, Seek as _, SeekFrom};

use pgtoast_store::{
    Column, ColumnType, CompressionMethod, Datum, Field, Isolation, Schema, Storage, Store,
    StoreError, StoreOptions, Table, ToastFlavour, Transaction,
};
use pgtoast_testkit::Rng;
use tempfile::TempDir;

fn open() -> (TempDir, Store) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(directory.path(), StoreOptions::new().buffer_bytes(16 << 20));
    (directory, store.expect("a new store"))
}

/// Bytes that do not compress, other ones for each seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    Rng::new(seed).bytes(len)
}

fn prose(len: usize) -> Vec<u8> {
    b"the quick brown fox jumps over the lazy dog; ".iter().copied().cycle().take(len).collect()
}

fn documents(storage: Storage, flavour: ToastFlavour) -> Schema {
    Schema::new([
        Column::new("id", ColumnType::Int4).not_null(),
        Column::new("body", ColumnType::Bytea).with_storage(storage),
    ])
    .with_flavour(flavour)
}

fn body(transaction: &mut Transaction, table: &Table, id: i32) -> Option<Vec<u8>> {
    let mut scan = transaction.scan(table).expect("a scan");
    while let Some(row) = scan.next().expect("a row") {
        if row.get(0).expect("a column").as_int4() == Some(id) {
            return row
                .get(1)
                .expect("a column")
                .as_value()
                .map(|value| value.to_vec().expect("whole"));
        }
    }
    None
}

#[test]
fn every_type_comes_back_as_it_went_in() {
    let (_directory, store) = open();
    let odd =
        ColumnType::Fixed { len: 12, alignment: pgtoast_store::Alignment::Int, by_value: false };
    let schema = Schema::new([
        Column::new("a", ColumnType::Bool),
        Column::new("b", ColumnType::Int2),
        Column::new("c", ColumnType::Int4),
        Column::new("d", ColumnType::Int8),
        Column::new("e", ColumnType::Float4),
        Column::new("f", ColumnType::Float8),
        Column::new("g", ColumnType::Uuid),
        Column::new("h", ColumnType::Timestamptz),
        Column::new("i", ColumnType::Text),
        Column::new("j", ColumnType::Json),
        Column::new("k", ColumnType::Bytea),
        Column::new("l", odd),
    ]);
    let table = store.create_table("all_types", schema).expect("a table");
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let row = [
        Datum::Bool(true),
        Datum::Int2(-2),
        Datum::Int4(3),
        Datum::Int8(-4),
        Datum::Float4(0.5),
        Datum::Float8(-0.25),
        Datum::Uuid([7; 16]),
        Datum::Timestamptz(123_456_789),
        Datum::Text("tidy"),
        Datum::Text("{}"),
        Datum::Bytes(&[0, 1, 2]),
        Datum::Bytes(&[9; 12]),
    ];
    let tid = transaction.insert(&table, &row).expect("inserted");
    let nulls = [Datum::Null; 12];
    let empty = transaction.insert(&table, &nulls).expect("inserted");
    let found = transaction.fetch(&table, tid).expect("a page").expect("a row");
    let fields: Vec<Field<'_>> =
        found.fields().expect("a tuple").collect::<Result<_, _>>().expect("sound");
    assert_eq!(fields[0].as_bool(), Some(true));
    assert_eq!(fields[1].as_int2(), Some(-2));
    assert_eq!(fields[2].as_int4(), Some(3));
    assert_eq!(fields[3].as_int8(), Some(-4));
    assert_eq!(fields[4].as_float4(), Some(0.5));
    assert_eq!(fields[5].as_float8(), Some(-0.25));
    assert_eq!(fields[6].as_uuid(), Some([7; 16]));
    assert_eq!(fields[7].as_timestamptz(), Some(123_456_789));
    assert_eq!(fields[8].as_value().expect("a value").to_text().as_deref(), Ok("tidy"));
    assert_eq!(fields[9].as_value().expect("a value").to_text().as_deref(), Ok("{}"));
    assert_eq!(fields[10].as_value().expect("a value").to_vec(), Ok(vec![0, 1, 2]));
    assert_eq!(fields[11].as_fixed(), Some(&[9; 12][..]));
    let found = transaction.fetch(&table, empty).expect("a page").expect("a row");
    assert!(found.fields().expect("a tuple").all(|field| field.expect("sound").is_null()));
    assert_eq!(found.get(12).map(|_| ()), Err(StoreError::ColumnMissing { column: 13, count: 12 }));
}

#[test]
fn a_value_is_read_whole_or_in_slices_whatever_form_it_has() {
    for flavour in [ToastFlavour::Oid, ToastFlavour::Oid8] {
        let (_directory, store) = open();
        for (storage, method, is_compressed) in [
            (Storage::External, CompressionMethod::Pglz, false),
            (Storage::Extended, CompressionMethod::Pglz, true),
            (Storage::Extended, CompressionMethod::Lz4, true),
        ] {
            let name = format!("{storage:?} {method:?}");
            let schema = Schema::new([
                Column::new("id", ColumnType::Int4).not_null(),
                Column::new("body", ColumnType::Bytea)
                    .with_storage(storage)
                    .with_compression(method),
            ]);
            let table = store.create_table(&name, schema.with_flavour(flavour)).expect("a table");
            let mut transaction = store.begin(Isolation::ReadCommitted);
            // Half of it compresses, so that it goes out of line compressed or not.
            let bytes = [prose(30_000), noise(1, 30_000)].concat();
            let tid = transaction.insert(&table, &[1.into(), (&bytes).into()]).expect("inserted");
            let row = transaction.fetch(&table, tid).expect("a page").expect("a row");
            let value = row.get(1).expect("a column").as_value().expect("a value");
            assert_eq!(value.len(), bytes.len());
            assert!(value.is_out_of_line());
            assert_eq!(value.compression(), is_compressed.then_some(method));
            assert_eq!(value.to_vec().as_ref(), Ok(&bytes));
            for range in [0..10, 1990..2000, 29_000..31_000, 59_990..70_000, 5..5, 70_000..80_000] {
                let expected = bytes.get(range.start..range.end.min(bytes.len())).unwrap_or(&[]);
                assert_eq!(value.slice(range.clone()).as_deref(), Ok(expected), "{name} {range:?}");
                let mut target = vec![0xaa; range.len()];
                let read = value.slice_into(range.start, &mut target).expect("a slice");
                assert_eq!(&target[..read], expected);
            }
            assert_eq!(value.slice(..).as_ref(), Ok(&bytes));
            let mut reader = value.reader();
            let mut read = Vec::new();
            reader.read_to_end(&mut read).expect("read");
            assert_eq!(read, bytes);
            reader.seek(SeekFrom::End(-100)).expect("a place");
            let mut end = [0; 30];
            for piece in end.chunks_mut(7) {
                reader.read_exact(piece).expect("read");
            }
            assert_eq!(end, bytes[59_900..59_930]);
            assert!(reader.seek(SeekFrom::Current(-100_000)).is_err());
        }
    }
}

#[test]
fn an_update_keeps_the_chunks_of_what_it_does_not_change() {
    let (_directory, store) = open();
    let schema = Schema::new([
        Column::new("n", ColumnType::Int4),
        Column::new("a", ColumnType::Bytea).with_storage(Storage::External),
        Column::new("b", ColumnType::Bytea).with_storage(Storage::External),
    ]);
    let table = store.create_table("pairs", schema).expect("a table");
    let (a, b) = (noise(1, 3000), noise(2, 3000));
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let mut tid =
        transaction.insert(&table, &[0.into(), (&a).into(), (&b).into()]).expect("inserted");
    transaction.commit().expect("committed");
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let ids = |transaction: &mut Transaction, tid| {
        let row = transaction.fetch(&table, tid).expect("a page").expect("a row");
        let id = |index| row.get(index).expect("a column").as_value().and_then(|v| v.value_id());
        (id(1), id(2))
    };
    let before = ids(&mut transaction, tid);
    for round in 1..=10_u8 {
        let b = noise(round.into(), 3000);
        let updated =
            transaction.update(&table, tid, &[(0, i32::from(round).into()), (2, (&b).into())]);
        tid = updated.expect("updated").expect("a row");
        let after = ids(&mut transaction, tid);
        assert_eq!(after.0, before.0, "not touched");
        assert_ne!(after.1, before.1);
        let row = transaction.fetch(&table, tid).expect("a page").expect("a row");
        let value = |index| row.get(index).expect("a column").as_value().expect("a value").to_vec();
        assert_eq!(value(1).as_ref(), Ok(&a));
        assert_eq!(value(2), Ok(b));
    }
    assert!(transaction.delete(&table, tid).expect("deleted"));
    assert!(!transaction.delete(&table, tid).expect("no row"));
    assert!(transaction.fetch(&table, tid).expect("a page").is_none());
    transaction.abort();
    // All of that never happened.
    let mut transaction = store.begin(Isolation::RepeatableRead);
    let mut scan = transaction.scan(&table).expect("a scan");
    let row = scan.next().expect("a page").expect("a row");
    assert_eq!(row.get(0).expect("a column").as_int4(), Some(0));
    let value = row.get(2).expect("a column").as_value().expect("a value");
    assert_eq!(value.to_vec().as_ref(), Ok(&b));
    drop(row);
    assert!(scan.next().expect("a page").is_none());
}

#[test]
fn a_savepoint_takes_rows_and_values_back() {
    let (_directory, store) = open();
    let schema = documents(Storage::External, ToastFlavour::Oid);
    let table = store.create_table("documents", schema).expect("a table");
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let (one, two) = (noise(1, 5000), noise(2, 5000));
    let tid = transaction.insert(&table, &[1.into(), (&one).into()]).expect("inserted");
    let savepoint = transaction.savepoint();
    transaction.insert(&table, &[2.into(), (&two).into()]).expect("inserted");
    transaction.update(&table, tid, &[(1, (&two).into())]).expect("updated").expect("a row");
    assert_eq!(body(&mut transaction, &table, 1).as_ref(), Some(&two));
    transaction.rollback_to(savepoint).expect("a savepoint");
    assert_eq!(body(&mut transaction, &table, 2), None);
    assert_eq!(body(&mut transaction, &table, 1).as_ref(), Some(&one));
    transaction.release(savepoint).expect("a savepoint");
    transaction.commit().expect("committed");
    let mut transaction = store.begin(Isolation::ReadCommitted);
    assert_eq!(body(&mut transaction, &table, 1).as_ref(), Some(&one));
}

#[test]
fn a_table_that_was_used_after_a_savepoint_is_free_once_that_is_rolled_back() {
    let (_directory, store) = open();
    let schema = || documents(Storage::External, ToastFlavour::Oid);
    let kept = store.create_table("kept", schema()).unwrap();
    let dropped = store.create_table("dropped", schema()).unwrap();
    let mut transaction = store.begin(Isolation::ReadCommitted);
    transaction.insert(&kept, &[1.into(), (&noise(1, 5000)).into()]).unwrap();
    let savepoint = transaction.savepoint();
    transaction.insert(&dropped, &[1.into(), (&noise(1, 5000)).into()]).unwrap();
    transaction.rollback_to(savepoint).unwrap();
    // Whoever uses it again has it again.
    transaction.insert(&dropped, &[2.into(), (&noise(2, 5000)).into()]).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| store.drop_table(&dropped));
        while store.statistics().waits.waiting == 0 && !other.is_finished() {
            std::thread::yield_now();
        }
        assert!(!other.is_finished(), "dropped while a transaction has rows in it");
        transaction.rollback_to(savepoint).unwrap();
        // The transaction is open still.
        assert_eq!(other.join().unwrap(), Ok(()));
    });
    let again = transaction.insert(&dropped, &[1.into(), (&noise(1, 5000)).into()]);
    assert_eq!(again, Err(StoreError::TableMissing));
    assert_eq!(body(&mut transaction, &kept, 1), Some(noise(1, 5000)));
    transaction.commit().unwrap();
}

#[test]
fn a_row_that_cannot_be_changes_nothing_and_the_transaction_goes_on() {
    let (_directory, store) = open();
    let schema = Schema::new([
        Column::new("id", ColumnType::Int4).not_null(),
        Column::new("big", ColumnType::Bytea).with_storage(Storage::External),
        Column::new("plain", ColumnType::Bytea).with_storage(Storage::Plain),
    ]);
    let table = store.create_table("t", schema).expect("a table");
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let (big, plain) = (noise(1, 5000), noise(2, 8200));
    let error = transaction.insert(&table, &[1.into(), (&big).into(), (&plain).into()]);
    assert_eq!(
        error.expect_err("too big").to_string(),
        "row is too big: size 8256, maximum size 8160"
    );
    assert_eq!(
        transaction.insert(&table, &[Datum::Null; 3]),
        Err(StoreError::ColumnNull { column: 1 })
    );
    let wrong = [Datum::Int8(1), Datum::Null, Datum::Null];
    assert_eq!(
        transaction.insert(&table, &wrong).expect_err("another type").to_string(),
        "column 1: an int8, expected int4"
    );
    transaction.insert(&table, &[1.into(), (&big).into(), Datum::Null]).expect("inserted");
    transaction.commit().expect("committed");
    assert_eq!(store.statistics().value_ids.given, 1);
}

#[test]
fn a_store_that_was_closed_has_its_rows_when_it_is_opened_again() {
    let (directory, store) = open();
    let schema = documents(Storage::External, ToastFlavour::Oid);
    let table = store.create_table("documents", schema.clone()).expect("a table");
    let bytes = noise(1, 50_000);
    let mut transaction = store.begin(Isolation::ReadCommitted);
    transaction.insert(&table, &[1.into(), (&bytes).into()]).expect("inserted");
    assert!(matches!(Store::open(directory.path(), StoreOptions::new()), Err(StoreError::Locked)));
    transaction.commit().expect("committed");
    let mut aborted = store.begin(Isolation::ReadCommitted);
    aborted.insert(&table, &[2.into(), (&bytes).into()]).expect("inserted");
    drop(aborted);
    store.close().expect("closed");
    let store = Store::open(directory.path(), StoreOptions::new()).expect("there");
    let table = store.table("documents").expect("there");
    assert_eq!(table.schema(), &schema);
    let mut transaction = store.begin(Isolation::ReadCommitted);
    assert!(body(&mut transaction, &table, 1).as_ref() == Some(&bytes));
    assert_eq!(body(&mut transaction, &table, 2), None);
    transaction.insert(&table, &[3.into(), (&bytes).into()]).expect("inserted");
    transaction.commit().expect("committed");
    assert_eq!(store.create_table("documents", schema).map(|_| ()), Err(StoreError::TableExists));
    store.drop_table(&table).expect("dropped");
    assert_eq!(store.table("documents").map(|_| ()), Err(StoreError::TableMissing));
    let mut transaction = store.begin(Isolation::ReadCommitted);
    assert_eq!(transaction.scan(&table).map(|_| ()), Err(StoreError::TableMissing));
}

#[test]
fn handles_are_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Store>();
    shared::<Table>();
    shared::<Schema>();
    shared::<StoreError>();
    sent::<Transaction>();
}
