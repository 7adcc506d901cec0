//! The store.
#![forbid(unsafe_code)]

pub mod buffer;
pub mod disk;
mod error;
pub mod file;
pub mod heap;
mod sync;
pub mod transaction;

pub use error::{Awaited, StoreError};
pub use file::{Fork, RelationId, RelationKind, StoreFile};
#[cfg(pgtoast_loom)]
#[doc(hidden)]
pub use sync::mutant::{Mutant, seed};
