//! Spilled changes once came back misaligned, or with an address where data should have been. Here they are the
//! same bytes in memory, in any file and in any run; a file that was cut or changed anywhere is an error that
//! says where, and never a shorter transaction.
use crate::common::{Feeder, TABLE, catalog, insert, text_of, text_row};
use pgtoast_base::{Oid, Xid};
use pgtoast_reorder::{
    Action, Change, CohortPages, Eviction, MemorySpill, Options, ReorderBuffer, ReorderError,
    SpillFiles, SpillStore, TextOptions, TextOutput,
};

const XID: u32 = 700;

fn spilling<S: SpillStore>(store: S) -> ReorderBuffer<CohortPages, S> {
    let options = Options { eviction: Eviction::Immediate, ..Options::default() };
    ReorderBuffer::new(CohortPages::new().expect("it holds nothing"), store, options)
}

/// Changes of all kinds, with tuples of odd lengths.
fn feed<
    S: SpillStore,
    C: pgtoast_reorder::Catalog,
    O: pgtoast_reorder::Output<Error = ReorderError>,
>(
    feeder: &mut Feeder<'_, CohortPages, S, C, O>,
) {
    for old_len in 0..17 {
        for new_len in 0..17 {
            let old = text_row(1, &"o".repeat(old_len));
            let new = text_row(2, &"n".repeat(new_len));
            let change = Change::Update { relation: TABLE, old: Some(&old), new: Some(&new) };
            feeder.change(XID, change);
        }
    }
    for count in [1, 3, 1000] {
        let relations = vec![TABLE; count];
        let change =
            Change::Truncate { relations: &relations, cascade: true, restart_identity: false };
        feeder.change(XID, change);
    }
    let content = b"any text";
    feeder.change(XID, Change::Message { is_transactional: true, prefix: "p", content });
    feeder.change(XID, Change::Delete { relation: TABLE, old: None });
}

fn unspilled() -> Vec<String> {
    let layout = CohortPages::new().expect("it holds nothing");
    let mut buffer = ReorderBuffer::new(layout, MemorySpill::new(), Options::default());
    text_of(&mut buffer, &catalog(), |feeder| {
        feed(feeder);
        feeder.commit(XID);
    })
}

#[test]
fn what_was_spilled_comes_back_as_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut buffer = spilling(SpillFiles::open(directory.path()).expect("it is there"));
    let lines = text_of(&mut buffer, &catalog(), |feeder| {
        feed(feeder);
        assert_eq!(feeder.buffer.stats().held_changes, 0, "all of it is in the file");
        assert!(feeder.buffer.store().path(Xid::new(XID)).exists());
        feeder.commit(XID);
    });
    assert_eq!(lines, unspilled());
    assert_eq!(lines.len(), 2 + 17 * 17 + 3 + 2);
    assert!(!buffer.store().path(Xid::new(XID)).exists(), "the file is gone");
}

#[test]
fn the_bytes_of_a_file_are_the_same_in_every_run() {
    let file = || {
        let mut buffer = spilling(MemorySpill::new());
        text_of(&mut buffer, &catalog(), |feeder| {
            feed(feeder);
        });
        buffer.store().file(Xid::new(XID)).expect("it was spilled").to_vec()
    };
    // With other things in memory, at other addresses.
    let first = file();
    let _between = vec![0_u8; 12_345];
    assert_eq!(first, file());
    assert_eq!(first[..16], *b"pgtspill\x01\0\0\0\xbc\x02\0\0");
}

#[test]
fn a_file_from_before_is_removed_and_others_are_not() {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["xid-7.spill", "xid-x.spill", "note"] {
        std::fs::write(directory.path().join(name), "anything").expect("it is writable");
    }
    let store = SpillFiles::open(directory.path()).expect("it is there");
    assert!(!store.path(Xid::new(7)).exists());
    assert!(directory.path().join("xid-x.spill").exists());
    assert!(directory.path().join("note").exists());
}

