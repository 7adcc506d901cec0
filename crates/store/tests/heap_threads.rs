//! Threads that change the same rows, with a vacuum beside them: no change is lost, and no
//! snapshot sees half of a transaction.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::unwrap_used,
    reason = "numbers are small, and what is refused ends the test"
)]
mod heap_support;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use heap_support::{Bed, tuple};
use pgtoast_base::{BlockSize, ItemPointer};
use pgtoast_page::HeapTupleMut;
use pgtoast_store::StoreError;
use pgtoast_store::heap::{Modified, VacuumOptions};
use pgtoast_store::transaction::{Isolation, LockMode, TransactionCore};
use pgtoast_testkit::Rng;

const ACCOUNTS: usize = 40;
const EACH: i64 = 1000;

/// Accounts whose sum stays, each a row with its number, its balance, and bytes of any number.
struct Bank {
    bed: Bed,
    /// Where each account's row is or was: moved when the page has no room.
    addresses: Mutex<Vec<ItemPointer>>,
}

fn row(account: usize, balance: i64, filler: usize) -> Vec<u8> {
    let mut bytes = (account as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&balance.to_le_bytes());
    bytes.resize(16 + filler, 0xf1);
    bytes
}

fn balance(row: &[u8]) -> i64 {
    i64::from_le_bytes(row[8..16].try_into().unwrap())
}

fn account(row: &[u8]) -> usize {
    u64::from_le_bytes(row[..8].try_into().unwrap()) as usize
}

impl Bank {
    fn new(block_size: BlockSize, frames: usize) -> Self {
        let bed = Bed::new(block_size, frames);
        let rows: Vec<_> = (0..ACCOUNTS).map(|account| row(account, EACH, 10)).collect();
        let views: Vec<&[u8]> = rows.iter().map(|row| &row[..]).collect();
        let addresses = Mutex::new(bed.insert_committed(&views));
        Self { bed, addresses }
    }

    fn begin(&self, isolation: Isolation) -> TransactionCore {
        let mut transaction = self.bed.transactions.begin(isolation);
        transaction.lock_relation(heap_support::ID, LockMode::Shared).unwrap();
        transaction
    }

    /// Moves money from one account to another; `None` if others came in between.
    fn transfer(&self, rng: &mut Rng, block_size: BlockSize) -> Result<Option<()>, StoreError> {
        let isolation = rng.pick(&[Isolation::ReadCommitted, Isolation::RepeatableRead]);
        let mut transaction = self.begin(isolation);
        let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
        let amount = rng.below(10) as i64;
        let mut moved = Vec::new();
        for (number, amount) in [(from, -amount), (to, amount)] {
            let savepoint = rng.chance(20).then(|| transaction.savepoint());
            let filler = if rng.chance(80) { 10 } else { rng.below(block_size.bytes() / 4) };
            let Some(address) = self.add(&mut transaction, number, amount, filler)? else {
                return Ok(None);
            };
            if let Some(savepoint) = savepoint {
                transaction.rollback_to(savepoint)?;
                let Some(address) = self.add(&mut transaction, number, amount, filler)? else {
                    return Ok(None);
                };
                moved.push((number, address));
            } else {
                moved.push((number, address));
            }
        }
        if rng.chance(20) {
            return Ok(None);
        }
        transaction.commit()?;
        let mut addresses = self.addresses.lock().unwrap();
        for (number, address) in moved {
            addresses[number] = address;
        }
        Ok(Some(()))
    }

    fn find(&self, transaction: &TransactionCore, number: usize) -> Option<(ItemPointer, i64)> {
        let address = self.addresses.lock().unwrap()[number];
        if let Some(row) = self.bed.fetch(transaction, address)
            && account(&row) == number
        {
            return Some((address, balance(&row)));
        }
        // It has moved, and who moved it has not said so yet, or has for a later snapshot.
        let rows = self.bed.scan(transaction);
        let (address, row) = rows.into_iter().find(|(_, row)| account(row) == number)?;
        Some((address, balance(&row)))
    }

