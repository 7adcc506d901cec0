//! `cargo xtask sanitize`: the tests of the crates with unsafe code under the address sanitizer.
use anyhow::{Context, Result, ensure};

use crate::cargo::{cargo, read_along, typed};
use crate::libtest::Transcript;
use crate::report::Report;
use crate::{pg, toolchain};

pub(crate) fn run() -> Result<bool> {
    ensure!(toolchain::has_nightly(), "the sanitizer needs nightly: rustup toolchain add nightly");
    let host = toolchain::host().context("rustc does not say what machine this is")?;
    // With a target named, build scripts and macros stay without the sanitizer; without one they
    // would not start.
    let mut command = cargo(["+nightly", "test", "--no-fail-fast", "--lib", "--tests"]);
    for package in ["pgtoast-page", "pgtoast-pglz", "pgtoast-memctx", "pgtoast-fuzzing"] {
        command.args(["--package", package]);
    }
    command.args(["--target", &host]);
    command.args(["--", "--show-output"]);
    // Contexts tell the sanitizer which of their memory is nobody's.
    command
        .env("RUSTFLAGS", "-Zsanitizer=address --cfg pgtoast_asan")
        .env("CARGO_TARGET_DIR", "target/sanitize");
    let mut transcript = Transcript::default();
    let status = read_along(&mut command, |line| transcript.read(line))?;
    let mut report = Report::default();
    transcript.report(&typed(&command), status, pg::any(), &mut report);
    Ok(report.finish())
}
