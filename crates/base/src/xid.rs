//! Transaction ids, which live on a circle.
use core::fmt;

/// A 32-bit transaction id. Half of the circle is older than any normal id, half is newer, so there
/// is no total order: use [`precedes`](Self::precedes).
#[doc(alias = "TransactionId")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Xid(u32);

impl Xid {
    /// "No transaction".
    #[doc(alias = "InvalidTransactionId")]
    pub const INVALID: Self = Self(0);
    /// The transaction that made the catalogs; always committed.
    #[doc(alias = "BootstrapTransactionId")]
    pub const BOOTSTRAP: Self = Self(1);
    /// Committed before anyone can remember.
    #[doc(alias = "FrozenTransactionId")]
    pub const FROZEN: Self = Self(2);
    /// The first id a transaction can get; where the counter restarts when it wraps.
    #[doc(alias = "FirstNormalTransactionId")]
    pub const FIRST_NORMAL: Self = Self(3);

    /// Any 32 bits.
    #[must_use]
    pub const fn new(xid: u32) -> Self {
        Self(xid)
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether it names a transaction, permanent ones included.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 != 0
    }

    /// Whether it was handed out by the counter.
    #[must_use]
    pub const fn is_normal(self) -> bool {
        self.0 >= Self::FIRST_NORMAL.0
    }

    /// Whether `self` is older than `other`. Permanent ids are older than all normal ones and
    /// ordered by value among themselves; normal ids are compared modulo `2^32`.
    #[doc(alias = "TransactionIdPrecedes")]
    #[must_use]
    pub const fn precedes(self, other: Self) -> bool {
        if self.is_normal() && other.is_normal() {
            self.0.wrapping_sub(other.0) > i32::MAX as u32
        } else {
            self.0 < other.0
        }
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_ids_are_compared_around_the_circle_and_permanent_ones_by_value() {
        for (older, newer) in
            [(3, 4), (0xffff_fff0, 3), (100, 0x8000_0063), (2, 3), (2, 0xffff_ffff), (0, 1), (1, 2)]
        {
            let (older, newer) = (Xid::new(older), Xid::new(newer));
            assert!(older.precedes(newer), "{older} {newer}");
            assert!(!newer.precedes(older), "{newer} {older}");
        }
        // Exactly half a circle apart the signed difference is the lowest number: each is older.
        let (a, b) = (Xid::new(100), Xid::new(0x8000_0064));
        assert!(a.precedes(b) && b.precedes(a));
        assert!(!a.precedes(a));
    }
}
