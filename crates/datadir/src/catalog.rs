//! Rows of a catalog, whose columns `pg_attribute` has said.
use pgtoast_base::{ItemPointer, Oid};
use pgtoast_page::{TupleDescriptor, TupleError, Value};

use crate::problems::Problems;
use crate::{DatadirError, Row, Table};

/// `pg_type`.
pub(crate) const PG_TYPE: Oid = Oid::new(1247);
/// `pg_attribute`.
pub(crate) const PG_ATTRIBUTE: Oid = Oid::new(1249);
/// `pg_class`.
pub(crate) const PG_CLASS: Oid = Oid::new(1259);
/// `pg_tablespace`.
pub(crate) const PG_TABLESPACE: Oid = Oid::new(1213);
/// `pg_database`.
pub(crate) const PG_DATABASE: Oid = Oid::new(1262);
/// `pg_index`.
pub(crate) const PG_INDEX: Oid = Oid::new(2610);
/// `pg_namespace`.
pub(crate) const PG_NAMESPACE: Oid = Oid::new(2615);

/// How long names are, their closing zero bytes included.
#[doc(alias = "NAMEDATALEN")]
const NAME_LEN: usize = 64;

/// Gives `visit` the fields of every row that can be read, by the names asked for. What cannot be read
/// is told of in `problems`.
pub(crate) fn read<const N: usize>(
    table: &Table,
    names: [&'static str; N],
    problems: &mut Problems,
    mut visit: impl FnMut([Field<'_>; N]),
) {
    let mut numbers = [0; N];
    for (name, number) in names.into_iter().zip(&mut numbers) {
        match table.columns().named(name) {
            Some(column) => *number = usize::from(column.number),
            None => {
                let file = table.fork().file();
                problems.add(DatadirError::CatalogColumn { file, column: name });
                return;
            }
        }
    }
    let attributes = table.columns().attributes();
    let descriptor = match TupleDescriptor::new(&attributes) {
        Ok(descriptor) => descriptor,
        Err(error) => {
            problems.add(tuple_error(table, ItemPointer::INVALID, error));
            return;
        }
    };
    let mut rows = table.rows();
    while let Some(row) = rows.next() {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                problems.add(error);
                continue;
            }
        };
        match fields(&row, descriptor, numbers) {
            Ok(fields) => visit(fields),
            Err(error) => problems.add(tuple_error(table, row.tid, error)),
        }
    }
}

/// The attributes of those numbers; what is behind the last of them is not looked at.
fn fields<'a, const N: usize>(
    row: &Row<'a>,
    descriptor: TupleDescriptor<'a>,
    numbers: [usize; N],
) -> Result<[Field<'a>; N], TupleError> {
    let mut fields = [Field(Value::Null); N];
    let last = numbers.into_iter().max().unwrap_or_default();
    for (attribute, at) in row.deform(descriptor)?.take(last).zip(1..) {
        let value = attribute?.value;
        for (number, field) in numbers.into_iter().zip(&mut fields) {
            if number == at {
                *field = Field(value);
            }
        }
    }
    Ok(fields)
}

pub(crate) fn tuple_error(table: &Table, tid: ItemPointer, error: TupleError) -> DatadirError {
    DatadirError::Tuple { file: table.fork().place(tid.block).0, tid, error }
}

/// A field of a row, read as the type that the catalog gives it in every release. Of a field that has
/// another form, nothing is to be had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a>(Value<'a>);

impl<'a> Field<'a> {
    pub(crate) fn bytes<const N: usize>(self) -> Option<[u8; N]> {
        match self.0 {
            Value::Stored(datum) => datum.fixed(),
            _ => None,
        }
    }

    pub(crate) fn oid(self) -> Option<Oid> {
        self.number().map(Oid::new)
    }

    pub(crate) fn number(self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub(crate) fn signed(self) -> Option<i32> {
        self.bytes().map(i32::from_le_bytes)
    }

    pub(crate) fn half(self) -> Option<i16> {
        self.bytes().map(i16::from_le_bytes)
    }

    pub(crate) fn float(self) -> Option<f32> {
        self.bytes().map(f32::from_le_bytes)
    }

    pub(crate) fn letter(self) -> Option<u8> {
        self.bytes().map(|[letter]| letter)
    }

    pub(crate) fn is_true(self) -> bool {
        self.bytes() == Some([1])
    }

    pub(crate) fn name(self) -> Option<String> {
        match self.0 {
            Value::Stored(datum) => name_at(datum.bytes, 0),
            _ => None,
        }
    }

    /// The payload of a varlena, unless it is compressed or stored elsewhere.
    pub(crate) fn payload(self) -> Option<&'a [u8]> {
        use pgtoast_varlena::Varlena::{Long, Short};
        match self.0 {
            Value::Stored(datum) => match datum.varlena().ok()? {
                Short(payload) | Long(payload) => Some(payload),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The name at `offset` of a row's data: up to its first zero byte.
pub(crate) fn name_at(data: &[u8], offset: usize) -> Option<String> {
    let field = data.get(offset..)?.get(..NAME_LEN)?;
    let len = field.iter().position(|byte| *byte == 0).unwrap_or(NAME_LEN);
    Some(String::from_utf8_lossy(&field[..len]).into_owned())
}
