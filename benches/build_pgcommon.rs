//! Finds PostgreSQL's pglz, for the build scripts of the suites and of the fuzz targets.
use std::path::PathBuf;
use std::process::Command;

/// Links `libpgcommon.a` and sets the cfg `have_pgcommon`, if it is found; `variable` then names its
/// version to the program.
pub(crate) fn link(variable: &str) {
    println!("cargo:rerun-if-env-changed=PGTOAST_PGCOMMON");
    println!("cargo:rustc-check-cfg=cfg(have_pgcommon)");
    let Some(directory) = directory() else { return };
    println!("cargo:rerun-if-changed={}", directory.join("libpgcommon.a").display());
    println!("cargo:rustc-cfg=have_pgcommon");
    println!("cargo:rustc-link-search=native={}", directory.display());
    println!("cargo:rustc-link-lib=static:-bundle=pgcommon");
    let near = directory.join("../bin/pg_config");
    let config = if near.is_file() { near } else { PathBuf::from("pg_config") };
    let version = first_line(&config.to_string_lossy(), "--version");
    println!("cargo:rustc-env={variable}={version}");
}

/// The directory with `libpgcommon.a` of release 15: the one named by `PGTOAST_PGCOMMON` and no
/// other, or else Debian's, or what a `pg_config` of that release answers.
fn directory() -> Option<PathBuf> {
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
pub(crate) fn first_line(program: &str, option: &str) -> String {
    let output = Command::new(program).arg(option).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("unknown").trim().to_owned()
}
