//! Whether C's `char` has a sign where the server runs.

/// The sign of C's plain `char` on the server whose bytes are to be matched.
///
/// PostgreSQL's compressor hashes input bytes as `char`, so for inputs with bytes above 127 the
/// platform shows in the stream. Any server reads the streams of any other: only byte-for-byte
/// comparison needs to care.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CharSign {
    /// x86-64, and ARM under macOS.
    #[default]
    Signed,
    /// Linux on ARM, POWER and s390x.
    Unsigned,
}

impl CharSign {
    /// What a server built on this very platform would use.
    #[must_use]
    pub const fn of_this_platform() -> Self {
        if core::ffi::c_char::MIN == 0 { Self::Unsigned } else { Self::Signed }
    }

    /// The byte as C widens it to `int`.
    #[inline]
    pub(crate) const fn widen(self, byte: u8) -> i32 {
        match self {
            Self::Signed => byte.cast_signed() as i32,
            Self::Unsigned => byte as i32,
        }
    }
}
