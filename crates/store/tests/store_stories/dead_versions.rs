//! A table and its TOAST relation are vacuumed apart, so a dead row may outlive its chunks. Rewrites, checks and
//! merges followed such pointers and cried corruption. Dead rows are nobody's; a live one that points to nothing
//! is corruption all the same.
use std::fs;
use std::ops::ControlFlow;

use pgtoast_page::{TransactionStatus, XidStatus};
use pgtoast_store::{
    ExportTarget, ImportSource, IndexCleanup, Isolation, Storage, Store, StoreOptions,
    VacuumOptions,
};

use super::{documents, insert, noise, open, rows};

/// Every transaction committed.
struct Committed;

impl TransactionStatus for Committed {
    fn status(&self, _: pgtoast_base::Xid) -> XidStatus {
        XidStatus::Committed
    }

    fn update_xid(&self, _: pgtoast_base::Xid) -> Option<pgtoast_base::Xid> {
        None
    }
}

#[test]
fn dead_rows_whose_chunks_are_gone_are_no_damage_and_live_ones_are() {
    let (directory, store) = open(StoreOptions::new().checksums(false));
    let table = store.create_table("t", documents(Storage::External)).expect("a table");
    let tids: Vec<_> = (0..5)
        .map(|id| insert(&store, &table, id, &noise(id.unsigned_abs().into(), 6400)))
        .collect();
    for (id, tid) in (0..2).zip(&tids) {
        let mut transaction = store.begin(Isolation::ReadCommitted);
        let body = noise(100 + id, 6400);
        transaction.update(&table, *tid, &[(1, (&body).into())]).expect("updated").expect("a row");
        transaction.commit().expect("committed");
    }
    let always = VacuumOptions { index_cleanup: IndexCleanup::Always, ..VacuumOptions::default() };
    let vacuum = store.vacuum_toast(&table, &always).expect("vacuumed").expect("a TOAST relation");
    assert_eq!(vacuum.tuples_removed, 8, "four chunks of two values");

    let verified = store.verify(&table, |finding| panic!("{finding}")).expect("readable");
    assert_eq!((verified.rows, verified.values, verified.chunks), (5, 5, 20));
    let before = rows(&mut store.begin(Isolation::ReadCommitted), &table);
    let out = directory.path().join("out");
    let export = store.export(&table, &out, &ExportTarget::new(1)).expect("exported");
    assert_eq!((export.rows, export.values, export.chunks), (5, 5, 20));

    // The files of the store are those of a server: import reads them as they are.
    let relations = table.relations();
    let path = |relation| directory.path().join(format!("base/{relation}"));
    let heap = path(relations.heap);
    let source = ImportSource::new(&heap, &Committed).toast(path(relations.toast.expect("one")));
    let schema = table.schema().clone();
    store.checkpoint().expect("written");
    assert_eq!(source.verify(&schema, |finding| panic!("{finding}")), Ok(5));
    let import = store.import("again", schema.clone(), &source).expect("imported");
    assert_eq!(rows(&mut store.begin(Isolation::ReadCommitted), &import.table), before);

    // Now the two dead versions look alive: their xmax counts for nothing.
    store.close().expect("closed");
    let mut page = fs::read(&heap).expect("the file");
    let mut revived = 0;
    for item in 0..u16::from_le_bytes([page[12], page[13]]).saturating_sub(24) / 4 {
        let at = 24 + 4 * usize::from(item);
        let pointer = u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
        let start = (pointer & 0x7fff) as usize;
        if pointer >> 15 & 3 != 1 || page[start + 4..start + 8] == [0; 4] {
            continue;
        }
        page[start + 21] |= 0x08;
        revived += 1;
    }
    assert_eq!(revived, 2);
    fs::write(&heap, &page).expect("written");
    let mut told = Vec::new();
    let sound = source.verify(&schema, |finding| {
        told.push(finding.to_string());
        ControlFlow::Continue(())
    });
    assert_eq!(sound, Ok(5));
    assert_eq!(told.len(), 2);
    assert!(told[0].starts_with("import's heap (0,1) column 2 value 16384: "), "{}", told[0]);
    assert!(told[0].ends_with("toast value 16384: chunk 0 of 4 is missing"), "{}", told[0]);
    assert!(told[1].starts_with("import's heap (0,2) column 2 value 16385: "), "{}", told[1]);

    let store = Store::open(directory.path(), StoreOptions::new()).expect("there");
    let table = store.table("t").expect("there");
    let mut told = Vec::new();
    let verified = store.verify(&table, |finding| {
        told.push((finding.tid, finding.column, finding.value_id.map(|id| id.get())));
        ControlFlow::Continue(())
    });
    assert_eq!(verified.expect("readable").findings, 2);
    assert!(told.iter().all(|(_, column, _)| *column == Some(2)), "{told:?}");
    assert_eq!(told.iter().map(|told| told.2).collect::<Vec<_>>(), [Some(16_384), Some(16_385)]);

    // And nothing is imported of a table that is damaged.
    let refused = store.import("broken", schema, &source);
    assert!(refused.is_err());
    assert!(store.table("broken").is_err());
}
