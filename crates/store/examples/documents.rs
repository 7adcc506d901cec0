//! Threads put documents of half a megabyte into a table while others read slices of them; then one is changed,
//! the rest is cleared away, and the table is written out as files for a server.
//!
//! `cargo run -p pgtoast-store --example documents`
#![expect(clippy::print_stdout, reason = "an example shows something")]
use std::error::Error;
use std::thread;

use pgtoast_store::{
    Column, ColumnType, ExportTarget, Isolation, Schema, Storage, Store, StoreError, StoreOptions,
    Table, VacuumOptions,
};

const THREADS: i32 = 4;
const DOCUMENTS: i32 = 25;
const LEN: usize = 500_000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let store = Store::open(directory.path().join("store"), StoreOptions::new())?;
    let documents = store.create_table(
        "documents",
        Schema::new([
            Column::new("id", ColumnType::Int4).not_null(),
            Column::new("body", ColumnType::Bytea).with_storage(Storage::External),
        ]),
    )?;
    thread::scope(|scope| {
        let (store, documents) = (&store, &documents);
        let threads: Vec<_> = (0..THREADS)
            .map(|number| scope.spawn(move || write(store, documents, number)))
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Result<(), _>>()
    })?;
    let (rows, bytes) = read(&store, &documents)?;
    println!("{rows} documents, {bytes} bytes of slices, {:?}", documents.size());

    let vacuum = store.vacuum(&documents, &VacuumOptions::default())?;
    println!("{} chunks cleared away", vacuum.toast.map_or(0, |toast| toast.tuples_removed));

    let export =
        store.export(&documents, directory.path().join("out"), &ExportTarget::new(24_580))?;
    println!(
        "exported {} rows and {} chunks to {}",
        export.rows,
        export.chunks,
        export.heap.path.display()
    );
    store.close()?;
    Ok(())
}

fn write(store: &Store, documents: &Table, number: i32) -> Result<(), StoreError> {
    let body = vec![number.to_le_bytes()[0]; LEN];
    for document in 0..DOCUMENTS {
        let mut transaction = store.begin(Isolation::ReadCommitted);
        let id = number * DOCUMENTS + document;
        let tid = transaction.insert(documents, &[id.into(), (&body).into()])?;
        if document % 5 == 0 {
            // A body of another length: the first one's chunks are of no use any more.
            transaction.update(documents, tid, &[(1, body[..LEN / 2].into())])?;
        }
        transaction.commit()?;
    }
    Ok(())
}

fn read(store: &Store, documents: &Table) -> Result<(usize, usize), StoreError> {
    let mut transaction = store.begin(Isolation::RepeatableRead);
    let mut scan = transaction.scan(documents)?;
    let (mut rows, mut bytes) = (0, 0);
    while let Some(row) = scan.next()? {
        rows += 1;
        if let Some(body) = row.get(1)?.as_value() {
            bytes += body.slice(200_000..200_100)?.len();
        }
    }
    Ok((rows, bytes))
}
