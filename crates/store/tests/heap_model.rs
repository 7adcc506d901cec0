//! A heap against a list of row versions that knows who made and who ended each: random programs of
//! several transactions with savepoints, driven by one thread, vacuumed in between.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::unwrap_used,
    reason = "numbers are small, and what is refused ends the test"
)]
mod heap_support;

use heap_support::{Bed, tuple};
use pgtoast_base::{BlockSize, ItemPointer};
use pgtoast_page::HeapTupleMut;
use pgtoast_store::StoreError;
use pgtoast_store::heap::{Modified, VacuumOptions};
use pgtoast_store::transaction::{Isolation, Savepoint, TransactionCore};
use pgtoast_testkit::Rng;

/// Who did something: which transaction, in which statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    writer: usize,
    command: u32,
}

#[derive(Clone, Debug)]
struct Version {
    address: ItemPointer,
    payload: Vec<u8>,
    made: Stamp,
    ended: Option<(Stamp, Option<usize>)>,
    undone: bool,
}

/// What a step did, to be undone in reverse.
enum Change {
    Made(usize),
    Ended(usize),
}

struct Open {
    core: TransactionCore,
    number: usize,
    /// How many had committed when the snapshot was taken.
    sees: usize,
    changes: Vec<Change>,
    savepoints: Vec<(Savepoint, usize)>,
}

struct Program {
    bed: Bed,
    rng: Rng,
    versions: Vec<Version>,
    open: Vec<Open>,
    /// When each transaction committed, counted in commits; by number.
    committed: Vec<Option<usize>>,
    commits: usize,
    largest: usize,
}

impl Program {
    fn new(seed: u64, block_size: BlockSize) -> Self {
        Self {
            bed: Bed::new(block_size, 16),
            rng: Rng::new(seed),
            versions: Vec::new(),
            open: Vec::new(),
            committed: Vec::new(),
            commits: 0,
            largest: block_size.bytes() / 3,
        }
    }

    fn has_committed(&self, stamp: Stamp, sees: usize) -> bool {
        self.committed[stamp.writer].is_some_and(|when| when <= sees)
    }

    fn sees(&self, open: &Open, version: &Version) -> bool {
        let command = open.core.command();
        let seen = |stamp: Stamp| {
            if stamp.writer == open.number {
                stamp.command < command
            } else {
                self.has_committed(stamp, open.sees)
            }
        };
        !version.undone && seen(version.made) && !version.ended.is_some_and(|(by, _)| seen(by))
    }

    /// What is seen at an address.
    fn seen_at(&self, open: &Open, address: ItemPointer) -> Option<usize> {
        let at = |version: &Version| version.address == address && self.sees(open, version);
        self.versions.iter().position(at)
    }

    fn begin(&mut self) {
        let isolation = self.rng.pick(&[Isolation::ReadCommitted, Isolation::RepeatableRead]);
        let core = self.bed.transactions.begin(isolation);
        let number = self.committed.len();
        self.committed.push(None);
        let (changes, savepoints) = (Vec::new(), Vec::new());
        self.open.push(Open { core, number, sees: self.commits, changes, savepoints });
    }

    fn statement(&mut self, at: usize) {
        let open = &mut self.open[at];
        open.core.begin_statement().unwrap();
        if open.core.isolation() == Isolation::ReadCommitted {
            open.sees = self.commits;
        }
    }

    fn payload(&mut self) -> Vec<u8> {
        let len =
            if self.rng.chance(70) { self.rng.below(60) } else { self.rng.below(self.largest) };
        self.rng.bytes(len)
    }

    fn insert(&mut self, at: usize) {
        let payload = self.payload();
        let open = &mut self.open[at];
        let mut bytes = tuple(&payload);
        let tuple = HeapTupleMut::new(&mut bytes).unwrap();
        let address = self.bed.heap.insert(&mut open.core, tuple).unwrap();
        let made = Stamp { writer: open.number, command: open.core.command() };
        open.changes.push(Change::Made(self.versions.len()));
        self.versions.push(Version { address, payload, made, ended: None, undone: false });
    }

