//! A value whose bytes follow from their place, so that no second copy is needed to check them.
use std::ops::Range;

use anyhow::Result;
use pgtoast_direct::MemoryStore;
use pgtoast_varlena::DirectPointer;

use super::{BLOCK, MIB, RELATION};
use crate::check;

/// Such a value in a store of its own.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) store: MemoryStore,
    pub(super) pointer: DirectPointer,
    pub(super) len: usize,
}

impl Stored {
    /// Writes `len` bytes in pieces.
    pub(super) fn make(len: usize) -> Result<Self> {
        let mut store = MemoryStore::new(BLOCK);
        let mut piece = vec![0; MIB];
        let mut writer = RELATION.writer(&mut store);
        for start in (0..len).step_by(MIB) {
            let piece = &mut piece[..MIB.min(len - start)];
            fill(start, piece);
            writer.write(piece)?;
        }
        let root = writer.finish()?.root;
        Ok(Self { store, pointer: RELATION.pointer(root, len)?, len })
    }
}

/// The bytes from `start` on, a multiple of 8, over all of `target`.
pub(super) fn fill(start: usize, target: &mut [u8]) {
    for (word, bytes) in (start as u64 / 8..).zip(target.chunks_mut(8)) {
        let word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
}

/// Insists that these are the bytes of the value at `range`.
pub(super) fn check_bytes(found: &[u8], range: Range<usize>, what: &str) -> Result<()> {
    check(found.len() == range.len(), || format!("{what}: {} bytes", found.len()))?;
    let mut expected = vec![0; MIB];
    let mut at = range.start;
    while at < range.end {
        let start = at - at % MIB;
        let end = range.end.min(start + MIB);
        fill(start, &mut expected[..end - start]);
        let same = found[at - range.start..end - range.start] == expected[at - start..end - start];
        check(same, || format!("{what}: wrong bytes in {at}..{end}"))?;
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_known_by_their_place_and_wrong_ones_are_noticed() {
        let mut bytes = vec![0; MIB + 100];
        fill(8 * MIB - 8, &mut bytes);
        let from = 8 * MIB - 8 + 3;
        check_bytes(&bytes[3..], from..from + MIB + 97, "as filled").unwrap();
        bytes[MIB + 99] ^= 1;
        assert!(check_bytes(&bytes[3..], from..from + MIB + 97, "broken").is_err());
        assert!(check_bytes(&bytes[3..], from..from + MIB, "too long").is_err());
    }
}
