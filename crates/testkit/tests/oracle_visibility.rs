//! Sessions that insert, update, delete, lock, undo and commit at random: a tuple is visible to a
//! snapshot by our rules exactly if the server shows it to the session that took the snapshot.
//!
//! And vacuum leaves exactly the tuples that are not dead by our rules.
//!
//! Two kinds of readers are asked: one that took its snapshot a while ago and reads the table as it
//! has become since, and a writer in the midst of its transaction, which sees its own work.
use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::Result;
use pgtoast_base::{BlockSize, Xid};
use pgtoast_page::{
    HeapTuple, Infomask, Item, Page, Snapshot, TransactionStatus, VacuumState, XidStatus,
};
use pgtoast_testkit::postgres::{Client, Row};
use pgtoast_testkit::{Rng, Server, ServerOptions, Survey, inspect, report};

const TEST: &str = "tuples_are_visible_as_the_server_shows_them";
const WRITERS: usize = 4;
const ROUNDS: usize = 60;
const STEPS: usize = 12;
/// How many ids there are: few, so that sessions meet.
const IDS: usize = 60;

#[test]
fn tuples_are_visible_as_the_server_shows_them() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let server = Server::start(installation, &ServerOptions::new())?;
        let mut observer = server.client()?;
        observer.batch_execute(
            "CREATE EXTENSION pageinspect;
            CREATE TABLE t (id int4 PRIMARY KEY, n int4, filler text);
            INSERT INTO t SELECT n, 0, repeat('f', 60) FROM generate_series(0, 59) n;",
        )?;
        let mut writers = Vec::new();
        for number in 0..WRITERS {
            let mut client = server.client()?;
            client.batch_execute("SET lock_timeout = '10ms'")?;
            writers.push(Writer {
                number,
                client,
                in_transaction: false,
                savepoints: 0,
                had_savepoint: false,
            });
        }
        let mut rng = Rng::new(77);
        let mut counts = Counts::default();
        let mut reader = Reader::take(&mut observer, server.client()?)?;
        for round in 0..ROUNDS {
            for _ in 0..STEPS {
                let writer = rng.below(WRITERS);
                writers[writer].step(&mut rng);
            }
            let state = State::read(&mut observer)?;
            let seen = reader.client.query("SELECT ctid::text FROM t", &[])?;
            let snapshot = reader.snapshot.as_snapshot();
            counts.compare(&state, &snapshot, &[], &tids(&seen)?, "a reader")?;
            for writer in &mut writers {
                writer.compare(&mut observer, &mut counts)?;
            }
            if round % 4 == 3 {
                counts.vacuum(&mut observer)?;
                reader = Reader::take(&mut observer, reader.client)?;
            }
        }
        let Counts { compared, visible, multis, own, kept, removed } = counts;
        assert!(visible > 5000 && compared - visible > 3000, "{visible} of {compared}");
        assert!(multis > 100 && own > 100, "{multis} multixacts, {own} own");
        assert!(kept > 500 && removed > 50, "{kept} kept, {removed} removed");
        report::count(
            TEST,
            format_args!(
                "{}: {compared} verdicts equal, {visible} of them visible; {multis} on multixacts, \
                 {own} on a reader's own work; of {} tuples vacuum removed the {removed} that are dead",
                installation.major(),
                kept + removed
            ),
        );
        Ok(())
    })
}

/// A session that works on the rows whose id leaves its number as the rest by the count of writers,
/// and locks any.
struct Writer {
    number: usize,
    client: Client,
    in_transaction: bool,
    savepoints: usize,
    /// Whether its transaction has or had subtransactions.
    had_savepoint: bool,
}

impl Writer {
    fn step(&mut self, rng: &mut Rng) {
        if !self.in_transaction {
            self.run("BEGIN");
            self.in_transaction = true;
            (self.savepoints, self.had_savepoint) = (0, false);
        }
        let id = rng.below(IDS) / WRITERS * WRITERS + self.number;
        let any = rng.below(IDS);
        let statement = match rng.below(100) {
            0..15 => {
                format!("INSERT INTO t VALUES ({id}, 0, repeat('i', 60)) ON CONFLICT DO NOTHING")
            }
            15..40 => format!("UPDATE t SET n = n + 1 WHERE id = {id}"),
            40..45 => format!("UPDATE t SET id = id + 1000 WHERE id = {id}"),
            45..55 => format!("DELETE FROM t WHERE id = {id}"),
            55..67 => format!("SELECT FROM t WHERE id = {any} FOR KEY SHARE SKIP LOCKED"),
            67..72 => format!("SELECT FROM t WHERE id = {any} FOR SHARE SKIP LOCKED"),
            72..75 => format!("SELECT FROM t WHERE id = {id} FOR UPDATE SKIP LOCKED"),
            75..80 => {
                self.savepoints += 1;
                self.had_savepoint = true;
                "SAVEPOINT s".to_owned()
            }
            80..84 if self.savepoints > 0 => "ROLLBACK TO s".to_owned(),
            84..86 if self.savepoints > 0 => {
                self.savepoints -= 1;
                "RELEASE s".to_owned()
            }
            86..93 => return self.end("COMMIT"),
            93..97 => return self.end("ROLLBACK"),
            _ => format!("SELECT count(*) FROM t WHERE n > {any}"),
        };
        if !self.run(&statement) {
            self.end("ROLLBACK");
        }
    }

