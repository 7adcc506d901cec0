//! Finds what the suites compare with, and writes down its version.
//!
//! Nothing here fails a build: a peer that is not found is left out, and its rows say so.
#[path = "build_pgcommon.rs"]
mod pgcommon;

use pgcommon::first_line;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../Cargo.lock");

    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    println!("cargo:rustc-env=BENCH_RUSTC_VERSION={}", first_line(&rustc, "--version"));

    let lock = std::fs::read_to_string("../Cargo.lock").unwrap_or_default();
    for (name, variable) in [
        ("pglz", "BENCH_PGLZ_VERSION"),
        ("lz4_flex", "BENCH_LZ4_FLEX_VERSION"),
        ("bumpalo", "BENCH_BUMPALO_VERSION"),
        ("mimalloc", "BENCH_MIMALLOC_VERSION"),
    ] {
        println!("cargo:rustc-env={variable}={}", locked_version(&lock, name));
    }

    pgcommon::link("BENCH_PGCOMMON_VERSION");
}

/// The version of a package in a lock file.
fn locked_version(lock: &str, name: &str) -> String {
    let head = format!("name = \"{name}\"\nversion = \"");
    let version = lock.split_once(&head).and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("unknown", |(version, _)| version).to_owned()
}
