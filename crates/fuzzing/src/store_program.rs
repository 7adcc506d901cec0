//! A store of one table under programs of several transactions, against a list of row versions.
use core::ops::ControlFlow;
use core::time::Duration;
use std::io::ErrorKind;
use std::sync::Arc;

use pgtoast_base::{BlockSize, ItemPointer};
use pgtoast_store::file::ControlFile;
use pgtoast_store::{
    Column, ColumnType, CompressionMethod, Datum, IndexCleanup, Isolation, Savepoint, Schema,
    Storage, Store, StoreError, StoreOptions, Table, ToastFlavour, Transaction, VacuumOptions,
};

use self::model::{Body, Found, Model, Row};
use crate::files::Files;
use crate::input::Input;

mod model;

const SIZE: BlockSize = BlockSize::KIB_1;
const NAME: &str = "rows";
/// So many transactions are open at once, at most.
const OPEN: usize = 4;

/// Every transaction sees the rows that it should, values and all, whatever the others do, whatever
/// is cleared away meanwhile, and whichever calls of the disk fail; after the store was closed and
/// opened the rows are those that were committed; and when all rows are deleted nothing is left.
///
/// Two bytes say what the table and the store are like. Operations of four bytes follow.
pub fn store_program(data: &[u8]) {
    let mut input = Input::new(data);
    let mut program = Program::new(input.u8(), input.u8());
    for bytes in input.rest().chunks_exact(4).take(250) {
        program.apply(bytes[0], bytes[1], bytes[2], bytes[3]);
    }
    program.finish();
}

struct Open {
    transaction: Transaction,
    number: usize,
    /// With how much had been done when each was made.
    savepoints: Vec<(Savepoint, usize)>,
    /// The disk failed it.
    met_fault: bool,
}

struct Program {
    files: Files,
    options: StoreOptions,
    store: Store,
    table: Table,
    open: Vec<Open>,
    model: Model,
    last_id: i32,
}

impl Program {
    fn new(shape: u8, size: u8) -> Self {
        let files = Files::default();
        let mut options = StoreOptions::new().block_size(SIZE).segment_blocks(40);
        options = options.buffer_bytes((12 + usize::from(size % 8) * 8) * SIZE.bytes());
        options = options.io_combine_limit(1 + u32::from(size % 5)).checksums(size < 192);
        if size.is_multiple_of(3) {
            options = options.detoast_cache_bytes(8 << 10);
        }
        if size.is_multiple_of(2) {
            near_the_wraps(&files, &options);
        }
        let store = open(&files, &options);
        let table = store.create_table(NAME, schema(shape)).expect("a sound disk");
        let (open, model) = (Vec::new(), Model::default());
        Self { files, options, store, table, open, model, last_id: 0 }
    }

    fn apply(&mut self, op: u8, who: u8, which: u8, value: u8) {
        if self.open.is_empty() || (op.is_multiple_of(32) && self.open.len() < OPEN) {
            self.begin(value);
        }
        let at = usize::from(who) % self.open.len();
        match op % 32 {
            0..=5 => self.insert(at, which, value),
            6 | 7 => self.insert_many(at, which, value),
            8..=13 => self.update(at, which, value),
            14..=18 => self.delete(at, which),
            19 => self.savepoint(at),
            20 => self.rollback_to(at, which),
            21 => self.release(at, which),
            22 | 23 => self.commit(at),
            24 => self.abort(at),
            25 | 26 => self.vacuum(which, value),
            27 => self.checkpoint(value),
            28 => self.read(at, which, value),
            29 => self.compare(),
            30 if which.is_multiple_of(4) => self.reopen(),
            30 if self.table.schema().flavour() == ToastFlavour::Oid => {
                self.store.turn_value_ids(u64::from(u32::MAX - u32::from(value)));
            }
            30 => {}
            _ => self.files.fail(u32::from(which % 32), u32::from(value % 8)),
        }
    }

    fn begin(&mut self, value: u8) {
        let is_repeatable = value.is_multiple_of(3);
        let isolation =
            if is_repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        self.open.push(Open {
            transaction: self.store.begin(isolation),
            number: self.model.begin(isolation),
            savepoints: Vec::new(),
            met_fault: false,
        });
    }

    /// A row that was never there before.
    fn new_row(&mut self, which: u8, value: u8) -> Row {
        self.last_id += 1;
        Row { id: self.last_id, body: body(which, value) }
    }

