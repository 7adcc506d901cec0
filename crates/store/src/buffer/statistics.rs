use core::ops::{Add, Sub};

use super::counters::Class;
use crate::{Fork, RelationKind};

/// What was done with pages, counted since the pool was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStatistics {
    /// Pages that were in memory when they were asked for.
    pub hits: u64,
    /// Pages read from files.
    pub reads: u64,
    /// Pages written to files.
    pub writes: u64,
    /// Pages that relations were extended by.
    pub extends: u64,
    /// Pages that made room for others.
    pub evictions: u64,
    /// System calls that read those pages.
    pub read_calls: u64,
    /// System calls that wrote those pages.
    pub write_calls: u64,
}

impl PageStatistics {
    fn zip(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            hits: of(self.hits, other.hits),
            reads: of(self.reads, other.reads),
            writes: of(self.writes, other.writes),
            extends: of(self.extends, other.extends),
            evictions: of(self.evictions, other.evictions),
            read_calls: of(self.read_calls, other.read_calls),
            write_calls: of(self.write_calls, other.write_calls),
        }
    }
}

impl Add for PageStatistics {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_add)
    }
}

impl Sub for PageStatistics {
    type Output = Self;

    /// What was done between two looks.
    fn sub(self, earlier: Self) -> Self {
        self.zip(earlier, u64::wrapping_sub)
    }
}

/// What a pool did since it was made.
///
/// Each counter is exact at rest. While threads work, counters read together may be of slightly
/// different moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatistics {
    classes: [PageStatistics; Class::COUNT],
    /// System calls that made files durable.
    pub sync_calls: u64,
    /// System calls that changed the length of files.
    pub length_calls: u64,
}

impl PoolStatistics {
    pub(super) fn new(
        classes: [PageStatistics; Class::COUNT],
        sync_calls: u64,
        length_calls: u64,
    ) -> Self {
        Self { classes, sync_calls, length_calls }
    }

    /// That fork of all relations of that kind.
    #[must_use]
    pub fn of(&self, kind: RelationKind, fork: Fork) -> PageStatistics {
        self.classes[Class::new(kind, fork).index()]
    }

    /// All forks of all relations of that kind.
    #[must_use]
    pub fn of_kind(&self, kind: RelationKind) -> PageStatistics {
        let forks = [Fork::Main, Fork::FreeSpaceMap, Fork::VisibilityMap];
        forks.into_iter().map(|fork| self.of(kind, fork)).fold(PageStatistics::default(), Add::add)
    }

    /// All pages.
    #[must_use]
    pub fn total(&self) -> PageStatistics {
        self.classes.into_iter().fold(PageStatistics::default(), Add::add)
    }
}

impl Sub for PoolStatistics {
    type Output = Self;

    /// What was done between two looks.
    fn sub(self, earlier: Self) -> Self {
        Self {
            classes: core::array::from_fn(|class| self.classes[class] - earlier.classes[class]),
            sync_calls: self.sync_calls.wrapping_sub(earlier.sync_calls),
            length_calls: self.length_calls.wrapping_sub(earlier.length_calls),
        }
    }
}
