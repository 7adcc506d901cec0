//! Random transactions over a few rows, against a model that knows nothing of ids: a list of
//! commits in order, and for each open transaction how long that list was when it looked last.
#![cfg(not(pgtoast_loom))]

mod rows;

use std::collections::BTreeSet;
use std::sync::Arc;

use pgtoast_page::VacuumState;
use pgtoast_store::transaction::{Isolation, Savepoint, TransactionCore, Transactions};
use pgtoast_testkit::Rng;
use rows::{ROUND, Row, transactions};

#[derive(Clone, Copy, Debug)]
enum Change {
    Insert(usize),
    Delete(usize),
}

/// An open transaction, and what the model knows of it.
struct Open {
    core: TransactionCore,
    savepoints: Vec<(Savepoint, usize)>,
    /// Commits that it sees.
    base: usize,
    changes: Vec<Change>,
    /// Of those, how many are of statements before this one.
    seen: usize,
}

#[derive(Default)]
struct Model {
    commits: Vec<Vec<Change>>,
    rows: Vec<Row>,
}

fn apply(rows: &mut BTreeSet<usize>, changes: &[Change]) {
    for change in changes {
        let _ = match *change {
            Change::Insert(row) => rows.insert(row),
            Change::Delete(row) => rows.remove(&row),
        };
    }
}

impl Model {
    fn seen(&self, open: &Open) -> BTreeSet<usize> {
        let mut rows = BTreeSet::new();
        self.commits[..open.base].iter().for_each(|changes| apply(&mut rows, changes));
        apply(&mut rows, &open.changes[..open.seen]);
        rows
    }

    /// Whether some other transaction deleted the row, and has not been undone.
    fn is_deleted_by_another(&self, open: &[Open], number: usize, row: usize) -> bool {
        let deletes = |changes: &Vec<Change>| {
            changes.iter().any(|change| matches!(change, Change::Delete(r) if *r == row))
        };
        let others = open.iter().enumerate().filter(|&(i, _)| i != number);
        self.commits.iter().any(deletes) || others.map(|(_, o)| &o.changes).any(deletes)
    }

    fn check(&self, open: &[Open], transactions: &Arc<Transactions>, seed: u64) {
        let mut anybody = BTreeSet::new();
        for one in open {
            let expected = self.seen(one);
            let rows = self.rows.iter().enumerate();
            let found: BTreeSet<_> =
                rows.filter(|(_, row)| row.is_seen(&one.core)).map(|(i, _)| i).collect();
            assert_eq!(found, expected, "seed {seed}");
            anybody.extend(found);
        }
        let mut now = BTreeSet::new();
        self.commits.iter().for_each(|changes| apply(&mut now, changes));
        for (i, row) in self.rows.iter().enumerate() {
            match row.state(transactions) {
                VacuumState::Dead => {
                    assert!(!anybody.contains(&i) && !now.contains(&i), "seed {seed}, row {i}");
                }
                VacuumState::Live => assert!(now.contains(&i), "seed {seed}, row {i}"),
                VacuumState::RecentlyDead => assert!(!now.contains(&i), "seed {seed}, row {i}"),
                _ => {}
            }
        }
    }
}

/// One step of a random one of the open transactions; gives those that it ended.
fn step(rng: &mut Rng, model: &mut Model, open: &mut Vec<Open>) {
    let number = rng.below(open.len());
    match rng.below(20) {
        0 => {
            let ended = open.swap_remove(number);
            ended.core.commit().expect("nothing to write to");
            model.commits.push(ended.changes);
        }
        1 => drop(open.swap_remove(number)),
        2 | 3 => {
            let one = &mut open[number];
            let savepoint = one.core.savepoint();
            one.savepoints.push((savepoint, one.changes.len()));
        }
        4 => {
            let one = &mut open[number];
            if !one.savepoints.is_empty() {
                let which = rng.below(one.savepoints.len());
                let (savepoint, length) = one.savepoints[which];
                one.core.rollback_to(savepoint).expect("open");
                one.savepoints.truncate(which + 1);
                one.changes.truncate(length);
                one.seen = one.seen.min(length);
            }
        }
        5 => {
            let one = &mut open[number];
            if !one.savepoints.is_empty() {
                let which = rng.below(one.savepoints.len());
                one.core.release(one.savepoints[which].0).expect("open");
                one.savepoints.truncate(which);
            }
        }
        6..=10 => {
            let one = &mut open[number];
            model.rows.push(Row::insert(&mut one.core));
            one.changes.push(Change::Insert(model.rows.len() - 1));
        }
        11..=14 => {
            let seen: Vec<_> = model.seen(&open[number]).into_iter().collect();
            if seen.is_empty() {
                return;
            }
            let row = rng.pick(&seen);
            let already = |change: &Change| matches!(change, Change::Delete(r) if *r == row);
            if open[number].changes.iter().any(already)
                || model.is_deleted_by_another(open, number, row)
            {
                return;
            }
            model.rows[row].delete(&mut open[number].core);
            open[number].changes.push(Change::Delete(row));
        }
        _ => {
            let one = &mut open[number];
            one.core.begin_statement().expect("few statements");
            one.seen = one.changes.len();
            if one.core.isolation() == Isolation::ReadCommitted {
                one.base = model.commits.len();
            }
        }
    }
}

#[test]
fn random_transactions_see_what_a_list_of_commits_says() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let transactions = transactions(if seed % 2 == 0 { ROUND - 6 } else { 3 });
        let mut model = Model::default();
        let mut open = Vec::new();
        for _ in 0..400 {
            if open.is_empty() || (open.len() < 6 && rng.chance(10)) {
                let isolation = rng.pick(&[Isolation::ReadCommitted, Isolation::RepeatableRead]);
                open.push(Open {
                    core: transactions.begin(isolation),
                    savepoints: Vec::new(),
                    base: model.commits.len(),
                    changes: Vec::new(),
                    seen: 0,
                });
            }
            step(&mut rng, &mut model, &mut open);
            model.check(&open, &transactions, seed);
        }
        drop(open);
        model.check(&[], &transactions, seed);
    }
}
