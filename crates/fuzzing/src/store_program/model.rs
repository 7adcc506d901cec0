//! What a table holds, by who made and who ended each version of its rows: no pages, no ids, no chunks.
use pgtoast_base::ItemPointer;
use pgtoast_store::Isolation;

/// A row: a number and perhaps bytes, by what they are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) id: i32,
    pub(super) body: Option<Body>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Body {
    pub(super) len: u16,
    pub(super) seed: u8,
}

impl Body {
    /// Bytes that compress well, badly, or at one end.
    pub(super) fn bytes(self) -> Vec<u8> {
        let mut noise = u32::from(self.seed).wrapping_mul(0x9e37_79b9) | 1;
        let mut byte = |at: u16| {
            noise ^= noise << 13;
            noise ^= noise >> 17;
            noise ^= noise << 5;
            let is_noise = match self.seed % 4 {
                0 => true,
                1 => at.is_multiple_of(16),
                2 => at < self.len / 2,
                _ => at > self.len / 2,
            };
            if is_noise { noise.to_le_bytes()[1] } else { self.seed }
        };
        (0..self.len).map(&mut byte).collect()
    }
}

#[derive(Debug)]
struct Version {
    tid: ItemPointer,
    row: Row,
    made_by: usize,
    ended_by: Option<usize>,
    is_undone: bool,
}

/// What a transaction did, to be undone in reverse.
#[derive(Debug)]
enum Change {
    Made(usize),
    Ended(usize),
}

#[derive(Debug)]
struct Transaction {
    isolation: Isolation,
    /// How many had committed when it last looked.
    sees: usize,
    changes: Vec<Change>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// As which one.
    Committed(usize),
    Aborted,
}

/// What is to be had at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// A version, which is nobody's else.
    Free(usize),
    /// One that was ended by another transaction, which is open.
    Held,
    /// One that was ended by another transaction after the snapshot was taken.
    Changed,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    versions: Vec<Version>,
    transactions: Vec<Transaction>,
    commits: usize,
    open: usize,
}

impl Model {
    pub(super) fn begin(&mut self, isolation: Isolation) -> usize {
        if self.open == 0 {
            // Nobody will look for these any more.
            self.versions.retain(|version| !version.is_undone && version.ended_by.is_none());
        }
        self.open += 1;
        let (sees, changes) = (self.commits, Vec::new());
        self.transactions.push(Transaction { isolation, sees, changes, state: State::Open });
        self.transactions.len() - 1
    }

    pub(super) fn statement(&mut self, number: usize) {
        let transaction = &mut self.transactions[number];
        if transaction.isolation == Isolation::ReadCommitted {
            transaction.sees = self.commits;
        }
    }

    /// The address of one of the newest versions, which need not be there any more.
    pub(super) fn some_tid(&self, which: u8) -> Option<ItemPointer> {
        let recent = self.versions.len().min(48);
        let back = usize::from(which).checked_rem(recent)?;
        Some(self.versions[self.versions.len() - 1 - back].tid)
    }

    pub(super) fn find(&self, number: usize, tid: ItemPointer) -> Found {
        let is_there = |version: &Version| version.tid == tid && self.sees(number, version);
        let Some(found) = self.versions.iter().position(is_there) else { return Found::Nothing };
        match self.versions[found].ended_by.map(|by| self.transactions[by].state) {
            None => Found::Free(found),
            Some(State::Open) => Found::Held,
            Some(_) => Found::Changed,
        }
    }

    pub(super) fn row(&self, version: usize) -> Row {
        self.versions[version].row
    }

    pub(super) fn make(&mut self, number: usize, tid: ItemPointer, row: Row) {
        self.transactions[number].changes.push(Change::Made(self.versions.len()));
        let (made_by, ended_by, is_undone) = (number, None, false);
        self.versions.push(Version { tid, row, made_by, ended_by, is_undone });
    }

    pub(super) fn end(&mut self, number: usize, version: usize) {
        self.transactions[number].changes.push(Change::Ended(version));
        self.versions[version].ended_by = Some(number);
    }

    /// How much a transaction did: for [`undo`](Self::undo).
    pub(super) fn mark(&self, number: usize) -> usize {
        self.transactions[number].changes.len()
    }

    pub(super) fn undo(&mut self, number: usize, mark: usize) {
        for change in self.transactions[number].changes.drain(mark..).rev() {
            match change {
                Change::Made(version) => self.versions[version].is_undone = true,
                Change::Ended(version) => self.versions[version].ended_by = None,
            }
        }
    }

    pub(super) fn commit(&mut self, number: usize) {
        self.commits += 1;
        self.open -= 1;
        self.transactions[number].state = State::Committed(self.commits);
    }

    pub(super) fn abort(&mut self, number: usize) {
        self.undo(number, 0);
        self.open -= 1;
        self.transactions[number].state = State::Aborted;
    }

    /// All rows that a transaction sees, in the order of their addresses.
    pub(super) fn rows(&self, number: usize) -> Vec<(ItemPointer, Row)> {
        let seen = self.versions.iter().filter(|version| self.sees(number, version));
        let mut rows: Vec<_> = seen.map(|version| (version.tid, version.row)).collect();
        rows.sort_unstable();
        rows
    }

    fn sees(&self, number: usize, version: &Version) -> bool {
        let sees = |by: usize| match self.transactions[by].state {
            State::Open => by == number,
            State::Committed(at) => at <= self.transactions[number].sees,
            State::Aborted => false,
        };
        !version.is_undone && sees(version.made_by) && !version.ended_by.is_some_and(sees)
    }
}
