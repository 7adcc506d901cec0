//! `PostgreSQL 15`: the distribution's server, and no other build of that release.
use std::path::Path;

use anyhow::{Context, Result};
use pgtoast_testkit::Installation;

/// Where Debian puts it.
const BIN: &str = "/usr/lib/postgresql/15/bin";

/// The distribution's server of release 15.
///
/// # Errors
/// When it is not there.
pub fn distribution_15() -> Result<Installation> {
    Installation::at(Path::new(BIN))
        .context("the distribution's server of release 15 is absent (Debian: postgresql-15)")
}
