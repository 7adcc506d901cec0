//! What this machine has: toolchains, components, tools. Absence is an answer, never an error.
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Whether `program arguments…` starts and succeeds.
pub(crate) fn answers(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Whether rustup has a nightly toolchain here.
pub(crate) fn has_nightly() -> bool {
    answers("cargo", &["+nightly", "--version"])
}

/// Whether the standard library's source is there for nightly's `-Zbuild-std`.
pub(crate) fn has_nightly_source() -> bool {
    sysroot(&["+nightly"]).is_some_and(|path| path.join("lib/rustlib/src/rust/library").is_dir())
}

/// Whether the default toolchain has the standard library compiled for `target`.
pub(crate) fn has_target(target: &str) -> bool {
    sysroot(&[]).is_some_and(|path| path.join("lib/rustlib").join(target).is_dir())
}

fn sysroot(toolchain: &[&str]) -> Option<PathBuf> {
    let output = Command::new("rustc")
        .args(toolchain)
        .args(["--print", "sysroot"])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(path.trim()))
}

/// The target triple of this machine, as `rustc -vV` names it.
pub(crate) fn host() -> Option<String> {
    let output = Command::new("rustc").arg("-vV").output().ok()?;
    host_of(&String::from_utf8_lossy(&output.stdout)).map(str::to_owned)
}

fn host_of(version: &str) -> Option<&str> {
    version.lines().find_map(|line| line.strip_prefix("host: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_read_from_the_long_version() {
        let version = "rustc 1.90.0\nbinary: rustc\nhost: s390x-unknown-linux-gnu\nrelease: 1.90.0";
        assert_eq!(host_of(version), Some("s390x-unknown-linux-gnu"));
        assert_eq!(host_of("rustc 1.90.0"), None);
    }

    #[test]
    fn a_program_that_is_not_there_does_not_answer() {
        assert!(!answers("no-such-program-on-any-machine", &[]));
    }
}
