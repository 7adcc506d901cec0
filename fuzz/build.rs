//! Links PostgreSQL's pglz where it is found: one target compares with it.
#[path = "../benches/build_pgcommon.rs"]
mod pgcommon;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../benches/build_pgcommon.rs");
    pgcommon::link("FUZZ_PGCOMMON_VERSION");
}
