//! What the server's own tools say of each damage, and the table of it all in the documentation.
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use pgtoast_datadir::{FileSource, Source as _};
use pgtoast_testkit::{Installation, Server, report};

use super::kinds::ALL;
use super::{Cluster, table_name};

/// The majors whose verdicts the table has: the oldest and the newest of the server's checker's ways, and
/// the one with `pg_checksums` at hand.
const MAJORS: [u32; 2] = [15, 18];

/// What was said, by column of the table: `pg_checksums`, and the checker of each major.
type Verdicts = BTreeMap<String, Vec<String>>;

#[test]
fn the_table_of_verdicts_is_what_the_tools_say() -> Result<()> {
    const TEST: &str = "the_table_of_verdicts_is_what_the_tools_say";
    let mut verdicts = Verdicts::new();
    for major in MAJORS {
        match Installation::find(major) {
            Ok(installation) => {
                ask(&installation, &mut verdicts).with_context(|| format!("PostgreSQL {major}"))?
            }
            Err(error) => report::skip(TEST, error),
        }
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../datadir/DAMAGE.md");
    if std::env::var_os("PGTOAST_BLESS").is_some() {
        fs::write(&path, document(&verdicts))?;
    }
    let text = fs::read_to_string(&path)?;
    let rows = rows(&text);
    ensure!(rows.len() == ALL.len() + 1, "{} rows of {} damages", rows.len(), ALL.len());
    for (name, said) in &verdicts {
        let column = rows[0].iter().position(|title| title == name).context("no such column")?;
        for ((row, said), damage) in rows[1..].iter().zip(said).zip(ALL) {
            ensure!(row[0] == damage.name, "{} is {}", row[0], damage.name);
            let written = row.get(column).context("a short row")?;
            ensure!(written == said, "{}: {name} says {said}, written {written}", damage.name);
        }
    }
    for ((row, damage), found) in rows[1..].iter().zip(ALL).zip(ALL.iter().map(found)) {
        ensure!(row[1] == damage.class && row[2] == found, "{}: {row:?}", damage.name);
    }
    Ok(())
}

/// Puts every damage on the disk of a stopped server and asks the tools.
fn ask(installation: &Installation, verdicts: &mut Verdicts) -> Result<()> {
    let mut cluster = Cluster::start(installation)?;
    let mut all = cluster.overlay();
    for number in 0..ALL.len() {
        cluster.inflict(number, &mut all)?;
    }
    let disk = FileSource::new(cluster.server.data_directory());
    for (file, bytes) in all.files() {
        fs::write(disk.path(file), bytes)?;
    }
    for table in &cluster.tables {
        for file in [Some(table.main), table.toast, table.index].into_iter().flatten() {
            if all.file_len(file)?.is_none() {
                fs::remove_file(disk.path(file))?;
            }
        }
    }
    if let Some(said) = checksums(&cluster, &disk)? {
        verdicts.insert("`pg_checksums`".to_owned(), said);
    }
    cluster.server.start_again()?;
    let said: Result<_> =
        (0..ALL.len()).map(|number| checker(&cluster.server, &table_name(number))).collect();
    verdicts.insert(format!("`verify_heapam` {}", cluster.server.major()), said?);
    Ok(())
}

/// What `pg_checksums -c` says of the files of each table; `None` where there is no such program.
fn checksums(cluster: &Cluster, disk: &FileSource) -> Result<Option<Vec<String>>> {
    let mut said = Vec::new();
    for table in &cluster.tables {
        let mut verdict = "–".to_owned();
        for file in [Some(table.main), table.toast, table.index].into_iter().flatten() {
            let path = disk.path(file);
            let filenode = path.file_name().context("no name")?;
            let Some(mut command) = cluster.server.command("pg_checksums") else { return Ok(None) };
            let output = command
                .arg("--check")
                .arg("--filenode")
                .arg(filenode)
                .arg("-D")
                .arg(cluster.server.data_directory())
                .output()?;
            let text = String::from_utf8_lossy(&output.stderr);
            if text.contains("verification failed") {
                "bad checksum".clone_into(&mut verdict);
            } else if !output.status.success() && verdict == "–" {
                "gives up".clone_into(&mut verdict);
            }
        }
        said.push(verdict);
    }
    Ok(Some(said))
}

/// What the server's own checker says of a table and of its TOAST relation.
fn checker(server: &Server, table: &str) -> Result<String> {
    let mut client = server.client()?;
    let toast: String = client
        .query_one(
            "SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = $1::text::regclass",
            &[&table],
        )?
        .get(0);
    let mut said: Vec<String> = Vec::new();
    for (relation, prefix) in [(table, ""), (toast.as_str(), "TOAST ")] {
        if relation == "-" {
            continue;
        }
        let rows = client.query(
            "SELECT blkno, offnum, attnum FROM verify_heapam($1::text::regclass, check_toast := true)",
            &[&relation],
        );
        match rows {
            Ok(rows) => {
                for row in rows {
                    let (block, item): (Option<i64>, Option<i32>) = (row.get(0), row.get(1));
                    let attribute: Option<i32> = row.get(2);
                    let mut one = format!(
                        "{prefix}({},{})",
                        block.unwrap_or_default(),
                        item.unwrap_or_default()
                    );
                    if let Some(attribute) = attribute {
                        // It counts from 0, and the catalogs from 1.
                        write!(one, " column {}", attribute + 1)?;
                    }
                    if !said.contains(&one) {
                        said.push(one);
                    }
                }
            }
            Err(error) => {
                let Some(error) = error.as_db_error() else { bail!("{table}: {error}") };
                said.push(format!("{prefix}error {}", error.code().code()));
            }
        }
    }
    Ok(match said.len() {
        0 => "–".to_owned(),
        1..=3 => said.join(", "),
        more => format!("{}, {} more", said[..2].join(", "), more - 2),
    })
}

fn found(damage: &super::Damage) -> String {
    let mut kinds: Vec<_> =
        damage.found.iter().map(|one| one.strip_prefix("*: ").unwrap_or(one)).collect();
    if kinds.len() > 4 {
        kinds.truncate(3);
        kinds.push("…");
    }
    kinds.join("; ")
}

/// The cells of each row of the one table in the text, its titles first.
fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("|-"))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

