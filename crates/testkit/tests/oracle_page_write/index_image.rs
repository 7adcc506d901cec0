//! Index pages that a server changed, one statement at a time: what it did to a page is told from the page
//! before and after, we do that to the page before, and it has to become the page after.
//!
//! ```text
//! items before    items after            what was done
//! a b c           a b x c                an item was added at its place
//! a b c           a b(dead) c            an item was marked dead
//! a b c d         a d                    items were deleted: one by one up to two, else all together
//! anything else                          the page was written anew: an empty page, and its items in order
//! ```
//! Header, line pointers and items have to be equal, and with them where each item lies. Not compared are log
//! position and checksum, and the hole. What an index keeps in its special space we take from the server.
use anyhow::{Context as _, Result, ensure};
use pgtoast_base::{BlockSize, OffsetNumber};
use pgtoast_page::{Item, Page, PageError, PageMut};
use pgtoast_testkit::postgres::Client;
use pgtoast_testkit::{Rng, Server, ServerOptions, Survey, hex, report};

const TEST: &str = "after_the_same_changes_our_index_pages_equal_the_servers";
const SIZE: BlockSize = BlockSize::KIB_8;
const ROUNDS: usize = 6;

#[test]
fn after_the_same_changes_our_index_pages_equal_the_servers() -> Result<()> {
    Survey::on_every_server(TEST, |installation| {
        let server = Server::start(installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        client.batch_execute("CREATE EXTENSION pageinspect; SET enable_seqscan = off")?;
        client.batch_execute("SET enable_bitmapscan = off")?;
        let mut counts = Counts::default();
        for (number, index) in INDEXES.iter().enumerate() {
            let mut run = Run::new(&mut client, *index, number)?;
            for round in 0..ROUNDS {
                let what = || format!("{} round {round}", index.definition);
                run.round(&mut counts).with_context(what)?;
            }
        }
        counts.assert_enough();
        report::count(TEST, format_args!("{}: {}", server.major(), counts.text()));
        Ok(())
    })
}

/// A type of keys, and an index on them.
#[derive(Clone, Copy)]
struct Index {
    key_type: &'static str,
    definition: &'static str,
    /// The first page whose items are items.
    first_block: u32,
    /// What has to be true of a `page`, in SQL, for its items to be looked at.
    has_items: &'static str,
    key: fn(&mut Rng) -> String,
}

/// No two keys of a table are equal, as a rule; where they are, a B-tree is told not to put them together.
const INDEXES: [Index; 5] = [
    Index {
        key_type: "int4",
        definition: "USING btree (k)",
        first_block: 1,
        has_items: "true",
        key: |rng| rng.below(1 << 30).to_string(),
    },
    Index {
        key_type: "text",
        definition: "USING btree (k) WITH (deduplicate_items = off)",
        first_block: 1,
        has_items: "true",
        key: text,
    },
    Index {
        key_type: "text",
        definition: "USING btree (k, length(k)) WITH (deduplicate_items = off, fillfactor = 50)",
        first_block: 1,
        has_items: "true",
        key: text,
    },
    Index {
        key_type: "text",
        definition: "USING hash (k)",
        first_block: 1,
        has_items: "hash_page_type(page) IN ('bucket', 'overflow')",
        key: text,
    },
    Index {
        key_type: "int4range",
        definition: "USING gist (k)",
        first_block: 0,
        has_items: "true",
        key: |rng| {
            let low = rng.below(1 << 20);
            format!("[{low},{})", low + rng.between(1, 1000))
        },
    },
];

fn text(rng: &mut Rng) -> String {
    let len = rng.between(1, 120);
    hex::encode(&rng.bytes(len))
}

#[derive(Debug, Default)]
struct Counts {
    added: usize,
    marked: usize,
    few_deleted: usize,
    many_deleted: usize,
    rebuilt: usize,
    otherwise: usize,
}

impl Counts {
    fn assert_enough(&self) {
        let Self { added, marked, few_deleted, many_deleted, rebuilt, .. } = *self;
        assert!(added > 1000 && marked > 50 && rebuilt > 10, "{}", self.text());
        assert!(few_deleted > 20 && many_deleted > 50, "{}", self.text());
    }

    fn text(&self) -> String {
        let Self { added, marked, few_deleted, many_deleted, rebuilt, otherwise } = self;
        format!(
            "index pages equal after {added} items added, {marked} pages with items marked dead, \
             {few_deleted} with one or two deleted, {many_deleted} with more, {rebuilt} made from nothing; \
             {otherwise} changed in other ways"
        )
    }
}

struct Run<'c> {
    client: &'c mut Client,
    rng: Rng,
    index: Index,
    table: String,
    name: String,
    /// The server's pages as they were last, `None` for those without items.
    pages: Vec<Option<Vec<u8>>>,
    keys: Vec<String>,
}

