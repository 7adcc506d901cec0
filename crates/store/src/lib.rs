//! The store.
#![forbid(unsafe_code)]

pub mod buffer;
pub mod disk;
mod error;
pub mod file;
mod sync;

pub use error::StoreError;
pub use file::{Fork, RelationId, RelationKind, StoreFile};
#[cfg(pgtoast_loom)]
#[doc(hidden)]
pub use sync::mutant::{Mutant, seed};
