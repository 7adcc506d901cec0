//! Directories whose files were changed at random: no report panics, hangs or runs away, and a value that is given
//! whole is the value that was stored.
use std::ops::ControlFlow;
use std::sync::Arc;

use pgtoast::base::{BlockNumber, BlockSize};
use pgtoast::datadir::{Columns, DataDirectory, DataFile, Database, Fork, OverlaySource};
use pgtoast::page::set_checksum;
use pgtoast::report::Budget;
use pgtoast::report::columns::ColumnsReport;
use pgtoast::report::free_space::compare;
use pgtoast::report::get::{FoundValue, Part};
use pgtoast::report::ids::IdsReport;
use pgtoast::report::info::Info;
use pgtoast::report::map::MapReport;
use pgtoast::report::page::{PageContext, PageReport};
use pgtoast::report::tables::TableReport;
use pgtoast::report::values::{Selection, each, parse_tid};
use pgtoast_testkit::{Rng, fixtures};

fn original(major: u32) -> OverlaySource {
    let files = fixtures::data_directory(major).expect("the fixture");
    files.into_iter().map(|(path, bytes)| (path.parse().expect("a path"), bytes)).collect()
}

fn open(source: &OverlaySource) -> Option<Database> {
    let directory = DataDirectory::from_source(Arc::new(source.clone())).ok()?;
    let _ = Info::of(&directory, "here");
    directory.database("postgres").ok()?
}

/// Every value of `notes` and where it is; those that can be read.
fn values(database: &Database) -> Vec<(String, String, Vec<u8>)> {
    let mut found = Vec::new();
    let Some(relation) = database.relation_named("notes") else { return found };
    let selection = Selection { inline: true, ..Selection::default() };
    let budget = Budget { threads: 1, memory_bytes: 1 << 20, ..Budget::new() };
    let mut places = Vec::new();
    let _ = each(database, relation, selection, &budget, &mut |value| {
        places.push((value.tid, value.column));
        ControlFlow::Continue(())
    });
    for (tid, column) in places {
        let Some(place) = parse_tid(&tid) else { continue };
        let Ok(value) = FoundValue::find(database, relation, place, &column) else { continue };
        let mut bytes = Vec::new();
        let read = value.stream(Part::Whole, &budget, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok::<(), ()>(())
        });
        if read.is_ok() {
            found.push((tid, column, bytes));
        }
    }
    found
}

fn every_report(database: &Database) {
    let budget = Budget { threads: 2, memory_bytes: 1 << 16, ..Budget::new() };
    for name in ["notes", "away", "grown"] {
        let Some(relation) = database.relation_named(name) else { continue };
        let _ = TableReport::of(database, relation, &budget);
        let _ = ColumnsReport::of(database, relation, &budget);
        let _ = MapReport::of(database, relation, 10, &budget);
        let _ = IdsReport::of(database, relation, &budget);
        let _ = compare(database, relation, true, &budget, &mut |_| ControlFlow::Continue(()));
    }
}

#[test]
fn reports_on_changed_directories_end_and_no_wrong_value_is_given_as_whole() {
    let mut rng = Rng::new(20_261_130);
    for major in fixtures::MAJORS {
        let source = original(major);
        let sound = values(&open(&source).expect("sound"));
        assert_eq!(sound.len(), 36 * 3 + 4);
        let files: Vec<DataFile> = source.files().map(|(file, _)| file).collect();
        let mut opened = 0;
        for _ in 0..60 {
            let mut changed = source.clone();
            let file = files[rng.below(files.len())];
            let (_, bytes) = source.files().find(|(one, _)| *one == file).expect("one of them");
            let mut bytes = bytes.to_vec();
            match rng.below(4) {
                0 => bytes.truncate(rng.below(bytes.len() + 1)),
                1 => bytes.fill(0),
                _ => {
                    for _ in 0..1 + rng.below(20) {
                        let at = rng.below(bytes.len().max(1));
                        if let Some(byte) = bytes.get_mut(at) {
                            *byte ^= 1 << rng.below(8);
                        }
                    }
                }
            }
            changed.put(file, bytes);
            let Some(database) = open(&changed) else { continue };
            opened += 1;
            every_report(&database);
            // Checksums are on, so what is changed in a page is not taken for what was stored. A log that says that
            // other rows live changes which there are, and not what they hold.
            if let DataFile::Relation(_) = file {
                for value in values(&database) {
                    let stored = sound.iter().find(|one| (&one.0, &one.1) == (&value.0, &value.1));
                    assert!(stored.is_none_or(|stored| stored.2 == value.2), "{file}: {value:?}");
                }
            }
        }
        assert!(opened > 30, "{opened}");
    }
}

#[test]
fn any_bytes_make_a_report_of_a_page() {
    let mut rng = Rng::new(7);
    let columns = Columns::parse("id int4, first text external, second text").expect("columns");
    for page in fixtures::Page::load_all().expect("pages") {
        for fork in [Fork::Main, Fork::FreeSpaceMap, Fork::VisibilityMap] {
            for round in 0..12 {
                let mut bytes = page.bytes.clone();
                for _ in 0..round * 3 {
                    let at = rng.below(bytes.len());
                    bytes[at] = rng.next_u64().to_le_bytes()[0];
                }
                let block = BlockNumber::new(0);
                let _ = set_checksum(&mut bytes, BlockSize::KIB_8, block);
                let context = PageContext {
                    file: "a page",
                    block,
                    fork,
                    columns: Some(&columns),
                    transactions: None,
                };
                let report = PageReport::of(&bytes, BlockSize::KIB_8, &context).expect("a report");
                assert!(report.items.len() <= 2048, "{}", report.items.len());
            }
        }
    }
}
