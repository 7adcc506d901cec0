//! The free space map, both ways: the fork that a server wrote is what we make of its heap pages,
//! and a fork that we wrote leads a server's inserts to where it says.
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_fsm::{Category, FreeSpaceMap, Geometry, VecPages};
use pgtoast_page::Page;
use pgtoast_testkit::fsm_fork::{heap_free_bytes, read_fsm, write_fsm};
use pgtoast_testkit::postgres::{Client, Row};
use pgtoast_testkit::{Server, ServerOptions, Survey, report};

const SIZE: BlockSize = BlockSize::KIB_8;

const WHOLE_FORK: &str = "after_vacuum_the_map_of_the_heap_pages_is_the_servers_whole_fork";

#[test]
fn after_vacuum_the_map_of_the_heap_pages_is_the_servers_whole_fork() -> Result<()> {
    Survey::on_every_server(WHOLE_FORK, |installation| {
        let mut server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        for extension in ["pg_freespacemap", "pageinspect"] {
            let there = server.has_extension(&mut client, extension)?;
            ensure!(there, "{installation} comes without {extension}");
            client.batch_execute(&format!("CREATE EXTENSION {extension}"))?;
        }
        churn(&mut client)?;
        let relations = relations(&server, &mut client)?;
        client.batch_execute("CHECKPOINT")?;
        let busy = compare_with_freespace(&mut client, &relations)?;

        for relation in relations.iter().filter(|relation| !relation.is_toast) {
            let options = "DISABLE_PAGE_SKIPPING, INDEX_CLEANUP ON";
            client.batch_execute(&format!("VACUUM ({options}) {}", relation.name))?;
        }
        client.batch_execute("CHECKPOINT")?;
        let quiet = compare_with_freespace(&mut client, &relations)?;
        // As the server sees them: pages in its cache.
        let mut in_cache = Vec::new();
        for relation in &relations {
            in_cache.push(pages_in_cache(&mut client, relation)?);
        }
        drop(client);
        server.stop()?;

        let (mut pages, mut on_disk, mut most_blocks) = (0, 0, 0);
        for (relation, in_cache) in relations.iter().zip(&in_cache) {
            let (nblocks, ours) = map_of_heap(relation)?;
            let ours: Vec<Vec<u8>> = ours.pages().iter().map(<[u8]>::to_vec).collect();
            ensure!(ours.len() == in_cache.len(), "{}: pages", relation.name);
            for (number, (ours, theirs)) in ours.iter().zip(in_cache).enumerate() {
                let differs = ours.iter().zip(theirs).position(|(a, b)| a != b);
                ensure!(differs.is_none(), "{} page {number}: {differs:?}", relation.name);
            }
            // Resetting where the next search starts is no change worth a write, so a page on
            // disk may lack it, and nothing else.
            for (ours, theirs) in ours.iter().zip(read_fsm(&relation.path)?) {
                ensure!(ours[4..] == theirs[4..], "{} on disk", relation.name);
                on_disk += usize::from(ours[..] == theirs[..]);
            }
            pages += ours.len();
            most_blocks = most_blocks.max(nblocks);
        }
        ensure!(relations.len() >= 50 && most_blocks > 3500, "{} relations", relations.len());
        let text = format!(
            "{}: {} relations, the largest of {most_blocks} blocks; {busy} blocks before and {quiet} \
             after vacuum as in pg_freespace; {pages} map pages equal, {on_disk} of them on disk to \
             the last byte",
            installation.version(),
            relations.len()
        );
        report::count(WHOLE_FORK, text);
        Ok(())
    })
}

