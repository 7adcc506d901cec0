//! A relation is longer than a file may be: it goes on in the next one, in the store, in what it exports, and in
//! what it imports.
use pgtoast_page::{TransactionStatus, XidStatus};
use pgtoast_store::{ExportTarget, ImportSource, Isolation, Storage, Store, StoreOptions};

use super::{documents, insert, noise, open, rows};

/// Nobody need be asked: what is exported says for itself that everybody sees it.
struct Unknown;

impl TransactionStatus for Unknown {
    fn status(&self, _: pgtoast_base::Xid) -> XidStatus {
        XidStatus::InProgress
    }

    fn update_xid(&self, _: pgtoast_base::Xid) -> Option<pgtoast_base::Xid> {
        None
    }
}

#[test]
fn relations_of_many_files_go_out_and_come_in() {
    let (directory, store) = open(StoreOptions::new().segment_blocks(16));
    let table = store.create_table("t", documents(Storage::External)).expect("a table");
    for id in 0..60 {
        insert(&store, &table, id, &noise(id.unsigned_abs().into(), 20_000));
    }
    store.close().expect("closed");
    let store = Store::open(directory.path(), StoreOptions::new()).expect("there");
    let table = store.table("t").expect("there");
    let expected = rows(&mut store.begin(Isolation::ReadCommitted), &table);
    assert_eq!(expected.len(), 60);

    let out = directory.path().join("out");
    let target = ExportTarget::new(7).segment_blocks(8);
    let export = store.export(&table, &out, &target).expect("exported");
    let toast = export.toast.expect("a TOAST relation");
    assert_eq!(toast.segments, toast.blocks.div_ceil(8));
    assert!(toast.segments > 10 && out.join("toast.10").exists());

    let source = ImportSource::new(&export.heap.path, &Unknown).toast(&toast.path).checksums(true);
    let import = store.import("again", table.schema().clone(), &source).expect("imported");
    let found = rows(&mut store.begin(Isolation::ReadCommitted), &import.table);
    assert!(found == expected);
    store.verify(&import.table, |finding| panic!("{finding}")).expect("readable");
}
