#![doc = include_str!("../README.md")]
#![no_std]
#![deny(unsafe_code)] // but for the calls in `checksum::dispatch`
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod check;
mod checksum;
mod error;
mod header;
mod line_pointer;
mod page;
mod tuple;

pub use checksum::set_checksum;
pub use error::PageError;
pub use header::{PageFlags, PageHeader};
pub use line_pointer::{LinePointer, LineState};
pub use page::{Item, Page};
pub use tuple::TupleHeader;
