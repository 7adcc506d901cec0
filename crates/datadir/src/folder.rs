//! The folders of a data directory that are read, and the release in the name of one of them.
//!
//! Source: `relpath.c` (REL_18).
use core::fmt;
use core::str::FromStr;

use pgtoast_base::Oid;

use crate::file::decimal;
use crate::{NoDataFile, Slru};

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
