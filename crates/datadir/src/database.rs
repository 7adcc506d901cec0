//! One database of a data directory, by its catalogs.
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pgtoast_base::{Oid, Xid};
use pgtoast_toast::{Detoaster, ValueIdWidth};

use crate::attributes::Attributes;
use crate::catalog::{self, Field, PG_ATTRIBUTE, PG_CLASS, PG_INDEX, PG_NAMESPACE, PG_TYPE};
use crate::directory::no_columns;
use crate::problems::Problems;
use crate::{
    Columns, DataDirectory, DatabaseEntry, DatadirError, Filenode, Folder, Fork, Index,
    Persistence, Relation, RelationFork, RelationKind, RelationMap, Table, Tablespace, ToastChunks,
    Type,
};

/// A database: its relations, their columns, types and indexes, as a new session would find them.
/// Threads share it.
#[derive(Debug)]
pub struct Database {
    directory: DataDirectory,
    entry: DatabaseEntry,
    map: RelationMap,
    attributes: Attributes,
    relations: BTreeMap<Oid, Relation>,
    schemas: HashMap<Oid, String>,
    types: HashMap<Oid, Type>,
    indexes: Vec<Index>,
    /// TOAST relation to the table it serves.
    toast_owners: HashMap<Oid, Oid>,
    problems: Problems,
}

impl Database {
    /// Reads the catalogs. Rows that cannot be read are left out and are among the
    /// [`problems`](Self::problems).
    ///
    /// # Errors
    /// Those of [`RelationMap::read`]; [`DatadirError::CatalogMissing`] and those of reading if
    /// `pg_attribute` or `pg_class` cannot be read at all.
    pub fn open(directory: &DataDirectory, entry: &DatabaseEntry) -> Result<Self, DatadirError> {
        let folder = directory.folder(entry.tablespace, entry.oid);
        let major = directory.version().major;
        let map = RelationMap::read(directory.source(), folder, major)?;
        let mut database = Self {
            directory: directory.clone(),
            entry: entry.clone(),
            map,
            attributes: Attributes::default(),
            relations: BTreeMap::new(),
            schemas: HashMap::new(),
            types: HashMap::new(),
            indexes: Vec::new(),
            toast_owners: HashMap::new(),
            problems: Problems::default(),
        };
        let attributes = database.mapped(PG_ATTRIBUTE, no_columns())?;
        database.attributes = Attributes::read(&attributes, major, &mut database.problems);
        database.read_relations()?;
        database.read_indexes();
        database.read_schemas();
        database.read_types();
        Ok(database)
    }

    /// The data directory that it is part of.
    #[must_use]
    pub const fn directory(&self) -> &DataDirectory {
        &self.directory
    }

