//! Which tuples exist, and for whom: the rules as tables, and a page of a real server.
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]
mod support;

use std::collections::HashMap;

use pgtoast_base::{BlockSize, Xid};
use pgtoast_page::{
    HeapTuple, Infomask, Item, Page, Snapshot, TransactionStatus, TupleHeader, VacuumState,
    XidStatus,
};
use support::*;

// One transaction of each kind. The snapshot was taken when LATER and RUNNING were at work; LATER
// has committed since. OLD committed before every snapshot there is, RECENT before this one only.
const OLD: u32 = 100;
const HORIZON: u32 = 150;
const RECENT: u32 = 200;
const UNDONE: u32 = 210;
const RUNNING: u32 = 220;
const SUB: u32 = 225;
const LATER: u32 = 230;
const OWN: u32 = 240;
const NEW: u32 = 300;
const COMMAND: u32 = 10;
const SNAPSHOT: Snapshot<'_> = Snapshot {
    xmin: Xid::new(RUNNING),
    xmax: Xid::new(250),
    in_progress: &[Xid::new(RUNNING), Xid::new(SUB), Xid::new(LATER), Xid::new(OWN)],
    command: COMMAND,
};

struct World;

impl TransactionStatus for World {
    fn status(&self, xid: Xid) -> XidStatus {
        match xid.get() {
            OLD | RECENT | LATER | NEW => XidStatus::Committed,
            UNDONE => XidStatus::Aborted,
            RUNNING => XidStatus::InProgress,
            SUB => XidStatus::SubCommitted,
            other => panic!("nobody should ask for {other}"),
        }
    }

    /// Multixact ids here are 1000 more than their updating member; 1000 itself has none.
    fn update_xid(&self, multi: Xid) -> Option<Xid> {
        Some(Xid::new(multi.get() - 1000)).filter(|xid| xid.is_valid())
    }

    fn is_own(&self, xid: Xid) -> bool {
        xid.get() == OWN
    }

    /// 77 stands for "inserted before, deleted after the snapshot's command", 78 for "both before".
    fn own_commands(&self, combined: u32) -> (u32, u32) {
        match combined {
            77 => (COMMAND - 1, COMMAND),
            78 => (COMMAND - 2, COMMAND - 1),
            other => panic!("{other} is no combined id"),
        }
    }
}

fn header(xmin: u32, xmax: u32, field3: u32, infomask: Infomask) -> TupleHeader {
    let mut bytes = tuple_header(0, &[]);
    bytes[..4].copy_from_slice(&xmin.to_le_bytes());
    bytes[4..8].copy_from_slice(&xmax.to_le_bytes());
    bytes[8..12].copy_from_slice(&field3.to_le_bytes());
    put(&mut bytes, 20, infomask.bits());
    *HeapTuple::new(&bytes).unwrap().header()
}

/// The rows of both tables: what became of the insertion, each in all its forms.
fn insertions(row: &str) -> Vec<(u32, Infomask)> {
    let none = Infomask::empty();
    match row {
        "undone" => vec![
            (UNDONE, none),
            (RECENT, Infomask::XMIN_INVALID), // the hint is believed, nobody is asked
            (0, none),
        ],
        "running" => vec![(RUNNING, none), (SUB, none)],
        "later" => vec![(LATER, none), (NEW, none)],
        "later, hinted" => vec![(LATER, Infomask::XMIN_COMMITTED), (NEW, Infomask::XMIN_COMMITTED)],
        "own" => vec![(OWN, none)],
        "done" => vec![
            (RECENT, none),
            (OLD, none),
            (RECENT, Infomask::XMIN_COMMITTED),
            (UNDONE, Infomask::XMIN_COMMITTED), // the hint is believed
            (NEW, Infomask::XMIN_FROZEN),       // frozen: for every snapshot
            (2, none),
            (1, none),
        ],
        other => panic!("{other} is no row"),
    }
}

