//! Which relation a report is about.
use core::fmt;

use serde::Serialize;

use crate::datadir::{Database, Relation};

/// Which relation a report is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RelationName {
    /// The database's name.
    pub database: String,
    /// The schema's name.
    pub schema: String,
    /// The relation's name within it.
    pub name: String,
    /// The relation's id.
    pub oid: u32,
}

impl RelationName {
    /// The names of a relation.
    #[must_use]
    pub fn of(database: &Database, relation: &Relation) -> Self {
        Self {
            database: database.name().to_owned(),
            schema: database.schema_name(relation.schema).unwrap_or_default().to_owned(),
            name: relation.name.clone(),
            oid: relation.oid.get(),
        }
    }
}

impl fmt::Display for RelationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}.{}", self.database, self.schema, self.name)
    }
}