fn document(verdicts: &Verdicts) -> String {
    let mut text = "\
# What is found of each damage

Each row is a damage that a test does to a table of its own, all in one cluster; then one run of `check` finds what
the third column says and nothing else. Beside it stands what PostgreSQL's own tools say of the same files:
`pg_checksums --check` of release 15, and `verify_heapam` of the table (TOAST included) and of its TOAST relation.
Checksums were made anew behind most damages, because a checksum tells that something happened and not what.
`–` is nothing; `error` is one that ended the run; `(block,item)` is what was named.

The rows: 1 to 8 have a value of 5000 bytes out of line in `body`, 9 a compressed one in `note`; 10 is compressed
in place, 13 long in place; 11 was updated to 111, 14 to 114; 12 is deleted. Classes are those of the server's
checker: LP line pointers, HC chains, TH tuple headers, AT attributes, TV values.

"
    .to_owned();
    let titles: Vec<_> = verdicts.keys().map(String::as_str).collect();
    text += &format!("| damage | class | `check` | {} |\n", titles.join(" | "));
    text += &format!("|{}\n", "---|".repeat(3 + titles.len()));
    for (number, damage) in ALL.iter().enumerate() {
        let said: Vec<_> = verdicts.values().map(|said| said[number].as_str()).collect();
        let (name, class) = (damage.name, damage.class);
        text += &format!("| {name} | {class} | {} | {} |\n", found(damage), said.join(" | "));
    }
    text
}
