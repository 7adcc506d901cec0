//! A position in the write-ahead log.
use core::fmt;

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A byte position in the write-ahead log; 0 means "none".
#[doc(alias = "XLogRecPtr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(u64);

impl Lsn {
    /// "No position": the page was never logged.
    #[doc(alias = "InvalidXLogRecPtr")]
    pub const INVALID: Self = Self(0);

    /// Any 64 bits.
    #[must_use]
    pub const fn new(position: u64) -> Self {
        Self(position)
    }

    /// The position itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Lsn {
    /// As the server prints it: `16/B374D848`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

/// The eight bytes of an [`Lsn`] in a page header: the high half first, each half little-endian.
#[doc(alias = "PageXLogRecPtr")]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LsnData {
    high: U32,
    low: U32,
}
const _: () = assert!(size_of::<LsnData>() == 8 && align_of::<LsnData>() == 1);

impl LsnData {
    /// The bytes of a log position.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a u64")]
    pub fn new(lsn: Lsn) -> Self {
        Self { high: U32::new((lsn.0 >> 32) as u32), low: U32::new(lsn.0 as u32) }
    }

    /// The log position of the bytes.
    #[must_use]
    pub fn get(self) -> Lsn {
        Lsn(u64::from(self.high.get()) << 32 | u64::from(self.low.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write;

    #[test]
    fn the_high_half_comes_first_though_each_half_is_little_endian() {
        let data = LsnData::new(Lsn::new(0x0102_0304_0506_0708));
        assert_eq!(data.as_bytes(), [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(data.get().get(), 0x0102_0304_0506_0708);
    }

    #[test]
    fn it_prints_as_the_server_prints_it() {
        struct Line([u8; 24], usize);
        impl Write for Line {
            fn write_str(&mut self, s: &str) -> fmt::Result {
                self.0[self.1..self.1 + s.len()].copy_from_slice(s.as_bytes());
                self.1 += s.len();
                Ok(())
            }
        }
        let mut line = Line([0; 24], 0);
        write!(line, "{}", Lsn::new(0x16_b374_d848)).unwrap();
        assert_eq!(&line.0[..line.1], b"16/B374D848");
    }
}
