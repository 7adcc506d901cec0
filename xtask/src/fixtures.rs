//! `cargo xtask fixtures`: has real servers write the files under `testdata/` anew.
use anyhow::Result;

use crate::cargo::{cargo, passes};

pub(crate) fn run() -> Result<bool> {
    let mut command = cargo(["run", "--package", "pgtoast-testkit", "--features", "server"]);
    Ok(passes(command.args(["--bin", "fixtures"]))?.0)
}
