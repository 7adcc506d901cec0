//! Object ids, 32 and 64 bits wide.
use core::fmt;

/// An object id: a catalog row, and until the coming release every TOAST value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid(u32);

impl Oid {
    /// "No object".
    #[doc(alias = "InvalidOid")]
    pub const INVALID: Self = Self(0);
    /// The first id given to what users make; the counter restarts here when it wraps.
    #[doc(alias = "FirstNormalObjectId")]
    pub const FIRST_NORMAL: Self = Self(16_384);

    /// Any 32 bits.
    #[must_use]
    pub const fn new(oid: u32) -> Self {
        Self(oid)
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether it names an object.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A 64-bit object id. Wide enough for the id of any TOAST value, so maps, errors and reports carry
/// ids in this type whatever the relation stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid8(u64);

impl Oid8 {
    /// "No object".
    pub const INVALID: Self = Self(0);

    /// Any 64 bits.
    #[must_use]
    pub const fn new(oid: u64) -> Self {
        Self(oid)
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<Oid> for Oid8 {
    fn from(oid: Oid) -> Self {
        Self(u64::from(oid.0))
    }
}

impl fmt::Display for Oid8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
