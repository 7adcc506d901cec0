//! The sixteen bytes behind a leaf's data that say whose they are.
//!
//! ```text
//! chunk_data    | data of the value … | tag u64                      | length u32           | crc u32 |
//!                                       `- bits 0..16 generation       `- bits 0..30 stored length
//!                                          bits 16..64 value              bits 30..32 form
//! ```
//! A tall tree's root, whose data are otherwise null, has a trailer too: the tag there is that of the latest edit.
//! The CRC-32C is over the tag, the leaf's number as a u32, and the data. The length is 0 in leaves that
//! were written before anyone knew it. The form is 0 as it is, 1 pglz, 2 lz4, 3 groups. All little-endian.
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::crc32c::Crc32c;

/// In bytes.
pub(crate) const TRAILER_LEN: usize = size_of::<Trailer>();

/// Which value the leaves of a tree belong to, and which edition of it.
///
/// Whoever writes a value gives it a number that no other value of the relation has, and with which they
/// find its row again. Edits count the generation up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueTag(u64);

impl ValueTag {
    /// The first generation of value `value`, of which 48 bits are kept.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value << 16)
    }

    /// From its 64 bits.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// All 64 bits.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Which value: 48 bits.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0 >> 16
    }

    /// How often it was edited; the count stops at 65535.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low 16 bits")]
    pub const fn generation(self) -> u16 {
        self.0 as u16
    }

    /// The tag of the next edition.
    #[must_use]
    pub const fn next_generation(self) -> Self {
        if self.generation() == u16::MAX { self } else { Self(self.0 + 1) }
    }
}

/// How the bytes in the leaves make the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum StoredForm {
    AsIs = 0,
    Pglz = 1,
    Lz4 = 2,
    Groups = 3,
}

/// What goes into the trailers of a value, but for the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrailerDraft {
    pub(crate) tag: ValueTag,
    /// Stored length, 0 if unknown, and form.
    pub(crate) length_word: u32,
}

impl TrailerDraft {
    #[expect(clippy::cast_possible_truncation, reason = "a value has less than 2^30 bytes")]
    pub(crate) const fn new(tag: ValueTag, stored_len: usize, form: StoredForm) -> Self {
        Self { tag, length_word: stored_len as u32 | (form as u32) << 30 }
    }

    pub(crate) fn trailer<'a>(self, number: u32, data: impl Iterator<Item = &'a [u8]>) -> Trailer {
        Trailer {
            tag: U64::new(self.tag.word()),
            length_word: U32::new(self.length_word),
            sum: U32::new(sum(self.tag, number, data)),
        }
    }
}

/// As drawn at the top of this file.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Trailer {
    tag: U64,
    length_word: U32,
    sum: U32,
}
const _: () = assert!(TRAILER_LEN == 16);

impl Trailer {
    /// The trailer that ends `bytes`, and the data before it.
    pub(crate) fn split(bytes: &[u8]) -> Option<(&[u8], Self)> {
        Self::read_from_suffix(bytes).ok()
    }

    pub(crate) fn draft(self) -> TrailerDraft {
        TrailerDraft {
            tag: ValueTag::from_word(self.tag.get()),
            length_word: self.length_word.get(),
        }
    }

    /// The sum that is there, and the one that the data make.
    pub(crate) fn sums(self, number: u32, data: &[u8]) -> (u32, u32) {
        (self.sum.get(), sum(self.draft().tag, number, core::iter::once(data)))
    }
}

fn sum<'a>(tag: ValueTag, number: u32, data: impl Iterator<Item = &'a [u8]>) -> u32 {
    let start = Crc32c::new().update(&tag.word().to_le_bytes()).update(&number.to_le_bytes());
    data.fold(start, Crc32c::update).finish()
}
