//! The one place that knows which block sizes there are.
use core::fmt;

/// The size of every block of a cluster, fixed when the server is compiled.
#[doc(alias = "BLCKSZ")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockSize(u16);

impl BlockSize {
    /// 1 KiB.
    pub const KIB_1: Self = Self(1 << 10);
    /// 2 KiB.
    pub const KIB_2: Self = Self(2 << 10);
    /// 4 KiB.
    pub const KIB_4: Self = Self(4 << 10);
    /// 8 KiB: what nearly every server is compiled with.
    pub const KIB_8: Self = Self(8 << 10);
    /// 16 KiB.
    pub const KIB_16: Self = Self(16 << 10);
    /// 32 KiB: the most that 15 bits of a line pointer reach.
    pub const KIB_32: Self = Self(32 << 10);
    /// All of them, smallest first.
    pub const ALL: [Self; 6] =
        [Self::KIB_1, Self::KIB_2, Self::KIB_4, Self::KIB_8, Self::KIB_16, Self::KIB_32];

    /// The block size of so many bytes.
    ///
    /// # Errors
    /// [`BlockSizeError`] for anything but 1, 2, 4, 8, 16 or 32 KiB.
    pub const fn new(bytes: usize) -> Result<Self, BlockSizeError> {
        let mut index = 0;
        while index < Self::ALL.len() {
            if Self::ALL[index].bytes() == bytes {
                return Ok(Self::ALL[index]);
            }
            index += 1;
        }
        Err(BlockSizeError { bytes })
    }

    /// In bytes: 1024..=32768.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    /// In bytes, as wide as the offsets in a page header.
    #[must_use]
    pub const fn bytes_u16(self) -> u16 {
        self.0
    }
}

impl Default for BlockSize {
    /// 8 KiB, as servers are compiled unless told otherwise.
    fn default() -> Self {
        Self::KIB_8
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB", self.0 / 1024)
    }
}

/// No server can be compiled with blocks of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizeError {
    /// The bytes that were asked for or found.
    pub bytes: usize,
}

impl fmt::Display for BlockSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no block size: {} bytes, expected 1, 2, 4, 8, 16 or 32 KiB", self.bytes)
    }
}

impl core::error::Error for BlockSizeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_from_1_to_32_kib_are_block_sizes() {
        for bytes in (0..=65_536).chain([usize::MAX]) {
            let expected = [1024, 2048, 4096, 8192, 16_384, 32_768].contains(&bytes);
            match BlockSize::new(bytes) {
                Ok(size) => assert!(expected && size.bytes() == bytes, "{bytes}"),
                Err(error) => assert!(!expected && error.bytes == bytes, "{bytes}"),
            }
        }
    }
}
