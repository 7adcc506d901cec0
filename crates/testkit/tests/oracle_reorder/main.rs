//! The same SQL, decoded by a server's `test_decoding` and by us, prints the same text.
//!
//! Sessions take turns at inserting, updating, deleting, truncating, copying and emitting messages, in
//! subtransactions that are released or undone. What each statement puts into the log, a model knows: rows are
//! toasted by our own rules, so that chunks come before their rows as they do in a server's log.
mod log;
mod session;
mod table;
mod values;

use anyhow::{Context as _, Result, ensure};
use pgtoast_memctx::BlockSizes;
use pgtoast_reorder::{
    BumpPerTransaction, CohortPages, Eviction, Layout, MemorySpill, Options, RelationMap,
    ReorderBuffer, ReorderStats, ReplicaIdentity, SharedGeneration, TextOptions, TextOutput,
};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Rng, Server, ServerOptions, Survey, report};

use crate::log::Log;
use crate::session::{Mix, Session};
use crate::table::{Declared, Table, declared, dropped};
use crate::values::{BYTEA, INT4, INT4_ARRAY, KINDS, LONG_TEXT, TEXT};

const SAME_TEXT: &str = "the_same_sql_prints_the_same_text";
const STREAMS: &str = "transactions_that_are_not_over_are_streamed_as_a_server_streams_them";
const SEEDS: u64 = 3;
const STEPS: usize = 500;
/// Those that [`Run::decode`] knows.
const LAYOUTS: usize = 3;

#[test]
fn the_same_sql_prints_the_same_text() -> Result<()> {
    Survey::on_every_server(SAME_TEXT, |installation| {
        let server = Server::start(installation, &server_options())?;
        let mut client = server.client()?;
        compare_types(&mut client)?;
        let (mut lines, mut chunks, mut spills) = (0, 0, 0);
        for seed in 0..SEEDS {
            let mut run = Run::prepare(&server, seed)?;
            run.play(&mut Rng::new(seed), STEPS, Mix::Everything)?;
            let theirs = run.lines_of_server(&[])?;
            run.drop_slot()?;
            let messages_are_changes = installation.major() >= FIRST_WITH_MESSAGES_AS_CHANGES;
            let options = TextOptions { messages_are_changes, ..TextOptions::default() };
            for work_mem in [64 << 10, 64 << 20] {
                for layout in 0..LAYOUTS {
                    let (ours, stats) = run.decode(layout, work_mem, Eviction::AtLimit, options)?;
                    compare(&ours, &theirs)?;
                    spills += stats.spill_count;
                }
            }
            lines += theirs.len();
            chunks += run.log.records.iter().filter(|record| is_chunk(record)).count();
        }
        ensure!(lines > 1000 && chunks > 1000 && spills > 10, "{lines}, {chunks}, {spills}");
        let major = installation.major();
        report::count(SAME_TEXT, format_args!("{major}: {lines} lines, {chunks} chunks"));
        Ok(())
    })
}

/// Which transaction is streamed, when, and how much of it: at the limit, which takes the same sizes accounted
/// for, and at once. Nothing is undone here: the server decodes afterwards, and stops streaming what it then
/// knows to be aborted, at a point that depends on its caches.
#[test]
fn transactions_that_are_not_over_are_streamed_as_a_server_streams_them() -> Result<()> {
    Survey::on_every_server(STREAMS, |installation| {
        let major = installation.major();
        if major < FIRST_WITH_IMMEDIATE_STREAMING {
            report::skip(STREAMS, format_args!("PostgreSQL {major} does not stream at once"));
            return Ok(());
        }
        let server = Server::start(installation, &server_options())?;
        let (mut blocks, mut lines) = (0, 0);
        for seed in 10..10 + SEEDS - 1 {
            let mut run = Run::prepare(&server, seed)?;
            run.play(&mut Rng::new(seed), STEPS, Mix::LongTransactions)?;
            run.compare_lengths()?;
            run.client.batch_execute("SET logical_decoding_work_mem = '64kB'")?;
            let evictions = [(Eviction::AtLimit, "buffered"), (Eviction::Immediate, "immediate")];
            for (eviction, setting) in evictions {
                let sql = format!("SET debug_logical_replication_streaming = '{setting}'");
                run.client.batch_execute(&sql)?;
                let theirs = run.lines_of_server(&["stream-changes", "1"])?;
                let messages_are_changes = major >= FIRST_WITH_MESSAGES_AS_CHANGES;
                let options = TextOptions {
                    messages_are_changes,
                    stream_changes: true,
                    ..TextOptions::default()
                };
                for layout in 0..LAYOUTS {
                    let (ours, stats) = run.decode(layout, 64 << 10, eviction, options)?;
                    compare(&ours, &theirs).with_context(|| format!("{eviction:?}"))?;
                    blocks += stats.stream_count;
                    lines += ours.len();
                }
            }
            run.drop_slot()?;
        }
        ensure!(blocks > 50, "{blocks} blocks");
        report::count(STREAMS, format_args!("{major}: {lines} lines, {blocks} blocks"));
        Ok(())
    })
}