/// Tables of every fill and shape, some with indexes, some with TOAST tables, rows deleted in
/// patterns, updated, added again, rolled back.
fn churn(client: &mut Client) -> Result<()> {
    client.batch_execute(
        "DO $$ DECLARE n int; t text; rows int; BEGIN
           FOR n IN 1..54 LOOP
             t := 'churned_' || n;
             rows := CASE n WHEN 1 THEN 150000 ELSE 30 + 97 * n END;
             EXECUTE format('CREATE TABLE %I (id int4, pad text) WITH (fillfactor = %s)',
                            t, 100 - (n % 7) * 10);
             EXECUTE format('INSERT INTO %I SELECT i, repeat(''x'', CASE WHEN %s = 1 THEN 190
                             ELSE (i * 7919 + %s) %% (40 + 30 * %s) END)
                             FROM generate_series(1, %s) i', t, n, n, n, rows);
             IF n % 2 = 0 THEN EXECUTE format('CREATE INDEX ON %I (id)', t); END IF;
             EXECUTE format('DELETE FROM %I WHERE id %% %s = 0', t, 2 + n % 5);
             EXECUTE format('UPDATE %I SET pad = pad || ''longer'' WHERE id %% %s = 1', t, 3 + n % 4);
             IF n % 3 = 0 THEN EXECUTE format('DELETE FROM %I WHERE id > %s', t, rows / 2); END IF;
           END LOOP;
         END $$",
    )?;
    // Line pointers without tuples: pages that may run out of pointers before they run out of bytes.
    client.batch_execute(
        "CREATE TABLE narrow (id int2);
         INSERT INTO narrow SELECT 1 FROM generate_series(1, 20000);
         DELETE FROM narrow WHERE ctid::text LIKE '%5)';
         CREATE TABLE toasted (id int4, pad text);
         ALTER TABLE toasted ALTER pad SET STORAGE EXTERNAL;
         INSERT INTO toasted SELECT i, repeat(md5(i::text), 20 * i) FROM generate_series(1, 200) i;
         DELETE FROM toasted WHERE id % 3 = 0",
    )?;
    // A first vacuum, so that the second half of the churn is led by a map.
    client.batch_execute("VACUUM")?;
    client.batch_execute(
        "DO $$ DECLARE n int; BEGIN
           FOR n IN 1..54 LOOP
             EXECUTE format('INSERT INTO churned_%s SELECT i, repeat(''y'', i %% 300)
                             FROM generate_series(1, %s) i', n, 40 * n);
             EXECUTE format('DELETE FROM churned_%s WHERE id %% 11 = 3', n);
           END LOOP;
         END $$",
    )?;
    client.batch_execute(
        "BEGIN; INSERT INTO churned_2 SELECT i, 'gone' FROM generate_series(1, 9000) i; ROLLBACK",
    )?;
    Ok(())
}

struct Relation {
    name: String,
    path: PathBuf,
    is_toast: bool,
}

fn relations(server: &Server, client: &mut Client) -> Result<Vec<Relation>> {
    let sql = "SELECT c.oid::regclass::text, c.relkind = 't' FROM pg_class c
               WHERE c.oid >= 16384 AND c.relkind IN ('r', 't') AND pg_relation_size(c.oid) > 0
               ORDER BY c.oid";
    let rows = client.query(sql, &[])?;
    let relation = |row: &Row| {
        let name: String = row.get(0);
        let path = server.relation_path(client, &name)?;
        Ok(Relation { path, name, is_toast: row.get(1) })
    };
    rows.iter().map(relation).collect()
}

/// Our reading of the fork's file against the server's own; gives the number of blocks compared.
fn compare_with_freespace(client: &mut Client, relations: &[Relation]) -> Result<usize> {
    let geometry = Geometry::of(SIZE);
    let mut compared = 0;
    for relation in relations {
        let contents = read_fsm(&relation.path)?;
        let pages = VecPages::from_pages(geometry, contents.iter().map(Vec::as_slice));
        let mut map = FreeSpaceMap::new(geometry, pages);
        let sql = "SELECT blkno, avail::int4 FROM pg_freespace($1::text::regclass)";
        for row in client.query(sql, &[&relation.name])? {
            let (block, free): (i64, i32) = (row.get(0), row.get(1));
            let Ok(category) = map.category(BlockNumber::new(u32::try_from(block)?));
            let ours = category.free_bytes(SIZE);
            ensure!(i32::try_from(ours)? == free, "{} block {block}: {ours}", relation.name);
            compared += 1;
        }
    }
    Ok(compared)
}

fn pages_in_cache(client: &mut Client, relation: &Relation) -> Result<Vec<Vec<u8>>> {
    let sql = "SELECT get_raw_page($1, 'fsm', n::int4) FROM generate_series(
                 0, pg_relation_size($1::text::regclass, 'fsm') / 8192 - 1) n ORDER BY n";
    let rows = client.query(sql, &[&relation.name])?;
    Ok(rows.iter().map(|row| row.get::<_, Vec<u8>>(0)[24..].to_vec()).collect())
}

