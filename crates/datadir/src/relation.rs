//! What `pg_class`, `pg_index`, `pg_type` and their like say.
use core::fmt;

use pgtoast_base::{Oid, Xid};

use crate::{Filenode, Folder};

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

/// What a relation is.
#[doc(alias = "relkind")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RelationKind {
    /// `c`: the columns of a composite type.
    CompositeType,
    /// `f`: a table elsewhere.
    ForeignTable,
    /// `i`: an index.
    Index,
    /// `m`: a materialized view.
    MaterializedView,
    /// `I`: an index whose entries are in its partitions.
    PartitionedIndex,
    /// `p`: a table whose rows are in its partitions.
    PartitionedTable,
    /// `S`: a sequence.
    Sequence,
    /// `r`: a table.
    Table,
    /// `t`: the long values of another.
    Toast,
    /// `v`: a view.
    View,
    /// Any other letter.
    Unknown(u8),
}

impl RelationKind {
    /// From the letter in the catalog.
    #[must_use]
    pub const fn from_letter(letter: u8) -> Self {
        match letter {
            b'c' => Self::CompositeType,
            b'f' => Self::ForeignTable,
            b'i' => Self::Index,
            b'm' => Self::MaterializedView,
            b'I' => Self::PartitionedIndex,
            b'p' => Self::PartitionedTable,
            b'S' => Self::Sequence,
            b'r' => Self::Table,
            b't' => Self::Toast,
            b'v' => Self::View,
            other => Self::Unknown(other),
        }
    }

    /// The letter in the catalog.
    #[must_use]
    pub const fn letter(self) -> u8 {
        match self {
            Self::CompositeType => b'c',
            Self::ForeignTable => b'f',
            Self::Index => b'i',
            Self::MaterializedView => b'm',
            Self::PartitionedIndex => b'I',
            Self::PartitionedTable => b'p',
            Self::Sequence => b'S',
            Self::Table => b'r',
            Self::Toast => b't',
            Self::View => b'v',
            Self::Unknown(other) => other,
        }
    }

    /// Whether such a relation has files of its own.
    #[must_use]
    pub const fn has_storage(self) -> bool {
        matches!(
            self,
            Self::Index | Self::MaterializedView | Self::Sequence | Self::Table | Self::Toast
        )
    }
}

impl fmt::Display for RelationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CompositeType => "composite type",
            Self::ForeignTable => "foreign table",
            Self::Index => "index",
            Self::MaterializedView => "materialized view",
            Self::PartitionedIndex => "partitioned index",
            Self::PartitionedTable => "partitioned table",
            Self::Sequence => "sequence",
            Self::Table => "table",
            Self::Toast => "TOAST relation",
            Self::View => "view",
            Self::Unknown(_) => "relation of an unknown kind",
        })
    }
}

/// What becomes of a relation after a crash and after its session.
#[doc(alias = "relpersistence")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Persistence {
    /// `p`: it stays.
    Permanent,
    /// `u`: a crash empties it.
    Unlogged,
    /// `t`: it ends with its session. A cold directory has at most its remains.
    Temporary,
}

impl Persistence {
    /// From the letter in the catalog.
    #[must_use]
    pub const fn from_letter(letter: u8) -> Option<Self> {
        match letter {
            b'p' => Some(Self::Permanent),
            b'u' => Some(Self::Unlogged),
            b't' => Some(Self::Temporary),
            _ => None,
        }
    }
}

/// What `pg_index` says of an index.
#[doc(alias = "FormData_pg_index")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Index {
    /// The index.
    #[doc(alias = "indexrelid")]
    pub oid: Oid,
    /// The table it is of.
    #[doc(alias = "indrelid")]
    pub table: Oid,
    /// Whether no two rows may have the same key.
    #[doc(alias = "indisunique")]
    pub is_unique: bool,
    /// Whether it is the primary key's.
    #[doc(alias = "indisprimary")]
    pub is_primary: bool,
    /// Whether queries may use it.
    #[doc(alias = "indisvalid")]
    pub is_valid: bool,
}

/// What `pg_type` says of a type.
#[doc(alias = "FormData_pg_type")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Type {
    /// Its id.
    pub oid: Oid,
    /// Its name within its schema.
    #[doc(alias = "typname")]
    pub name: String,
    /// Its schema.
    #[doc(alias = "typnamespace")]
    pub schema: Oid,
    /// `b` for a base type, `c` composite, `d` a domain, `e` an enumeration, `p` a pseudo-type, `r` a
    /// range, `m` a multirange.
    #[doc(alias = "typtype")]
    pub kind: u8,
    /// The kind of its values, such as `S` for strings.
    #[doc(alias = "typcategory")]
    pub category: u8,
    /// What an array's elements are; invalid for others.
    #[doc(alias = "typelem")]
    pub element: Oid,
    /// What a domain is made of; invalid for others.
    #[doc(alias = "typbasetype")]
    pub base: Oid,
}

/// What `pg_database` says of a database.
#[doc(alias = "FormData_pg_database")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseEntry {
    /// Its id, which is its folders' name.
    pub oid: Oid,
    /// Its name.
    #[doc(alias = "datname")]
    pub name: String,
    /// Its encoding, by the server's number: 6 for UTF-8.
    pub encoding: i32,
    /// Where its catalogs are, and whatever does not say otherwise.
    #[doc(alias = "dattablespace")]
    pub tablespace: Oid,
    /// Whether new databases are copied from it.
    #[doc(alias = "datistemplate")]
    pub is_template: bool,
    /// Whether sessions may use it.
    #[doc(alias = "datallowconn")]
    pub allows_connections: bool,
    /// Older transaction ids are frozen in all of it.
    #[doc(alias = "datfrozenxid")]
    pub frozen_xid: Xid,
    /// Older multixact ids are gone from all of it.
    #[doc(alias = "datminmxid")]
    pub minimum_multi: u32,
}

/// What `pg_tablespace` says of a tablespace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tablespace {
    /// Its id.
    pub oid: Oid,
    /// Its name.
    #[doc(alias = "spcname")]
    pub name: String,
}

impl Tablespace {
    /// `pg_default`: the folders in `base`.
    pub const DEFAULT: Oid = Oid::new(1663);
    /// `pg_global`: the folder `global`.
    pub const GLOBAL: Oid = Oid::new(1664);
}
