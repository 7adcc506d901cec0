//! `cargo xtask tidy` lists the longest source files; `lint` asks here for words that may not land.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use crate::report::table;
use crate::workspace::{self, Package};

#[derive(Args)]
pub(crate) struct Arguments {
    /// How many files to list
    #[arg(long, default_value_t = 20)]
    count: usize,
}

/// Words, packages they may appear in, and what to do instead. A block size written out is a bug
/// waiting for a server compiled with another one. pglz knows no blocks: there it counts hash chains.
const FORBIDDEN: [(&str, &[&str], &str); 3] = [
    (concat!("81", "92"), &["pgtoast-base", "pgtoast-pglz", "pgtoast-testkit"], "ask BlockSize"),
    (concat!("8_", "192"), &["pgtoast-base", "pgtoast-pglz", "pgtoast-testkit"], "ask BlockSize"),
    (concat!("TO", "DO"), &[], "finish it, or give a FIXME its reason"),
];

pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    let root = workspace::root();
    let mut lengths = Vec::new();
    for package in workspace::packages()? {
        for path in sources(&package.directory)? {
            lengths.push((read(&path)?.lines().count(), path));
        }
    }
    lengths.sort_by(|one, other| other.cmp(one));
    let mut table = table(["lines", "file"]);
    for (lines, path) in lengths.iter().take(arguments.count) {
        let path = path.strip_prefix(&root).unwrap_or(path);
        table.add_row([lines.to_string(), path.display().to_string()]);
    }
    println!("{table}");
    Ok(true)
}

/// Every `file:line: word, what to do` in what the packages ship.
pub(crate) fn forbidden_words(packages: &[Package]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for package in packages {
        for path in sources(&package.directory.join("src"))? {
            for (line, word, remedy) in forbidden_in(&read(&path)?, &package.name) {
                found.push(format!("{}:{line}: {word}: {remedy}", path.display()));
            }
        }
    }
    Ok(found)
}

/// Looks at code only: comments may speak of anything. So may tests: the unit tests that close a file,
/// and assertions at compile time.
fn forbidden_in(source: &str, package: &str) -> Vec<(usize, &'static str, &'static str)> {
    let code = source.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    let mut found = Vec::new();
    for (index, line) in code.enumerate() {
        for (word, allowed, remedy) in FORBIDDEN {
            let number = word.starts_with(|c: char| c.is_ascii_digit());
            if number && line.trim_start().starts_with("assert") {
                continue;
            }
            let text = if number { line.split("//").next().unwrap_or(line) } else { line };
            if !allowed.contains(&package) && has_word(text, word) {
                found.push((index + 1, word, remedy));
            }
        }
    }
    found
}

/// Whether the word stands there on its own, or with a type behind it as numbers may have.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.')
            && !after.is_some_and(|c| c.is_ascii_digit() || c == '.')
    })
}

/// The Rust files below a directory, in order; build output left out.
fn sources(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    if !directory.is_dir() {
        return Ok(paths);
    }
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            paths.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_size_written_out_is_found_outside_comments_and_tests() {
        let source = "\
            //! Pages of 8192 bytes.\n\
            const SIZE: usize = 8192;\n\
            let page = [0u8; 8192_usize]; // 8192\n\
            let other = 18192 + 81920; // TODO later\n\
            const _: () = assert!(DEFAULT == 4096);\n\
            \x20   assert!(DEFAULT == 8192);\n\
            #[cfg(test)]\n\
            const IN_A_TEST: usize = 8192;\n";
        let lines: Vec<_> = forbidden_in(source, "pgtoast-page").iter().map(|f| f.0).collect();
        assert_eq!(lines, [2, 3, 4]);
        let lines: Vec<_> = forbidden_in(source, "pgtoast-base").iter().map(|f| f.0).collect();
        assert_eq!(lines, [4]);
    }
}
