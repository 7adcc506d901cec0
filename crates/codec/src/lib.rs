#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "alloc")]
mod compress;
#[cfg(feature = "alloc")]
mod datum;
mod decompress;
mod error;
mod expansion;
pub mod lz4;
mod stored_prefix;

#[cfg(feature = "alloc")]
pub use compress::{compress, saves_enough};
#[cfg(feature = "alloc")]
pub use datum::DatumCompressor;
#[cfg(feature = "alloc")]
pub use decompress::decompress_to_vec;
pub use decompress::{decompress, decompress_prefix};
pub use error::CodecError;
pub use expansion::maximum_raw_len;
pub use pgtoast_pglz::PglzError;
pub use pgtoast_varlena::CompressionMethod;
pub use stored_prefix::{COMPRESSION_INFO_LEN, stored_prefix_len};
