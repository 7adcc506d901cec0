//! Ids for new values.
//!
//! ```text
//! 64-bit counter   | high half | low half |      low halves below 16384 are skipped, also after a wrap
//! id of 64 bits    `------ all of it -----'      never met before: nobody looks
//! id of 32 bits                `----------'      met again after 2^32: probed in the TOAST index, where
//!                                                entries of dead chunks count as any other
//! ```
//! One counter for the whole store, as a server has one for its cluster. A server draws and probes one
//! candidate after the other; here a run of taken ids is read along the leaves of the index, and counts as
//! many probes.
//!
//! Source: `varsup.c`, `GetNewObjectId`; `catalog.c`, `GetNewOidWithIndex` (REL_18); 64-bit ids as the
//! coming release has them.
use core::fmt;
use std::sync::Arc;

use pgtoast_base::{Oid, Oid8};
use pgtoast_nbtree::FreeId;
use pgtoast_toast::ValueIdWidth;

use crate::StoreError;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The low halves that there are.
const LOW_HALVES: u64 = 1 << 32;
/// After so many probes for one id there is a warning; then when they have doubled, up to 128 times as
/// many, and then each time that so many more were made.
const FIRST_WARNING: u64 = 1_000_000;
const LAST_DOUBLING: u64 = 128 * FIRST_WARNING;

/// Told when the search for an id takes long.
pub type ValueIdListener = dyn Fn(ValueIdEvent) + Send + Sync;

/// A search for an id took long: most of those that 32 bits make are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueIdEvent {
    /// A search that was reported before has found one.
    Found {
        /// How many ids were taken.
        probes: u64,
        /// The one that was not.
        value_id: Oid8,
    },
    /// It goes on.
    Searching {
        /// How many ids were taken so far.
        probes: u64,
    },
}

/// What giving out ids has cost since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueIdStatistics {
    /// Ids given out.
    pub given: u64,
    /// Candidates that were taken.
    pub probes: u64,
    /// Warnings that a search takes long.
    pub warnings: u64,
    /// Times that the low half of the counter began anew.
    pub wraps: u64,
}

/// The counter.
pub(crate) struct ValueIds {
    next: AtomicU64,
    given: AtomicU64,
    probes: AtomicU64,
    warnings: AtomicU64,
    wraps: AtomicU64,
    listener: Option<Arc<ValueIdListener>>,
}

impl ValueIds {
    pub(crate) fn new(next: u64, listener: Option<Arc<ValueIdListener>>) -> Self {
        Self {
            next: AtomicU64::new(next),
            given: AtomicU64::new(0),
            probes: AtomicU64::new(0),
            warnings: AtomicU64::new(0),
            wraps: AtomicU64::new(0),
            listener,
        }
    }

    /// What the counter will give next: to be kept while the store is closed.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    pub(crate) fn turn(&self, next: u64) {
        self.next.store(next, Ordering::Relaxed);
    }

    pub(crate) fn set_next(&self, next: u64) {
        self.next.store(next, Ordering::Relaxed);
    }

    pub(crate) fn statistics(&self) -> ValueIdStatistics {
        ValueIdStatistics {
            given: self.given.load(Ordering::Relaxed),
            probes: self.probes.load(Ordering::Relaxed),
            warnings: self.warnings.load(Ordering::Relaxed),
            wraps: self.wraps.load(Ordering::Relaxed),
        }
    }

    /// An id that no value of a relation has. `first_free` asks that relation's index for the first one
    /// that is free from some id on.
    pub(crate) fn give(
        &self,
        width: ValueIdWidth,
        first_free: impl FnMut(Oid8) -> Result<FreeId, StoreError>,
    ) -> Result<Oid8, StoreError> {
        let value_id = match width {
            ValueIdWidth::Oid8 => Oid8::new(self.draw()),
            ValueIdWidth::Oid => self.probe(first_free)?,
        };
        self.given.fetch_add(1, Ordering::Relaxed);
        Ok(value_id)
    }

    /// The next candidate, which nobody else gets.
    #[doc(alias = "GetNewObjectId")]
    fn draw(&self) -> u64 {
        let mut seen = self.next.load(Ordering::Relaxed);
        loop {
            let (high, low) = (seen & !(LOW_HALVES - 1), seen % LOW_HALVES);
            let is_reserved = low < u64::from(Oid::FIRST_NORMAL.get());
            let drawn = if is_reserved { high | u64::from(Oid::FIRST_NORMAL.get()) } else { seen };
            // Only who takes an id has to be alone with it: no other memory hangs on this.
            let taken = self.next.compare_exchange_weak(
                seen,
                drawn.wrapping_add(1),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => {
                    if is_reserved && high > 0 {
                        self.wraps.fetch_add(1, Ordering::Relaxed);
                    }
                    return drawn;
                }
                Err(now) => seen = now,
            }
        }
    }

    #[doc(alias = "GetNewOidWithIndex")]
    fn probe(
        &self,
        mut first_free: impl FnMut(Oid8) -> Result<FreeId, StoreError>,
    ) -> Result<Oid8, StoreError> {
        let mut search = Search { probes: 0, next_warning: FIRST_WARNING };
        loop {
            let drawn = self.draw();
            let candidate = Oid8::new(drawn % LOW_HALVES);
            let free = first_free(candidate)?;
            if free.taken == 0 {
                search.finish(self, candidate);
                return Ok(candidate);
            }
            search.count(self, free.taken);
            if search.probes >= LOW_HALVES {
                return Err(StoreError::ValueIdsTaken);
            }
            // The candidates in between would all be drawn in vain. Another may have come further.
            let high = drawn - candidate.get();
            let beyond = match free.chunk_id {
                Some(free) => high + free.get(),
                None => high + LOW_HALVES,
            };
            self.next.fetch_max(beyond, Ordering::Relaxed);
        }
    }

    fn tell(&self, event: ValueIdEvent) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }
}

