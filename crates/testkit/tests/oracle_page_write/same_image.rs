//! The server is told what to do, we do the same to pages of our own, and every page comes out equal:
//! header, line pointers, and tuples with their transaction ids. Not compared are log position and
//! checksum, and bytes in no use: the hole, and the padding of items that were moved into it.
//!
//! Statements find their rows by `ctid`, because a scan may prune pages at moments of its own choice.
use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber, Xid, maxalign};
use pgtoast_page::{
    AttributeDescriptor, Infomask, LineState, Page, PageFlags, PageMut, RowUpdate,
    TrailingPointers, TupleDescriptor, TupleHeader, Value,
};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Rng, Server, ServerOptions, Survey, hex, inspect, report};

const TEST: &str = "after_the_same_changes_our_pages_equal_the_servers";
const SIZE: BlockSize = BlockSize::KIB_8;
const TABLES: u64 = 40;
const ROUNDS: usize = 6;

#[test]
fn after_the_same_changes_our_pages_equal_the_servers() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        client.batch_execute("CREATE EXTENSION pageinspect; SET enable_seqscan = off")?;
        let mut counts = Counts::default();
        for seed in 0..TABLES {
            let mut run = Run::new(&mut client, server.major(), seed)?;
            for round in 0..ROUNDS {
                let what = || format!("table {seed} round {round}");
                run.round(&mut counts).with_context(what)?;
            }
        }
        counts.assert_enough();
        report::count(TEST, format_args!("{}: {}", server.major(), counts.text()));
        Ok(())
    })
}

#[derive(Default)]
struct Counts {
    inserted: usize,
    reused: usize,
    updated: usize,
    deleted: usize,
    redirects: usize,
    pages: usize,
    holes: usize,
}

impl Counts {
    fn assert_enough(&self) {
        let Self { inserted, reused, updated, deleted, redirects, pages, .. } = *self;
        assert!(
            inserted > 1000 && reused > 200 && updated > 200 && deleted > 500,
            "{}",
            self.text()
        );
        assert!(redirects > 50 && pages > 500, "{}", self.text());
    }

    fn text(&self) -> String {
        let Self { inserted, reused, updated, deleted, redirects, pages, holes } = self;
        format!(
            "{pages} pages equal after {inserted} inserts, {reused} of them into old line pointers, \
             {updated} updates, {deleted} deletes, {redirects} redirects; {holes} equal in the hole too"
        )
    }
}

