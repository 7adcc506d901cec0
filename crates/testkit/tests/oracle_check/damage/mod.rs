//! A cluster in which every table is damaged in its own way.
mod kinds;
mod verdicts;
mod wound;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use pgtoast_datadir::check::{Check, Finding};
use pgtoast_datadir::{DataDirectory, FileSource, OverlaySource};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Installation, Server, ServerOptions, Survey, report};

use kinds::{ALL, Damage, Shape};
use wound::{Healthy, Wound};

/// The table of the damage of that number.
fn table_name(number: usize) -> String {
    format!("damaged_{number:02}")
}

fn make(client: &mut Client, number: usize, shape: Shape) -> Result<()> {
    let name = table_name(number);
    let mut each = |sql: &str| -> Result<()> {
        client.batch_execute(&sql.replace("TABLE_NAME", &name)).with_context(|| sql.to_owned())
    };
    if shape == Shape::Short {
        each(
            "CREATE TABLE TABLE_NAME (id int4, note varchar(20), body varchar(20));
             INSERT INTO TABLE_NAME VALUES (1, repeat('n', 17), 'body')",
        )?;
        return Ok(());
    }
    each(
        "CREATE TABLE TABLE_NAME (id int4, note text COMPRESSION pglz, body text);
         ALTER TABLE TABLE_NAME ALTER body SET STORAGE EXTERNAL;
         INSERT INTO TABLE_NAME SELECT g, 'note ' || g, left(repeat(md5(g::text), 160), 5000)
             FROM generate_series(1, 8) g;
         INSERT INTO TABLE_NAME SELECT 9, string_agg(md5(g::text) || repeat('z', 20), ''), NULL
             FROM generate_series(1, 120) g;
         INSERT INTO TABLE_NAME VALUES (10, repeat('compress me ', 300), NULL)",
    )?;
    if shape == Shape::Settled {
        each("VACUUM (FREEZE) TABLE_NAME")?;
        return Ok(());
    }
    each(
        "INSERT INTO TABLE_NAME VALUES (11, 'old', NULL),
             (12, 'gone', left(repeat(md5('gone'), 160), 5000)), (13, repeat('x', 600), NULL), (14, 'old', NULL)",
    )?;
    each("UPDATE TABLE_NAME SET id = 114 WHERE id = 14")?;
    each("VACUUM TABLE_NAME")?;
    each("UPDATE TABLE_NAME SET id = 111 WHERE id = 11")?;
    each("DELETE FROM TABLE_NAME WHERE id = 12")?;
    let toast: String = client
        .query_one(
            "SELECT reltoastrelid::regclass::text FROM pg_class WHERE relname = $1",
            &[&name],
        )?
        .get(0);
    client.batch_execute(&format!("VACUUM {toast}"))?;
    // Everyone has looked at every row, so all hints are there.
    client.query_one(&format!("SELECT count(*) FROM {name}"), &[])?;
    Ok(())
}

/// A stopped cluster with a healthy table for each damage.
struct Cluster {
    server: Server,
    directory: DataDirectory,
    tables: Vec<Healthy>,
}

impl Cluster {
    fn start(installation: &Installation) -> Result<Self> {
        let mut server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        if server.has_extension(&mut client, "amcheck")? {
            client.batch_execute("CREATE EXTENSION amcheck")?;
        }
        for (number, damage) in ALL.iter().enumerate() {
            make(&mut client, number, damage.shape)?;
        }
        drop(client);
        server.stop()?;
        let directory = DataDirectory::open(server.data_directory())?;
        let database = directory.database("postgres")?.context("no database")?;
        let tables = (0..ALL.len())
            .map(|number| Healthy::read(&database, &table_name(number)))
            .collect::<Result<_>>()?;
        Ok(Self { server, directory, tables })
    }

    fn inflict(&self, number: usize, source: &mut OverlaySource) -> Result<()> {
        let damage = &ALL[number];
        let control = self.directory.control();
        let mut wound = Wound {
            table: &self.tables[number],
            source,
            control,
            redo_checksums: damage.redo_checksums,
        };
        (damage.inflict)(&mut wound).with_context(|| damage.name)
    }

    /// Everything that is found in the cluster, by table, in the words of the table of damages.
    fn check(&self, source: OverlaySource, check: Check) -> Result<BTreeMap<usize, Vec<String>>> {
        let directory = DataDirectory::from_source(Arc::new(source))?;
        let mut findings = Vec::new();
        check.directory(&directory, &mut |finding: Finding| findings.push(finding));
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for finding in findings {
            let names = finding.subject.owner.iter().map(|(_, name)| name.as_str());
            let name = names.chain([finding.subject.name.as_str()]).next().unwrap_or_default();
            let number = self.tables.iter().position(|table| table.name == name);
            let number = number.with_context(|| format!("not of a damaged table: {finding}"))?;
            ensure!(!finding.to_string().contains('\n'), "more than a line: {finding}");
            found.entry(number).or_default().push(self.tables[number].say(&finding));
        }
        Ok(found)
    }

    fn overlay(&self) -> OverlaySource {
        OverlaySource::over(Arc::new(FileSource::new(self.server.data_directory())))
    }
}

/// Whether just what is expected was found.
fn compare(damage: &Damage, found: &[String]) -> Result<()> {
    let mut left: Vec<_> = found.iter().map(String::as_str).collect();
    // An index that was left alone does not agree with chunks that were damaged, and says so.
    if !damage.found.iter().any(|one| one.contains("index")) {
        left.retain(|one| !one.contains(": index-entry-"));
    }
    let mut wildcards_hit = 0;
    for expected in damage.found {
        let before = left.len();
        if let Some(kind) = expected.strip_prefix("*: ") {
            left.retain(|one| one.rsplit_once(": ").is_none_or(|(_, found)| found != kind));
            wildcards_hit += usize::from(left.len() < before);
        } else {
            let at = left.iter().position(|one| one == expected);
            let at = at.with_context(|| format!("{}: no {expected}: {found:?}", damage.name))?;
            left.swap_remove(at);
        }
    }
    let has_wildcards = damage.found.iter().any(|one| one.starts_with('*'));
    ensure!(!has_wildcards || wildcards_hit > 0, "{}: {found:?}", damage.name);
    ensure!(left.is_empty(), "{}: also {left:?} of {found:?}", damage.name);
    Ok(())
}

#[test]
fn each_damage_is_named_and_nothing_else() -> Result<()> {
    const TEST: &str = "each_damage_is_named_and_nothing_else";
    Survey::on_every_server(TEST, |installation| {
        let cluster = Cluster::start(installation)?;
        let healthy = cluster.check(cluster.overlay(), Check::new().with_deep(true))?;
        ensure!(healthy.is_empty(), "{healthy:?}");
        // All at once: each must be found beside the others, whatever the memory and the threads.
        let mut all = cluster.overlay();
        for number in 0..ALL.len() {
            cluster.inflict(number, &mut all)?;
        }
        let mut wrong = String::new();
        let tight = Check::new().with_threads(1).with_memory(30_000);
        for check in [Check::new().with_threads(2), tight] {
            let found = cluster.check(all.clone(), check.with_deep(true))?;
            for (number, damage) in ALL.iter().enumerate() {
                let found = found.get(&number).map_or(&[][..], Vec::as_slice);
                if let Err(error) = compare(damage, found) {
                    writeln!(wrong, "{error:#}")?;
                }
            }
        }
        ensure!(wrong.is_empty(), "{wrong}");
        report::count(TEST, format_args!("{}: {} damages", cluster.server.major(), ALL.len()));
        Ok(())
    })
}
