//! Alignment as `pg_type.typalign` names it. Offsets are rounded, never addresses: a page may lie
//! anywhere in memory.

/// The strictest alignment of anything in a page, in bytes.
#[doc(alias = "MAXIMUM_ALIGNOF")]
pub const MAXALIGN: usize = 8;

/// Rounds a byte count up to a multiple of [`MAXALIGN`]. Overflow panics in debug builds; every
/// length in a page is far below it.
#[doc(alias = "MAXALIGN")]
#[must_use]
pub const fn maxalign(bytes: usize) -> usize {
    (bytes + (MAXALIGN - 1)) & !(MAXALIGN - 1)
}

/// Rounds a byte count down to a multiple of [`MAXALIGN`].
#[doc(alias = "MAXALIGN_DOWN")]
#[must_use]
pub const fn maxalign_down(bytes: usize) -> usize {
    bytes & !(MAXALIGN - 1)
}

/// What a column's offset inside the tuple data is rounded up to.
#[doc(alias = "typalign")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Alignment {
    /// `c`: any offset.
    Char = 0,
    /// `s`: even offsets.
    Short = 1,
    /// `i`: multiples of 4.
    Int = 2,
    /// `d`: multiples of 8.
    Double = 3,
}

impl Alignment {
    /// The alignment that a `typalign` letter stands for.
    #[must_use]
    pub const fn from_typalign(letter: u8) -> Option<Self> {
        match letter {
            b'c' => Some(Self::Char),
            b's' => Some(Self::Short),
            b'i' => Some(Self::Int),
            b'd' => Some(Self::Double),
            _ => None,
        }
    }

    /// The `typalign` letter.
    #[must_use]
    pub const fn typalign(self) -> u8 {
        match self {
            Self::Char => b'c',
            Self::Short => b's',
            Self::Int => b'i',
            Self::Double => b'd',
        }
    }

    /// The multiple, in bytes: 1, 2, 4 or 8.
    #[must_use]
    pub const fn bytes(self) -> usize {
        // A shift rather than a match: a jump for each attribute of each tuple is a guess that the
        // processor loses too often.
        1 << self as u8
    }

    /// Rounds an offset, in bytes from a `MAXALIGN`ed start, up to this alignment.
    #[doc(alias = "att_align_nominal")]
    #[must_use]
    pub const fn up(self, offset: usize) -> usize {
        (offset + (self.bytes() - 1)) & !(self.bytes() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_goes_to_the_next_multiple_and_stays_on_one() {
        for (alignment, offsets) in [
            (Alignment::Char, [(0, 0), (1, 1), (7, 7)]),
            (Alignment::Short, [(0, 0), (1, 2), (2, 2)]),
            (Alignment::Int, [(1, 4), (4, 4), (5, 8)]),
            (Alignment::Double, [(1, 8), (8, 8), (9, 16)]),
        ] {
            for (offset, up) in offsets {
                assert_eq!(alignment.up(offset), up, "{alignment:?} of {offset}");
            }
        }
        assert_eq!([maxalign(0), maxalign(23), maxalign(24), maxalign(25)], [0, 24, 24, 32]);
        assert_eq!([maxalign_down(7), maxalign_down(8), maxalign_down(15)], [0, 8, 8]);
    }

    #[test]
    fn every_letter_comes_back_and_no_other_is_taken() {
        for letter in 0..=255 {
            match Alignment::from_typalign(letter) {
                Some(alignment) => assert_eq!(alignment.typalign(), letter),
                None => assert!(!b"csid".contains(&letter)),
            }
        }
    }
}
