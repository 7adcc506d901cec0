//! What is broken or missing is named, and costs itself only.
use std::sync::Arc;

use pgtoast_base::{BlockNumber, Xid};
use pgtoast_datadir::{
    Consistency, ControlFile, DataDirectory, DataFile, DatadirError, Folder, OverlaySource,
    RelationMap, Slru, Source,
};
use pgtoast_page::PageError;

mod common;

use common::{MAJORS, database, file, file_of, folder, ids, open, source, table};

#[test]
fn any_changed_bit_of_the_control_file_is_noticed() {
    for major in MAJORS {
        let mut source = source(major);
        let bytes = source.read_start(DataFile::Control, 512).unwrap();
        let control = ControlFile::parse(&bytes).unwrap();
        let end = ControlFile::checksum_offset(control.control_version).unwrap() + 4;
        for bit in 0..end * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = ControlFile::parse(&damaged).unwrap_err();
            let is_expected = match error {
                DatadirError::ControlChecksum { .. } => true,
                DatadirError::Version { .. } => (8..12).contains(&(bit / 8)),
                _ => false,
            };
            assert!(is_expected, "{major}, bit {bit}: {error}");
        }
        for len in 0..end {
            let error = ControlFile::parse(&bytes[..len]).unwrap_err();
            assert!(matches!(error, DatadirError::FileShort { .. }), "{len}: {error}");
        }
        source.remove(DataFile::Control);
        let missing = DatadirError::FileMissing { file: DataFile::Control };
        assert_eq!(ControlFile::read(&source), Err(missing));
    }
}

/// Changes the control file and makes its checksum right again.
fn with_control(source: &OverlaySource, offset: usize, field: &[u8]) -> OverlaySource {
    let mut source = source.clone();
    let control = ControlFile::read(&source).expect("a sound control file");
    let end = ControlFile::checksum_offset(control.control_version).expect("a sound control file");
    source
        .edit(DataFile::Control, |bytes| {
            bytes[offset..offset + field.len()].copy_from_slice(field);
            let sum = crc32c::crc32c(&bytes[..end]);
            bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
        })
        .expect("a sound control file");
    source
}

#[test]
fn a_control_file_that_no_server_writes_is_refused_though_its_checksum_is_right() {
    let sound = source(15);
    for (offset, field, name, found) in [
        (16, 7_u32, "state", 7),
        (204, 4, "maximum alignment", 4),
        (216, 8191, "block size", 8191),
        (220, 0, "segment size", 0),
        (240, 0, "chunk size", 0),
    ] {
        let source = with_control(&sound, offset, &field.to_le_bytes());
        let error = DatadirError::ControlField { field: name, found };
        assert_eq!(ControlFile::read(&source), Err(error));
    }
    let source = with_control(&sound, 12, &202_301_010_u32.to_le_bytes());
    assert_eq!(ControlFile::read(&source).unwrap().version.major, 16);
    let source = with_control(&sound, 12, &201_909_212_u32.to_le_bytes());
    assert!(matches!(ControlFile::read(&source), Err(DatadirError::Version { .. })));
}