    /// Adds to a balance; `None` if the row was changed meanwhile by one that committed.
    fn add(
        &self,
        transaction: &mut TransactionCore,
        number: usize,
        amount: i64,
        filler: usize,
    ) -> Result<Option<ItemPointer>, StoreError> {
        transaction.begin_statement()?;
        let (mut address, mut old) = self.find(transaction, number).expect("accounts stay");
        loop {
            let mut bytes = tuple(&row(number, old + amount, filler));
            let tuple = HeapTupleMut::new(&mut bytes).unwrap();
            match self.bed.heap.update(transaction, address, tuple)? {
                Modified::Done(address) => return Ok(Some(address)),
                Modified::ByOther { by, next } => {
                    transaction.renew_snapshot();
                    let next = next.expect("accounts are not deleted");
                    let now = self.bed.heap.follow(transaction, by, next)?;
                    address = now.expect("accounts are not deleted");
                    let row = self.bed.fetch(transaction, address).expect("just seen");
                    assert_eq!(account(&row), number, "the row that was followed");
                    old = balance(&row);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The sum of all balances, each account once.
    fn check_sum(&self, transaction: &TransactionCore) {
        let rows = self.bed.scan(transaction);
        let mut accounts: Vec<_> = rows.iter().map(|(_, row)| account(row)).collect();
        accounts.sort_unstable();
        assert!(accounts.iter().copied().eq(0..ACCOUNTS), "{accounts:?}");
        let sum: i64 = rows.iter().map(|(_, row)| balance(row)).sum();
        assert_eq!(sum, EACH * ACCOUNTS as i64);
    }
}

fn run(block_size: BlockSize, frames: usize, writers: u64, time: Duration) -> usize {
    let bank = &Bank::new(block_size, frames);
    let over = &AtomicBool::new(false);
    let done = &AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            scope.spawn(move || {
                let mut rng = Rng::new(writer);
                while !over.load(Ordering::Relaxed) {
                    match bank.transfer(&mut rng, block_size) {
                        Ok(Some(())) => {
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(None)
                        | Err(
                            StoreError::Deadlock { .. } | StoreError::SerializationFailure { .. },
                        ) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let transaction = bank.begin(Isolation::RepeatableRead);
                bank.check_sum(&transaction);
                std::thread::yield_now();
                bank.check_sum(&transaction);
            }
        });
        scope.spawn(move || {
            let mut freezes = false;
            while !over.load(Ordering::Relaxed) {
                freezes = !freezes;
                let options =
                    if freezes { VacuumOptions::freeze() } else { VacuumOptions::default() };
                let options = VacuumOptions { truncate_wait: Duration::ZERO, ..options };
                bank.bed.heap.vacuum(None, &options).unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let began = Instant::now();
        while began.elapsed() < time {
            std::thread::sleep(Duration::from_millis(20));
        }
        over.store(true, Ordering::Relaxed);
    });
    bank.check_sum(&bank.begin(Isolation::ReadCommitted));
    bank.bed.check();
    bank.bed.heap.vacuum(None, &VacuumOptions::freeze()).unwrap();
    bank.bed.check();
    bank.check_sum(&bank.begin(Isolation::ReadCommitted));
    assert_eq!(bank.bed.heap.vacuum(None, &VacuumOptions::freeze()).unwrap().tuples_removed, 0);
    done.load(Ordering::Relaxed)
}

#[test]
fn no_transfer_between_accounts_is_lost_or_seen_by_half() {
    let millis = std::env::var("PGTOAST_HEAP_MILLIS").map_or(300, |millis| millis.parse().unwrap());
    for (block_size, frames) in
        [(BlockSize::KIB_1, 16), (BlockSize::KIB_8, 16), (BlockSize::KIB_8, 256)]
    {
        let transfers = run(block_size, frames, 4, Duration::from_millis(millis));
        println!("pgtoast-count: heap_threads: {transfers} transfers, {block_size:?}");
        assert!(transfers > 0);
    }
}

/// Everybody inserts at the end of one heap, and takes what is free in it.
#[test]
fn rows_of_many_writers_are_all_there() {
    const WRITERS: usize = 6;
    const ROWS: usize = 600;
    let bed = &Bed::new(BlockSize::KIB_1, 32);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut rng = Rng::new(writer as u64);
                for round in 0..ROWS / 20 {
                    let mut transaction = bed.begin();
                    let rows: Vec<_> = (0..20)
                        .map(|at| tuple(&row(writer * ROWS + round * 20 + at, 0, rng.below(300))))
                        .collect();
                    if round % 2 == 0 {
                        let mut rows = rows;
                        let views = rows.iter_mut().map(|bytes| HeapTupleMut::new(bytes).unwrap());
                        bed.heap.insert_many(&mut transaction, views, |_| {}).unwrap();
                    } else {
                        for mut bytes in rows {
                            let tuple = HeapTupleMut::new(&mut bytes).unwrap();
                            bed.heap.insert(&mut transaction, tuple).unwrap();
                        }
                    }
                    transaction.commit().unwrap();
                }
            });
        }
    });
    bed.check();
    let mut found: Vec<_> = bed.committed().iter().map(|row| account(row)).collect();
    found.sort_unstable();
    assert!(found.iter().copied().eq(0..WRITERS * ROWS));
}
