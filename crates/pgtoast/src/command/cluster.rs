//! Opening the data directory, and finding the tables that were named.
use std::path::PathBuf;

use pgtoast_base::Oid;

use super::arguments::GlobalArguments;
use super::failure::Failure;
use super::progress::Progress;
use crate::datadir::{DataDirectory, Database, Fork, Relation};
use crate::report::Budget;
use crate::report::values::relation_by_oid;

/// What holds for every command.
pub(super) struct Context {
    pub(super) arguments: GlobalArguments,
}

impl Context {
    pub(super) fn new(arguments: &GlobalArguments) -> Self {
        Self { arguments: arguments.clone() }
    }

    /// The data directory that was named.
    pub(super) fn path(&self) -> Result<&PathBuf, Failure> {
        self.arguments.pgdata.as_ref().ok_or_else(|| {
            Failure::Usage("no data directory: name one with -D, or set PGDATA".to_owned())
        })
    }

    pub(super) fn directory(&self) -> Result<DataDirectory, Failure> {
        let path = self.path()?;
        Ok(if self.arguments.online {
            DataDirectory::open_online(path)?
        } else {
            DataDirectory::open(path)?
        })
    }

    pub(super) fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.arguments.threads.map_or_else(all, usize::from)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        usize::try_from(self.arguments.limit_memory.0).unwrap_or(usize::MAX)
    }

    pub(super) fn progress(&self, total_bytes: u64) -> Progress {
        Progress::new(total_bytes, self.arguments.quiet)
    }

    /// Does work that reads about so many bytes, with what it may take and a bar that shows how far it is.
    pub(super) fn while_watched<T>(&self, bytes: u64, work: impl FnOnce(&Budget<'_>) -> T) -> T {
        let progress = self.progress(bytes);
        let listen = |bytes| progress.add(bytes);
        work(&Budget {
            threads: self.threads(),
            memory_bytes: self.memory_bytes(),
            progress: &listen,
        })
    }

    /// The databases to look into: that which was named, or all that can be opened.
    pub(super) fn databases(&self, directory: &DataDirectory) -> Result<Vec<Database>, Failure> {
        let Some(name) = &self.arguments.database else {
            let mut databases = Vec::new();
            for entry in directory.databases() {
                match Database::open(directory, entry) {
                    Ok(database) => databases.push(database),
                    Err(error) => warn(format_args!("database {}: {error}", entry.name)),
                }
            }
            return Ok(databases);
        };
        let found = directory.database(name)?;
        found.map(|database| vec![database]).ok_or_else(|| {
            let names: Vec<_> = directory.databases().iter().map(|one| one.name.as_str()).collect();
            Failure::Other(format!("no database {name}; there are {}", names.join(", ")))
        })
    }

    /// The one table of that name.
    pub(super) fn table(&self, directory: &DataDirectory, name: &str) -> Result<Named, Failure> {
        let mut found = Vec::new();
        for database in self.databases(directory)? {
            let oid = find(&database, name).map(|relation| relation.oid);
            found.extend(oid.map(|oid| Named { database, oid }));
        }
        // A table that is in a template too was copied from there.
        if found.iter().any(|one| !one.database.entry().is_template) {
            found.retain(|one| !one.database.entry().is_template);
        }
        if found.len() > 1 {
            let names: Vec<_> = found.iter().map(|one| one.database.name()).collect();
            return Err(Failure::Other(format!(
                "{name} is in several databases: {}; say which with --database",
                names.join(", ")
            )));
        }
        found.pop().ok_or_else(|| {
            let place = self.arguments.database.as_deref().unwrap_or("any database");
            Failure::Other(format!("no table {name} in {place}"))
        })
    }
}

/// A relation that was found by its name.
pub(super) struct Named {
    pub(super) database: Database,
    pub(super) oid: Oid,
}

impl Named {
    pub(super) fn relation(&self) -> Result<&Relation, Failure> {
        let missing = || Failure::Other(format!("no relation {}", self.oid));
        self.database.relation(self.oid).ok_or_else(missing)
    }

    /// The same, if its rows are such as this program reads.
    pub(super) fn heap(&self) -> Result<&Relation, Failure> {
        let relation = self.relation()?;
        if !relation.is_heap() {
            let name = self.database.qualified_name(relation);
            let kind = relation.kind.to_string();
            let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
            return Err(Failure::Other(format!(
                "{name} is {article} {kind}, and not a table with rows of its own in a heap"
            )));
        }
        Ok(relation)
    }
}

/// A relation by `table`, `schema.table`, `database.schema.table` or its id.
fn find<'d>(database: &'d Database, name: &str) -> Option<&'d Relation> {
    if let Some((first, rest)) = name.split_once('.')
        && rest.contains('.')
    {
        return if first == database.name() { database.relation_named(rest) } else { None };
    }
    database.relation_named(name).or_else(|| relation_by_oid(database, name))
}

/// The bytes of a relation's main fork.
pub(super) fn main_bytes(database: &Database, relation: &Relation) -> u64 {
    let fork = database.fork(relation, Fork::Main).ok().flatten();
    fork.map_or(0, |fork| u64::from(fork.block_count()) * fork.block_size().bytes() as u64)
}

/// The same of its TOAST relation.
pub(super) fn toast_bytes(database: &Database, relation: &Relation) -> u64 {
    database.toast_of(relation).map_or(0, |toast| main_bytes(database, toast))
}

/// Says something on standard error that the report does not have.
pub(super) fn warn(what: impl core::fmt::Display) {
    use std::io::Write;
    // Nobody to hear it is no reason to stop.
    let _ = writeln!(std::io::stderr(), "pgtoast: {what}");
}
