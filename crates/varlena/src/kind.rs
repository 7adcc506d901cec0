//! What the first byte of a datum says.

/// The form of a datum, read off its first byte (little-endian servers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A zero byte. Off the column's alignment it is padding; on it, it is the low byte of a
    /// [`Long`](Self::Long) header whose length is a multiple of 64.
    Pad,
    /// `xxxxxx00`: a 4-byte header, then the payload as it is.
    #[doc(alias = "VARATT_IS_4B_U")]
    Long,
    /// `xxxxxx10`: a 4-byte header, 4 bytes of compression info, then a compressed stream.
    #[doc(alias = "VARATT_IS_4B_C")]
    LongCompressed,
    /// `0x01`: a tag follows, then a pointer to where the value is.
    #[doc(alias = "VARATT_IS_1B_E")]
    Pointer,
    /// Any other odd byte: it is the whole header.
    #[doc(alias = "VARATT_IS_1B")]
    Short,
}

impl Kind {
    /// The form that a first byte announces.
    #[inline]
    #[must_use]
    pub const fn of(first: u8) -> Self {
        match first {
            0x00 => Self::Pad,
            0x01 => Self::Pointer,
            _ if first & 1 == 1 => Self::Short,
            _ if first & 3 == 2 => Self::LongCompressed,
            _ => Self::Long,
        }
    }
}
