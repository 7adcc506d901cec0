//! A change of a row as an output sees it: values are read when they are asked for.
use alloc::borrow::Cow;
use alloc::vec::Vec;

use pgtoast_page::{HeapTuple, Value};
use pgtoast_toast::{ChunkIndex, ChunkSize, Detoaster, ReadError};
use pgtoast_varlena::{ToastPointer, Varlena};

use crate::{Column, Relation, ReorderError, ReplicaIdentity};

/// What a column of a row holds.
///
/// The three cannot be taken for one another. A text that reads like some placeholder for a value that is
/// not known is a [`Value`](Self::Value) like any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnValue<'v> {
    /// Null.
    Null,
    /// The update did not touch this value, which is out of line, and so the log does not have it: the row has
    /// what it had before.
    Unchanged(ToastPointer),
    /// Its bytes: of a variable-length type without header, decompressed and put together, of others all there
    /// are.
    Value(Cow<'v, [u8]>),
}

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowAction {
    /// It is gone.
    Delete,
    /// It is new.
    Insert,
    /// It is another.
    Update,
}

/// A change of a row.
pub struct RowChange<'r> {
    action: RowAction,
    relation: &'r Relation,
    old: Option<Row<'r>>,
    new: Option<Row<'r>>,
    rebuild: &'r mut dyn Rebuild,
}

/// Puts values together whose chunks came before their row.
pub(crate) trait Rebuild {
    /// `None` if none came.
    fn rebuild(&mut self, pointer: &ToastPointer) -> Result<Option<Vec<u8>>, ReorderError>;
}

/// The columns of a row, where they are stored.
#[derive(Clone, Debug)]
pub struct Row<'r> {
    relation: &'r Relation,
    values: Vec<Value<'r>>,
}

impl<'r> Row<'r> {
    pub(crate) fn new(relation: &'r Relation, tuple: &'r [u8]) -> Result<Self, ReorderError> {
        let bad = |error| ReorderError::Tuple { relation: relation.id(), error };
        let mut values = alloc::vec![Value::Null; relation.columns().len()];
        HeapTuple::parse(tuple)
            .and_then(|tuple| tuple.deform_into(relation.descriptor()?, &mut values))
            .map_err(bad)?;
        Ok(Self { relation, values })
    }

    /// Whether a column is null; also one that there is not.
    #[must_use]
    pub fn is_null(&self, column: usize) -> bool {
        self.stored(column).is_none()
    }

    fn stored(&self, column: usize) -> Option<&'r [u8]> {
        self.values.get(column).and_then(Value::bytes)
    }

    /// A column's value, if it is not out of line.
    fn inline(&self, column: usize) -> Result<ColumnValue<'r>, ReorderError> {
        let Some(bytes) = self.stored(column) else { return Ok(ColumnValue::Null) };
        let attribute = &self.relation.columns()[column].attribute;
        if attribute.len != pgtoast_page::AttributeLen::Varlena {
            return Ok(ColumnValue::Value(Cow::Borrowed(bytes)));
        }
        let (datum, _) = Varlena::parse(bytes, 0).map_err(pgtoast_toast::ToastError::from)?;
        if let Varlena::External(pointer) = datum {
            return Ok(ColumnValue::Unchanged(pointer));
        }
        let mut detoaster = Detoaster::new(ChunkIndex::default(), ChunkSize::default());
        match detoaster.detoast(&datum) {
            Ok(value) => Ok(ColumnValue::Value(value.into_bytes())),
            Err(ReadError::Toast(error)) => Err(error.into()),
            Err(ReadError::Source(never)) => match never {},
        }
    }
}

impl<'r> RowChange<'r> {
    pub(crate) fn new(
        action: RowAction,
        relation: &'r Relation,
        old: Option<&'r [u8]>,
        new: Option<&'r [u8]>,
        rebuild: &'r mut dyn Rebuild,
    ) -> Result<Self, ReorderError> {
        let row = |tuple| Row::new(relation, tuple);
        let (old, new) = (old.map(row).transpose()?, new.map(row).transpose()?);
        Ok(Self { action, relation, old, new, rebuild })
    }

    /// What happened.
    #[must_use]
    pub const fn action(&self) -> RowAction {
        self.action
    }

    /// To a row of which table.
    #[must_use]
    pub const fn relation(&self) -> &'r Relation {
        self.relation
    }

    /// Its columns, dropped ones included, which are to be passed over.
    #[must_use]
    pub fn columns(&self) -> &'r [Column] {
        self.relation.columns()
    }

    /// What the log has of the old row: by the table's replica identity, and where that is not
    /// [`Full`](ReplicaIdentity::Full), null in all columns that are not of the key.
    #[must_use]
    pub const fn old(&self) -> Option<&Row<'r>> {
        self.old.as_ref()
    }

    /// The new row, if there is one.
    #[must_use]
    pub const fn new_row(&self) -> Option<&Row<'r>> {
        self.new.as_ref()
    }

    /// A column of the old row, counted from 0. Its values are all in it, so none is put together.
    ///
    /// # Errors
    /// [`ReorderError::Toast`].
    pub fn old_value(&self, column: usize) -> Result<ColumnValue<'r>, ReorderError> {
        self.old.as_ref().map_or(Ok(ColumnValue::Null), |row| row.inline(column))
    }

    /// A column of the new row, counted from 0. A value out of line is put together now, and whoever asks has
    /// it alone; it lasts as long as they keep it.
    ///
    /// # Errors
    /// [`ReorderError::Toast`], and where chunks were spilled [`ReorderError::SpillTruncated`] and its like.
    pub fn new_value(&mut self, column: usize) -> Result<ColumnValue<'r>, ReorderError> {
        let Some(row) = &self.new else { return Ok(ColumnValue::Null) };
        match row.inline(column)? {
            ColumnValue::Unchanged(pointer) => Ok(match self.rebuild.rebuild(&pointer)? {
                Some(value) => ColumnValue::Value(Cow::Owned(value)),
                None => ColumnValue::Unchanged(pointer),
            }),
            here => Ok(here),
        }
    }

    /// As [`new_value`](Self::new_value), but an unchanged value is taken from the old row where the log has
    /// all of that.
    ///
    /// # Errors
    /// As [`new_value`](Self::new_value).
    pub fn resolved_value(&mut self, column: usize) -> Result<ColumnValue<'r>, ReorderError> {
        let value = self.new_value(column)?;
        let is_full = self.relation.replica_identity() == ReplicaIdentity::Full;
        match (&value, &self.old) {
            (ColumnValue::Unchanged(_), Some(old)) if is_full => old.inline(column),
            _ => Ok(value),
        }
    }
}

impl core::fmt::Debug for RowChange<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { action, relation, old, new, .. } = self;
        f.debug_struct("RowChange")
            .field("action", action)
            .field("relation", &relation.id())
            .field("old", old)
            .field("new", new)
            .finish_non_exhaustive()
    }
}
