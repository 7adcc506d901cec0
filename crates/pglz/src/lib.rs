#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod bound;
mod char_sign;
mod compress;
mod decompress;
mod error;
mod format;
mod history;
pub mod naive;
mod strategy;

pub use bound::{maximum_compressed_size, maximum_output_size, maximum_raw_size};
pub use char_sign::CharSign;
pub use compress::Compressor;
#[cfg(feature = "alloc")]
pub use compress::compress;
pub use decompress::{decompress, decompress_prefix};
pub use error::PglzError;
pub use strategy::Strategy;