    fn insert(&mut self, at: usize, which: u8, value: u8) {
        let row = self.new_row(which, value);
        let bytes = row.body.map(Body::bytes);
        let one = &mut self.open[at];
        self.model.statement(one.number);
        match one.transaction.insert(&self.table, &[row.id.into(), bytes.as_ref().into()]) {
            Ok(tid) => self.model.make(one.number, tid, row),
            Err(error) => one.refused(error),
        }
    }

    /// All of them or, if one cannot be, none.
    fn insert_many(&mut self, at: usize, which: u8, value: u8) {
        let count = value % 16;
        let rows: Vec<_> =
            (0..count).map(|n| self.new_row(which.wrapping_add(n), value ^ n)).collect();
        let bytes: Vec<_> = rows.iter().map(|row| row.body.map(Body::bytes)).collect();
        let is_sound = value < 208;
        let datums = rows.iter().zip(&bytes).map(|(row, bytes)| {
            let is_last = row.id == self.last_id;
            let id = if is_last && !is_sound { Datum::Null } else { row.id.into() };
            [id, bytes.as_ref().into()]
        });
        let one = &mut self.open[at];
        let before = self.model.rows(one.number);
        self.model.statement(one.number);
        match one.transaction.insert_many(&self.table, datums) {
            Ok(inserted) => {
                assert!(is_sound || rows.is_empty(), "a row without an id");
                assert_eq!(inserted, rows.len() as u64);
                self.files.heal();
                self.place(at, &before, &rows);
            }
            Err(StoreError::ColumnNull { column: 1 }) if !is_sound => {}
            Err(error) => one.refused(error),
        }
    }

    /// Looks where rows were put.
    fn place(&mut self, at: usize, before: &[(ItemPointer, Row)], rows: &[Row]) {
        let one = &mut self.open[at];
        let found = scan(&mut one.transaction, &self.table);
        for row in rows {
            let same = |(_, id, _): &&(ItemPointer, i32, _)| *id == row.id;
            let mut places = found.iter().filter(same);
            let Some((tid, _, _)) = places.next() else { panic!("{row:?} is not there") };
            assert!(places.next().is_none(), "{row:?} is there twice");
            assert!(before.iter().all(|(taken, _)| taken != tid), "{tid} was taken");
            self.model.make(one.number, *tid, *row);
        }
    }

