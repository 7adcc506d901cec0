//! What an update changes.
use smallvec::SmallVec;

use crate::row_encoder::{RowEncoder, Values, number};
use crate::{Datum, Schema, StoreError};

/// The new values of some columns of a row. The others keep what they have; a value out of line keeps its
/// chunks.
#[derive(Debug)]
pub struct RowUpdate<'t> {
    schema: &'t Schema,
    encoder: RowEncoder,
    /// Columns, and which of the values that came each one gets.
    set: SmallVec<[(usize, usize); 8]>,
}

impl<'t> RowUpdate<'t> {
    pub(super) fn new(schema: &'t Schema) -> Self {
        Self { schema, encoder: RowEncoder::default(), set: SmallVec::new() }
    }

    /// Gives the column that stands at `index`, from 0, another value.
    ///
    /// # Errors
    /// [`StoreError::ColumnMissing`], or why it cannot hold that.
    pub fn set<'d>(
        &mut self,
        index: usize,
        value: impl Into<Datum<'d>>,
    ) -> Result<&mut Self, StoreError> {
        let columns = self.schema.columns();
        let count = columns.len();
        let missing = StoreError::ColumnMissing { column: number(index), count };
        let column = columns.get(index).ok_or(missing)?;
        let place = self.encoder.push(index, column, &value.into())?;
        self.set.push((index, place));
        Ok(self)
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Puts the new values in the places of the old ones.
    pub(super) fn apply<'v>(&'v self, values: &mut Values<'v>) {
        for (index, place) in &self.set {
            if let Some(value) = values.get_mut(*index) {
                *value = self.encoder.value(*place);
            }
        }
    }
}
