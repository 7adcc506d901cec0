//! Writing pages of the tree: a whole one item by item, or one item more.
use pgtoast_base::BlockSize;
use pgtoast_page::{LinePointer, PageHeader, PageMut};
use zerocopy::FromBytes;

use crate::node::offsets;
use crate::special::Special;

/// The special space of a page, to be changed.
///
/// # Panics
/// When the page is shorter than that.
pub(crate) fn special_mut(bytes: &mut [u8]) -> &mut Special {
    match Special::mut_from_suffix(bytes) {
        Ok((_, special)) => special,
        Err(_) => panic!("a page is longer than its special space"),
    }
}

/// Makes an empty node of any bytes as long as a block.
pub(crate) fn init(bytes: &mut [u8], block_size: BlockSize, special: Special) {
    PageMut::init(bytes, block_size, Special::LEN).expect("as long as a block");
    *special_mut(bytes) = special;
}

/// Puts an item into a parsed node that has room for it; those from `item` on move up by one.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "offsets in a page")]
pub(crate) fn insert_item(bytes: &mut [u8], item: u16, tuple: &[u8]) {
    let Some((lower, upper, _)) = offsets(bytes) else { return };
    let (lower, upper) = (usize::from(lower), usize::from(upper));
    debug_assert!(lower + LinePointer::LEN + tuple.len() <= upper);
    let start = PageHeader::LEN - LinePointer::LEN + LinePointer::LEN * usize::from(item);
    let at = upper - tuple.len();
    if start < lower {
        bytes.copy_within(start..lower, start + LinePointer::LEN);
    }
    bytes[at..upper].copy_from_slice(tuple);
    let pointer = LinePointer::normal(at as u16, tuple.len() as u16);
    bytes[start..start + LinePointer::LEN].copy_from_slice(&pointer.word().to_le_bytes());
    bytes[12..14].copy_from_slice(&((lower + LinePointer::LEN) as u16).to_le_bytes());
    bytes[14..16].copy_from_slice(&(at as u16).to_le_bytes());
}

/// Lays items into a page one after the other.
pub(crate) struct Packer<'a> {
    bytes: &'a mut [u8],
    lower: usize,
    upper: usize,
}

impl<'a> Packer<'a> {
    /// Into an empty node.
    pub(crate) fn new(bytes: &'a mut [u8], block_size: BlockSize, special: Special) -> Self {
        init(bytes, block_size, special);
        let upper = bytes.len() - Special::LEN;
        Self { bytes, lower: PageHeader::LEN, upper }
    }

    /// Adds an item behind the others; `None` if there is no room.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "offsets in a page")]
    pub(crate) fn push(&mut self, tuple: &[u8]) -> Option<()> {
        let at = self.upper.checked_sub(tuple.len())?;
        if self.lower + LinePointer::LEN > at {
            return None;
        }
        self.bytes[at..self.upper].copy_from_slice(tuple);
        let pointer = LinePointer::normal(at as u16, tuple.len() as u16);
        let word = pointer.word().to_le_bytes();
        self.bytes[self.lower..self.lower + LinePointer::LEN].copy_from_slice(&word);
        self.lower += LinePointer::LEN;
        self.upper = at;
        Some(())
    }

    /// Writes the header.
    #[expect(clippy::cast_possible_truncation, reason = "offsets in a page")]
    pub(crate) fn finish(self) {
        self.bytes[12..14].copy_from_slice(&(self.lower as u16).to_le_bytes());
        self.bytes[14..16].copy_from_slice(&(self.upper as u16).to_le_bytes());
    }
}
