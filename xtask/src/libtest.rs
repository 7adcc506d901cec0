//! Reads what `cargo test` prints, a line at a time: which binary runs, what it counted, and the
//! tests that skipped themselves.
//!
//! ```text
//!      Running unittests src/lib.rs (target/debug/deps/pgtoast_base-0aab9661fb0acfab)
//!    Doc-tests pgtoast_base
//! test align::tests::up_and_down ... ok
//! pgtoast-skip: checksums_of_a_cluster: PostgreSQL 14 not found
//! pgtoast-count: checksums_of_a_cluster: 2210 pages
//! test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.05s
//! ```
//!
//! libtest has no word for "skipped": a test that cannot run here prints the `pgtoast-skip` line
//! and passes. Such a line is hidden in the output of a passing test unless libtest is called with
//! `--show-output`, which also prints the rest of it; the rest is kept from the screen here. One
//! test may skip parts only, some servers for example. It has run if it counts what it compared, or
//! if all it skipped were majors and some server is there.
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitStatus;
use std::time::Duration;

use crate::report::{Report, Row};

const SKIP_MARK: &str = "pgtoast-skip: ";
const COUNT_MARK: &str = "pgtoast-count: ";

/// What is known of a run so far.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    binaries: Vec<Binary>,
    /// The package whose binaries are running: a test binary is named after its file alone.
    package: String,
    in_successes: bool,
}

/// One test binary, or the doc tests of one crate.
#[derive(Debug, Default)]
struct Binary {
    package: String,
    name: String,
    kind: &'static str,
    passed: BTreeSet<String>,
    failures: BTreeSet<String>,
    ignored: BTreeSet<String>,
    skips: BTreeMap<String, BTreeSet<String>>,
    counts: BTreeMap<String, BTreeSet<String>>,
    result: Option<Counts>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
    elapsed: Duration,
}

impl Transcript {
    /// For a run of one package, whose unit tests may not be among what runs.
    pub(crate) fn of_package(package: &str) -> Self {
        Self { package: package.to_owned(), ..Self::default() }
    }

    /// Takes in one line without its colours; false if it is not worth showing.
    pub(crate) fn read(&mut self, line: &str) -> bool {
        let text = line.trim();
        if let Some(binary) = self.binary_of(text) {
            self.in_successes = false;
            self.binaries.push(binary);
            return true;
        }
        let Some(binary) = self.binaries.last_mut() else { return true };
        for (mark, said) in [(SKIP_MARK, &mut binary.skips), (COUNT_MARK, &mut binary.counts)] {
            if let Some((_, rest)) = line.split_once(mark) {
                let (name, what) = rest.split_once(": ").unwrap_or((rest, "nothing said"));
                said.entry(name.trim().to_owned()).or_default().insert(what.trim().to_owned());
            }
        }
        if ["test result: ok. ", "test result: FAILED. "].iter().any(|mark| line.starts_with(mark))
        {
            binary.result = Some(Counts::of(line).plus(binary.result.unwrap_or_default()));
            self.in_successes = false;
            return true;
        }
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ if !self.in_successes => binary.read_test(text),
            _ => {}
        }
        !self.in_successes
    }

    fn binary_of(&mut self, text: &str) -> Option<Binary> {
        if let Some(name) = text.strip_prefix("Doc-tests ") {
            let package = name.replace('_', "-");
            return Some(Binary { package, kind: "doc tests", ..Binary::default() });
        }
        let (source, path) = text.strip_prefix("Running ")?.split_once(" (")?;
        let (stem, _hash) = path.trim_end_matches(')').rsplit_once('/')?.1.rsplit_once('-')?;
        let package = if let Some(source) = source.strip_prefix("unittests ") {
            if ["src/lib.rs", "src/main.rs"].contains(&source) || self.package.is_empty() {
                self.package = stem.replace('_', "-");
            }
            self.package.clone()
        } else if self.package.is_empty() {
            stem.to_owned()
        } else {
            self.package.clone()
        };
        let kind = match () {
            () if stem.starts_with("oracle_") => "live oracles",
            () if stem.starts_with("loom") => "loom models",
            () if package == "pgtoast-fuzzing" => "fuzz corpora",
            () if source.starts_with("unittests") => "unit tests",
            () => "integration tests",
        };
        Some(Binary { package, name: stem.to_owned(), kind, ..Binary::default() })
    }

    /// Adds what was read to the report: one row for each kind of test of each package. `status` is
    /// how cargo itself ended; a bad end that no test explains is a failure of its own.
    /// `servers` says whether any PostgreSQL server is here.
    pub(crate) fn report(
        self,
        command: &str,
        status: ExitStatus,
        servers: bool,
        report: &mut Report,
    ) {
        let mut rows = BTreeMap::<(&'static str, String), Row>::new();
        let mut explained = status.success();
        for binary in self.binaries {
            if binary.result.is_none() && status.success() {
                continue; // a harness of its own that went well: nothing to count
            }
            explained |= binary.result.is_none_or(|counts| counts.failed > 0);
            let row = rows.entry((binary.kind, binary.package.clone())).or_default();
            binary.add_to(row, servers, report);
        }
        // Most packages have no tests of some kind, which is nothing to report.
        rows.retain(|_, row| row.passed + row.failed + row.skipped > 0);
        for ((kind, package), row) in rows {
            report.row(Row { what: package, kind: kind.into(), ..row });
        }
        if !explained {
            report.failure(format!("{command}: {status}, see above"));
            let note = "did not build, or ended early".to_owned();
            let (what, kind) = (command.to_owned(), "cargo".to_owned());
            report.row(Row { what, kind, failed: 1, note, ..Row::default() });
        }
    }
}

