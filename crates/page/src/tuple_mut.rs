//! Who made a tuple and who ended it: the part of its header that changes after it was formed.
//!
//! Source: `heapam.c`, `heap_prepare_insert` and `heap_delete`; `htup_details.h` (REL_18).
use core::fmt;

use pgtoast_base::{ItemPointer, ItemPointerData, Xid};
use zerocopy::FromBytes;

use crate::{HeapTuple, Infomask, Infomask2, TupleError, TupleHeader};

/// A heap tuple whose header may be changed. What it holds stays as it was formed.
pub struct HeapTupleMut<'a> {
    bytes: &'a mut [u8],
}

impl<'a> HeapTupleMut<'a> {
    /// Any bytes that are long enough for a header.
    ///
    /// # Errors
    /// [`TupleError::Length`].
    #[inline]
    pub const fn new(bytes: &'a mut [u8]) -> Result<Self, TupleError> {
        if bytes.len() < TupleHeader::LEN {
            return Err(TupleError::Length { needed: TupleHeader::LEN, found: bytes.len() });
        }
        Ok(Self { bytes })
    }

    /// All of the tuple, header included.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// All of the tuple, for as long as the buffer that it is in.
    #[must_use]
    pub const fn into_bytes(self) -> &'a mut [u8] {
        self.bytes
    }

    /// The tuple, to be read.
    #[must_use]
    pub fn tuple(&self) -> HeapTuple<'_> {
        HeapTuple::new(self.bytes).expect("as long as when it was wrapped")
    }

    /// The header, to be changed.
    #[inline]
    #[must_use]
    pub fn header_mut(&mut self) -> &mut TupleHeader {
        match TupleHeader::mut_from_prefix(self.bytes) {
            Ok((header, _)) => header,
            Err(_) => unreachable!("as long as when it was wrapped"),
        }
    }
}

impl fmt::Debug for HeapTupleMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HeapTupleMut").field(self.tuple().header()).finish()
    }
}

impl TupleHeader {
    /// The tuple was inserted by command `cid` of transaction `xmin`, and nobody has ended it.
    #[doc(alias = "heap_prepare_insert")]
    #[inline]
    pub fn set_inserted(&mut self, xmin: Xid, cid: u32) {
        let infomask = self.infomask().difference(Infomask::TRANSACTION_MASK);
        self.set_infomask(infomask.union(Infomask::XMAX_INVALID));
        self.set_infomask2(self.infomask2().difference(Infomask2::TRANSACTION_MASK));
        self.xmin.set(xmin.get());
        self.xmax.set(Xid::INVALID.get());
        self.field3.set(cid);
    }

    /// The tuple's insertion is visible to everyone. What `xmin` was stays readable.
    #[doc(alias = "HeapTupleHeaderSetXminFrozen")]
    #[inline]
    pub fn set_frozen(&mut self) {
        self.set_infomask(self.infomask().union(Infomask::XMIN_FROZEN));
    }

    /// The tuple is a newer version of a row, made by command `cid` of transaction `xmin`.
    #[doc(alias = "heap_update")]
    pub fn set_inserted_by_update(&mut self, xmin: Xid, cid: u32, update: RowUpdate) {
        self.set_inserted(xmin, cid);
        self.set_infomask(self.infomask().union(Infomask::UPDATED));
        if update == RowUpdate::Hot {
            self.set_infomask2(self.infomask2().union(Infomask2::HEAP_ONLY));
        }
    }

    /// The tuple at `tid` was deleted by command `cid` of transaction `xmax`; no version follows.
    #[doc(alias = "heap_delete")]
    pub fn set_deleted(&mut self, xmax: Xid, cid: u32, tid: ItemPointer) {
        self.set_ended(xmax, cid, tid, Infomask2::KEYS_UPDATED);
    }

    /// Command `cid` of transaction `xmax` put the version at `next` in the tuple's place.
    #[doc(alias = "heap_update")]
    pub fn set_updated(&mut self, xmax: Xid, cid: u32, next: ItemPointer, update: RowUpdate) {
        self.set_ended(xmax, cid, next, update.old_flags());
    }

    fn set_ended(&mut self, xmax: Xid, cid: u32, next: ItemPointer, flags: Infomask2) {
        let ended = Infomask::XMAX_BITS.union(Infomask::MOVED).union(Infomask::COMBO_CID);
        self.set_infomask(self.infomask().difference(ended));
        let infomask2 = self.infomask2().intersection(Infomask2::HEAP_ONLY);
        self.set_infomask2(infomask2.union(flags));
        self.xmax.set(xmax.get());
        self.field3.set(cid);
        self.set_ctid(next);
    }

    /// Where the row's next version is: the tuple's own place when there is none.
    #[inline]
    pub fn set_ctid(&mut self, tid: ItemPointer) {
        self.ctid = ItemPointerData::new(tid);
    }

    /// Replaces all flags of the first word. `HAS_NULL` decides where the attributes are.
    #[inline]
    pub fn set_infomask(&mut self, infomask: Infomask) {
        self.infomask.set(infomask.bits());
    }

    /// Replaces the flags of the second word; the number of attributes stays.
    #[inline]
    pub fn set_infomask2(&mut self, infomask2: Infomask2) {
        self.infomask2.set(infomask2.bits() & !Infomask2::NATTS_MASK | self.natts());
    }
}

/// What an update means for those who refer to the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowUpdate {
    /// No indexed column changed, and the new version is in the same page: no index names it.
    #[doc(alias = "HeapTupleIsHotUpdated")]
    Hot,
    /// The columns that other tables refer rows by are as they were.
    SameKey,
    /// They changed, which those who only lock the key have to wait for.
    NewKey,
}

impl RowUpdate {
    /// What the older version is marked with.
    const fn old_flags(self) -> Infomask2 {
        match self {
            Self::Hot => Infomask2::HOT_UPDATED,
            Self::SameKey => Infomask2::empty(),
            Self::NewKey => Infomask2::KEYS_UPDATED,
        }
    }
}
