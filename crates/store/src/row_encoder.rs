//! Values that a caller gives, as the bytes that a tuple is formed of.
use core::ops::Range;

use pgtoast_page::Value;
use pgtoast_varlena::long_header;
use smallvec::SmallVec;

use crate::schema::{Column, ColumnType};
use crate::{Datum, Schema, StoreError};

/// The values of a row, as tuples are formed of them. On the stack for tables of a few columns.
pub(crate) type Values<'a> = SmallVec<[Value<'a>; 12]>;

/// Takes in the values of a row, and keeps its buffer from row to row.
#[derive(Debug, Default)]
pub(crate) struct RowEncoder {
    bytes: Vec<u8>,
    /// `None` for null.
    spans: Vec<Option<Range<usize>>>,
}

impl RowEncoder {
    /// Takes in a row, which must have a value for every column.
    pub(crate) fn encode(&mut self, schema: &Schema, row: &[Datum<'_>]) -> Result<(), StoreError> {
        self.clear();
        let (found, expected) = (row.len(), schema.columns().len());
        if found != expected {
            return Err(StoreError::ColumnCount { expected, found });
        }
        for (index, (column, datum)) in schema.columns().iter().zip(row).enumerate() {
            self.push(index, column, datum)?;
        }
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    /// Takes in the value of the column that stands at `index`; where it went.
    pub(crate) fn push(
        &mut self,
        index: usize,
        column: &Column,
        datum: &Datum<'_>,
    ) -> Result<usize, StoreError> {
        let start = self.bytes.len();
        let span = match encode(number(index), column, datum, &mut self.bytes) {
            Ok(true) => Some(start..self.bytes.len()),
            Ok(false) => None,
            Err(error) => {
                self.bytes.truncate(start);
                return Err(error);
            }
        };
        self.spans.push(span);
        Ok(self.spans.len() - 1)
    }

    /// The value that came as number `place`.
    pub(crate) fn value(&self, place: usize) -> Value<'_> {
        match self.spans.get(place) {
            Some(Some(span)) => Value::stored(&self.bytes[span.clone()]),
            _ => Value::Null,
        }
    }

    /// All that came, in order.
    pub(crate) fn values(&self) -> Values<'_> {
        (0..self.spans.len()).map(|place| self.value(place)).collect()
    }
}

/// The number of a column in messages: from 1, as in the catalog.
pub(crate) fn number(index: usize) -> u16 {
    u16::try_from(index + 1).unwrap_or(u16::MAX)
}

/// Appends the stored form of a value; whether it is one, and not null.
fn encode(
    number: u16,
    column: &Column,
    datum: &Datum<'_>,
    target: &mut Vec<u8>,
) -> Result<bool, StoreError> {
    let column_type = column.column_type();
    match (column_type, datum) {
        (_, Datum::Null) if column.is_not_null() => {
            return Err(StoreError::ColumnNull { column: number });
        }
        (_, Datum::Null) => return Ok(false),
        (ColumnType::Bool, Datum::Bool(value)) => target.push((*value).into()),
        (ColumnType::Int2, Datum::Int2(value)) => target.extend_from_slice(&value.to_le_bytes()),
        (ColumnType::Int4, Datum::Int4(value)) => target.extend_from_slice(&value.to_le_bytes()),
        (ColumnType::Int8, Datum::Int8(value))
        | (ColumnType::Timestamptz, Datum::Timestamptz(value)) => {
            target.extend_from_slice(&value.to_le_bytes());
        }
        (ColumnType::Float4, Datum::Float4(value)) => {
            target.extend_from_slice(&value.to_le_bytes());
        }
        (ColumnType::Float8, Datum::Float8(value)) => {
            target.extend_from_slice(&value.to_le_bytes());
        }
        (ColumnType::Uuid, Datum::Uuid(value)) => target.extend_from_slice(value),
        (ColumnType::Fixed { len, .. }, Datum::Bytes(value)) => {
            let expected = usize::from(len);
            if value.len() != expected {
                let found = value.len();
                return Err(StoreError::ColumnLength { column: number, expected, found });
            }
            target.extend_from_slice(value);
        }
        (_, Datum::Text(text)) if column_type.is_text() => {
            // No text of a server has a zero in it.
            if let Some(offset) = text.bytes().position(|byte| byte == 0) {
                return Err(StoreError::ColumnZero { column: number, offset });
            }
            varlena(text.as_bytes(), target)?;
        }
        (
            ColumnType::Bytea | ColumnType::Jsonb | ColumnType::Varlena { .. },
            Datum::Bytes(value),
        ) => varlena(value, target)?,
        _ => {
            let (expected, found) = (column_type.name(), datum.kind());
            return Err(StoreError::ColumnType { column: number, expected, found });
        }
    }
    Ok(true)
}

