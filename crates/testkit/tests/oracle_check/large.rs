//! A relation that is large enough for several threads at once: they find what one finds.
use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_datadir::check::{Check, Finding};
use pgtoast_datadir::{DataDirectory, DataFile, FileSource, Fork, OverlaySource};
use pgtoast_page::{Page, set_checksum};
use pgtoast_testkit::{Server, ServerOptions, Survey, report};
use pgtoast_toast::{ValueIdWidth, page_chunks};

const TEST: &str = "threads_find_in_a_large_relation_what_one_thread_finds";
const PAGE: usize = BlockSize::KIB_8.bytes();

#[test]
fn threads_find_in_a_large_relation_what_one_thread_finds() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let mut server = Server::start(installation, &ServerOptions::new())?;
        server.client()?.batch_execute(
            "CREATE TABLE large (id int4, body text, note text);
             ALTER TABLE large ALTER body SET STORAGE EXTERNAL;
             INSERT INTO large SELECT g, left(repeat(md5(g::text), 80), 2100 + g % 400), 'note'
                 FROM generate_series(1, 12000) g;
             DELETE FROM large WHERE id % 50 = 7",
        )?;
        server.client()?.batch_execute("VACUUM large")?;
        server.stop()?;
        let path = server.data_directory();
        ensure!(findings(&path, None, Check::new().with_threads(2))?.is_empty());

        let damaged = damaged(&path)?;
        let one = findings(&path, Some(&damaged), Check::new().with_threads(1))?;
        let rows = one.iter().filter(|line| line.contains("public.large (")).count();
        // Some values have both of their chunks in the one bad block, or end there.
        ensure!((9..=14).contains(&rows), "{one:#?}");
        for (threads, memory) in [(2, 128 << 20), (5, 128 << 20), (1, 100_000), (3, 100_000)] {
            let check = Check::new().with_threads(threads).with_memory(memory);
            let found = findings(&path, Some(&damaged), check)?;
            ensure!(found == one, "{threads} threads, {memory} bytes: {found:#?}, not {one:#?}");
        }
        report::count(TEST, format_args!("{}: {rows} rows damaged", server.major()));
        Ok(())
    })
}

fn findings(
    path: &std::path::Path,
    damaged: Option<&OverlaySource>,
    check: Check,
) -> Result<BTreeSet<String>> {
    let directory = match damaged {
        Some(source) => DataDirectory::from_source(Arc::new(source.clone()))?,
        None => DataDirectory::open(path)?,
    };
    let mut lines = Vec::new();
    check.directory(&directory, &mut |finding: Finding| lines.push(finding.to_string()));
    let count = lines.len();
    let lines: BTreeSet<_> = lines.into_iter().collect();
    ensure!(lines.len() == count, "told twice: {lines:?}");
    Ok(lines)
}

/// Takes away the first chunk of every eleventh of so many blocks, and changes a byte in one block
/// without telling its checksum.
fn damaged(path: &std::path::Path) -> Result<OverlaySource> {
    let mut source = OverlaySource::over(Arc::new(FileSource::new(path)));
    let directory = DataDirectory::open(path)?;
    let database = directory.database("postgres")?.context("no database")?;
    let table = database.relation_named("public.large").context("no table")?;
    let toast = database.toast_of(table).context("no TOAST relation")?;
    let fork = database.fork(toast, Fork::Main)?.context("no file")?;
    ensure!(fork.block_count() > 3000, "only {} blocks", fork.block_count());
    let file: DataFile = fork.file();
    source.edit(file, |bytes| {
        for number in 0..10 {
            let block = BlockNumber::new(number * 311 + 5);
            let page = &mut bytes[block.get() as usize * PAGE..][..PAGE];
            let view = Page::new(page, BlockSize::KIB_8)?;
            let first = page_chunks(&view, block, ValueIdWidth::Oid).flatten().next();
            let item = first.context("no chunk")?.tid.context("no place")?.item;
            let at = 24 + item.index().context("no item")? * 4;
            page[at..at + 4].fill(0);
            set_checksum(page, BlockSize::KIB_8, block)?;
        }
        bytes[1000 * PAGE + 7000] ^= 1;
        anyhow::Ok(())
    })??;
    Ok(source)
}
