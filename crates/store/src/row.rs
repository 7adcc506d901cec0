//! A row as it is read.
use core::fmt;

use pgtoast_base::ItemPointer;
use pgtoast_page::{HeapTuple, Infomask, TupleError};
use pgtoast_varlena::Varlena;

use crate::schema::{Column, ColumnType};
use crate::table::TableInner;
use crate::transaction::TransactionCore;
use crate::{Schema, StoreError, Value};

/// A row that the statement's snapshot sees.
///
/// It borrows the transaction: as long as it is there, its values can be read.
pub struct Row<'r> {
    table: &'r TableInner,
    /// Whose snapshot keeps the chunks of its values: nothing is asked of it.
    _transaction: &'r TransactionCore,
    tid: ItemPointer,
    tuple: Tuple<'r>,
}

enum Tuple<'r> {
    Lent(&'r [u8]),
    Owned(Vec<u8>),
}

impl<'r> Row<'r> {
    pub(crate) fn owned(
        table: &'r TableInner,
        transaction: &'r TransactionCore,
        tid: ItemPointer,
        tuple: Vec<u8>,
    ) -> Self {
        Self { table, _transaction: transaction, tid, tuple: Tuple::Owned(tuple) }
    }

    pub(crate) fn lent(
        table: &'r TableInner,
        transaction: &'r TransactionCore,
        tid: ItemPointer,
        tuple: &'r [u8],
    ) -> Self {
        Self { table, _transaction: transaction, tid, tuple: Tuple::Lent(tuple) }
    }

    /// Where it is: what [`fetch`](crate::Transaction::fetch) takes.
    #[doc(alias = "ctid")]
    #[must_use]
    pub fn tid(&self) -> ItemPointer {
        self.tid
    }

    /// The columns of its table.
    #[must_use]
    pub fn schema(&self) -> &'r Schema {
        self.table.schema()
    }

    /// Its tuple, header included, as it lies on its page.
    #[must_use]
    pub fn tuple_bytes(&self) -> &[u8] {
        match &self.tuple {
            Tuple::Lent(bytes) => bytes,
            Tuple::Owned(bytes) => bytes,
        }
    }

    /// What is in the column that stands at `index`, from 0.
    ///
    /// # Errors
    /// [`StoreError::ColumnMissing`]; [`StoreError::Tuple`] for a row that is broken.
    pub fn get(&self, index: usize) -> Result<Field<'_>, StoreError> {
        let count = self.schema().columns().len();
        if let Some(bytes) = self.fixed_bytes(index)
            && let Some(column) = self.schema().columns().get(index)
        {
            let broken = |error| self.table.tuple_error(self.tid, error);
            return self.field(column, crate::row_encoder::number(index), bytes).map_err(broken);
        }
        self.fields()?
            .nth(index)
            .ok_or(StoreError::ColumnMissing { column: crate::row_encoder::number(index), count })?
    }

    /// The bytes of a column that is at the same place in all rows without nulls, if this is one, and whole.
    fn fixed_bytes(&self, index: usize) -> Option<&[u8]> {
        let place = self.table.fixed_place(index)?;
        let tuple = HeapTuple::new(self.tuple_bytes()).ok()?;
        let header = tuple.header();
        let (natts, hoff) = (usize::from(header.natts()), usize::from(header.hoff()));
        let is_usual = !header.infomask().contains(Infomask::HAS_NULL)
            && (index + 1..=self.schema().columns().len()).contains(&natts)
            && hoff == header.expected_hoff();
        if is_usual { tuple.bytes().get(hoff..)?.get(place) } else { None }
    }

    /// What is in each column, in order.
    ///
    /// # Errors
    /// [`StoreError::Tuple`] for a row that is broken; within, for one that is broken from there on.
    pub fn fields(
        &self,
    ) -> Result<impl Iterator<Item = Result<Field<'_>, StoreError>>, StoreError> {
        let broken = move |error| self.table.tuple_error(self.tid, error);
        let tuple = HeapTuple::new(self.tuple_bytes()).map_err(broken)?;
        let attributes = tuple.deform(self.table.descriptor()?).map_err(broken)?;
        Ok(attributes.zip(self.schema().columns()).map(move |(attribute, column)| {
            let attribute = attribute.map_err(broken)?;
            let Some(bytes) = attribute.value.bytes() else { return Ok(Field::Null) };
            self.field(column, attribute.number, bytes).map_err(broken)
        }))
    }

    fn field<'f>(
        &'f self,
        column: &Column,
        number: u16,
        bytes: &'f [u8],
    ) -> Result<Field<'f>, TupleError> {
        let found = bytes.len();
        let of_length = |expected| TupleError::DatumLength { attribute: number, expected, found };
        Ok(match column.column_type() {
            ColumnType::Bool => Field::Bool(fixed::<1>(bytes).ok_or(of_length(1))? != [0]),
            ColumnType::Int2 => Field::Int2(i16::from_le_bytes(fixed(bytes).ok_or(of_length(2))?)),
            ColumnType::Int4 => Field::Int4(i32::from_le_bytes(fixed(bytes).ok_or(of_length(4))?)),
            ColumnType::Int8 => Field::Int8(i64::from_le_bytes(fixed(bytes).ok_or(of_length(8))?)),
            ColumnType::Timestamptz => {
                Field::Timestamptz(i64::from_le_bytes(fixed(bytes).ok_or(of_length(8))?))
            }
            ColumnType::Float4 => {
                Field::Float4(f32::from_le_bytes(fixed(bytes).ok_or(of_length(4))?))
            }
            ColumnType::Float8 => {
                Field::Float8(f64::from_le_bytes(fixed(bytes).ok_or(of_length(8))?))
            }
            ColumnType::Uuid => Field::Uuid(fixed(bytes).ok_or(of_length(16))?),
            ColumnType::Fixed { .. } => Field::Fixed(bytes),
            _ => {
                let parsed = Varlena::parse(bytes, 0);
                let (datum, _) =
                    parsed.map_err(|error| TupleError::Varlena { attribute: number, error })?;
                Field::Value(Value::new(datum, self.table.toast(), self.tid, number))
            }
        })
    }
}