fn varlena(payload: &[u8], target: &mut Vec<u8>) -> Result<(), StoreError> {
    let header = long_header(payload.len()).map_err(pgtoast_toast::ToastError::from)?;
    target.reserve(header.len() + payload.len());
    target.extend_from_slice(&header);
    target.extend_from_slice(payload);
    Ok(())
}

#[cfg(test)]
mod tests {
    use pgtoast_base::Alignment;

    use super::*;

    fn encode_one(column: &Column, datum: Datum<'_>) -> Result<Option<Vec<u8>>, StoreError> {
        let mut encoder = RowEncoder::default();
        encoder.push(0, column, &datum)?;
        Ok(encoder.value(0).bytes().map(<[u8]>::to_vec))
    }

    #[test]
    fn values_become_the_bytes_that_a_server_stores() {
        let odd = ColumnType::Fixed { len: 3, alignment: Alignment::Char, by_value: false };
        for (column_type, datum, expected) in [
            (ColumnType::Bool, Datum::Bool(true), &[1][..]),
            (ColumnType::Int2, Datum::Int2(-2), &[0xfe, 0xff]),
            (ColumnType::Int4, Datum::Int4(7), &[7, 0, 0, 0]),
            (ColumnType::Timestamptz, Datum::Timestamptz(1), &[1, 0, 0, 0, 0, 0, 0, 0]),
            (ColumnType::Float4, Datum::Float4(1.0), &[0, 0, 0x80, 0x3f]),
            (odd, Datum::Bytes(&[1, 2, 3]), &[1, 2, 3]),
            (ColumnType::Text, Datum::Text("tidy"), b"\x20\0\0\0tidy"),
            (ColumnType::Jsonb, Datum::Bytes(&[9]), &[20, 0, 0, 0, 9]),
        ] {
            let column = Column::new("c", column_type);
            assert_eq!(encode_one(&column, datum), Ok(Some(expected.to_vec())), "{column_type:?}");
            assert_eq!(encode_one(&column, Datum::Null), Ok(None));
        }
    }

    #[test]
    fn what_a_column_cannot_hold_is_refused_by_its_number() {
        let encode = |column_type, datum| encode_one(&Column::new("c", column_type), datum);
        assert_eq!(
            encode(ColumnType::Int4, Datum::Int8(1)),
            Err(StoreError::ColumnType { column: 1, expected: "int4", found: "an int8" })
        );
        assert_eq!(
            encode(ColumnType::Text, Datum::Bytes(b"a")),
            Err(StoreError::ColumnType { column: 1, expected: "text", found: "bytes" })
        );
        assert_eq!(
            encode(ColumnType::Text, Datum::Text("a\0")),
            Err(StoreError::ColumnZero { column: 1, offset: 1 })
        );
        let not_null = Column::new("c", ColumnType::Text).not_null();
        assert_eq!(encode_one(&not_null, Datum::Null), Err(StoreError::ColumnNull { column: 1 }));
        let schema = Schema::new([not_null]);
        assert_eq!(
            RowEncoder::default().encode(&schema, &[]),
            Err(StoreError::ColumnCount { expected: 1, found: 0 })
        );
    }
}
