//! `cargo xtask loom`: the models of every crate that has some.
//!
//! A model lives in a crate's `tests/loom_….rs` and is compiled under `--cfg pgtoast_loom`, a cfg
//! of our own: plain `loom` would change tokio as well, which other tests use.
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::cargo::{cargo, read_along, typed};
use crate::libtest::Transcript;
use crate::pg;
use crate::report::{Report, Row};
use crate::workspace::{self, Package};

const KIND: &str = "loom models";

pub(crate) fn run() -> Result<bool> {
    let mut report = Report::default();
    models(&workspace::packages()?, &mut report)?;
    Ok(report.finish())
}

/// Runs the models of the packages that have some; a row says so if none has.
pub(crate) fn models(packages: &[Package], report: &mut Report) -> Result<()> {
    let mut found = false;
    for package in packages.iter().filter(|package| has_models(&package.directory)) {
        found = true;
        let mut command = cargo(["test", "--release", "--no-fail-fast", "--test", "loom*"]);
        command.args(["--package", &package.name, "--", "--show-output"]);
        command.env("RUSTFLAGS", "--cfg pgtoast_loom").env("CARGO_TARGET_DIR", "target/loom");
        let mut transcript = Transcript::of_package(&package.name);
        let status = read_along(&mut command, |line| transcript.read(line))?;
        transcript.report(&typed(&command), status, pg::any(), report);
    }
    if !found {
        let note = "no loom models in the tree".into();
        report.row(Row { what: "workspace".into(), kind: KIND.into(), note, ..Row::default() });
    }
    Ok(())
}

fn has_models(package: &Path) -> bool {
    fs::read_dir(package.join("tests")).is_ok_and(|files| {
        files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("loom"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_the_names_of_their_files() {
        let directory = std::env::temp_dir().join(format!("xtask-loom-{}", std::process::id()));
        let tests = directory.join("tests");
        fs::create_dir_all(&tests).unwrap();
        fs::write(tests.join("bloom.rs"), "").unwrap();
        assert!(!has_models(&directory));
        fs::write(tests.join("loom_search.rs"), "").unwrap();
        assert!(has_models(&directory));
        fs::remove_dir_all(&directory).unwrap();
        assert!(!has_models(&directory));
    }
}
