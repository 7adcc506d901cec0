//! What can be wrong with a map.
use core::fmt;

use pgtoast_base::BlockNumber;

use crate::Category;

/// Something in a map that contradicts itself or the relation's length. None of it loses data: the
/// map is a hint, and searching, vacuuming or rebuilding it sets it right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum Finding {
    /// Inner node `node` of fork page `page` says `found`; its children say `expected`.
    InnerNode { page: u32, node: u32, found: u8, expected: u8 },
    /// Fork page `page` would start its next search at a slot it does not have.
    NextSlot { page: u32, found: i32 },
    /// Slot `slot` of fork page `page` says `found`, the root of the page below `expected`.
    ParentSlot { page: u32, slot: u32, found: u8, expected: u8 },
    /// Slot `slot` of fork page `page` promises space in blocks past the end of the relation.
    PastEnd { page: u32, slot: u32, found: u8 },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::InnerNode { page, node, found, expected } => {
                write!(f, "map page {page}: node {node} is {found}, its children say {expected}")
            }
            Self::NextSlot { page, found } => {
                write!(f, "map page {page}: the next search would start at slot {found}")
            }
            Self::ParentSlot { page, slot, found, expected } => {
                write!(f, "map page {page}: slot {slot} is {found}, the page below says {expected}")
            }
            Self::PastEnd { page, slot, found } => {
                write!(f, "map page {page}: slot {slot} is {found}, past the end of the relation")
            }
        }
    }
}

/// A block of which the map says something else than the block itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which block.
    pub block: BlockNumber,
    /// What the map says.
    pub recorded: Category,
    /// What the block says.
    pub actual: Category,
}

/// How a map compares with the truth, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffCounts {
    /// Those of which the map is right.
    pub equal: u64,
    /// Those with less space than the map promises: they cost a visit.
    pub too_high: u64,
    /// Those with more space than the map knows of: they cost space.
    pub too_low: u64,
}

impl DiffCounts {
    pub(crate) fn add(&mut self, recorded: Category, actual: Category) {
        match recorded.cmp(&actual) {
            core::cmp::Ordering::Equal => self.equal += 1,
            core::cmp::Ordering::Greater => self.too_high += 1,
            core::cmp::Ordering::Less => self.too_low += 1,
        }
    }
}
