//! The tables a command ends with, and the one line after them that machines read.
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// One line of the first table.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Row {
    /// What ran: a package, a tool, a target.
    pub(crate) what: String,
    /// Which kind of test or check it was.
    pub(crate) kind: String,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) elapsed: Duration,
    /// Anything the numbers do not say.
    pub(crate) note: String,
}

/// Something by name, and what is to be said of it.
type Named = (String, String);

/// All that a command did.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    failures: Vec<String>,
    skips: Vec<Named>,
    counts: Vec<Named>,
}

impl Report {
    /// Adds a row as it is.
    pub(crate) fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Names something that failed; the count of it is in a row.
    pub(crate) fn failure(&mut self, name: impl Into<String>) {
        self.failures.push(name.into());
    }

    /// Adds one check that either passed or failed.
    pub(crate) fn check(&mut self, what: &str, kind: &str, passed: bool, elapsed: Duration) {
        if !passed {
            self.failure(format!("{kind}: {what}"));
        }
        self.row(Row {
            what: what.into(),
            kind: kind.into(),
            passed: passed.into(),
            failed: (!passed).into(),
            elapsed,
            ..Row::default()
        });
    }

    /// Names something that did not run.
    pub(crate) fn skip(&mut self, name: impl Into<String>, reason: impl Into<String>) {
        let skip = (name.into(), reason.into());
        if !self.skips.contains(&skip) {
            self.skips.push(skip);
        }
    }

    /// Says what a test compared, and how much of it.
    pub(crate) fn count(&mut self, name: impl Into<String>, what: impl Into<String>) {
        self.counts.push((name.into(), what.into()));
    }

    /// Passed, failed, skipped.
    pub(crate) fn totals(&self) -> (u64, u64, u64) {
        let sum = |count: fn(&Row) -> u64| self.rows.iter().map(count).sum();
        let skipped = u64::try_from(self.skips.len()).unwrap_or(u64::MAX);
        (sum(|row| row.passed), sum(|row| row.failed), skipped)
    }

    /// Prints the tables and the last line; true when nothing failed.
    pub(crate) fn finish(mut self) -> bool {
        self.rows.sort_by(|one, other| (&one.kind, &one.what).cmp(&(&other.kind, &other.what)));
        self.skips.sort();
        self.counts.sort();
        println!("\n{}", self.rows_table());
        for (title, header, named) in [
            ("Compared", ["test", "what"], &self.counts),
            ("Skipped", ["what", "why"], &self.skips),
        ] {
            if !named.is_empty() {
                let mut table = table(header);
                table.add_rows(named.iter().map(|(name, what)| [name, what]));
                println!("\n{title}\n{table}");
            }
        }
        if !self.failures.is_empty() {
            println!("\nFailed");
            for name in &self.failures {
                println!("  {name}");
            }
        }
        println!("\n{}", self.last_line());
        self.totals().1 == 0
    }

    fn last_line(&self) -> String {
        let (passed, failed, skipped) = self.totals();
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }

    fn rows_table(&self) -> Table {
        let mut table = table(["kind", "what", "passed", "failed", "skipped", "seconds", "note"]);
        for row in &self.rows {
            table.add_row([
                row.kind.clone(),
                row.what.clone(),
                row.passed.to_string(),
                row.failed.to_string(),
                row.skipped.to_string(),
                format!("{:.1}", row.elapsed.as_secs_f64()),
                row.note.clone(),
            ]);
        }
        for column in 2..6 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

/// How wide a table is where there is no terminal to ask, in a log.
const LOG_WIDTH: u16 = 140;

/// An empty table in the one style there is.
pub(crate) fn table<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_FULL_CONDENSED).set_header(header);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if !table.is_tty() {
        table.set_width(LOG_WIDTH);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_rows_and_named_skips() {
        let mut report = Report::default();
        report.row(Row { passed: 7, failed: 1, ..Row::default() });
        report.check("format", "lint", true, Duration::ZERO);
        report.check("docs", "lint", false, Duration::ZERO);
        report.skip("cargo-deny", "not installed");
        report.skip("cargo-deny", "not installed");
        assert_eq!(report.last_line(), "8 passed, 2 failed, 1 skipped");
        assert!(!report.finish());
    }

    #[test]
    fn a_report_of_skips_alone_has_not_failed() {
        let mut report = Report::default();
        report.skip("server 18", "not fetched");
        assert_eq!(report.last_line(), "0 passed, 0 failed, 1 skipped");
        assert!(report.finish());
    }
}
