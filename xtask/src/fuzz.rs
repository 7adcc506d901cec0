//! `cargo xtask fuzz`: one target, or each in turn, for some seconds.
//!
//! One target, the canary, has a bug on purpose. A fuzzer that cannot find it would find nothing
//! else either, so for the canary a crash is what passes. It starts without a corpus: with one it
//! would only have to remember.
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::cargo::{cargo, passes, read_along, typed};
use crate::report::{Report, Row};
use crate::{toolchain, workspace};

const CANARY: &str = "canary";

#[derive(Args)]
pub(crate) struct Arguments {
    /// The target to fuzz; without it each in turn, and then the canary
    target: Option<String>,
    /// How long to fuzz each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How many processes to fuzz with
    #[arg(long, default_value_t = 1)]
    jobs: u16,
}

pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    ensure!(toolchain::has_nightly(), "fuzzing needs nightly: rustup toolchain add nightly");
    ensure!(
        toolchain::answers("cargo", &["fuzz", "--version"]),
        "cargo-fuzz is not installed: cargo install cargo-fuzz"
    );
    let mut targets = listed()?;
    if let Some(only) = &arguments.target {
        ensure!(targets.contains(only), "no target {only}; there are: {}", targets.join(" "));
        targets = vec![only.clone()];
    }
    targets.sort_by_key(|target| target == CANARY);
    // Built beforehand, so that the seconds are for fuzzing alone.
    let mut build = cargo(["+nightly", "fuzz", "build"]);
    ensure!(passes(build.args(&arguments.target))?.0, "{} failed", typed(&build));
    let mut report = Report::default();
    for target in &targets {
        report.row(fuzz(target, arguments)?);
    }
    Ok(report.finish())
}

fn listed() -> Result<Vec<String>> {
    let output = cargo(["+nightly", "fuzz", "list"]).output().context("cargo fuzz list")?;
    ensure!(
        output.status.success(),
        "cargo fuzz list: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim().to_owned()).collect())
}

fn fuzz(target: &str, arguments: &Arguments) -> Result<Row> {
    let root = workspace::root();
    // What is found goes to the first directory; the committed corpus is read and stays as it is.
    let kept = root.join("target/fuzz-corpus").join(target);
    let mut command = cargo(["+nightly", "fuzz", "run", target]);
    let seeds = root.join("fuzz/corpus").join(target);
    if target == CANARY {
        let _ = fs::remove_dir_all(&kept); // not there on a first run
    }
    fs::create_dir_all(&kept)?;
    command.arg(&kept).args((target != CANARY && seeds.is_dir()).then_some(&seeds));
    if arguments.jobs > 1 {
        command.arg("--jobs").arg(arguments.jobs.to_string());
    }
    command.arg("--").arg(format!("-max_total_time={}", arguments.seconds));
    command.arg("-print_final_stats=1");
    let start = Instant::now();
    let mut outcome = Outcome::default();
    let status = read_along(&mut command, |line| {
        outcome.read(line);
        true
    })?;
    let passed = outcome.passed(target, status.success());
    Ok(outcome.row(target, passed, start.elapsed(), &typed(&command)))
}

/// What the fuzzer said.
#[derive(Debug, Default)]
struct Outcome {
    /// Runs of the target's body.
    executions: u64,
    /// The fuzzer stopped because the body crashed.
    crashed: bool,
}

impl Outcome {
    fn read(&mut self, line: &str) {
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = self.executions.max(count.trim().parse().unwrap_or(0));
        }
        // Progress: `#4194304: cov: 12 …` from several processes, `#4194304\tpulse …` from one.
        let progress = line.strip_prefix('#').and_then(|line| line.split([':', '\t', ' ']).next());
        if let Some(count) = progress.and_then(|count| count.parse().ok()) {
            self.executions = self.executions.max(count);
        }
        self.crashed |= line.contains("SUMMARY: libFuzzer:") || line.contains("ERROR: libFuzzer:");
        self.crashed |= line.contains("ERROR: AddressSanitizer:");
    }

    fn passed(&self, target: &str, ended_well: bool) -> bool {
        // A build that fails ends badly as well, and is not the canary's crash.
        if target == CANARY { self.crashed && !ended_well } else { ended_well && !self.crashed }
    }

    fn row(&self, target: &str, passed: bool, elapsed: Duration, command: &str) -> Row {
        let said = match (target == CANARY, self.crashed) {
            (true, true) => "crash found, as it must be".to_owned(),
            (true, false) => "its crash was not found".to_owned(),
            (false, true) => "crashed".to_owned(),
            (false, false) if passed => "clean".to_owned(),
            (false, false) => format!("{command} did not run"),
        };
        Row {
            what: target.into(),
            kind: "fuzz".into(),
            passed: passed.into(),
            failed: (!passed).into(),
            elapsed,
            note: format!("{said}, {} executions", self.executions),
            ..Row::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> Outcome {
        let mut outcome = Outcome::default();
        output.lines().for_each(|line| outcome.read(line));
        outcome
    }

    #[test]
    fn a_quiet_end_is_clean_but_not_for_the_canary() {
        let outcome = read(
            "#2\tINITED cov: 3\n#65536\tpulse  cov: 3\nDone 70000 runs in 1 second(s)\n\
                            stat::number_of_executed_units: 70000",
        );
        assert_eq!(outcome.executions, 70_000);
        assert!(outcome.passed("pglz_decompress", true));
        assert!(!outcome.passed(CANARY, true));
    }

    #[test]
    fn a_crash_passes_for_the_canary_alone() {
        let outcome = read("#4096: cov: 3 ft: 4\n==1== ERROR: libFuzzer: deadly signal");
        assert_eq!(outcome.executions, 4096);
        assert!(outcome.passed(CANARY, false));
        assert!(!outcome.passed("pglz_decompress", false));
    }

    #[test]
    fn a_build_that_fails_passes_for_nobody() {
        let outcome = read("error: could not compile `pgtoast-fuzz`");
        assert!(!outcome.passed(CANARY, false));
        assert!(!outcome.passed("pglz_decompress", false));
    }
}
