//! Which transactions run: what snapshots are copied from.
use pgtoast_base::Xid;

use super::full_xid;
use crate::StoreError;

/// How far ids go from the oldest one that a tuple may hold, before the circle closes.
const CIRCLE: u64 = 0x7fff_ffff;

/// How many before that no more are given out, as the server keeps them.
#[doc(alias = "xidStopLimit")]
pub(super) const STOP_MARGIN: u64 = 3_000_000;

/// What runs, under one lock.
#[derive(Debug)]
pub(super) struct Running {
    /// The id that is given out next.
    next: u64,
    /// The newest that is over: snapshots take all newer ones as in progress.
    latest_over: u64,
    /// No tuple holds an older one that is not frozen.
    oldest_unfrozen: u64,
    /// In ascending order, subtransactions among them.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    full: u64,
    slot: usize,
}

impl Running {
    /// Nothing runs, all older than `next` are over, and all older than `oldest` frozen.
    pub(super) fn new(next: u64, oldest: Option<u64>) -> Self {
        let next = full_xid::at_least(next);
        let oldest_unfrozen = oldest.unwrap_or(next).min(next);
        Self { next, latest_over: next - 1, oldest_unfrozen, entries: Vec::new() }
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn oldest_unfrozen(&self) -> u64 {
        self.oldest_unfrozen
    }

    pub(super) fn set_oldest_unfrozen(&mut self, full: u64) {
        self.oldest_unfrozen = full.min(self.next);
    }

    /// How many ids can be given out before all must be refused.
    pub(super) fn left(&self) -> u64 {
        (self.oldest_unfrozen + CIRCLE - STOP_MARGIN).saturating_sub(self.next)
    }

    /// Gives the next id to the transaction in that slot.
    pub(super) fn start(&mut self, slot: usize) -> Result<u64, StoreError> {
        if self.left() == 0 {
            let oldest = full_xid::xid(self.oldest_unfrozen);
            return Err(StoreError::XidWraparound { oldest });
        }
        let full = self.next;
        self.next = full_xid::after(full);
        self.entries.push(Entry { full, slot });
        Ok(full)
    }

    /// Takes out those of a slot from `first` on.
    pub(super) fn end(&mut self, slot: usize, first: u64) {
        let from = self.entries.partition_point(|entry| entry.full < first);
        let mut kept = from;
        for i in from..self.entries.len() {
            let entry = self.entries[i];
            if entry.slot == slot {
                self.latest_over = self.latest_over.max(entry.full);
            } else {
                self.entries[kept] = entry;
                kept += 1;
            }
        }
        self.entries.truncate(kept);
    }

    /// Whose that one is, if it runs.
    pub(super) fn holder(&self, full: u64) -> Option<usize> {
        let found = self.entries.binary_search_by_key(&full, |entry| entry.full).ok()?;
        Some(self.entries[found].slot)
    }

    /// All older ones are over.
    pub(super) fn oldest(&self) -> u64 {
        let newest = self.xmax();
        self.entries.first().map_or(newest, |entry| entry.full.min(newest))
    }

    /// Snapshots take this one and all newer ones as in progress, and those of the older ones that
    /// are running.
    pub(super) fn xmax(&self) -> u64 {
        full_xid::after(self.latest_over)
    }

    /// Those that run and are older than `xmax`, but those of one slot: a transaction knows its own.
    pub(super) fn others(&self, slot: usize) -> impl Iterator<Item = Xid> {
        let xmax = self.xmax();
        let older = self.entries.iter().take_while(move |entry| entry.full < xmax);
        older.filter(move |entry| entry.slot != slot).map(|entry| full_xid::xid(entry.full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_refused_three_million_before_the_circle_closes() {
        let mut running = Running::new((1 << 33) + 1000, None);
        // As far as it goes in one step: 2^31 - 1 from the oldest, less the margin.
        running.next = (1 << 33) + 1000 + 2_147_483_647 - 3_000_000 - 1;
        assert_eq!(running.left(), 1);
        assert!(running.start(0).is_ok());
        let refused = Err(StoreError::XidWraparound { oldest: Xid::new(1000) });
        assert_eq!(running.start(0), refused);
        running.set_oldest_unfrozen((1 << 33) + 1001);
        assert!(running.start(0).is_ok());
        assert_eq!(running.start(0), Err(StoreError::XidWraparound { oldest: Xid::new(1001) }));
    }

    #[test]
    fn a_slot_ends_its_own_from_one_on() {
        let mut running = Running::new(100, None);
        let slots = [1, 2, 1, 1, 2];
        for slot in slots {
            running.start(slot).unwrap();
        }
        assert_eq!((running.oldest(), running.xmax()), (100, 100));
        running.end(1, 102);
        assert_eq!(running.holder(100), Some(1));
        assert_eq!(running.holder(102), None);
        assert_eq!(running.holder(103), None);
        assert_eq!((running.oldest(), running.xmax()), (100, 104));
        assert!(running.others(2).eq([100].map(Xid::new)));
        assert!(running.others(1).eq([101].map(Xid::new)));
        assert!(running.others(9).eq([100, 101].map(Xid::new)));
    }
}
