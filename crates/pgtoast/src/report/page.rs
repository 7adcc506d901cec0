//! One page: its header, its line pointers, its tuples and their attributes, or what an index or a map keeps in it.
use serde::Serialize;

use crate::base::{BlockNumber, BlockSize};
use crate::datadir::{Columns, Fork, Transactions};
use crate::fsm::{FsmPage, Geometry};
use crate::nbtree::NodeFlags;
use crate::page::{
    HeapTuple, Infomask, Item, LineState, Page, PageHeader, TupleDescriptor, VacuumState, Value,
};
use crate::toast::{column_compression, column_size, column_toast_chunk_id, raw_len};
use crate::varlena::Varlena;

use super::values::Form;

/// A page.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PageReport {
    /// The file, or the relation.
    pub file: String,
    /// The block.
    pub block: u32,
    /// What the page is by its special space and its fork.
    pub kind: PageKind,
    /// Where the log was when the page changed last.
    pub lsn: String,
    /// The checksum that the page carries; 0 if it was written without.
    pub checksum: u16,
    /// The checksum of its content; null for a new page, which has none.
    pub computed_checksum: Option<u16>,
    /// Its flags.
    pub flags: Vec<String>,
    /// Where its line pointers end, in bytes.
    pub lower: u16,
    /// Where its tuples begin.
    pub upper: u16,
    /// Where its special space begins.
    pub special: u16,
    /// How large it says it is.
    pub page_bytes: u16,
    /// The version of its layout.
    pub layout_version: u8,
    /// The oldest transaction whose tuples may be pruned; 0 for none.
    pub prune_xid: u32,
    /// Bytes between line pointers and tuples.
    pub free_bytes: u16,
    /// What is wrong with its structure.
    pub faults: Vec<String>,
    /// What its special space or its content says, for pages of indexes and maps.
    pub facts: Vec<Fact>,
    /// Its line pointers.
    pub items: Vec<ItemReport>,
}

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PageKind {
    /// Of a BRIN index.
    Brin,
    /// Of a B-tree.
    Btree,
    /// Of a free space map.
    FreeSpaceMap,
    /// Of a GIN index.
    Gin,
    /// Of a GiST index.
    Gist,
    /// Of a hash index.
    Hash,
    /// Of a table or a TOAST relation.
    Heap,
    /// Zeros, or a page without a header.
    New,
    /// Of a sequence.
    Sequence,
    /// Of an SP-GiST index.
    SpGist,
    /// With a special space of nobody that is known here.
    Unknown,
    /// Of a visibility map.
    VisibilityMap,
}

/// A name and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fact {
    /// The name.
    pub name: String,
    /// What it is.
    pub value: String,
}

/// A line pointer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ItemReport {
    /// Its number, from 1.
    pub item: u16,
    /// `unused`, `normal`, `redirect` or `dead`.
    pub state: String,
    /// Where its tuple starts, in bytes; of a redirect, the item that it leads to.
    pub offset: u16,
    /// How long its tuple is.
    pub len: u16,
    /// The tuple, on pages of heaps.
    pub tuple: Option<TupleReport>,
    /// The first bytes, on pages of indexes, in hexadecimal.
    pub bytes: Option<String>,
    /// What is wrong with it.
    pub fault: Option<String>,
}

/// A tuple.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TupleReport {
    /// Who inserted it.
    pub xmin: u32,
    /// Who deleted, updated or locked it; 0 for nobody.
    pub xmax: u32,
    /// Itself, or its next version.
    pub ctid: String,
    /// How many attributes it has.
    pub attribute_count: u16,
    /// Where its attributes begin, in bytes from its start.
    pub data_offset: u8,
    /// Its flags.
    pub flags: Vec<String>,
    /// What vacuum would make of it, if the transactions are known.
    pub state: Option<String>,
    /// Its attributes, if the columns are known.
    pub attributes: Vec<AttributeReport>,
}

/// An attribute.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AttributeReport {
    /// The column's name.
    pub column: String,
    /// `null`, `missing` for a row older than the column, `fixed`, or how its value is stored.
    pub form: String,
    /// Where it starts, in bytes from the start of the tuple.
    pub offset: Option<u32>,
    /// How many bytes the value has.
    pub raw_bytes: Option<u64>,
    /// How many it takes where it is stored.
    pub stored_bytes: Option<u64>,
    /// How it is compressed.
    pub method: Option<String>,
    /// Its id in the TOAST relation.
    pub value_id: Option<u64>,
    /// The id of that TOAST relation.
    pub toast_relation: Option<u32>,
    /// The first bytes as they are stored, in hexadecimal.
    pub bytes: Option<String>,
    /// What is wrong with it; then nothing is known of those behind it.
    pub fault: Option<String>,
}