impl Binary {
    /// `test name ... ok`. Under `--nocapture` on one thread the verdict may be lines away, behind
    /// the test's own output; such a test counts as passed until a failure is listed.
    fn read_test(&mut self, text: &str) {
        let Some((name, verdict)) =
            text.strip_prefix("test ").and_then(|test| test.split_once(" ... "))
        else {
            return;
        };
        let name = name.trim_end_matches(" - should panic").to_owned();
        match verdict {
            _ if verdict.starts_with("FAILED") => self.failures.insert(name),
            _ if verdict.starts_with("ignored") => self.ignored.insert(name),
            _ => self.passed.insert(name),
        };
    }

    fn add_to(self, row: &mut Row, servers: bool, report: &mut Report) {
        let label = |test: &str| match self.name.as_str() {
            "" => format!("{} (doc): {test}", self.package),
            name => format!("{} ({name}): {test}", self.package),
        };
        let Some(counts) = self.result else {
            report.failure(label("ended without a result"));
            row.failed += 1;
            row.note = "a test binary crashed".into();
            return;
        };
        for name in &self.failures {
            report.failure(label(name));
        }
        for name in &self.ignored {
            report.skip(label(name), "ignored");
        }
        for (name, reasons) in &self.skips {
            report.skip(label(name), Vec::from_iter(reasons.iter().map(String::as_str)).join("; "));
        }
        for (name, compared) in &self.counts {
            compared.iter().for_each(|what| report.count(label(name), what));
        }
        // libtest has counted those that skipped themselves whole as passed.
        let whole = self.passed.iter().filter(|test| self.skipped_whole(test, servers)).count();
        row.passed += counts.passed.saturating_sub(u64::try_from(whole).unwrap_or(u64::MAX));
        row.failed += counts.failed;
        row.skipped += counts.ignored + u64::try_from(self.skips.len()).unwrap_or(u64::MAX);
        row.elapsed += counts.elapsed;
    }

    fn skipped_whole(&self, test: &str, servers: bool) -> bool {
        let said = |names: &BTreeMap<String, BTreeSet<String>>, whole: fn(&str) -> bool| {
            let mut of_test = names.iter().filter(|(name, _)| is_same_test(test, name));
            of_test.any(|(_, what)| what.iter().any(|what| whole(what)))
        };
        let skipped = if servers {
            said(&self.skips, |why| !names_a_major(why))
        } else {
            said(&self.skips, |_| true)
        };
        skipped && !said(&self.counts, |_| true)
    }
}

/// A skip names the test with or without its modules.
fn is_same_test(test: &str, name: &str) -> bool {
    test == name || test.rsplit("::").next() == Some(name)
}

