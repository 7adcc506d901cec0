//! What a table is: its columns, and what becomes of values that are too long for a page.
mod column_type;
mod record;
mod sql;

use pgtoast_base::BlockSize;
use pgtoast_codec::CompressionMethod;
use pgtoast_page::{AttributeDescriptor, Storage, TupleDescriptor};
use pgtoast_toast::{SizePolicy, Toaster, ValueIdWidth};

pub use self::column_type::ColumnType;
pub(crate) use self::record::SchemaRecord;
use crate::StoreError;

/// The columns of a table and its rules for large values.
///
/// ```
/// use pgtoast_store::{Column, ColumnType, Schema, Storage};
///
/// let schema = Schema::new([
///     Column::new("id", ColumnType::Int8).not_null(),
///     Column::new("body", ColumnType::Text).with_storage(Storage::External),
/// ]);
/// assert_eq!(schema.column("body"), Some(1));
/// assert_eq!(
///     schema.to_sql("docs").as_deref(),
///     Some("CREATE TABLE docs (id int8 NOT NULL, body text);\n\
///           ALTER TABLE docs ALTER body SET STORAGE EXTERNAL;\n"),
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    columns: Vec<Column>,
    tuple_target: Option<usize>,
    policy: Option<SizePolicy>,
    flavour: ToastFlavour,
}

/// How values out of line are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToastFlavour {
    /// By ids of 32 bits and an index: plain TOAST, as every release has it.
    #[default]
    Oid,
    /// By ids of 64 bits and an index, as the coming release has it.
    Oid8,
}

impl ToastFlavour {
    pub(crate) fn width(self) -> ValueIdWidth {
        match self {
            Self::Oid => ValueIdWidth::Oid,
            Self::Oid8 => ValueIdWidth::Oid8,
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    name: String,
    column_type: ColumnType,
    is_not_null: bool,
    storage: Storage,
    method: CompressionMethod,
}

impl Column {
    /// A column that may be null, with its type's storage, and pglz where that compresses.
    pub fn new(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self {
            name: name.into(),
            column_type,
            is_not_null: false,
            storage: column_type.default_storage(),
            method: CompressionMethod::Pglz,
        }
    }

    /// That is never null.
    #[must_use]
    pub fn not_null(mut self) -> Self {
        self.is_not_null = true;
        self
    }

    /// With another storage than its type's.
    #[doc(alias = "attstorage")]
    #[must_use]
    pub fn with_storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Compressed by another method.
    #[doc(alias = "attcompression")]
    #[must_use]
    pub fn with_compression(mut self, method: CompressionMethod) -> Self {
        self.method = method;
        self
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds.
    #[must_use]
    pub fn column_type(&self) -> ColumnType {
        self.column_type
    }

    /// Whether it is never null.
    #[must_use]
    pub fn is_not_null(&self) -> bool {
        self.is_not_null
    }

    /// What may be done to make its values smaller.
    #[must_use]
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// How its values are compressed, if they are.
    #[must_use]
    pub fn compression(&self) -> CompressionMethod {
        self.method
    }

    pub(crate) fn descriptor(&self) -> AttributeDescriptor<'static> {
        AttributeDescriptor { storage: self.storage, ..self.column_type.descriptor() }
    }
}

impl Schema {
    /// A table of these columns, with the server's rules for large values.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            tuple_target: None,
            policy: None,
            flavour: ToastFlavour::default(),
        }
    }

    /// With another length, in bytes, that long rows are made to have. It says how small they become,
    /// not which of them: that is a quarter of a page, for every table.
    #[doc(alias = "toast_tuple_target")]
    #[must_use]
    pub fn with_tuple_target(mut self, bytes: usize) -> Self {
        self.tuple_target = Some(bytes);
        self
    }

    /// With a policy that servers do not have: what is over one length goes out of line, what is over
    /// another is compressed.
    #[must_use]
    pub fn with_size_policy(mut self, policy: SizePolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// With another way to find values out of line.
    #[must_use]
    pub fn with_flavour(mut self, flavour: ToastFlavour) -> Self {
        self.flavour = flavour;
        self
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Where the column of that name stands, from 0.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// How values out of line are found.
    #[must_use]
    pub fn flavour(&self) -> ToastFlavour {
        self.flavour
    }

    /// The length that long rows are made to have, if it is not the usual one.
    #[must_use]
    pub fn tuple_target(&self) -> Option<usize> {
        self.tuple_target
    }

    /// Its size policy.
    #[must_use]
    pub fn size_policy(&self) -> Option<SizePolicy> {
        self.policy
    }

    pub(crate) fn descriptors(&self) -> Vec<AttributeDescriptor<'static>> {
        self.columns.iter().map(Column::descriptor).collect()
    }

    pub(crate) fn methods(&self) -> Vec<CompressionMethod> {
        self.columns.iter().map(Column::compression).collect()
    }

    /// Whether any of its values can go out of line.
    pub(crate) fn needs_toast(&self) -> bool {
        let is_toastable =
            |column: &Column| column.column_type.is_varlena() && column.storage != Storage::Plain;
        self.columns.iter().any(is_toastable)
    }

    /// The rules for its rows, which are checked by the way.
    pub(crate) fn toaster(&self, block_size: BlockSize) -> Result<Toaster, StoreError> {
        self.check()?;
        let mut toaster = Toaster::new(block_size).with_value_ids(self.flavour.width());
        if let Some(bytes) = self.tuple_target {
            toaster = toaster.with_tuple_target(bytes)?;
        }
        if let Some(policy) = self.policy {
            toaster = toaster.with_policy(policy);
        }
        Ok(if self.needs_toast() { toaster } else { toaster.without_toast_relation() })
    }

    fn check(&self) -> Result<(), StoreError> {
        let count = self.columns.len();
        if count > TupleDescriptor::MAX_ATTRIBUTES {
            return Err(StoreError::ColumnCount {
                expected: TupleDescriptor::MAX_ATTRIBUTES,
                found: count,
            });
        }
        for (column, number) in self.columns.iter().zip(1..) {
            let is_taken =
                self.column(&column.name).is_some_and(|first| first + 1 < usize::from(number));
            if is_taken {
                return Err(StoreError::Schema {
                    column: number,
                    problem: "has the name of another",
                });
            }
            if !column.column_type.is_varlena() && column.storage != Storage::Plain {
                let problem = "is of fixed length, and so is its storage";
                return Err(StoreError::Schema { column: number, problem });
            }
            if !column.column_type.is_sound() {
                let problem = "has a length that its kind cannot have";
                return Err(StoreError::Schema { column: number, problem });
            }
        }
        Ok(())
    }
}
