//! One thread: its transactions, one after the other.
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread;

use pgtoast_store::{Datum, Isolation, ItemPointer, Savepoint, StoreError, Transaction};
use pgtoast_testkit::Rng;

use super::content;
use super::shared::{ACCOUNTS, BALANCE, Counts, PAIRS, Pair, Shared, lock};
use super::table::{self, PairRow, check_pair_row, int8};

pub(crate) struct Worker<'s> {
    shared: &'s Shared,
    rng: Rng,
    number: usize,
    /// As it last committed them.
    pub(crate) pairs: Vec<Pair>,
    counts: Counts,
}

/// Why a transaction ends before its time.
enum Stop {
    /// It must give way.
    GiveWay,
    Error(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Deadlock { .. } | StoreError::SerializationFailure { .. } => Self::GiveWay,
            error => Self::Error(error),
        }
    }
}

/// What a transaction did to accounts: which version it made, where, and how many.
type Changed = BTreeMap<usize, (i64, ItemPointer, u64)>;

impl<'s> Worker<'s> {
    pub(crate) fn new(shared: &'s Shared, number: usize) -> Self {
        let rng = Rng::new(shared.plan.seed.wrapping_mul(1000) + number as u64);
        let (pairs, counts) = (vec![Pair::default(); PAIRS], Counts::default());
        Self { shared, rng, number, pairs, counts }
    }

    /// The number of the first of its pairs.
    pub(crate) fn first(&self) -> usize {
        self.number * PAIRS
    }

    pub(crate) fn work(&mut self) {
        let _stop = self.shared.stop_on_panic();
        loop {
            let before = self.counts.operations;
            let result = match self.rng.below(1000) {
                0..400 => self.change_pairs(),
                400..600 => self.look_at_a_pair(),
                600..640 => self.look_at_all(),
                640..660 => self.sum_accounts(),
                660..850 => self.transfer(),
                850..995 => self.jobs(),
                _ => self.scratch(),
            };
            match result {
                Ok(()) => {}
                Err(Stop::GiveWay) => self.counts.aborts += 1,
                Err(Stop::Error(error)) => panic!("{error}"),
            }
            if !self.shared.go_on(self.counts.operations - before) {
                break;
            }
        }
        let counts = core::mem::take(&mut self.counts);
        self.shared.counts.add(|all| {
            all.operations += counts.operations;
            all.commits += counts.commits;
            all.aborts += counts.aborts;
            all.rollbacks += counts.rollbacks;
            all.deadlocks += counts.deadlocks;
            all.serialization_failures += counts.serialization_failures;
            all.stale_addresses += counts.stale_addresses;
            all.transfers += counts.transfers;
            all.jobs_done += counts.jobs_done;
            all.jobs_missed += counts.jobs_missed;
            all.rows_checked += counts.rows_checked;
            all.scans += counts.scans;
            all.scratch_tables += counts.scratch_tables;
        });
    }

    fn begin(&mut self) -> Transaction {
        self.counts.operations += 1;
        let isolation = self.rng.pick(&[Isolation::ReadCommitted, Isolation::RepeatableRead]);
        self.shared.store.begin(isolation)
    }

    /// Ends a transaction in one of the ways there are. Whether it was committed.
    fn end(&mut self, t: Transaction) -> Result<bool, Stop> {
        self.counts.operations += 1;
        match self.rng.below(10) {
            0 => drop(t),
            1 => t.abort(),
            _ => {
                t.commit()?;
                self.counts.commits += 1;
                return Ok(true);
            }
        }
        self.counts.aborts += 1;
        Ok(false)
    }

    /// Some changes of own pairs, with looks at them in between, and savepoints.
    fn change_pairs(&mut self) -> Result<(), Stop> {
        let mut t = self.begin();
        let mut pairs = self.pairs.clone();
        let mut savepoints: Vec<(Savepoint, Vec<Pair>)> = Vec::new();
        for _ in 0..self.rng.between(1, 12) {
            self.counts.operations += 1;
            match self.rng.below(100) {
                0..55 => self.change_pair(&mut t, &mut pairs)?,
                55..63 => savepoints.push((t.savepoint(), pairs.clone())),
                63..70 => {
                    if !savepoints.is_empty() {
                        let which = self.rng.below(savepoints.len());
                        savepoints.truncate(which + 1);
                        t.rollback_to(savepoints[which].0)?;
                        pairs.clone_from(&savepoints[which].1);
                        self.counts.rollbacks += 1;
                    }
                }
                70..76 => {
                    if !savepoints.is_empty() {
                        let which = self.rng.below(savepoints.len());
                        t.release(savepoints[which].0)?;
                        savepoints.truncate(which);
                    }
                }
                _ => {
                    let number = self.rng.below(PAIRS);
                    self.check_own(&mut t, number, &pairs[number])?;
                }
            }
        }
        if self.end(t)? {
            self.pairs = pairs;
        }
        for (number, pair) in self.pairs.iter().enumerate() {
            self.shared.published[self.first() + number].end(*pair);
        }
        Ok(())
    }

