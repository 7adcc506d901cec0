//! A page of the tree, to be read and to be changed.
//!
//! ```text
//! byte 0        24                              lower      upper                   special
//!      | header | high key | first data | …     | hole     | … | items             | links, level |
//!                 `- not in the rightmost page of a level
//! ```
//! The high key is the bound of everything on the page from above. Line pointers are in key order.
//!
//! Nothing here trusts the bytes: what does not lie in the page is an error.
use core::cmp::Ordering;

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber};
use pgtoast_page::{LinePointer, LineState, PageError, PageHeader, PageMut};
use zerocopy::FromBytes;

use crate::error::NbtreeError;
use crate::key::{Key, KeyWidth, Layout, Oid8Layout, OidLayout};
use crate::special::{NodeFlags, Special};
use crate::tuple::{Bound, IndexTuple};

/// What a search looks for: a key, and the tid where the place of one entry is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) key: Key,
    pub(crate) tid: Option<ItemPointer>,
}

/// A page of the tree.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    bytes: &'a [u8],
    special: &'a Special,
    block: BlockNumber,
    count: u16,
    upper: u16,
}

impl<'a> Node<'a> {
    /// A page that may be in the tree: not the metapage, not a new one. Its header and the shape of
    /// its line pointers are sound after this; what they lead to is asked item by item.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8], block: BlockNumber) -> Result<Self, NbtreeError> {
        let end = bytes.len().wrapping_sub(Special::LEN);
        let (Ok((special, _)), Some((lower, upper, start))) =
            (Special::ref_from_suffix(bytes).map(|(rest, s)| (s, rest)), offsets(bytes))
        else {
            return Err(shape(bytes, block));
        };
        let (lower_at, upper_at) = (usize::from(lower), usize::from(upper));
        let sound = usize::from(start) == end
            && lower_at >= PageHeader::LEN
            && lower_at <= upper_at
            && upper_at <= end
            && lower.is_multiple_of(4);
        if !sound {
            return Err(shape(bytes, block));
        }
        let flags = special.flags();
        if flags.contains(NodeFlags::META) {
            return Err(NbtreeError::Flags { block: block.get(), found: flags.bits() });
        }
        // In place of line pointers a deleted page keeps when it may be used again.
        let pointer_bytes = if flags.contains(NodeFlags::DELETED) { 0 } else { lower - 24 };
        Ok(Self { bytes, special, block, count: pointer_bytes / 4, upper })
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
    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    /// The number of the first item that is not the high key.
    #[inline]
    pub(crate) fn first(&self) -> u16 {
        if self.is_rightmost() { 1 } else { 2 }
    }

    /// Items that are not the high key.
    #[inline]
    pub(crate) fn data_count(&self) -> u16 {
        (self.count + 1).saturating_sub(self.first())
    }

    /// Bytes between line pointers and items.
    #[inline]
    pub(crate) fn free_bytes(&self) -> usize {
        usize::from(self.upper) - PageHeader::LEN - 4 * usize::from(self.count)
    }

    /// Whether an item of that length fits.
    #[inline]
    pub(crate) fn fits(&self, len: usize) -> bool {
        self.free_bytes() >= len + LinePointer::LEN
    }

    #[inline]
    pub(crate) fn pointer(&self, item: u16) -> Option<LinePointer> {
        if item == 0 || item > self.count {
            return None;
        }
        let start = PageHeader::LEN - 4 + 4 * usize::from(item);
        let word = self.bytes.get(start..start + 4)?.first_chunk()?;
        Some(LinePointer::from_word(u32::from_le_bytes(*word)))
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
        let tuple = IndexTuple::parse(bytes).filter(|tuple| tuple.is_plain())?;
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

    /// Whether what is looked for is beyond this page.
    #[inline]
    pub(crate) fn is_beyond(&self, width: KeyWidth, target: Target) -> Result<bool, NbtreeError> {
        if self.is_rightmost() {
            return Ok(false);
        }
        let below = match width {
            KeyWidth::Oid => self.is_past_end::<OidLayout>(target),
            KeyWidth::Oid8 => self.is_past_end::<Oid8Layout>(target),
        };
        below.ok_or(NbtreeError::ItemOutside { block: self.block.get(), item: 1 })
    }

    /// Whether the high key is below what is looked for. The last item, which the search within the page
    /// needs anyway, answers that most of the time.
    #[inline]
    fn is_past_end<L: Layout>(&self, target: Target) -> Option<bool> {
        let value = L::value(target.key);
        let last = self.count;
        let is_within = if last < 2 {
            false
        } else if self.is_leaf() {
            self.leaf_value::<L>(last)? > value
        } else {
            !self.is_below::<L>(last, value, target)?
        };
        if is_within { Some(false) } else { self.is_below::<L>(1, value, target) }
    }

    /// Whether a pivot is below what is looked for. One that lacks columns is below everything that
    /// has the columns it does have.
    #[inline]
    fn is_below<L: Layout>(&self, item: u16, value: L::Value, target: Target) -> Option<bool> {
        let tuple = IndexTuple::parse(self.stored(item)?)?;
        let bound = match tuple.pivot_columns() {
            0 => return Some(true),
            1 => L::read_id(tuple.bytes())?,
            _ => L::read(tuple.bytes())?,
        };
        Some(match bound.cmp(&value) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => match (tuple.pivot_tid(), target.tid) {
                (None, _) => true,
                (Some(bound), Some(tid)) => bound < tid,
                (Some(_), None) => false,
            },
        })
    }