    fn end(&mut self, how: &str) {
        self.run(how);
        self.in_transaction = false;
    }

    /// Whether it went well: a row may be locked by another for too long.
    fn run(&mut self, statement: &str) -> bool {
        self.client.batch_execute(statement).is_ok()
    }

    /// What the session sees in the midst of its transaction, its own work included. Only where no
    /// subtransaction took part, since the session would not tell us their ids.
    fn compare(&mut self, observer: &mut Client, counts: &mut Counts) -> Result<()> {
        if !self.in_transaction || self.had_savepoint {
            return Ok(());
        }
        let own = "SELECT pg_current_xact_id_if_assigned()::text::int8";
        let own: Option<i64> = self.client.query_one(own, &[])?.get(0);
        let Some(own) = own else { return Ok(()) };
        let snapshot = OwnedSnapshot::take(observer, &mut self.client)?;
        let seen = self.client.query("SELECT ctid::text FROM t", &[])?;
        let state = State::read(observer)?;
        let own = Xid::new(u32::try_from(own)?);
        counts.compare(&state, &snapshot.as_snapshot(), &[own], &tids(&seen)?, "a writer")
    }
}

/// A session whose snapshot stays as it was.
struct Reader {
    client: Client,
    snapshot: OwnedSnapshot,
}

impl Reader {
    fn take(observer: &mut Client, mut client: Client) -> Result<Self> {
        client.batch_execute("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ")?;
        let snapshot = OwnedSnapshot::take(observer, &mut client)?;
        Ok(Self { client, snapshot })
    }
}

struct OwnedSnapshot {
    xmin: Xid,
    xmax: Xid,
    in_progress: Vec<Xid>,
}

impl OwnedSnapshot {
    /// The snapshot that `client` has now. The server names the transactions in it but not their
    /// subtransactions: what was in progress among all ids at the time is asked one by one.
    fn take(observer: &mut Client, client: &mut Client) -> Result<Self> {
        let sql = "SELECT pg_snapshot_xmin(s)::text::int8, pg_snapshot_xmax(s)::text::int8 \
                   FROM pg_current_snapshot() s";
        let row = client.query_one(sql, &[])?;
        let (xmin, xmax): (i64, i64) = (row.get(0), row.get(1));
        let sql = "SELECT x FROM generate_series($1::int8, $2::int8 - 1) x \
                   WHERE pg_xact_status(x::text::xid8) = 'in progress'";
        let rows = observer.query(sql, &[&xmin, &xmax])?;
        let xid = |number: i64| Ok(Xid::new(u32::try_from(number)?));
        let in_progress = rows.iter().map(|row| xid(row.get(0))).collect::<Result<_>>()?;
        Ok(Self { xmin: xid(xmin)?, xmax: xid(xmax)?, in_progress })
    }

    fn as_snapshot(&self) -> Snapshot<'_> {
        let Self { xmin, xmax, ref in_progress } = *self;
        // A statement sees all that the commands before it did.
        Snapshot { xmin, xmax, in_progress, command: u32::MAX }
    }
}

/// The table's pages at one moment, and what became of the transactions named in them.
struct State {
    pages: Vec<Vec<u8>>,
    statuses: HashMap<Xid, XidStatus>,
    updaters: HashMap<Xid, Option<Xid>>,
}

impl State {
    fn read(observer: &mut Client) -> Result<Self> {
        let blocks: i64 = observer.query_one("SELECT pg_relation_size('t') / 8192", &[])?.get(0);
        let mut pages = Vec::new();
        for block in 0..u32::try_from(blocks)? {
            pages.push(inspect::raw_page(observer, "t", block)?);
        }
        let (mut xids, mut multis) = (HashSet::new(), HashSet::new());
        for (_, tuple) in all_tuples(&pages)? {
            let header = tuple.header();
            xids.insert(header.xmin());
            let is_multi = header.infomask().contains(Infomask::XMAX_IS_MULTI);
            (if is_multi { &mut multis } else { &mut xids }).insert(header.xmax());
        }
        let mut updaters = HashMap::new();
        for multi in multis {
            // Past an end of all its members the server forgets a multixact; hint bits must do then.
            let sql = format!(
                "SELECT xid::text::int8 FROM pg_get_multixact_members('{}'::xid) \
                 WHERE mode IN ('nokeyupd', 'upd')",
                multi.get()
            );
            let row = observer.query_opt(&sql, &[]).ok().flatten();
            let updater = row.map(|row| u32::try_from(row.get::<_, i64>(0))).transpose()?;
            let updater = updater.map(Xid::new);
            xids.extend(updater);
            updaters.insert(multi, updater);
        }
        let mut statuses = HashMap::new();
        for xid in xids.into_iter().filter(|xid| xid.is_normal()) {
            let sql = format!("SELECT pg_xact_status('{}'::xid8)", xid.get());
            let status = match observer.query_one(&sql, &[])?.get::<_, Option<&str>>(0) {
                Some("committed") => XidStatus::Committed,
                Some("aborted") => XidStatus::Aborted,
                Some("in progress") => XidStatus::InProgress,
                other => anyhow::bail!("{xid:?} is {other:?}"),
            };
            statuses.insert(xid, status);
        }
        Ok(Self { pages, statuses, updaters })
    }