/// What is known of a page besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct PageContext<'a> {
    /// The file, or the relation.
    pub file: &'a str,
    /// The block, counted through all segments: its number is part of the checksum.
    pub block: BlockNumber,
    /// The fork that it is of.
    pub fork: Fork,
    /// The columns of its table.
    pub columns: Option<&'a Columns>,
    /// What became of transactions.
    pub transactions: Option<&'a Transactions>,
}

/// How many bytes of a value or an item are shown.
const SHOWN_BYTES: usize = 16;

impl PageReport {
    /// Looks at a page's bytes. Whatever they are, there is a report.
    ///
    /// # Errors
    /// [`PageError`](crate::page::PageError) if there are not as many as a block has.
    pub fn of(
        bytes: &[u8],
        block_size: BlockSize,
        context: &PageContext<'_>,
    ) -> Result<Self, crate::page::PageError> {
        let page = Page::new(bytes, block_size)?;
        let header = page.header();
        let kind = kind_of(page, context.fork);
        let mut faults = Vec::new();
        if let Err(error) = page.verify() {
            faults.push(error.to_string());
        } else if matches!(kind, PageKind::Heap) {
            page.check_each(|error| faults.push(error.to_string()));
        }
        let checksum = header.checksum();
        let computed = (!page.is_new()).then(|| page.checksum(context.block));
        if let Some(computed) = computed.filter(|computed| checksum != 0 && checksum != *computed) {
            faults.push(format!("checksum {checksum:#06x}, expected {computed:#06x}"));
        }
        let has_items = !matches!(
            kind,
            PageKind::New | PageKind::FreeSpaceMap | PageKind::VisibilityMap | PageKind::Unknown
        ) && !is_metapage(page, kind);
        let items = if has_items { items_of(page, kind, context) } else { Vec::new() };
        Ok(Self {
            file: context.file.to_owned(),
            block: context.block.get(),
            kind,
            lsn: header.lsn().to_string(),
            checksum,
            computed_checksum: computed,
            flags: header.flags().iter_names().map(|(name, _)| name.to_owned()).collect(),
            lower: header.lower(),
            upper: header.upper(),
            special: header.special(),
            page_bytes: header.page_bytes(),
            layout_version: header.layout_version(),
            prune_xid: header.prune_xid().get(),
            free_bytes: page.free_bytes(),
            faults,
            facts: facts_of(page, kind),
            items,
        })
    }
}

/// What a page is, by what is at the end of its special space.
///
/// ```text
/// 16 bytes   B-tree: cycle id, at most 0xff7f | GiST: 0xff81 | hash: 0xff80, in the last two
///  8 bytes   SP-GiST: 0xff82 | BRIN: 0xf091 to 0xf093 | sequence: 0x1717 in the first four | GIN: flags
/// ```
/// Source: `nbtree.h`, `gist.h`, `hash.h`, `spgist_private.h`, `brin_page.h`, `ginblock.h`, `sequence.c` (REL_18).
fn kind_of(page: Page<'_>, fork: Fork) -> PageKind {
    if page.is_new() {
        return PageKind::New;
    }
    match fork {
        Fork::FreeSpaceMap => return PageKind::FreeSpaceMap,
        Fork::VisibilityMap => return PageKind::VisibilityMap,
        Fork::Main | Fork::Init => {}
    }
    let special = page.special_space();
    let last = special.last_chunk().map(|word| u16::from_le_bytes(*word));
    let first = special.first_chunk().map(|word| u32::from_le_bytes(*word));
    match (special.len(), last) {
        (0, _) => PageKind::Heap,
        (16, Some(0xff80)) => PageKind::Hash,
        (16, Some(0xff81)) => PageKind::Gist,
        (16, Some(..=0xff7f)) => PageKind::Btree,
        (8, Some(0xff82)) => PageKind::SpGist,
        (8, Some(0xf091..=0xf093)) => PageKind::Brin,
        (8, Some(0)) if first == Some(0x1717) => PageKind::Sequence,
        (8, Some(..=0x01ff)) => PageKind::Gin,
        _ => PageKind::Unknown,
    }
}

/// Metapages have their own content where others have line pointers.
fn is_metapage(page: Page<'_>, kind: PageKind) -> bool {
    let special = page.special_space();
    let half = |at: usize| {
        let bytes = special.get(at..)?.first_chunk()?;
        Some(u16::from_le_bytes(*bytes))
    };
    match kind {
        PageKind::Btree => half(12).is_some_and(|flags| flags & NodeFlags::META.bits() != 0),
        PageKind::Hash => {
            half(12).is_some_and(|flags| flags & 0x0f != 0x02 && flags & 0x0f != 0x01)
        }
        PageKind::Brin => half(6).is_some_and(|kind| kind != 0xf093),
        // 0x08 is the metapage; 0x01 without 0x02 are leaves of postings, which are no items either.
        PageKind::Gin => half(6).is_some_and(|flags| flags & 0x0b != 0x02 && flags & 0x09 != 0),
        PageKind::SpGist => half(0).is_some_and(|flags| flags & 0x01 != 0),
        _ => false,
    }
}

