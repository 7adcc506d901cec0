//! Code that trusted an iterator's count wrote past its end, and a panic half way left half of everything. Rows
//! come by iterators and values go out by readers, however those behave.
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pgtoast_store::{Datum, Isolation, Storage, StoreError, StoreOptions};

use super::{documents, insert, noise, open, rows};

/// Says that it has so many items, whatever it has.
struct Lying<I>(I, usize);

impl<I: Iterator> Iterator for Lying<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.1, Some(self.1))
    }
}

#[test]
fn rows_are_counted_as_they_come_and_not_as_announced() {
    let (_directory, store) = open(StoreOptions::new());
    let table = store.create_table("t", documents(Storage::External)).expect("a table");
    let body = noise(1, 3000);
    for (announced, count) in [(0, 1000), (10_000, 3), (usize::MAX, 1)] {
        let mut transaction = store.begin(Isolation::ReadCommitted);
        let made = (0..count).map(|id| [Datum::Int4(id), Datum::Bytes(&body)]);
        let inserted = transaction.insert_many(&table, Lying(made, announced)).expect("inserted");
        assert_eq!(inserted, u64::from(count.unsigned_abs()));
        assert_eq!(rows(&mut transaction, &table).len(), usize::try_from(count).expect("few"));
    }
}

#[test]
fn a_panic_or_an_error_in_the_middle_leaves_the_transaction_as_it_was() {
    let (_directory, store) = open(StoreOptions::new());
    let table = store.create_table("t", documents(Storage::External)).expect("a table");
    let body = noise(1, 3000);
    insert(&store, &table, -1, &body);
    let mut transaction = store.begin(Isolation::ReadCommitted);
    transaction.insert(&table, &[(-2).into(), (&body).into()]).expect("inserted");
    let panicking = (0..).map(|id| {
        assert!(id < 7, "at item 7");
        [Datum::Int4(id), Datum::Bytes(&body)]
    });
    let caught =
        catch_unwind(AssertUnwindSafe(|| transaction.insert_many(&table, panicking).map(|_| ())));
    assert!(caught.is_err());
    let wrong = (0..20).map(|id| match id {
        12 => [Datum::Null, Datum::Bytes(&body)],
        _ => [Datum::Int4(id), Datum::Bytes(&body)],
    });
    assert_eq!(transaction.insert_many(&table, wrong), Err(StoreError::ColumnNull { column: 1 }));
    let ids = |found: Vec<(i32, Vec<u8>)>| found.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids(rows(&mut transaction, &table)), [-1, -2]);
    transaction.insert(&table, &[(-3).into(), (&body).into()]).expect("inserted");
    transaction.commit().expect("committed");
    assert_eq!(ids(rows(&mut store.begin(Isolation::ReadCommitted), &table)), [-1, -2, -3]);
    store.verify(&table, |finding| panic!("{finding}")).expect("readable");
}

#[test]
fn a_value_is_read_a_byte_at_a_time_or_more_than_it_has() {
    let (_directory, store) = open(StoreOptions::new());
    let table = store.create_table("t", documents(Storage::External)).expect("a table");
    let body = noise(1, 70_000);
    let tid = insert(&store, &table, 1, &body);
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let row = transaction.fetch(&table, tid).expect("a page").expect("a row");
    let value = row.get(1).expect("a column").as_value().expect("a value");
    let mut single = Vec::new();
    for byte in value.reader().bytes() {
        single.push(byte.expect("a byte"));
    }
    assert!(single == body);
    let mut large = vec![0; 200_000];
    let mut reader = value.reader();
    let mut read = 0;
    loop {
        match reader.read(&mut large[read..]).expect("read") {
            0 => break,
            more => read += more,
        }
    }
    assert!(large[..read] == body);
    assert_eq!(io::copy(&mut value.reader(), &mut io::sink()).expect("copied"), 70_000);
    // Places that are not there.
    let len = value.len();
    for start in [len, len + 1, usize::MAX] {
        assert_eq!(value.slice(start..), Ok(Vec::new()));
        assert_eq!(value.slice_into(start, &mut [0; 8]), Ok(0));
    }
    let beyond = value.slice(len - 1..usize::MAX).expect("a slice");
    assert_eq!(beyond, body[len - 1..]);
}
