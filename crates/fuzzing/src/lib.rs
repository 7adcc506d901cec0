#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod canary;
mod codec;
mod datadir;
mod direct;
mod files;
mod form_deform;
mod fsm;
mod input;
mod memctx;
mod nbtree;
mod page;
mod page_program;
mod pglz;
mod pglz_differential;
mod reorder;
mod store_pool;
mod store_program;
mod toast;
mod toast_rows;
mod toaster;
mod tuple;
mod varlena;

pub use canary::canary;
pub use codec::codec_prefix;
pub use datadir::datadir_mutated;
pub use direct::{direct_edits, direct_graph, direct_pointer};
pub use form_deform::tuple_form;
pub use fsm::{fsm_image, fsm_ops};
pub use memctx::memctx_program;
pub use nbtree::{nbtree_image, nbtree_ops};
pub use page::page_parse;
pub use page_program::page_program;
pub use pglz::{pglz_decompress, pglz_round_trip};
pub use pglz_differential::{
    PglzDifferential, PglzReference, PglzTwin, pglz_against, pglz_against_twin,
};
pub use reorder::reorder_program;
pub use store_pool::{store_control, store_pool};
pub use store_program::store_program;
pub use toast::toast_assembly;
pub use toast_rows::toast_rows;
pub use toaster::toaster_decisions;
pub use tuple::tuple_deform;
pub use varlena::{toast_pointer, varlena_parse};

/// A fuzz target: its name, in `fuzz/fuzz_targets` and `fuzz/corpus` alike, and what it does with
/// some bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// `<crate>_<property>`.
    pub name: &'static str,
    /// Panics when the property does not hold.
    pub body: fn(&[u8]),
}

/// Every target whose corpus must pass; the [`canary`] is not among them.
pub const TARGETS: &[Target] = &[
    Target { name: "codec_prefix", body: codec_prefix },
    Target { name: "datadir_mutated", body: datadir_mutated },
    Target { name: "direct_edits", body: direct_edits },
    Target { name: "direct_graph", body: direct_graph },
    Target { name: "direct_pointer", body: direct_pointer },
    Target { name: "fsm_image", body: fsm_image },
    Target { name: "fsm_ops", body: fsm_ops },
    Target { name: "memctx_program", body: memctx_program },
    Target { name: "nbtree_image", body: nbtree_image },
    Target { name: "nbtree_ops", body: nbtree_ops },
    Target { name: "page_parse", body: page_parse },
    Target { name: "page_program", body: page_program },
    Target { name: "pglz_against_c", body: pglz_against_twin },
    Target { name: "pglz_decompress", body: pglz_decompress },
    Target { name: "pglz_round_trip", body: pglz_round_trip },
    Target { name: "reorder_program", body: reorder_program },
    Target { name: "store_control", body: store_control },
    Target { name: "store_pool", body: store_pool },
    Target { name: "store_program", body: store_program },
    Target { name: "toast_assembly", body: toast_assembly },
    Target { name: "toast_pointer", body: toast_pointer },
    Target { name: "toast_rows", body: toast_rows },
    Target { name: "toaster_decisions", body: toaster_decisions },
    Target { name: "tuple_deform", body: tuple_deform },
    Target { name: "tuple_form", body: tuple_form },
    Target { name: "varlena_parse", body: varlena_parse },
];
