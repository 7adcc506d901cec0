//! The one kind of failure that a benchmark run reports with its exit status.
use std::fmt;

/// A timed piece of work gave another answer than it must.
#[derive(Debug)]
pub struct WrongAnswer(String);

impl fmt::Display for WrongAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wrong answer: {}", self.0)
    }
}

impl std::error::Error for WrongAnswer {}

/// Insists on an answer.
///
/// # Errors
/// [`WrongAnswer`] with `what` in it when `holds` is false.
pub fn check(holds: bool, what: impl FnOnce() -> String) -> anyhow::Result<()> {
    if holds { Ok(()) } else { Err(WrongAnswer(what()).into()) }
}
