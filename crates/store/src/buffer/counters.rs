//! What a pool counts while it works.
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use super::statistics::{PageStatistics, PoolStatistics};
use crate::{Fork, RelationKind};

/// What is counted apart: pages of each kind of relation and fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class(u8);

impl Class {
    pub(super) const COUNT: usize = 9;

    pub(super) fn new(kind: RelationKind, fork: Fork) -> Self {
        let kind = match kind {
            RelationKind::Heap => 0,
            RelationKind::Toast => 1,
            RelationKind::ToastIndex => 2,
        };
        let fork = match fork {
            Fork::Main => 0,
            Fork::FreeSpaceMap => 1,
            Fork::VisibilityMap => 2,
        };
        Self(3 * kind + fork)
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Counters that no model explores: nothing depends on them.
#[derive(Debug)]
pub(super) struct Counters {
    /// Hits are counted at every use of a page, so threads have counters apart.
    hits: Box<[CachePadded<[AtomicU64; Class::COUNT]>]>,
    classes: [Counts; Class::COUNT],
    pub(super) sync_calls: AtomicU64,
    pub(super) length_calls: AtomicU64,
}

/// Of one class, hits apart.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) reads: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) extends: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) read_calls: AtomicU64,
    pub(super) write_calls: AtomicU64,
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Counters {
    const SHARDS: usize = 16;

    pub(super) fn new() -> Self {
        Self {
            hits: (0..Self::SHARDS).map(|_| CachePadded::default()).collect(),
            classes: Default::default(),
            sync_calls: AtomicU64::new(0),
            length_calls: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn hit(&self, class: Class) {
        self.hits[shard()][class.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn of(&self, class: Class) -> &Counts {
        &self.classes[class.index()]
    }

    pub(super) fn read(&self) -> PoolStatistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let classes = core::array::from_fn(|class| {
            let counts = &self.classes[class];
            PageStatistics {
                hits: self.hits.iter().map(|hits| get(&hits[class])).sum(),
                reads: get(&counts.reads),
                writes: get(&counts.writes),
                extends: get(&counts.extends),
                evictions: get(&counts.evictions),
                read_calls: get(&counts.read_calls),
                write_calls: get(&counts.write_calls),
            }
        });
        let (syncs, lengths) = (get(&self.sync_calls), get(&self.length_calls));
        PoolStatistics::new(classes, syncs, lengths)
    }
}

/// A number that few other threads have.
#[inline]
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % Counters::SHARDS;
    }
    SHARD.with(|shard| *shard)
}
