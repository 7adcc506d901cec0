//! The bytes of a tuple, and how they are written; drawn one level up.
use pgtoast_base::{Alignment, ItemPointer, ItemPointerData};
use pgtoast_page::{Infomask, Infomask2};
use zerocopy::little_endian::{I32, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `pg_type.oid` of `tid` and `int8`.
pub(crate) const TID_TYPE: u32 = 27;
pub(crate) const INT8_TYPE: u32 = 20;

/// Header, bitmap and `chunk_seq`: where the first column starts that may be absent.
pub(super) const FIXED_LEN: usize = size_of::<Head>();
/// Of an array with one dimension and no nulls.
pub(super) const ARRAY_HEAD_LEN: usize = size_of::<ArrayHead>();
/// Where the data of a leaf with a 4-byte header starts.
pub(crate) const LEAF_HEAD_LEN: usize = FIXED_LEN + 4;

/// The bytes of a tuple before its first varlena.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Head {
    transactions: [u8; 12],
    ctid: ItemPointerData,
    pub(super) infomask2: U16,
    pub(super) infomask: U16,
    pub(super) hoff: u8,
    pub(super) bitmap: u8,
    pub(super) seq: I32,
}
const _: () = assert!(size_of::<Head>() == 28 && HOFF as usize + 4 == size_of::<Head>());

pub(super) const HOFF: u8 = 24;
pub(super) const ATTRIBUTES: u16 = 5;
/// Before the last two columns were added.
pub(super) const OLD_ATTRIBUTES: u16 = 3;
pub(super) const COUNT_MASK: u16 = Infomask2::NATTS_MASK;
pub(super) const BITMAP_MASK: u8 = 0x1f;
const SEQ_BIT: u8 = 0x02;
const DATA_BIT: u8 = 0x04;
const TIDS_BIT: u8 = 0x08;
const BOUNDS_BIT: u8 = 0x10;
pub(super) const LEAF_BITMAP: u8 = SEQ_BIT | DATA_BIT;

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ArrayHead {
    length_word: U32,
    dimensions: I32,
    data_offset: I32,
    element_type: U32,
    count: I32,
    lower_bound: I32,
}
const _: () = assert!(size_of::<ArrayHead>() == 24);

/// How long the tuple of a leaf with so many bytes of data is.
pub(crate) const fn leaf_len(data: usize) -> usize {
    LEAF_HEAD_LEN + data
}

/// How long the tuple of a flat root with so many bytes of data and children is.
pub(crate) const fn flat_root_len(data: usize, children: usize) -> usize {
    Alignment::Int.up(leaf_len(data)) + ARRAY_HEAD_LEN + 6 * children
}

/// How long the tuple of an interior node is; only roots may have data.
pub(crate) const fn node_len(data: Option<usize>, children: usize) -> usize {
    let start = match data {
        Some(data) => Alignment::Int.up(leaf_len(data)),
        None => FIXED_LEN,
    };
    let tids = Alignment::Double.up(start + ARRAY_HEAD_LEN + 6 * children);
    tids + ARRAY_HEAD_LEN + 8 * (children + 1)
}

/// Which of the columns that may be null are not.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    pub(crate) data: bool,
    pub(crate) tids: bool,
    pub(crate) bounds: bool,
}

/// Writes header, bitmap and number, and says where they end.
#[inline]
pub(crate) fn encode_head(target: &mut [u8], columns: Columns, seq: i32) -> usize {
    let bit = |is_there: bool, bit| if is_there { bit } else { 0 };
    let head = Head {
        transactions: [0; 12],
        ctid: ItemPointerData::new(ItemPointer::INVALID),
        infomask2: U16::new(ATTRIBUTES),
        infomask: U16::new(Infomask::HAS_NULL.union(Infomask::HAS_VARWIDTH).bits()),
        hoff: HOFF,
        bitmap: SEQ_BIT
            | bit(columns.data, DATA_BIT)
            | bit(columns.tids, TIDS_BIT)
            | bit(columns.bounds, BOUNDS_BIT),
        seq: I32::new(seq),
    };
    target[..FIXED_LEN].copy_from_slice(head.as_bytes());
    FIXED_LEN
}

/// Writes the length word of so many bytes of data.
#[inline]
pub(crate) fn encode_data_head(target: &mut [u8], len: usize) {
    target[..4].copy_from_slice(&length_word(len + 4));
}

/// A datum's length with its header, shifted as a 4-byte header has it.
#[expect(clippy::cast_possible_truncation, reason = "a tuple has at most 32 KiB")]
fn length_word(len: usize) -> [u8; 4] {
    ((len as u32) << 2).to_le_bytes()
}

/// Zeros up to the alignment, and where they end.
pub(crate) fn pad(target: &mut [u8], end: usize, alignment: Alignment) -> usize {
    let start = alignment.up(end);
    target[end..start].fill(0);
    start
}

/// Writes an array at `start` and says where it ends.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a tuple has at most 32 KiB"
)]
pub(crate) fn encode_array(
    target: &mut [u8],
    start: usize,
    element_type: u32,
    count: usize,
    elements: &[u8],
) -> usize {
    let head = ArrayHead {
        length_word: U32::from_bytes(length_word(ARRAY_HEAD_LEN + elements.len())),
        dimensions: I32::new(1),
        data_offset: I32::new(0),
        element_type: U32::new(element_type),
        count: I32::new(count as i32),
        lower_bound: I32::new(1),
    };
    let (data, end) = (start + ARRAY_HEAD_LEN, start + ARRAY_HEAD_LEN + elements.len());
    target[start..data].copy_from_slice(head.as_bytes());
    target[data..end].copy_from_slice(elements);
    end
}
