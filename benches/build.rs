//! Finds what the suites compare with, and writes down its version.
//!
//! Nothing here fails a build: a peer that is not found is left out, and its rows say so.
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../Cargo.lock");
    println!("cargo:rerun-if-env-changed=PGTOAST_PGCOMMON");
    println!("cargo:rustc-check-cfg=cfg(have_pgcommon)");

    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    println!("cargo:rustc-env=BENCH_RUSTC_VERSION={}", first_line(&rustc, "--version"));

    let lock = std::fs::read_to_string("../Cargo.lock").unwrap_or_default();
    for (name, variable) in [("pglz", "BENCH_PGLZ_VERSION"), ("lz4_flex", "BENCH_LZ4_FLEX_VERSION")]
    {
        println!("cargo:rustc-env={variable}={}", locked_version(&lock, name));
    }

    if let Some(directory) = pgcommon_directory() {
        println!("cargo:rerun-if-changed={}", directory.join("libpgcommon.a").display());
        println!("cargo:rustc-cfg=have_pgcommon");
        println!("cargo:rustc-link-search=native={}", directory.display());
        println!("cargo:rustc-link-lib=static:-bundle=pgcommon");
        let near = directory.join("../bin/pg_config");
        let config = if near.is_file() { near } else { PathBuf::from("pg_config") };
        let version = first_line(&config.to_string_lossy(), "--version");
        println!("cargo:rustc-env=BENCH_PGCOMMON_VERSION={version}");
    }
}

/// The directory with `libpgcommon.a` of release 15: the one named by `PGTOAST_PGCOMMON` and no
/// other, or else Debian's, or what a `pg_config` of that release answers.
fn pgcommon_directory() -> Option<PathBuf> {
    let has_it = |directory: &PathBuf| directory.join("libpgcommon.a").is_file();
    if let Some(named) = std::env::var_os("PGTOAST_PGCOMMON") {
        return Some(PathBuf::from(named)).filter(has_it);
    }
    let debian = Some(PathBuf::from("/usr/lib/postgresql/15/lib"));
    let asked = first_line("pg_config", "--version")
        .contains("PostgreSQL 15")
        .then(|| ["--pkglibdir", "--libdir"].map(|option| first_line("pg_config", option)));
    let asked = asked.into_iter().flatten().map(PathBuf::from);
    debian.into_iter().chain(asked).find(has_it)
}

/// What a program says first, or "unknown".
fn first_line(program: &str, option: &str) -> String {
    let output = Command::new(program).arg(option).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("unknown").trim().to_owned()
}

/// The version of a package in a lock file.
fn locked_version(lock: &str, name: &str) -> String {
    let head = format!("name = \"{name}\"\nversion = \"");
    let version = lock.split_once(&head).and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("unknown", |(version, _)| version).to_owned()
}
