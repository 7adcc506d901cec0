//! How many instructions a piece of work takes, as valgrind's callgrind counts them.
//!
//! ```text
//! suites --instructions        starts, once a contender:
//!   valgrind --tool=callgrind … suites --workload pglz:compress:ours
//!                                 for each cell: counted(work)      collects while inside,
//!                                                                   writes a file on leaving
//! ```
//! Times differ from run to run and machine to machine; these counts hardly do.
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// What callgrind is told to look for: [`counted`], mangled either way. Two patterns, because of two
/// options with the same one it heeds the first alone.
const COUNTED: [&str; 2] = ["*counted*", "*instructions*counted*"];

/// Runs a piece of work that is to be counted as one.
#[inline(never)]
pub fn counted(work: &mut dyn FnMut()) {
    work();
    black_box(());
}

/// The counts of all pieces of a workload, in their order.
///
/// # Errors
/// When valgrind is not there, or the workload fails under it.
pub fn count(workload: &str, input: Option<&Path>) -> Result<Vec<u64>> {
    let name = format!("bench-instructions-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    fs::create_dir_all(&directory)?;
    let counts = run(workload, input, &directory);
    fs::remove_dir_all(&directory)?;
    counts
}

fn run(workload: &str, input: Option<&Path>, directory: &Path) -> Result<Vec<u64>> {
    let out = directory.join("out");
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--toggle-collect={}", COUNTED[0]))
        .arg(format!("--dump-after={}", COUNTED[1]))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .args(["--workload", workload]);
    if let Some(input) = input {
        command.arg("--input").arg(input);
    }
    let output = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("valgrind is needed to count instructions")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{workload} under valgrind: {}", said.trim());
    let mut counts = Vec::new();
    loop {
        let path = directory.join(format!("out.{}", counts.len() + 1));
        let Ok(text) = fs::read_to_string(&path) else { break };
        counts.push(total(&text).with_context(|| format!("no total in {}", path.display()))?);
    }
    Ok(counts)
}

/// The total of one of callgrind's files.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| {
        line.strip_prefix("summary: ").or_else(|| line.strip_prefix("totals: "))
    })?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_either_line() {
        assert_eq!(total("version: 1\nevents: Ir\nsummary: 1234\n\nfn=(1)\n"), Some(1234));
        assert_eq!(total("events: Ir\nfn=(1)\n0 5\ntotals: 77\n"), Some(77));
        assert_eq!(total("events: Ir\n"), None);
    }
}
