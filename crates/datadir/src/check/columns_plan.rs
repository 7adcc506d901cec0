//! What the walk over many tuples of one table needs to know of its columns.
use std::sync::Arc;

use pgtoast_page::{AttributeDescriptor, AttributeLen};

use super::ColumnName;
use crate::Columns;

/// What the walk over many tuples of one table needs to know of its columns.
#[derive(Debug)]
pub(super) struct ColumnsPlan<'a> {
    pub(super) attributes: Vec<AttributeDescriptor<'a>>,
    /// The indexes of those whose values may be out of line or compressed.
    pub(super) varlenas: Vec<u16>,
    names: Vec<Arc<str>>,
}

impl<'a> ColumnsPlan<'a> {
    pub(super) fn new(columns: &'a Columns) -> Self {
        let attributes = columns.attributes();
        let varlenas = (0..)
            .zip(&attributes)
            .filter_map(|(index, column)| (column.len == AttributeLen::Varlena).then_some(index));
        let varlenas = varlenas.collect();
        let names = columns.iter().map(|column| column.name.as_str().into()).collect();
        Self { attributes, varlenas, names }
    }

    /// By number, from 1.
    pub(super) fn name(&self, number: u16) -> Option<ColumnName> {
        let name = self.names.get(usize::from(number.checked_sub(1)?))?;
        Some(ColumnName { number, name: Arc::clone(name) })
    }
}
