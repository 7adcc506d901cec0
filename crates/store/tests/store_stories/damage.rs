//! People look for one bad row among millions by halving, because an error names a value id and never the row.
//! One pass names all of them.
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;

use pgtoast_page::{TransactionStatus, XidStatus};
use pgtoast_store::{
    ExportTarget, ImportSource, Isolation, ItemPointer, Storage, Store, StoreOptions,
};

use super::{documents, noise, open};

struct Frozen;

impl TransactionStatus for Frozen {
    fn status(&self, _: pgtoast_base::Xid) -> XidStatus {
        XidStatus::Aborted
    }

    fn update_xid(&self, _: pgtoast_base::Xid) -> Option<pgtoast_base::Xid> {
        None
    }
}

const ROWS: i32 = 2000;
const BLOCK: usize = 8192;

/// Chunks of the row with that id: 0, 1 and what is left.
fn damage(toast: &mut [u8], chunk: usize, kind: usize) {
    let (block, item) = (chunk / 4, chunk % 4);
    let page = &mut toast[block * BLOCK..(block + 1) * BLOCK];
    let at = 24 + 4 * item;
    let pointer = u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
    let start = (pointer & 0x7fff) as usize;
    match kind {
        // Another number, another value, compressed, or gone.
        0 => page[start + 28] ^= 1,
        1 => page[start + 27] ^= 0x40,
        2 => page[start + 32] |= 2,
        _ => page[at..at + 4].copy_from_slice(&[0; 4]),
    }
}

#[test]
fn one_pass_names_every_bad_row_and_no_other() {
    let (directory, store) = open(StoreOptions::new().checksums(false));
    let table = store.create_table("t", documents(Storage::External)).expect("a table");
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let body = noise(7, 7984); // four full chunks: a page each
    let rows = (0..ROWS).map(|id| [id.into(), (&body).into()]);
    transaction.insert_many(&table, rows).expect("inserted");
    transaction.commit().expect("committed");
    let target = ExportTarget::new(16_385).checksums(false);
    let out = directory.path().join("out");
    let export = store.export(&table, &out, &target).expect("exported");
    assert_eq!(export.chunks, 4 * u64::from(ROWS.unsigned_abs()));

    // Row n has the chunks from 4 n on.
    let bad: BTreeSet<usize> = (0..40).map(|number| number * 47 + 11).collect();
    let spoil = |path: &std::path::Path| {
        let mut toast = fs::read(path).expect("the file");
        for (kind, row) in bad.iter().enumerate() {
            damage(&mut toast, row * 4 + kind % 4, kind % 4);
        }
        fs::write(path, toast).expect("written");
    };
    let toast = export.toast.expect("a TOAST relation").path;
    spoil(&toast);
    let source = ImportSource::new(&export.heap.path, &Frozen).toast(&toast);
    let mut found: BTreeSet<ItemPointer> = BTreeSet::new();
    let mut ids = BTreeSet::new();
    let sound = source.verify(table.schema(), |finding| {
        if let (Some(tid), Some(2)) = (finding.tid, finding.column) {
            assert!(found.insert(tid), "{finding} once more");
            ids.insert(finding.value_id.expect("out of line").get());
        }
        ControlFlow::Continue(())
    });
    assert_eq!(sound, Ok(u64::from(ROWS.unsigned_abs()) - 40));
    let expected: BTreeSet<u64> = bad.iter().map(|row| 16_384 + *row as u64).collect();
    assert_eq!(ids, expected);

    // What is sound can be had without the rest.
    let schema = table.schema().clone();
    let import = store.import_with("sound", schema, &source, |_| ControlFlow::Continue(()));
    let import = import.expect("imported");
    assert_eq!(import.rows, u64::from(ROWS.unsigned_abs()) - 40);
    let verified = store.verify(&import.table, |finding| panic!("{finding}")).expect("readable");
    assert_eq!((verified.rows, verified.findings), (import.rows, 0));

    // The same damage in the store's own files.
    let toast = directory.path().join(format!("base/{}", table.relations().toast.expect("one")));
    store.close().expect("closed");
    spoil(&toast);
    let store = Store::open(directory.path(), StoreOptions::new()).expect("there");
    let table = store.table("t").expect("there");
    let mut ids = BTreeSet::new();
    let verified = store.verify(&table, |finding| {
        if finding.column == Some(2) {
            ids.insert(finding.value_id.expect("out of line").get());
        }
        ControlFlow::Continue(())
    });
    assert_eq!(verified.expect("readable").rows, u64::from(ROWS.unsigned_abs()));
    assert_eq!(ids, expected);

    // Who reads the values is told the same, and has the others.
    let mut transaction = store.begin(Isolation::ReadCommitted);
    let mut scan = transaction.scan(&table).expect("there");
    let mut rows = 0;
    while let Some(row) = scan.next().expect("readable") {
        let value = row.get(1).expect("whole").as_value().expect("bytes");
        match value.to_vec() {
            Ok(bytes) => assert!(!bad.contains(&rows) && bytes == body, "row {rows}"),
            Err(error) => assert!(bad.contains(&rows), "row {rows}: {error}"),
        }
        rows += 1;
    }
    assert_eq!(i32::try_from(rows), Ok(ROWS));
}