/// The columns of both tables: what became of the deletion, each in all its forms.
fn deletions(column: &str) -> Vec<(u32, Infomask)> {
    let none = Infomask::empty();
    let multi = Infomask::XMAX_IS_MULTI;
    let lock = Infomask::XMAX_LOCK_ONLY;
    match column {
        "none" => vec![
            (0, Infomask::XMAX_INVALID),
            (RECENT, Infomask::XMAX_INVALID), // the hint is believed
            (0, none),
            (RUNNING, lock | Infomask::XMAX_EXCL_LOCK),
            (RECENT, lock | Infomask::XMAX_KEYSHR_LOCK),
            (RECENT, Infomask::XMAX_EXCL_LOCK), // a lock of an old release
            (OWN, lock | Infomask::XMAX_EXCL_LOCK),
            (1000 + RECENT, multi | lock | Infomask::XMAX_SHR_LOCK),
            (1000, multi), // nobody in it updates
        ],
        "undone" => vec![
            (UNDONE, none),
            (1000 + UNDONE, multi),
            // Nobody hints a multixact; should somebody have, it is not believed.
            (1000 + UNDONE, multi | Infomask::XMAX_COMMITTED),
        ],
        "running" => vec![(RUNNING, none), (SUB, none), (1000 + RUNNING, multi)],
        "later" => vec![
            (LATER, none),
            (NEW, Infomask::XMAX_COMMITTED),
            (1000 + LATER, multi | Infomask::XMAX_EXCL_LOCK),
        ],
        "recent" => {
            vec![(RECENT, none), (RECENT, Infomask::XMAX_COMMITTED), (1000 + RECENT, multi)]
        }
        "old" => vec![(OLD, none), (OLD, Infomask::XMAX_COMMITTED), (1000 + OLD, multi)],
        "own" => vec![(OWN, none), (1000 + OWN, multi)],
        other => panic!("{other} is no column"),
    }
}

/// Goes through a table drawn as text, all forms of each cell.
fn each_cell(table: &str, check: impl Fn(TupleHeader) -> &'static str) {
    let mut lines = table.lines().map(|line| line.split('|').map(str::trim));
    let columns: Vec<_> = lines.next().unwrap().skip(1).collect();
    let mut cells = 0;
    for mut line in lines {
        let row = line.next().unwrap();
        for (column, expected) in columns.iter().zip(line) {
            for (xmin, inserted) in insertions(row) {
                for (xmax, ended) in deletions(column) {
                    // Commands before the snapshot's, so that own work is seen.
                    let header = header(xmin, xmax, COMMAND - 1, inserted | ended);
                    let found = check(header);
                    assert_eq!(found, expected, "inserted {row}, ended {column}: {header:?}");
                    cells += 1;
                }
            }
        }
    }
    assert!(cells > 300, "{cells} cells");
}

#[test]
fn a_snapshot_sees_what_was_over_when_it_was_taken() {
    let table = "\
        inserted      | none | undone | running | later | recent | old | own
        undone        | no   | no     | no      | no    | no     | no  | no
        running       | no   | no     | no      | no    | no     | no  | no
        later         | no   | no     | no      | no    | no     | no  | no
        later, hinted | no   | no     | no      | no    | no     | no  | no
        own           | yes  | yes    | yes     | yes   | yes    | yes | no
        done          | yes  | yes    | yes     | yes   | no     | no  | no";
    each_cell(table, |header| if header.is_visible(&SNAPSHOT, &World) { "yes" } else { "no" });
}

#[test]
fn vacuum_asks_what_is_over_now_and_for_everyone() {
    let table = "\
        inserted      | none | undone | running  | later  | recent | old  | own
        undone        | dead | dead   | dead     | dead   | dead   | dead | dead
        running       | new  | new    | new      | new    | new    | new  | new
        later         | live | live   | deleting | recent | recent | dead | deleting
        later, hinted | live | live   | deleting | recent | recent | dead | deleting
        own           | new  | new    | new      | new    | new    | new  | deleting
        done          | live | live   | deleting | recent | recent | dead | deleting";
    each_cell(table, |header| match header.vacuum_state(Xid::new(HORIZON), &World) {
        VacuumState::Dead => "dead",
        VacuumState::DeleteInProgress => "deleting",
        VacuumState::InsertInProgress => "new",
        VacuumState::Live => "live",
        VacuumState::RecentlyDead => "recent",
    });
}