impl fmt::Debug for ValueIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueIds")
            .field("next", &self.next())
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

/// One search for an id.
struct Search {
    probes: u64,
    next_warning: u64,
}

impl Search {
    fn count(&mut self, ids: &ValueIds, taken: u64) {
        self.probes += taken;
        ids.probes.fetch_add(taken, Ordering::Relaxed);
        while self.probes >= self.next_warning {
            ids.warnings.fetch_add(1, Ordering::Relaxed);
            ids.tell(ValueIdEvent::Searching { probes: self.next_warning });
            self.next_warning += self.next_warning.min(LAST_DOUBLING);
        }
    }

    fn finish(&self, ids: &ValueIds, value_id: Oid8) {
        if self.probes > FIRST_WARNING {
            ids.tell(ValueIdEvent::Found { probes: self.probes, value_id });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// An index in which these ids are taken.
    fn taken(ranges: &[core::ops::Range<u64>]) -> impl Fn(Oid8) -> Result<FreeId, StoreError> + '_ {
        move |from| {
            let mut id = from.get();
            while let Some(range) = ranges.iter().find(|range| range.contains(&id)) {
                id = range.end;
            }
            let taken = id - from.get();
            Ok(FreeId { chunk_id: (id < LOW_HALVES).then(|| Oid8::new(id)), taken })
        }
    }

    #[test]
    fn a_wrap_skips_the_ids_that_a_server_reserves() {
        let ids = ValueIds::new(LOW_HALVES - 2, None);
        let give = || ids.give(ValueIdWidth::Oid, taken(&[])).map(Oid8::get);
        assert_eq!(give(), Ok(LOW_HALVES - 2));
        assert_eq!(give(), Ok(LOW_HALVES - 1));
        assert_eq!(give(), Ok(16_384));
        assert_eq!(give(), Ok(16_385));
        assert_eq!(ids.statistics().wraps, 1);
        assert_eq!(ids.next(), LOW_HALVES + 16_386);
        // Wider ids go on where the counter is, and have both halves.
        assert_eq!(ids.give(ValueIdWidth::Oid8, taken(&[])), Ok(Oid8::new(LOW_HALVES + 16_386)));
        assert_eq!(give(), Ok(16_387));
    }

    #[test]
    fn a_million_taken_ids_are_reported_as_a_server_would() {
        let events = Arc::new(Mutex::new(Vec::new()));
        let listener = {
            let events = Arc::clone(&events);
            move |event| events.lock().expect("no panics").push(event)
        };
        let ids = ValueIds::new(LOW_HALVES - 1, Some(Arc::new(listener)));
        let run = 16_384..16_384 + 4_000_001;
        let ranges = [run.clone(), LOW_HALVES - 1..LOW_HALVES];
        let id = ids.give(ValueIdWidth::Oid, taken(&ranges));
        assert_eq!(id, Ok(Oid8::new(run.end)));
        let statistics = ids.statistics();
        let (probes, given) = (4_000_002, 1);
        assert_eq!(statistics, ValueIdStatistics { given, probes, warnings: 3, wraps: 1 });
        let searching = |probes| ValueIdEvent::Searching { probes };
        let found = ValueIdEvent::Found { probes, value_id: Oid8::new(run.end) };
        assert_eq!(
            *events.lock().expect("no panics"),
            [searching(1_000_000), searching(2_000_000), searching(4_000_000), found]
        );
        // Once beyond them, nothing is taken.
        assert_eq!(ids.give(ValueIdWidth::Oid, taken(&ranges)), Ok(Oid8::new(run.end + 1)));
        assert_eq!(ids.statistics().probes, probes);
    }

    #[test]
    fn no_free_id_at_all_is_an_error_and_not_a_loop() {
        let ids = ValueIds::new(20_000, None);
        let everything = 0..LOW_HALVES;
        let given = ids.give(ValueIdWidth::Oid, taken(core::slice::from_ref(&everything)));
        assert_eq!(given, Err(StoreError::ValueIdsTaken));
    }

    #[test]
    fn threads_never_get_the_same_id() {
        let ids = ValueIds::new(16_384, None);
        let ranges = [16_390..17_000, 17_010..18_000];
        let first_free = taken(&ranges);
        let per_thread: Vec<Vec<Oid8>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..500)
                            .map(|_| ids.give(ValueIdWidth::Oid, &first_free).expect("free ids"))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panics")).collect()
        });
        let mut all: Vec<u64> = per_thread.iter().flatten().map(|id| id.get()).collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|id| !ranges.iter().any(|range| range.contains(id))));
    }
}
