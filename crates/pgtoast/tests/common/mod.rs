//! Runs the command on data directories that servers wrote.
#![allow(dead_code, reason = "each test file uses its part")]
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use pgtoast::datadir::{DataDirectory, FileSource, Fork};
use pgtoast_testkit::fixtures;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const MAJORS: [u32; 2] = fixtures::MAJORS;

/// `testdata/<major>/datadir.tar.lz4` as files.
pub(crate) struct Fixture {
    root: TempDir,
}

impl Fixture {
    pub(crate) fn new(major: u32) -> Self {
        let root = tempfile::tempdir().expect("as a fixture has it");
        for (path, bytes) in fixtures::data_directory(major).expect("the fixture") {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("as a fixture has it");
            fs::write(path, bytes).expect("as a fixture has it");
        }
        Self { root }
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    /// Runs the command on it.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = pgtoast();
        command.arg("-D").arg(self.path()).args(arguments);
        Ran::of(&mut command)
    }

    /// The same in the database that has the tables.
    pub(crate) fn run_in(&self, arguments: &[&str]) -> Ran {
        self.run(&[&["-d", "postgres"], arguments].concat())
    }

    /// What it prints as JSON, which the schema allows.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.run_in(&[&["--json"], arguments].concat()).json()
    }

    /// The first file of a table, or of its TOAST relation.
    pub(crate) fn file(&self, table: &str, toast: bool) -> PathBuf {
        let directory = DataDirectory::open_online(self.path()).expect("as a fixture has it");
        let database =
            directory.database("postgres").expect("readable").expect("as a fixture has it");
        let mut relation = database.relation_named(table).expect("as a fixture has it");
        if toast {
            relation = database.toast_of(relation).expect("as a fixture has it");
        }
        let fork =
            database.fork(relation, Fork::Main).expect("readable").expect("as a fixture has it");
        FileSource::new(self.path()).path(fork.file())
    }

    /// Changes bytes of a file.
    pub(crate) fn change(&self, file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(file).expect("as a fixture has it");
        change(&mut bytes);
        fs::write(file, bytes).expect("as a fixture has it");
    }
}

pub(crate) fn pgtoast() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgtoast"));
    command.env_remove("PGDATA").env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// What a run has left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) errors: String,
}

impl Ran {
    pub(crate) fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().expect("the command starts");
        let code = status.code().expect("it ends by itself");
        Self {
            code,
            bytes: stdout,
            errors: String::from_utf8(stderr).expect("as a fixture has it"),
        }
    }

    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes).expect("text")
    }

    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn code(self, expected: i32) -> Self {
        assert_eq!(
            self.code,
            expected,
            "{}\n{}",
            String::from_utf8_lossy(&self.bytes),
            self.errors
        );
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let value: Value = serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.text(), self.errors));
        let errors: Vec<_> =
            validator().iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}\n{value:#}");
        value
    }
}

fn validator() -> &'static jsonschema::Validator {
    static VALIDATOR: OnceLock<jsonschema::Validator> = OnceLock::new();
    VALIDATOR.get_or_init(|| {
        let schema = serde_json::from_str(pgtoast::report::SCHEMA).expect("JSON");
        jsonschema::validator_for(&schema).expect("a schema")
    })
}