#[test]
fn own_work_is_seen_from_the_next_command_on() {
    let sees = |field3, xmin, xmax, infomask| {
        header(xmin, xmax, field3, infomask).is_visible(&SNAPSHOT, &World)
    };
    let (no_xmax, combined) = (Infomask::XMAX_INVALID, Infomask::COMBO_CID);
    assert!(sees(COMMAND - 1, OWN, 0, no_xmax), "inserted by an earlier command");
    assert!(!sees(COMMAND, OWN, 0, no_xmax), "inserted by this command");
    assert!(!sees(COMMAND - 1, RECENT, OWN, Infomask::empty()), "deleted by an earlier command");
    assert!(sees(COMMAND, RECENT, OWN, Infomask::empty()), "deleted by this command");
    assert!(sees(77, OWN, OWN, combined), "inserted earlier, deleted by this command");
    assert!(!sees(78, OWN, OWN, combined), "inserted and deleted earlier");
    assert!(sees(COMMAND, RECENT, 1000 + OWN, Infomask::XMAX_IS_MULTI), "deleted by this command");
}

#[test]
fn a_chunk_is_read_unless_a_hint_says_its_insertion_was_undone() {
    for (xmin, infomask, read) in [
        (RECENT, Infomask::XMIN_COMMITTED, true),
        (NEW, Infomask::XMIN_FROZEN, true),
        (RECENT, Infomask::XMIN_INVALID, false),
        (UNDONE, Infomask::empty(), true), // without a hint even this
        (RUNNING, Infomask::empty(), true),
        (0, Infomask::empty(), false),
        (0, Infomask::XMIN_COMMITTED, true),
    ] {
        for column in ["none", "undone", "running", "later", "recent", "old", "own"] {
            for (xmax, ended) in deletions(column) {
                let header = header(xmin, xmax, 0, infomask | ended);
                assert_eq!(header.is_toast_visible(&World), read, "{header:?}");
            }
        }
    }
}

#[test]
fn a_tuple_moved_by_an_old_vacuum_is_where_that_vacuum_left_it() {
    use VacuumState::*;
    let (off, into) = (Infomask::MOVED_OFF, Infomask::MOVED_IN);
    // The mover is in field3. Columns: a snapshot's view, vacuum's, and a chunk reader's.
    for (mover, moved, seen, state, read) in [
        (OLD, off, false, Dead, false),
        (OLD, into, true, Live, true),
        (UNDONE, off, true, Live, true),
        (UNDONE, into, false, Dead, false),
        (RUNNING, off, true, DeleteInProgress, true),
        (RUNNING, into, false, InsertInProgress, false),
        (OWN, off, false, DeleteInProgress, false),
        (OWN, into, true, InsertInProgress, true),
    ] {
        let header = header(RECENT, 0, mover, moved | Infomask::XMAX_INVALID);
        assert_eq!(header.is_visible(&SNAPSHOT, &World), seen, "{header:?}");
        assert_eq!(header.vacuum_state(Xid::new(HORIZON), &World), state, "{header:?}");
        assert_eq!(header.is_toast_visible(&World), read, "{header:?}");
    }
}

#[test]
fn a_snapshot_knows_old_new_and_listed_transactions() {
    for (xid, in_progress) in [
        (0, false),
        (1, false),
        (2, false),
        (3, false),
        (RUNNING - 1, false),
        (RUNNING, true),
        (RUNNING + 1, false), // over, though younger than one that is not
        (LATER, true),
        (249, false),
        (250, true),
        (0x7fff_ffff, true),
        (0x8000_0200, false), // more than half a circle ahead is the past
    ] {
        assert_eq!(SNAPSHOT.is_in_progress(Xid::new(xid)), in_progress, "{xid}");
    }
}

