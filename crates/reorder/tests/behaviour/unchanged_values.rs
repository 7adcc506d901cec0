//! An update that does not touch a value out of line does not carry it. Consumers took that for null, for an
//! empty text or for whatever their placeholder was. Here it is a state of its own, and where the log has the
//! whole old row, the value is taken from there.
use crate::common::{EachRow, Feeder, TABLE, TOAST, catalog_with, chunks, insert_chunk, long, row};
use pgtoast_base::Oid;
use pgtoast_reorder::{
    Change, CohortPages, ColumnValue, MemorySpill, Options, ReorderBuffer, ReorderError,
    ReplicaIdentity, RowChange,
};
use pgtoast_toast::ValueIdWidth;
use pgtoast_varlena::ToastPointer;

/// What was seen of each column: the value, and the value with the old row's help.
type Seen = Vec<[ColumnValue<'static>; 2]>;

fn reader() -> EachRow<Seen> {
    let look = |seen: &mut Seen, change: &mut RowChange<'_>| {
        for column in 0..change.columns().len() {
            let value = owned(change.new_value(column)?);
            seen.push([value, owned(change.resolved_value(column)?)]);
        }
        Ok(())
    };
    EachRow { seen: Seen::new(), look }
}

fn owned(value: ColumnValue<'_>) -> ColumnValue<'static> {
    match value {
        ColumnValue::Null => ColumnValue::Null,
        ColumnValue::Unchanged(pointer) => ColumnValue::Unchanged(pointer),
        ColumnValue::Value(bytes) => ColumnValue::Value(bytes.into_owned().into()),
    }
}

fn value(bytes: &[u8]) -> ColumnValue<'static> {
    ColumnValue::Value(bytes.to_vec().into())
}

