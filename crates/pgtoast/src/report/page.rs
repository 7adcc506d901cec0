//! One page: its header, its line pointers, its tuples and their attributes, or what an index or a map keeps in it.
mod kind;
mod tuple;

use serde::Serialize;

pub use self::kind::{Fact, PageKind};
pub use self::tuple::{AttributeReport, TupleReport};

use self::kind::{facts_of, is_metapage, kind_of};
use self::tuple::tuple_report;
use crate::base::{BlockNumber, BlockSize, OffsetNumber};
use crate::datadir::{Columns, Fork, Transactions};
use crate::page::{HeapTuple, Item, LinePointer, LineState, Page, PageError};

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
    /// [`PageError`] if there are not as many as a block has.
    pub fn of(
        bytes: &[u8],
        block_size: BlockSize,
        context: &PageContext<'_>,
    ) -> Result<Self, PageError> {
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

fn items_of(page: Page<'_>, kind: PageKind, context: &PageContext<'_>) -> Vec<ItemReport> {
    let is_heap = matches!(kind, PageKind::Heap | PageKind::Sequence);
    let report = |(item, pointer): (OffsetNumber, LinePointer)| {
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
