//! A data directory that a server stopped cleanly: everything in it is found and reads as it was written.
use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber};
use pgtoast_datadir::{
    ClusterState, Consistency, DatadirError, Fork, MemberStatus, Persistence, RelationKind,
};
use pgtoast_page::{Infomask, TupleDescriptor, Value, XidStatus};
use pgtoast_varlena::{CompressionMethod, Varlena};

mod common;

use common::{MAJORS, database, ids, open, source, table};

#[test]
fn the_control_file_says_what_the_cluster_is() {
    for (major, catalog) in MAJORS.into_iter().zip([202_209_061, 202_506_291]) {
        let directory = open(&source(major));
        let control = directory.control();
        assert_eq!((control.version.major, control.version.catalog), (major, catalog));
        assert_eq!(control.state, ClusterState::ShutDown);
        assert_eq!(directory.consistency(), Consistency::Clean);
        assert_eq!((control.block_size.bytes(), control.segment_blocks), (8192, 131_072));
        assert_eq!(control.toast_chunk_size.bytes(), 1996);
        assert!(control.has_checksums());
        assert_eq!(control.wal_segment_bytes, 16 << 20);
        assert_eq!(control.checkpoint, control.redo);
        assert_eq!(directory.problems(), []);
    }
}

#[test]
fn databases_and_tablespaces_are_listed_by_name() {
    let directory = open(&source(15));
    let names: Vec<_> = directory.databases().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["postgres", "template0", "template1"]);
    let names: Vec<_> = directory.tablespaces().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["pg_default", "pg_global", "space"]);
    assert!(directory.database("nobody's").unwrap().is_none());
}

#[test]
fn every_table_has_the_rows_that_a_new_session_would_see() {
    for major in MAJORS {
        let database = database(&source(major));
        assert_eq!(database.problems(), []);
        let but_tens: Vec<_> = (1..=40).filter(|id| id % 10 != 0).collect();
        for (name, expected) in [
            ("notes", but_tens),
            ("grown", (1..=20).collect()),
            ("locked", (1..=20).collect()),
            ("away", (1..=50).collect()),
            ("fleeting", (1..=30).collect()),
            ("waiting", (1..=3).collect()),
        ] {
            assert_eq!(ids(&table(&database, name)), (expected, vec![]), "{major}: {name}");
        }
    }
}

#[test]
fn a_row_is_fetched_by_its_place() {
    let database = database(&source(15));
    let table = table(&database, "away");
    let (mut buffer, mut rows, mut count) = (Vec::new(), table.rows(), 0);
    while let Some(row) = rows.next() {
        let row = row.unwrap();
        let fetched = table.fetch(row.tid, &mut buffer).unwrap().unwrap();
        assert_eq!((fetched.tid, fetched.tuple.bytes()), (row.tid, row.tuple.bytes()));
        count += 1;
    }
    assert_eq!(count, 50);
    let block = BlockNumber::new(table.fork().block_count());
    let behind = ItemPointer::new(block, OffsetNumber::FIRST);
    assert!(matches!(table.fetch(behind, &mut buffer), Err(DatadirError::BlockMissing { .. })));
    let no_item = ItemPointer::new(BlockNumber::new(0), OffsetNumber::new(2000));
    assert!(matches!(table.fetch(no_item, &mut buffer), Err(DatadirError::Page { .. })));
}

#[test]
fn long_values_come_back_whole_from_every_place_they_can_be_in() {
    for major in MAJORS {
        let database = database(&source(major));
        let table = table(&database, "notes");
        let relation = database.relation_named("public.notes").unwrap();
        let mut detoaster = database.detoaster(relation, 1 << 20).unwrap();
        let attributes = table.columns().attributes();
        let descriptor = TupleDescriptor::new(&attributes).unwrap();
        let (mut rows, mut forms) = (table.rows(), [0; 4]);
        while let Some(row) = rows.next() {
            let row = row.unwrap();
            let values: Vec<_> = row.deform(descriptor).unwrap().map(|one| one.unwrap()).collect();
            let Value::Stored(id) = values[0].value else { panic!("no id") };
            let id = id.fixed().map(i32::from_le_bytes).unwrap();
            let word = format!("row {id}");
            for (value, times) in values[1..].iter().zip([1, 500, 600, 60_000]) {
                let datum = match value.value {
                    Value::Stored(datum) => datum.varlena().unwrap(),
                    other => {
                        assert!(
                            other == Value::Null && times == 60_000 && id % 8 != 0,
                            "{other:?}"
                        );
                        continue;
                    }
                };
                forms[match &datum {
                    Varlena::Short(_) | Varlena::Long(_) => 0,
                    Varlena::Compressed(_) => 1,
                    Varlena::External(pointer) => {
                        let compression = pointer.compression().unwrap();
                        assert!(matches!(compression, None | Some(CompressionMethod::Pglz)));
                        if compression.is_none() { 2 } else { 3 }
                    }
                }] += 1;
                let whole = detoaster.detoast(&datum).unwrap();
                assert_eq!(whole.to_str().unwrap(), word.repeat(times));
            }
        }
        assert_eq!(forms, [36, 36, 36, 4], "plain, compressed, out of line, both");
        assert_eq!(detoaster.source().problems(), []);
    }
}