fn facts_of(page: Page<'_>, kind: PageKind) -> Vec<Fact> {
    let special = page.special_space();
    let word = |at: usize| {
        let bytes = special.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    };
    let half = |at: usize| {
        let bytes = special.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u16::from_le_bytes(*bytes))
    };
    let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
    let block =
        |number: u32| if number == u32::MAX { "none".to_owned() } else { number.to_string() };
    match kind {
        PageKind::Btree => {
            let flags = NodeFlags::from_bits_retain(half(12));
            let names: Vec<_> = flags.iter_names().map(|(name, _)| name).collect();
            let link =
                |number: u32| if number == 0 { "none".to_owned() } else { number.to_string() };
            vec![
                fact("left", link(word(0))),
                fact("right", link(word(4))),
                fact("level", word(8).to_string()),
                fact("flags", names.join(" ")),
                fact("cycle id", half(14).to_string()),
            ]
        }
        PageKind::Hash => vec![
            fact("previous", block(word(0))),
            fact("next", block(word(4))),
            fact("bucket", block(word(8))),
            fact("flags", format!("{:#06x}", half(12))),
        ],
        PageKind::Gist => {
            vec![fact("right", block(word(8))), fact("flags", format!("{:#06x}", half(12)))]
        }
        PageKind::Gin => vec![
            fact("right", block(word(0))),
            fact("most items", half(4).to_string()),
            fact("flags", format!("{:#06x}", half(6))),
        ],
        PageKind::SpGist => vec![
            fact("flags", format!("{:#06x}", half(0))),
            fact("redirects", half(2).to_string()),
            fact("placeholders", half(4).to_string()),
        ],
        PageKind::Brin => {
            let name = match half(6) {
                0xf091 => "metapage",
                0xf092 => "map of ranges",
                _ => "summaries",
            };
            vec![fact("page", name.to_owned())]
        }
        PageKind::FreeSpaceMap => fsm_facts(page),
        PageKind::VisibilityMap => {
            use crate::page::VisibilityBits;
            let count = |wanted| {
                let bits = page.visibility_bits();
                bits.filter(|bits: &VisibilityBits| bits.contains(wanted)).count().to_string()
            };
            vec![
                fact("blocks all visible", count(VisibilityBits::ALL_VISIBLE)),
                fact("blocks all frozen", count(VisibilityBits::ALL_FROZEN)),
            ]
        }
        PageKind::Heap | PageKind::New | PageKind::Sequence | PageKind::Unknown => Vec::new(),
    }
}

fn fsm_facts(page: Page<'_>) -> Vec<Fact> {
    let contents = page.bytes().get(PageHeader::LEN..).unwrap_or_default();
    let Ok(map) = FsmPage::parse(Geometry::of(page.block_size()), contents) else {
        return Vec::new();
    };
    let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
    let known = map.slots().iter().filter(|slot| **slot != 0).count();
    let free = map.root().free_bytes(page.block_size());
    vec![
        fact("most free bytes", free.to_string()),
        fact("slots with space", format!("{known} of {}", map.slots().len())),
        fact("next slot", map.next_slot().to_string()),
    ]
}

fn items_of(page: Page<'_>, kind: PageKind, context: &PageContext<'_>) -> Vec<ItemReport> {
    let is_heap = matches!(kind, PageKind::Heap | PageKind::Sequence);
    let report = |(item, pointer): (crate::base::OffsetNumber, crate::page::LinePointer)| {
        let (state, offset) = match pointer.state() {
            LineState::Unused => ("unused", pointer.offset()),
            LineState::Normal => ("normal", pointer.offset()),
            LineState::Redirect => ("redirect", pointer.target().get()),
            LineState::Dead => ("dead", pointer.offset()),
        };
        let mut report = ItemReport {
            item: item.get(),
            state: state.to_owned(),
            offset,
            len: pointer.len(),
            tuple: None,
            bytes: None,
            fault: None,
        };
        match page.item(item) {
            Ok(Item::Normal(bytes)) if is_heap => match HeapTuple::new(bytes) {
                Ok(tuple) => report.tuple = Some(tuple_report(tuple, context)),
                Err(error) => report.fault = Some(error.to_string()),
            },
            Ok(Item::Normal(bytes)) => report.bytes = Some(hex(bytes)),
            Ok(_) => {}
            Err(error) => report.fault = Some(error.to_string()),
        }
        report
    };
    page.items().map(report).collect()
}

