//! What the tests of this crate share.
#![allow(dead_code, reason = "each test file uses some of it")]
use std::sync::LazyLock;

use pgtoast_base::{BlockSize, Oid};
use pgtoast_direct::{DirectRelation, MemoryStore, Parameters};

pub(crate) static DEFAULTS: LazyLock<Parameters> = LazyLock::new(Parameters::default);
pub(crate) const RELATION: DirectRelation =
    DirectRelation::new(Oid::new(16_560), Parameters::oid(BlockSize::KIB_8));

pub(crate) fn store() -> MemoryStore {
    MemoryStore::new(BlockSize::KIB_8)
}

/// A value whose bytes say where they are.
pub(crate) fn value(len: usize) -> Vec<u8> {
    pattern(0, len)
}

/// The bytes of such a value from `start` on.
pub(crate) fn pattern(start: usize, len: usize) -> Vec<u8> {
    (start..start + len).map(byte).collect()
}

fn byte(at: usize) -> u8 {
    let mixed = (at as u64 / 8 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (at % 8 * 8)).to_le_bytes()[0]
}
