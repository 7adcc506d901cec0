//! What can be wrong with an index.
use core::fmt;

use pgtoast_page::PageError;

/// Why some pages are not an index, or why it cannot be changed as asked.
///
/// `block` is a block of the index, `item` a 1-based line pointer of it. The entry that a message is
/// about is the one that broke the rule, which need not be the one that was damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum NbtreeError {
    /// Entries to be packed are not in ascending order; `count` came before the one that is not.
    BuildOrder { count: u64 },
    /// The downlink at `item` of `block` leads to `child`, whose entries do not lie between its
    /// bounds.
    ChildBounds { block: u32, item: u16, child: u32 },
    /// The links to the right from or to `block` go round.
    Cycle { block: u32 },
    /// `child` should have a downlink on the level above, where `block` was the last one looked at.
    DownlinkMissing { block: u32, child: u32 },
    /// Block `block` has the flags `found`, which a page in its place cannot have.
    Flags { block: u32, found: u16 },
    /// Item `item` is above the high key of its page.
    HighKey { block: u32, item: u16 },
    /// The id does not fit the width of the index.
    IdTooWide { id: u64 },
    /// Item `item` keeps `found` columns, nulls or another kind of entry than there can be at its
    /// place.
    ItemColumns { block: u32, item: u16, found: u16 },
    /// Item `item` says it is `found` bytes long; its line pointer or its kind has `expected`.
    ItemLen { block: u32, item: u16, expected: u16, found: u16 },
    /// Item `item` is not above the one before.
    ItemOrder { block: u32, item: u16 },
    /// Line pointer `item` leads out of the tuple space, or nowhere.
    ItemOutside { block: u32, item: u16 },
    /// Block `block` is on level `found` and its place is on level `expected`.
    Level { block: u32, expected: u32, found: u32 },
    /// The metapage has another magic number or version than an index of releases from 12 on.
    Meta { magic: u32, version: u32 },
    /// Block `block` is led to and there is no such block.
    Missing { block: u32 },
    /// Block `block` can be split nowhere so that both sides fit.
    NoSplitPoint { block: u32 },
    /// Root `block` is not alone on its level.
    NotAlone { block: u32 },
    /// Block `block` is no page of an index.
    Page { block: u32, error: PageError },
    /// The tid to be inserted belongs inside the posting list at `item`, which is not split here.
    PostingList { block: u32, item: u16 },
    /// The left link of `block` leads to `found`; the page before it is `expected`, 0 for none.
    Sibling { block: u32, expected: u32, found: u32 },
}

impl fmt::Display for NbtreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BuildOrder { count } => {
                write!(f, "entry {count} to be packed is not above the one before")
            }
            Self::ChildBounds { block, item, child } => {
                write!(f, "block {child} is not within the bounds at item {item} of block {block}")
            }
            Self::Cycle { block } => write!(f, "the links at block {block} go round"),
            Self::DownlinkMissing { block, child } => {
                write!(f, "no downlink to block {child} on the level above, up to block {block}")
            }
            Self::Flags { block, found } => {
                write!(f, "block {block} has flags {found:#06x}, which cannot be in its place")
            }
            Self::HighKey { block, item } => {
                write!(f, "item {item} of block {block} is above the page's high key")
            }
            Self::IdTooWide { id } => write!(f, "id {id} does not fit in 32 bits"),
            Self::ItemColumns { block, item, found } => {
                write!(f, "item {item} of block {block} cannot be an entry of {found} columns")
            }
            Self::ItemLen { block, item, expected, found } => write!(
                f,
                "item {item} of block {block} says it has {found} bytes, expected {expected}"
            ),
            Self::ItemOrder { block, item } => {
                write!(f, "item {item} of block {block} is not above the one before")
            }
            Self::ItemOutside { block, item } => {
                write!(f, "line pointer {item} of block {block} leads out of the tuple space")
            }
            Self::Level { block, expected, found } => {
                write!(f, "block {block} is on level {found}, expected {expected}")
            }
            Self::NotAlone { block } => {
                write!(f, "root {block} is not alone on its level")
            }
            Self::Meta { magic, version } => write!(
                f,
                "no metapage: magic {magic:#010x}, version {version}, expected {:#010x}, {}",
                crate::Meta::MAGIC,
                crate::Meta::VERSION
            ),
            Self::Missing { block } => write!(f, "there is no block {block}"),
            Self::NoSplitPoint { block } => write!(f, "block {block} can be split nowhere"),
            Self::Page { block, error } => write!(f, "block {block}: {error}"),
            Self::PostingList { block, item } => {
                write!(f, "item {item} of block {block} is a posting list to be split")
            }
            Self::Sibling { block, expected, found } => {
                write!(f, "block {block} has block {found} to its left, expected {expected}")
            }
        }
    }
}

impl core::error::Error for NbtreeError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Page { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Why an operation on an index failed: because of what is in the pages, or because they could not be
/// had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexError<E> {
    /// The pages, or what was asked.
    Index(NbtreeError),
    /// What [`IndexPages`](crate::IndexPages) said.
    Storage(E),
}

impl<E> From<NbtreeError> for IndexError<E> {
    fn from(error: NbtreeError) -> Self {
        Self::Index(error)
    }
}

impl<E: fmt::Display> fmt::Display for IndexError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(error) => error.fmt(f),
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for IndexError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Index(error) => error.source(),
            Self::Storage(error) => Some(error),
        }
    }
}