    fn tuples(&self) -> Result<Vec<((u32, u16), HeapTuple<'_>)>> {
        all_tuples(&self.pages)
    }
}

/// The state as one of its transactions knows it.
struct Known<'a> {
    state: &'a State,
    own: &'a [Xid],
}

impl TransactionStatus for Known<'_> {
    fn status(&self, xid: Xid) -> XidStatus {
        *self.state.statuses.get(&xid).unwrap_or_else(|| panic!("{xid:?} is not in the pages"))
    }

    fn update_xid(&self, multi: Xid) -> Option<Xid> {
        *self.state.updaters.get(&multi).unwrap_or_else(|| panic!("{multi:?} is not in the pages"))
    }

    fn is_own(&self, xid: Xid) -> bool {
        self.own.contains(&xid)
    }
}

#[derive(Default)]
struct Counts {
    compared: usize,
    visible: usize,
    multis: usize,
    own: usize,
    kept: usize,
    removed: usize,
}

impl Counts {
    /// Runs VACUUM in the midst of it all: what nobody can see any more goes, and nothing else.
    fn vacuum(&mut self, observer: &mut Client) -> Result<()> {
        // Every snapshot and every transaction of the others holds it back.
        let sql = "SELECT least(min(backend_xid::text::int8), min(backend_xmin::text::int8), \
                       pg_snapshot_xmax(pg_current_snapshot())::text::int8) \
                   FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
        let horizon: i64 = observer.query_one(sql, &[])?.get(0);
        let horizon = Xid::new(u32::try_from(horizon)?);
        let before = State::read(observer)?;
        // Any page may be pruned, also one that is locked for a moment.
        observer.batch_execute("VACUUM (DISABLE_PAGE_SKIPPING) t")?;
        let after = State::read(observer)?;
        let mut expected = BTreeSet::new();
        for (tid, tuple) in before.tuples()? {
            let state = tuple.header().vacuum_state(horizon, &Known { state: &before, own: &[] });
            if state == VacuumState::Dead {
                self.removed += 1;
            } else {
                expected.insert(tid);
            }
        }
        let found: BTreeSet<_> = after.tuples()?.into_iter().map(|(tid, _)| tid).collect();
        assert_eq!(found, expected, "what is left after vacuum, horizon {horizon:?}");
        self.kept += expected.len();
        Ok(())
    }

    fn compare(
        &mut self,
        state: &State,
        snapshot: &Snapshot<'_>,
        own: &[Xid],
        seen: &BTreeSet<(u32, u16)>,
        who: &str,
    ) -> Result<()> {
        let known = Known { state, own };
        let mut ours = 0;
        for (tid, tuple) in state.tuples()? {
            let header = tuple.header();
            let visible = header.is_visible(snapshot, &known);
            assert_eq!(visible, seen.contains(&tid), "{who}: {tid:?} {header:?} {snapshot:?}");
            ours += usize::from(visible);
            self.compared += 1;
            self.visible += usize::from(visible);
            let is_multi = header.infomask().contains(Infomask::XMAX_IS_MULTI);
            self.multis += usize::from(is_multi);
            let is_own = own.contains(&header.xmin()) || own.contains(&header.xmax());
            self.own += usize::from(is_own);
        }
        assert_eq!(ours, seen.len(), "{who}: a tuple that is seen is not in the pages");
        Ok(())
    }
}

/// Every tuple there is, with its block and item.
fn all_tuples(pages: &[Vec<u8>]) -> Result<Vec<((u32, u16), HeapTuple<'_>)>> {
    let mut tuples = Vec::new();
    for (block, bytes) in (0..).zip(pages) {
        let page = Page::parse(bytes, BlockSize::default())?;
        for (item, _) in page.items() {
            if let Item::Normal(bytes) = page.item(item)? {
                tuples.push(((block, item.get()), HeapTuple::parse(bytes)?));
            }
        }
    }
    Ok(tuples)
}

fn tids(rows: &[Row]) -> Result<BTreeSet<(u32, u16)>> {
    rows.iter().map(|row| inspect::tid(row.get(0))).collect()
}
