//! The columns of a table.
use pgtoast_base::{Alignment, Oid};
use pgtoast_page::{AttributeDescriptor, AttributeLen, Storage};
use pgtoast_varlena::CompressionMethod;

use crate::DatadirError;

/// The columns of a table in the order of their numbers, dropped ones included.
///
/// ```
/// use pgtoast_datadir::Columns;
/// use pgtoast_page::TupleDescriptor;
///
/// let columns = Columns::parse("id int4, note text, scan bytea external")?;
/// assert_eq!(columns.named("scan").map(|column| column.number), Some(3));
/// let attributes = columns.attributes();
/// let descriptor = TupleDescriptor::new(&attributes)?; // for `HeapTuple::deform`
/// assert_eq!(descriptor.attributes().len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    columns: Vec<Column>,
}

impl Columns {
    /// These columns, which are numbered from 1 on without a gap.
    #[must_use]
    pub(crate) const fn new(columns: Vec<Column>) -> Self {
        Self { columns }
    }

    /// Of a text such as `id int4, note text, scan bytea external`: for each column a name, a type, and
    /// if it is not the type's own a storage (`plain`, `external`, `extended`, `main`); or `dropped`
    /// as its last word.
    ///
    /// Types are those that servers come with, under SQL's names or the catalog's. A type of one's own
    /// is given by what the catalog has of it: `type(attlen,attalign)`, as in `point3d type(24,d)` or
    /// `hstore type(-1,i)`. An array is any type with `[]` behind it. Names with other letters than
    /// those of identifiers stand in double quotes.
    ///
    /// # Errors
    /// [`DatadirError::ColumnSpec`] says which byte of the text it could make nothing of.
    pub fn parse(spec: &str) -> Result<Self, DatadirError> {
        crate::column_spec::parse(spec).map(Self::new)
    }

    /// All of them, number 1 first.
    #[must_use]
    pub fn as_slice(&self) -> &[Column] {
        &self.columns
    }

    /// How many there are, dropped ones included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// All of them, number 1 first.
    pub fn iter(&self) -> core::slice::Iter<'_, Column> {
        self.columns.iter()
    }

    /// The column of that number, counted from 1.
    #[must_use]
    pub fn get(&self, number: u16) -> Option<&Column> {
        self.columns.get(usize::from(number.checked_sub(1)?))
    }

    /// The column of that name; dropped ones have none.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name && !column.is_dropped)
    }

    /// What a [`TupleDescriptor`](pgtoast_page::TupleDescriptor) is made of.
    #[must_use]
    pub fn attributes(&self) -> Vec<AttributeDescriptor<'_>> {
        self.columns.iter().map(Column::attribute).collect()
    }
}

impl<'a> IntoIterator for &'a Columns {
    type Item = &'a Column;
    type IntoIter = core::slice::Iter<'a, Column>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A column of a table.
#[doc(alias = "FormData_pg_attribute")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its number, from 1.
    #[doc(alias = "attnum")]
    pub number: u16,
    /// Its name; servers call dropped ones `........pg.dropped.N........`.
    #[doc(alias = "attname")]
    pub name: String,
    /// Its type; invalid for dropped columns, and where only a specification is known.
    #[doc(alias = "atttypid")]
    pub type_oid: Oid,
    /// What the type was declared with, such as a maximum length; -1 for nothing.
    #[doc(alias = "atttypmod")]
    pub type_modifier: i32,
    /// How its values say how long they are.
    #[doc(alias = "attlen")]
    pub len: AttributeLen,
    /// Whether the server passes its values by value.
    #[doc(alias = "attbyval")]
    pub by_value: bool,
    /// What its values are aligned to.
    #[doc(alias = "attalign")]
    pub alignment: Alignment,
    /// What may be done to make its values smaller.
    #[doc(alias = "attstorage")]
    pub storage: Storage,
    /// How its values are to be compressed; `None` for the server's default.
    #[doc(alias = "attcompression")]
    pub compression: Option<CompressionMethod>,
    /// Whether it may hold no nulls.
    #[doc(alias = "attnotnull")]
    pub is_not_null: bool,
    /// Whether it was dropped: old tuples keep its values.
    #[doc(alias = "attisdropped")]
    pub is_dropped: bool,
    /// The value, as stored, of tuples older than the column; `None` for null.
    #[doc(alias = "attmissingval")]
    pub missing: Option<Vec<u8>>,
}

impl Column {
    /// Whether its values can be compressed or stored out of line.
    #[must_use]
    pub fn is_toastable(&self) -> bool {
        self.len == AttributeLen::Varlena && self.storage != Storage::Plain && !self.is_dropped
    }

    /// As the walk over a tuple needs it.
    #[must_use]
    pub fn attribute(&self) -> AttributeDescriptor<'_> {
        AttributeDescriptor {
            len: self.len,
            by_value: self.by_value,
            alignment: self.alignment,
            storage: self.storage,
            is_dropped: self.is_dropped,
            missing: self.missing.as_deref(),
        }
    }
}
