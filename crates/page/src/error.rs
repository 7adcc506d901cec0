//! What can be wrong with a page.
use core::fmt;

use crate::LineState;

/// Why some bytes are not a page, what is wrong inside one, or why it cannot be changed as asked.
///
/// Offsets and lengths are bytes, offsets from the start of the page; `item` is a 1-based line
/// pointer number. A page does not know its block number: whoever read it adds that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum PageError {
    /// The header's offsets are not `lower <= upper <= special <= page_bytes`.
    Bounds { lower: u16, upper: u16, special: u16, page_bytes: u16 },
    /// The stored checksum is `found`; the page's content and block number make `expected`.
    Checksum { expected: u16, found: u16 },
    /// The header has flag bits that no release gives a meaning.
    Flags { found: u16 },
    /// An item takes `needed` bytes, a new line pointer included; `free` are left.
    Full { needed: usize, free: u16 },
    /// Line pointer `item` is redirected to `target`, which cannot be: there are `count` items.
    ItemBadTarget { item: u16, target: u16, count: u16 },
    /// Line pointer `item` is redirected to `target`, which is unused, dead or a redirect itself.
    ItemEmptyTarget { item: u16, target: u16 },
    /// There can be no line pointer `item`: `limit` are the most.
    ItemLimit { item: u16, limit: u16 },
    /// Line pointer `item` says its item starts at `offset`, which is no multiple of 8.
    ItemMisaligned { item: u16, offset: u16 },
    /// There is no line pointer `item`: the page has `count`.
    ItemMissing { item: u16, count: u16 },
    /// Line pointer `item` names `offset..offset + len`, which is not inside `start..end`.
    ItemOutside { item: u16, offset: u16, len: u16, start: u16, end: u16 },
    /// Items `item` and `other` share bytes of the tuple space.
    ItemOverlap { item: u16, other: u16 },
    /// Item `item` has to stay, because line pointer `by` is redirected to it.
    ItemRedirected { item: u16, by: u16 },
    /// Line pointer `item` is in the state `found`, which does not allow what was asked.
    ItemState { item: u16, found: LineState },
    /// Line pointer `item` of a heap page is unused, dead or redirected, but names `len` bytes.
    ItemStored { item: u16, len: u16 },
    /// Item `item` has `len` bytes, and a heap tuple at least `needed`.
    ItemTooShort { item: u16, len: u16, needed: u16 },
    /// `found` bytes are not a page: a block has `expected`.
    Length { expected: usize, found: usize },
    /// `lower` does not end a whole number of line pointers behind the header.
    LinePointers { lower: u16 },
    /// The page is new, because `upper` is 0, and yet the byte at `offset` is not zero.
    NewNotZero { offset: usize },
    /// The page is an index's, whose special space starts at `special`; what was asked is for a heap.
    NotHeap { special: u16 },
    /// The page is a heap's, because `special` is its end; what was asked is for an index.
    NotIndex,
    /// The header's block size and layout version word is `found`; a page here has `expected`.
    SizeVersion { expected: u16, found: u16 },
    /// A special space of `len` bytes does not fit beside the header; `limit` do.
    SpecialLength { len: usize, limit: usize },
    /// The special space starts at `special`, which is no multiple of 8.
    SpecialMisaligned { special: u16 },
    /// The page was never initialised.
    Uninitialised,
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bounds { lower, upper, special, page_bytes } => write!(
                f,
                "page offsets out of order: lower {lower}, upper {upper}, special {special}, \
                 page of {page_bytes} bytes"
            ),
            Self::Checksum { expected, found } => {
                write!(f, "page checksum {found:#06x}, expected {expected:#06x}")
            }
            Self::Flags { found } => write!(f, "page flags {found:#06x} have unknown bits"),
            Self::Full { needed, free } => {
                write!(f, "page full: {needed} bytes needed, {free} free")
            }
            Self::ItemBadTarget { item, target, count } => {
                write!(f, "item {item} redirected to {target}, expected 1..={count}")
            }
            Self::ItemEmptyTarget { item, target } => {
                write!(f, "item {item} redirected to {target}, which holds no tuple")
            }
            Self::ItemLimit { item, limit } => {
                write!(f, "item {item} is out of the question: a page has {limit} at most")
            }
            Self::ItemMisaligned { item, offset } => {
                write!(f, "item {item} starts at {offset}, expected a multiple of 8")
            }
            Self::ItemMissing { item, count } => {
                write!(f, "item {item} does not exist: the page has {count}")
            }
            Self::ItemOutside { item, offset, len, start, end } => {
                write!(f, "item {item}, {len} bytes at {offset}, is not inside {start}..{end}")
            }
            Self::ItemOverlap { item, other } => write!(f, "items {item} and {other} overlap"),
            Self::ItemRedirected { item, by } => {
                write!(f, "item {item} has to stay: item {by} is redirected to it")
            }
            Self::ItemState { item, found } => {
                let state = match found {
                    LineState::Unused => "unused",
                    LineState::Normal => "in use",
                    LineState::Redirect => "redirected",
                    LineState::Dead => "dead",
                };
                write!(f, "item {item} is {state}, which does not allow this")
            }
            Self::ItemStored { item, len } => {
                write!(f, "item {item} holds no tuple but names {len} bytes")
            }
            Self::ItemTooShort { item, len, needed } => {
                write!(f, "item {item} has {len} bytes, expected at least {needed}")
            }
            Self::Length { expected, found } => {
                write!(f, "{found} bytes are not a page, expected {expected}")
            }
            Self::LinePointers { lower } => {
                write!(f, "line pointers end at {lower}, not a multiple of 4 from 24 up")
            }
            Self::NewNotZero { offset } => {
                write!(f, "new page has a byte that is not zero at {offset}")
            }
            Self::NotHeap { special } => {
                write!(f, "not a heap page: its special space starts at {special}")
            }
            Self::NotIndex => write!(f, "not an index page: it has no special space"),
            Self::SizeVersion { expected, found } => write!(
                f,
                "page says {} bytes and layout {}, expected {} bytes and layout {}",
                found & 0xff00,
                found & 0x00ff,
                expected & 0xff00,
                expected & 0x00ff
            ),
            Self::SpecialLength { len, limit } => {
                write!(f, "special space of {len} bytes, {limit} are the most")
            }
            Self::SpecialMisaligned { special } => {
                write!(f, "special space starts at {special}, expected a multiple of 8")
            }
            Self::Uninitialised => write!(f, "page was never initialised"),
        }
    }
}

impl core::error::Error for PageError {}
