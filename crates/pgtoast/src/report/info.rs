//! What cluster it is, what databases it has, and what is toasted in them: from the control file, the
//! catalogs and the lengths of files. No table is read.
use serde::Serialize;

use crate::base::Oid;
use crate::datadir::{
    Consistency, DataDirectory, Database, DatabaseEntry, Fork, Relation, RelationKind,
};

use super::Timestamp;

/// What `pgtoast info` says.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Info {
    /// The data directory, as it was named.
    pub directory: String,
    /// The cluster as a whole.
    pub cluster: Cluster,
    /// Transactions that were prepared and not ended: they hold back vacuum until they are.
    pub prepared: Vec<Prepared>,
    /// The databases, by name.
    pub databases: Vec<DatabaseInfo>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// The cluster as a whole, mostly from its control file.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cluster {
    /// The major release.
    pub major: u32,
    /// The version of the catalogs.
    pub catalog_version: u32,
    /// Tells clusters apart. A text, because many readers of JSON round numbers of this size.
    pub system_identifier: String,
    /// What the server was doing when it wrote the control file last.
    pub state: String,
    /// Whether everything that was done is in the files, in words.
    pub consistency: String,
    /// The same as yes or no.
    pub is_consistent: bool,
    /// Whether pages carry checksums.
    pub checksums: bool,
    /// The size of a block, in bytes.
    pub block_bytes: u32,
    /// The size of a full segment of a relation, in bytes.
    pub segment_bytes: u64,
    /// The payload of a full chunk of an out-of-line value, in bytes.
    pub chunk_bytes: u32,
    /// Where the last checkpoint's record is in the log.
    pub checkpoint: String,
    /// When the last checkpoint was.
    pub checkpoint_time: String,
    /// The timeline of the last checkpoint.
    pub timeline: u32,
    /// The next transaction id, its epoch in the upper 32 bits.
    pub next_xid: u64,
    /// The oldest transaction id that may not be frozen everywhere.
    pub oldest_xid: u32,
    /// The next object id, which is also where the search for the next value id starts.
    pub next_oid: u32,
    /// The next multixact id.
    pub next_multi: u32,
    /// The tablespaces' names.
    pub tablespaces: Vec<String>,
    /// The bytes of catalogs that all databases share.
    pub shared_bytes: u64,
}

/// A prepared transaction.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prepared {
    /// Its id.
    pub xid: u32,
    /// The name that it was prepared under.
    pub name: String,
    /// The database that it is of.
    pub database: Option<String>,
}

/// A database.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DatabaseInfo {
    /// Its name.
    pub name: String,
    /// Its id.
    pub oid: u32,
    /// Its encoding.
    pub encoding: String,
    /// Whether new databases are copied from it.
    pub is_template: bool,
    /// How many transactions its oldest unfrozen transaction id is behind the next one.
    pub xid_age: u32,
    /// Tables, materialized views among them.
    pub tables: u32,
    /// How many of them have values out of line.
    pub toasted_tables: u32,
    /// Bytes of tables' main files.
    pub table_bytes: u64,
    /// Bytes of TOAST relations' main files.
    pub toast_bytes: u64,
    /// Bytes of indexes' main files, those of TOAST relations among them.
    pub index_bytes: u64,
    /// Bytes of everything else: maps, initial forks, sequences.
    pub other_bytes: u64,
    /// The tables with the most bytes out of line, at most ten.
    pub most_toasted: Vec<ToastedTable>,
}

/// A table with values out of line.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToastedTable {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// How many rows vacuum or analyze found last; null if they never looked.
    pub estimated_rows: Option<u64>,
    /// Bytes of its main file.
    pub table_bytes: u64,
    /// Bytes of its TOAST relation's main file.
    pub toast_bytes: u64,
}

/// How many of the most toasted tables are listed.
const MOST_TOASTED: usize = 10;

impl Info {
    /// Reads the control file, the catalogs of all databases, and how long their files are.
    #[must_use]
    pub fn of(directory: &DataDirectory, path: &str) -> Self {
        let mut problems: Vec<_> = directory.problems().iter().map(ToString::to_string).collect();
        let mut databases = Vec::new();
        let mut shared_bytes = None;
        for entry in directory.databases() {
            match Database::open(directory, entry) {
                Ok(database) => {
                    for problem in database.problems() {
                        problems.push(format!("{}: {problem}", entry.name));
                    }
                    let mut sizes = Sizes { database: &database, problems: &mut problems };
                    if shared_bytes.is_none() {
                        shared_bytes = Some(sizes.shared_bytes());
                    }
                    databases.push(sizes.database_info(directory));
                }
                Err(error) => problems.push(format!("database {}: {error}", entry.name)),
            }
        }
        let name_of = |oid: Oid| {
            let found = directory.databases().iter().find(|entry| entry.oid == oid);
            found.map(|entry| entry.name.clone())
        };
        let prepared = directory.transactions().prepared().iter().map(|one| Prepared {
            xid: one.xid.get(),
            name: one.name.clone(),
            database: name_of(one.database),
        });
        Self {
            directory: path.to_owned(),
            cluster: Cluster::of(directory, shared_bytes.unwrap_or_default()),
            prepared: prepared.collect(),
            databases,
            problems,
        }
    }
}