/// The map made from the relation's main file, and the length of that in blocks.
fn map_of_heap(relation: &Relation) -> Result<(u32, FreeSpaceMap<VecPages>)> {
    let heap = fs::read(&relation.path)?;
    let nblocks = u32::try_from(heap.len() / SIZE.bytes())?;
    let category = |page: &[u8]| Category::of_free(heap_free_bytes(page), SIZE);
    let blocks = (0..).map(BlockNumber::new).zip(heap.chunks(SIZE.bytes()).map(category));
    let geometry = Geometry::of(SIZE);
    let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let Ok(()) = map.rebuild(nblocks, blocks);
    Ok((nblocks, map))
}

const OURS_USED: &str = "a_server_inserts_where_our_map_says";

#[test]
fn a_server_inserts_where_our_map_says() -> Result<()> {
    Survey::on_every_server(OURS_USED, |installation| {
        for checksums in [true, false] {
            let options = ServerOptions::new().data_checksums(checksums);
            let inserts = insert_by_our_map(Server::start(installation, &options)?, checksums)?;
            let version = installation.version();
            report::count(
                OURS_USED,
                format_args!("{version}: {inserts} inserts, checksums {checksums}"),
            );
        }
        Ok(())
    })
}

/// Tables of 5000 blocks, all half empty; each map names one block alone. Past 4069, the way to it
/// leads over the second page of level 0.
fn insert_by_our_map(mut server: Server, checksums: bool) -> Result<usize> {
    let chosen = [0, 17, 2500, 4068, 4069, 4998];
    let mut client = server.client()?;
    let mut paths = Vec::new();
    for block in chosen {
        let table = format!("led_{block}");
        client.batch_execute(&format!(
            "CREATE TABLE {table} (id int4, pad text);
             ALTER TABLE {table} ALTER pad SET STORAGE PLAIN;
             INSERT INTO {table} SELECT 2 * i, repeat('x', 7000) FROM generate_series(1, 5000) i"
        ))?;
        paths.push((block, server.relation_path(&mut client, &table)?));
    }
    drop(client);
    server.stop()?;
    let geometry = Geometry::of(SIZE);
    for (block, path) in &paths {
        let promise = Category::needed_for(500, SIZE)?;
        let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
        let Ok(()) = map.rebuild(5000, [(BlockNumber::new(*block), promise)]);
        write_fsm(path, map.pages().iter(), |page, number| match Page::new(page, SIZE) {
            Ok(page) if checksums => page.checksum(BlockNumber::new(number)),
            _ => 0,
        })?;
    }
    server.start_again()?;
    let mut client = server.client()?;
    for block in chosen {
        let sql =
            format!("INSERT INTO led_{block} VALUES (1, repeat('y', 400)) RETURNING ctid::text");
        let ctid: String = client.query_one(&sql, &[])?.get(0);
        ensure!(ctid.starts_with(&format!("({block},")), "{ctid} instead of block {block}");
        client.batch_execute(&format!("VACUUM led_{block}"))?;
    }
    let failures: Option<i64> = client
        .query_one("SELECT max(checksum_failures) FROM pg_stat_database", &[])
        .context("checksum failures")?
        .get(0);
    ensure!(failures.unwrap_or(0) == 0, "{failures:?} checksum failures");
    let log = server.log_tail();
    ensure!(!log.contains("invalid page"), "{log}");
    Ok(chosen.len())
}
