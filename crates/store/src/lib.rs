#![doc = include_str!("../README.md")]
#![deny(unsafe_code)] // but for one system call in `buffer::memory`

pub mod buffer;
mod datum;
pub mod disk;
mod error;
mod export;
pub mod file;
mod finding;
pub mod heap;
mod import;
mod manifest;
mod options;
mod row;
mod row_encoder;
mod schema;
mod session;
mod store;
mod sync;
mod table;
mod toast;
pub mod transaction;
mod value;
mod verify;

pub use datum::Datum;
pub use error::{Awaited, StoreError};
pub use export::{Export, ExportTarget, ExportedFile};
pub use file::{Fork, RelationId, RelationKind, StoreFile};
pub use finding::Finding;
pub use heap::{IndexCleanup, VacuumOptions, VacuumReport};
pub use import::{Import, ImportSource};
pub use options::StoreOptions;
pub use pgtoast_base::{Alignment, BlockSize, ItemPointer};
pub use pgtoast_codec::CompressionMethod;
pub use pgtoast_page::Storage;
pub use pgtoast_toast::SizePolicy;
pub use row::{Field, Row};
pub use schema::{Column, ColumnType, Schema, ToastFlavour};
pub use session::{RowUpdate, Scan, Statement, Transaction};
pub use store::{Store, StoreStatistics, TableVacuum};
#[cfg(pgtoast_loom)]
#[doc(hidden)]
pub use sync::mutant::{Mutant, seed};
pub use table::{Table, TableRelations, TableSize};
pub use toast::{CacheStatistics, ValueIdEvent, ValueIdListener, ValueIdStatistics};
pub use transaction::{Isolation, Savepoint, WaitStatistics};
pub use value::{Value, ValueReader};
pub use verify::Verified;