    fn insert_many(&mut self, at: usize) {
        let payloads: Vec<_> = (0..self.rng.below(30)).map(|_| self.payload()).collect();
        let mut tuples: Vec<_> = payloads.iter().map(|payload| tuple(payload)).collect();
        let open = &mut self.open[at];
        let mut addresses = Vec::new();
        let views = tuples.iter_mut().map(|bytes| HeapTupleMut::new(bytes).unwrap());
        self.bed.heap.insert_many(&mut open.core, views, |tid| addresses.push(tid)).unwrap();
        let made = Stamp { writer: open.number, command: open.core.command() };
        for (address, payload) in addresses.into_iter().zip(payloads) {
            open.changes.push(Change::Made(self.versions.len()));
            self.versions.push(Version { address, payload, made, ended: None, undone: false });
        }
    }

    /// An address that is or was a row's.
    fn some_address(&mut self) -> Option<ItemPointer> {
        if self.versions.is_empty() {
            return None;
        }
        let recent = self.versions.len().min(60);
        let index = self.versions.len() - 1 - self.rng.below(recent);
        Some(self.versions[index].address)
    }

    fn change(&mut self, at: usize, updates: bool) {
        let Some(address) = self.some_address() else { return };
        let seen = self.seen_at(&self.open[at], address);
        let own = self.open[at].number;
        let ended = seen.and_then(|version| self.versions[version].ended);
        if let Some((by, _)) = ended
            && by.writer != own
            && self.committed[by.writer].is_none()
        {
            return; // It would wait, for another transaction of this thread.
        }
        let payload = self.payload();
        let mut bytes = tuple(&payload);
        let open = &mut self.open[at];
        let outcome = if updates {
            let tuple = HeapTupleMut::new(&mut bytes).unwrap();
            self.bed.heap.update(&mut open.core, address, tuple)
        } else {
            self.bed.heap.delete(&mut open.core, address)
        };
        let Some(version) = seen else {
            assert_eq!(outcome, Ok(Modified::NotVisible));
            return;
        };
        match (ended, open.core.isolation()) {
            (None, _) => {
                let Ok(Modified::Done(now)) = outcome else { panic!("{outcome:?}") };
                let stamp = Stamp { writer: own, command: open.core.command() };
                let next = updates.then_some(self.versions.len());
                self.versions[version].ended = Some((stamp, next));
                open.changes.push(Change::Ended(version));
                if updates {
                    open.changes.push(Change::Made(self.versions.len()));
                    let made = stamp;
                    let new = Version { address: now, payload, made, ended: None, undone: false };
                    self.versions.push(new);
                } else {
                    assert_eq!(now, address);
                }
            }
            (Some((by, _)), _) if by.writer == own => assert_eq!(outcome, Ok(Modified::BySelf)),
            (Some(_), Isolation::RepeatableRead) => {
                let failed = matches!(outcome, Err(StoreError::SerializationFailure { .. }));
                assert!(failed, "{outcome:?}");
            }
            (Some((_, expected)), Isolation::ReadCommitted) => {
                let Ok(Modified::ByOther { by, next }) = outcome else { panic!("{outcome:?}") };
                assert_eq!(next.is_some(), expected.is_some());
                if let Some(next) = next {
                    open.core.renew_snapshot();
                    open.sees = self.commits;
                    if self.rng.chance(50) {
                        self.vacuum();
                    }
                    self.follow(at, version, by, next);
                }
            }
        }
    }

    /// From the version that was found to the one that is seen now.
    fn follow(&mut self, at: usize, from: usize, by: pgtoast_base::Xid, next: ItemPointer) {
        let open = &self.open[at];
        let mut expected = Some(from);
        while let Some(version) = expected
            && !self.sees(open, &self.versions[version])
        {
            expected = self.versions[version].ended.and_then(|(_, next)| next);
        }
        let expected = expected.map(|version| self.versions[version].address);
        assert_eq!(self.bed.heap.follow(&open.core, by, next), Ok(expected));
    }

    fn undo(&mut self, changes: Vec<Change>) {
        for change in changes.into_iter().rev() {
            match change {
                Change::Made(version) => self.versions[version].undone = true,
                Change::Ended(version) => self.versions[version].ended = None,
            }
        }
    }

