#![doc = include_str!("../README.md")]
#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(any(feature = "std", pgtoast_loom))]
extern crate std;

mod account;
mod chunk;
mod context;
mod error;
#[expect(unsafe_code, reason = "the one module for it")]
mod raw;
mod release;
mod sizes;
mod stats;
mod sync;
mod tree;
pub mod twin;

pub use account::{Account, KindName};
pub use chunk::Chunk;
pub use context::{Checkpoint, Context, ContextBuilder, Kind, ReturnsChunks, root};
pub use error::MemoryError;
pub use raw::{AllocSet, Bump, Cohort, Cohorts, Generation, Slab};
pub use release::{Headers, Release};
pub use sizes::{BlockSizes, MAX_ALLOC, MAX_HUGE};
pub use stats::Stats;
#[cfg(pgtoast_loom)]
pub use sync::mutant::{Mutant, seed};
pub use tree::{ContextId, ContextTree};
