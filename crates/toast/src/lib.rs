#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "alloc"),
    expect(dead_code, reason = "plans and slices check chunks for modules that allocate")
)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "alloc")]
mod assembler;
mod chunk;
#[cfg(feature = "alloc")]
mod chunk_index;
mod chunk_size;
#[cfg(feature = "alloc")]
mod collector;
#[cfg(feature = "alloc")]
mod detoast;
mod error;
mod introspect;
mod out_of_line;
mod page_chunks;
mod plan;
#[cfg(feature = "alloc")]
mod row_toaster;
mod row_update;
#[cfg(feature = "alloc")]
mod seen;
mod size_policy;
mod slice;
mod source;
pub mod thresholds;
mod toast_attribute;
#[cfg(feature = "alloc")]
mod toast_relation;
mod toast_step;
mod toaster;
#[cfg(feature = "alloc")]
mod value;
#[cfg(feature = "alloc")]
mod value_scan;

#[cfg(feature = "alloc")]
pub use assembler::Assembler;
pub use chunk::Chunk;
#[cfg(feature = "alloc")]
pub use chunk_index::ChunkIndex;
pub use chunk_size::{ChunkSize, ValueIdWidth};
#[cfg(feature = "alloc")]
pub use collector::Collector;
#[cfg(feature = "alloc")]
pub use detoast::Detoaster;
pub use error::{ReadError, ToastError, WriteError};
pub use introspect::{column_compression, column_size, column_toast_chunk_id, raw_len};
pub use out_of_line::{Chunks, OutOfLine};
pub use page_chunks::page_chunks;
pub use plan::ChunkPlan;
#[cfg(feature = "alloc")]
pub use row_toaster::{RowBuffers, RowToaster, ToastedRow};
pub use row_update::{AttributeUpdate, NewValue};
pub use size_policy::SizePolicy;
pub use slice::{ByteSlice, CharSlice};
pub use source::{ChunkOrder, ChunkSource, ValueKey, infer_chunk_size};
pub use toast_attribute::{AttributeForm, Decision, ToastAttribute};
#[cfg(feature = "alloc")]
pub use toast_relation::ToastRelation;
pub use toast_step::{MoveReason, Pass, Step, TooBigReason};
pub use toaster::{ToastOutcome, Toaster, Trigger};
#[cfg(feature = "alloc")]
pub use value::Value;
#[cfg(feature = "alloc")]
pub use value_scan::ValueScan;
