//! The sizes at which TOAST acts, for every block size.
//!
//! ```text
//! bytes_per_tuple(n) = down8((BLCKSZ - up8(24 + 4 n)) / n)      n tuples share a page with its header
//!
//!                            1 KiB   2 KiB   4 KiB   8 KiB  16 KiB  32 KiB
//! tuple_threshold  n = 4       240     496    1008    2032    4080    8176
//! main_target      n = 1       992    2016    4064    8160   16352   32736
//! chunk, oid                   204     460     972    1996    4044    8140
//! chunk, oid8                  200     456     968    1992    4040    8136
//! index_target                  62     126     254     510    1022    2046
//! ```
//! Source: `heaptoast.h`, `htup_details.h` (REL_18). The chunk sizes are [`ChunkSize::of`]'s.
//!
//! [`ChunkSize::of`]: crate::ChunkSize::of
use pgtoast_base::{BlockSize, MAXALIGN, maxalign, maxalign_down};

/// What opens each page, in bytes.
const PAGE_HEADER_LEN: usize = 24;
/// What each tuple takes in the array behind it, in bytes.
const LINE_POINTER_LEN: usize = 4;
/// Tuples of the threshold's length, and full chunks, that fit a page.
const TUPLES_PER_PAGE: usize = 4;

/// The least that a table may set as its target, in bytes. The most is [`main_target`].
#[doc(alias = "toast_tuple_target")]
pub const MIN_TUPLE_TARGET: usize = 128;

/// The most bytes that each of `tuples` tuples of equal length can take of one page.
///
/// # Panics
/// If `tuples` is zero, or more than can have a line pointer in the page.
#[doc(alias = "MaximumBytesPerTuple")]
#[must_use]
pub const fn bytes_per_tuple(block_size: BlockSize, tuples: usize) -> usize {
    let fixed = maxalign(PAGE_HEADER_LEN + LINE_POINTER_LEN * tuples);
    maxalign_down((block_size.bytes() - fixed) / tuples)
}

/// A tuple longer than this is toasted, whatever its table's target.
#[doc(alias = "TOAST_TUPLE_THRESHOLD")]
#[must_use]
pub const fn tuple_threshold(block_size: BlockSize) -> usize {
    bytes_per_tuple(block_size, TUPLES_PER_PAGE)
}

/// The length toasting aims at, unless the table sets another.
#[doc(alias = "TOAST_TUPLE_TARGET")]
#[must_use]
pub const fn tuple_target(block_size: BlockSize) -> usize {
    bytes_per_tuple(block_size, TUPLES_PER_PAGE)
}

/// The length it aims at before columns of storage `MAIN` go out of line: one tuple fills a page.
#[doc(alias = "TOAST_TUPLE_TARGET_MAIN")]
#[doc(alias = "MaxHeapTupleSize")]
#[must_use]
pub const fn main_target(block_size: BlockSize) -> usize {
    bytes_per_tuple(block_size, 1)
}

/// The longest tuple of a TOAST relation: a full chunk with its columns and header.
#[doc(alias = "EXTERN_TUPLE_MAX_SIZE")]
#[must_use]
pub const fn chunk_tuple_len(block_size: BlockSize) -> usize {
    bytes_per_tuple(block_size, TUPLES_PER_PAGE)
}

/// Attributes of an index tuple longer than this are compressed.
#[doc(alias = "TOAST_INDEX_TARGET")]
#[must_use]
pub const fn index_target(block_size: BlockSize) -> usize {
    main_target(block_size) / 16
}

const _: () = assert!(main_target(BlockSize::KIB_8).is_multiple_of(MAXALIGN));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChunkSize, ValueIdWidth};

    #[test]
    fn the_table_holds_for_every_block_size_and_both_widths() {
        for (block_size, threshold, main, oid, oid8, index) in [
            (BlockSize::KIB_1, 240, 992, 204, 200, 62),
            (BlockSize::KIB_2, 496, 2016, 460, 456, 126),
            (BlockSize::KIB_4, 1008, 4064, 972, 968, 254),
            (BlockSize::KIB_8, 2032, 8160, 1996, 1992, 510),
            (BlockSize::KIB_16, 4080, 16_352, 4044, 4040, 1022),
            (BlockSize::KIB_32, 8176, 32_736, 8140, 8136, 2046),
        ] {
            assert_eq!(tuple_threshold(block_size), threshold, "{block_size}");
            assert_eq!(tuple_target(block_size), threshold, "{block_size}");
            assert_eq!(chunk_tuple_len(block_size), threshold, "{block_size}");
            assert_eq!(main_target(block_size), main, "{block_size}");
            assert_eq!(index_target(block_size), index, "{block_size}");
            let chunk = |width| ChunkSize::of(block_size, width).bytes();
            assert_eq!(chunk(ValueIdWidth::Oid), oid, "{block_size}");
            assert_eq!(chunk(ValueIdWidth::Oid8), oid8, "{block_size}");
        }
    }

    #[test]
    fn four_full_chunks_leave_24_bytes_of_a_page() {
        let tuples = 4 * maxalign(24 + 4 + 4 + 4 + 1996);
        assert_eq!(8192 - 24 - 4 * 4 - tuples, 24);
    }
}
