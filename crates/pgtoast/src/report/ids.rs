//! How full the space of value ids is.
//!
//! A server takes the id of a new value from the counter of object ids, which all databases share, and skips those
//! that the TOAST relation has already. Once the counter has gone round, a table with hundreds of millions of values
//! makes it skip many, one index look-up each.
use core::ops::ControlFlow;

use serde::Serialize;

use crate::base::Oid;
use crate::datadir::{Database, DatadirError, Relation};
use crate::toast::{Chunk, ValueIdWidth};

use super::scan::{Problems, Versions, each_row};
use super::{Budget, RelationName};

/// The ids of a TOAST relation.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IdsReport {
    /// The table.
    pub table: RelationName,
    /// The TOAST relation.
    pub toast: RelationName,
    /// How many bits its ids have: 32, or 64.
    pub id_bits: u32,
    /// How many values it has, those among them that vacuum has yet to remove: their ids are taken, too.
    pub values: u64,
    /// The share of all ids that is taken.
    pub taken_share: f64,
    /// The lowest id.
    pub lowest: Option<u64>,
    /// The highest id.
    pub highest: Option<u64>,
    /// Where the counter stands: the next id to be tried.
    pub counter: u32,
    /// How many ids in a row are taken from there on, up to a million: so many look-ups the next value costs.
    pub taken_run: u32,
    /// How many of the next million ids are taken.
    pub taken_of_next_million: u32,
    /// The fullest stretch of 65 536 ids: its first.
    pub fullest_start: Option<u64>,
    /// How many ids of it are taken.
    pub fullest_taken: u32,
    /// How many chunks could not be read.
    pub problem_count: u64,
    /// The first of them, in words.
    pub problems: Vec<String>,
}

/// How far ahead of the counter is looked.
const AHEAD: u32 = 1_000_000;
/// How many ids a stretch has.
const STRETCH_BITS: u32 = 16;

impl IdsReport {
    /// Reads all of a table's TOAST relation; `None` if it has none.
    ///
    /// # Errors
    /// Those of [`Database::table`].
    pub fn of(
        database: &Database,
        relation: &Relation,
        budget: &Budget<'_>,
    ) -> Result<Option<Self>, DatadirError> {
        let Some(toast) = database.toast_of(relation) else { return Ok(None) };
        let table = database.table(toast)?;
        let wide = table.columns().get(1).is_some_and(|one| one.len.attlen() == 8);
        let width = if wide { ValueIdWidth::Oid8 } else { ValueIdWidth::Oid };
        let counter = database.directory().control().next_oid;
        let (mut taken, mut problems) = (Taken::new(counter), Problems::default());
        let blocks = 0..table.fork().block_count();
        let _ = each_row(&table, blocks, Versions::All, budget.progress, &mut |row| {
            match row {
                // A value has one first chunk, whatever its size.
                Ok(row) => match Chunk::parse(row.tuple.bytes(), width, Some(row.tid)) {
                    Ok(Some(chunk)) if chunk.seq == 0 => taken.add(chunk.value_id.get()),
                    Ok(_) => {}
                    Err(error) => problems.add(error),
                },
                Err(error) => problems.add(error),
            }
            ControlFlow::Continue(())
        });
        let (fullest_start, fullest_taken) = taken.fullest();
        let space =
            if wide { u64::MAX } else { u64::from(u32::MAX) - u64::from(Oid::FIRST_NORMAL.get()) };
        #[expect(clippy::cast_precision_loss, reason = "a share is printed with few digits")]
        let taken_share = taken.values as f64 / space as f64;
        Ok(Some(Self {
            table: RelationName::of(database, relation),
            toast: RelationName::of(database, toast),
            id_bits: if wide { 64 } else { 32 },
            values: taken.values,
            taken_share,
            lowest: taken.lowest,
            highest: taken.highest,
            counter: counter.get(),
            taken_run: taken.run(),
            taken_of_next_million: taken.ahead(),
            fullest_start,
            fullest_taken,
            problem_count: problems.count,
            problems: problems.first,
        }))
    }
}

