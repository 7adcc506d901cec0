#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod array;
mod attributes;
mod catalog;
pub mod check;
mod column_spec;
mod columns;
mod control;
mod database;
mod directory;
mod error;
mod file;
mod file_source;
mod overlay_source;
mod prepared;
mod problems;
mod relation;
mod relation_fork;
mod relation_map;
mod slru_pages;
mod source;
mod table;
mod toast_chunks;
mod transactions;

pub use columns::{Column, Columns};
pub use control::{ClusterState, ControlFile};
pub use database::Database;
pub use directory::{Consistency, DataDirectory};
pub use error::DatadirError;
pub use file::{
    CatalogVersion, DataFile, Filenode, Folder, Fork, NoDataFile, PreparedName, RelationFile, Slru,
};
pub use file_source::FileSource;
pub use overlay_source::OverlaySource;
pub use prepared::PreparedTransaction;
pub use relation::{DatabaseEntry, Index, Persistence, Relation, RelationKind, Tablespace, Type};
pub use relation_fork::{Blocks, Geometry, RelationFork};
pub use relation_map::RelationMap;
pub use source::Source;
pub use table::{Row, Rows, Table};
pub use toast_chunks::ToastChunks;
pub use transactions::{MemberStatus, MultiXactMember, StatusReader, Transactions};