impl fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("tid", &self.tid).finish_non_exhaustive()
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// What a row has in a column.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Field<'r> {
    /// Nothing.
    Null,
    /// Of a `bool`.
    Bool(bool),
    /// The bytes of a type of fixed length that the store does not know.
    Fixed(&'r [u8]),
    /// Of a `float4`.
    Float4(f32),
    /// Of a `float8`.
    Float8(f64),
    /// Of an `int2`.
    Int2(i16),
    /// Of an `int4`.
    Int4(i32),
    /// Of an `int8`.
    Int8(i64),
    /// Of a `timestamptz`: microseconds since the beginning of the year 2000, UTC.
    Timestamptz(i64),
    /// Of a `uuid`.
    Uuid([u8; 16]),
    /// Of a type of variable length. It is read when it is asked for.
    Value(Value<'r>),
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident: $variant:ident($type:ty)),* $(,)?) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(self) -> Option<$type> {
            match self {
                Self::$variant(value) => Some(value),
                _ => None,
            }
        }
    )*};
}

impl<'r> Field<'r> {
    /// Whether it is null.
    #[must_use]
    pub fn is_null(self) -> bool {
        matches!(self, Self::Null)
    }

    getters! {
        /// The value of a `bool`.
        as_bool: Bool(bool),
        /// The bytes of a type of fixed length that the store does not know.
        as_fixed: Fixed(&'r [u8]),
        /// The value of a `float4`.
        as_float4: Float4(f32),
        /// The value of a `float8`.
        as_float8: Float8(f64),
        /// The value of an `int2`.
        as_int2: Int2(i16),
        /// The value of an `int4`.
        as_int4: Int4(i32),
        /// The value of an `int8`.
        as_int8: Int8(i64),
        /// The value of a `timestamptz`.
        as_timestamptz: Timestamptz(i64),
        /// The value of a `uuid`.
        as_uuid: Uuid([u8; 16]),
        /// A value of variable length.
        as_value: Value(Value<'r>),
    }
}