    fn savepoint(&mut self, at: usize) {
        let open = &mut self.open[at];
        match self.rng.below(3) {
            0 => {
                let savepoint = open.core.savepoint();
                open.savepoints.push((savepoint, open.changes.len()));
            }
            1 if !open.savepoints.is_empty() => {
                let index = self.rng.below(open.savepoints.len());
                let (savepoint, changes) = open.savepoints[index];
                open.savepoints.truncate(index + 1);
                open.core.rollback_to(savepoint).unwrap();
                let undone = open.changes.split_off(changes);
                self.undo(undone);
            }
            2 if !open.savepoints.is_empty() => {
                let index = self.rng.below(open.savepoints.len());
                let (savepoint, _) = open.savepoints[index];
                open.savepoints.truncate(index);
                open.core.release(savepoint).unwrap();
            }
            _ => {}
        }
    }

    fn end(&mut self, at: usize) {
        let open = self.open.swap_remove(at);
        if self.rng.chance(70) {
            open.core.commit().unwrap();
            self.commits += 1;
            self.committed[open.number] = Some(self.commits);
        } else {
            drop(open.core);
            self.undo(open.changes);
        }
    }

    fn vacuum(&mut self) {
        let freezes = self.rng.chance(30);
        let options = if freezes { VacuumOptions::freeze() } else { VacuumOptions::default() };
        self.bed.heap.vacuum(None, &options).unwrap();
        self.bed.check();
    }

    /// Each transaction sees exactly the rows of the model, by scan and by address.
    fn compare(&self) {
        for open in &self.open {
            let seen = self.versions.iter().filter(|version| self.sees(open, version));
            let mut expected: Vec<_> =
                seen.map(|version| (version.address, version.payload.clone())).collect();
            expected.sort();
            for (address, payload) in &expected {
                let found = self.bed.fetch(&open.core, *address);
                assert_eq!(found.as_ref(), Some(payload), "{address}");
            }
            let mut found = self.bed.scan(&open.core);
            found.sort();
            assert_eq!(found, expected);
        }
    }

    /// Versions that no transaction, open or to come, can see need not be remembered.
    fn forget(&mut self) {
        if self.open.is_empty() {
            let gone = |version: &Version| version.undone || version.ended.is_some();
            self.versions.retain(|version| !gone(version));
        }
    }

    fn step(&mut self) {
        if self.open.is_empty() || (self.open.len() < 5 && self.rng.chance(10)) {
            self.forget();
            self.begin();
        }
        let at = self.rng.below(self.open.len());
        if self.rng.chance(60) {
            self.statement(at);
        }
        match self.rng.below(100) {
            0..25 => self.insert(at),
            25..28 => self.insert_many(at),
            28..60 => self.change(at, true),
            60..80 => self.change(at, false),
            80..86 => self.savepoint(at),
            86..94 => self.end(at),
            94..96 => self.vacuum(),
            96..98 => self.bed.check(),
            _ => self.compare(),
        }
    }

    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
        }
        self.compare();
        while !self.open.is_empty() {
            self.end(0);
        }
        let mut expected: Vec<_> = self
            .versions
            .iter()
            .filter(|version| !version.undone && version.ended.is_none())
            .map(|version| version.payload.clone())
            .collect();
        expected.sort();
        assert_eq!(self.bed.committed(), expected);
        self.vacuum();
        assert_eq!(self.bed.committed(), expected);
        let report = self.bed.heap.vacuum(None, &VacuumOptions::freeze()).unwrap();
        self.bed.check();
        assert_eq!(report.pages_all_frozen, report.pages);
    }
}

/// One thread drives several transactions.
#[test]
fn several_transactions_see_what_the_model_has_them_see() {
    let seeds: u64 = std::env::var("PGTOAST_HEAP_SEEDS").map_or(4, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        for block_size in BlockSize::ALL {
            let number = seed * 100 + block_size.bytes() as u64 / 1024;
            println!("seed {number}, {block_size:?}");
            Program::new(number, block_size).run(1500);
        }
    }
}