/// Some changes in a file, which is then damaged; and what committing says.
fn commit_damaged(damage: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<String>, ReorderError> {
    let mut buffer = spilling(MemorySpill::new());
    let catalog = catalog();
    let mut lines = Vec::new();
    let mut output =
        TextOutput::new(TextOptions::default(), |line: &str| lines.push(line.to_owned()));
    let mut feeder = Feeder { buffer: &mut buffer, catalog: &catalog, output: &mut output, lsn: 0 };
    for id in 0..4 {
        feeder.change(XID, insert(&text_row(id, "note")));
    }
    damage(feeder.buffer.store_mut().file_mut(Xid::new(XID)).expect("it was spilled"));
    let result = feeder.apply(XID, Action::Commit { subtransactions: &[] });
    let stats = buffer.stats();
    assert_eq!((stats.accounted_bytes, stats.held_changes, stats.open_transactions), (0, 0, 0));
    assert_eq!(buffer.store().xids().count(), 0);
    result.map(|()| lines)
}

fn whole_file() -> Vec<u8> {
    let mut file = Vec::new();
    commit_damaged(|bytes| file = bytes.clone()).expect("it is whole");
    file
}

#[test]
fn a_file_cut_at_any_byte_is_an_error_that_says_where() {
    let len = whole_file().len();
    for cut in 0..len {
        let error = commit_damaged(|file| file.truncate(cut)).expect_err("it is cut");
        let ReorderError::SpillTruncated { xid, offset, needed, available } = error else {
            panic!("cut at {cut}: {error}")
        };
        assert_eq!(xid, Xid::new(XID));
        assert_eq!(offset + available as u64, cut as u64, "it ends there");
        assert!(available < needed);
    }
}

#[test]
fn a_changed_byte_anywhere_is_an_error() {
    for at in 0..whole_file().len() {
        for bit in 0..8 {
            let error = commit_damaged(|file| file[at] ^= 1 << bit).expect_err("it is changed");
            assert!(
                matches!(error, ReorderError::Spill { .. } | ReorderError::SpillTruncated { .. }),
                "byte {at}, bit {bit}: {error}"
            );
        }
    }
}

#[test]
fn records_of_another_place_or_another_transaction_are_errors() {
    let file = whole_file();
    let record = (file.len() - 16) / 4;
    let swapped = commit_damaged(|file| {
        let (first, second) = (16, 16 + record);
        let copy = file[first..second].to_vec();
        file.copy_within(second..second + record, first);
        file[second..second + record].copy_from_slice(&copy);
    });
    assert!(matches!(swapped, Err(ReorderError::Spill { offset: 16, .. })), "{swapped:?}");
    let other = commit_damaged(|file| file[12] ^= 1);
    assert!(matches!(other, Err(ReorderError::Spill { offset: 0, .. })), "{other:?}");
}

#[test]
fn a_file_that_is_read_in_another_process_is_the_same() {
    // The files of two processes are compared by their bytes: nothing in them depends on where things lie.
    if let Ok(directory) = std::env::var("PGTOAST_SPILL_DIRECTORY") {
        let store = SpillFiles::open(directory.as_ref()).expect("it is there");
        let mut buffer = spilling(store);
        text_of(&mut buffer, &catalog(), |feeder| {
            feed(feeder);
        });
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let status = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "spill_files::a_file_that_is_read_in_another_process_is_the_same"])
        .env("PGTOAST_SPILL_DIRECTORY", directory.path())
        .stdout(std::process::Stdio::null())
        .status()
        .expect("it runs");
    assert!(status.success());
    let theirs = std::fs::read(directory.path().join("xid-700.spill")).expect("it was written");
    let mut buffer = spilling(MemorySpill::new());
    let lines = text_of(&mut buffer, &catalog(), |feeder| {
        feed(feeder);
        let ours = feeder.buffer.store_mut().file_mut(Xid::new(XID)).expect("it was spilled");
        assert_eq!(*ours, theirs);
        // What is handed out was in the other process's memory.
        *ours = theirs;
        feeder.commit(XID);
    });
    assert_eq!(lines, unspilled());
    assert_eq!(Oid::new(16_384), TABLE);
}
