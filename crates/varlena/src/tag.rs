//! The byte behind `0x01`: what kind of pointer follows. It is not a length, though 18 looks like one.

/// The kinds of pointer datum.
#[doc(alias = "vartag_external")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Tag {
    /// The address of another datum; logical decoding's, never on disk.
    #[doc(alias = "VARTAG_INDIRECT")]
    Indirect = 1,
    /// The address of an expanded object, read-only; never on disk.
    #[doc(alias = "VARTAG_EXPANDED_RO")]
    ExpandedRo = 2,
    /// The address of an expanded object, read-write; never on disk.
    #[doc(alias = "VARTAG_EXPANDED_RW")]
    ExpandedRw = 3,
    /// An out-of-line value with a 64-bit id. Of the coming release: the number is the one its
    /// patch series uses, and this line is the only place that knows it.
    #[doc(alias = "VARTAG_ONDISK_OID8")]
    Oid8 = 4,
    /// An out-of-line value with a 32-bit id.
    #[doc(alias = "VARTAG_ONDISK")]
    #[doc(alias = "VARTAG_ONDISK_OID")]
    Oid = 18,
    /// An out-of-line value found by the tuple id of its root. Not released: the number is ours,
    /// and this line is the only place that knows it.
    #[doc(alias = "VARTAG_DIRECT")]
    Direct = 20,
}

impl Tag {
    /// The tag of a byte, if it is one.
    #[inline]
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Indirect,
            2 => Self::ExpandedRo,
            3 => Self::ExpandedRw,
            4 => Self::Oid8,
            18 => Self::Oid,
            20 => Self::Direct,
            _ => return None,
        })
    }

    /// The byte itself.
    #[inline]
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// The bytes of the whole datum (`0x01`, tag, payload) on disk; `None` for the tags that hold
    /// a process's addresses and must never be there.
    #[doc(alias = "VARTAG_SIZE")]
    #[inline]
    #[must_use]
    pub const fn datum_len(self) -> Option<usize> {
        match self {
            Self::Oid => Some(18),
            Self::Oid8 | Self::Direct => Some(22),
            Self::Indirect | Self::ExpandedRo | Self::ExpandedRw => None,
        }
    }
}
