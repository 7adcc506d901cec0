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
mod deform;
mod descriptor;
mod error;
mod form;
mod free_space;
mod header;
mod infomask;
mod line_pointer;
mod page;
mod page_mut;
mod tuple;
mod tuple_error;
mod tuple_mut;
mod visibility;
mod visibility_map;

pub use checksum::set_checksum;
pub use deform::{Attribute, Datum, Deform, Value};
pub use descriptor::{AttributeDescriptor, AttributeLen, Storage, TupleDescriptor};
pub use error::PageError;
pub use header::{PageFlags, PageHeader};
pub use infomask::{Infomask, Infomask2};
pub use line_pointer::{LinePointer, LineState};
pub use page::{Item, Page};
pub use page_mut::{PageMut, TrailingPointers};
pub use tuple::{HeapTuple, TupleHeader};
pub use tuple_error::TupleError;
pub use tuple_mut::{HeapTupleMut, RowUpdate};
pub use visibility::{Snapshot, TransactionStatus, VacuumState, XidStatus};
pub use visibility_map::{VisibilityAddress, VisibilityBits};