/// A type, and a value of it: as SQL writes it and as it is stored.
type Kind = (&'static str, fn(&mut Rng) -> (String, Vec<u8>));

const KINDS: [Kind; 14] = [
    ("int2", |rng| {
        let number = i16::from_le_bytes([byte(rng), byte(rng)]);
        (number.to_string(), number.to_le_bytes().into())
    }),
    ("int4", |rng| {
        let number = i32::from_le_bytes([byte(rng), 0, byte(rng), byte(rng)]);
        (number.to_string(), number.to_le_bytes().into())
    }),
    ("int8", |rng| {
        let number = rng.next_u64().cast_signed() >> 1;
        (number.to_string(), number.to_le_bytes().into())
    }),
    ("bool", |rng| {
        let yes = rng.chance(50);
        (yes.to_string(), vec![yes.into()])
    }),
    ("\"char\"", |rng| {
        let letter = letters(rng, 1);
        (letter.clone(), letter.into())
    }),
    ("float8", |rng| {
        let number = f64::from(byte(rng)) / 8.0;
        (number.to_string(), number.to_le_bytes().into())
    }),
    ("uuid", |rng| {
        let bytes = rng.bytes(16);
        (hex::encode(&bytes), bytes)
    }),
    ("macaddr", |rng| {
        let bytes = rng.bytes(6);
        (hex::encode(&bytes), bytes)
    }),
    ("name", |rng| {
        let text = some_letters(rng, 60);
        let mut bytes = text.clone().into_bytes();
        bytes.resize(64, 0);
        (text, bytes)
    }),
    ("point", |rng| {
        let (x, y) = (f64::from(byte(rng)), f64::from(byte(rng)) / 2.0);
        (format!("({x},{y})"), [x.to_le_bytes(), y.to_le_bytes()].concat())
    }),
    ("text", |rng| {
        let len = len(rng);
        let text = letters(rng, len);
        (text.clone(), long(text.as_bytes()))
    }),
    ("bytea", |rng| {
        let len = len(rng);
        let bytes = rng.bytes(len);
        (format!("\\x{}", hex::encode(&bytes)), long(&bytes))
    }),
    ("char(20)", |rng| {
        let text = some_letters(rng, 20);
        let padded = format!("{text:20}");
        (text, long(padded.as_bytes()))
    }),
    // An array of numbers that are aligned to 8: dimensions, no nulls, type int8, count, lower bound.
    ("int8[]", |rng| {
        let numbers: Vec<i64> = (0..rng.between(1, 20)).map(|_| byte(rng).into()).collect();
        let count = i32::try_from(numbers.len()).expect("20 at most");
        let head = [1, 0, 20, count, 1].map(i32::to_le_bytes).concat();
        let words: Vec<_> = numbers.iter().map(i64::to_string).collect();
        let data: Vec<_> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        (format!("{{{}}}", words.join(",")), long(&[head, data].concat()))
    }),
];

fn byte(rng: &mut Rng) -> u8 {
    rng.next_u64().to_le_bytes()[0]
}

fn letters(rng: &mut Rng, len: usize) -> String {
    (0..len).map(|_| char::from(b'a' + byte(rng) % 26)).collect()
}

fn some_letters(rng: &mut Rng, longest: usize) -> String {
    let len = rng.below(longest + 1);
    letters(rng, len)
}

/// Around the longest payload of a short header, and elsewhere.
fn len(rng: &mut Rng) -> usize {
    match rng.below(3) {
        0 => rng.between(124, 129),
        1 => rng.below(20),
        _ => rng.below(280),
    }
}

/// A varlena as a function returns it: with a header of four bytes, which forming may shorten.
fn long(payload: &[u8]) -> Vec<u8> {
    let word = u32::try_from((payload.len() + 4) << 2).expect("a short payload");
    [&word.to_le_bytes(), payload].concat()
}

/// A value, as SQL writes it and as it is stored; `None` for null.
type Cell = Option<(String, Vec<u8>)>;

/// The versions of a row that one line pointer leads to, the last of which lives.
struct Chain {
    versions: Vec<ItemPointer>,
    cells: Vec<Cell>,
}

/// One table of the server's and its image of ours.
struct Run<'a> {
    client: &'a mut Client,
    rng: Rng,
    table: String,
    kinds: Vec<Kind>,
    columns: Vec<AttributeDescriptor<'static>>,
    indexed: bool,
    major: u32,
    pages: Vec<Vec<u8>>,
    live: Vec<Chain>,
    dead: Vec<Vec<ItemPointer>>,
}

