//! The store.
#![forbid(unsafe_code)]

pub mod buffer;
pub mod disk;
mod error;
mod file;
mod sync;

pub use error::StoreError;
pub use file::{Fork, RelationId, RelationKind, StoreFile};
