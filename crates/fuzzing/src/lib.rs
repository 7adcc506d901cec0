#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod canary;
mod varlena;

pub use canary::canary;
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
    Target { name: "toast_pointer", body: toast_pointer },
    Target { name: "varlena_parse", body: varlena_parse },
];
