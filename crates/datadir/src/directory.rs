//! A whole data directory.
use core::fmt;
use std::path::Path;
use std::sync::Arc;

use pgtoast_base::{Oid, Xid};

use crate::catalog::{self, PG_DATABASE, PG_TABLESPACE, name_at};
use crate::problems::Problems;
use crate::relation_map::RelationMap;
use crate::{
    CatalogVersion, ClusterState, Columns, ControlFile, DataFile, Database, DatabaseEntry,
    DatadirError, FileSource, Folder, Fork, Geometry, RelationFork, Source, Table, Tablespace,
    Transactions,
};

/// A data directory that nobody writes to: of a stopped server, a copy, an unpacked base backup. Cheap
/// to copy; threads share it.
#[derive(Clone, Debug)]
pub struct DataDirectory {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Arc<dyn Source>,
    control: ControlFile,
    consistency: Consistency,
    global_map: RelationMap,
    transactions: Arc<Transactions>,
    databases: Vec<DatabaseEntry>,
    tablespaces: Vec<Tablespace>,
    problems: Problems,
}

impl DataDirectory {
    /// The data directory at `path`.
    ///
    /// # Errors
    /// [`DatadirError::ServerRunning`], and those of [`from_source`](Self::from_source).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DatadirError> {
        let source = FileSource::new(path.as_ref());
        match source.running_server() {
            Some(pid) => Err(DatadirError::ServerRunning { pid }),
            None => Self::from_source(Arc::new(source)),
        }
    }

    /// The data directory at `path`, even if a server runs on it. What is read may then be half written
    /// or behind what the server knows: whoever finds a fault must look again.
    ///
    /// # Errors
    /// Those of [`from_source`](Self::from_source).
    pub fn open_online(path: impl AsRef<Path>) -> Result<Self, DatadirError> {
        Self::from_source(Arc::new(FileSource::new(path.as_ref())))
    }

    /// The data directory that `source` reads.
    ///
    /// It takes the control file, which must be sound. Whatever else is wrong is among the
    /// [`problems`](Self::problems), and what could be read all the same is there.
    ///
    /// # Errors
    /// Those of [`ControlFile::read`].
    pub fn from_source(source: Arc<dyn Source>) -> Result<Self, DatadirError> {
        let control = ControlFile::read(&source)?;
        let consistency = Consistency::of(&source, &control)?;
        let mut problems = Problems::default();
        let major = control.version.major;
        let global_map =
            RelationMap::read(&source, Folder::Global, major).unwrap_or_else(|error| {
                problems.add(error);
                RelationMap::default()
            });
        let transactions = Arc::new(Transactions::open(Arc::clone(&source), &control, consistency));
        transactions.problems().iter().for_each(|problem| problems.add(*problem));
        let mut inner = Inner {
            source,
            control,
            consistency,
            global_map,
            transactions,
            databases: Vec::new(),
            tablespaces: Vec::new(),
            problems,
        };
        inner.read_databases();
        inner.read_tablespaces();
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Where its bytes come from.
    #[must_use]
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.inner.source
    }

    /// The control file.
    #[must_use]
    pub fn control(&self) -> &ControlFile {
        &self.inner.control
    }

    /// The release that wrote it.
    #[must_use]
    pub fn version(&self) -> CatalogVersion {
        self.inner.control.version
    }

    /// How blocks lie in files.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        Geometry::from(&self.inner.control)
    }

    /// Whether everything that was done is in the files.
    #[must_use]
    pub fn consistency(&self) -> Consistency {
        self.inner.consistency
    }

    /// What became of transactions.
    #[must_use]
    pub fn transactions(&self) -> &Arc<Transactions> {
        &self.inner.transactions
    }

    /// The files of catalogs that all databases share.
    #[must_use]
    pub fn global_map(&self) -> &RelationMap {
        &self.inner.global_map
    }

    /// Its databases, by name.
    #[must_use]
    pub fn databases(&self) -> &[DatabaseEntry] {
        &self.inner.databases
    }

    /// Its tablespaces, by name.
    #[must_use]
    pub fn tablespaces(&self) -> &[Tablespace] {
        &self.inner.tablespaces
    }

    /// What could not be read so far, up to a thousand.
    #[must_use]
    pub fn problems(&self) -> &[DatadirError] {
        self.inner.problems.kept()
    }

    /// The database of that name; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`Database::open`].
    pub fn database(&self, name: &str) -> Result<Option<Database>, DatadirError> {
        let entry = self.databases().iter().find(|entry| entry.name == name);
        entry.map(|entry| Database::open(self, entry)).transpose()
    }

    /// The folder of a database's relations in a tablespace.
    #[must_use]
    pub fn folder(&self, tablespace: Oid, database: Oid) -> Folder {
        match tablespace {
            Tablespace::GLOBAL => Folder::Global,
            Tablespace::DEFAULT => Folder::Base { database },
            tablespace => Folder::Tablespace { tablespace, version: self.version(), database },
        }
    }
}

