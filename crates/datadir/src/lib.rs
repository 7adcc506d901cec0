#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod array;
mod attributes;
mod catalog;
mod catalog_entries;
pub mod check;
mod column_spec;
mod columns;
mod control;
mod database;
mod directory;
mod error;
mod file;
mod file_source;
mod folder;
mod multixact;
mod overlay_source;
mod prepared;
mod problems;
mod relation;
mod relation_file;
mod relation_fork;
mod relation_kind;
mod relation_map;
mod slru;
mod slru_pages;
mod source;
mod status_reader;
mod table;
mod toast_chunks;
mod transactions;

pub use catalog_entries::{DatabaseEntry, Index, Tablespace, Type};
pub use columns::{Column, Columns};
pub use control::{ClusterState, ControlFile};
pub use database::Database;
pub use directory::{Consistency, DataDirectory};
pub use error::DatadirError;
pub use file::{DataFile, NoDataFile, PreparedName};
pub use file_source::FileSource;
pub use folder::{CatalogVersion, Folder};
pub use multixact::{MemberStatus, MultiXactMember};
pub use overlay_source::OverlaySource;
pub use prepared::PreparedTransaction;
pub use relation::Relation;
pub use relation_file::{Filenode, Fork, RelationFile};
pub use relation_fork::{Blocks, Geometry, RelationFork};
pub use relation_kind::{Persistence, RelationKind};
pub use relation_map::RelationMap;
pub use slru::Slru;
pub use source::Source;
pub use status_reader::StatusReader;
pub use table::{Row, Rows, Table};
pub use toast_chunks::ToastChunks;
pub use transactions::Transactions;
