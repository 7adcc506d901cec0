//! Data directories that servers wrote, in memory.
#![allow(dead_code, reason = "each test file uses its part")]
use std::sync::Arc;

use pgtoast_datadir::{
    Columns, DataDirectory, DataFile, Database, DatadirError, Folder, Fork, OverlaySource,
    RelationFile, Table,
};
use pgtoast_page::{TupleDescriptor, Value};
use pgtoast_testkit::fixtures;

pub(crate) const MAJORS: [u32; 2] = fixtures::MAJORS;

/// The files of `testdata/<major>/datadir.tar.lz4`.
pub(crate) fn source(major: u32) -> OverlaySource {
    let files = fixtures::data_directory(major).expect("the fixture");
    files.into_iter().map(|(path, bytes)| (file(&path), bytes)).collect()
}

pub(crate) fn file(path: &str) -> DataFile {
    path.parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn open(source: &OverlaySource) -> DataDirectory {
    DataDirectory::from_source(Arc::new(source.clone())).expect("a sound control file")
}

pub(crate) fn database(source: &OverlaySource) -> Database {
    open(source).database("postgres").expect("readable catalogs").expect("a database")
}

/// The file of segment 0 of a relation's main fork.
pub(crate) fn file_of(database: &Database, name: &str) -> DataFile {
    let relation = database.relation_named(name).unwrap_or_else(|| panic!("no {name}"));
    let (folder, filenode) = relation.files.expect("a relation with files");
    DataFile::Relation(RelationFile { folder, filenode, fork: Fork::Main, segment: 0 })
}

/// The folder of the fixture's database.
pub(crate) fn folder(source: &OverlaySource) -> Folder {
    let mut folders = source.files().map(|(file, _)| file.folder());
    folders.find(|folder| matches!(folder, Folder::Base { .. })).expect("a database")
}

pub(crate) fn table(database: &Database, name: &str) -> Table {
    let relation = database.relation_named(name).unwrap_or_else(|| panic!("no {name}"));
    database.table(relation).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The first column of every visible row, which is an `int4`, and what went wrong.
pub(crate) fn ids(table: &Table) -> (Vec<i32>, Vec<DatadirError>) {
    let attributes = table.columns().attributes();
    let descriptor = TupleDescriptor::new(&attributes).expect("few columns");
    let (mut ids, mut errors) = (Vec::new(), Vec::new());
    let mut rows = table.rows();
    while let Some(row) = rows.next() {
        match row {
            Ok(row) => {
                let first = row.deform(descriptor).expect("a sound tuple").next();
                let Some(Ok(first)) = first else { panic!("{first:?}") };
                let Value::Stored(datum) = first.value else { panic!("{first:?}") };
                ids.push(datum.fixed().map(i32::from_le_bytes).expect("four bytes"));
            }
            Err(error) => errors.push(error),
        }
    }
    ids.sort_unstable();
    (ids, errors)
}

pub(crate) fn spec(text: &str) -> Columns {
    Columns::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
