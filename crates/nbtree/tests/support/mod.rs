//! What several tests use.
use std::fmt::Debug;

use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Oid8};
use pgtoast_nbtree::{Index, IndexPages, Key};

/// Row number `n` of a heap with four rows a block.
pub(crate) fn tid(n: u32) -> ItemPointer {
    let item = OffsetNumber::new(u16::try_from(n % 4 + 1).expect("at most 4"));
    ItemPointer::new(BlockNumber::new(n / 4), item)
}

pub(crate) fn key(chunk_id: u64, chunk_seq: i32) -> Key {
    Key::new(Oid8::new(chunk_id), chunk_seq)
}

/// All entries, in order.
pub(crate) fn entries<P>(index: &Index<P>) -> Vec<(Key, ItemPointer)>
where
    P: IndexPages<Error: Debug>,
{
    let all = key(0, i32::MIN)..=key(u64::MAX, i32::MAX);
    index.range(all).map(|entry| entry.expect("a sound index")).collect()
}
