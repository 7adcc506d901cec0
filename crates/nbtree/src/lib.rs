#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(any(feature = "std", pgtoast_loom, test))]
extern crate std;

mod allocate;
mod build;
mod check;
mod descent;
mod error;
mod index;
mod insert;
mod items;
mod key;
mod log;
mod memory;
mod meta;
mod node;
mod node_page;
mod packer;
mod pages;
mod parent;
mod search;
mod seek;
#[cfg(any(feature = "std", pgtoast_loom))]
mod shared;
mod special;
mod split;
mod split_point;
mod sync;
mod tuple;
mod vacuum;

pub use check::CheckReport;
pub use error::{IndexError, NbtreeError};
pub use index::Index;
pub use insert::Insertion;
pub use key::{Key, KeyWidth};
pub use log::Action;
pub use memory::{MemoryPages, MemoryRead, MemoryWrite};
pub use meta::Meta;
pub use node_page::{Entry, NodePage, RowTids};
pub use pages::IndexPages;
pub use search::{FreeId, Range};
#[cfg(any(feature = "std", pgtoast_loom))]
pub use shared::{NoRoom, SharedPages, SharedRead, SharedWrite};
pub use special::{NodeFlags, Special};
#[cfg(pgtoast_loom)]
pub use sync::mutant::{Mutant, seed};
pub use vacuum::VacuumReport;
