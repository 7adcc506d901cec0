//! `pg_attribute`, which describes every catalog's columns and its own.
//!
//! It is read in two steps. The fields in front of each row never vary in length, so where they are
//! follows from the release alone; the rows about `pg_attribute` itself then say where the others are.
//!
//! ```text
//!              attrelid  name  type | len  num  typmod | byval align storage compr. | … missing dropped
//! 14, 15          0       4     68  |  76   78    88   |  92    93     94     95    |     98     101
//! 16, 17          0       4     68  |  72   74    80   |  86    87     88     89    |     92      95
//! 18              0       4     68  |  72   74    76   |  82    83     84     85    |     88      91
//! ```
//! Source: `pg_attribute.h` (REL_14 to REL_18).
use std::collections::BTreeMap;

use pgtoast_base::{Alignment, Oid};
use pgtoast_page::{AttributeLen, HeapTuple, Storage, TupleDescriptor, TupleError, Value};
use pgtoast_toast::Detoaster;
use pgtoast_varlena::CompressionMethod;

use crate::array::single_element;
use crate::catalog::{self, name_at};
use crate::problems::Problems;
use crate::{Column, Columns, DatadirError, Table};

/// The columns of every relation of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    by_relation: BTreeMap<Oid, Vec<Column>>,
}

impl Attributes {
    /// Reads all of `pg_attribute`. Rows that are broken are left out, and told of in `problems`.
    pub(crate) fn read(table: &Table, major: u32, problems: &mut Problems) -> Self {
        let layout = Layout::of(major);
        let mut all = Self::default();
        let mut with_missing = Vec::new();
        let mut rows = table.rows();
        while let Some(row) = rows.next() {
            let row = match row {
                Ok(row) => row,
                Err(error) => {
                    problems.add(error);
                    continue;
                }
            };
            let Some((relation, column, has_missing)) = layout.column(row.tuple) else {
                let error =
                    TupleError::Length { needed: layout.len, found: row.tuple.bytes().len() };
                problems.add(catalog::tuple_error(table, row.tid, error));
                continue;
            };
            // System columns, which are no part of a tuple's data, have numbers below 1.
            let Some(column) = column else { continue };
            if has_missing && !column.is_dropped {
                with_missing.push((relation, column.number, row.tid, row.tuple.bytes().to_vec()));
            }
            all.by_relation.entry(relation).or_default().push(column);
        }
        for columns in all.by_relation.values_mut() {
            columns.sort_by_key(|column| column.number);
        }
        all.fill_missing(table, with_missing, problems);
        all
    }

    /// The columns of a relation of which the catalog says that it has `count`.
    pub(crate) fn columns(&self, relation: Oid, count: u16) -> Result<Columns, DatadirError> {
        let columns = self.by_relation.get(&relation).map_or(&[][..], Vec::as_slice);
        for number in 1..=count {
            let index = usize::from(number - 1);
            if columns.get(index).is_none_or(|column| column.number != number) {
                return Err(DatadirError::ColumnMissing { relation, column: number });
            }
        }
        Ok(Columns::new(columns[..usize::from(count)].to_vec()))
    }

    /// The columns of a relation, as far as there is no gap in them.
    pub(crate) fn all_columns(&self, relation: Oid) -> Columns {
        let columns = self.by_relation.get(&relation).map_or(&[][..], Vec::as_slice);
        let numbered =
            columns.iter().zip(1..).take_while(|(column, number)| column.number == *number);
        Columns::new(numbered.map(|(column, _)| column.clone()).collect())
    }