    /// What the list of databases says of it.
    #[must_use]
    pub const fn entry(&self) -> &DatabaseEntry {
        &self.entry
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// The files of its own catalogs that no catalog names.
    #[must_use]
    pub const fn map(&self) -> &RelationMap {
        &self.map
    }

    /// What could not be read of the catalogs, up to a thousand.
    #[must_use]
    pub fn problems(&self) -> &[DatadirError] {
        self.problems.kept()
    }

    /// Every relation, by id. Those that all databases share are among them.
    pub fn relations(&self) -> impl ExactSizeIterator<Item = &Relation> {
        self.relations.values()
    }

    /// The relation of that id.
    #[must_use]
    pub fn relation(&self, oid: Oid) -> Option<&Relation> {
        self.relations.get(&oid)
    }

    /// The relation of a name: `schema.table`, or a name alone, which is looked for in `public`, then in
    /// `pg_catalog` and `pg_toast`, then anywhere if it is the only one.
    #[must_use]
    pub fn relation_named(&self, name: &str) -> Option<&Relation> {
        let called = |name: &str| {
            let name = name.to_owned();
            self.relations().filter(move |relation| relation.name == name)
        };
        if let Some((schema, name)) = name.split_once('.')
            && let Some(found) =
                called(name).find(|one| self.schema_name(one.schema) == Some(schema))
        {
            return Some(found);
        }
        for schema in ["public", "pg_catalog", "pg_toast"] {
            if let Some(one) = called(name).find(|one| self.schema_name(one.schema) == Some(schema))
            {
                return Some(one);
            }
        }
        let mut all = called(name);
        let first = all.next();
        if all.next().is_some() { None } else { first }
    }

    /// The relation whose files have that number, in whichever of its folders.
    pub fn relations_of_filenode(&self, filenode: Filenode) -> impl Iterator<Item = &Relation> {
        self.relations().filter(move |one| one.files.is_some_and(|(_, number)| number == filenode))
    }

    /// A relation's name with its schema: `public.t`.
    #[must_use]
    pub fn qualified_name(&self, relation: &Relation) -> String {
        match self.schema_name(relation.schema) {
            Some(schema) => format!("{schema}.{}", relation.name),
            None => relation.name.clone(),
        }
    }

    /// The name of a schema.
    #[must_use]
    pub fn schema_name(&self, schema: Oid) -> Option<&str> {
        self.schemas.get(&schema).map(String::as_str)
    }

    /// A type.
    #[must_use]
    pub fn type_of(&self, oid: Oid) -> Option<&Type> {
        self.types.get(&oid)
    }

    /// Every index, in no order.
    #[must_use]
    pub fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// The indexes of a table.
    pub fn indexes_of(&self, table: Oid) -> impl Iterator<Item = &Index> {
        self.indexes.iter().filter(move |index| index.table == table)
    }

    /// The TOAST relation of a table.
    #[must_use]
    pub fn toast_of(&self, relation: &Relation) -> Option<&Relation> {
        self.relation(relation.toast_relation?)
    }

    /// The table whose long values are in that TOAST relation.
    #[must_use]
    pub fn toast_owner(&self, toast: Oid) -> Option<&Relation> {
        self.relation(*self.toast_owners.get(&toast)?)
    }

    /// The index on a TOAST relation's values and chunks.
    #[must_use]
    pub fn toast_index(&self, toast: Oid) -> Option<&Relation> {
        let index = self.indexes_of(toast).find(|index| index.is_valid)?;
        self.relation(index.oid)
    }

    /// A relation's columns, dropped ones included.
    ///
    /// # Errors
    /// [`DatadirError::ColumnMissing`] if the catalog lacks one.
    pub fn columns(&self, relation: &Relation) -> Result<Columns, DatadirError> {
        self.attributes.columns(relation.oid, relation.column_count)
    }

    /// A fork of a relation; `None` if it has no such file.
    ///
    /// # Errors
    /// [`DatadirError::RelationWithoutFile`], and those of [`RelationFork::open`].
    pub fn fork(
        &self,
        relation: &Relation,
        fork: Fork,
    ) -> Result<Option<RelationFork>, DatadirError> {
        let no_file = DatadirError::RelationWithoutFile { relation: relation.oid };
        let (folder, filenode) = relation.files.ok_or(no_file)?;
        self.fork_at(folder, filenode, fork)
    }

    /// A relation's main fork with its columns, to read its rows.
    ///
    /// # Errors
    /// [`DatadirError::RelationWithoutFile`], [`DatadirError::FileMissing`], and those of
    /// [`columns`](Self::columns) and [`RelationFork::open`].
    pub fn table(&self, relation: &Relation) -> Result<Table, DatadirError> {
        let columns = Arc::new(self.columns(relation)?);
        let no_file = DatadirError::RelationWithoutFile { relation: relation.oid };
        let (folder, filenode) = relation.files.ok_or(no_file)?;
        self.table_at(folder, filenode, columns)
    }

    /// The long values of a table, or of a TOAST relation itself: [`Detoaster`] reads any stored datum
    /// of the table's columns. It takes about `memory_bytes` to find its way; see [`ToastChunks`].
    ///
    /// A table without a TOAST relation has a detoaster too, which reads what lies in the rows.
    ///
    /// # Errors
    /// Those of [`table`](Self::table), about the TOAST relation;
    /// [`DatadirError::RelationMissing`] if the catalog lacks that.
    pub fn detoaster(
        &self,
        relation: &Relation,
        memory_bytes: usize,
    ) -> Result<Detoaster<ToastChunks>, DatadirError> {
        let control = self.directory.control();
        let toast = match relation.kind {
            RelationKind::Toast => Some(relation.oid),
            _ => relation.toast_relation,
        };
        let Some(oid) = toast else {
            let chunk_size = control.chunk_size(ValueIdWidth::Oid);
            return Ok(Detoaster::new(ToastChunks::none(), chunk_size));
        };
        let missing = DatadirError::RelationMissing { relation: oid };
        let table = self.table(self.relation(oid).ok_or(missing)?)?;
        let chunks = ToastChunks::new(table, Some(oid), memory_bytes);
        let chunk_size = control.chunk_size(chunks.width());
        Ok(Detoaster::new(chunks, chunk_size))
    }

    fn fork_at(
        &self,
        folder: Folder,
        filenode: Filenode,
        fork: Fork,
    ) -> Result<Option<RelationFork>, DatadirError> {
        let source = Arc::clone(self.directory.source());
        RelationFork::open(source, folder, filenode, fork, self.directory.geometry())
    }

    fn table_at(
        &self,
        folder: Folder,
        filenode: Filenode,
        columns: Arc<Columns>,
    ) -> Result<Table, DatadirError> {
        let first = crate::RelationFile { folder, filenode, fork: Fork::Main, segment: 0 };
        let missing = DatadirError::FileMissing { file: crate::DataFile::Relation(first) };
        let fork = self.fork_at(folder, filenode, Fork::Main)?.ok_or(missing)?;
        let transactions = Arc::clone(self.directory.transactions());
        let has_checksums = self.directory.control().has_checksums();
        Ok(Table::new(fork, columns, transactions).with_checksums(has_checksums))
    }

    /// A catalog that is in the map.
    fn mapped(&self, catalog: Oid, columns: Arc<Columns>) -> Result<Table, DatadirError> {
        let filenode =
            self.map.filenode(catalog).ok_or(DatadirError::CatalogMissing { catalog })?;
        let folder = self.directory.folder(self.entry.tablespace, self.entry.oid);
        self.table_at(folder, filenode, columns)
    }

    fn read_relations(&mut self) -> Result<(), DatadirError> {
        let columns = Arc::new(self.attributes.all_columns(PG_CLASS));
        let table = self.mapped(PG_CLASS, columns)?;
        let names = [
            "oid",
            "relname",
            "relnamespace",
            "relkind",
            "relpersistence",
            "relam",
            "reltablespace",
            "relfilenode",
            "relisshared",
            "reltoastrelid",
            "relnatts",
            "relpages",
            "reltuples",
            "relfrozenxid",
            "relminmxid",
            "reloptions",
        ];
        let mut problems = core::mem::take(&mut self.problems);
        let mut relations = BTreeMap::new();
        catalog::read(&table, names, &mut problems, |fields| {
            if let Some(relation) = self.relation_of(fields) {
                relations.insert(relation.oid, relation);
            }
        });
        self.problems = problems;
        let owner = |one: &Relation| one.toast_relation.map(|toast| (toast, one.oid));
        self.toast_owners = relations.values().filter_map(owner).collect();
        self.relations = relations;
        Ok(())
    }

    fn relation_of(&self, fields: [Field<'_>; 16]) -> Option<Relation> {
        let [
            oid,
            name,
            schema,
            kind,
            persistence,
            access_method,
            tablespace,
            filenode,
            is_shared,
            toast,
            natts,
            pages,
            tuples,
            frozen_xid,
            minimum_multi,
            options,
        ] = fields;
        let oid = oid.oid()?;
        let kind = RelationKind::from_letter(kind.letter()?);
        let persistence = Persistence::from_letter(persistence.letter()?)?;
        let is_shared = is_shared.is_true();
        let listed = Filenode::new(filenode.number()?);
        let is_mapped = kind.has_storage() && !listed.is_valid();
        let map = if is_shared { self.directory.global_map() } else { &self.map };
        let filenode = if is_mapped { map.filenode(oid) } else { Some(listed) };
        let tablespace = match tablespace.oid()? {
            _ if is_shared => Tablespace::GLOBAL,
            Oid::INVALID => self.entry.tablespace,
            tablespace => tablespace,
        };
        let folder = self.directory.folder(tablespace, self.entry.oid);
        // The names of temporary files say whose they are; no catalog does.
        let has_files = kind.has_storage() && persistence != Persistence::Temporary;
        Some(Relation {
            oid,
            name: name.name()?,
            schema: schema.oid()?,
            kind,
            persistence,
            access_method: access_method.oid()?,
            tablespace: if kind.has_storage() { tablespace } else { Oid::INVALID },
            files: filenode.filter(|_| has_files).map(|filenode| (folder, filenode)),
            is_mapped,
            is_shared,
            toast_relation: toast.oid().filter(|toast| toast.is_valid()),
            column_count: u16::try_from(natts.half()?).ok()?,
            estimated_blocks: pages.signed()?,
            estimated_rows: tuples.float()?,
            frozen_xid: Xid::new(frozen_xid.number()?),
            minimum_multi: minimum_multi.number()?,
            options: options.payload().map(crate::array::texts).unwrap_or_default(),
        })
    }

    /// A catalog that `pg_class` names; nothing if there is none, which is then among the problems.
    fn catalog(&mut self, oid: Oid) -> Option<Table> {
        let missing = DatadirError::CatalogMissing { catalog: oid };
        let table = self.relation(oid).ok_or(missing).and_then(|relation| self.table(relation));
        table.map_err(|error| self.problems.add(error)).ok()
    }

    fn read_indexes(&mut self) {
        let Some(table) = self.catalog(PG_INDEX) else { return };
        let names = ["indexrelid", "indrelid", "indisunique", "indisprimary", "indisvalid"];
        let mut indexes = Vec::new();
        catalog::read(&table, names, &mut self.problems, |[oid, table, unique, primary, valid]| {
            indexes.extend(oid.oid().zip(table.oid()).map(|(oid, table)| Index {
                oid,
                table,
                is_unique: unique.is_true(),
                is_primary: primary.is_true(),
                is_valid: valid.is_true(),
            }));
        });
        self.indexes = indexes;
    }

    fn read_schemas(&mut self) {
        let Some(table) = self.catalog(PG_NAMESPACE) else { return };
        let mut schemas = HashMap::new();
        catalog::read(&table, ["oid", "nspname"], &mut self.problems, |[oid, name]| {
            schemas.extend(oid.oid().zip(name.name()));
        });
        self.schemas = schemas;
    }

    fn read_types(&mut self) {
        let Some(table) = self.catalog(PG_TYPE) else { return };
        let names =
            ["oid", "typname", "typnamespace", "typtype", "typcategory", "typelem", "typbasetype"];
        let mut types = HashMap::new();
        catalog::read(&table, names, &mut self.problems, |fields| {
            let [oid, name, schema, kind, category, element, base] = fields;
            let found = || {
                let oid = oid.oid()?;
                let (kind, category) = (kind.letter()?, category.letter()?);
                let (element, base) = (element.oid()?, base.oid()?);
                let (name, schema) = (name.name()?, schema.oid()?);
                Some(Type { oid, name, schema, kind, category, element, base })
            };
            types.extend(found().map(|one| (one.oid, one)));
        });
        self.types = types;
    }
}
