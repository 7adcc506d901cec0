#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "std")]
extern crate std;

mod align;
mod block;
mod block_size;
mod item_pointer;
mod lsn;
mod oid;
mod xid;

pub use align::{Alignment, MAXALIGN, maxalign, maxalign_down};
pub use block::{BlockNumber, OffsetNumber};
pub use block_size::{BlockSize, BlockSizeError};
pub use item_pointer::{ItemPointer, ItemPointerData};
pub use lsn::{Lsn, LsnData};
pub use oid::{Oid, Oid8};
pub use xid::Xid;
