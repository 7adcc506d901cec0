//! What `pg_class` says.
//!
//! Source: `pg_class.h` (REL_18).
use pgtoast_base::{Oid, Xid};

use crate::{Filenode, Folder, Persistence, RelationKind};

/// A table, an index, a TOAST relation, or anything else that `pg_class` has a row for.
#[doc(alias = "FormData_pg_class")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Relation {
    /// Its id, which never changes.
    pub oid: Oid,
    /// Its name within its schema.
    #[doc(alias = "relname")]
    pub name: String,
    /// Its schema.
    #[doc(alias = "relnamespace")]
    pub schema: Oid,
    /// What it is.
    #[doc(alias = "relkind")]
    pub kind: RelationKind,
    /// What becomes of it after a crash and after its session.
    #[doc(alias = "relpersistence")]
    pub persistence: Persistence,
    /// How its rows or entries are stored: 2 for an ordinary heap, 403 for a B-tree; invalid if there
    /// are none.
    #[doc(alias = "relam")]
    pub access_method: Oid,
    /// Where its files are; invalid if it has none.
    #[doc(alias = "reltablespace")]
    pub tablespace: Oid,
    /// Its files' folder and number; `None` if it has none.
    #[doc(alias = "relfilenode")]
    pub files: Option<(Folder, Filenode)>,
    /// Whether the number came from a relation map, because the relation is needed to read catalogs.
    pub is_mapped: bool,
    /// Whether all databases share it.
    #[doc(alias = "relisshared")]
    pub is_shared: bool,
    /// Where its long values are, if it has a place for them.
    #[doc(alias = "reltoastrelid")]
    pub toast_relation: Option<Oid>,
    /// How many columns it has, dropped ones included.
    #[doc(alias = "relnatts")]
    pub column_count: u16,
    /// How many blocks vacuum or analyze found last.
    #[doc(alias = "relpages")]
    pub estimated_blocks: i32,
    /// How many rows they found; -1 if they never looked.
    #[doc(alias = "reltuples")]
    pub estimated_rows: f32,
    /// Older transaction ids are frozen in it; invalid where that does not apply.
    #[doc(alias = "relfrozenxid")]
    pub frozen_xid: Xid,
    /// Older multixact ids are gone from it; 0 where that does not apply.
    #[doc(alias = "relminmxid")]
    pub minimum_multi: u32,
    /// What it was made with, such as `fillfactor=70`.
    #[doc(alias = "reloptions")]
    pub options: Vec<String>,
}

impl Relation {
    /// The value of an option, such as that of `toast_tuple_target`.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        let mut pairs = self.options.iter().filter_map(|option| option.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Whether it is a heap with rows: a table, a materialized view, a TOAST relation.
    #[must_use]
    pub fn is_heap(&self) -> bool {
        let is_kind = matches!(
            self.kind,
            RelationKind::Table | RelationKind::MaterializedView | RelationKind::Toast
        );
        is_kind && self.access_method == HEAP
    }

    /// Whether it is a B-tree.
    #[must_use]
    pub fn is_btree(&self) -> bool {
        self.kind == RelationKind::Index && self.access_method == BTREE
    }
}

/// The ordinary heap, as an access method.
const HEAP: Oid = Oid::new(2);
/// The B-tree, as an access method.
const BTREE: Oid = Oid::new(403);
