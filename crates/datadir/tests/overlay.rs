//! Changes in memory over a directory that stays as it is.
use std::sync::Arc;

use pgtoast_datadir::{DataFile, DatadirError, Folder, OverlaySource, Source};

mod common;

use common::file;

fn ground() -> Arc<OverlaySource> {
    let files =
        [("base/5/16384", vec![1; 4]), ("base/5/16385", vec![2; 2]), ("pg_xact/0000", vec![3])];
    Arc::new(files.into_iter().map(|(path, bytes)| (file(path), bytes)).collect())
}

fn read(source: &OverlaySource, path: &str) -> Result<Vec<u8>, DatadirError> {
    source.read_start(file(path), 100)
}

#[test]
fn changes_are_seen_above_and_never_below() {
    let below = ground();
    let mut source = OverlaySource::over(Arc::clone(&below) as Arc<dyn Source>);
    source.edit(file("base/5/16384"), |bytes| bytes.truncate(1)).unwrap();
    source.edit(file("base/5/16384"), |bytes| bytes.push(9)).unwrap();
    source.remove(file("pg_xact/0000"));
    source.put(file("base/5/16386"), vec![7]);
    assert_eq!(read(&source, "base/5/16384").unwrap(), [1, 9]);
    assert_eq!(read(&source, "base/5/16385").unwrap(), [2, 2]);
    assert_eq!(read(&source, "base/5/16386").unwrap(), [7]);
    let gone = DatadirError::FileMissing { file: file("pg_xact/0000") };
    assert_eq!(read(&source, "pg_xact/0000"), Err(gone));
    assert_eq!(source.file_len(file("pg_xact/0000")), Ok(None));
    assert_eq!(source.edit(file("pg_xact/0000"), Vec::clear), Err(gone));

    source.swap(file("base/5/16385"), file("base/5/16386")).unwrap();
    assert_eq!(read(&source, "base/5/16385").unwrap(), [7]);
    assert_eq!(read(&source, "base/5/16386").unwrap(), [2, 2]);

    assert_eq!(read(&below, "base/5/16384").unwrap(), [1; 4]);
    assert_eq!(read(&below, "pg_xact/0000").unwrap(), [3]);
    assert_eq!(below.file_len(file("base/5/16386")), Ok(None));
}

#[test]
fn folders_list_what_is_there_by_now() {
    let mut source = OverlaySource::over(ground());
    let list = |source: &OverlaySource, path: &str| source.list(path.parse().unwrap());
    assert_eq!(list(&source, "base/5").unwrap(), ["16384", "16385"]);
    assert_eq!(list(&source, "base").unwrap(), ["5"]);
    assert_eq!(list(&source, "").unwrap(), ["base", "pg_xact"]);
    source.remove(file("base/5/16384"));
    source.put(file("base/5/16385_fsm"), vec![]);
    source.put(file("pg_twophase/0000007B"), vec![]);
    source.add_name("base/5".parse().unwrap(), "lost+found");
    assert_eq!(list(&source, "base/5").unwrap(), ["16385", "16385_fsm", "lost+found"]);
    assert_eq!(list(&source, "pg_twophase").unwrap(), ["0000007B"]);
    let error = list(&OverlaySource::empty(), "pg_tblspc").unwrap_err();
    assert!(matches!(error, DatadirError::FolderIo { folder: Folder::Tablespaces, .. }), "{error}");
}

#[test]
fn a_file_reads_from_any_place_to_its_end_and_no_further() {
    let source = ground();
    let mut buffer = [0; 3];
    let path = file("base/5/16384");
    assert_eq!(source.read_at(path, 2, &mut buffer), Ok(2));
    assert_eq!(source.read_at(path, 4, &mut buffer), Ok(0));
    assert_eq!(source.read_at(path, u64::MAX, &mut buffer), Ok(0));
    let short = DatadirError::FileShort { file: path, offset: 2, needed: 3, found: 2 };
    assert_eq!(source.read_exact_at(path, 2, &mut buffer), Err(short));
    assert_eq!(source.read_start(path, 2).unwrap(), [1; 2]);
    let missing = DatadirError::FileMissing { file: DataFile::Control };
    assert_eq!(source.read_at(DataFile::Control, 0, &mut buffer), Err(missing));
}
