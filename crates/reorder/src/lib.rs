#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod buffer;
mod builtin_types;
mod catalog;
mod crc32c;
mod error;
mod layout;
mod limits;
mod merge;
mod output;
mod pending_toast;
mod quote;
mod record;
mod relation;
mod replay;
mod row;
mod sizes_heap;
mod spill;
mod stats;
mod stored_change;
mod text_output;
mod transaction;
mod transactions;
mod value_text;

pub use buffer::ReorderBuffer;
pub use builtin_types::BuiltinType;
pub use catalog::{Catalog, DirectChunks, DirectValues, RelationMap};
pub use error::{ReorderError, SpillFault};
pub use layout::{BumpPerTransaction, CohortPages, Layout, SharedGeneration};
pub use limits::{Eviction, Options};
pub use output::{Message, Output, TransactionInfo, Truncate};
pub use record::{Action, Change, InsertFlags, Record};
pub use relation::{Column, Relation, RelationKind, ReplicaIdentity};
pub use row::{ColumnValue, Row, RowAction, RowChange};
#[cfg(feature = "std")]
pub use spill::SpillFiles;
pub use spill::{MemorySpill, SpillStore, StoreError};
pub use stats::ReorderStats;
pub use text_output::{TextOptions, TextOutput};
pub use value_text::{BuiltinText, ValueText};
