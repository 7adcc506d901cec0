#![doc = include_str!("../README.md")]
#![no_std]
#![cfg_attr(not(feature = "unsafe-fast"), forbid(unsafe_code))]
#![cfg_attr(feature = "unsafe-fast", deny(unsafe_code))]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod block;
mod bound;
mod char_sign;
mod compress;
mod decompress;
#[cfg(feature = "alloc")]
mod dense;
mod error;
mod format;
mod index;
pub mod naive;
mod output;
mod pieces;
#[cfg(feature = "unsafe-fast")]
mod raw;
pub mod safe;
mod strategy;
mod tag;
mod walk;
mod words;

pub use bound::{maximum_compressed_size, maximum_output_size, maximum_raw_size};
pub use char_sign::CharSign;
pub use compress::Compressor;
#[cfg(feature = "alloc")]
pub use compress::compress;
pub use decompress::{decompress, decompress_prefix};
#[cfg(feature = "alloc")]
pub use decompress::{decompress_append, decompress_to_vec};
#[cfg(feature = "alloc")]
pub use dense::DenseCompressor;
pub use error::PglzError;
pub use pieces::decompress_pieces;
pub use strategy::Strategy;
