//! What the tests of this crate share.
#![allow(dead_code, reason = "each test file uses some of it")]
use std::sync::LazyLock;

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber, Oid};
use pgtoast_direct::{ChunkStore, DirectRelation, MemoryError, MemoryStore, Parameters};

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

/// A store that keeps nothing and counts.
#[derive(Default)]
pub(crate) struct Nowhere {
    pub(crate) inserts: usize,
    pub(crate) deletes: usize,
    scratch: Vec<u8>,
}

impl ChunkStore for Nowhere {
    type Error = MemoryError;
    type Tuple<'s> = &'s [u8];

    fn insert_with(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<ItemPointer, MemoryError> {
        self.scratch.resize(len, 0);
        fill(&mut self.scratch);
        self.inserts += 1;
        let block = u32::try_from(self.inserts).expect("few");
        Ok(ItemPointer::new(BlockNumber::new(block), OffsetNumber::FIRST))
    }

    fn fetch(&self, tid: ItemPointer) -> Result<&[u8], MemoryError> {
        Err(MemoryError { tid, error: None })
    }

    fn delete(&mut self, _: ItemPointer) -> Result<(), MemoryError> {
        self.deletes += 1;
        Ok(())
    }
}
