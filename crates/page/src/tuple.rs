//! A heap tuple: a header that says who made it and who ended it, a null bitmap where it has nulls,
//! then the attributes.
//!
//! ```text
//! byte 0      4      8        12     18          20         22     23               hoff
//!      | xmin | xmax | field3 | ctid | infomask2 | infomask | hoff | bitmap, zeros | attributes |
//!                    `- command ids            bit i of the bitmap: 1 = attribute i is stored
//! ```
//! `hoff` is 23 plus the bitmap, rounded up to a multiple of 8. The bitmap is there only if
//! [`Infomask::HAS_NULL`] says so, and has one bit for each attribute that the tuple has.
//!
//! Source: `htup_details.h`, `HeapTupleHeaderData` (REL_18).
use pgtoast_base::{ItemPointer, ItemPointerData, Xid, maxalign};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Infomask, Infomask2, TupleError};

/// A heap tuple, as long as its line pointer says. Cheap to copy.
///
/// Like [`Page`](crate::Page), it answers on any bytes; only [`parse`](Self::parse) holds the header
/// to the rules.
#[derive(Clone, Copy, Debug)]
pub struct HeapTuple<'a> {
    bytes: &'a [u8],
    header: &'a TupleHeader,
}

impl<'a> HeapTuple<'a> {
    /// Any bytes that are long enough for a header.
    ///
    /// # Errors
    /// [`TupleError::Length`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, TupleError> {
        match TupleHeader::ref_from_prefix(bytes) {
            Ok((header, _)) => Ok(Self { bytes, header }),
            Err(_) => Err(TupleError::Length { needed: TupleHeader::LEN, found: bytes.len() }),
        }
    }

    /// Bytes whose `hoff` is what the header makes it.
    ///
    /// # Errors
    /// [`TupleError::Length`], [`TupleError::DataPastEnd`], [`TupleError::BitmapPastData`],
    /// [`TupleError::DataStart`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, TupleError> {
        let tuple = Self::new(bytes)?;
        tuple.split()?;
        let (expected, found) = (tuple.header.expected_hoff(), tuple.header.hoff());
        if expected == usize::from(found) {
            Ok(tuple)
        } else {
            Err(TupleError::DataStart { expected, found })
        }
    }

    /// All of the tuple, header included.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &'a TupleHeader {
        self.header
    }

    /// Where the attributes start, and the null bitmap, empty if there is none.
    ///
    /// # Errors
    /// [`TupleError::DataPastEnd`], [`TupleError::BitmapPastData`].
    #[inline]
    pub(crate) fn split(&self) -> Result<(usize, &'a [u8]), TupleError> {
        let hoff = usize::from(self.header.hoff());
        let bitmap = TupleHeader::LEN..TupleHeader::LEN + self.header.bitmap_len();
        if hoff > self.bytes.len() {
            Err(TupleError::DataPastEnd { hoff: self.header.hoff(), len: self.bytes.len() })
        } else if bitmap.end > hoff {
            Err(TupleError::BitmapPastData { bitmap_end: bitmap.end, hoff: self.header.hoff() })
        } else {
            Ok((hoff, &self.bytes[bitmap]))
        }
    }
}

/// The 23 bytes that open a heap tuple, as drawn at the top of this file. Any 23 bytes are one.
#[doc(alias = "HeapTupleHeaderData")]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TupleHeader {
    pub(crate) xmin: U32,
    pub(crate) xmax: U32,
    pub(crate) field3: U32,
    pub(crate) ctid: ItemPointerData,
    pub(crate) infomask2: U16,
    pub(crate) infomask: U16,
    pub(crate) hoff: u8,
}
const _: () = assert!(size_of::<TupleHeader>() == 23 && align_of::<TupleHeader>() == 1);
const _: () = assert!(TupleHeader::MIN_TUPLE_LEN as usize == maxalign(TupleHeader::LEN));

impl TupleHeader {
    /// In bytes, without the null bitmap.
    #[doc(alias = "SizeofHeapTupleHeader")]
    pub const LEN: usize = size_of::<Self>();
    /// The shortest tuple there is: the header and its padding.
    #[doc(alias = "MinHeapTupleSize")]
    pub const MIN_TUPLE_LEN: u16 = 24;

    /// The transaction that inserted the tuple, also when the tuple is frozen.
    #[doc(alias = "t_xmin")]
    #[must_use]
    pub fn xmin(&self) -> Xid {
        Xid::new(self.xmin.get())
    }

