//! What the catalogs say of indexes, types, databases and tablespaces.
//!
//! Source: `pg_index.h`, `pg_type.h`, `pg_database.h`, `pg_tablespace.h` (REL_18).
use pgtoast_base::{Oid, Xid};

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