    fn change_pair(&mut self, t: &mut Transaction, pairs: &mut [Pair]) -> Result<(), Stop> {
        let number = self.rng.below(PAIRS);
        let pair = &mut pairs[number];
        let published = &self.shared.published[self.first() + number];
        pair.generation += 1;
        published.begin(pair.generation);
        let table = &self.shared.pairs;
        let key = |which: usize| keys(self.number * PAIRS + number)[which];
        let generation = pair.generation;
        match &mut pair.rows {
            None => {
                let mut tids = [ItemPointer::INVALID; 2];
                for (which, tid) in tids.iter_mut().enumerate() {
                    let row = PairRow::new(key(which), generation, generation);
                    *tid = t.insert(table, &row.values())?;
                }
                pair.rows = Some((tids, [generation; 2]));
            }
            Some((tids, _)) if self.rng.chance(15) => {
                for tid in tids {
                    assert!(t.delete(table, *tid)?, "{tid:?}: nobody else deletes it");
                }
                pair.rows = None;
            }
            Some((tids, bodies)) => {
                for (which, (tid, body)) in tids.iter_mut().zip(bodies).enumerate() {
                    let keeps_body = self.rng.chance(30);
                    let body_generation = if keeps_body { *body } else { generation };
                    let row = PairRow::new(key(which), generation, body_generation);
                    let values = row.values();
                    let all = [(1, values[1]), (2, values[2]), (4, values[4]), (3, values[3])];
                    let values = if keeps_body { &all[..3] } else { &all[..] };
                    let now = t.update(table, *tid, values)?;
                    *tid = now.unwrap_or_else(|| panic!("{tid:?}: nobody else changes it"));
                    *body = body_generation;
                }
            }
        }
        self.counts.operations += 1;
        Ok(())
    }

    /// The transaction sees of its own pairs just what it did.
    fn check_own(&mut self, t: &mut Transaction, number: usize, pair: &Pair) -> Result<(), Stop> {
        let Some((tids, bodies)) = pair.rows else { return Ok(()) };
        for which in 0..2 {
            let key = keys(self.first() + number)[which];
            let row = t.fetch(&self.shared.pairs, tids[which])?;
            let row = row.unwrap_or_else(|| panic!("{key} at {}: not there", tids[which]));
            let found = check_pair_row(&row, Some(&mut self.rng))?;
            assert_eq!(found, (key, pair.generation, bodies[which]), "at {}", tids[which]);
            self.counts.rows_checked += 1;
        }
        Ok(())
    }

    /// Somebody's pair, by its addresses.
    fn look_at_a_pair(&mut self) -> Result<(), Stop> {
        let number = self.rng.below(self.shared.published.len());
        let published = &self.shared.published[number];
        let before = published.pair();
        let Some((tids, _)) = before.rows else { return Ok(()) };
        let mut t = self.begin();
        self.counts.operations += 2;
        let table = &self.shared.pairs;
        let statement = t.statement(&[table])?;
        let mut found = [None; 2];
        for which in 0..2 {
            if let Some(row) = statement.fetch(table, tids[which])? {
                let (key, generation, _) = check_pair_row(&row, Some(&mut self.rng))?;
                // Else the place has been given to another row since.
                if key == keys(number)[which] {
                    assert!(generation >= before.generation, "{key}: {generation} of {before:?}");
                    found[which] = Some(generation);
                }
                self.counts.rows_checked += 1;
            }
        }
        if let [Some(a), Some(b)] = found {
            assert_eq!(a, b, "half of a change of pair {number}");
        }
        if published.is_still(&before) {
            assert_eq!(found, [Some(before.generation); 2], "pair {number}: {before:?}");
        }
        self.end(t).map(|_| ())
    }

