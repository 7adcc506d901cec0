#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(feature = "std", pgtoast_loom))]
extern crate std;

mod category;
mod check;
mod error;
mod finding;
mod geometry;
mod lanes;
mod map;
mod page_tree;
mod pages;
mod rebuild;
#[cfg(feature = "alloc")]
pub mod shared;
#[cfg(feature = "alloc")]
mod sync;
mod trail;
#[cfg(feature = "alloc")]
pub mod twin;

pub use category::Category;
pub use error::FsmError;
pub use finding::{DiffCounts, Difference, Finding};
pub use geometry::{Geometry, PageAddress};
pub use map::{FreeSpaceMap, SearchReport};
pub use page_tree::{FsmPage, FsmPageMut};
#[cfg(feature = "alloc")]
pub use pages::VecPages;
pub use pages::{Access, MapPages};
