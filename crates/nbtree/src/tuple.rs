//! The entries of index pages.
//!
//! ```text
//! byte 0            6        8                     length
//!      | tid        | info   | key, zeros          |      leaf: where the row is
//!        block hi, lo, item
//!
//! info: length 0x1fff | 0x2000 the tid is not one | 0x4000 variable width | 0x8000 nulls
//!
//! where the tid is not one, its item number says what it is:
//! 0x0fff the columns kept, 0x1000 a tid ends the tuple      pivot: a bound, and the block below it
//! 0x2000 | count, and the block is an offset                posting list: one key, many tids
//! ```
//! A pivot keeps only the columns that tell its sides apart; what it lacks is below everything. The
//! first entry of an inner page keeps none.
//!
//! Source: `itup.h`, `nbtree.h`, `nbtutils.c`, `_bt_truncate` (REL_18).
use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, maxalign};

use crate::key::{Key, KeyWidth, key_of};

/// Bytes before the key.
pub(crate) const HEADER_LEN: usize = 8;
/// The longest tuple that is ever made here: an oid8 pivot that needs a tid.
pub(crate) const MAX_LEN: usize = 32;
/// Columns of the key.
pub(crate) const KEY_COLUMNS: u16 = 2;

const LEN_MASK: u16 = 0x1fff;
const ALT_TID: u16 = 0x2000;
const NULLS: u16 = 0x8000;
const COLUMNS_MASK: u16 = 0x0fff;
const PIVOT_TID: u16 = 0x1000;
const POSTING: u16 = 0x2000;
const TID_LEN: usize = 6;

/// An entry as it lies in a page. Any bytes as long as the header are one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexTuple<'a>(&'a [u8; HEADER_LEN], &'a [u8]);

impl<'a> IndexTuple<'a> {
    /// `None` for fewer bytes than a header.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        Some(Self(bytes.first_chunk()?, bytes))
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        self.1
    }

    #[inline]
    fn info(self) -> u16 {
        u16::from_le_bytes([self.0[6], self.0[7]])
    }

    #[inline]
    fn tid_item(self) -> u16 {
        u16::from_le_bytes([self.0[4], self.0[5]])
    }

    /// What the tuple says its length is.
    pub(crate) fn len(self) -> usize {
        usize::from(self.info() & LEN_MASK)
    }

    pub(crate) fn has_nulls(self) -> bool {
        self.info() & NULLS != 0
    }

    /// The tid of a leaf tuple; its block alone in the others.
    #[inline]
    pub(crate) fn tid(self) -> ItemPointer {
        let [b0, b1, b2, b3, i0, i1, ..] = *self.0;
        ItemPointer::from_bytes([b0, b1, b2, b3, i0, i1])
    }

    /// Whether it is an entry of one tid, of that length, and nothing else.
    #[inline]
    pub(crate) fn is_plain(self, len: usize) -> bool {
        usize::from(self.info()) == len
    }

    #[inline]
    pub(crate) fn is_pivot(self) -> bool {
        self.info() & ALT_TID != 0 && self.tid_item() & POSTING == 0
    }

    #[inline]
    pub(crate) fn is_posting(self) -> bool {
        self.info() & ALT_TID != 0 && self.tid_item() & POSTING != 0
    }

    /// Columns that a pivot keeps.
    #[inline]
    pub(crate) fn pivot_columns(self) -> u16 {
        self.tid_item() & COLUMNS_MASK
    }

    /// The tid that a pivot's last bytes are.
    #[inline]
    pub(crate) fn pivot_tid(self) -> Option<ItemPointer> {
        if !self.is_pivot() || self.tid_item() & PIVOT_TID == 0 {
            return None;
        }
        let end = self.1.get(..self.len())?;
        end.get(HEADER_LEN..)?.last_chunk::<TID_LEN>().map(|tid| ItemPointer::from_bytes(*tid))
    }

    /// The tids of a leaf tuple, in order; `None` where a posting list leaves the tuple.
    pub(crate) fn tids(self) -> Option<Tids<'a>> {
        if !self.is_posting() {
            return Some(Tids::One(Some(self.tid())));
        }
        let start = usize::try_from(self.tid().block.get()).ok()?;
        let count = usize::from(self.tid_item() & COLUMNS_MASK);
        let end = start.checked_add(count * TID_LEN)?;
        let list = self.1.get(..self.len())?.get(start..end)?;
        (start >= HEADER_LEN && count > 0).then_some(Tids::Many(list))
    }

    /// The key of a leaf tuple.
    #[inline]
    pub(crate) fn key(self, width: KeyWidth) -> Option<Key> {
        key_of(width, self.1)
    }
}

