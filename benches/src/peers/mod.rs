//! The others: what is compared with, and which version of it was found.
use std::collections::BTreeMap;

pub mod pgcommon;
pub mod pglz_c;
pub mod server;

/// PostgreSQL's own C code, as the distribution compiled it.
pub const POSTGRESQL_C: &str = "PostgreSQL C";
/// A real server of release 15.
pub const POSTGRESQL_15: &str = "PostgreSQL 15";
/// The distribution's program that checks checksums of a stopped cluster.
pub const PG_CHECKSUMS: &str = "pg_checksums";
/// The crate `pglz`.
pub const PGLZ_CRATE: &str = "pglz crate";
/// The crate `lz4_flex`, in its safe form.
pub const LZ4_FLEX: &str = "lz4_flex";
/// The crate `bumpalo`.
pub const BUMPALO: &str = "bumpalo";
/// The allocator `mimalloc`, called without being the program's.
pub const MIMALLOC: &str = "mimalloc";
/// The system's allocator.
pub const SYSTEM: &str = "system";
/// A plain version of our own code.
pub const TWIN: &str = "twin";

/// Ours and the peers' versions, of those that are there.
#[must_use]
pub fn versions() -> BTreeMap<String, String> {
    let mut versions = BTreeMap::from([
        ("pgtoast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        (PGLZ_CRATE.to_owned(), env!("BENCH_PGLZ_VERSION").to_owned()),
        (LZ4_FLEX.to_owned(), env!("BENCH_LZ4_FLEX_VERSION").to_owned()),
        (BUMPALO.to_owned(), env!("BENCH_BUMPALO_VERSION").to_owned()),
        (MIMALLOC.to_owned(), env!("BENCH_MIMALLOC_VERSION").to_owned()),
    ]);
    if let Some(version) = option_env!("BENCH_PGCOMMON_VERSION") {
        versions.insert(POSTGRESQL_C.to_owned(), version.to_owned());
    }
    if let Ok(installation) = server::distribution_15() {
        versions.insert(POSTGRESQL_15.to_owned(), installation.version().to_owned());
    }
    versions
}
