//! How a value is compressed, and the word that says so.
//!
//! ```text
//! bit 0                                     30          32
//!     | length in bytes                      | method    |
//! ```
//! The same 32 bits serve twice with another length in them: behind an inline header and in front
//! of a stored stream (`va_tcinfo`) it is the raw payload's, in a pointer (`va_extinfo`) the stored one's.
use core::fmt;

use crate::{MAX_DATUM_LEN, VarlenaError};

/// A TOAST compression method.
#[doc(alias = "ToastCompressionId")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompressionMethod {
    /// PostgreSQL's own LZ codec; every server reads it.
    #[doc(alias = "TOAST_PGLZ_COMPRESSION_ID")]
    Pglz = 0,
    /// An LZ4 block; servers from 14 on that were built with it.
    #[doc(alias = "TOAST_LZ4_COMPRESSION_ID")]
    Lz4 = 1,
}

impl CompressionMethod {
    /// The method of two method bits, or `None` for 2 and 3, which no server writes.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::Pglz),
            1 => Some(Self::Lz4),
            _ => None,
        }
    }

    /// The two method bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// The name as `pg_column_compression` gives it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pglz => "pglz",
            Self::Lz4 => "lz4",
        }
    }
}

impl fmt::Display for CompressionMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A length of 30 bits and a method of 2.
#[doc(alias = "va_tcinfo")]
#[doc(alias = "va_extinfo")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompressionInfo(u32);

impl CompressionInfo {
    /// The bits that are the length.
    #[expect(clippy::cast_possible_truncation, reason = "30 bits")]
    pub(crate) const LEN_MASK: u32 = MAX_DATUM_LEN as u32;

    /// Any 32 bits.
    #[inline]
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// Packs a length and a method.
    ///
    /// # Errors
    /// [`VarlenaError::TooLong`] if the length takes more than 30 bits.
    pub const fn new(len: usize, method: CompressionMethod) -> Result<Self, VarlenaError> {
        if len > MAX_DATUM_LEN {
            return Err(VarlenaError::TooLong { len, limit: MAX_DATUM_LEN });
        }
        #[expect(clippy::cast_possible_truncation, reason = "30 bits, checked above")]
        Ok(Self(len as u32 | (method.bits() as u32) << 30))
    }

    /// All 32 bits.
    #[inline]
    #[must_use]
    pub const fn word(self) -> u32 {
        self.0
    }

    /// The length, 0..2^30 bytes; the type's doc says of what.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        (self.0 & Self::LEN_MASK) as usize
    }

    /// Whether the length is zero.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The two method bits, whether or not they name a method.
    #[inline]
    #[must_use]
    pub const fn method_bits(self) -> u8 {
        (self.0 >> 30) as u8
    }

    /// The method.
    ///
    /// # Errors
    /// [`VarlenaError::UnknownMethod`] for the two bit patterns that name none.
    #[inline]
    pub const fn method(self) -> Result<CompressionMethod, VarlenaError> {
        match CompressionMethod::from_bits(self.method_bits()) {
            Some(method) => Ok(method),
            None => Err(VarlenaError::UnknownMethod { bits: self.method_bits() }),
        }
    }
}
