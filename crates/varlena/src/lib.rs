#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod compression;
mod error;
mod header;
mod kind;
mod tag;
mod toast_pointer;
mod varlena;

pub use compression::{CompressionInfo, CompressionMethod};
pub use error::VarlenaError;
pub use header::{
    COMPRESSED_HEADER_LEN, LONG_HEADER_LEN, MAX_DATUM_LEN, MAX_PAYLOAD_LEN, MAX_SHORT_PAYLOAD_LEN,
    SHORT_HEADER_LEN, compressed_header, long_header, short_header,
};
#[cfg(feature = "alloc")]
pub use header::{encode_compressed, encode_long, encode_short};
pub use kind::Kind;
pub use tag::Tag;
pub use toast_pointer::{DirectPointer, Oid8Pointer, OidPointer, ToastPointer};
pub use varlena::{Compressed, Varlena, datum_len};
