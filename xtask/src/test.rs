//! `cargo xtask test`: every test there is, then a table of what ran and what did not, and why.
use anyhow::Result;

use crate::cargo::{cargo, passes, read_along, typed};
use crate::libtest::Transcript;
use crate::report::Report;
use crate::workspace::{self, Package};
use crate::{loom, pg, readme};

pub(crate) fn run() -> Result<bool> {
    let packages = workspace::packages()?;
    let mut report = Report::default();
    // Unit, integration and doc tests, the corpora through the fuzz bodies, and the live oracles,
    // which look for servers themselves.
    tests(
        &["test", "--workspace", "--no-fail-fast", "--features", "pgtoast-testkit/server"],
        &["--", "--show-output"],
        &mut report,
    )?;
    readme::run(&packages, &mut report)?;
    without_std(&packages, &mut report)?;
    loom::models(&packages, &mut report)?;
    pg::report_missing(&mut report);
    Ok(report.finish())
}

/// Runs `cargo test` with the arguments and counts what it says.
pub(crate) fn tests(arguments: &[&str], behind: &[&str], report: &mut Report) -> Result<()> {
    let mut command = cargo(arguments.iter().chain(behind));
    let mut transcript = Transcript::default();
    let status = read_along(&mut command, |line| transcript.read(line))?;
    transcript.report(&typed(&command), status, pg::any(), report);
    Ok(())
}

/// Checks that each leaf crate compiles with nothing, and with `alloc` alone.
pub(crate) fn without_std(packages: &[Package], report: &mut Report) -> Result<()> {
    for package in packages.iter().filter(|package| package.is_leaf()) {
        let mut check = cargo(["check", "--no-default-features", "-p", &package.name]);
        let (passed, elapsed) = passes(&mut check)?;
        report.check(&package.name, "check without std", passed, elapsed);
        if package.features.contains("alloc") {
            let (passed, elapsed) = passes(check.args(["--features", "alloc"]))?;
            report.check(&package.name, "check with alloc", passed, elapsed);
        }
    }
    Ok(())
}
