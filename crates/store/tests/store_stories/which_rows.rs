//! Which rows are toasted: a lower target does nothing for rows below a quarter of a page, main goes out only
//! where nothing else helps, plain never, and many small columns may fail although each is small. The numbers
//! were measured on PostgreSQL 15.
use pgtoast_store::{
    Column, ColumnType, Datum, Isolation, Schema, SizePolicy, Storage, Store, StoreOptions,
};

use super::{documents, noise, open};

/// Which of the columns from the second on are out of line, and the length of the tuple.
fn toasted(store: &Store, name: &str, schema: Schema, values: &[Vec<u8>]) -> (Vec<bool>, usize) {
    let table = store.create_table(name, schema).expect("a table");
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let row: Vec<Datum<'_>> =
        core::iter::once(1.into()).chain(values.iter().map(Into::into)).collect();
    let tid = transaction.insert(&table, &row).expect("inserted");
    let row = transaction.fetch(&table, tid).expect("a page").expect("a row");
    let is_out =
        |index| row.get(index).expect("a column").as_value().expect("a value").is_out_of_line();
    ((1..=values.len()).map(is_out).collect(), row.tuple_bytes().len())
}

#[test]
fn the_threshold_is_a_quarter_of_a_page_whatever_the_target() {
    let (_directory, store) = open(StoreOptions::new());
    let one = |name: &str, schema: Schema, len| {
        let (out, tuple) = toasted(&store, name, schema, &[noise(1, len)]);
        (out[0], tuple)
    };
    let schema = documents(Storage::External);
    assert_eq!(one("2000", schema.clone(), 2000), (false, 2032));
    assert!(one("2001", schema.clone(), 2001).0);
    let low = schema.with_tuple_target(128);
    assert!(!one("low 1500", low.clone(), 1500).0);
    assert!(!one("low 1984", low.clone(), 1984).0);
    assert!(one("low 2048", low, 2048).0);
}

#[test]
fn main_goes_out_as_the_last_resort_and_one_at_a_time() {
    let (_directory, store) = open(StoreOptions::new());
    let schema = || {
        let column = |name| Column::new(name, ColumnType::Bytea).with_storage(Storage::Main);
        Schema::new([Column::new("id", ColumnType::Int4), column("a"), column("b")])
    };
    let (out, tuple) = toasted(&store, "fits", schema(), &[noise(1, 3840), noise(2, 3200)]);
    assert_eq!((out, tuple), (vec![false, false], 7076));
    let (out, _) = toasted(&store, "does not", schema(), &[noise(1, 6400), noise(2, 6400)]);
    assert_eq!(out.iter().filter(|out| **out).count(), 1);
}

#[test]
fn rows_that_fit_no_page_are_told_in_the_servers_words() {
    let (_directory, store) = open(StoreOptions::new());
    let plain = store.create_table("plain", documents(Storage::Plain)).expect("a table");
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let error = transaction.insert(&plain, &[1.into(), (&noise(1, 8200)).into()]);
    assert_eq!(
        error.expect_err("too big").to_string(),
        "row is too big: size 8232, maximum size 8160"
    );

    let many = |name: &str, count: usize, len: usize| {
        let columns = (0..count).map(|number| Column::new(format!("c{number}"), ColumnType::Text));
        let table = store.create_table(name, Schema::new(columns)).expect("a table");
        let text = "x".repeat(len);
        let row = vec![Datum::Text(&text); count];
        store.begin(Isolation::ReadCommitted).insert(&table, &row).map(|_| ())
    };
    // Over 24 bytes a value may go: 300 pointers of 18 bytes fit. At 20 bytes none may, and 400 do not.
    assert_eq!(many("300 of 30", 300, 30), Ok(()));
    let error = many("400 of 20", 400, 20).expect_err("too big");
    assert_eq!(error.to_string(), "row is too big: size 8424, maximum size 8160");
}

#[test]
fn a_policy_sends_out_what_is_over_its_length_in_rows_of_any_length() {
    let (_directory, store) = open(StoreOptions::new());
    let policy = SizePolicy { move_out_over: 100, compress_over: 2000 };
    let schema = documents(Storage::Extended).with_size_policy(policy);
    for (len, is_out) in [(50, false), (200, true), (5000, true)] {
        let name = format!("{len}");
        let (out, _) = toasted(&store, &name, schema.clone(), &[noise(1, len)]);
        assert_eq!(out, [is_out], "{len} bytes");
    }
}