const FIRST_WITH_IMMEDIATE_STREAMING: u32 = 16;
const FIRST_WITH_MESSAGES_AS_CHANGES: u32 = 17;

fn server_options() -> ServerOptions {
    ServerOptions::new()
        .set("wal_level", "logical")
        .set("max_replication_slots", "4")
        .set("max_wal_senders", "4")
}

fn is_chunk(record: &log::OwnedRecord) -> bool {
    use pgtoast_reorder::InsertFlags;
    matches!(&record.action, log::OwnedAction::Insert { flags, .. } if flags.contains(InsertFlags::ON_TOAST_RELATION))
}

/// What a server says of the types that are built in.
fn compare_types(client: &mut Client) -> Result<()> {
    for kind in KINDS {
        let builtin = kind.builtin;
        let sql = "SELECT format_type(oid, NULL), typlen, typbyval, typalign::text, typstorage::text \
                   FROM pg_type WHERE oid = $1";
        let row = client.query_one(sql, &[&builtin.id.get()])?;
        let (name, len, align, storage): (String, i16, String, String) =
            (row.get(0), row.get(1), row.get(3), row.get(4));
        let attribute = pgtoast_page::AttributeDescriptor::from_catalog(
            len,
            row.get(2),
            align.as_bytes()[0],
            storage.as_bytes()[0],
        )?;
        ensure!(name == builtin.name, "{name}, {}", builtin.name);
        ensure!(attribute == builtin.attribute, "{name}: {attribute:?}");
    }
    Ok(())
}

/// Sessions with tables of their own, and the log that they write.
struct Run {
    client: Client,
    sessions: Vec<Session>,
    log: Log,
    slot: String,
}

impl Run {
    fn prepare(server: &Server, seed: u64) -> Result<Self> {
        let mut client = server.client()?;
        client.batch_execute(
            "DROP SCHEMA IF EXISTS public, \"Mixed Case\" CASCADE; CREATE SCHEMA public; \
             CREATE SCHEMA \"Mixed Case\"; \
             CREATE DOMAIN small_int AS int4; CREATE DOMAIN long_text AS text;",
        )?;
        let mut tables = tables(seed).into_iter();
        let mut sessions = Vec::new();
        while let Some(table) = tables.next() {
            let tables: Vec<_> = [table].into_iter().chain(tables.next()).collect();
            for table in &tables {
                client.batch_execute(&table.create_sql())?;
            }
            sessions.push(Session::new(server.client()?, tables));
        }
        let slot = format!("slot_{seed}");
        let sql = "SELECT pg_create_logical_replication_slot($1, 'test_decoding')::text";
        client.query_one(sql, &[&slot])?;
        Ok(Self { client, sessions, log: Log::new(), slot })
    }

    fn play(&mut self, rng: &mut Rng, steps: usize, mix: Mix) -> Result<()> {
        for _ in 0..steps {
            let session = rng.below(self.sessions.len());
            self.sessions[session].step(rng, &mut self.log, mix)?;
        }
        for session in &mut self.sessions {
            session.commit(&mut self.log)?;
        }
        Ok(())
    }

    /// Rows are stored in as many bytes as the model says, so that as many are accounted for.
    fn compare_lengths(&mut self) -> Result<()> {
        self.client.batch_execute("CREATE EXTENSION IF NOT EXISTS pageinspect")?;
        for table in self.sessions.iter().flat_map(|session| &session.tables) {
            let (name, id) = (table.sql_name(), &table.columns[0].name);
            let sql = format!(
                "SELECT \"{id}\", lp_len::int4 FROM {name} AS t, \
                 LATERAL heap_page_items(get_raw_page('{name}', (t.ctid::text::point)[0]::int4)) \
                 WHERE lp = (t.ctid::text::point)[1]::int4 ORDER BY 1"
            );
            let theirs: Vec<(i32, i32)> =
                self.client.query(&sql, &[])?.iter().map(|row| (row.get(0), row.get(1))).collect();
            let ours = table.lengths()?;
            for (ours, theirs) in ours.iter().zip(&theirs) {
                ensure!(ours == theirs, "{name}: {ours:?}, {theirs:?}");
            }
            ensure!(ours.len() == theirs.len(), "{name}");
        }
        Ok(())
    }