fn seen(identity: ReplicaIdentity, changes: &[Change<'_>]) -> Seen {
    let layout = CohortPages::new().expect("it holds nothing");
    let mut buffer = ReorderBuffer::new(layout, MemorySpill::new(), Options::default());
    let (catalog, mut output) = (catalog_with(identity), reader());
    let mut feeder = Feeder { buffer: &mut buffer, catalog: &catalog, output: &mut output, lsn: 0 };
    changes.iter().for_each(|change| feeder.change(700, *change));
    feeder.commit(700);
    output.seen
}

fn pointer_of(datum: &[u8]) -> ToastPointer {
    ToastPointer::parse(datum, 0).expect("a pointer")
}

#[test]
fn an_update_of_another_column_leaves_values_unchanged_and_not_null() {
    // A text and an array of 2 000 numbers, both out of line before.
    let (_, note) = chunks(41, &[b'x'; 5000], ValueIdWidth::Oid);
    let (_, numbers) = chunks(42, &array(2000), ValueIdWidth::Oid);
    let new = row(8, Some(&note), Some(&numbers));
    let update = Change::Update { relation: TABLE, old: None, new: Some(&new) };
    let unchanged = |datum| {
        [ColumnValue::Unchanged(pointer_of(datum)), ColumnValue::Unchanged(pointer_of(datum))]
    };
    let expected =
        [[value(&[8, 0, 0, 0]), value(&[8, 0, 0, 0])], unchanged(&note), unchanged(&numbers)];
    assert_eq!(seen(ReplicaIdentity::Default, &[update]), expected);
}

#[test]
fn with_full_identity_an_unchanged_value_is_that_of_the_old_row() {
    let (text, numbers) = ([b'x'; 5000], array(2000));
    let (_, note) = chunks(41, &text, ValueIdWidth::Oid);
    let (_, numbers_pointer) = chunks(42, &numbers, ValueIdWidth::Oid);
    // The log has old rows with their values in them.
    let old = row(7, Some(&long(&text)), Some(&long(&numbers)));
    let new = row(8, Some(&note), Some(&numbers_pointer));
    let update = Change::Update { relation: TABLE, old: Some(&old), new: Some(&new) };
    let found = seen(ReplicaIdentity::Full, &[update]);
    assert_eq!(found[1], [ColumnValue::Unchanged(pointer_of(&note)), value(&text)]);
    assert_eq!(found[2], [ColumnValue::Unchanged(pointer_of(&numbers_pointer)), value(&numbers)]);
    // An old row that has the key alone is null elsewhere, which says nothing about the value.
    let found = seen(ReplicaIdentity::Default, &[update]);
    assert_eq!(found[1][1], ColumnValue::Unchanged(pointer_of(&note)));
}

#[test]
fn of_two_values_the_one_that_is_updated_is_there() {
    let (_, note) = chunks(41, &[b'x'; 5000], ValueIdWidth::Oid);
    for width in [ValueIdWidth::Oid, ValueIdWidth::Oid8] {
        let numbers = array(2000);
        let high = if width == ValueIdWidth::Oid8 { 1 << 32 } else { 0 };
        let (tuples, pointer) = chunks(43 + high, &numbers, width);
        let new = row(8, Some(&note), Some(&pointer));
        let mut changes: Vec<_> = tuples.iter().map(|tuple| insert_chunk(tuple, width)).collect();
        changes.push(Change::Update { relation: TABLE, old: None, new: Some(&new) });
        // The next row cannot use them any more.
        changes.push(Change::Update { relation: TABLE, old: None, new: Some(&new) });
        let found = seen(ReplicaIdentity::Default, &changes);
        assert_eq!(found[1][0], ColumnValue::Unchanged(pointer_of(&note)));
        assert_eq!(found[2][0], value(&numbers));
        assert_eq!(found[5][0], ColumnValue::Unchanged(pointer_of(&pointer)));
    }
}

#[test]
fn ids_that_agree_in_their_low_half_are_two_values() {
    let (tuples, _) = chunks((1 << 32) + 43, &[1; 3000], ValueIdWidth::Oid8);
    let (_, other) = chunks(43, &[1; 3000], ValueIdWidth::Oid8);
    let new = row(8, Some(&other), None);
    let mut changes: Vec<_> =
        tuples.iter().map(|tuple| insert_chunk(tuple, ValueIdWidth::Oid8)).collect();
    changes.push(Change::Update { relation: TABLE, old: None, new: Some(&new) });
    let found = seen(ReplicaIdentity::Default, &changes);
    assert_eq!(found[1][0], ColumnValue::Unchanged(pointer_of(&other)));
}

#[test]
fn a_text_that_reads_like_a_placeholder_is_a_text() {
    for text in ["unchanged-toast-datum", "__debezium_unavailable_value", "null", ""] {
        let new = row(1, Some(&long(text.as_bytes())), None);
        let found = seen(ReplicaIdentity::Default, &[crate::common::insert(&new)]);
        assert_eq!(found[1][0], value(text.as_bytes()));
        assert_eq!(found[2][0], ColumnValue::Null);
    }
}

#[test]
fn chunks_out_of_turn_and_values_that_lack_some_are_errors() {
    let (tuples, pointer) = chunks(41, &[b'x'; 5000], ValueIdWidth::Oid);
    let commit = |numbers: &[usize]| {
        let layout = CohortPages::new().expect("it holds nothing");
        let mut buffer = ReorderBuffer::new(layout, MemorySpill::new(), Options::default());
        let (catalog, mut output) = (catalog_with(ReplicaIdentity::Default), reader());
        let mut feeder =
            Feeder { buffer: &mut buffer, catalog: &catalog, output: &mut output, lsn: 0 };
        for number in numbers {
            feeder.change(700, insert_chunk(&tuples[*number], ValueIdWidth::Oid));
        }
        feeder.change(700, crate::common::insert(&row(1, Some(&pointer), None)));
        let action = pgtoast_reorder::Action::Commit { subtransactions: &[] };
        let result = feeder.apply(700, action);
        assert_eq!(buffer.stats().accounted_bytes, 0, "an error leaves nothing behind");
        result
    };
    assert_eq!(commit(&[0, 1, 2]), Ok(()));
    let out_of_turn = |found, expected| {
        let value_id = Oid::new(41).into();
        Err(ReorderError::ChunkNumber { relation: TOAST, value_id, found, expected })
    };
    assert_eq!(commit(&[1]), out_of_turn(1, 0));
    assert_eq!(commit(&[0, 2]), out_of_turn(2, 1));
    assert_eq!(commit(&[0, 0]), out_of_turn(0, 1));
    assert!(matches!(commit(&[0, 1]), Err(ReorderError::Toast(_))));
}

/// The payload of an array of so many numbers.
fn array(count: u32) -> Vec<u8> {
    let mut words = vec![1, 0, 23, count, 1];
    words.extend(0..count);
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}