/// Which ids are taken: exactly for those ahead of the counter, by stretches for all.
struct Taken {
    counter: u32,
    values: u64,
    lowest: Option<u64>,
    highest: Option<u64>,
    /// A bit for each id from the counter on.
    next: Vec<u64>,
    /// How many there are in each stretch of the 32-bit space.
    stretches: Vec<u32>,
}

impl Taken {
    fn new(counter: Oid) -> Self {
        Self {
            counter: counter.get(),
            values: 0,
            lowest: None,
            highest: None,
            next: vec![0; (AHEAD as usize).div_ceil(64)],
            stretches: vec![0; 1 << (u32::BITS - STRETCH_BITS)],
        }
    }

    fn add(&mut self, id: u64) {
        self.values += 1;
        self.lowest = Some(self.lowest.map_or(id, |lowest| lowest.min(id)));
        self.highest = Some(self.highest.map_or(id, |highest| highest.max(id)));
        let Ok(id) = u32::try_from(id) else { return };
        if let Some(stretch) = self.stretches.get_mut((id >> STRETCH_BITS) as usize) {
            *stretch = stretch.saturating_add(1);
        }
        let ahead = self.ahead_of_counter(id);
        if ahead < AHEAD
            && let Some(word) = self.next.get_mut((ahead / 64) as usize)
        {
            *word |= 1 << (ahead % 64);
        }
    }

    /// How many steps the counter takes to an id. Behind the last one it begins anew, and leaves out the ids of the
    /// system.
    const fn ahead_of_counter(&self, id: u32) -> u32 {
        let first = Oid::FIRST_NORMAL.get();
        if id >= self.counter {
            id - self.counter
        } else if id >= first {
            (u32::MAX - self.counter).saturating_add(1).saturating_add(id - first)
        } else {
            u32::MAX
        }
    }

    fn run(&self) -> u32 {
        let mut run = 0;
        for word in &self.next {
            run += word.trailing_ones();
            if *word != u64::MAX {
                break;
            }
        }
        run.min(AHEAD)
    }

    fn ahead(&self) -> u32 {
        self.next.iter().map(|word| word.count_ones()).sum()
    }

    fn fullest(&self) -> (Option<u64>, u32) {
        let most = (0_u64..).zip(&self.stretches).max_by_key(|(_, taken)| **taken);
        match most {
            Some((index, taken)) if *taken > 0 => (Some(index << STRETCH_BITS), *taken),
            _ => (None, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_taken_ids_is_counted_from_the_counter_on_and_round_the_end() {
        let mut taken = Taken::new(Oid::new(u32::MAX - 9));
        for id in (u32::MAX - 9)..=u32::MAX {
            taken.add(id.into());
        }
        for id in 16_384..16_484_u64 {
            taken.add(id);
        }
        taken.add(20_000);
        taken.add(7);
        assert_eq!((taken.run(), taken.ahead()), (110, 111));
        assert_eq!((taken.lowest, taken.highest), (Some(7), Some(u32::MAX.into())));
    }

    #[test]
    fn ids_above_32_bits_are_not_taken_for_others() {
        let mut taken = Taken::new(Oid::new(16_384));
        for k in 0..100 {
            taken.add((1 << 32) + 16_384 + k);
        }
        assert_eq!((taken.values, taken.run(), taken.ahead()), (100, 0, 0));
        assert_eq!(taken.fullest(), (None, 0));
        assert_eq!(taken.lowest, Some((1 << 32) + 16_384));
    }

    #[test]
    fn the_fullest_stretch_is_named_by_its_first_id() {
        let mut taken = Taken::new(Oid::new(16_384));
        for id in [5 << 16, (5 << 16) + 1, 9 << 16, (5 << 16) + 65_535] {
            taken.add(id);
        }
        assert_eq!(taken.fullest(), (Some(5 << 16), 3));
    }
}