/// The tids of one leaf tuple.
#[derive(Clone, Debug)]
pub(crate) enum Tids<'a> {
    One(Option<ItemPointer>),
    Many(&'a [u8]),
}

impl Tids<'_> {
    pub(crate) fn last(self) -> Option<ItemPointer> {
        match self {
            Self::One(tid) => tid,
            Self::Many(list) => list.last_chunk().map(|tid| ItemPointer::from_bytes(*tid)),
        }
    }
}

impl Iterator for Tids<'_> {
    type Item = ItemPointer;

    #[inline]
    fn next(&mut self) -> Option<ItemPointer> {
        match self {
            Self::One(tid) => tid.take(),
            Self::Many(list) => {
                let (tid, rest) = list.split_first_chunk::<TID_LEN>()?;
                *list = rest;
                Some(ItemPointer::from_bytes(*tid))
            }
        }
    }
}

/// A tuple that is made here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnedTuple {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl OwnedTuple {
    /// A leaf tuple.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "an id that fits the width was asked for")]
    pub(crate) fn leaf(width: KeyWidth, key: Key, tid: ItemPointer) -> Self {
        let mut bytes = [0; MAX_LEN];
        bytes[..TID_LEN].copy_from_slice(&tid.to_bytes());
        let id = key.chunk_id.get();
        match width {
            KeyWidth::Oid => {
                bytes[8..12].copy_from_slice(&(id as u32).to_le_bytes());
                bytes[12..16].copy_from_slice(&key.chunk_seq.to_le_bytes());
            }
            KeyWidth::Oid8 => {
                bytes[8..16].copy_from_slice(&id.to_le_bytes());
                bytes[16..20].copy_from_slice(&key.chunk_seq.to_le_bytes());
            }
        }
        let mut tuple = Self { bytes, len: width.tuple_len() };
        tuple.set_info(0);
        tuple
    }

    /// The lowest bound there is, above `child`.
    pub(crate) fn minus_infinity(child: BlockNumber) -> Self {
        let mut tuple = Self { bytes: [0; MAX_LEN], len: HEADER_LEN };
        tuple.set_info(ALT_TID);
        tuple.set_tid(ItemPointer::new(child, OffsetNumber::INVALID));
        tuple
    }

    /// The bound between two neighbours of a leaf: the fewest columns of the right one that tell
    /// them apart, and the left one's tid where nothing else does. The block of the right one's
    /// tid stays in it.
    pub(crate) fn bound(
        width: KeyWidth,
        last_left: IndexTuple<'_>,
        first_right: IndexTuple<'_>,
    ) -> Option<Self> {
        let columns = kept_columns(last_left.key(width)?, first_right.key(width)?);
        let mut bytes = [0; MAX_LEN];
        let (data, len) = match (columns, width) {
            (1, KeyWidth::Oid) => (12, 16),
            (1, KeyWidth::Oid8) => (16, 16),
            (_, KeyWidth::Oid) => (16, 16),
            (_, KeyWidth::Oid8) => (20, 24),
        };
        bytes[..data].copy_from_slice(first_right.bytes().get(..data)?);
        let mut tuple = Self { bytes, len };
        let mut item = columns.min(KEY_COLUMNS);
        if columns > KEY_COLUMNS {
            tuple.len += maxalign(TID_LEN);
            let tid = last_left.tids()?.last()?;
            tuple.bytes[tuple.len - TID_LEN..tuple.len].copy_from_slice(&tid.to_bytes());
            item |= PIVOT_TID;
        }
        tuple.set_info(ALT_TID);
        // A posting list has no block there, but its first tid has.
        let block = first_right.tids()?.next()?.block;
        tuple.set_tid(ItemPointer::new(block, OffsetNumber::new(item)));
        Some(tuple)
    }

    /// A pivot out of a page, leading to another block.
    pub(crate) fn pivot(source: IndexTuple<'_>, child: BlockNumber) -> Option<Self> {
        let len = source.bytes().len();
        let mut bytes = [0; MAX_LEN];
        bytes.get_mut(..len)?.copy_from_slice(source.bytes());
        let mut tuple = Self { bytes, len };
        tuple.set_tid(ItemPointer::new(child, source.tid().item));
        source.is_pivot().then_some(tuple)
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The same, as a log has it.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_LEN")]
    pub(crate) fn short_len(&self) -> u16 {
        self.len as u16
    }

    #[inline]
    pub(crate) fn view(&self) -> IndexTuple<'_> {
        let (header, _) = self.bytes.split_first_chunk().expect("longer than a header");
        IndexTuple(header, self.bytes())
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_LEN")]
    fn set_info(&mut self, flags: u16) {
        self.bytes[6..8].copy_from_slice(&(self.len as u16 | flags).to_le_bytes());
    }

    fn set_tid(&mut self, tid: ItemPointer) {
        self.bytes[..TID_LEN].copy_from_slice(&tid.to_bytes());
    }
}

