//! What the index is ordered by, and how wide its ids are.
//!
//! ```text
//! data of a leaf tuple, from byte 8 on
//! oid   0            4             8
//!       | chunk_id   | chunk_seq   |
//! oid8  0                          8             12            16
//!       | chunk_id                 | chunk_seq   | zeros       |
//! ```
//! Source: `itup.h`, `toasting.c`, `create_toast_table` (REL_18); 64-bit ids as the coming release
//! has them, which are `(int8, int4)` to the releases before.
use core::fmt;

use pgtoast_base::{Oid, Oid8};

/// A chunk of a value. Ordered by id, unsigned, then by number, signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The value.
    pub chunk_id: Oid8,
    /// Which of its chunks, from 0.
    pub chunk_seq: i32,
}

impl Key {
    /// That chunk of that value.
    pub fn new(chunk_id: impl Into<Oid8>, chunk_seq: i32) -> Self {
        Self { chunk_id: chunk_id.into(), chunk_seq }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.chunk_id, self.chunk_seq)
    }
}

/// How wide the ids in an index are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyWidth {
    /// 32 bits: `(oid, int4)`, leaf tuples of 16 bytes.
    Oid,
    /// 64 bits: `(oid8, int4)`, leaf tuples of 24 bytes. `(int8, int4)` is the same, as long as no id
    /// has its highest bit set: that type is signed.
    Oid8,
}

impl KeyWidth {
    /// Bytes of a leaf tuple, its line pointer left out.
    #[must_use]
    pub const fn tuple_len(self) -> usize {
        match self {
            Self::Oid => 16,
            Self::Oid8 => 24,
        }
    }

    /// The highest id.
    #[must_use]
    pub const fn highest_id(self) -> u64 {
        match self {
            Self::Oid => u32::MAX as u64,
            Self::Oid8 => u64::MAX,
        }
    }
}

/// Where a key, or a pivot, stands among all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) id: u64,
    /// Below every sequence number where there is none.
    pub(crate) seq: i64,
}

impl Rank {
    pub(crate) const NO_SEQ: i64 = i64::MIN;

    #[inline]
    pub(crate) fn of(key: Key) -> Self {
        Self { id: key.chunk_id.get(), seq: key.chunk_seq.into() }
    }

    /// Without a branch: which way it goes is not to be foreseen.
    #[inline]
    pub(crate) fn is_below(self, other: Self) -> bool {
        (self.id < other.id) | ((self.id == other.id) & (self.seq < other.seq))
    }
}

/// The bit in which signed numbers and unsigned ones in the same order differ.
const SIGN: u32 = 1 << 31;

/// How far above the lowest.
#[inline]
const fn from_lowest(seq: i32) -> u32 {
    seq.cast_unsigned() ^ SIGN
}

/// The layout of one width, for code that is compiled once for each.
pub(crate) trait Layout: Copy {
    /// Bytes from the start of a tuple through its `chunk_seq`.
    const KEY_END: usize;

    /// Bytes of a leaf tuple.
    const LEN: usize;

    /// A whole key as one number, in the same order.
    type Order: Copy + Ord;

    /// That of a key.
    fn order_of(key: Key) -> Self::Order;

    /// That of a leaf tuple's key.
    fn order(tuple: &[u8]) -> Option<Self::Order>;

    /// The id of a tuple of that length or more.
    fn id(tuple: &[u8]) -> Option<u64>;

    /// The rank of a tuple's key.
    fn rank(tuple: &[u8]) -> Option<Rank>;
}

/// See [`KeyWidth::Oid`].
#[derive(Clone, Copy)]
pub(crate) struct OidLayout;

/// See [`KeyWidth::Oid8`].
#[derive(Clone, Copy)]
pub(crate) struct Oid8Layout;

impl Layout for OidLayout {
    const KEY_END: usize = 16;
    const LEN: usize = KeyWidth::Oid.tuple_len();

    type Order = u64;

    #[inline]
    fn order_of(key: Key) -> u64 {
        key.chunk_id.get() << 32 | u64::from(from_lowest(key.chunk_seq))
    }

    #[inline]
    fn order(tuple: &[u8]) -> Option<u64> {
        // The id is the lower half.
        let both = u64::from_le_bytes(*tuple.get(8..16)?.first_chunk()?);
        Some(both.rotate_left(32) ^ u64::from(SIGN))
    }

    #[inline]
    fn id(tuple: &[u8]) -> Option<u64> {
        Some(u32::from_le_bytes(*tuple.get(8..12)?.first_chunk()?).into())
    }

    #[inline]
    fn rank(tuple: &[u8]) -> Option<Rank> {
        let seq = i32::from_le_bytes(*tuple.get(12..16)?.first_chunk()?);
        Some(Rank { id: Self::id(tuple)?, seq: seq.into() })
    }
}

impl Layout for Oid8Layout {
    const KEY_END: usize = 20;
    const LEN: usize = KeyWidth::Oid8.tuple_len();

    type Order = u128;

    #[inline]
    fn order_of(key: Key) -> u128 {
        u128::from(key.chunk_id.get()) << 64 | u128::from(from_lowest(key.chunk_seq))
    }

    #[inline]
    fn order(tuple: &[u8]) -> Option<u128> {
        let seq = i32::from_le_bytes(*tuple.get(16..20)?.first_chunk()?);
        Some(u128::from(Self::id(tuple)?) << 64 | u128::from(from_lowest(seq)))
    }

    #[inline]
    fn id(tuple: &[u8]) -> Option<u64> {
        Some(u64::from_le_bytes(*tuple.get(8..16)?.first_chunk()?))
    }

    #[inline]
    fn rank(tuple: &[u8]) -> Option<Rank> {
        let seq = i32::from_le_bytes(*tuple.get(16..20)?.first_chunk()?);
        Some(Rank { id: Self::id(tuple)?, seq: seq.into() })
    }
}

/// A key out of the first `KEY_END` bytes of a tuple.
#[inline]
pub(crate) fn key_of(width: KeyWidth, tuple: &[u8]) -> Option<Key> {
    let (id, seq) = match width {
        KeyWidth::Oid => {
            let id = u32::from_le_bytes(*tuple.get(8..12)?.first_chunk()?);
            (Oid8::from(Oid::new(id)), tuple.get(12..16)?)
        }
        KeyWidth::Oid8 => {
            let id = u64::from_le_bytes(*tuple.get(8..16)?.first_chunk()?);
            (Oid8::new(id), tuple.get(16..20)?)
        }
    };
    Some(Key { chunk_id: id, chunk_seq: i32::from_le_bytes(*seq.first_chunk()?) })
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn ranks_order_keys_as_the_server_does() {
        let ids = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
        let seqs = [i32::MIN, -1, 0, 1, i32::MAX];
        let keys: Vec<Key> = ids
            .iter()
            .flat_map(|id| seqs.iter().map(|seq| Key::new(Oid8::new(*id), *seq)))
            .collect();
        for pair in keys.windows(2) {
            let (low, high) = (Rank::of(pair[0]), Rank::of(pair[1]));
            assert!(pair[0] < pair[1] && low.is_below(high) && !high.is_below(low), "{pair:?}");
            assert!(!low.is_below(low));
            assert!(Rank { seq: Rank::NO_SEQ, ..low }.is_below(low));
        }
    }
}