fn tuple_report(tuple: HeapTuple<'_>, context: &PageContext<'_>) -> TupleReport {
    let header = tuple.header();
    let infomask = header.infomask();
    let mut flags: Vec<String> = infomask.iter_names().map(|(name, _)| name.to_owned()).collect();
    // Two bits that mean one thing together.
    if infomask.contains(Infomask::XMIN_FROZEN) {
        flags.retain(|name| name != "XMIN_COMMITTED" && name != "XMIN_INVALID");
        flags.push("XMIN_FROZEN".to_owned());
    }
    flags.extend(header.infomask2().iter_names().map(|(name, _)| name.to_owned()));
    let state =
        context.transactions.map(|transactions| match transactions.reader().vacuum_state(header) {
            Ok(VacuumState::Dead) => "dead".to_owned(),
            Ok(VacuumState::DeleteInProgress) => "delete in progress".to_owned(),
            Ok(VacuumState::InsertInProgress) => "insert in progress".to_owned(),
            Ok(VacuumState::Live) => "live".to_owned(),
            Ok(VacuumState::RecentlyDead) => "recently dead".to_owned(),
            Err(error) => error.to_string(),
        });
    TupleReport {
        xmin: header.xmin().get(),
        xmax: header.xmax().get(),
        ctid: header.ctid().to_string(),
        attribute_count: header.natts(),
        data_offset: header.hoff(),
        flags,
        state,
        attributes: context.columns.map_or_else(Vec::new, |columns| attributes(tuple, columns)),
    }
}

fn attributes(tuple: HeapTuple<'_>, columns: &Columns) -> Vec<AttributeReport> {
    let described = columns.attributes();
    let walked = TupleDescriptor::new(&described).and_then(|descriptor| tuple.deform(descriptor));
    let walk = match walked {
        Ok(walk) => walk,
        Err(error) => {
            return vec![AttributeReport {
                fault: Some(error.to_string()),
                ..AttributeReport::new("", "?")
            }];
        }
    };
    let mut reports = Vec::new();
    for (attribute, column) in walk.zip(columns) {
        let report = match attribute.map(|attribute| attribute.value) {
            Ok(Value::Null) => AttributeReport::new(&column.name, "null"),
            Ok(Value::Missing(_)) => AttributeReport::new(&column.name, "missing"),
            Ok(Value::Stored(datum)) => {
                let is_varlena = column.len == crate::page::AttributeLen::Varlena;
                AttributeReport {
                    offset: u32::try_from(datum.offset).ok(),
                    bytes: Some(hex(datum.bytes)),
                    ..AttributeReport::stored(&column.name, datum.bytes, is_varlena)
                }
            }
            Err(error) => AttributeReport {
                fault: Some(error.to_string()),
                ..AttributeReport::new(&column.name, "?")
            },
        };
        let is_broken = report.fault.is_some();
        reports.push(report);
        if is_broken {
            break;
        }
    }
    reports
}

impl AttributeReport {
    fn new(column: &str, form: &str) -> Self {
        Self {
            column: column.to_owned(),
            form: form.to_owned(),
            offset: None,
            raw_bytes: None,
            stored_bytes: None,
            method: None,
            value_id: None,
            toast_relation: None,
            bytes: None,
            fault: None,
        }
    }

    fn stored(column: &str, bytes: &[u8], is_varlena: bool) -> Self {
        if !is_varlena {
            let len = Some(bytes.len() as u64);
            return Self { raw_bytes: len, stored_bytes: len, ..Self::new(column, "fixed") };
        }
        let described = Varlena::parse(bytes, 0).and_then(|(datum, _)| {
            let pointer = match &datum {
                Varlena::External(pointer) => Some(pointer.toast_rel_id().get()),
                _ => None,
            };
            Ok(Self {
                raw_bytes: Some(raw_len(&datum)? as u64),
                stored_bytes: Some(column_size(&datum) as u64),
                method: column_compression(&datum)?.map(|method| method.name().to_owned()),
                value_id: column_toast_chunk_id(&datum).map(|id| id.get()),
                toast_relation: pointer,
                ..Self::new(column, Form::of(&datum).name())
            })
        });
        described.unwrap_or_else(|error| Self {
            fault: Some(error.to_string()),
            ..Self::new(column, "?")
        })
    }
}

/// The first bytes, in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    use core::fmt::Write;
    let mut text = String::new();
    for byte in bytes.iter().take(SHOWN_BYTES) {
        // A string takes whatever is written.
        let _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > SHOWN_BYTES {
        text.push('…');
    }
    text
}
