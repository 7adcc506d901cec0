//! What could not be read.
use std::io::Write;

use super::Outcome;
use super::cluster::warn;
use super::failure::Failure;
use super::output::Output;

/// Problems that are told one by one.
const MOST_TOLD: usize = 10;

/// Tells them on standard error; they make a difference to the exit status.
pub(super) fn tell(
    count: u64,
    problems: &[String],
    output: &mut Output,
) -> Result<Outcome, Failure> {
    if count == 0 {
        return Ok(Outcome::Clean);
    }
    output.flush()?;
    for problem in problems.iter().take(MOST_TOLD) {
        warn(problem);
    }
    warn(format_args!("{count} rows or values could not be read; `pgtoast check` says more"));
    Ok(Outcome::Findings)
}