impl<'a> Run<'a> {
    fn new(client: &'a mut Client, major: u32, seed: u64) -> Result<Self> {
        let mut rng = Rng::new(seed);
        let table = format!("t{seed}");
        // The index is on the first column, and updates change the last.
        let kinds: Vec<_> = [KINDS[1]]
            .into_iter()
            .chain((0..rng.between(1, 9)).map(|_| rng.pick(&KINDS)))
            .collect();
        let definitions: Vec<_> =
            kinds.iter().zip(1..).map(|((sql, _), number)| format!("c{number} {sql}")).collect();
        client.batch_execute(&format!("CREATE TABLE {table} ({})", definitions.join(", ")))?;
        let indexed = rng.chance(50);
        if indexed {
            client.batch_execute(&format!("CREATE INDEX ON {table} (c1)"))?;
        }
        for (number, (sql, _)) in (1..).zip(&kinds) {
            if matches!(*sql, "text" | "bytea") && rng.chance(50) {
                let storage = rng.pick(&["EXTERNAL", "MAIN"]);
                let sql = format!("ALTER TABLE {table} ALTER c{number} SET STORAGE {storage}");
                client.batch_execute(&sql)?;
            }
        }
        let columns = crate::columns(client, &table)?;
        let (pages, live, dead) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { client, rng, table, kinds, columns, indexed, major, pages, live, dead })
    }

    fn round(&mut self, counts: &mut Counts) -> Result<()> {
        for _ in 0..self.rng.between(1, 3) {
            match self.rng.below(4) {
                0 => self.delete(counts)?,
                1 => self.update(counts)?,
                _ => self.insert(counts)?,
            }
        }
        self.compare(Infomask::XMIN_COMMITTED | Infomask::XMAX_COMMITTED, counts)?;
        self.vacuum(counts)?;
        self.compare(Infomask::empty(), counts)
    }

    fn cell(&mut self, column: usize) -> Cell {
        let nulls = self.rng.pick(&[0, 10, 30]);
        let null = column > 0 && self.rng.chance(nulls);
        (!null).then(|| (self.kinds[column].1)(&mut self.rng))
    }

    fn insert(&mut self, counts: &mut Counts) -> Result<()> {
        let count = self.rng.between(5, 45);
        let rows: Vec<Vec<Cell>> = (0..count)
            .map(|_| (0..self.kinds.len()).map(|column| self.cell(column)).collect())
            .collect();
        let literals: Vec<_> = rows
            .iter()
            .map(|cells| cells.iter().map(literal).collect::<Vec<_>>().join(", "))
            .map(|row| format!("({row})"))
            .collect();
        let sql = format!(
            "INSERT INTO {} VALUES {} RETURNING ctid::text, pg_current_xact_id()::text",
            self.table,
            literals.join(", ")
        );
        let returned = self.client.query(&sql, &[])?;
        ensure!(returned.len() == count, "{} rows", returned.len());
        for (cells, row) in rows.into_iter().zip(&returned) {
            let (tid, xid) = (tid(row.get(0))?, Xid::new(row.get::<_, &str>(1).parse()?));
            let old_count = self.page(tid.block)?.page().item_count();
            self.add(tid, &cells, |header| header.set_inserted(xid, 0))?;
            counts.inserted += 1;
            counts.reused += usize::from(tid.item.get() <= old_count);
            self.live.push(Chain { versions: vec![tid], cells });
        }
        Ok(())
    }

    /// Adds a tuple, and it has to land where the server's did.
    fn add(
        &mut self,
        tid: ItemPointer,
        cells: &[Cell],
        stamp: impl FnOnce(&mut TupleHeader),
    ) -> Result<()> {
        let values: Vec<_> = cells.iter().map(value).collect();
        let mut buffer = [0x99; 4096];
        let mut tuple = TupleDescriptor::new(&self.columns)?.form(&values, &mut buffer)?;
        stamp(tuple.header_mut());
        let tuple = tuple.into_bytes();
        let mut page = self.page(tid.block)?;
        let free = usize::from(page.page().heap_free_bytes());
        ensure!(maxalign(tuple.len()) <= free, "the server found room beyond {free}");
        ensure!(page.insert_tuple(tid.block, tuple)? == tid, "ours is elsewhere than {tid}");
        Ok(())
    }

    fn update(&mut self, counts: &mut Counts) -> Result<()> {
        let last = self.kinds.len() - 1;
        for _ in 0..self.rng.between(1, 12).min(self.live.len()) {
            let index = self.rng.below(self.live.len());
            let cell = self.cell(last);
            let old = *self.live[index].versions.last().context("a version")?;
            let sql = format!(
                "UPDATE {} SET c{} = {} WHERE ctid = '{old}' \
                 RETURNING ctid::text, pg_current_xact_id()::text",
                self.table,
                last + 1,
                literal(&cell)
            );
            let row = self.client.query_one(&sql, &[])?;
            let (new, xid) = (tid(row.get(0))?, Xid::new(row.get::<_, &str>(1).parse()?));
            let mut cells = std::mem::take(&mut self.live[index].cells);
            cells[last] = cell;
            let same_page = new.block == old.block;
            // Release 14 does not try on a page that was found full before.
            let was_full = self.page(old.block)?.page().header().flags();
            let was_full = was_full.contains(PageFlags::PAGE_FULL);
            let is_hot = same_page && !(was_full && self.major <= 14);
            let update = if is_hot { RowUpdate::Hot } else { RowUpdate::SameKey };
            self.add(new, &cells, |header| header.set_inserted_by_update(xid, 0, update))?;
            let mut page = self.page(old.block)?;
            page.update_tuple(old.item, xid, 0, new, update)?;
            if !same_page {
                page.set_flags(PageFlags::PAGE_FULL, true);
            }
            let versions = &mut self.live[index].versions;
            if !is_hot {
                self.dead.push(std::mem::take(versions));
            }
            versions.push(new);
            self.live[index].cells = cells;
            counts.updated += 1;
        }
        Ok(())
    }

    fn delete(&mut self, counts: &mut Counts) -> Result<()> {
        let share = self.rng.pick(&[10, 40, 80, 100]);
        let mut tids = Vec::new();
        for index in (0..self.live.len()).rev() {
            if self.rng.chance(share) {
                let versions = self.live.swap_remove(index).versions;
                tids.push(*versions.last().context("a version")?);
                self.dead.push(versions);
            }
        }
        let list: Vec<_> = tids.iter().map(|tid| format!("\"{tid}\"")).collect();
        let sql = format!(
            "DELETE FROM {} WHERE ctid = ANY ('{{{}}}'::tid[]) RETURNING pg_current_xact_id()::text",
            self.table,
            list.join(",")
        );
        let returned = self.client.query(&sql, &[])?;
        ensure!(returned.len() == tids.len(), "{} of {} deleted", returned.len(), tids.len());
        for (tid, row) in tids.iter().zip(&returned) {
            let xid = Xid::new(row.get::<_, &str>(0).parse()?);
            self.page(tid.block)?.delete_tuple(*tid, xid, 0)?;
            counts.deleted += 1;
        }
        Ok(())
    }

    fn vacuum(&mut self, counts: &mut Counts) -> Result<()> {
        let sql = format!("VACUUM (FREEZE, INDEX_CLEANUP ON, TRUNCATE OFF) {}", self.table);
        self.client.batch_execute(&sql)?;
        let dead = std::mem::take(&mut self.dead);
        let mut chains: Vec<Vec<ItemPointer>> = Vec::new();
        for chain in &mut self.live {
            chains.push(chain.versions.clone());
            // What is left of a chain: a root, and the version it is redirected to.
            if let [root, .., last] = chain.versions[..] {
                chain.versions = vec![root, last];
            }
        }
        for (number, page) in (0..).map(BlockNumber::new).zip(&mut self.pages) {
            if page.iter().all(|byte| *byte == 0) {
                continue; // the server leaves pages new that nobody has used
            }
            let mut page = PageMut::open(page, SIZE)?;
            let here =
                |chain: &&Vec<ItemPointer>| chain.first().is_some_and(|tid| tid.block == number);
            let has_dead = prune(
                &mut page,
                dead.iter().filter(here),
                chains.iter().filter(here),
                self.major,
                self.indexed,
            )?;
            if has_dead {
                second_pass(&mut page)?;
            }
            finish(&mut page)?;
            let pointers = page.page().line_pointers().iter();
            counts.redirects +=
                pointers.filter(|pointer| pointer.state() == LineState::Redirect).count();
        }
        Ok(())
    }

    /// The page of a block, made when the server first uses it.
    fn page(&mut self, block: BlockNumber) -> Result<PageMut<'_>> {
        let index = usize::try_from(block.get())?;
        if index >= self.pages.len() {
            self.pages.resize(index + 1, vec![0; SIZE.bytes()]);
        }
        let bytes = &mut self.pages[index];
        Ok(if Page::new(bytes, SIZE)?.is_new() {
            PageMut::init(bytes, SIZE, 0)?
        } else {
            PageMut::open(bytes, SIZE)?
        })
    }

    /// Every page equals the server's, but for what is said at the top; `hints` are set when
    /// something happens to look at a tuple, and not compared.
    fn compare(&mut self, hints: Infomask, counts: &mut Counts) -> Result<()> {
        let sql = format!("SELECT (pg_relation_size('{}') / {})::int4", self.table, SIZE.bytes());
        let count: i32 = self.client.query_one(&sql, &[])?.get(0);
        let count = usize::try_from(count)?;
        ensure!(count >= self.pages.len(), "{count} pages");
        for number in 0..count {
            let mut theirs = inspect::raw_page(self.client, &self.table, u32::try_from(number)?)?;
            let Some(ours) = self.pages.get(number) else {
                ensure!(theirs.iter().all(|byte| *byte == 0), "block {number} is in use");
                continue;
            };
            let mut ours = ours.clone();
            let hole = Page::new(&ours, SIZE)?.header().lower().into()
                ..usize::from(Page::new(&ours, SIZE)?.header().upper());
            counts.holes += usize::from(ours[hole.clone()] == theirs[hole.clone()]);
            let pointers = Page::new(&ours, SIZE)?.line_pointers().to_vec();
            for bytes in [&mut ours, &mut theirs] {
                bytes[..10].fill(0); // log position and checksum
                bytes[hole.clone()].fill(0);
                let stored = pointers.iter().filter(|one| one.state() == LineState::Normal);
                for pointer in stored {
                    let start = usize::from(pointer.offset());
                    let end = start + usize::from(pointer.len());
                    bytes[end..maxalign(end)].fill(0); // what was in the hole before
                    let infomask = &mut bytes[start + 20..start + 22];
                    let word = u16::from_le_bytes([infomask[0], infomask[1]]) & !hints.bits();
                    infomask.copy_from_slice(&word.to_le_bytes());
                }
            }
            if let Some(at) = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs) {
                let (ours, theirs) =
                    (hex::encode(&ours[at..at + 8]), hex::encode(&theirs[at..at + 8]));
                let pointers = pointers.iter().zip(1..).find(|(pointer, _)| {
                    let start = usize::from(pointer.offset());
                    (start..start + usize::from(pointer.len())).contains(&at)
                });
                anyhow::bail!(
                    "block {number} byte {at}: {ours}, the server's {theirs}; {pointers:?}"
                );
            }
            counts.pages += 1;
        }
        Ok(())
    }
}

