//! Packing sorted entries into an index, as `CREATE INDEX` does.
//!
//! ```text
//! each level has one open page; line pointer 1 is kept for its high key
//!
//! full: the last item becomes the first of the next page, and its bound the high key of this one;
//!       the page's own lower bound goes up as its downlink
//! end:  what is open goes up; the top page is the root; rightmost pages give line pointer 1 back
//! ```
//! Source: `nbtsort.c` (REL_18).
use alloc::vec;
use alloc::vec::Vec;

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer};
use pgtoast_page::{LinePointer, PageHeader};

use crate::error::{IndexError, NbtreeError};
use crate::index::{Index, Result};
use crate::key::{Key, KeyWidth};
use crate::meta::Meta;
use crate::packer::{self, special_mut};
use crate::pages::IndexPages;
use crate::special::{NodeFlags, Special};
use crate::split_point::{INNER_FILL, LEAF_FILL};
use crate::tuple::{IndexTuple, OwnedTuple, without_key};

impl<P: IndexPages> Index<P> {
    /// A new index with those entries, which come in ascending order of key and tid. Its file is the
    /// one that `CREATE INDEX` and `REINDEX` make.
    ///
    /// # Errors
    /// [`NbtreeError::BuildOrder`], [`NbtreeError::IdTooWide`], the storage's own;
    /// [`NbtreeError::Flags`] if the storage has pages already.
    pub fn build(
        pages: P,
        width: KeyWidth,
        entries: impl IntoIterator<Item = (Key, ItemPointer)>,
    ) -> Result<Self, P> {
        let index = Self::create(pages, width)?;
        let mut builder = Builder { index: &index, levels: Vec::new() };
        let mut before = None;
        for (count, entry) in (0..).zip(entries) {
            let (key, tid) = entry;
            if key.chunk_id.get() > width.highest_id() {
                return Err(NbtreeError::IdTooWide { id: key.chunk_id.get() }.into());
            }
            if before.is_some_and(|before| before >= entry) {
                return Err(NbtreeError::BuildOrder { count }.into());
            }
            before = Some(entry);
            builder.add(0, OwnedTuple::leaf(width, key, tid))?;
        }
        builder.finish()?;
        Ok(index)
    }
}

struct Builder<'a, P> {
    index: &'a Index<P>,
    levels: Vec<OpenPage>,
}

impl<P: IndexPages> Builder<'_, P> {
    fn add(&mut self, level: usize, tuple: OwnedTuple) -> Result<(), P> {
        if self.levels.len() == level {
            let open = self.new_page(level, None)?;
            self.levels.push(open);
        }
        if self.levels[level].is_full_for(level, tuple.len()) {
            self.next_page(level)?;
        }
        self.levels[level].push(level, &tuple);
        Ok(())
    }

    fn new_page(&self, level: usize, prev: Option<BlockNumber>) -> Result<OpenPage, P> {
        let block_size = self.index.pages().block_size();
        let (block, _) = self.index.pages().extend().map_err(IndexError::Storage)?;
        Ok(OpenPage::new(block, block_size, level, prev))
    }

    /// Writes the open page of a level and opens the next.
    fn next_page(&mut self, level: usize) -> Result<(), P> {
        let old_block = self.levels[level].block;
        let mut next = self.new_page(level, Some(old_block))?;
        let old = &mut self.levels[level];
        let last = old.item(old.count);
        let bad = NbtreeError::NoSplitPoint { block: old_block.get() };
        let last = IndexTuple::parse(last).ok_or(bad)?;
        if level == 0 {
            next.put(last.bytes());
        } else {
            next.put(without_key(last).bytes());
        }
        let high_key = if level == 0 {
            let last_left = IndexTuple::parse(old.item(old.count - 1)).ok_or(bad)?;
            OwnedTuple::bound(self.index.width(), last_left, last)
        } else {
            OwnedTuple::pivot(last, last.tid().block)
        };
        let high_key = high_key.ok_or(bad)?;
        old.last_to_high_key(&high_key);
        special_mut(&mut old.bytes).set_next(Some(next.block));
        next.low_key = high_key;
        let old = core::mem::replace(&mut self.levels[level], next);
        self.write(&old)?;
        self.link_up(level, &old)
    }

    /// The downlink to a page.
    fn link_up(&mut self, level: usize, page: &OpenPage) -> Result<(), P> {
        let bad = NbtreeError::NoSplitPoint { block: page.block.get() };
        let downlink = OwnedTuple::pivot(page.low_key.view(), page.block).ok_or(bad)?;
        self.add(level + 1, downlink)
    }

    fn write(&self, page: &OpenPage) -> Result<(), P> {
        self.index.latch_write(page.block)?.copy_from_slice(&page.bytes);
        Ok(())
    }

    #[expect(clippy::cast_possible_truncation, reason = "few levels")]
    fn finish(mut self) -> Result<(), P> {
        let mut level = 0;
        let mut root = None;
        while level < self.levels.len() {
            let is_top = level + 1 == self.levels.len();
            // Pages stay in their places, so the levels above find this one where it was.
            let block = self.levels[level].block;
            let next = OpenPage::new(block, self.index.pages().block_size(), level, None);
            let mut page = core::mem::replace(&mut self.levels[level], next);
            if is_top {
                let special = special_mut(&mut page.bytes);
                special.set_flags(special.flags() | NodeFlags::ROOT);
                root = Some(block);
            } else {
                self.link_up(level, &page)?;
            }
            page.give_high_key_back();
            self.write(&page)?;
            level += 1;
        }
        if root.is_some() {
            let meta = Meta::new(root, level as u32 - 1);
            meta.store(&mut self.index.latch_write(Meta::BLOCK)?);
        }
        Ok(())
    }
}