    /// All pairs, in one snapshot; a second time if that is to show the same.
    fn look_at_all(&mut self) -> Result<(), Stop> {
        let before: Vec<_> = self.shared.published.iter().map(|one| one.pair()).collect();
        let mut t = self.begin();
        let first = self.scan(&mut t)?;
        for (number, before) in before.iter().enumerate() {
            let [a, b] = keys(number).map(|key| first.get(&key).copied());
            assert_eq!(a, b, "half of a change of pair {number}");
            assert!(a.is_none_or(|a| a >= before.generation), "{a:?} of {before:?}");
            if self.shared.published[number].is_still(before) {
                let expected = before.rows.map(|_| before.generation);
                assert_eq!(a, expected, "pair {number}: {before:?}");
            }
        }
        if t.isolation() == Isolation::RepeatableRead && self.rng.chance(50) {
            assert_eq!(self.scan(&mut t)?, first, "a repeatable read");
        }
        self.end(t).map(|_| ())
    }

    /// The generation of each key.
    fn scan(&mut self, t: &mut Transaction) -> Result<BTreeMap<i64, i64>, Stop> {
        self.counts.operations += 1;
        self.counts.scans += 1;
        let mut found = BTreeMap::new();
        let mut scan = t.scan(&self.shared.pairs)?;
        while let Some(row) = scan.next()? {
            let (key, generation, _) = check_pair_row(&row, Some(&mut self.rng))?;
            assert_eq!(found.insert(key, generation), None, "{key} twice in one snapshot");
            self.counts.rows_checked += 1;
        }
        Ok(found)
    }

    /// The money in all accounts is what it was.
    fn sum_accounts(&mut self) -> Result<(), Stop> {
        let mut t = self.begin();
        self.counts.operations += 1;
        self.counts.scans += 1;
        let (mut sum, mut count) = (0, 0);
        let mut scan = t.scan(&self.shared.accounts)?;
        while let Some(row) = scan.next()? {
            sum += int8(&row, 2)?;
            count += 1;
            self.counts.rows_checked += 1;
        }
        assert_eq!((sum, count), (BALANCE * ACCOUNTS as i64, ACCOUNTS));
        self.end(t).map(|_| ())
    }

    /// Moves money, some of it in savepoints that come to nothing.
    fn transfer(&mut self) -> Result<(), Stop> {
        let mut t = self.begin();
        let mut changed = Changed::new();
        for _ in 0..self.rng.between(1, 3) {
            let (from, to) = (self.rng.below(ACCOUNTS), self.rng.below(ACCOUNTS));
            let amount = self.rng.between(1, 50) as i64;
            let kept = changed.clone();
            let savepoint = self.rng.chance(40).then(|| t.savepoint());
            let moved = self
                .move_money(&mut t, &mut changed, from, -amount)
                .and_then(|()| self.move_money(&mut t, &mut changed, to, amount));
            match (moved, savepoint) {
                (Ok(()), Some(savepoint)) if self.rng.chance(60) => t.release(savepoint)?,
                // Also after a deadlock: whoever waits for what was done since goes on.
                (Ok(()) | Err(Stop::GiveWay), Some(savepoint)) => {
                    t.rollback_to(savepoint)?;
                    changed = kept;
                    self.counts.rollbacks += 1;
                }
                (moved, _) => moved?,
            }
            if self.rng.chance(20) {
                thread::yield_now();
            }
        }
        if self.end(t)? {
            for (number, (version, tid, count)) in changed {
                let account = &self.shared.account[number];
                account.changes.fetch_add(count, Ordering::Relaxed);
                let mut place = lock(&account.place);
                if place.0 < version {
                    *place = (version, tid);
                }
                self.counts.transfers += count;
            }
        }
        Ok(())
    }

    fn move_money(
        &mut self,
        t: &mut Transaction,
        changed: &mut Changed,
        number: usize,
        amount: i64,
    ) -> Result<(), Stop> {
        let account = &self.shared.account[number];
        // Some versions are long, so that the row has to move.
        let padding = "to and fro ".repeat(self.rng.below(100));
        for _ in 0..200 {
            self.counts.operations += 1;
            let own = changed.get(&number);
            let tid = own.map_or_else(|| lock(&account.place).1, |&(_, tid, _)| tid);
            let mut made = None;
            let result = t.update_with(&self.shared.accounts, tid, |row, update| {
                made = None;
                if row.get(0)?.as_int4().is_some_and(|found| found as usize == number) {
                    let version = int8(row, 1)? + 1;
                    update.set(1, version)?;
                    update.set(2, int8(row, 2)? + amount)?;
                    update.set(3, padding.as_str())?;
                    made = Some(version);
                }
                Ok(())
            });
            match (result, made) {
                (Ok(Some(tid)), Some(version)) => {
                    let count = own.map_or(0, |&(_, _, count)| count) + 1;
                    changed.insert(number, (version, tid, count));
                    return Ok(());
                }
                (Ok(_), _) => {
                    // It has moved, and who moved it has not told yet; or this snapshot is too old
                    // to see it where it is now.
                    assert!(own.is_none(), "account {number} is lost at {tid}");
                    self.counts.stale_addresses += 1;
                    if t.isolation() == Isolation::RepeatableRead {
                        return Err(Stop::GiveWay);
                    }
                    thread::yield_now();
                }
                (Err(error), _) => return Err(self.counted(error)),
            }
        }
        Err(Stop::GiveWay)
    }