/// Vacuum's first pass over a page: dead tuples go, chains are cut short. Says whether indexes, or
/// what stands for them, have something to forget.
fn prune<'a>(
    page: &mut PageMut<'_>,
    dead: impl Iterator<Item = &'a Vec<ItemPointer>>,
    live: impl Iterator<Item = &'a Vec<ItemPointer>>,
    major: u32,
    indexed: bool,
) -> Result<bool> {
    // Without indexes nothing names a dead item, and 17 and later give it up at once.
    let at_once = !indexed && major >= 17;
    let (mut changed, mut has_dead) = (false, false);
    for chain in dead {
        let (root, members) = chain.split_first().context("a chain")?;
        if at_once {
            page.set_unused(root.item)?;
        } else {
            page.set_dead(root.item)?;
            has_dead = true;
        }
        members.iter().try_for_each(|tid| page.set_unused(tid.item))?;
        changed = true;
    }
    for chain in live {
        let [root, between @ .., last] = &chain[..] else { continue };
        let redirected = page.page().line_pointer(root.item).map(|one| one.state());
        if between.is_empty() && redirected == Some(LineState::Redirect) {
            continue;
        }
        page.redirect(root.item, last.item)?;
        between.iter().try_for_each(|tid| page.set_unused(tid.item))?;
        changed = true;
    }
    if changed {
        page.compact(if major >= 15 { TrailingPointers::Drop } else { TrailingPointers::Keep })?;
    }
    Ok(has_dead)
}