impl Inner {
    /// A shared catalog, of which only the fields in front are of interest.
    fn shared(&mut self, catalog: Oid) -> Option<Table> {
        let geometry = Geometry::from(&self.control);
        let fork = match self.global_map.filenode(catalog) {
            None => Ok(None),
            Some(filenode) => {
                let source = Arc::clone(&self.source);
                RelationFork::open(source, Folder::Global, filenode, Fork::Main, geometry)
            }
        };
        match fork {
            Ok(Some(fork)) => {
                let table = Table::new(fork, Arc::default(), Arc::clone(&self.transactions));
                Some(table.with_checksums(self.control.has_checksums()))
            }
            Ok(None) => {
                self.problems.add(DatadirError::CatalogMissing { catalog });
                None
            }
            Err(error) => {
                self.problems.add(error);
                None
            }
        }
    }

    fn read_databases(&mut self) {
        let Some(table) = self.shared(PG_DATABASE) else { return };
        let layout = DatabaseLayout::of(self.control.version.major);
        let mut databases = Vec::new();
        for_each_data(&table, layout.len, &mut self.problems, |data| {
            databases.extend(layout.entry(data));
        });
        databases.sort_by(|a, b| (&a.name, a.oid).cmp(&(&b.name, b.oid)));
        self.databases = databases;
    }

    fn read_tablespaces(&mut self) {
        let Some(table) = self.shared(PG_TABLESPACE) else { return };
        let mut tablespaces = Vec::new();
        for_each_data(&table, 68, &mut self.problems, |data| {
            let name = name_at(data, 4);
            tablespaces.extend(
                word(data, 0).zip(name).map(|(oid, name)| Tablespace { oid: Oid::new(oid), name }),
            );
        });
        tablespaces.sort_by(|a, b| (&a.name, a.oid).cmp(&(&b.name, b.oid)));
        self.tablespaces = tablespaces;
    }
}

/// Gives `visit` the data of each visible row, which has at least `len` bytes.
fn for_each_data(table: &Table, len: usize, problems: &mut Problems, mut visit: impl FnMut(&[u8])) {
    let mut rows = table.rows();
    while let Some(row) = rows.next() {
        match row {
            Ok(row) => {
                let bytes = row.tuple.bytes();
                match bytes.get(usize::from(row.tuple.header().hoff())..) {
                    Some(data) if data.len() >= len => visit(data),
                    _ => {
                        let found = bytes.len();
                        let error = pgtoast_page::TupleError::Length { needed: len, found };
                        problems.add(catalog::tuple_error(table, row.tid, error));
                    }
                }
            }
            Err(error) => problems.add(error),
        }
    }
}

fn word(data: &[u8], offset: usize) -> Option<u32> {
    data.get(offset..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// Where the fields of `pg_database` are that precede all those of variable length.
///
/// ```text
///        oid  name  encoding  template  connections  frozen xid  minimum multi  tablespace
/// 14      0     4      72        204        205          216          220           224
/// 15 …    0     4      72         77         78           84           88            92
/// ```
/// Source: `pg_database.h` (REL_14 to REL_18).
struct DatabaseLayout {
    is_template: usize,
    frozen_xid: usize,
    len: usize,
}

impl DatabaseLayout {
    const fn of(major: u32) -> Self {
        let (is_template, frozen_xid) = if major < 15 { (204, 216) } else { (77, 84) };
        Self { is_template, frozen_xid, len: frozen_xid + 12 }
    }

    fn entry(&self, data: &[u8]) -> Option<DatabaseEntry> {
        Some(DatabaseEntry {
            oid: Oid::new(word(data, 0)?),
            name: name_at(data, 4)?,
            encoding: word(data, 72)?.cast_signed(),
            is_template: *data.get(self.is_template)? != 0,
            allows_connections: *data.get(self.is_template + 1)? != 0,
            frozen_xid: Xid::new(word(data, self.frozen_xid)?),
            minimum_multi: word(data, self.frozen_xid + 4)?,
            tablespace: Oid::new(word(data, self.frozen_xid + 8)?),
        })
    }
}

/// Whether everything that was done is in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// The server was stopped cleanly.
    Clean,
    /// A base backup that must be replayed first: its files were copied one after the other from a
    /// running server. Values may be broken that are whole after replay.
    BackupBeforeReplay,
    /// The server was not stopped cleanly, or it runs: the log must be replayed first.
    NotShutDown(ClusterState),
}

impl Consistency {
    fn of(source: &impl Source, control: &ControlFile) -> Result<Self, DatadirError> {
        let has_label = source.file_len(DataFile::BackupLabel)?.is_some();
        Ok(if has_label || control.backup_start.get() != 0 {
            Self::BackupBeforeReplay
        } else if control.state.is_clean() {
            Self::Clean
        } else {
            Self::NotShutDown(control.state)
        })
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clean => f.write_str("stopped cleanly"),
            Self::BackupBeforeReplay => {
                f.write_str("a base backup, not consistent before its log is replayed")
            }
            Self::NotShutDown(state) => {
                write!(f, "{state}, not consistent before the log is replayed")
            }
        }
    }
}

/// Of a database that has no columns of its own to look at.
pub(crate) fn no_columns() -> Arc<Columns> {
    Arc::default()
}
