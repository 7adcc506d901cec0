//! What a vacuum is asked for, and what it did.
use core::time::Duration;

use pgtoast_base::{ItemPointer, Xid};

use crate::StoreError;

/// An index whose entries lead to rows of a heap that is vacuumed.
pub trait IndexVacuum {
    /// Removes the entries whose rows are gone, and says how many there were.
    ///
    /// # Errors
    /// The index's own. The vacuum ends with it, and leaves the line pointers of the rows.
    fn remove(&self, is_gone: &mut dyn FnMut(ItemPointer) -> bool) -> Result<u64, StoreError>;
}

/// When the entries of rows that are gone are removed from the index, and their line pointers
/// freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IndexCleanup {
    /// Not while fewer than 2 % of the pages have any: an index is gone through as a whole.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: dead line pointers stay.
    Never,
}

/// What a vacuum is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VacuumOptions {
    /// Whether to look at pages that everybody sees whole but that may have something to freeze.
    /// Only then is it sure to find out the oldest id that is left.
    pub aggressive: bool,
    /// How many transactions ago a tuple must have been inserted to be frozen.
    #[doc(alias = "vacuum_freeze_min_age")]
    pub freeze_min_age: u32,
    /// Whether to go through the index.
    #[doc(alias = "INDEX_CLEANUP")]
    pub index_cleanup: IndexCleanup,
    /// How many rows that are gone are remembered, at 8 bytes each, before the index is gone
    /// through.
    #[doc(alias = "maintenance_work_mem")]
    pub dead_items: usize,
    /// Whether to give back empty pages at the end.
    pub truncate: bool,
    /// How long to try for the lock that this takes.
    pub truncate_wait: Duration,
}

impl Default for VacuumOptions {
    /// A server's: freeze after 50 million transactions, 64 MiB for rows that are gone.
    fn default() -> Self {
        Self {
            aggressive: false,
            freeze_min_age: 50_000_000,
            index_cleanup: IndexCleanup::Auto,
            dead_items: (64 << 20) / size_of::<ItemPointer>(),
            truncate: true,
            truncate_wait: Duration::from_secs(5),
        }
    }
}

impl VacuumOptions {
    /// Freezes whatever everybody sees, on every page.
    #[doc(alias = "VACUUM FREEZE")]
    #[must_use]
    pub fn freeze() -> Self {
        Self { aggressive: true, freeze_min_age: 0, ..Self::default() }
    }
}

/// What a vacuum did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VacuumReport {
    /// Blocks of the heap when it began.
    pub pages: u32,
    /// Those that it looked at.
    pub pages_scanned: u32,
    /// Those that it found or made visible to everybody, as a whole.
    pub pages_all_visible: u32,
    /// Of these, those with nothing to freeze.
    pub pages_all_frozen: u32,
    /// Blocks that it cut off.
    pub pages_truncated: u32,
    /// Tuples that are gone.
    pub tuples_removed: u64,
    /// Tuples that are there.
    pub tuples_kept: u64,
    /// Of these, those that are deleted but may still be seen.
    pub tuples_recently_dead: u64,
    /// Tuples that were frozen.
    pub tuples_frozen: u64,
    /// Dead line pointers that were found.
    pub dead_items: u64,
    /// Of these, those that were freed.
    pub dead_items_removed: u64,
    /// Entries that the index removed.
    pub index_entries_removed: u64,
    /// How often the index was gone through.
    pub index_passes: u32,
    /// Whether dead line pointers were left because they were few.
    pub bypassed: bool,
    /// All older ids are frozen now; `None` if pages were left out that may have older ones.
    #[doc(alias = "relfrozenxid")]
    pub oldest_unfrozen: Option<Xid>,
}
