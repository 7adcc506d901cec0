//! The files of a data directory, by what they are for.
//!
//! ```text
//! PG_VERSION  postmaster.pid  backup_label  tablespace_map
//! global/pg_control        global/pg_filenode.map        global/1262
//! base/<database>/pg_filenode.map                        base/<database>/16384  .1  _fsm  _vm  _init
//! pg_tblspc/<tablespace>/PG_15_202209061/<database>/16390
//! pg_xact/0000  pg_subtrans/0000  pg_multixact/offsets/0000  pg_multixact/members/0000
//! pg_twophase/000002E7
//! ```
//! A path is a value here and not a string: it is small enough to stand in every error, and nothing
//! can be built of it that leaves the data directory.
//!
//! Source: `relpath.c`, `slru.c`, `twophase.c` (REL_18).
use core::fmt;
use core::str::FromStr;

use crate::{Folder, RelationFile, Slru};

/// A file of a data directory. It prints as its path from there, and is parsed from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataFile {
    /// `backup_label`: left by a base backup until recovery has made it consistent.
    BackupLabel,
    /// `global/pg_control`: what the whole cluster is.
    Control,
    /// `pg_filenode.map` of a folder: the files of catalogs that cannot be looked up in a catalog.
    Map(Folder),
    /// `postmaster.pid`: a server runs here, or crashed here.
    PostmasterPid,
    /// The state file of a prepared transaction.
    Prepared(PreparedName),
    /// A segment of a relation's fork.
    Relation(RelationFile),
    /// A segment of one of the logs about transactions.
    Slru {
        /// Which of them.
        log: Slru,
        /// Its number, from 0.
        segment: u32,
    },
    /// `tablespace_map`: where a base backup's tablespaces belong.
    TablespaceMap,
    /// `PG_VERSION` of a folder: the major release.
    Version(Folder),
}

impl DataFile {
    /// The folder that it is in.
    #[must_use]
    pub const fn folder(self) -> Folder {
        match self {
            Self::BackupLabel | Self::PostmasterPid | Self::TablespaceMap => Folder::Root,
            Self::Control => Folder::Global,
            Self::Map(folder) | Self::Version(folder) => folder,
            Self::Prepared(_) => Folder::Prepared,
            Self::Relation(file) => file.folder,
            Self::Slru { log, .. } => Folder::Slru(log),
        }
    }

    /// The file of that name in a folder; `None` for a name that means nothing there.
    #[must_use]
    pub fn in_folder(folder: Folder, name: &str) -> Option<Self> {
        match (folder, name) {
            (Folder::Root, "backup_label") => Some(Self::BackupLabel),
            (Folder::Root, "postmaster.pid") => Some(Self::PostmasterPid),
            (Folder::Root, "tablespace_map") => Some(Self::TablespaceMap),
            (Folder::Root | Folder::Base { .. }, "PG_VERSION") => Some(Self::Version(folder)),
            (Folder::Global, "pg_control") => Some(Self::Control),
            (_, "pg_filenode.map") if folder.has_relations() => Some(Self::Map(folder)),
            (Folder::Prepared, _) => PreparedName::parse(name).map(Self::Prepared),
            (Folder::Slru(log), _) => {
                let segment = u32::from_str_radix(name, 16).ok()?;
                let file = Self::Slru { log, segment };
                (Name(file).to_string() == name).then_some(file)
            }
            _ if folder.has_relations() => {
                RelationFile::in_folder(folder, name).map(Self::Relation)
            }
            _ => None,
        }
    }
}

impl fmt::Display for DataFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.folder() {
            Folder::Root => Name(*self).fmt(f),
            folder => write!(f, "{folder}/{}", Name(*self)),
        }
    }
}

impl FromStr for DataFile {
    type Err = NoDataFile;

    /// A path with `/` between its parts, from the data directory.
    fn from_str(path: &str) -> Result<Self, NoDataFile> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = folder.parse()?;
        Self::in_folder(folder, name).ok_or(NoDataFile)
    }
}

/// The path leads to nothing that a data directory is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDataFile;

impl fmt::Display for NoDataFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no file of a data directory has this path")
    }
}

impl core::error::Error for NoDataFile {}

/// A file's name without its folder.
struct Name(DataFile);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DataFile::BackupLabel => f.write_str("backup_label"),
            DataFile::Control => f.write_str("pg_control"),
            DataFile::Map(_) => f.write_str("pg_filenode.map"),
            DataFile::PostmasterPid => f.write_str("postmaster.pid"),
            DataFile::Prepared(name) => name.fmt(f),
            DataFile::Relation(file) => file.fmt(f),
            DataFile::Slru { segment, .. } => write!(f, "{segment:04X}"),
            DataFile::TablespaceMap => f.write_str("tablespace_map"),
            DataFile::Version(_) => f.write_str("PG_VERSION"),
        }
    }
}

/// A number as servers write it in file names: digits alone, no zero in front.
pub(crate) fn decimal(digits: &str) -> Option<u32> {
    let canonical = digits == "0" || !digits.starts_with(['0', '+']);
    if canonical { digits.parse().ok() } else { None }
}

/// The name of a prepared transaction's state file: its id in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PreparedName {
    /// The transaction, with its epoch from release 17 on.
    pub full_xid: u64,
    /// Whether the epoch is part of the name, which then has 16 digits instead of 8.
    pub has_epoch: bool,
}

impl PreparedName {
    fn parse(name: &str) -> Option<Self> {
        let full_xid = u64::from_str_radix(name, 16).ok()?;
        let parsed = Self { full_xid, has_epoch: name.len() == 16 };
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl fmt::Display for PreparedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = if self.has_epoch { 16 } else { 8 };
        write!(f, "{:0width$X}", self.full_xid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_files_that_servers_make_are_printed_as_they_are_parsed() {
        for path in [
            "PG_VERSION",
            "backup_label",
            "postmaster.pid",
            "tablespace_map",
            "global/pg_control",
            "global/pg_filenode.map",
            "global/1262",
            "base/5/PG_VERSION",
            "base/5/pg_filenode.map",
            "base/5/16384",
            "base/5/16384.1",
            "base/5/16384_fsm",
            "base/5/16384_vm.12",
            "base/5/4294967295_init",
            "pg_tblspc/16400/PG_15_202209061/5/16401",
            "pg_xact/0000",
            "pg_xact/0FFF",
            "pg_subtrans/0001",
            "pg_multixact/offsets/0000",
            "pg_multixact/members/14078",
            "pg_twophase/000002E7",
            "pg_twophase/00000001000002E7",
        ] {
            let file: DataFile = path.parse().unwrap_or_else(|_| panic!("{path}"));
            assert_eq!(file.to_string(), path);
        }
    }

    #[test]
    fn other_paths_are_no_files_of_a_data_directory() {
        for path in [
            "",
            "..",
            "../PG_VERSION",
            "/etc/passwd",
            "base/5/../6/16384",
            "base/5/016384",
            "base/5/16384.0",
            "base/5/16384.01",
            "base/5/16384_fsm_vm",
            "base/5/t3_16384",
            "base/5/0",
            "base/5/+7",
            "base/5/4294967296",
            "base/five/16384",
            "base/5/pg_internal.init",
            "global/pg_internal.init",
            "pg_xact/000",
            "pg_xact/00aa",
            "pg_twophase/2E7",
            "pg_tblspc/16400/PG_15/5/16401",
        ] {
            assert!(path.parse::<DataFile>().is_err(), "{path}");
        }
    }
}
