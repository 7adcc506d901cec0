//! What a page is, and what the pages of indexes and maps say of themselves.
use serde::Serialize;

use crate::datadir::Fork;
use crate::fsm::{FsmPage, Geometry};
use crate::nbtree::NodeFlags;
use crate::page::{Page, PageHeader, VisibilityBits};

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

/// What a page is, by what is at the end of its special space.
///
/// ```text
/// 16 bytes   B-tree: cycle id, at most 0xff7f | GiST: 0xff81 | hash: 0xff80, in the last two
///  8 bytes   SP-GiST: 0xff82 | BRIN: 0xf091 to 0xf093 | sequence: 0x1717 in the first four | GIN: flags
/// ```
/// Source: `nbtree.h`, `gist.h`, `hash.h`, `spgist_private.h`, `brin_page.h`, `ginblock.h`, `sequence.c` (REL_18).
pub(super) fn kind_of(page: Page<'_>, fork: Fork) -> PageKind {
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
pub(super) fn is_metapage(page: Page<'_>, kind: PageKind) -> bool {
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

pub(super) fn facts_of(page: Page<'_>, kind: PageKind) -> Vec<Fact> {
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
