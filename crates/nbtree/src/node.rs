//! A page of the tree.
//!
//! ```text
//! byte 0        24                              lower      upper                   special
//!      | header | high key | first data | …     | hole     | … | items             | links, level |
//!                 `- not in the rightmost page of a level
//! ```
//! The high key is the bound of everything on the page from above. Line pointers are in key order.
//!
//! Nothing here trusts the bytes: what does not lie in the page is an error.
use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber};
use pgtoast_page::{LinePointer, LineState, PageError, PageHeader};
use zerocopy::FromBytes;

use crate::error::NbtreeError;
use crate::key::{Key, KeyWidth};
use crate::special::{NodeFlags, Special};
use crate::tuple::{Bound, IndexTuple};

/// What a search looks for: a key, and the tid where the place of one entry is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) key: Key,
    pub(crate) tid: Option<ItemPointer>,
}

impl Target {
    /// The first entry of that key.
    pub(crate) const fn first_of(key: Key) -> Self {
        Self { key, tid: None }
    }

    /// The place of one entry.
    pub(crate) const fn entry(key: Key, tid: ItemPointer) -> Self {
        Self { key, tid: Some(tid) }
    }
}

/// A page of the tree.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    bytes: &'a [u8],
    special: &'a Special,
    /// In key order.
    pointers: &'a [LinePointer],
    block: BlockNumber,
    upper: u16,
}

