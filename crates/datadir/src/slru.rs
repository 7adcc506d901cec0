//! The logs about transactions, by name.
//!
//! Source: `slru.c` (REL_18).

/// The logs about transactions, which are kept in pages of their own.
#[doc(alias = "SlruCtl")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slru {
    /// What became of each transaction.
    #[doc(alias = "clog")]
    Xact,
    /// The parent of each subtransaction.
    Subtrans,
    /// Where each multixact's members start.
    MultiXactOffsets,
    /// The members of multixacts.
    MultiXactMembers,
}

impl Slru {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Xact, Self::Subtrans, Self::MultiXactOffsets, Self::MultiXactMembers];
    /// How many pages a segment has.
    #[doc(alias = "SLRU_PAGES_PER_SEGMENT")]
    pub const PAGES_PER_SEGMENT: u32 = 32;

    /// Its folder.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Xact => "pg_xact",
            Self::Subtrans => "pg_subtrans",
            Self::MultiXactOffsets => "pg_multixact/offsets",
            Self::MultiXactMembers => "pg_multixact/members",
        }
    }
}