#[test]
fn columns_younger_than_the_rows_have_their_missing_values() {
    let database = database(&source(18));
    let table = table(&database, "grown");
    let names: Vec<_> =
        table.columns().iter().map(|one| (one.name.as_str(), one.is_dropped)).collect();
    let dropped = "........pg.dropped.2........";
    let expected =
        [("id", false), (dropped, true), ("number", false), ("word", false), ("nothing", false)];
    assert_eq!(names, expected);
    let missing = |name| table.columns().named(name).unwrap().missing.clone();
    assert_eq!(missing("number"), Some(42_i32.to_le_bytes().to_vec()));
    let word = missing("word").unwrap();
    assert_eq!(Varlena::parse(&word, 0).unwrap().0, Varlena::Long(b"few"));
    assert_eq!(missing("nothing"), None);
    assert!(table.columns().named(dropped).is_none());

    let attributes = table.columns().attributes();
    let mut rows = table.rows();
    let row = rows.next().unwrap().unwrap();
    let values = row.deform(TupleDescriptor::new(&attributes).unwrap()).unwrap();
    let values: Vec<_> = values.map(|one| one.unwrap().value).collect();
    assert!(matches!(values[1], Value::Stored(_)), "old rows keep dropped values");
    assert_eq!(values[2], Value::Missing(Some(&42_i32.to_le_bytes())));
    assert_eq!(values[4], Value::Missing(None));
}

#[test]
fn relations_know_their_kind_their_files_and_each_other() {
    for major in MAJORS {
        let database = database(&source(major));
        let notes = database.relation_named("notes").unwrap();
        assert_eq!((notes.kind, notes.persistence), (RelationKind::Table, Persistence::Permanent));
        assert!(notes.is_heap() && !notes.is_mapped && !notes.is_shared);
        assert_eq!(database.qualified_name(notes), "public.notes");
        let toast = database.toast_of(notes).unwrap();
        assert_eq!(database.qualified_name(toast), format!("pg_toast.pg_toast_{}", notes.oid));
        assert_eq!(database.toast_owner(toast.oid), Some(notes));
        let index = database.toast_index(toast.oid).unwrap();
        assert_eq!(index.name, format!("pg_toast_{}_index", notes.oid));
        assert!(index.is_btree());
        assert!(database.fork(index, Fork::Main).unwrap().unwrap().block_count() > 1);
        let key = database.indexes_of(notes.oid).next().unwrap();
        assert!(key.is_primary && key.is_unique && key.is_valid);
        let (_, filenode) = notes.files.unwrap();
        assert!(database.relations_of_filenode(filenode).any(|one| one == notes));

        let away = database.relation_named("away").unwrap();
        assert_eq!(away.option("toast_tuple_target"), Some("200"));
        assert_eq!((away.option("fillfactor"), away.option("no such")), (Some("50"), None));
        assert!(database.fork(away, Fork::VisibilityMap).unwrap().is_some());
        assert!(database.fork(away, Fork::Init).unwrap().is_none());
        let fleeting = database.relation_named("fleeting").unwrap();
        assert_eq!(fleeting.persistence, Persistence::Unlogged);
        assert!(database.fork(fleeting, Fork::Init).unwrap().is_some());

        let class = database.relation_named("pg_class").unwrap();
        assert!(class.is_mapped && class.files.is_some());
        let databases = database.relation_named("pg_catalog.pg_database").unwrap();
        assert!(databases.is_mapped && databases.is_shared);
        let text = table(&database, "notes").columns().named("plain").unwrap().type_oid;
        assert_eq!(database.type_of(text).unwrap().name, "text");
    }
}

#[test]
fn transactions_ended_as_they_did_and_prepared_ones_have_not() {
    for major in MAJORS {
        let directory = open(&source(major));
        let transactions = directory.transactions();
        let [waits] = transactions.prepared() else { panic!("{:?}", transactions.prepared()) };
        assert_eq!((waits.name.as_str(), waits.subtransactions.len()), ("waits", 1));
        for xid in waits.subtransactions.iter().chain([&waits.xid]) {
            assert_eq!(transactions.status(*xid).unwrap(), XidStatus::InProgress);
        }
        assert_eq!(transactions.horizon(), waits.xid);
        assert_eq!(directory.database("postgres").unwrap().unwrap().entry().oid, waits.database);
    }
}

#[test]
fn a_multixact_says_who_locked_a_row_and_who_updated_it() {
    let database = database(&source(18));
    let table = table(&database, "locked");
    let mut kinds = Vec::new();
    let mut rows = table.rows().with_dead();
    while let Some(row) = rows.next() {
        let header = *row.unwrap().tuple.header();
        if !header.infomask().contains(Infomask::XMAX_IS_MULTI) {
            continue;
        }
        let members = table.transactions().members(header.xmax().get()).unwrap();
        let [first, second] = members.as_slice() else { panic!("{members:?}") };
        assert_eq!(first.status, MemberStatus::ForKeyShare);
        assert_eq!(table.transactions().status(first.xid).unwrap(), XidStatus::Committed);
        kinds.push((second.status, table.transactions().status(second.xid).unwrap()));
    }
    let five = |kind| [kind; 5];
    let expected = [
        five((MemberStatus::ForShare, XidStatus::Committed)),
        five((MemberStatus::NoKeyUpdate, XidStatus::Committed)),
        five((MemberStatus::NoKeyUpdate, XidStatus::Aborted)),
    ];
    assert_eq!(kinds, expected.concat());
}
