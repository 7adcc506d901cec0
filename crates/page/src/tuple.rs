//! The header of a heap tuple.
//!
//! ```text
//! byte 0      4      8       12     18          20         22     23              hoff
//!      | xmin | xmax | field3 | ctid | infomask2 | infomask | hoff | null bitmap … | attributes
//! ```
//! Source: `htup_details.h`, `HeapTupleHeaderData` (REL_18).
use pgtoast_base::{ItemPointer, ItemPointerData, Xid, maxalign};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The 23 bytes that open a heap tuple, as drawn at the top of this file. Any 23 bytes are one.
#[doc(alias = "HeapTupleHeaderData")]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TupleHeader {
    xmin: U32,
    xmax: U32,
    field3: U32,
    ctid: ItemPointerData,
    infomask2: U16,
    infomask: U16,
    hoff: u8,
}
const _: () = assert!(size_of::<TupleHeader>() == 23 && align_of::<TupleHeader>() == 1);
const _: () = assert!(TupleHeader::MIN_TUPLE_LEN as usize == maxalign(TupleHeader::LEN));

impl TupleHeader {
    /// In bytes, without the null bitmap.
    #[doc(alias = "SizeofHeapTupleHeader")]
    pub const LEN: usize = size_of::<Self>();
    /// The shortest tuple there is: the header, padded.
    #[doc(alias = "MinHeapTupleSize")]
    pub const MIN_TUPLE_LEN: u16 = 24;

    /// The transaction that inserted the tuple.
    #[doc(alias = "t_xmin")]
    #[must_use]
    pub fn xmin(&self) -> Xid {
        Xid::new(self.xmin.get())
    }

    /// The transaction that deleted or locked the tuple.
    #[doc(alias = "t_xmax")]
    #[must_use]
    pub fn xmax(&self) -> Xid {
        Xid::new(self.xmax.get())
    }

    /// Where the next version of the row is, or this very tuple.
    #[doc(alias = "t_ctid")]
    #[must_use]
    pub fn ctid(&self) -> ItemPointer {
        self.ctid.get()
    }
}
