//! The store.
#![forbid(unsafe_code)]

mod error;
mod file;
mod sync;

pub use error::StoreError;
pub use file::{Fork, RelationId, RelationKind, StoreFile};
