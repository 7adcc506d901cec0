//! What a test says about itself in a form that can be searched for.
//!
//! A test that could not run must not look like one that passed. It prints one line of a fixed
//! form and returns; the runner collects those lines into its table of what was skipped and why.
//!
//! ```text
//! pgtoast-skip: <test>: <why>
//! pgtoast-count: <test>: <what was compared, and how often>
//! ```
use core::fmt;

/// How a line begins that says a test, or a part of it, did not run.
pub const SKIP_PREFIX: &str = "pgtoast-skip: ";

/// How a line begins that says how much a test compared.
pub const COUNT_PREFIX: &str = "pgtoast-count: ";

/// Says that `test` did not run, and why.
pub fn skip(test: &str, why: impl fmt::Display) {
    line(SKIP_PREFIX, test, &why);
}

/// Says how much `test` compared.
pub fn count(test: &str, what: impl fmt::Display) {
    line(COUNT_PREFIX, test, &what);
}

#[expect(clippy::print_stdout, reason = "the runner reads these lines from the test's output")]
fn line(prefix: &str, test: &str, text: &dyn fmt::Display) {
    println!("{prefix}{test}: {text}");
}