#[test]
fn each_of_many_listed_transactions_is_found_where_the_circle_closes_too() {
    for xmin in [3_u32, 0x7fff_ff00, u32::MAX - 700] {
        let xid = |distance: u32| Xid::new(xmin.wrapping_add(distance));
        // Of three thousand ids every third, and some more; but the special ones where the circle closes.
        let is_listed = |distance: u32| {
            xid(distance).is_normal() && (distance.is_multiple_of(3) || distance % 256 == 7)
        };
        let in_progress: Vec<_> = (0..3000).filter(|&d| is_listed(d)).map(xid).collect();
        let snapshot =
            Snapshot { xmin: xid(0), xmax: xid(3000), in_progress: &in_progress, command: COMMAND };
        for distance in 0..3000 {
            let found = snapshot.is_in_progress(xid(distance));
            assert_eq!(found, is_listed(distance), "{distance} from {xmin}");
        }
        assert!(snapshot.is_in_progress(xid(3000)) && !snapshot.is_in_progress(xid(u32::MAX)));
    }
}

/// What `pg_xact_status` and `pg_get_multixact_members` said when `states.page` was made.
struct Recorded {
    xids: HashMap<u32, XidStatus>,
    updaters: HashMap<u32, u32>,
}

impl Recorded {
    fn load() -> Self {
        let xids = include_str!("../testdata/states.xids").lines().filter_map(|line| {
            let (xid, status) = line.split_once(' ').unwrap();
            let status = match status {
                "committed" => XidStatus::Committed,
                "aborted" => XidStatus::Aborted,
                "in progress" => XidStatus::InProgress,
                _ => return None,
            };
            Some((xid.parse().unwrap(), status))
        });
        let updaters = include_str!("../testdata/states.multis").lines().filter_map(|line| {
            let [multi, xid, mode] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("three fields")
            };
            let updates = matches!(mode, "upd" | "nokeyupd");
            updates.then(|| (multi.parse().unwrap(), xid.parse().unwrap()))
        });
        Self { xids: xids.collect(), updaters: updaters.collect() }
    }
}

impl TransactionStatus for Recorded {
    fn status(&self, xid: Xid) -> XidStatus {
        self.xids[&xid.get()]
    }

    fn update_xid(&self, multi: Xid) -> Option<Xid> {
        self.updaters.get(&multi.get()).copied().map(Xid::new)
    }
}

#[test]
fn a_new_snapshot_sees_the_tuples_that_the_server_showed() {
    let status = Recorded::load();
    let running: Vec<_> = status
        .xids
        .iter()
        .filter(|(_, status)| **status == XidStatus::InProgress)
        .map(|(xid, _)| Xid::new(*xid))
        .collect();
    let [oldest] = running[..] else { panic!("one prepared transaction") };
    let next = Xid::new(status.xids.keys().max().unwrap() + 1);
    let snapshot = Snapshot { xmin: oldest, xmax: next, in_progress: &running, command: 0 };

    let page = Page::parse(STATES, BlockSize::KIB_8).unwrap();
    let mut visible = String::new();
    let mut states = HashMap::new();
    for (item, _) in page.items() {
        let Ok(Item::Normal(bytes)) = page.item(item) else { panic!("18 tuples") };
        let header = *HeapTuple::parse(bytes).unwrap().header();
        if header.is_visible(&snapshot, &status) {
            visible += &format!("(0,{item})\n");
        }
        *states.entry(header.vacuum_state(oldest, &status)).or_insert(0) += 1;
    }
    assert_eq!(visible, include_str!("../testdata/states.visible"));
    // Dead are two deleted ones, one replaced and one rolled back; recently dead is the one replaced
    // under a lock. The prepared transaction inserted two and is about to end two.
    let expected = [
        (VacuumState::Dead, 4),
        (VacuumState::DeleteInProgress, 2),
        (VacuumState::InsertInProgress, 2),
        (VacuumState::Live, 9),
        (VacuumState::RecentlyDead, 1),
    ];
    assert_eq!(states, HashMap::from(expected));
}
