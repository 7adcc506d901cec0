//! What the store must hold when all is quiet.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use pgtoast_store::{IndexCleanup, Isolation, Store, StoreError, VacuumOptions};

use super::shared::{ACCOUNTS, Account, BALANCE, Jobs, lock};
use super::table::{check_body, check_pair_row, int8};
use super::worker::{Worker, keys};

/// The generation, and the body's, of each key.
pub(crate) struct Expected(BTreeMap<i64, (i64, i64)>);

impl Expected {
    pub(crate) fn of(workers: &[Worker<'_>]) -> Self {
        let mut rows = BTreeMap::new();
        for worker in workers {
            for (number, pair) in worker.pairs.iter().enumerate() {
                let Some((_, bodies)) = pair.rows else { continue };
                for (key, body) in keys(worker.first() + number).into_iter().zip(bodies) {
                    rows.insert(key, (pair.generation, body));
                }
            }
        }
        Self(rows)
    }

    pub(crate) fn check(
        &self,
        store: &Store,
        accounts: &[Account],
        jobs: &Jobs,
    ) -> Result<(), StoreError> {
        let mut t = store.begin(Isolation::RepeatableRead);
        let mut found = BTreeMap::new();
        let table = store.table("pairs")?;
        let mut scan = t.scan(&table)?;
        while let Some(row) = scan.next()? {
            let (key, generation, body) = check_pair_row(&row, None)?;
            assert_eq!(found.insert(key, (generation, body)), None, "{key} is there twice");
        }
        assert_eq!(found, self.0);

        let (mut sum, mut count) = (0, 0);
        let table = store.table("accounts")?;
        let mut scan = t.scan(&table)?;
        while let Some(row) = scan.next()? {
            let number = row.get(0)?.as_int4().expect("not null") as usize;
            let changes = accounts[number].changes.load(Ordering::Relaxed).cast_signed();
            assert_eq!(
                int8(&row, 1)?,
                changes,
                "account {number}: a change was lost, or half done"
            );
            sum += int8(&row, 2)?;
            count += 1;
        }
        assert_eq!((sum, count), (BALANCE * ACCOUNTS as i64, ACCOUNTS));

        let mut left = BTreeSet::new();
        let table = store.table("jobs")?;
        let mut scan = t.scan(&table)?;
        while let Some(row) = scan.next()? {
            let id = int8(&row, 0)?;
            check_body(row.get(1)?.as_value(), id, 0, None)?;
            assert!(left.insert(id), "job {id} is there twice");
        }
        let (inserted, done) = (lock(&jobs.inserted), lock(&jobs.done));
        assert!(left.iter().eq(inserted.difference(&done)), "jobs");
        Ok(())
    }

    /// A vacuum leaves the rows that are there.
    pub(crate) fn check_vacuum(&self, store: &Store, jobs: &Jobs) -> Result<(), StoreError> {
        let left = lock(&jobs.inserted).difference(&lock(&jobs.done)).count();
        for (name, rows) in [("pairs", self.0.len()), ("accounts", ACCOUNTS), ("jobs", left)] {
            let report = store.vacuum(&store.table(name)?, &thorough())?;
            assert!(report.heap.tuples_kept <= rows as u64, "rows of {name}: {report:?}");
            assert_eq!(report.heap.tuples_recently_dead, 0, "rows of {name}: {report:?}");
        }
        Ok(())
    }
}

/// When all rows are deleted there is nothing left: no chunk that no row leads to.
pub(crate) fn check_nothing_is_left_over(store: &Store) -> Result<(), StoreError> {
    for table in store.tables() {
        let mut t = store.begin(Isolation::ReadCommitted);
        let mut tids = Vec::new();
        let mut scan = t.scan(&table)?;
        while let Some(row) = scan.next()? {
            tids.push(row.tid());
        }
        for tid in tids {
            assert!(t.delete(&table, tid)?, "{tid} of {}", table.name());
        }
        t.commit()?;
        let report = store.vacuum(&table, &thorough())?;
        let size = table.size();
        let bytes = (size.heap_bytes, size.toast_bytes);
        assert_eq!(bytes, (0, 0), "{}: {size:?}, {report:?}", table.name());
    }
    Ok(())
}

fn thorough() -> VacuumOptions {
    VacuumOptions { index_cleanup: IndexCleanup::Always, ..VacuumOptions::freeze() }
}