/// Vacuum's second pass over a page: what indexes have forgotten becomes free for use.
fn second_pass(page: &mut PageMut<'_>) -> Result<()> {
    for item in items_in(page, LineState::Dead) {
        page.set_unused(item)?;
    }
    Ok(page.truncate_line_pointers()?)
}

/// Everything that is left is visible to everyone, for ever.
fn finish(page: &mut PageMut<'_>) -> Result<()> {
    for item in items_in(page, LineState::Normal) {
        page.tuple_mut(item)?.header_mut().set_frozen();
    }
    page.set_prune_xid(Xid::INVALID);
    page.set_flags(PageFlags::PAGE_FULL, false);
    page.set_flags(PageFlags::ALL_VISIBLE, true);
    Ok(())
}

fn items_in(page: &PageMut<'_>, state: LineState) -> Vec<OffsetNumber> {
    let items = page.page().items().filter(|(_, pointer)| pointer.state() == state);
    items.map(|(item, _)| item).collect()
}

fn literal(cell: &Cell) -> String {
    cell.as_ref().map_or("NULL".to_owned(), |(text, _)| format!("'{text}'"))
}

fn value(cell: &Cell) -> Value<'_> {
    cell.as_ref().map_or(Value::Null, |(_, bytes)| Value::stored(bytes))
}

fn tid(text: &str) -> Result<ItemPointer> {
    let (block, item) = inspect::tid(text)?;
    Ok(ItemPointer::new(BlockNumber::new(block), OffsetNumber::new(item)))
}

const _: () = assert!(TupleHeader::LEN == 23, "the flag word is at byte 20 of a tuple");
