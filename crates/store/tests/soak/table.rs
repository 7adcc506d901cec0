//! The tables, and how their rows are read.
use std::io::{Read as _, Seek as _, SeekFrom};

use pgtoast_store::{
    Column, ColumnType, CompressionMethod, Datum, Row, Schema, Storage, StoreError, ToastFlavour,
    Value,
};
use pgtoast_testkit::Rng;

use super::content;

pub(crate) fn pairs() -> Schema {
    Schema::new([
        Column::new("key", ColumnType::Int8).not_null(),
        Column::new("generation", ColumnType::Int8).not_null(),
        Column::new("body_generation", ColumnType::Int8).not_null(),
        Column::new("body", ColumnType::Bytea).with_storage(Storage::External),
        Column::new("note", ColumnType::Text),
    ])
}

pub(crate) fn accounts() -> Schema {
    Schema::new([
        Column::new("number", ColumnType::Int4).not_null(),
        Column::new("version", ColumnType::Int8).not_null(),
        Column::new("balance", ColumnType::Int8).not_null(),
        Column::new("padding", ColumnType::Text).with_compression(CompressionMethod::Lz4),
    ])
}

pub(crate) fn jobs() -> Schema {
    Schema::new([
        Column::new("id", ColumnType::Int8).not_null(),
        Column::new("body", ColumnType::Bytea).with_storage(Storage::External),
    ])
    .with_flavour(ToastFlavour::Oid8)
}

pub(crate) fn scratch() -> Schema {
    Schema::new([
        Column::new("key", ColumnType::Int8).not_null(),
        Column::new("body", ColumnType::Bytea).with_storage(Storage::External),
    ])
}

pub(crate) fn int8(row: &Row<'_>, column: usize) -> Result<i64, StoreError> {
    Ok(row.get(column)?.as_int8().expect("not null"))
}

/// The values of a row of a pair.
pub(crate) struct PairRow {
    pub(crate) key: i64,
    pub(crate) generation: i64,
    pub(crate) body_generation: i64,
    body: Option<Vec<u8>>,
    note: Option<String>,
}

impl PairRow {
    pub(crate) fn new(key: i64, generation: i64, body_generation: i64) -> Self {
        let body = content::body(key, body_generation);
        let note = content::note(key, generation);
        Self { key, generation, body_generation, body, note }
    }

    pub(crate) fn values(&self) -> [Datum<'_>; 5] {
        [
            self.key.into(),
            self.generation.into(),
            self.body_generation.into(),
            self.body.as_ref().into(),
            self.note.as_ref().into(),
        ]
    }
}

/// What a row of a pair says it is, its values checked: all of them, or as much as chance will have.
pub(crate) fn check_pair_row(
    row: &Row<'_>,
    rng: Option<&mut Rng>,
) -> Result<(i64, i64, i64), StoreError> {
    let (key, generation, body_generation) = (int8(row, 0)?, int8(row, 1)?, int8(row, 2)?);
    check_body(row.get(3)?.as_value(), key, body_generation, rng)?;
    let note = row.get(4)?.as_value().map(|value| value.to_text()).transpose()?;
    assert_eq!(note, content::note(key, generation), "note of {key}, generation {generation}");
    Ok((key, generation, body_generation))
}

pub(crate) fn check_body(
    value: Option<Value<'_>>,
    key: i64,
    generation: i64,
    rng: Option<&mut Rng>,
) -> Result<(), StoreError> {
    let whose = || format!("body of {key}, generation {generation}");
    let len = value.as_ref().map(|value| value.len());
    assert_eq!(len, content::body_len(key, generation), "{}", whose());
    let Some(value) = value else { return Ok(()) };
    let len = value.len();
    let chance = rng.map(|rng| (rng.below(10), rng.below(len + 1), rng.below(len + 1)));
    let (range, found) = match chance {
        Some((0..3, ..)) => return Ok(()),
        Some((3..7, a, b)) => {
            let range = a.min(b)..a.max(b);
            (range.clone(), value.slice(range)?)
        }
        Some((7, start, _)) => {
            let mut reader = value.reader();
            let io = |error: std::io::Error| panic!("{}: {error}", whose());
            reader.seek(SeekFrom::Start(start as u64)).unwrap_or_else(io);
            let mut found = vec![0; (len - start).min(3000)];
            reader.read_exact(&mut found).unwrap_or_else(|error| panic!("{}: {error}", whose()));
            (start..start + found.len(), found)
        }
        _ => (0..len, value.to_vec()?),
    };
    let mut expected = vec![0; range.len()];
    content::body_part(key, generation, range.start, &mut expected);
    assert!(found == expected, "{}, bytes {range:?}, differ", whose());
    Ok(())
}