impl Cluster {
    fn of(directory: &DataDirectory, shared_bytes: u64) -> Self {
        let control = directory.control();
        Self {
            major: control.version.major,
            catalog_version: control.version.catalog,
            system_identifier: control.system_identifier.to_string(),
            state: control.state.to_string(),
            consistency: directory.consistency().to_string(),
            is_consistent: directory.consistency() == Consistency::Clean,
            checksums: control.has_checksums(),
            block_bytes: u32::try_from(control.block_size.bytes()).unwrap_or(u32::MAX),
            segment_bytes: control.segment_bytes(),
            chunk_bytes: u32::try_from(control.toast_chunk_size.bytes()).unwrap_or(u32::MAX),
            checkpoint: control.checkpoint.to_string(),
            checkpoint_time: Timestamp(control.checkpoint_time).to_string(),
            timeline: control.timeline,
            next_xid: control.next_full_xid,
            oldest_xid: control.oldest_xid.get(),
            next_oid: control.next_oid.get(),
            next_multi: control.next_multi,
            tablespaces: directory.tablespaces().iter().map(|one| one.name.clone()).collect(),
            shared_bytes,
        }
    }
}

/// Measures the relations of a database.
struct Sizes<'a> {
    database: &'a Database,
    problems: &'a mut Vec<String>,
}

impl Sizes<'_> {
    fn database_info(&mut self, directory: &DataDirectory) -> DatabaseInfo {
        let entry = self.database.entry();
        let mut info = DatabaseInfo {
            name: entry.name.clone(),
            oid: entry.oid.get(),
            encoding: encoding_name(entry).to_owned(),
            is_template: entry.is_template,
            xid_age: directory.control().next_xid().get().wrapping_sub(entry.frozen_xid.get()),
            tables: 0,
            toasted_tables: 0,
            table_bytes: 0,
            toast_bytes: 0,
            index_bytes: 0,
            other_bytes: 0,
            most_toasted: Vec::new(),
        };
        for relation in self.database.relations().filter(|one| !one.is_shared) {
            let bytes = self.fork_bytes(relation, Fork::Main);
            for fork in [Fork::FreeSpaceMap, Fork::VisibilityMap, Fork::Init] {
                info.other_bytes += self.fork_bytes(relation, fork);
            }
            match relation.kind {
                RelationKind::Table | RelationKind::MaterializedView => {
                    info.tables += 1;
                    info.table_bytes += bytes;
                    self.add_toasted(relation, bytes, &mut info);
                }
                RelationKind::Toast => info.toast_bytes += bytes,
                RelationKind::Index => info.index_bytes += bytes,
                _ => info.other_bytes += bytes,
            }
        }
        info.most_toasted.sort_by(|a, b| {
            let key = |one: &ToastedTable| (one.toast_bytes, one.table_bytes);
            key(b).cmp(&key(a)).then_with(|| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)))
        });
        info.most_toasted.truncate(MOST_TOASTED);
        info
    }

    fn add_toasted(&mut self, relation: &Relation, table_bytes: u64, info: &mut DatabaseInfo) {
        let Some(toast) = self.database.toast_of(relation) else { return };
        let toast_bytes = self.fork_bytes(toast, Fork::Main);
        if toast_bytes == 0 {
            return;
        }
        info.toasted_tables += 1;
        let rows = relation.estimated_rows;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate")]
        let estimated_rows = (rows >= 0.0).then_some(rows as u64);
        info.most_toasted.push(ToastedTable {
            schema: self.database.schema_name(relation.schema).unwrap_or_default().to_owned(),
            name: relation.name.clone(),
            estimated_rows,
            table_bytes,
            toast_bytes,
        });
    }

    fn shared_bytes(&mut self) -> u64 {
        let database = self.database;
        let shared = database.relations().filter(|one| one.is_shared);
        shared
            .map(|one| Fork::ALL.into_iter().map(|fork| self.fork_bytes(one, fork)).sum::<u64>())
            .sum()
    }

    /// The whole blocks of a fork, in bytes.
    fn fork_bytes(&mut self, relation: &Relation, fork: Fork) -> u64 {
        if relation.files.is_none() {
            return 0;
        }
        match self.database.fork(relation, fork) {
            Ok(fork) => fork
                .map_or(0, |fork| u64::from(fork.block_count()) * fork.block_size().bytes() as u64),
            Err(error) => {
                self.problems.push(format!("{}: {error}", self.database.name()));
                0
            }
        }
    }
}

/// The name of a database's encoding, as servers print it.
fn encoding_name(entry: &DatabaseEntry) -> &'static str {
    let index = usize::try_from(entry.encoding).unwrap_or(usize::MAX);
    ENCODINGS.get(index).copied().unwrap_or("unknown")
}

/// By number. Source: `pg_wchar.h`, `pg_enc`; `encnames.c` (REL_18).
const ENCODINGS: [&str; 35] = [
    "SQL_ASCII",
    "EUC_JP",
    "EUC_CN",
    "EUC_KR",
    "EUC_TW",
    "EUC_JIS_2004",
    "UTF8",
    "MULE_INTERNAL",
    "LATIN1",
    "LATIN2",
    "LATIN3",
    "LATIN4",
    "LATIN5",
    "LATIN6",
    "LATIN7",
    "LATIN8",
    "LATIN9",
    "LATIN10",
    "WIN1256",
    "WIN1258",
    "WIN866",
    "WIN874",
    "KOI8R",
    "WIN1251",
    "WIN1252",
    "ISO_8859_5",
    "ISO_8859_6",
    "ISO_8859_7",
    "ISO_8859_8",
    "WIN1250",
    "WIN1253",
    "WIN1254",
    "WIN1255",
    "WIN1257",
    "KOI8U",
];