impl<'c> Run<'c> {
    fn new(client: &'c mut Client, index: Index, number: usize) -> Result<Self> {
        let (table, name) = (format!("i{number}"), format!("i{number}_k"));
        let Index { key_type, definition, .. } = index;
        client.batch_execute(&format!(
            "CREATE TABLE {table} (k {key_type}); CREATE INDEX {name} ON {table} {definition}"
        ))?;
        let rng = Rng::new(0x1d + u64::try_from(number)?);
        let mut run = Self { client, rng, index, table, name, pages: Vec::new(), keys: Vec::new() };
        run.pages = run.read()?;
        Ok(run)
    }

    fn round(&mut self, counts: &mut Counts) -> Result<()> {
        for _ in 0..self.rng.between(40, 90) {
            let key = (self.index.key)(&mut self.rng);
            self.client.batch_execute(&format!("INSERT INTO {} VALUES ('{key}')", self.table))?;
            self.keys.push(key);
            self.compare(counts).with_context(|| format!("an insert of {}", self.keys.len()))?;
        }
        for share in [1, 3, 10, 40] {
            let mut gone = Vec::new();
            for _ in 0..(self.keys.len() * share / 100).max(1) {
                gone.push(self.keys.swap_remove(self.rng.below(self.keys.len())));
            }
            let list = gone.iter().map(|key| format!("'{key}'")).collect::<Vec<_>>().join(", ");
            self.client
                .batch_execute(&format!("DELETE FROM {} WHERE k IN ({list})", self.table))?;
            // A scan that finds a row dead for everyone says so to the index.
            for key in gone.iter().take(20) {
                let sql = format!("SELECT count(*) FROM {} WHERE k = '{key}'", self.table);
                self.client.batch_execute(&sql)?;
            }
            self.compare(counts).context("scans that met dead rows")?;
            self.client.batch_execute(&format!("VACUUM (INDEX_CLEANUP ON) {}", self.table))?;
            self.compare(counts)
                .with_context(|| format!("a vacuum after {} deletes", gone.len()))?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<Option<Vec<u8>>>> {
        let Self { name, index: Index { first_block, has_items, .. }, .. } = self;
        let sql = format!(
            "SELECT CASE WHEN block >= {first_block} AND {has_items} THEN page END \
             FROM generate_series(0, pg_relation_size('{name}') / {} - 1) block, \
                  get_raw_page('{name}', block::int4) page \
             ORDER BY block",
            SIZE.bytes()
        );
        Ok(self.client.query(&sql, &[])?.iter().map(|row| row.get(0)).collect())
    }

    fn compare(&mut self, counts: &mut Counts) -> Result<()> {
        let now = self.read()?;
        let before = std::mem::replace(&mut self.pages, now);
        for (number, after) in self.pages.iter().enumerate() {
            let Some(after) = after else { continue };
            let before = before.get(number).and_then(Option::as_ref);
            if before == Some(after) {
                continue;
            }
            replay(before, after, counts).with_context(|| format!("block {number}"))?;
        }
        Ok(())
    }
}

/// An item's bytes, and whether it is marked dead.
type Stored = (Vec<u8>, bool);

fn items(bytes: &[u8]) -> Result<Vec<Stored>> {
    let page = Page::parse(bytes, SIZE)?;
    page.items()
        .map(|(number, _)| match page.item(number)? {
            Item::Normal(bytes) => Ok((bytes.to_vec(), false)),
            Item::Dead(bytes) => Ok((bytes.to_vec(), true)),
            other => anyhow::bail!("item {number} is {other:?}"),
        })
        .collect()
}

fn replay(before: Option<&Vec<u8>>, after: &[u8], counts: &mut Counts) -> Result<()> {
    let new = items(after)?;
    if let Some(before) = before {
        let old = items(before)?;
        if old == new {
            return is_equal(before, after).context("nothing was done");
        }
        if let Some(change) = Change::between(&old, &new) {
            let mut ours = before.clone();
            change.apply(&mut ours)?;
            match &change {
                Change::Added(..) => counts.added += 1,
                Change::Marked(_) => counts.marked += 1,
                Change::Deleted(items) if items.len() > 2 => counts.many_deleted += 1,
                Change::Deleted(_) => counts.few_deleted += 1,
            }
            return is_equal(&ours, after).with_context(|| format!("{change:?}"));
        }
    }
    let special_len = Page::parse(after, SIZE)?.special_space().len();
    let mut ours = vec![0x5a; SIZE.bytes()];
    let mut page = PageMut::init(&mut ours, SIZE, special_len)?;
    for ((bytes, _), number) in new.iter().zip(1..) {
        page.insert_item(OffsetNumber::new(number), bytes)?;
    }
    match is_equal(&ours, after) {
        Ok(()) => counts.rebuilt += 1,
        // Items changed in place, a bucket that was split: more than one call, in an order we do not know.
        Err(_) => counts.otherwise += 1,
    }
    Ok(())
}

/// What one call of the server's does to a page.
#[derive(Debug)]
enum Change {
    Added(OffsetNumber, Vec<u8>),
    Marked(Vec<OffsetNumber>),
    Deleted(Vec<OffsetNumber>),
}

impl Change {
    fn between(old: &[Stored], new: &[Stored]) -> Option<Self> {
        let number = |index: usize| u16::try_from(index + 1).map(OffsetNumber::new).ok();
        if new.len() == old.len() + 1 {
            let index = old.iter().zip(new).take_while(|(old, new)| old == new).count();
            let is_rest_equal = old[index..] == new[index + 1..];
            return is_rest_equal.then_some(Self::Added(number(index)?, new[index].0.clone()));
        }
        let same_bytes = old.iter().zip(new).all(|((old, _), (new, _))| old == new);
        if new.len() == old.len() && same_bytes {
            let marked = old.iter().zip(new).enumerate().filter(|(_, (old, new))| old.1 != new.1);
            return marked.map(|(index, _)| number(index)).collect::<Option<_>>().map(Self::Marked);
        }
        let (mut left, mut deleted) = (new.iter().peekable(), Vec::new());
        for (index, item) in old.iter().enumerate() {
            if left.next_if_eq(&item).is_none() {
                deleted.push(number(index)?);
            }
        }
        (left.next().is_none()).then_some(Self::Deleted(deleted))
    }

    fn apply(&self, bytes: &mut [u8]) -> Result<(), PageError> {
        let mut page = PageMut::open(bytes, SIZE)?;
        match self {
            Self::Added(item, bytes) => page.insert_item(*item, bytes),
            Self::Marked(items) => items.iter().try_for_each(|item| page.mark_item_dead(*item)),
            Self::Deleted(items) => page.delete_items(items),
        }
    }
}

/// Our page against the server's, with what an index keeps for itself taken from there.
fn is_equal(ours: &[u8], theirs: &[u8]) -> Result<()> {
    let (mut ours, mut theirs) = (ours.to_vec(), theirs.to_vec());
    let mut page = PageMut::open(&mut ours, SIZE)?;
    page.special_space_mut().copy_from_slice(Page::parse(&theirs, SIZE)?.special_space());
    for bytes in [&mut ours, &mut theirs] {
        let header = *Page::parse(bytes, SIZE)?.header();
        bytes[..10].fill(0); // log position and checksum
        bytes[header.lower().into()..header.upper().into()].fill(0);
    }
    if let Some(at) = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs) {
        let hex = |bytes: &[u8]| hex::encode(&bytes[at..(at + 8).min(SIZE.bytes())]);
        anyhow::bail!("byte {at}: {}, the server's {}", hex(&ours), hex(&theirs));
    }
    ensure!(ours == theirs, "pages of two lengths");
    Ok(())
}
