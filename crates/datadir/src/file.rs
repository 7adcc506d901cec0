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
//! Source: `relpath.c`, `md.c`, `slru.c`, `twophase.c` (REL_18).
use core::fmt;
use core::str::FromStr;

use pgtoast_base::Oid;

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

/// A folder of a data directory. It prints as its path from there; the data directory itself is `.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Folder {
    /// The data directory itself.
    Root,
    /// What all databases share.
    Global,
    /// A database's relations in the default tablespace.
    Base {
        /// The database's id.
        database: Oid,
    },
    /// `base`: a folder for each database.
    Databases,
    /// The state of prepared transactions.
    Prepared,
    /// The segments of a log about transactions.
    Slru(Slru),
    /// A database's relations in another tablespace.
    Tablespace {
        /// The tablespace's id.
        tablespace: Oid,
        /// Whose part of the tablespace: several releases may share one.
        version: CatalogVersion,
        /// The database's id, 0 for what all databases share.
        database: Oid,
    },
    /// `pg_tblspc`: a link for each other tablespace.
    Tablespaces,
}

impl Folder {
    /// Whether relations are kept there.
    #[must_use]
    pub const fn has_relations(self) -> bool {
        matches!(self, Self::Global | Self::Base { .. } | Self::Tablespace { .. })
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("."),
            Self::Global => f.write_str("global"),
            Self::Base { database } => write!(f, "base/{database}"),
            Self::Databases => f.write_str("base"),
            Self::Prepared => f.write_str("pg_twophase"),
            Self::Slru(log) => f.write_str(log.path()),
            Self::Tablespace { tablespace, version, database } => {
                write!(f, "pg_tblspc/{tablespace}/{version}/{database}")
            }
            Self::Tablespaces => f.write_str("pg_tblspc"),
        }
    }
}

impl FromStr for Folder {
    type Err = NoDataFile;

    /// A path with `/` between its parts, from the data directory; empty or `.` for that itself.
    fn from_str(path: &str) -> Result<Self, NoDataFile> {
        if let Some(log) = Slru::ALL.into_iter().find(|log| log.path() == path) {
            return Ok(Self::Slru(log));
        }
        let parts: Vec<_> = path.split('/').collect();
        match parts.as_slice() {
            ["" | "."] => Ok(Self::Root),
            ["global"] => Ok(Self::Global),
            ["base"] => Ok(Self::Databases),
            ["pg_twophase"] => Ok(Self::Prepared),
            ["pg_tblspc"] => Ok(Self::Tablespaces),
            ["base", database] => Ok(Self::Base { database: oid(database)? }),
            ["pg_tblspc", tablespace, version, database] => Ok(Self::Tablespace {
                tablespace: oid(tablespace)?,
                version: CatalogVersion::parse(version).ok_or(NoDataFile)?,
                database: oid(database)?,
            }),
            _ => Err(NoDataFile),
        }
    }
}

fn oid(digits: &str) -> Result<Oid, NoDataFile> {
    decimal(digits).map(Oid::new).ok_or(NoDataFile)
}

/// A number as servers write it in file names: digits alone, no zero in front.
pub(crate) fn decimal(digits: &str) -> Option<u32> {
    let canonical = digits == "0" || !digits.starts_with(['0', '+']);
    if canonical { digits.parse().ok() } else { None }
}

/// The release that a tablespace's folder is of: `PG_15_202209061`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CatalogVersion {
    /// The major release.
    pub major: u32,
    /// The version of its catalogs, a date and a digit.
    #[doc(alias = "CATALOG_VERSION_NO")]
    pub catalog: u32,
}

impl CatalogVersion {
    /// From the name of a folder.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (major, catalog) = name.strip_prefix("PG_")?.split_once('_')?;
        Some(Self { major: decimal(major)?, catalog: decimal(catalog)? })
    }
}

impl fmt::Display for CatalogVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PG_{}_{}", self.major, self.catalog)
    }
}

/// The number in a relation's file names. It starts as the relation's own id and changes with every
/// rewrite, so it is a type of its own.
#[doc(alias = "relfilenode")]
#[doc(alias = "RelFileNumber")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filenode(u32);

impl Filenode {
    /// Any 32 bits.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether it names a file: catalogs say 0 for "see the map" and for relations without files.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for Filenode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One of the files that a relation consists of.
#[doc(alias = "ForkNumber")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fork {
    /// The relation itself.
    #[default]
    Main,
    /// Its free space map.
    FreeSpaceMap,
    /// Its visibility map.
    VisibilityMap,
    /// What a crash resets an unlogged relation to.
    Init,
}

impl Fork {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Main, Self::FreeSpaceMap, Self::VisibilityMap, Self::Init];

    /// What it adds to the file's name.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::FreeSpaceMap => "_fsm",
            Self::VisibilityMap => "_vm",
            Self::Init => "_init",
        }
    }
}

/// A segment of a relation's fork. It prints as its name: `16384_fsm.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationFile {
    /// Where it is.
    pub folder: Folder,
    /// Whose it is.
    pub filenode: Filenode,
    /// Which fork.
    pub fork: Fork,
    /// Which piece of it, from 0.
    pub segment: u32,
}

impl RelationFile {
    /// The file of that name in a folder; `None` for any other name, those of temporary relations
    /// among them.
    #[must_use]
    pub fn in_folder(folder: Folder, name: &str) -> Option<Self> {
        let (stem, segment) = match name.split_once('.') {
            Some((stem, number)) => (stem, decimal(number).filter(|number| *number != 0)?),
            None => (name, 0),
        };
        let digits = stem.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let suffix = &stem[digits.len()..];
        let fork = Fork::ALL.into_iter().find(|fork| fork.suffix() == suffix)?;
        let filenode = Filenode::new(decimal(digits)?);
        filenode.is_valid().then_some(Self { folder, filenode, fork, segment })
    }
}

impl fmt::Display for RelationFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.filenode, self.fork.suffix())?;
        if self.segment == 0 { Ok(()) } else { write!(f, ".{}", self.segment) }
    }
}

/// The logs about transactions, which are kept in pages of their own.
#[doc(alias = "SlruCtl")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slru {
    /// What became of each transaction.
    #[doc(alias = "clog")]
    Xact,
    /// The parent of each subtransaction.
    Subtrans,
    /// Where each multixact's members start.
    MultiXactOffsets,
    /// The members of multixacts.
    MultiXactMembers,
}

impl Slru {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Xact, Self::Subtrans, Self::MultiXactOffsets, Self::MultiXactMembers];
    /// How many pages a segment has.
    #[doc(alias = "SLRU_PAGES_PER_SEGMENT")]
    pub const PAGES_PER_SEGMENT: u32 = 32;

    /// Its folder.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Xact => "pg_xact",
            Self::Subtrans => "pg_subtrans",
            Self::MultiXactOffsets => "pg_multixact/offsets",
            Self::MultiXactMembers => "pg_multixact/members",
        }
    }
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