    /// The transaction that deleted, updated or locked the tuple; a multixact id if
    /// [`Infomask::XMAX_IS_MULTI`] says so.
    #[doc(alias = "t_xmax")]
    #[must_use]
    pub fn xmax(&self) -> Xid {
        Xid::new(self.xmax.get())
    }

    /// The command that inserted or deleted the tuple within its transaction, or a combination of
    /// both; before 9.0 the transaction that moved it.
    #[doc(alias = "t_cid")]
    #[doc(alias = "t_xvac")]
    #[must_use]
    pub fn field3(&self) -> u32 {
        self.field3.get()
    }

    /// Where the next version of the row is; the tuple's own place when there is none.
    #[doc(alias = "t_ctid")]
    #[must_use]
    pub fn ctid(&self) -> ItemPointer {
        self.ctid.get()
    }

    /// What the tuple holds and what is known of its transactions.
    #[doc(alias = "t_infomask")]
    #[inline]
    #[must_use]
    pub fn infomask(&self) -> Infomask {
        Infomask::from_bits_retain(self.infomask.get())
    }

    /// The flags that share a word with [`natts`](Self::natts), which is masked out.
    #[doc(alias = "t_infomask2")]
    #[inline]
    #[must_use]
    pub fn infomask2(&self) -> Infomask2 {
        Infomask2::from_bits_retain(self.infomask2.get() & !Infomask2::NATTS_MASK)
    }

    /// How many attributes the tuple has: `0..=2047`, and fewer than the table where columns were
    /// added later.
    #[doc(alias = "HeapTupleHeaderGetNatts")]
    #[inline]
    #[must_use]
    pub fn natts(&self) -> u16 {
        self.infomask2.get() & Infomask2::NATTS_MASK
    }

    /// Where the attributes start, in bytes from the start of the tuple.
    #[doc(alias = "t_hoff")]
    #[inline]
    #[must_use]
    pub const fn hoff(&self) -> u8 {
        self.hoff
    }

    /// Length of the null bitmap in bytes; 0 when there is none.
    #[doc(alias = "BITMAPLEN")]
    #[inline]
    #[must_use]
    pub fn bitmap_len(&self) -> usize {
        if self.infomask().contains(Infomask::HAS_NULL) {
            usize::from(self.natts()).div_ceil(8)
        } else {
            0
        }
    }

    /// What [`hoff`](Self::hoff) has to be: header and bitmap, padded.
    #[inline]
    #[must_use]
    pub fn expected_hoff(&self) -> usize {
        maxalign(Self::LEN + self.bitmap_len())
    }

    /// Whether the tuple is visible to everyone as far as its insertion goes.
    #[doc(alias = "HeapTupleHeaderXminFrozen")]
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.infomask().contains(Infomask::XMIN_FROZEN) || self.xmin() == Xid::FROZEN
    }

    /// Whether xmax, if it means anything, only locks the tuple.
    #[doc(alias = "HEAP_XMAX_IS_LOCKED_ONLY")]
    #[must_use]
    pub fn is_locked_only(&self) -> bool {
        let infomask = self.infomask();
        let exclusive_alone = Infomask::XMAX_IS_MULTI.union(Infomask::LOCK_MASK);
        infomask.contains(Infomask::XMAX_LOCK_ONLY)
            || infomask.intersection(exclusive_alone) == Infomask::XMAX_EXCL_LOCK
    }

    /// Whether the next version is a heap-only tuple of the same page, to be found through
    /// [`ctid`](Self::ctid); false as soon as a hint says that either transaction was undone.
    #[doc(alias = "HeapTupleHeaderIsHotUpdated")]
    #[must_use]
    pub fn is_hot_updated(&self) -> bool {
        let infomask = self.infomask();
        self.infomask2().contains(Infomask2::HOT_UPDATED)
            && !infomask.contains(Infomask::XMAX_INVALID)
            && infomask.intersection(Infomask::XMIN_FROZEN) != Infomask::XMIN_INVALID
    }

    /// Whether no index entry leads here, only an older version of the row.
    #[doc(alias = "HeapTupleHeaderIsHeapOnly")]
    #[must_use]
    pub fn is_heap_only(&self) -> bool {
        self.infomask2().contains(Infomask2::HEAP_ONLY)
    }
}