#[test]
fn a_directory_that_must_be_replayed_first_says_so() {
    let sound = source(15);
    let mut backup = sound.clone();
    backup.put(DataFile::BackupLabel, b"START WAL LOCATION: 0/2000028\n".to_vec());
    assert_eq!(open(&backup).consistency(), Consistency::BackupBeforeReplay);
    let running = with_control(&sound, 16, &6_u32.to_le_bytes());
    let consistency = open(&running).consistency();
    assert_eq!(consistency.to_string(), "in production, not consistent before the log is replayed");
    // Whatever is committed by then is seen all the same.
    let database = open(&running).database("postgres").unwrap().unwrap();
    assert_eq!(ids(&table(&database, "locked")).0, (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_broken_relation_map_is_named() {
    for major in MAJORS {
        let sound = source(major);
        let map = DataFile::Map(folder(&sound));
        let end = RelationMap::checksum_offset(major);
        let mut source = sound.clone();
        source.edit(map, |bytes| bytes[end - 1] ^= 1).unwrap();
        let error = open(&source).database("postgres").unwrap_err();
        assert!(matches!(error, DatadirError::MapChecksum { file, .. } if file == map), "{error}");
        for (offset, word, field) in [(0, 7_u32, "magic number"), (4, 65, "count")] {
            let mut source = sound.clone();
            source
                .edit(map, |bytes| {
                    bytes[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
                    let sum = crc32c::crc32c(&bytes[..end]);
                    bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
                })
                .unwrap();
            let error = open(&source).database("postgres").unwrap_err();
            assert_eq!(error, DatadirError::MapField { file: map, field, found: word.into() });
        }
        let mut source = sound.clone();
        source.remove(DataFile::Map(Folder::Global));
        let directory = open(&source);
        let missing = DatadirError::FileMissing { file: DataFile::Map(Folder::Global) };
        assert_eq!(directory.problems()[0], missing);
        assert_eq!(directory.databases(), []);
    }
}

#[test]
fn a_status_log_that_lacks_a_segment_or_its_end_is_named_with_the_transaction() {
    let sound = source(15);
    let xact = file("pg_xact/0000");
    let mut missing = sound.clone();
    missing.remove(xact);
    let directory = open(&missing);
    let error = directory.transactions().status(Xid::new(1000)).unwrap_err();
    assert_eq!(error, DatadirError::StatusMissing { log: Slru::Xact, id: 1000, file: xact });
    assert_eq!(error.to_string(), "pg_xact/0000: nothing there about transaction 1000");

    let mut cut = sound.clone();
    cut.edit(xact, |bytes| bytes.truncate(181)).unwrap();
    let transactions = open(&cut);
    assert!(transactions.transactions().status(Xid::new(723)).is_ok());
    let error = transactions.transactions().status(Xid::new(724)).unwrap_err();
    assert_eq!(error, DatadirError::StatusMissing { log: Slru::Xact, id: 724, file: xact });

    let members = file("pg_multixact/members/0000");
    let mut cut = sound.clone();
    cut.remove(members);
    let (found, errors) = ids(&table(&database(&cut), "locked"));
    // Old versions of updated rows and rows with a rolled back update cannot be judged; rows that were
    // only locked say so themselves.
    assert_eq!(errors.len(), 10, "{errors:?}");
    assert!(errors.iter().all(|error| {
        matches!(error, DatadirError::StatusMissing { log: Slru::MultiXactMembers, .. })
    }));
    assert_eq!(found.len(), 15);
}

#[test]
fn a_broken_state_file_of_a_prepared_transaction_is_named() {
    let sound = source(18);
    let (state, bytes) = sound
        .files()
        .find(|(file, _)| matches!(file, DataFile::Prepared(_)))
        .map(|(file, bytes)| (file, bytes.to_vec()))
        .unwrap();
    let end = bytes.len() - 4;
    for (offset, field) in [(0, "magic number"), (31, "count")] {
        let mut source = sound.clone();
        source
            .edit(state, |bytes| {
                bytes[offset] = 0xff;
                let sum = crc32c::crc32c(&bytes[..end]);
                bytes[end..].copy_from_slice(&sum.to_le_bytes());
            })
            .unwrap();
        let problem = open(&source).problems()[0];
        let is_named = match problem {
            DatadirError::PreparedField { file, field: named, .. } => {
                file == state && named == field
            }
            // So many subtransactions are more than the file has room for.
            DatadirError::FileShort { file, .. } => file == state && field == "count",
            _ => false,
        };
        assert!(is_named, "{field}: {problem}");
    }
    for len in 0..bytes.len() {
        let mut source = sound.clone();
        source.put(state, bytes[..len].to_vec());
        let directory = open(&source);
        assert_eq!(directory.problems().len(), 1, "{len}");
        assert_eq!(directory.transactions().prepared(), []);
    }
}

#[test]
fn a_multixact_with_impossible_members_is_no_reason_to_read_on_for_ever() {
    let sound = source(15);
    let offsets = file("pg_multixact/offsets/0000");
    for (start, end) in [(0_u32, 1_u32), (5, 5), (5, 0), (1, u32::MAX), (7, 6)] {
        let mut source = sound.clone();
        source
            .edit(offsets, |bytes| {
                bytes[4..8].copy_from_slice(&start.to_le_bytes());
                bytes[8..12].copy_from_slice(&end.to_le_bytes());
            })
            .unwrap();
        let error = open(&source).transactions().members(1).unwrap_err();
        assert_eq!(error, DatadirError::MultiXactMembers { multi: 1, start, end });
    }
}

#[test]
fn a_bad_page_of_a_table_hides_its_rows_only() {
    let sound = source(15);
    let away = file_of(&database(&sound), "away");
    let (all, _) = ids(&table(&database(&sound), "away"));
    let mut source = sound.clone();
    source.edit(away, |bytes| bytes[8192 + 4000] ^= 1).unwrap();
    let (found, errors) = ids(&table(&database(&source), "away"));
    assert!(found.len() < all.len() && !found.is_empty(), "{found:?}");
    let [DatadirError::Page { file, block, error: PageError::Checksum { .. } }] = errors[..] else {
        panic!("{errors:?}")
    };
    assert_eq!((file, block), (away, BlockNumber::new(1)));
}

#[test]
fn a_bad_page_of_a_catalog_costs_the_relations_on_it_only() {
    for major in MAJORS {
        let sound = source(major);
        let all = database(&sound).relations().len();
        let class = file_of(&database(&sound), "pg_class");
        let mut source = sound.clone();
        source.edit(class, |bytes| bytes[8192 + 100] ^= 1).unwrap();
        let database = database(&source);
        assert_eq!(database.problems().len(), 1, "{:?}", database.problems());
        let found = database.relations().len();
        assert!(found < all && found > all / 2, "{found} of {all}");
    }
}

#[test]
fn a_missing_catalog_is_named_and_the_others_are_read() {
    let sound = source(18);
    let sound_database = database(&sound);
    let mut source = sound.clone();
    let types = file_of(&sound_database, "pg_type");
    source.remove(types);
    let without_types = database(&source);
    assert_eq!(without_types.problems(), [DatadirError::FileMissing { file: types }]);
    assert_eq!(without_types.relations().len(), sound_database.relations().len());

    let mut source = sound;
    let attributes = file_of(&sound_database, "pg_attribute");
    source.remove(attributes);
    let error = open(&source).database("postgres").unwrap_err();
    assert_eq!(error, DatadirError::FileMissing { file: attributes });
}

#[test]
fn a_table_that_shrinks_while_it_is_read_is_a_short_file() {
    /// Says that files are as long as they were, and has nothing behind their first page.
    #[derive(Debug)]
    struct Shrunk(OverlaySource, DataFile);
    impl Source for Shrunk {
        fn file_len(&self, file: DataFile) -> Result<Option<u64>, DatadirError> {
            self.0.file_len(file)
        }
        fn read_vectored_at(
            &self,
            file: DataFile,
            offset: u64,
            buffers: &mut [std::io::IoSliceMut<'_>],
        ) -> Result<usize, DatadirError> {
            if file == self.1 && offset >= 8192 {
                return Ok(0);
            }
            let found = self.0.read_vectored_at(file, offset, buffers)?;
            Ok(if file == self.1 { found.min(8192) } else { found })
        }
        fn list(&self, folder: Folder) -> Result<Vec<String>, DatadirError> {
            self.0.list(folder)
        }
    }
    let sound = source(15);
    let away = file_of(&database(&sound), "away");
    let blocks = table(&database(&sound), "away").fork().block_count();
    assert!(blocks > 2);
    let directory = DataDirectory::from_source(Arc::new(Shrunk(sound, away))).unwrap();
    let shrunk = directory.database("postgres").unwrap().unwrap();
    let (found, errors) = ids(&table(&shrunk, "away"));
    assert!(!found.is_empty());
    assert_eq!(errors.len(), blocks as usize - 1);
    for (error, block) in errors.iter().zip(1..) {
        let (offset, needed, found) = (block * 8192, 8192, 0);
        assert_eq!(*error, DatadirError::FileShort { file: away, offset, needed, found });
    }
}
