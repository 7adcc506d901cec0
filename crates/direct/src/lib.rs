#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod chunk_tuple;
mod cost;
mod crc32c;
mod delete;
mod draft;
mod edit;
mod error;
#[cfg(all(feature = "std", unix))]
mod file_store;
mod group;
mod leaves;
mod memory;
mod parameters;
mod read;
mod rebuild;
mod relation;
mod store;
mod tid_list;
mod trailer;
mod tree;
mod verify;
mod write;

pub use chunk_tuple::ChunkTuple;
pub use cost::Cost;
pub use edit::Edited;
pub use error::{ChunkFault, DirectError, Failure};
#[cfg(all(feature = "std", unix))]
pub use file_store::{FileStore, FileTuple};
pub use group::{GroupOptions, GroupWriter};
pub use leaves::{Leaf, Leaves, Source};
pub use memory::{MemoryError, MemoryStore, StoreCounts};
pub use parameters::Parameters;
pub use read::SliceTarget;
pub use rebuild::Rebuild;
pub use relation::DirectRelation;
pub use store::{ChunkStore, runs};
pub use trailer::ValueTag;
pub use write::{Writer, Written};