/// The first entry of the right page of a split of inner pages: its downlink, and no key.
pub(crate) fn without_key(tuple: IndexTuple<'_>) -> OwnedTuple {
    OwnedTuple::minus_infinity(tuple.tid().block)
}

/// How many columns tell two keys apart: 1 or 2, and 3 where only the tid does.
pub(crate) fn kept_columns(left: Key, right: Key) -> u16 {
    if left.chunk_id != right.chunk_id {
        1
    } else if left.chunk_seq != right.chunk_seq {
        2
    } else {
        KEY_COLUMNS + 1
    }
}

/// A pivot as what it means: what it lacks is below everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bound {
    chunk_id: u64,
    chunk_seq: Option<i32>,
    tid: Option<ItemPointer>,
}

impl Bound {
    /// Of a pivot that keeps one column at least.
    pub(crate) fn of(width: KeyWidth, tuple: IndexTuple<'_>) -> Option<Self> {
        // One without its second column may be too short to read both.
        let mut bytes = [0; 24];
        let len = tuple.bytes().len().min(bytes.len());
        bytes[..len].copy_from_slice(&tuple.bytes()[..len]);
        let key = key_of(width, &bytes)?;
        Some(Self {
            chunk_id: key.chunk_id.get(),
            chunk_seq: (tuple.pivot_columns() >= KEY_COLUMNS).then_some(key.chunk_seq),
            tid: tuple.pivot_tid(),
        })
    }

    /// Whether it is below an entry.
    pub(crate) fn is_below(self, key: Key, tid: Option<ItemPointer>) -> bool {
        let chunk_seq = Some(key.chunk_seq);
        self < Self { chunk_id: key.chunk_id.get(), chunk_seq, tid }
    }
}

/// A leaf tuple with fewer tids than it has: one alone is no list.
#[expect(clippy::cast_possible_truncation, reason = "no more than it had")]
pub(crate) fn with_tids(
    tuple: IndexTuple<'_>,
    tids: &[ItemPointer],
) -> Option<alloc::vec::Vec<u8>> {
    let start = usize::try_from(tuple.tid().block.get()).ok()?;
    let mut bytes = tuple.bytes().get(..start)?.to_vec();
    let (first, is_list) = (*tids.first()?, tids.len() > 1);
    let tid = if is_list {
        for tid in tids {
            bytes.extend(tid.to_bytes());
        }
        bytes.resize(maxalign(bytes.len()), 0);
        let item = OffsetNumber::new(tids.len() as u16 | POSTING);
        ItemPointer::new(BlockNumber::new(start as u32), item)
    } else {
        first
    };
    let flags = (tuple.info() & !(LEN_MASK | ALT_TID)) | if is_list { ALT_TID } else { 0 };
    let info = flags | bytes.len() as u16;
    bytes.get_mut(..TID_LEN)?.copy_from_slice(&tid.to_bytes());
    bytes.get_mut(TID_LEN..HEADER_LEN)?.copy_from_slice(&info.to_le_bytes());
    Some(bytes)
}