    /// Which item of an inner page leads towards what is looked for: the last one below it. The first
    /// is below everything, whatever is in it.
    #[inline]
    pub(crate) fn downlink(&self, width: KeyWidth, target: Target) -> Result<u16, NbtreeError> {
        let first = self.first();
        if self.count < first {
            return Err(NbtreeError::DownlinkMissing { block: self.block.get(), child: 0 });
        }
        let found = match width {
            KeyWidth::Oid => self.last_below::<OidLayout>(first, target),
            KeyWidth::Oid8 => self.last_below::<Oid8Layout>(first, target),
        };
        found.map_err(|item| NbtreeError::ItemOutside { block: self.block.get(), item })
    }

    #[inline]
    fn last_below<L: Layout>(&self, first: u16, target: Target) -> Result<u16, u16> {
        let value = L::value(target.key);
        let (low, last) = (first + 1, self.count);
        let is_below = |item| self.is_below::<L>(item, value, target);
        if last < low || !is_below(low).ok_or(low)? {
            return Ok(first);
        }
        if is_below(last).ok_or(last)? {
            return Ok(last);
        }
        let bound = |item| L::read_id(self.stored(item)?);
        let guess = guess::<L>(low, last, value, bound(low), bound(last));
        Ok(first_not(low + 1, last, guess, is_below)? - 1)
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
        let (mut low, mut high) = (self.first(), self.count + 1);
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

    /// The first item of a leaf whose key is not below that one; one past the last if all are.
    #[inline]
    pub(crate) fn lower_bound(&self, width: KeyWidth, key: Key) -> Result<u16, NbtreeError> {
        let found = match width {
            KeyWidth::Oid => self.first_at::<OidLayout>(key),
            KeyWidth::Oid8 => self.first_at::<Oid8Layout>(key),
        };
        found.map_err(|item| NbtreeError::ItemOutside { block: self.block.get(), item })
    }

    #[inline]
    fn first_at<L: Layout>(&self, key: Key) -> Result<u16, u16> {
        let value = L::value(key);
        let (low, last) = (self.first(), self.count);
        if last < low {
            return Ok(low);
        }
        // Ids grow, so the place is often past the end.
        let highest = self.leaf_value::<L>(last).ok_or(last)?;
        if highest < value {
            return Ok(last + 1);
        }
        let lowest = self.leaf_value::<L>(low).ok_or(low)?;
        if lowest >= value {
            return Ok(low);
        }
        let guess = guess::<L>(low, last, value, Some(lowest), Some(highest));
        first_not(low + 1, last, guess, |item| Some(self.leaf_value::<L>(item)? < value))
    }

    /// The key of a leaf item, whatever kind of tuple it says it is.
    #[inline]
    fn leaf_value<L: Layout>(&self, item: u16) -> Option<L::Value> {
        let start = PageHeader::LEN - 4 + 4 * usize::from(item);
        let word = u32::from_le_bytes(*self.bytes.get(start..start + 4)?.first_chunk()?);
        let offset = (word & 0x7fff) as usize;
        L::read(self.bytes.get(offset..offset + L::KEY_END)?)
    }
}

/// Where between two items a number would be if those between were spread evenly. Ids are given out one
/// after the other, so mostly they are, and a search that starts there touches a few lines of memory in
/// place of many.
#[inline]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the two items")]
fn guess<L: Layout>(
    low: u16,
    last: u16,
    value: L::Value,
    lowest: Option<L::Value>,
    highest: Option<L::Value>,
) -> u16 {
    let (Some(lowest), Some(highest)) = (lowest, highest) else { return low };
    if value <= lowest || highest <= lowest {
        return low;
    }
    let part = L::distance(value, lowest) / L::distance(highest, lowest);
    low + (part * f64::from(last - low)) as u16
}

/// The first item in `low..high` that is not below what is looked for, or `high`: outward from a guess in
/// growing steps, then by halves.
#[inline]
fn first_not(
    low: u16,
    high: u16,
    guess: u16,
    is_below: impl Fn(u16) -> Option<bool>,
) -> Result<u16, u16> {
    let (mut low, mut high) = (low, high);
    if low >= high {
        return Ok(low);
    }
    let at = guess.clamp(low, high - 1);
    let mut step = 1;
    if is_below(at).ok_or(at)? {
        low = at + 1;
        while low < high {
            let next = (low + (step - 1)).min(high - 1);
            if !is_below(next).ok_or(next)? {
                high = next;
                break;
            }
            low = next + 1;
            step *= 2;
        }
    } else {
        high = at;
        while low < high {
            let next = high.saturating_sub(step).max(low);
            if is_below(next).ok_or(next)? {
                low = next + 1;
                break;
            }
            high = next;
            step *= 2;
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_below(middle).ok_or(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[inline]
fn offsets(bytes: &[u8]) -> Option<(u16, u16, u16)> {
    let (header, _) = PageHeader::ref_from_prefix(bytes).ok()?;
    Some((header.lower(), header.upper(), header.special()))
}

/// Why some bytes have not the shape of a node.
#[cold]
fn shape(bytes: &[u8], block: BlockNumber) -> NbtreeError {
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
    page(PageError::Bounds { lower, upper, special, page_bytes })
}

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

/// A number of items as item numbers.
pub(crate) fn item_number(item: u16) -> OffsetNumber {
    OffsetNumber::new(item)
}