    /// Counts an error of those that a transaction has to expect.
    fn counted(&mut self, error: StoreError) -> Stop {
        match error {
            StoreError::Deadlock { .. } => self.counts.deadlocks += 1,
            StoreError::SerializationFailure { .. } => self.counts.serialization_failures += 1,
            _ => {}
        }
        error.into()
    }

    /// Gives out jobs, and does some.
    fn jobs(&mut self) -> Result<(), Stop> {
        let mut t = self.begin();
        let (mut inserted, mut deleted) = (Vec::new(), Vec::new());
        let table = &self.shared.jobs;
        for _ in 0..self.rng.between(1, 6) {
            self.counts.operations += 1;
            let open = lock(&self.shared.job.open).len();
            if open < 100 || (open < 400 && self.rng.chance(45)) {
                let id = self.shared.job.next.fetch_add(1, Ordering::Relaxed).cast_signed();
                let body = content::body(id, 0);
                inserted.push((id, t.insert(table, &[id.into(), body.as_ref().into()])?));
            } else {
                let (id, tid) = {
                    let jobs = lock(&self.shared.job.open);
                    jobs[self.rng.below(jobs.len().max(1)) % jobs.len().max(1)]
                };
                let Some(row) = t.fetch(table, tid)? else { continue };
                if int8(&row, 0)? != id {
                    continue; // Done, cleared away, and its place given to another.
                }
                table::check_body(row.get(1)?.as_value(), id, 0, Some(&mut self.rng))?;
                drop(row);
                self.counts.operations += 1;
                match t.delete(table, tid) {
                    Ok(true) => deleted.push(id),
                    Ok(false) => self.counts.jobs_missed += 1,
                    Err(error) => return Err(self.counted(error)),
                }
            }
        }
        if self.end(t)? {
            for &id in &deleted {
                assert!(lock(&self.shared.job.done).insert(id), "job {id} was done twice");
            }
            self.counts.jobs_done += deleted.len() as u64;
            lock(&self.shared.job.inserted).extend(inserted.iter().map(|&(id, _)| id));
            let mut open = lock(&self.shared.job.open);
            open.retain(|(id, _)| !deleted.contains(id));
            open.extend(inserted.iter().filter(|(id, _)| !deleted.contains(id)));
        }
        Ok(())
    }

    /// A table that comes and goes; or somebody else's.
    fn scratch(&mut self) -> Result<(), Stop> {
        let name = |number: usize| format!("scratch {number}");
        let number = self.rng.below(self.shared.plan.threads);
        self.counts.operations += 1;
        if number != self.number {
            let Ok(table) = self.shared.store.table(&name(number)) else { return Ok(()) };
            let mut t = self.begin();
            let scan = t.scan(&table);
            let mut scan = match scan {
                Err(StoreError::TableMissing) => return Ok(()),
                scan => scan?,
            };
            while let Some(row) = scan.next()? {
                let key = int8(&row, 0)?;
                table::check_body(row.get(1)?.as_value(), key, 1, Some(&mut self.rng))?;
            }
            return self.end(t).map(|_| ());
        }
        let table = self.shared.store.create_table(&name(number), table::scratch())?;
        for _ in 0..3 {
            let mut t = self.begin();
            for _ in 0..self.rng.below(20) {
                self.counts.operations += 1;
                let key = self.rng.below(1000) as i64;
                let body = content::body(key, 1);
                let values: [Datum<'_>; 2] = [key.into(), body.as_ref().into()];
                t.insert(&table, &values)?;
            }
            self.end(t)?;
        }
        self.shared.store.drop_table(&table)?;
        self.counts.scratch_tables += 1;
        Ok(())
    }
}

/// The keys of a pair.
pub(crate) fn keys(pair: usize) -> [i64; 2] {
    [0, 1].map(|which| i64::try_from(2 * pair + which).expect("few"))
}
