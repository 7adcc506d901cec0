//! Four bytes that say where an item is, and what is left of it.
//!
//! ```text
//! bit 0        15      17       32      of one little-endian u32
//!     | offset | state | length |
//! ```
//! Source: `itemid.h`, `ItemIdData` (REL_18), as compilers lay its bit fields out on
//! little-endian hosts.
use core::fmt;

use pgtoast_base::OffsetNumber;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A line pointer. Any four bytes are one; the page says whether they lead anywhere.
#[doc(alias = "ItemIdData")]
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct LinePointer(U32);
const _: () = assert!(size_of::<LinePointer>() == 4 && align_of::<LinePointer>() == 1);

impl LinePointer {
    /// In bytes.
    pub const LEN: usize = size_of::<Self>();
    /// Free for use: all bits zero.
    pub const UNUSED: Self = Self::from_word(0);
    /// Fifteen bits: the most that offset and length can say.
    const FIELD: u32 = 0x7fff;

    /// The line pointer of a stored item.
    ///
    /// # Panics
    /// When `offset` or `len`, both in bytes, needs more than 15 bits: no page is that long.
    #[inline]
    #[must_use]
    pub const fn normal(offset: u16, len: u16) -> Self {
        assert!(offset as u32 <= Self::FIELD && len as u32 <= Self::FIELD);
        Self::from_word(offset as u32 | (LineState::Normal as u32) << 15 | (len as u32) << 17)
    }

    /// A line pointer that leads to another one.
    ///
    /// # Panics
    /// When `target` needs more than 15 bits: no page has that many items.
    #[must_use]
    pub const fn redirect(target: OffsetNumber) -> Self {
        assert!(target.get() as u32 <= Self::FIELD);
        Self::from_word(target.get() as u32 | (LineState::Redirect as u32) << 15)
    }

    /// A heap item that is gone but may still be named by indexes.
    #[must_use]
    pub const fn dead() -> Self {
        Self::from_word((LineState::Dead as u32) << 15)
    }

    /// From its 32 bits.
    #[inline]
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self(U32::from_bytes(word.to_le_bytes()))
    }

    /// Its 32 bits.
    #[inline]
    #[must_use]
    pub const fn word(self) -> u32 {
        self.0.get()
    }

    /// What became of the item.
    #[inline]
    #[doc(alias = "lp_flags")]
    #[must_use]
    pub const fn state(self) -> LineState {
        match self.word() >> 15 & 3 {
            0 => LineState::Unused,
            1 => LineState::Normal,
            2 => LineState::Redirect,
            _ => LineState::Dead,
        }
    }

    /// Where the item starts, in bytes from the start of the page: `0..=32767`.
    #[inline]
    #[doc(alias = "lp_off")]
    #[must_use]
    pub const fn offset(self) -> u16 {
        (self.word() & Self::FIELD) as u16
    }

    /// How long the item is, in bytes: `0..=32767`. Heap items give their true length, without
    /// padding.
    #[inline]
    #[doc(alias = "lp_len")]
    #[must_use]
    pub const fn len(self) -> u16 {
        (self.word() >> 17) as u16
    }

    /// Whether the length is zero: nothing is stored.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Where a redirect leads: the offset field counts line pointers there. Only meaningful in
    /// state [`LineState::Redirect`].
    #[doc(alias = "ItemIdGetRedirect")]
    #[must_use]
    pub const fn target(self) -> OffsetNumber {
        OffsetNumber::new(self.offset())
    }
}

impl fmt::Debug for LinePointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinePointer({:?}, {}, {})", self.state(), self.offset(), self.len())
    }
}

/// What became of the item behind a line pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LineState {
    /// Free for use.
    #[doc(alias = "LP_UNUSED")]
    Unused = 0,
    /// It is stored in the page.
    #[doc(alias = "LP_NORMAL")]
    Normal = 1,
    /// Its tuple is gone, a newer version follows at another line pointer (heap only).
    #[doc(alias = "LP_REDIRECT")]
    Redirect = 2,
    /// It is gone. A heap keeps no storage for it; an index does, and only marks it.
    #[doc(alias = "LP_DEAD")]
    Dead = 3,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_fields_do_not_touch() {
        for (word, state, offset, len) in [
            (0x0000_0000, LineState::Unused, 0, 0),
            (0x0000_7fff, LineState::Unused, 0x7fff, 0),
            (0x0000_8000, LineState::Normal, 0, 0),
            (0x0001_0000, LineState::Redirect, 0, 0),
            (0x0001_8000, LineState::Dead, 0, 0),
            (0xfffe_0000, LineState::Unused, 0, 0x7fff),
            (0x0fe0_9810, LineState::Normal, 6160, 2032), // the first of four full TOAST chunks
        ] {
            let pointer = LinePointer::from_word(word);
            assert_eq!((pointer.state(), pointer.offset(), pointer.len()), (state, offset, len));
        }
    }

    #[test]
    fn what_is_built_reads_back() {
        let normal = LinePointer::normal(0x7ff8, 0x7ffe);
        assert_eq!(
            (normal.state(), normal.offset(), normal.len()),
            (LineState::Normal, 0x7ff8, 0x7ffe)
        );
        let redirect = LinePointer::redirect(OffsetNumber::new(291));
        assert_eq!((redirect.state(), redirect.target().get()), (LineState::Redirect, 291));
        assert_eq!(LinePointer::dead().word(), 0x0001_8000);
        assert_eq!(LinePointer::UNUSED, LinePointer::default());
    }
}