impl<'a> Node<'a> {
    /// A page that may be in the tree: not the metapage, not a new one. Its header and the shape of
    /// its line pointers are sound after this; what they lead to is asked item by item.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8], block: BlockNumber) -> Result<Self, NbtreeError> {
        Self::of(bytes, block).ok_or_else(|| shape(bytes, block))
    }

    /// The same without saying why not.
    #[inline]
    pub(crate) fn of(bytes: &'a [u8], block: BlockNumber) -> Option<Self> {
        let (rest, special) = Special::ref_from_suffix(bytes).ok()?;
        let (lower, upper, start) = offsets(bytes)?;
        let is_sound = usize::from(start) == rest.len() && lower <= upper && upper <= start;
        if !is_sound || special.flags().contains(NodeFlags::META) {
            return None;
        }
        // Which are whole ones, or it is none.
        let pointers = rest.get(PageHeader::LEN..lower.into())?;
        let pointers = <[LinePointer]>::ref_from_bytes(pointers).ok()?;
        // In place of line pointers a deleted page keeps when it may be used again.
        let is_deleted = special.flags().contains(NodeFlags::DELETED);
        let pointers = if is_deleted { &[] } else { pointers };
        Some(Self { bytes, special, pointers, block, upper })
    }

    #[inline]
    pub(crate) fn special(&self) -> &'a Special {
        self.special
    }

    pub(crate) fn block(&self) -> BlockNumber {
        self.block
    }

    #[inline]
    pub(crate) fn flags(&self) -> NodeFlags {
        self.special.flags()
    }

    #[inline]
    pub(crate) fn is_leaf(&self) -> bool {
        self.special.flags().contains(NodeFlags::LEAF)
    }

    #[inline]
    pub(crate) fn is_rightmost(&self) -> bool {
        self.special.next().is_none()
    }

    /// All of its bytes.
    #[inline]
    pub(crate) fn page(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether it is the only page of its level that is in the tree. Then it is for good, or the leftmost
    /// of more, because the last page of a level never leaves the tree.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        let has_neighbour = self.special.prev().is_some() || self.special.next().is_some();
        !has_neighbour && !self.flags().is_ignored()
    }

    /// In bytes.
    pub(crate) fn page_len(&self) -> usize {
        self.bytes.len()
    }

    /// Where items may lie.
    pub(crate) fn tuple_space(&self) -> core::ops::Range<usize> {
        self.upper.into()..self.bytes.len() - Special::LEN
    }

    /// The highest item number.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "they end at a u16")]
    pub(crate) fn count(&self) -> u16 {
        self.pointers.len() as u16
    }

    /// The number of the first item that is not the high key.
    #[inline]
    pub(crate) fn first(&self) -> u16 {
        if self.is_rightmost() { 1 } else { 2 }
    }

    /// Items that are not the high key.
    #[inline]
    pub(crate) fn data_count(&self) -> u16 {
        (self.count() + 1).saturating_sub(self.first())
    }

    /// Bytes between line pointers and items.
    #[inline]
    pub(crate) fn free_bytes(&self) -> usize {
        usize::from(self.upper) - PageHeader::LEN - size_of_val(self.pointers)
    }

    /// Whether an item of that length fits.
    #[inline]
    pub(crate) fn fits(&self, len: usize) -> bool {
        self.free_bytes() >= len + LinePointer::LEN
    }

    #[inline]
    pub(crate) fn pointer(&self, item: u16) -> Option<LinePointer> {
        self.pointers.get(usize::from(item).wrapping_sub(1)).copied()
    }

    /// In key order.
    #[inline]
    pub(crate) fn pointers(&self) -> &'a [LinePointer] {
        self.pointers
    }

    /// The bytes of an item, dead or not.
    #[inline]
    pub(crate) fn item(&self, item: u16) -> Result<&'a [u8], NbtreeError> {
        self.stored(item).ok_or(NbtreeError::ItemOutside { block: self.block.get(), item })
    }

    #[inline]
    fn stored(&self, item: u16) -> Option<&'a [u8]> {
        let pointer = self.pointer(item)?;
        let start = usize::from(pointer.offset());
        self.bytes.get(start..start + usize::from(pointer.len()))
    }

    #[inline]
    pub(crate) fn tuple(&self, item: u16) -> Result<IndexTuple<'a>, NbtreeError> {
        self.stored(item)
            .and_then(IndexTuple::parse)
            .ok_or(NbtreeError::ItemOutside { block: self.block.get(), item })
    }

    /// So many bytes from where an item starts, whatever its line pointer says its length is.
    #[inline]
    pub(crate) fn key_bytes(&self, pointer: LinePointer, len: usize) -> Option<&'a [u8]> {
        let start = usize::from(pointer.offset());
        self.bytes.get(start..start + len)
    }

    pub(crate) fn is_dead(&self, item: u16) -> bool {
        self.pointer(item).is_some_and(|pointer| pointer.state() == LineState::Dead)
    }

    /// Key and tid of an item of a leaf, and whether it is marked dead, if it is an entry of one tid as
    /// most are.
    #[inline]
    pub(crate) fn plain_entry(
        &self,
        width: KeyWidth,
        item: u16,
    ) -> Option<(Key, ItemPointer, bool)> {
        let pointer = self.pointer(item)?;
        let start = usize::from(pointer.offset());
        let bytes = self.bytes.get(start..start + usize::from(pointer.len()))?;
        let tuple = IndexTuple::parse(bytes).filter(|tuple| tuple.is_plain(bytes.len()))?;
        Some((tuple.key(width)?, tuple.tid(), pointer.state() == LineState::Dead))
    }

    /// The key of an item of a leaf.
    pub(crate) fn key(&self, width: KeyWidth, item: u16) -> Result<Key, NbtreeError> {
        let tuple = self.tuple(item)?;
        let columns = NbtreeError::ItemColumns {
            block: self.block.get(),
            item,
            found: tuple.pivot_columns(),
        };
        if tuple.is_pivot() || tuple.has_nulls() {
            return Err(columns);
        }
        tuple.key(width).ok_or(columns)
    }

    /// The block that an item of an inner page leads to.
    #[inline]
    pub(crate) fn child(&self, item: u16) -> Result<BlockNumber, NbtreeError> {
        Ok(self.tuple(item)?.tid().block)
    }

    /// Whether everything on the page is below a bound which may be the high key of one further right.
    pub(crate) fn ends_below(&self, width: KeyWidth, bound: Bound) -> Result<bool, NbtreeError> {
        if self.is_rightmost() {
            return Ok(false);
        }
        let outside = NbtreeError::ItemOutside { block: self.block.get(), item: 1 };
        Ok(Bound::of(width, self.tuple(1)?).ok_or(outside)? < bound)
    }

    /// The last item of an inner page that is below a bound; the first, if no other is.
    pub(crate) fn last_below_bound(
        &self,
        width: KeyWidth,
        bound: Bound,
    ) -> Result<u16, NbtreeError> {
        let (mut low, mut high) = (self.first(), self.count() + 1);
        while high.saturating_sub(low) > 1 {
            let middle = low + (high - low) / 2;
            let outside = NbtreeError::ItemOutside { block: self.block.get(), item: middle };
            if Bound::of(width, self.tuple(middle)?).ok_or(outside)? < bound {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

/// `lower`, `upper` and `special` of the header.
#[inline]
pub(crate) fn offsets(bytes: &[u8]) -> Option<(u16, u16, u16)> {
    let (header, _) = PageHeader::ref_from_prefix(bytes).ok()?;
    Some((header.lower(), header.upper(), header.special()))
}

/// Why some bytes have not the shape of a node.
#[cold]
pub(crate) fn shape(bytes: &[u8], block: BlockNumber) -> NbtreeError {
    let page = |error| NbtreeError::Page { block: block.get(), error };
    let Some((lower, upper, special)) = offsets(bytes) else {
        return page(PageError::Length { expected: PageHeader::LEN, found: bytes.len() });
    };
    if upper == 0 {
        return page(PageError::Uninitialised);
    }
    #[expect(clippy::cast_possible_truncation, reason = "a page is no longer than 32768 bytes")]
    let page_bytes = bytes.len() as u16;
    if !lower.is_multiple_of(4) {
        return page(PageError::LinePointers { lower });
    }
    match Special::ref_from_suffix(bytes) {
        Ok((_, special)) if special.flags().contains(NodeFlags::META) => {
            NbtreeError::Flags { block: block.get(), found: special.flags().bits() }
        }
        _ => page(PageError::Bounds { lower, upper, special, page_bytes }),
    }
}

/// A page with flags that it cannot have where it is.
#[cold]
pub(crate) fn unexpected(node: &Node<'_>) -> NbtreeError {
    NbtreeError::Flags { block: node.block().get(), found: node.flags().bits() }
}

/// A number of items as item numbers.
pub(crate) fn item_number(item: u16) -> OffsetNumber {
    OffsetNumber::new(item)
}
