//! `cargo xtask lint`: all that can be said about the code without running it.
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::cargo::{cargo, passes};
use crate::report::Report;
use crate::workspace::{self, Package};
use crate::{arrows, test, tidy, toolchain};

const BARE_TARGET: &str = "x86_64-unknown-none";

pub(crate) fn run() -> Result<bool> {
    let packages = workspace::packages()?;
    let mut report = Report::default();
    complaints("forbidden words", tidy::forbidden_words(&packages), &mut report)?;
    complaints("arrows", arrows::drawn_wrong(&packages), &mut report)?;
    check("fmt", cargo(["fmt", "--all", "--check"]), &mut report)?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-Dwarnings"];
    check("clippy", cargo(clippy), &mut report)?;
    let mut docs = cargo(["doc", "--workspace", "--no-deps", "--all-features"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    check("doc", docs, &mut report)?;
    if toolchain::answers("cargo", &["deny", "--version"]) {
        check("cargo-deny", cargo(["deny", "check"]), &mut report)?;
    } else {
        report.skip("cargo-deny", "not installed");
    }
    test::without_std(&packages, &mut report)?;
    bare_target(&packages, &mut report)?;
    check("package", package(&packages), &mut report)?;
    Ok(report.finish())
}

fn check(what: &str, mut command: Command, report: &mut Report) -> Result<()> {
    let (passed, elapsed) = passes(&mut command)?;
    report.check(what, "lint", passed, elapsed);
    Ok(())
}

/// A check of ours: it passes when it found nothing to complain of.
fn complaints(what: &str, found: Result<Vec<String>>, report: &mut Report) -> Result<()> {
    let found = found?;
    for complaint in &found {
        eprintln!("{complaint}");
    }
    report.check(what, "lint", found.is_empty(), Duration::ZERO);
    Ok(())
}

/// Builds the leaf crates where there is no standard library at all, which is the only proof that
/// neither they nor what they use need one.
fn bare_target(packages: &[Package], report: &mut Report) -> Result<()> {
    let arguments: &[&str] = if toolchain::has_target(BARE_TARGET) {
        &["check"]
    } else if toolchain::has_nightly() && toolchain::has_nightly_source() {
        &["+nightly", "check", "-Zbuild-std=core,alloc"]
    } else {
        let reason = "neither this target's library nor nightly's rust-src is installed";
        report.skip(format!("build for {BARE_TARGET}"), reason);
        return Ok(());
    };
    for package in packages.iter().filter(|package| package.is_leaf()) {
        let mut elapsed = Duration::ZERO;
        let mut passed = true;
        for features in ["", "alloc"] {
            if !features.is_empty() && !package.features.contains(features) {
                continue;
            }
            let mut command = cargo(arguments);
            command.args(["--target", BARE_TARGET, "--no-default-features"]);
            command.args(["--features", features, "--package", &package.name]);
            let (this_passed, this_elapsed) = passes(&mut command)?;
            passed &= this_passed;
            elapsed += this_elapsed;
        }
        report.check(&package.name, BARE_TARGET, passed, elapsed);
    }
    Ok(())
}

/// One command for all: cargo finds the ones that others need among those it packages.
fn package(packages: &[Package]) -> Command {
    let mut command = cargo(["package", "--workspace", "--no-verify", "--allow-dirty"]);
    for package in packages.iter().filter(|package| !package.published) {
        command.args(["--exclude", &package.name]);
    }
    command
}
