use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use pgtoast_base::Oid;
use pgtoast_page::{AttributeDescriptor, TupleDescriptor, TupleError};
use pgtoast_toast::ValueIdWidth;

use crate::BuiltinType;

/// What has to be known of a table, or of a TOAST relation, to make sense of its changes.
#[derive(Clone, Debug)]
pub struct Relation {
    id: Oid,
    schema: String,
    name: String,
    kind: RelationKind,
    replica_identity: ReplicaIdentity,
    columns: Vec<Column>,
    attributes: Vec<AttributeDescriptor<'static>>,
}

/// What a relation's tuples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    /// Rows.
    Table,
    /// Chunks, of values with such ids.
    Toast(ValueIdWidth),
}

/// What the log keeps of an old row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicaIdentity {
    /// The columns of the primary key, if they change or the row goes.
    #[default]
    Default,
    /// All of it, values out of line included.
    Full,
    /// The columns of an index, as `Default` those of the key.
    Index,
    /// Nothing.
    Nothing,
}

impl Relation {
    /// A table.
    ///
    /// # Errors
    /// [`TupleError::ColumnCount`] for more columns than a tuple has.
    pub fn table(
        id: Oid,
        schema: &str,
        name: &str,
        columns: Vec<Column>,
    ) -> Result<Self, TupleError> {
        let attributes: Vec<_> = columns.iter().map(|column| column.attribute).collect();
        TupleDescriptor::new(&attributes)?;
        let (schema, name, kind) = (schema.to_owned(), name.to_owned(), RelationKind::Table);
        let replica_identity = ReplicaIdentity::Default;
        Ok(Self { id, schema, name, kind, replica_identity, columns, attributes })
    }

    /// A TOAST relation.
    #[must_use]
    pub fn toast(id: Oid, width: ValueIdWidth) -> Self {
        Self {
            id,
            schema: String::from("pg_toast"),
            name: alloc::format!("pg_toast_{id}"),
            kind: RelationKind::Toast(width),
            replica_identity: ReplicaIdentity::Nothing,
            columns: Vec::new(),
            attributes: Vec::new(),
        }
    }

    /// With another replica identity.
    #[must_use]
    pub fn with_replica_identity(mut self, identity: ReplicaIdentity) -> Self {
        self.replica_identity = identity;
        self
    }

    /// Its id, which changes name.
    #[must_use]
    pub const fn id(&self) -> Oid {
        self.id
    }

    /// Its schema's name.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its tuples are.
    #[must_use]
    pub const fn kind(&self) -> RelationKind {
        self.kind
    }

    /// What the log keeps of its old rows.
    #[must_use]
    pub const fn replica_identity(&self) -> ReplicaIdentity {
        self.replica_identity
    }

    /// Its columns, dropped ones included.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Its columns, for making tuples and taking them apart.
    ///
    /// # Errors
    /// None: what could be wrong was when it was made.
    pub fn descriptor(&self) -> Result<TupleDescriptor<'_>, TupleError> {
        TupleDescriptor::new(&self.attributes)
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_id: Oid,
    /// What its values are made of: of a domain the type below it, else the type itself.
    pub base_type_id: Oid,
    /// What the server calls its type.
    #[doc(alias = "format_type")]
    pub type_name: String,
    /// How its values lie in a tuple.
    pub attribute: AttributeDescriptor<'static>,
}

impl Column {
    /// A column of a type that is built in.
    #[must_use]
    pub fn new(name: &str, builtin: BuiltinType) -> Self {
        Self {
            name: name.to_owned(),
            type_id: builtin.id,
            base_type_id: builtin.id,
            type_name: builtin.name.to_owned(),
            attribute: builtin.attribute,
        }
    }

    /// A column of a domain over a type that is built in.
    #[must_use]
    pub fn of_domain(name: &str, type_id: Oid, type_name: &str, builtin: BuiltinType) -> Self {
        let type_name = type_name.to_owned();
        Self { type_id, type_name, ..Self::new(name, builtin) }
    }

    /// The same column once it was dropped: rows still have its values.
    #[must_use]
    pub fn dropped(mut self) -> Self {
        self.attribute.is_dropped = true;
        self
    }
}
