//! The suites there are, in the order they run.
mod page;
mod pglz;
mod postgres;

use anyhow::Result;

use crate::{Bench, Row};

/// A group of comparisons that belong together.
pub trait Suite: Sync {
    /// What it is called on the command line and in rows.
    fn name(&self) -> &'static str;

    /// What it compares, in a line.
    fn about(&self) -> &'static str;

    /// Measures.
    ///
    /// # Errors
    /// [`crate::WrongAnswer`] when something timed gave a wrong answer; anything else means that the
    /// suite could not run here.
    fn run(&self, bench: &Bench) -> Result<Vec<Row>>;
}

/// All of them.
#[must_use]
pub fn all() -> &'static [&'static dyn Suite] {
    &[&page::PageSuite, &pglz::PglzSuite, &postgres::PostgresSuite]
}

/// The one of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Suite> {
    all().iter().copied().find(|suite| suite.name() == name)
}
