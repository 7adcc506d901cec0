//! A data directory of a server that was stopped cleanly, read from its files alone: databases,
//! tablespaces, relations, columns, types and indexes are those of SQL, every table has the rows that
//! SQL counts, and every transaction has the fate that SQL gives it.
use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::Xid;
use pgtoast_datadir::{Consistency, DataDirectory, Database, DatadirError};
use pgtoast_page::XidStatus;
use pgtoast_testkit::{Server, ServerOptions, Survey, report};

mod backup;
mod catalogs;
mod scenario;
mod values;

const TEST: &str = "a_stopped_cluster_reads_as_sql_did";

#[test]
fn a_stopped_cluster_reads_as_sql_did() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let options = ServerOptions::new().set("max_prepared_transactions", "5");
        let mut server = Server::start(installation, &options)?;
        scenario::run(&server)?;
        let expected = Expected::ask(&server)?;
        let online = DataDirectory::open(server.data_directory()).err();
        ensure!(matches!(online, Some(DatadirError::ServerRunning { .. })), "{online:?}");
        server.stop()?;

        let directory = DataDirectory::open(server.data_directory())?;
        ensure!(directory.version().major == server.major());
        ensure!(directory.consistency() == Consistency::Clean, "{}", directory.consistency());
        ensure!(directory.problems().is_empty(), "{:?}", directory.problems());
        let counts = expected.compare(&directory)?;
        report::count(TEST, format_args!("{}: {counts}", server.major()));
        Ok(())
    })
}

/// What SQL says of the whole cluster.
struct Expected {
    databases: Vec<String>,
    tablespaces: Vec<String>,
    /// By database: those that sessions may use.
    catalogs: BTreeMap<String, catalogs::Catalogs>,
    fates: Vec<(u32, XidStatus)>,
    prepared: Vec<String>,
}

impl Expected {
    fn ask(server: &Server) -> Result<Self> {
        let mut client = server.client()?;
        let mut lines = |sql: &str| catalogs::lines(&mut client, sql);
        let databases = lines(
            "SELECT concat_ws(' ', oid, datname, dattablespace, encoding, datistemplate, \
             datallowconn, datfrozenxid, datminmxid) FROM pg_database",
        )?;
        let tablespaces = lines("SELECT concat_ws(' ', oid, spcname) FROM pg_tablespace")?;
        let prepared = lines("SELECT concat_ws(' ', transaction, gid) FROM pg_prepared_xacts")?;
        let names = lines("SELECT datname FROM pg_database WHERE datallowconn")?;
        let mut catalogs = BTreeMap::new();
        for name in names {
            let asked = catalogs::Catalogs::ask(&mut server.client_of(&name)?);
            catalogs.insert(name.clone(), asked.with_context(|| name)?);
        }
        // Asked last: what was asked before gave out no ids, and ended all hint bits that it could.
        let next: i64 = client.query_one("SELECT txid_current()", &[])?.get(0);
        let rows = client.query(
            "SELECT x, pg_xact_status(x::text::xid8) FROM generate_series(3::int8, $1) x",
            &[&(next - 1)],
        )?;
        let mut fates = Vec::new();
        for row in rows {
            let (xid, fate): (i64, Option<&str>) = (row.get(0), row.get(1));
            fates.push((
                u32::try_from(xid)?,
                match fate {
                    Some("committed") => XidStatus::Committed,
                    Some("aborted") => XidStatus::Aborted,
                    Some("in progress") => XidStatus::InProgress,
                    // Too old for the server to say.
                    _ => continue,
                },
            ));
        }
        Ok(Self { databases, tablespaces, catalogs, fates, prepared })
    }

    fn compare(&self, directory: &DataDirectory) -> Result<String> {
        let mut databases: Vec<_> = directory
            .databases()
            .iter()
            .map(|one| {
                let letter = |yes| if yes { "t" } else { "f" };
                format!(
                    "{} {} {} {} {} {} {} {}",
                    one.oid,
                    one.name,
                    one.tablespace,
                    one.encoding,
                    letter(one.is_template),
                    letter(one.allows_connections),
                    one.frozen_xid,
                    one.minimum_multi
                )
            })
            .collect();
        catalogs::same("databases", &mut databases, &self.databases)?;
        let tablespace = |one: &pgtoast_datadir::Tablespace| format!("{} {}", one.oid, one.name);
        let mut tablespaces: Vec<_> = directory.tablespaces().iter().map(tablespace).collect();
        catalogs::same("tablespaces", &mut tablespaces, &self.tablespaces)?;

        let transactions = directory.transactions();
        for (xid, fate) in &self.fates {
            let found = transactions.status(Xid::new(*xid))?;
            ensure!(found == *fate, "transaction {xid}: {found:?}, by SQL {fate:?}");
        }
        let mut prepared: Vec<_> =
            transactions.prepared().iter().map(|one| format!("{} {}", one.xid, one.name)).collect();
        catalogs::same("prepared transactions", &mut prepared, &self.prepared)?;
        let subtransactions = transactions.prepared().iter().flat_map(|one| &one.subtransactions);
        ensure!(subtransactions.count() == 2, "{:?}", transactions.prepared());

        let mut counts = catalogs::Counts::default();
        for (name, catalogs) in &self.catalogs {
            let database = directory.database(name)?.context("no such database")?;
            ensure!(database.problems().is_empty(), "{name}: {:?}", database.problems());
            catalogs.compare(&database, &mut counts).with_context(|| name.clone())?;
        }
        ensure!(counts.out_of_line > 1500 && counts.missing > 300, "{counts}");
        let count = |fate| self.fates.iter().filter(|(_, one)| *one == fate).count();
        for fate in [XidStatus::Committed, XidStatus::Aborted, XidStatus::InProgress] {
            ensure!(count(fate) > 0, "no transaction is {fate:?}");
        }
        multixacts(&directory.database("postgres")?.context("no postgres")?)?;
        Ok(format!("{counts}, {} transactions", self.fates.len()))
    }
}

/// The scenario leaves rows whose xmax is a multixact with an updater that committed, one with an
/// updater that did not, and one of lockers alone.
fn multixacts(database: &Database) -> Result<()> {
    let relation = database.relation_named("locked").context("no table")?;
    let table = database.table(relation)?;
    let mut updaters = Vec::new();
    let mut rows = table.rows().with_dead();
    while let Some(row) = rows.next() {
        let header = *row?.tuple.header();
        if header.infomask().contains(pgtoast_page::Infomask::XMAX_IS_MULTI) {
            let members = table.transactions().members(header.xmax().get())?;
            ensure!(members.len() >= 2, "{members:?}");
            let updater = members.iter().find(|one| one.status.is_update());
            updaters.push(match updater {
                None => None,
                Some(one) => Some(table.transactions().status(one.xid)?),
            });
        }
    }
    for expected in [None, Some(XidStatus::Committed), Some(XidStatus::Aborted)] {
        ensure!(updaters.contains(&expected), "no multixact with {expected:?}: {updaters:?}");
    }
    Ok(())
}
