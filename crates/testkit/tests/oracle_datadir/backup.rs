//! Files copied one after the other from a busy server: until the log is replayed a value may be lost,
//! and is then flagged; one that reads is one that was there. After replay and a clean stop all is whole.
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use pgtoast_datadir::{Consistency, DataDirectory};
use pgtoast_page::{TupleDescriptor, Value};
use pgtoast_testkit::{Server, ServerOptions, Survey, report};

const TEST: &str = "a_base_backup_loses_values_but_never_gives_wrong_ones";
const ROWS: usize = 400;

#[test]
fn a_base_backup_loses_values_but_never_gives_wrong_ones() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let options =
            ServerOptions::new().set("wal_level", "replica").set("full_page_writes", "on");
        let mut server = Server::start(installation, &options)?;
        let mut client = server.client()?;
        client.batch_execute(&format!(
            "CREATE TABLE busy (id int4 PRIMARY KEY, t text);
             ALTER TABLE busy ALTER t SET STORAGE EXTERNAL;
             INSERT INTO busy SELECT g, repeat(md5(g::text), 200) FROM generate_series(1, {ROWS}) g"
        ))?;
        let copy = server.socket_directory().join("copy");
        copy_while_busy(&server, &copy)?;

        let early = DataDirectory::open(&copy)?;
        let consistency = early.consistency();
        ensure!(consistency == Consistency::BackupBeforeReplay, "{consistency}");
        let (whole, flagged) = read(&early)?;
        ensure!(whole > 0, "nothing could be read");

        // The copy takes the server's place: it replays the log that came with it.
        drop(client);
        server.stop()?;
        fs::remove_dir_all(server.data_directory())?;
        fs::rename(&copy, server.data_directory())?;
        server.start_again()?;
        let count: i64 = server.client()?.query_one("SELECT count(*) FROM busy", &[])?.get(0);
        server.stop()?;
        let late = DataDirectory::open(server.data_directory())?;
        ensure!(late.consistency() == Consistency::Clean, "{}", late.consistency());
        let after = read(&late)?;
        ensure!(after == (usize::try_from(count)?, 0), "{after:?} after replay, by SQL {count}");
        let major = server.major();
        report::count(
            TEST,
            format_args!("{major}: {whole} whole and {flagged} flagged before replay"),
        );
        Ok(())
    })
}

/// Copies the data directory as a base backup does, while a session updates all it can.
fn copy_while_busy(server: &Server, copy: &Path) -> Result<()> {
    let mut client = server.client()?;
    let (start, stop) = if server.major() < 15 {
        ("pg_start_backup('copy', true, false)", "pg_stop_backup(false, false)")
    } else {
        ("pg_backup_start('copy', true)", "pg_backup_stop(false)")
    };
    let is_done = AtomicBool::new(false);
    let label: String = thread::scope(|scope| {
        let worker = scope.spawn(|| -> Result<()> {
            let mut client = server.client()?;
            while !is_done.load(Ordering::Relaxed) {
                client.batch_execute(
                    "UPDATE busy SET t = repeat(md5(random()::text), 150 + (random() * 100)::int4) \
                     WHERE id % 10 = (random() * 9)::int4",
                )?;
                client.batch_execute("VACUUM busy")?;
            }
            Ok(())
        });
        client.batch_execute(&format!("SELECT {start}"))?;
        // Files that vanish meanwhile are none of the backup's business, so its verdict does not count.
        Command::new("cp").arg("-a").arg(server.data_directory()).arg(copy).output()?;
        let label = client.query_one(&format!("SELECT labelfile FROM {stop}"), &[])?.get(0);
        // The end of the backup is in the log, which must come along.
        let wal = server.data_directory().join("pg_wal");
        Command::new("cp").arg("-a").arg(wal).arg(copy).output()?;
        is_done.store(true, Ordering::Relaxed);
        worker.join().ok().context("the worker panicked")??;
        Ok::<_, anyhow::Error>(label)
    })?;
    fs::write(copy.join("backup_label"), label)?;
    let owner = fs::metadata(copy.join("PG_VERSION"))?;
    chown(copy.join("backup_label"), Some(owner.uid()), Some(owner.gid()))?;
    let _ = fs::remove_file(copy.join("postmaster.pid"));
    Ok(())
}

/// How many visible rows have their value, and how many do not. A value is one text of 32 characters over
/// and over, so that pieces of two values cannot pass for one.
fn read(directory: &DataDirectory) -> Result<(usize, usize)> {
    let database = directory.database("postgres")?.context("no database")?;
    let relation = database.relation_named("busy").context("no table")?;
    let table = database.table(relation)?;
    let mut detoaster = database.detoaster(relation, 1 << 20)?;
    let attributes = table.columns().attributes();
    let descriptor = TupleDescriptor::new(&attributes)?;
    let (mut whole, mut flagged) = (0, 0);
    let mut rows = table.rows();
    while let Some(row) = rows.next() {
        let Ok(row) = row else {
            flagged += 1;
            continue;
        };
        let Some(Ok(second)) = row.deform(descriptor)?.nth(1) else {
            flagged += 1;
            continue;
        };
        let Value::Stored(datum) = second.value else { continue };
        match detoaster.detoast(&datum.varlena()?) {
            Ok(value) => {
                let (pieces, rest) = value.as_bytes().as_chunks::<32>();
                let is_one = pieces.iter().all(|piece| *piece == pieces[0]);
                ensure!(is_one && rest.is_empty() && pieces.len() >= 150, "{} is wrong", row.tid);
                whole += 1;
            }
            Err(_) => flagged += 1,
        }
    }
    Ok((whole, flagged))
}