/// `PostgreSQL 14 not found`: other majors may be there.
fn names_a_major(reason: &str) -> bool {
    reason
        .match_indices("PostgreSQL ")
        .any(|(at, name)| reason[at + name.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

impl Counts {
    /// From `test result: ok. 3 passed; 0 failed; 1 ignored; …; finished in 0.05s`.
    fn of(result: &str) -> Self {
        let mut counts = Self::default();
        for part in result.split(['.', ';']).map(str::trim) {
            let Some((number, word)) = part.split_once(' ') else { continue };
            let Ok(number) = number.parse() else { continue };
            match word {
                "passed" => counts.passed = number,
                "failed" => counts.failed = number,
                "ignored" => counts.ignored = number,
                _ => {}
            }
        }
        let seconds =
            result.rsplit_once("finished in ").map(|(_, time)| time.trim_end_matches('s'));
        let seconds = seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(0.0);
        counts.elapsed = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        counts
    }

    /// Doc tests of one crate may come in two rounds, each with a result.
    fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            ignored: self.ignored + other.ignored,
            elapsed: self.elapsed + other.elapsed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const RUN: &str = "\
Compiling pgtoast-base v0.1.0
     Running unittests src/lib.rs (target/debug/deps/pgtoast_page-0aab9661fb0acfab)

running 3 tests
test header::tests::a ... ok
test header::tests::b ... FAILED
test header::tests::c ... ignored, too slow

successes:

---- header::tests::a stdout ----
test result: this line is a test's own noise
something about a


successes:
    header::tests::a

failures:

---- header::tests::b stdout ----
assertion failed

failures:
    header::tests::b

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.25s

     Running tests/oracle_checksum.rs (target/debug/deps/oracle_checksum-c9)

running 2 tests
test whole_cluster ... ok
test one_page - should panic ... ok

successes:

---- whole_cluster stdout ----
pgtoast-skip: whole_cluster: no server 15
pgtoast-skip: lz4 on 18: built without it


successes:
    whole_cluster

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s

   Doc-tests pgtoast_page

running 1 test
test crates/page/src/../README.md - (line 13) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s
";

    fn read(run: &str) -> (Transcript, Vec<&str>) {
        let mut transcript = Transcript::default();
        let shown = run.lines().filter(|line| transcript.read(line)).collect();
        (transcript, shown)
    }

    fn exit(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn counts_come_from_the_result_lines_and_skips_from_the_tests_output() {
        let (transcript, _) = read(RUN);
        let mut report = Report::default();
        transcript.report("cargo test", exit(101), true, &mut report);
        // Of the five that passed by libtest's count, one had skipped itself whole; the noise that
        // begins like a result is none.
        assert_eq!(report.totals(), (3, 1, 3));
    }

    #[test]
    fn output_of_passing_tests_is_hidden_and_that_of_failing_ones_shown() {
        let (_, shown) = read(RUN);
        assert!(shown.contains(&"assertion failed"));
        assert!(shown.contains(&"Compiling pgtoast-base v0.1.0"));
        assert!(!shown.contains(&"something about a"));
        assert!(!shown.contains(&"    whole_cluster"));
    }

    #[test]
    fn binaries_are_told_apart_by_kind_and_package() {
        let (transcript, _) = read(RUN);
        let kinds: Vec<_> =
            transcript.binaries.iter().map(|b| (b.package.as_str(), b.kind)).collect();
        assert_eq!(
            kinds,
            [
                ("pgtoast-page", "unit tests"),
                ("pgtoast-page", "live oracles"),
                ("pgtoast-page", "doc tests")
            ]
        );
    }

    #[test]
    fn a_build_that_fails_is_a_failure_though_no_test_ran() {
        let (transcript, shown) =
            read("error[E0425]: cannot find value `x`\nerror: could not compile");
        assert_eq!(shown.len(), 2);
        let mut report = Report::default();
        transcript.report("cargo test", exit(101), true, &mut report);
        assert_eq!(report.totals(), (0, 1, 0));
    }

    #[test]
    fn a_binary_that_dies_without_a_result_is_a_failure() {
        let (transcript, _) = read("  Running tests/a.rs (target/debug/deps/a-1)\nrunning 1 test");
        let mut report = Report::default();
        transcript.report("cargo test", exit(101), true, &mut report);
        assert_eq!(report.totals(), (0, 1, 0));
    }

    #[test]
    fn a_skip_is_found_behind_the_name_of_the_running_test() {
        let run = "  Running tests/oracle_x.rs (target/debug/deps/oracle_x-1)\n\
                   test deform ... pgtoast-skip: deform: no server\n\
                   ok\n\
                   test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; finished in 0.1s";
        let (transcript, _) = read(run);
        let mut report = Report::default();
        transcript.report("cargo test", exit(0), true, &mut report);
        assert_eq!(report.totals(), (0, 0, 1));
    }

    #[test]
    fn a_test_that_skipped_some_majors_has_run_and_one_that_found_no_server_has_not() {
        let run = "  Running tests/oracle_x.rs (target/debug/deps/oracle_x-1)\n\
                   test deform ... ok\n\
                   pgtoast-skip: deform: PostgreSQL 14 not found\n\
                   pgtoast-skip: deform: PostgreSQL 15 not found\n\
                   test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; finished in 0.1s";
        for (servers, totals) in [(true, (1, 0, 1)), (false, (0, 0, 1))] {
            let mut report = Report::default();
            read(run).0.report("cargo test", exit(0), servers, &mut report);
            assert_eq!(report.totals(), totals, "servers: {servers}");
        }
    }

    #[test]
    fn a_test_that_counts_what_it_compared_has_run() {
        let run = "  Running tests/oracle_x.rs (target/debug/deps/oracle_x-1)\n\
                   test deform ... ok\n\
                   pgtoast-skip: deform: lz4 not built in\n\
                   pgtoast-count: deform: 20000 rows\n\
                   test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; finished in 0.1s";
        let mut report = Report::default();
        read(run).0.report("cargo test", exit(0), true, &mut report);
        assert_eq!(report.totals(), (1, 0, 1));
    }
}