/// A page that is being filled.
struct OpenPage {
    block: BlockNumber,
    bytes: Vec<u8>,
    /// The highest item number; 1 while there is nothing but the place of the high key.
    count: u16,
    upper: usize,
    /// Free bytes that are left over, unless a page would have fewer than two entries.
    spare: usize,
    low_key: OwnedTuple,
}

impl OpenPage {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "few levels; a part of a page"
    )]
    fn new(
        block: BlockNumber,
        block_size: BlockSize,
        level: usize,
        prev: Option<BlockNumber>,
    ) -> Self {
        let mut bytes = vec![0; block_size.bytes()];
        let (flags, fill) = match level {
            0 => (NodeFlags::LEAF, LEAF_FILL),
            _ => (NodeFlags::empty(), INNER_FILL),
        };
        let special = Special::new(prev, None, level as u32, flags);
        packer::init(&mut bytes, block_size, special);
        let upper = block_size.bytes() - Special::LEN;
        let spare = block_size.bytes() * (100 - fill as usize) / 100;
        let low_key = OwnedTuple::minus_infinity(block);
        Self { block, bytes, count: 1, upper, spare, low_key }
    }

    fn lower(&self) -> usize {
        PageHeader::LEN + LinePointer::LEN * usize::from(self.count)
    }

    fn is_full_for(&self, level: usize, len: usize) -> bool {
        let free = (self.upper - self.lower()).saturating_sub(LinePointer::LEN);
        // A leaf's high key may turn out to need a tid.
        let needed = len + if level == 0 { 8 } else { 0 };
        free < needed || (free < self.spare && self.count > 2)
    }

    fn push(&mut self, level: usize, tuple: &OwnedTuple) {
        if self.count == 1 && level > 0 {
            self.put(without_key(tuple.view()).bytes());
        } else {
            self.put(tuple.bytes());
        }
    }

    /// Adds an item, for which there is room.
    #[expect(clippy::cast_possible_truncation, reason = "offsets in a page")]
    fn put(&mut self, tuple: &[u8]) {
        let start = self.lower();
        self.upper -= tuple.len();
        self.bytes[self.upper..self.upper + tuple.len()].copy_from_slice(tuple);
        let pointer = LinePointer::normal(self.upper as u16, tuple.len() as u16);
        self.put_pointer(start, pointer);
        self.count += 1;
        self.put_header();
    }

    fn put_pointer(&mut self, start: usize, pointer: LinePointer) {
        self.bytes[start..start + LinePointer::LEN].copy_from_slice(&pointer.word().to_le_bytes());
    }

    #[expect(clippy::cast_possible_truncation, reason = "offsets in a page")]
    fn put_header(&mut self) {
        let (lower, upper) = (self.lower() as u16, self.upper as u16);
        self.bytes[12..14].copy_from_slice(&lower.to_le_bytes());
        self.bytes[14..16].copy_from_slice(&upper.to_le_bytes());
    }

    fn item(&self, item: u16) -> &[u8] {
        let start = PageHeader::LEN + LinePointer::LEN * (usize::from(item) - 1);
        let word = self.bytes[start..].first_chunk().copied().unwrap_or_default();
        let pointer = LinePointer::from_word(u32::from_le_bytes(word));
        let offset = usize::from(pointer.offset());
        &self.bytes[offset..offset + usize::from(pointer.len())]
    }

    /// Puts a high key in the place of the last item, which lies lowest in the page.
    #[expect(clippy::cast_possible_truncation, reason = "offsets in a page")]
    fn last_to_high_key(&mut self, high_key: &OwnedTuple) {
        self.upper += self.item(self.count).len();
        self.upper -= high_key.len();
        self.bytes[self.upper..self.upper + high_key.len()].copy_from_slice(high_key.bytes());
        let pointer = LinePointer::normal(self.upper as u16, high_key.len() as u16);
        self.put_pointer(PageHeader::LEN, pointer);
        self.count -= 1;
        // The pointer that is left over is cleared, as a server does, although nobody reads it.
        self.put_pointer(self.lower(), LinePointer::UNUSED);
        self.put_header();
    }

    /// The last page of a level has no high key.
    fn give_high_key_back(&mut self) {
        let end = self.lower();
        self.bytes.copy_within(PageHeader::LEN + LinePointer::LEN..end, PageHeader::LEN);
        self.count -= 1;
        self.put_header();
    }
}
