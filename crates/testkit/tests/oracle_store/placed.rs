//! Files under a server's table.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use pgtoast_store::{ExportTarget, ExportedFile, Store, Table};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Server, inspect, report};

/// An empty table of a server, and where its files are.
pub(crate) struct Place {
    pub(crate) name: String,
    heap: PathBuf,
    toast: Option<ToastPlace>,
}

struct ToastPlace {
    name: String,
    oid: u32,
    chunks: PathBuf,
    index_name: String,
    index: PathBuf,
}

impl Place {
    pub(crate) fn find(server: &Server, client: &mut Client, name: &str) -> Result<Self> {
        let toast = match inspect::toast_relation(client, name)? {
            Some(toast) => {
                let sql = "SELECT $1::text::regclass::oid, indexrelid::regclass::text \
                           FROM pg_index WHERE indrelid = $1::text::regclass";
                let row = client.query_one(sql, &[&toast])?;
                let (oid, index_name): (u32, String) = (row.get(0), row.get(1));
                Some(ToastPlace {
                    oid,
                    chunks: server.relation_path(client, &toast)?,
                    index: server.relation_path(client, &index_name)?,
                    name: toast,
                    index_name,
                })
            }
            None => None,
        };
        Ok(Self { name: name.to_owned(), heap: server.relation_path(client, name)?, toast })
    }

    /// Puts a table of the store in its place, while the server is stopped. Says how many chunks it has.
    pub(crate) fn put(&self, store: &Store, table: &Table, release: u32) -> Result<(u64, u64)> {
        let directory = tempfile::tempdir()?;
        let oid = self.toast.as_ref().map_or(0, |toast| toast.oid);
        let target = ExportTarget::new(oid).release(release);
        let export = store.export(table, directory.path(), &target)?;
        replace(&export.heap, &self.heap)?;
        match (&self.toast, &export.toast, &export.toast_index) {
            (Some(toast), Some(chunks), Some(index)) => {
                replace(chunks, &toast.chunks)?;
                replace(index, &toast.index)?;
            }
            // A server keeps a relation that it made before the columns became plain.
            (_, None, None) => {}
            _ => anyhow::bail!("{} chunks and no relation for them", export.chunks),
        }
        let left: Vec<_> = fs::read_dir(directory.path())?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .filter(|name| name.ends_with(".unfinished"))
            .collect();
        ensure!(left.is_empty(), "{left:?} left behind");
        Ok((export.rows, export.chunks))
    }

    /// The server finds nothing to complain of.
    pub(crate) fn is_sound(&self, client: &mut Client) -> Result<()> {
        let sql = "SELECT format('block %s item %s attribute %s: %s', blkno, offnum, attnum, msg) \
                   FROM verify_heapam($1::text::regclass, check_toast => true)";
        let relations = [Some(&self.name), self.toast.as_ref().map(|toast| &toast.name)];
        for relation in relations.into_iter().flatten() {
            let findings = client.query(sql, &[relation])?;
            if let Some(first) = findings.first() {
                anyhow::bail!(
                    "{relation}: {} findings: {}",
                    findings.len(),
                    first.get::<_, String>(0)
                );
            }
        }
        if let Some(toast) = &self.toast {
            let sql = "SELECT bt_index_check($1::text::regclass, heapallindexed => true)";
            client.execute(sql, &[&toast.index_name])?;
            let sql = "SELECT bt_index_parent_check($1::text::regclass, true, true)";
            client.execute(sql, &[&toast.index_name])?;
        }
        Ok(())
    }

    /// The server goes on with the table: inserts, updates, deletes, vacuums, rewrites. `column` is one that
    /// it may set.
    pub(crate) fn goes_on(&self, client: &mut Client, column: &str) -> Result<()> {
        let name = &self.name;
        let before = Rows::read(client, name)?;
        let inserted =
            client.execute(&format!("INSERT INTO {name} SELECT * FROM {name} LIMIT 40"), &[])?;
        let update = format!("UPDATE {name} SET {column} = {column} WHERE ctid::text LIKE '%5)'");
        client.execute(&update, &[])?;
        let delete = format!("DELETE FROM {name} WHERE ctid::text LIKE '%3)'");
        let deleted = client.execute(&delete, &[])?;
        let after = Rows::read(client, name)?;
        let expected = before.0 + i64::try_from(inserted)? - i64::try_from(deleted)?;
        ensure!(after.0 == expected, "{} rows, expected {expected}", after.0);
        client.batch_execute(&format!("VACUUM (INDEX_CLEANUP ON) {name}"))?;
        self.is_sound(client)?;
        ensure!(Rows::read(client, name)? == after, "other rows after a vacuum");
        client.batch_execute(&format!("VACUUM FULL {name}"))?;
        ensure!(Rows::read(client, name)? == after, "other rows after a rewrite");
        Ok(())
    }
}

/// How many rows there are, and a sum over all of their texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rows(pub(crate) i64, String);

impl Rows {
    pub(crate) fn read(client: &mut Client, table: &str) -> Result<Self> {
        let sql = format!(
            "SELECT count(*), coalesce(md5(string_agg(one, '' ORDER BY one)), '') \
             FROM (SELECT md5(t::text) one FROM {table} t) _"
        );
        let row = client.query_one(&sql, &[])?;
        Ok(Self(row.get(0), row.get(1)))
    }
}

/// Replaces the files of a relation, all its forks.
fn replace(file: &ExportedFile, path: &Path) -> Result<()> {
    ensure!(file.segments == 1, "{} segments of a small table", file.segments);
    // Written into what is there, so that it stays the server's.
    fs::copy(&file.path, path)?;
    for fork in ["_fsm", "_vm"] {
        let fork = PathBuf::from(format!("{}{fork}", path.display()));
        if fork.exists() {
            fs::remove_file(fork)?;
        }
    }
    Ok(())
}

/// The stopped server's own program finds every checksum right, where there is one.
pub(crate) fn check_checksums(server: &Server, test: &str) -> Result<()> {
    let Some(mut command) = server.command("pg_checksums") else {
        report::skip(test, format!("PostgreSQL {} comes without pg_checksums", server.major()));
        return Ok(());
    };
    let output = command.arg("--check").arg("-D").arg(server.data_directory()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// The running server has met no page with a wrong checksum.
pub(crate) fn no_checksum_failed(client: &mut Client) -> Result<()> {
    let sql = "SELECT coalesce(sum(checksum_failures), 0)::int8 FROM pg_stat_database";
    let failures: i64 = client.query_one(sql, &[])?.get(0);
    ensure!(failures == 0, "{failures} checksums were wrong when the server read the pages");
    Ok(())
}
