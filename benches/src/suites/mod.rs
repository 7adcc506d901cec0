//! The suites there are, in the order they run.
mod codecs;
mod contexts;
mod datadir;
mod direct;
mod fsm;
mod oids;
mod page;
mod pglz;
mod postgres;

use std::path::Path;

use anyhow::{Result, bail};

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

    /// Does one of its pieces of work for whoever counts instructions, each inside
    /// [`counted`](crate::instructions::counted).
    ///
    /// # Errors
    /// When there is no such piece of work.
    fn workload(&self, name: &str, input: Option<&Path>) -> Result<()> {
        let _ = input;
        bail!("{} has no workload {name:?}", self.name())
    }
}

/// All of them.
#[must_use]
pub fn all() -> &'static [&'static dyn Suite] {
    &[
        &codecs::CodecsSuite,
        &page::PageSuite,
        &pglz::PglzSuite,
        &fsm::FsmSuite,
        &direct::DirectSuite,
        &contexts::ContextsSuite,
        &oids::OidsSuite,
        &postgres::PostgresSuite,
        &datadir::DatadirSuite,
    ]
}

/// The one of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Suite> {
    all().iter().copied().find(|suite| suite.name() == name)
}
