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

/// The layout of one width, for code that is compiled once for each.
pub(crate) trait Layout {
    /// A key as one number that compares as the key does.
    type Value: Copy + Ord;
    /// Bytes from the start of a tuple through its `chunk_seq`.
    const KEY_END: usize;

    /// The number of a key.
    fn value(key: Key) -> Self::Value;

    /// The number of a leaf tuple's key.
    fn read(tuple: &[u8]) -> Option<Self::Value>;

    /// How far one number is above another, not above it, near enough to guess a place by.
    fn distance(value: Self::Value, from: Self::Value) -> f64;

    /// The number of a pivot's key, of which only the id is there: no sequence number is below.
    fn read_id(tuple: &[u8]) -> Option<Self::Value>;
}

/// See [`KeyWidth::Oid`].
pub(crate) struct OidLayout;

/// See [`KeyWidth::Oid8`].
pub(crate) struct Oid8Layout;

/// Sequence numbers are signed; with the highest bit turned over they compare as unsigned ones.
const SIGN: u32 = 1 << 31;

impl Layout for OidLayout {
    type Value = u64;
    const KEY_END: usize = 16;

    #[inline]
    fn value(key: Key) -> u64 {
        // An id of another width is refused, or known to be absent, before it comes here.
        key.chunk_id.get() << 32 | u64::from(key.chunk_seq.cast_unsigned() ^ SIGN)
    }

    #[inline]
    fn read(tuple: &[u8]) -> Option<u64> {
        let data = u64::from_le_bytes(*tuple.get(8..16)?.first_chunk()?);
        Some(data.rotate_left(32) ^ u64::from(SIGN))
    }

    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "a guess")]
    fn distance(value: u64, from: u64) -> f64 {
        value.wrapping_sub(from) as f64
    }

    #[inline]
    fn read_id(tuple: &[u8]) -> Option<u64> {
        let id = u32::from_le_bytes(*tuple.get(8..12)?.first_chunk()?);
        Some(u64::from(id) << 32)
    }
}

impl Layout for Oid8Layout {
    type Value = (u64, u32);
    const KEY_END: usize = 20;

    #[inline]
    fn value(key: Key) -> (u64, u32) {
        (key.chunk_id.get(), key.chunk_seq.cast_unsigned() ^ SIGN)
    }

    #[inline]
    fn read(tuple: &[u8]) -> Option<(u64, u32)> {
        let data: &[u8; 12] = tuple.get(8..20)?.first_chunk()?;
        let id = u64::from_le_bytes(*data.first_chunk()?);
        let seq = u32::from_le_bytes(*data.last_chunk()?);
        Some((id, seq ^ SIGN))
    }

    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "a guess")]
    fn distance(value: (u64, u32), from: (u64, u32)) -> f64 {
        value.0.wrapping_sub(from.0) as f64 * 4_294_967_296.0 + f64::from(value.1)
            - f64::from(from.1)
    }

    #[inline]
    fn read_id(tuple: &[u8]) -> Option<(u64, u32)> {
        Some((u64::from_le_bytes(*tuple.get(8..16)?.first_chunk()?), 0))
    }
}

/// A key out of the first `KEY_END` bytes of a tuple.
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
    use super::*;

    #[test]
    fn numbers_order_keys_as_the_server_does() {
        let ids = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
        let seqs = [i32::MIN, -1, 0, 1, i32::MAX];
        let keys: Vec<Key> = ids
            .iter()
            .flat_map(|id| seqs.iter().map(|seq| Key::new(Oid8::new(*id), *seq)))
            .collect();
        for pair in keys.windows(2) {
            assert!(pair[0] < pair[1]);
            assert!(OidLayout::value(pair[0]) < OidLayout::value(pair[1]), "{pair:?}");
            assert!(Oid8Layout::value(pair[0]) < Oid8Layout::value(pair[1]), "{pair:?}");
        }
    }

    use std::vec::Vec;
}
