//! Which tables there are.
//!
//! A sealed file of JSON, replaced as a whole each time that a table comes or goes.
use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::file::SealedFile;
use crate::schema::SchemaRecord;
use crate::table::TableRelations;
use crate::{RelationId, Schema, StoreError, StoreFile};

/// The version of what is written here.
const VERSION: u32 = 1;
/// As on a server, numbers below are its own.
const FIRST_RELATION: u32 = 16_384;

/// The tables of a store.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Manifest {
    version: u32,
    pub(crate) next_relation: u32,
    tables: Vec<TableRecord>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct TableRecord {
    name: String,
    heap: u32,
    toast: Option<u32>,
    toast_index: Option<u32>,
    schema: SchemaRecord,
}

/// What a manifest says of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) relations: TableRelations,
    pub(crate) schema: Schema,
}

impl Manifest {
    pub(crate) fn empty() -> Self {
        Self { version: VERSION, next_relation: FIRST_RELATION, tables: Vec::new() }
    }

    pub(crate) fn read(disk: &dyn Disk) -> Result<Self, StoreError> {
        let bytes = SealedFile::read(disk, StoreFile::Manifest)?;
        let manifest: Self = serde_json::from_slice(&bytes)
            .map_err(|error| StoreError::Manifest { line: error.line(), offset: error.column() })?;
        if manifest.version != VERSION {
            return Err(StoreError::Manifest { line: 0, offset: 0 });
        }
        Ok(manifest)
    }

    pub(crate) fn replace(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| StoreError::Manifest { line: error.line(), offset: error.column() })?;
        SealedFile::replace(disk, StoreFile::Manifest, &bytes)
    }

    pub(crate) fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let entry = |record: &TableRecord| {
            Some(Entry {
                name: record.name.clone(),
                relations: TableRelations {
                    heap: RelationId::new(record.heap),
                    toast: record.toast.map(RelationId::new),
                    toast_index: record.toast_index.map(RelationId::new),
                },
                schema: record.schema.schema()?,
            })
        };
        let entries = self.tables.iter().map(entry).collect::<Option<_>>();
        entries.ok_or(StoreError::Manifest { line: 0, offset: 0 })
    }

    pub(crate) fn add(&mut self, name: &str, relations: TableRelations, schema: &Schema) {
        self.tables.push(TableRecord {
            name: name.to_owned(),
            heap: relations.heap.get(),
            toast: relations.toast.map(RelationId::get),
            toast_index: relations.toast_index.map(RelationId::get),
            schema: SchemaRecord::of(schema),
        });
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.tables.retain(|table| table.name != name);
    }
}
