//! `cargo xtask sanitize`: what runs under the sanitizers: the tests of the crates with unsafe code, for their
//! addresses, and the store's stress example, for its threads.
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::cargo::{cargo, passes, read_along, typed};
use crate::libtest::Transcript;
use crate::report::Report;
use crate::{pg, toolchain};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only with this one
    sanitizer: Option<Sanitizer>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sanitizer {
    Address,
    Thread,
}

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Self::Address => "address sanitizer",
            Self::Thread => "thread sanitizer",
        }
    }

    fn run(self, host: &str, report: &mut Report) -> Result<()> {
        match self {
            Self::Address => addresses(host, report),
            Self::Thread => threads(host, report),
        }
    }

    /// Why it cannot be had here.
    fn missing(self) -> Option<&'static str> {
        if !toolchain::has_nightly() {
            Some("no nightly: rustup toolchain add nightly")
        } else if self == Self::Thread && !toolchain::has_nightly_source() {
            Some("no rust-src: rustup component add rust-src --toolchain nightly")
        } else {
            None
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    let host = toolchain::host().context("rustc does not say what machine this is")?;
    let mut report = Report::default();
    for sanitizer in [Sanitizer::Address, Sanitizer::Thread] {
        if arguments.sanitizer.is_some_and(|only| only != sanitizer) {
            continue;
        }
        match sanitizer.missing() {
            Some(reason) => report.skip(sanitizer.name(), reason),
            None => sanitizer.run(&host, &mut report)?,
        }
    }
    Ok(report.finish())
}

fn addresses(host: &str, report: &mut Report) -> Result<()> {
    // With a target named, build scripts and macros stay without the sanitizer; without one they
    // would not start.
    let mut command = cargo(["+nightly", "test", "--no-fail-fast", "--lib", "--tests"]);
    for package in ["pgtoast-page", "pgtoast-pglz", "pgtoast-memctx", "pgtoast-fuzzing"] {
        command.args(["--package", package]);
    }
    command.args(["--target", host]);
    command.args(["--", "--show-output"]);
    // Contexts tell the sanitizer which of their memory is nobody's.
    command
        .env("RUSTFLAGS", "-Zsanitizer=address --cfg pgtoast_asan")
        .env("CARGO_TARGET_DIR", "target/sanitize");
    let mut transcript = Transcript::default();
    let status = read_along(&mut command, |line| transcript.read(line))?;
    transcript.report(&typed(&command), status, pg::any(), report);
    Ok(())
}

fn threads(host: &str, report: &mut Report) -> Result<()> {
    // The standard library is built with it too: what it does not know of, it takes for a race.
    let mut command = cargo(["+nightly", "run", "--release", "-Zbuild-std", "--target", host]);
    command.args(["--package", "pgtoast-store", "--example", "stress"]);
    // At least so many operations, at least so many seconds, threads, and where chance begins.
    command.args(["--", "40000", "75", "8", "77"]);
    command.env("RUSTFLAGS", "-Zsanitizer=thread").env("CARGO_TARGET_DIR", "target/sanitize");
    let (passed, elapsed) = passes(&mut command)?;
    report.check("pgtoast-store, example stress", Sanitizer::Thread.name(), passed, elapsed);
    Ok(())
}
