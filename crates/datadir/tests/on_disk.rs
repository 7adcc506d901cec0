//! Files on disk: tablespaces, running servers, relations without their directory, and what is no file.
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use pgtoast_base::Oid;
use pgtoast_datadir::{
    DataDirectory, DataFile, DatadirError, FileSource, Folder, Fork, Geometry, Source, Table,
};
use pgtoast_page::XidStatus;
use pgtoast_testkit::fixtures;

mod common;

use common::{MAJORS, ids, spec, table};

/// The fixture as files, tablespaces in `pg_tblspc` itself.
fn unpack(major: u32, root: &Path) {
    for (path, bytes) in fixtures::data_directory(major).expect("the fixture") {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a place to write to");
        fs::write(path, bytes).expect("a place to write to");
    }
}

fn away(path: &Path) -> Result<Vec<i32>, DatadirError> {
    let database = DataDirectory::open(path)?.database("postgres")?.expect("a database");
    let relation = database.relation_named("away").expect("a table");
    database.table(relation).map(|table| ids(&table).0)
}

#[test]
fn a_tablespace_is_found_in_its_place_by_its_link_and_by_a_backups_map() {
    for major in MAJORS {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        unpack(major, root.path());
        let all: Vec<_> = (1..=50).collect();
        assert_eq!(away(root.path()).unwrap(), all);

        let spaces = root.path().join("pg_tblspc");
        let oid = fs::read_dir(&spaces).unwrap().next().unwrap().unwrap().file_name();
        let moved = elsewhere.path().join("a \\ path");
        fs::rename(spaces.join(&oid), &moved).unwrap();
        symlink(&moved, spaces.join(&oid)).unwrap();
        assert_eq!(away(root.path()).unwrap(), all, "through a link");

        fs::remove_file(spaces.join(&oid)).unwrap();
        assert!(matches!(away(root.path()), Err(DatadirError::FileMissing { .. })));
        let line = format!("{} {}\n", oid.display(), moved.display()).replace('\\', "\\\\");
        fs::write(root.path().join("tablespace_map"), line).unwrap();
        assert_eq!(away(root.path()).unwrap(), all, "through the map");

        fs::remove_file(root.path().join("tablespace_map")).unwrap();
        let oid = Oid::new(oid.into_string().unwrap().parse().unwrap());
        let source = FileSource::new(root.path()).with_tablespace(oid, &moved);
        let directory = DataDirectory::from_source(std::sync::Arc::new(source)).unwrap();
        let database = directory.database("postgres").unwrap().unwrap();
        assert_eq!(ids(&table(&database, "away")).0, all, "where we are told");
    }
}

#[test]
fn a_directory_with_a_running_server_is_refused_and_a_copy_of_one_is_not() {
    let root = tempfile::tempdir().unwrap();
    unpack(15, root.path());
    let pid = std::process::id();
    let write = |pid: u32, directory: &Path| {
        let text = format!("{pid}\n{}\n1700000000\n5432\n", directory.display());
        fs::write(root.path().join("postmaster.pid"), text).unwrap();
    };
    write(pid, root.path());
    let error = DataDirectory::open(root.path()).unwrap_err();
    assert_eq!(error, DatadirError::ServerRunning { pid });
    assert!(DataDirectory::open_online(root.path()).is_ok(), "unless told");
    write(pid, Path::new("/"));
    assert!(DataDirectory::open(root.path()).is_ok(), "the original's file");
    write(i32::MAX.unsigned_abs(), root.path());
    assert!(DataDirectory::open(root.path()).is_ok(), "a process that is gone");
    fs::write(root.path().join("postmaster.pid"), "nonsense").unwrap();
    assert!(DataDirectory::open(root.path()).is_ok());
}

#[test]
fn what_is_no_regular_file_is_not_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let source = FileSource::new(root.path());
    assert_eq!(source.file_len(DataFile::Control), Ok(None));
    let missing = DatadirError::FileMissing { file: DataFile::Control };
    assert_eq!(source.read_start(DataFile::Control, 9), Err(missing));
    fs::create_dir_all(root.path().join("global/pg_control")).unwrap();
    let folder = DatadirError::FileKind { file: DataFile::Control };
    assert_eq!(source.read_start(DataFile::Control, 9), Err(folder));
    fs::remove_dir(root.path().join("global/pg_control")).unwrap();
    let made =
        std::process::Command::new("mkfifo").arg(root.path().join("global/pg_control")).status();
    if made.is_ok_and(|status| status.success()) {
        assert_eq!(source.read_at(DataFile::Control, 0, &mut [0; 9]), Err(folder));
    }
    assert!(matches!(
        source.list(Folder::Prepared),
        Err(DatadirError::FolderIo { folder: Folder::Prepared, .. })
    ));
}

#[test]
fn a_vectored_read_fills_one_buffer_behind_the_other() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("PG_VERSION"), "0123456789").unwrap();
    let source = FileSource::new(root.path());
    let (mut first, mut second, mut third) = ([0; 3], [0; 0], [0; 5]);
    let mut buffers = [&mut first[..], &mut second, &mut third].map(std::io::IoSliceMut::new);
    let file = DataFile::Version(Folder::Root);
    assert_eq!(source.read_vectored_at(file, 4, &mut buffers), Ok(6));
    assert_eq!((&first, &third), (b"456", b"789\0\0"));
    let short = DatadirError::FileShort { file, offset: 8, needed: 3, found: 2 };
    assert_eq!(source.read_exact_at(file, 8, &mut first), Err(short));
    assert_eq!(source.read_at(file, 1 << 40, &mut first), Ok(0));
}

#[test]
fn a_relation_file_alone_reads_by_a_specification_of_its_columns() {
    let root = tempfile::tempdir().unwrap();
    unpack(15, root.path());
    let directory = DataDirectory::open(root.path()).unwrap();
    let database = directory.database("postgres").unwrap().unwrap();
    let source = FileSource::new(root.path());
    let copy = |name: &str| {
        let alone = root.path().join(name);
        let fork =
            database.fork(database.relation_named(name).unwrap(), Fork::Main).unwrap().unwrap();
        fs::copy(source.path(fork.file()), &alone).unwrap();
        alone
    };
    let open = |path: &Path, columns: &str, assumed| {
        let table = Table::open_file(path, spec(columns), Geometry::default(), assumed);
        ids(&table.unwrap().with_checksums(true))
    };
    let notes = "id int4, plain text, packed text, outside text external, \"both\" text";
    let (found, errors) = open(&copy("notes"), notes, XidStatus::Committed);
    // Nobody has looked at row 1 since its deletion was rolled back; of row 3 another version is taken.
    let expected: Vec<_> = (2..=40).filter(|id| id % 10 != 0).collect();
    assert_eq!((found, errors), (expected, vec![]));
    // Nobody can leave a hint of a transaction that has not ended: 1 was deleted, 4 inserted.
    let waiting = copy("waiting");
    let (found, _) = open(&waiting, "id int4", XidStatus::Committed);
    assert_eq!(found, [2, 3, 4]);
    let (found, _) = open(&waiting, "id int4", XidStatus::Aborted);
    assert_eq!(found, [1, 2, 3]);
}