    fn update(&mut self, at: usize, which: u8, value: u8) {
        let Some(tid) = self.model.some_tid(which) else { return };
        let mut row = self.new_row(which ^ value, value);
        let bytes = row.body.map(Body::bytes);
        let (id, new_body) = ((0, row.id.into()), (1, bytes.as_ref().into()));
        // A body that is not named keeps its bytes, and its chunks.
        let keeps_body = value.is_multiple_of(4);
        let all = [id, new_body];
        let values: &[(usize, Datum<'_>)] = if keeps_body { &all[..1] } else { &all };
        let one = &mut self.open[at];
        self.model.statement(one.number);
        let found = self.model.find(one.number, tid);
        if found == Found::Held {
            return; // It would wait, for another transaction of this thread.
        }
        match (one.transaction.update(&self.table, tid, values), found) {
            (Ok(None), Found::Nothing) => {}
            (Ok(Some(tid)), Found::Free(version)) => {
                if keeps_body {
                    row.body = self.model.row(version).body;
                }
                self.model.end(one.number, version);
                self.model.make(one.number, tid, row);
            }
            (Err(StoreError::SerializationFailure { .. }), Found::Changed) => {}
            (Err(error), _) => {
                one.refused(error);
                self.commit(at);
            }
            (Ok(updated), found) => panic!("{tid}: {updated:?}, and the model has {found:?}"),
        }
    }

    fn delete(&mut self, at: usize, which: u8) {
        let Some(tid) = self.model.some_tid(which) else { return };
        let one = &mut self.open[at];
        self.model.statement(one.number);
        let found = self.model.find(one.number, tid);
        if found == Found::Held {
            return;
        }
        match (one.transaction.delete(&self.table, tid), found) {
            (Ok(false), Found::Nothing) => {}
            (Ok(true), Found::Free(version)) => self.model.end(one.number, version),
            (Err(StoreError::SerializationFailure { .. }), Found::Changed) => {}
            (Err(error), _) => {
                one.refused(error);
                self.commit(at);
            }
            (Ok(deleted), found) => panic!("{tid}: {deleted}, and the model has {found:?}"),
        }
    }

    fn savepoint(&mut self, at: usize) {
        let one = &mut self.open[at];
        let savepoint = one.transaction.savepoint();
        one.savepoints.push((savepoint, self.model.mark(one.number)));
    }

    fn rollback_to(&mut self, at: usize, which: u8) {
        let one = &mut self.open[at];
        let Some(index) = usize::from(which).checked_rem(one.savepoints.len()) else { return };
        let (savepoint, mark) = one.savepoints[index];
        assert_eq!(one.transaction.rollback_to(savepoint), Ok(()));
        self.model.undo(one.number, mark);
        for (gone, _) in one.savepoints.drain(index + 1..) {
            assert_eq!(one.transaction.rollback_to(gone), Err(StoreError::NoSavepoint));
        }
    }

    fn release(&mut self, at: usize, which: u8) {
        let one = &mut self.open[at];
        let Some(index) = usize::from(which).checked_rem(one.savepoints.len()) else { return };
        assert_eq!(one.transaction.release(one.savepoints[index].0), Ok(()));
        for (gone, _) in one.savepoints.drain(index..) {
            assert_eq!(one.transaction.release(gone), Err(StoreError::NoSavepoint));
        }
    }

    /// A change that the disk stopped may be half done, but then the transaction must not commit: it is asked
    /// to at once, before another one can wait for it.
    fn commit(&mut self, at: usize) {
        let one = self.open.swap_remove(at);
        match one.transaction.commit() {
            Ok(()) => self.model.commit(one.number),
            Err(StoreError::TransactionFailed) if one.met_fault => self.model.abort(one.number),
            Err(error) => panic!("{error}"),
        }
    }

    fn abort(&mut self, at: usize) {
        let one = self.open.swap_remove(at);
        one.transaction.abort();
        self.model.abort(one.number);
    }

    fn vacuum(&mut self, which: u8, value: u8) {
        let freezes = value.is_multiple_of(4);
        let options = if freezes { VacuumOptions::freeze() } else { VacuumOptions::default() };
        let cleanup = [IndexCleanup::Auto, IndexCleanup::Always, IndexCleanup::Never];
        let options = VacuumOptions {
            aggressive: freezes || which.is_multiple_of(2),
            index_cleanup: cleanup[usize::from(value) % cleanup.len()],
            dead_items: usize::from(which) % 40 + 1,
            truncate: value < 192,
            truncate_wait: Duration::ZERO,
            ..options
        };
        let done = if which < 224 {
            self.store.vacuum(&self.table, &options).map(drop)
        } else {
            self.store.vacuum_toast(&self.table, &options).map(drop)
        };
        expect_fault(done);
    }

    fn checkpoint(&mut self, value: u8) {
        if value.is_multiple_of(4) {
            self.verify();
        } else {
            expect_fault(self.store.checkpoint());
        }
    }

    /// Some bytes of the body of one row.
    fn read(&mut self, at: usize, which: u8, value: u8) {
        let Some(tid) = self.model.some_tid(which) else { return };
        self.files.heal();
        let one = &mut self.open[at];
        self.model.statement(one.number);
        let expected = match self.model.find(one.number, tid) {
            Found::Free(version) => self.model.row(version).body,
            _ => return,
        };
        let row = one.transaction.fetch(&self.table, tid).expect("a sound disk").expect("a row");
        let found = row.get(1).expect("a column").as_value();
        assert_eq!(found.is_some(), expected.is_some());
        let (Some(found), Some(expected)) = (found, expected) else { return };
        let expected = expected.bytes();
        let start = expected.len() * usize::from(value) / 256;
        let end = (start + usize::from(which) * 4).min(expected.len());
        let slice = found.slice(start..end).expect("a sound disk");
        assert!(slice == expected[start..end], "{tid}: bytes {start} to {end}");
    }

    fn compare(&mut self) {
        self.files.heal();
        for one in &mut self.open {
            self.model.statement(one.number);
            let expected = self.model.rows(one.number);
            let found = scan(&mut one.transaction, &self.table);
            assert!(is_same(&found, &expected), "{found:?}, not {expected:?}");
            for (tid, row) in expected {
                let found = one.transaction.fetch(&self.table, tid).expect("a sound disk");
                let found = found.unwrap_or_else(|| panic!("{tid} is not there"));
                assert_eq!(found.get(0).expect("a column").as_int4(), Some(row.id));
            }
        }
    }

    /// Nothing is wrong with the table's pages, values and index.
    fn verify(&self) {
        self.files.heal();
        let mut findings = Vec::new();
        let verified = self.store.verify(&self.table, |finding| {
            findings.push(finding);
            ControlFlow::Continue(())
        });
        verified.expect("a sound disk");
        assert!(findings.is_empty(), "{}", findings[0]);
    }

    fn reopen(&mut self) {
        self.files.heal();
        while !self.open.is_empty() {
            self.abort(0);
        }
        let store = core::mem::replace(&mut self.store, open(&Files::default(), &self.options));
        self.table = self.store.create_table(NAME, schema(0)).expect("a sound disk");
        assert_eq!(store.close(), Ok(()));
        self.store = open(&self.files, &self.options);
        self.table = self.store.table(NAME).expect("it was there");
        self.begin(0);
        self.compare();
    }

    fn finish(&mut self) {
        self.compare();
        while !self.open.is_empty() {
            self.commit(0);
        }
        self.reopen();
        self.clear_away();
        self.compare();
        self.verify();
        let one = &mut self.open[0];
        for (tid, _) in self.model.rows(one.number) {
            assert_eq!(one.transaction.delete(&self.table, tid), Ok(true));
        }
        self.commit(0);
        self.clear_away();
        self.verify();
        let size = self.table.size();
        assert_eq!(size.heap_bytes, 0, "rows are left over");
        assert_eq!(size.toast_bytes, 0, "chunks are left over");
    }

    fn clear_away(&self) {
        let options = VacuumOptions {
            index_cleanup: IndexCleanup::Always,
            truncate_wait: Duration::ZERO,
            ..VacuumOptions::freeze()
        };
        self.store.vacuum(&self.table, &options).expect("a sound disk");
    }
}

impl Open {
    /// What was refused was not done, and only the disk refuses anything.
    fn refused(&mut self, error: StoreError) {
        match error {
            StoreError::TransactionFailed if self.met_fault => {}
            error => {
                expect_fault(Err(error));
                self.met_fault = true;
            }
        }
    }
}

fn expect_fault(result: Result<(), StoreError>) {
    match result {
        Ok(()) | Err(StoreError::Io { kind: ErrorKind::Other, .. }) => {}
        Err(error) => panic!("{error}: {error:?}"),
    }
}

fn open(files: &Files, options: &StoreOptions) -> Store {
    let store = Store::open_on(Arc::new(files.clone()), options.clone());
    store.unwrap_or_else(|error| panic!("{error}: {:?}", ControlFile::read(files)))
}

/// Ids of transactions and of values wrap soon.
fn near_the_wraps(files: &Files, options: &StoreOptions) {
    assert_eq!(open(files, options).close(), Ok(()));
    let control = ControlFile::read(files).expect("it was written");
    let next_xid = (1 << 32) - 20;
    let next_oid8 = u64::from(u32::MAX - 20);
    let control = ControlFile { next_xid, oldest_xid: next_xid, next_oid8, ..control };
    assert_eq!(control.replace(files), Ok(()));
}

fn schema(shape: u8) -> Schema {
    let storage = [Storage::Extended, Storage::External, Storage::Main];
    let method = [CompressionMethod::Pglz, CompressionMethod::Lz4];
    let flavour = [ToastFlavour::Oid, ToastFlavour::Oid8];
    let shape = usize::from(shape);
    let body = Column::new("body", ColumnType::Bytea)
        .with_storage(storage[shape % 3])
        .with_compression(method[shape / 3 % 2]);
    Schema::new([Column::new("id", ColumnType::Int4).not_null(), body])
        .with_flavour(flavour[shape / 6 % 2])
}

/// None, short, up to a page, many chunks.
fn body(which: u8, value: u8) -> Option<Body> {
    let which = u16::from(which);
    let len = match value % 8 {
        0 => return None,
        1 | 2 => which % 16,
        3 | 4 => which,
        5 => 200 + which * 3,
        6 => which * 8,
        _ => which * 24,
    };
    Some(Body { len, seed: value >> 3 })
}

type Seen = (ItemPointer, i32, Option<Vec<u8>>);

/// All rows that the transaction sees, in the order of their addresses, on a disk that is sound.
fn scan(transaction: &mut Transaction, table: &Table) -> Vec<Seen> {
    let mut rows = Vec::new();
    let mut scan = transaction.scan(table).expect("a sound disk");
    while let Some(row) = scan.next().expect("a sound disk") {
        let id = row.get(0).expect("a column").as_int4().expect("not null");
        let value = row.get(1).expect("a column").as_value();
        rows.push((row.tid(), id, value.map(|value| value.to_vec().expect("a whole value"))));
    }
    rows.sort_unstable();
    rows
}

fn is_same(found: &[Seen], expected: &[(ItemPointer, Row)]) -> bool {
    found.len() == expected.len()
        && found.iter().zip(expected).all(|((tid, id, bytes), (there, row))| {
            (*tid, *id, bytes) == (*there, row.id, &row.body.map(Body::bytes))
        })
}
