//! What `cargo metadata` says about the workspace: its packages, their features, who uses whom.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The workspace's root directory.
///
/// Cargo names the manifest's directory to whatever it runs; a binary started by hand falls back
/// to where it was compiled.
pub(crate) fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let manifest = manifest.filter(|directory| directory.ends_with("xtask"));
    let xtask = manifest.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    xtask.parent().map_or_else(|| xtask.clone(), Path::to_path_buf)
}

/// One member of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    pub(crate) features: BTreeSet<String>,
    /// Members it uses in what it ships, dev-dependencies left out.
    pub(crate) uses: BTreeSet<String>,
    /// Whether it may be published.
    pub(crate) published: bool,
}

impl Package {
    /// Whether it is meant to build without the standard library.
    pub(crate) fn is_leaf(&self) -> bool {
        self.published && self.features.contains("std")
    }
}

/// Every member, by name.
pub(crate) fn packages() -> Result<Vec<Package>> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .context("cargo metadata did not start")?;
    ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    read_metadata(&serde_json::from_slice(&output.stdout)?)
}

fn read_metadata(metadata: &Value) -> Result<Vec<Package>> {
    let members = metadata["packages"].as_array().context("metadata without packages")?;
    let mut packages: Vec<Package> = members.iter().map(read_package).collect::<Result<_>>()?;
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(packages)
}

fn read_package(package: &Value) -> Result<Package> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let dependencies = package["dependencies"].as_array().context("a package's dependencies")?;
    let manifest = text(&package["manifest_path"]).context("a package without a manifest")?;
    Ok(Package {
        name: text(&package["name"]).context("a package without a name")?,
        directory: Path::new(&manifest).parent().context("a manifest in no directory")?.into(),
        features: package["features"]
            .as_object()
            .map(|features| features.keys().cloned().collect())
            .unwrap_or_default(),
        uses: dependencies
            .iter()
            .filter(|dependency| dependency["kind"].is_null() && !dependency["path"].is_null())
            .filter_map(|dependency| text(&dependency["name"]))
            .collect(),
        // `publish = false` reads as an empty list of registries, no word about it as null.
        published: package["publish"].as_array().is_none_or(|registries| !registries.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_tells_leaves_from_the_rest_and_dev_dependencies_from_real_ones() {
        let metadata = serde_json::json!({"packages": [
            {"name": "kit", "manifest_path": "/w/kit/Cargo.toml", "features": {}, "publish": [],
             "dependencies": []},
            {"name": "a", "manifest_path": "/w/a/Cargo.toml", "features": {"std": []},
             "publish": null, "dependencies": [
                {"name": "b", "kind": null, "path": "/w/b"},
                {"name": "kit", "kind": "dev", "path": "/w/kit"},
                {"name": "serde", "kind": null, "path": null}]},
        ]});
        let packages = read_metadata(&metadata).unwrap();
        assert_eq!(packages[0].name, "a");
        assert!(packages[0].is_leaf() && packages[0].published);
        assert_eq!(packages[0].uses, BTreeSet::from(["b".to_owned()]));
        assert!(!packages[1].is_leaf() && !packages[1].published);
        assert_eq!(packages[1].directory, Path::new("/w/kit"));
    }
}
