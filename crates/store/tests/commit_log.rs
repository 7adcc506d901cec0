//! The commit log on disk: what became of transactions is there after the store was closed, in the
//! server's bytes; what had not ended is aborted; a file that is broken or missing is an error.
#![cfg(not(pgtoast_loom))]

mod rows;
mod support;

use std::io::ErrorKind;
use std::path::Path;

use pgtoast_base::Xid;
use pgtoast_page::XidStatus::{self, Aborted, Committed};
use pgtoast_store::disk::Disk;
use pgtoast_store::transaction::{CommitLog, Transactions};
use pgtoast_store::{StoreError, StoreFile};
use rows::{ROUND, transactions, writer};
use support::{Call, MemoryDisk};

/// Bytes before the content of a sealed file.
const SEAL: usize = 24;

fn segment(segment: u32) -> StoreFile {
    StoreFile::CommitLog { segment }
}

/// Commits and aborts by turns, `count` of them.
fn run(transactions: &std::sync::Arc<Transactions>, count: u32) -> Vec<(Xid, XidStatus)> {
    let mut ended = Vec::new();
    for i in 0..count {
        let (t, xid) = writer(transactions);
        if i % 2 == 0 {
            t.commit().expect("nothing to write to");
        } else {
            t.abort();
        }
        ended.push((xid, if i % 2 == 0 { Committed } else { Aborted }));
    }
    ended
}

#[test]
fn what_became_of_transactions_is_known_after_the_store_was_closed() {
    for first in [3, ROUND - 6, ROUND + (1 << 20) - 5] {
        let disk = MemoryDisk::new();
        let transactions = transactions(first);
        let mut ended = run(&transactions, 6);
        transactions.save_log(&disk).unwrap();
        ended.extend(run(&transactions, 7));
        transactions.save_log(&disk).unwrap();
        let log = CommitLog::load(&disk, first..transactions.next_full_xid()).unwrap();
        for (xid, status) in ended {
            assert_eq!(log.status(xid), status, "{xid}");
        }
    }
}

#[test]
fn a_store_that_was_closed_between_two_rounds_of_ids_is_opened_again() {
    let disk = MemoryDisk::new();
    let first = ROUND - 6;
    let transactions = transactions(first);
    let ended = run(&transactions, 6);
    assert_eq!(transactions.next_full_xid(), ROUND + 3);
    transactions.save_log(&disk).unwrap();
    let log = CommitLog::load(&disk, first..ROUND + 3).unwrap();
    for (xid, status) in ended {
        assert_eq!(log.status(xid), status, "{xid}");
    }
    // With nothing to know yet, no file is asked for.
    let log = CommitLog::load(&MemoryDisk::new(), ROUND..ROUND + 3).unwrap();
    assert_eq!(log.status(Xid::FIRST_NORMAL), XidStatus::InProgress);
}

#[test]
fn what_had_not_ended_is_aborted() {
    let disk = MemoryDisk::new();
    let transactions = transactions(3);
    let (open, open_xid) = writer(&transactions);
    let ended = run(&transactions, 99);
    transactions.save_log(&disk).unwrap();
    open.commit().unwrap();
    let log = CommitLog::load(&disk, 3..transactions.next_full_xid()).unwrap();
    assert_eq!(log.status(open_xid), Aborted);
    assert!(ended.iter().all(|&(xid, status)| log.status(xid) == status));
    assert_eq!(log.status(Xid::new(103)), XidStatus::InProgress, "never given out");
}

#[test]
fn a_segment_is_the_servers_in_a_seal() {
    let disk = MemoryDisk::new();
    let transactions = transactions(3);
    run(&transactions, 6);
    transactions.save_log(&disk).unwrap();
    let bytes = disk.file("pg_xact/0000").lock().unwrap().clone();
    // One page. Ids 3 to 8, from the low bits up: committed 01, aborted 10.
    assert_eq!(bytes.len(), SEAL + 8192);
    assert_eq!(bytes[SEAL..][..3], [0b01_00_00_00, 0b01_10_01_10, 0b00_00_00_10]);
    assert!(bytes[SEAL + 3..].iter().all(|&byte| byte == 0));
}

#[test]
fn only_what_changed_is_written_and_what_nobody_needs_is_removed() {
    let disk = MemoryDisk::new();
    let transactions = transactions((1 << 20) - 2);
    run(&transactions, 4);
    transactions.save_log(&disk).unwrap();
    assert_eq!(disk.list(Path::new("pg_xact")).unwrap().len(), 2);
    let written = disk.calls(Call::Write);
    transactions.save_log(&disk).unwrap();
    assert_eq!(disk.calls(Call::Write), written);
    run(&transactions, 1);
    transactions.save_log(&disk).unwrap();
    assert_eq!(disk.calls(Call::Write), written + 1);
    transactions.set_oldest_unfrozen((1 << 20) + 1);
    transactions.save_log(&disk).unwrap();
    assert_eq!(disk.list(Path::new("pg_xact")).unwrap(), [Path::new("0001")]);
    let ids = transactions.oldest_unfrozen()..transactions.next_full_xid();
    assert!(CommitLog::load(&disk, ids).is_ok());
}

#[test]
fn what_was_needed_is_still_needed_when_the_store_was_opened_again() {
    let disk = MemoryDisk::new();
    let first = (1 << 20) - 2;
    let before = transactions(first);
    let ended = run(&before, 4);
    before.save_log(&disk).unwrap();
    let next = before.next_full_xid();
    let after = Transactions::new(next, CommitLog::load(&disk, first..next).unwrap());
    assert_eq!(after.oldest_unfrozen(), first);
    run(&after, 1);
    after.save_log(&disk).unwrap();
    let log = CommitLog::load(&disk, first..after.next_full_xid()).unwrap();
    assert!(ended.iter().all(|&(xid, status)| log.status(xid) == status));
}

#[test]
fn a_write_that_failed_is_made_up_for_by_the_next() {
    let disk = MemoryDisk::new();
    let transactions = transactions(3);
    let ended = run(&transactions, 2);
    disk.fail(Some(Call::Sync), 0, 1, ErrorKind::Other);
    assert!(matches!(transactions.save_log(&disk), Err(StoreError::Io { .. })));
    transactions.save_log(&disk).unwrap();
    let log = CommitLog::load(&disk, 3..5).unwrap();
    assert!(ended.iter().all(|&(xid, status)| log.status(xid) == status));
}

#[test]
fn a_broken_segment_is_an_error_that_names_it() {
    let disk = MemoryDisk::new();
    assert!(CommitLog::load(&disk, 3..3).is_ok(), "none is needed");
    let missing = StoreError::Io { file: segment(0), offset: 0, kind: ErrorKind::NotFound };
    assert_eq!(CommitLog::load(&disk, 3..4).unwrap_err(), missing);
    let transactions = transactions(3);
    run(&transactions, 2);
    transactions.save_log(&disk).unwrap();
    disk.file("pg_xact/0000").lock().unwrap()[SEAL + 100] ^= 1;
    let error = CommitLog::load(&disk, 3..5).unwrap_err();
    assert!(matches!(error, StoreError::SealBroken { file, .. } if file == segment(0)), "{error}");
    pgtoast_store::file::SealedFile::replace(&disk, segment(0), &[0; 100]).unwrap();
    let error = CommitLog::load(&disk, 3..5).unwrap_err();
    assert!(matches!(error, StoreError::FileLength { bytes: 100, .. }), "{error}");
}
