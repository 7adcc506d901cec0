//! `cargo xtask oracle`: only the tests that compare us with live servers.
use anyhow::Result;

use crate::pg;
use crate::report::Report;
use crate::test::tests;

pub(crate) fn run() -> Result<bool> {
    let mut report = Report::default();
    tests(
        &[
            "test",
            "--package",
            "pgtoast-testkit",
            "--features",
            "server",
            "--no-fail-fast",
            "--test",
            "oracle_*",
        ],
        &["--", "--nocapture"],
        &mut report,
    )?;
    pg::report_missing(&mut report);
    Ok(report.finish())
}
