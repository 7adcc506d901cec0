//! Runs the example of the root `README.md`, which belongs to no crate that could test it.
//!
//! The first `rust` block becomes the program of a package made up for it, and has to print what the
//! first `text` block behind it says.
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::cargo::cargo;
use crate::report::Report;
use crate::workspace::{self, Package};

pub(crate) fn run(packages: &[Package], report: &mut Report) -> Result<()> {
    let start = Instant::now();
    let root = workspace::root();
    let readme = fs::read_to_string(root.join("README.md")).context("README.md")?;
    let (program, behind) = block(&readme, "rust").context("README.md without a rust block")?;
    let (expected, _) = block(behind, "text").context("README.md without the example's output")?;

    let directory = root.join("target/readme-example");
    fs::create_dir_all(directory.join("src"))?;
    fs::write(directory.join("Cargo.toml"), manifest(program, packages))?;
    fs::write(directory.join("src/main.rs"), program)?;
    fs::copy(root.join("Cargo.lock"), directory.join("Cargo.lock"))?;
    let mut command = cargo(["run", "--quiet", "--manifest-path"]);
    let output = command.arg(directory.join("Cargo.toml")).output().context("cargo run")?;

    let printed = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && printed.trim_end() == expected.trim_end();
    if !passed {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        eprintln!("README.md promises:\n{expected}\nits example prints:\n{printed}");
    }
    report.check("README.md", "example", passed, start.elapsed());
    Ok(())
}

/// The text of the first code block in that language, and what follows it.
fn block<'a>(text: &'a str, language: &str) -> Option<(&'a str, &'a str)> {
    let (_, behind) = text.split_once(&format!("\n```{language}\n"))?;
    behind.split_once("```\n")
}

/// A package outside the workspace that uses those of our crates that the program names.
fn manifest(program: &str, packages: &[Package]) -> String {
    let mut manifest = "[package]\nname = \"readme-example\"\nedition = \"2024\"\n[workspace]\n\
                        [profile.dev]\nopt-level = 1\n[dependencies]\n"
        .to_owned();
    let words: BTreeSet<&str> =
        program.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    for package in packages.iter().filter(|package| package.published) {
        if words.contains(package.name.replace('-', "_").as_str()) {
            // Writing to a string does not fail.
            let _ = writeln!(manifest, "{} = {{ path = {:?} }}", package.name, package.directory);
        }
    }
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_ends_where_its_fence_does() {
        let text = "a\n```console\n$ x\n```\n\n```rust\nfn main() {}\n```\nb\n```text\nout\n```\n";
        let (program, behind) = block(text, "rust").unwrap();
        assert_eq!(program, "fn main() {}\n");
        assert_eq!(block(behind, "text"), Some(("out\n", "")));
        assert_eq!(block(text, "c"), None);
    }

    #[test]
    fn the_manifest_names_the_crates_in_use_and_no_others() {
        let package = |name: &str| Package {
            name: name.into(),
            directory: format!("/w/{name}").into(),
            features: BTreeSet::new(),
            uses: BTreeSet::new(),
            published: true,
        };
        let packages = ["pgtoast", "pgtoast-page", "pgtoast-pglz"].map(package);
        let manifest = manifest("use pgtoast_page::Page;", &packages);
        assert!(
            manifest.ends_with("[dependencies]\npgtoast-page = { path = \"/w/pgtoast-page\" }\n")
        );
    }
}