    /// Sets the missing values, now that the rows about `pg_attribute` are at hand.
    fn fill_missing(
        &mut self,
        table: &Table,
        rows: Vec<(Oid, u16, pgtoast_base::ItemPointer, Vec<u8>)>,
        problems: &mut Problems,
    ) {
        let columns = self.all_columns(catalog::PG_ATTRIBUTE);
        let attributes = columns.attributes();
        let missing_column =
            columns.named("attmissingval").map(|column| usize::from(column.number));
        for (relation, number, tid, bytes) in rows {
            let column = self
                .by_relation
                .get_mut(&relation)
                .and_then(|columns| columns.iter_mut().find(|column| column.number == number));
            let Some(column) = column else { continue };
            let value = missing_column
                .ok_or(DatadirError::CatalogColumn {
                    file: table.fork().file(),
                    column: "attmissingval",
                })
                .and_then(|field| {
                    let stored = missing_value(&bytes, &attributes, field, column);
                    stored.map_err(|error| catalog::tuple_error(table, tid, error))
                });
            match value {
                Ok(value) => column.missing = value,
                Err(error) => problems.add(error),
            }
        }
    }
}

/// The one element of the array in column `field` of a row of `pg_attribute`.
fn missing_value(
    bytes: &[u8],
    attributes: &[pgtoast_page::AttributeDescriptor<'_>],
    field: usize,
    column: &Column,
) -> Result<Option<Vec<u8>>, TupleError> {
    let mut values = vec![Value::Null; attributes.len()];
    let descriptor = TupleDescriptor::new(attributes)?;
    HeapTuple::new(bytes)?.deform_into(descriptor, &mut values)?;
    let Some(Value::Stored(datum)) = values.get(field - 1) else { return Ok(None) };
    let attribute = u16::try_from(field).unwrap_or(u16::MAX);
    let varlena = datum.varlena().map_err(|error| TupleError::Varlena { attribute, error })?;
    // The catalog has no TOAST relation, so the array is at most compressed.
    let array = Detoaster::new(pgtoast_toast::ChunkIndex::default(), Default::default())
        .detoast(&varlena)
        .ok();
    Ok(array.and_then(|array| single_element(array.as_bytes(), column)))
}

/// Where the fields are, in bytes from the start of a row's data.
#[derive(Clone, Copy, Debug)]
struct Layout {
    attlen: usize,
    attnum: usize,
    atttypmod: usize,
    attbyval: usize,
    attisdropped: usize,
    /// Up to the last of them.
    len: usize,
}

impl Layout {
    const fn of(major: u32) -> Self {
        let (attlen, atttypmod, attbyval, attisdropped) = match major {
            ..16 => (76, 88, 92, 101),
            16 | 17 => (72, 80, 86, 95),
            18.. => (72, 76, 82, 91),
        };
        let (attnum, len) = (attlen + 2, attisdropped + 1);
        Self { attlen, attnum, atttypmod, attbyval, attisdropped, len }
    }

    /// Which relation a row is about, its column unless that is a system column, and whether it has a
    /// missing value. `None` if the row is too short.
    fn column(&self, tuple: HeapTuple<'_>) -> Option<(Oid, Option<Column>, bool)> {
        let data = tuple.bytes().get(usize::from(tuple.header().hoff())..)?;
        let data = data.get(..self.len)?;
        let half = |at: usize| data.get(at..)?.first_chunk().map(|it| i16::from_le_bytes(*it));
        let word = |at: usize| data.get(at..)?.first_chunk().map(|it| u32::from_le_bytes(*it));
        let relation = Oid::new(word(0)?);
        let Ok(number @ 1..) = u16::try_from(half(self.attnum)?) else {
            return Some((relation, None, false));
        };
        let letters = &data[self.attbyval..];
        let (by_value, align) = (letters[0] != 0, letters[1]);
        let (storage, compression) = (letters[2], letters[3]);
        let has_missing = letters[6] != 0;
        let column = Column {
            number,
            name: name_at(data, 4)?,
            type_oid: Oid::new(word(68)?),
            type_modifier: word(self.atttypmod)?.cast_signed(),
            len: AttributeLen::from_attlen(half(self.attlen)?)?,
            by_value,
            alignment: Alignment::from_typalign(align)?,
            storage: Storage::from_attstorage(storage)?,
            compression: match compression {
                b'p' => Some(CompressionMethod::Pglz),
                b'l' => Some(CompressionMethod::Lz4),
                _ => None,
            },
            is_not_null: letters[4] != 0,
            is_dropped: data[self.attisdropped] != 0,
            missing: None,
        };
        Some((relation, Some(column), has_missing))
    }
}