    /// What the server decodes.
    fn lines_of_server(&mut self, options: &[&str]) -> Result<Vec<String>> {
        let mut all = vec!["include-xids", "0", "skip-empty-xacts", "1"];
        all.extend(options);
        let sql = "SELECT data FROM pg_logical_slot_peek_changes($1, NULL, NULL, VARIADIC $2)";
        let rows = self.client.query(sql, &[&self.slot, &all])?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    fn drop_slot(&mut self) -> Result<()> {
        self.client.execute("SELECT pg_drop_replication_slot($1)", &[&self.slot])?;
        Ok(())
    }

    fn decode(
        &self,
        layout: usize,
        work_mem: usize,
        eviction: Eviction,
        text: TextOptions,
    ) -> Result<(Vec<String>, ReorderStats)> {
        let options = Options { work_mem, eviction, drops_aborted: true };
        match layout {
            0 => self.decode_in(CohortPages::new()?, options, text),
            1 => self.decode_in(BumpPerTransaction::new(BlockSizes::DEFAULT), options, text),
            _ => self.decode_in(SharedGeneration::new(BlockSizes::fixed(8 << 10))?, options, text),
        }
    }

    fn decode_in<L: Layout>(
        &self,
        layout: L,
        options: Options,
        text: TextOptions,
    ) -> Result<(Vec<String>, ReorderStats)> {
        let mut relations = Vec::new();
        for table in self.sessions.iter().flat_map(|session| &session.tables) {
            relations.extend(table.relations()?);
        }
        let catalog = RelationMap::new(relations);
        let mut lines = Vec::new();
        let mut output = TextOutput::new(text, |line: &str| lines.push(line.to_owned()));
        let mut buffer = ReorderBuffer::new(layout, MemorySpill::new(), options);
        let records = self.log.records.iter().map(log::OwnedRecord::record);
        buffer.decode(records, &catalog, &mut output)?;
        let stats = buffer.stats();
        ensure!(stats.accounted_bytes == 0 && stats.open_transactions == 0, "{stats:?}");
        Ok((lines, stats))
    }
}

/// Tables of all shapes and identities; each session gets two.
fn tables(seed: u64) -> Vec<Table> {
    let id = || declared("id", INT4);
    let external = |name| Declared { is_external: true, ..declared(name, BYTEA) };
    let all = |number: u32| {
        let kinds = KINDS.iter().enumerate();
        let mut columns = vec![id()];
        columns.extend(kinds.map(|(at, kind)| declared(&format!("c{at}"), *kind)));
        let identity =
            if seed.is_multiple_of(2) { ReplicaIdentity::Full } else { ReplicaIdentity::Default };
        let key = if seed.is_multiple_of(2) { vec![] } else { vec![0] };
        Table::new(number, "public", "all_kinds", columns, identity, key)
    };
    let (full, index) = (ReplicaIdentity::Full, ReplicaIdentity::Index);
    let (default, nothing) = (ReplicaIdentity::Default, ReplicaIdentity::Nothing);
    let new = |number, schema, name, columns, identity, key| {
        Table::new(number, schema, name, columns, identity, key)
    };
    vec![
        new(0, "public", "plain", vec![id(), declared("note", TEXT)], default, vec![0]),
        all(1),
        new(
            2,
            "Mixed Case",
            "user",
            vec![id(), dropped("gone"), external("b"), declared("Text", LONG_TEXT)],
            full,
            vec![],
        ),
        new(3, "public", "no key", vec![id(), declared("c", INT4_ARRAY)], default, vec![]),
        new(
            4,
            "public",
            "by_index",
            vec![id(), declared("code", INT4), external("b"), declared("note", TEXT)],
            index,
            vec![1],
        ),
        new(5, "public", "nothing", vec![id(), external("b")], nothing, vec![]),
    ]
}

fn compare(ours: &[String], theirs: &[String]) -> Result<()> {
    for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        if ours != theirs {
            let differ = ours.bytes().zip(theirs.bytes()).position(|(a, b)| a != b);
            let from = differ.unwrap_or(0).saturating_sub(60);
            let cut = |text: &str| text.chars().skip(from).take(200).collect::<String>();
            ensure!(false, "line {at}, byte {differ:?}:\n  {}\n  {}", cut(ours), cut(theirs));
        }
    }
    ensure!(ours.len() == theirs.len(), "{} lines, {} of the server", ours.len(), theirs.len());
    Ok(())
}
