//! How large a stream or a value can be, known from the other side's size alone.
use crate::format::{GROUP_ITEMS, ITEM_MAX, MATCH_MAX};

/// The size of target that [`Compressor::compress`](crate::Compressor::compress) asks for: four
/// bytes more than the source, because the compressor looks at its limit before an item and an item
/// with its control byte has at most four bytes.
///
/// Source: `pg_lzcompress.h`, `PGLZ_MAX_OUTPUT` (REL_18).
#[doc(alias = "PGLZ_MAX_OUTPUT")]
#[must_use]
pub const fn maximum_output_size(raw: usize) -> usize {
    raw.saturating_add(1 + ITEM_MAX)
}

/// How many bytes from the start of a stream of `total` bytes are enough to decompress the first
/// `raw` bytes of its value.
///
/// Nine bits carry a byte at worst, and the last item may be a tag that reaches beyond `raw`, which
/// adds two. Both sizes in bytes, in 64-bit arithmetic; an overflow means "all of it".
///
/// Source: `pg_lzcompress.c`, `pglz_maximum_compressed_size` (REL_18; before 13 the two bytes were missing).
#[doc(alias = "pglz_maximum_compressed_size")]
#[must_use]
pub const fn maximum_compressed_size(raw: u64, total: u64) -> u64 {
    match raw.checked_mul(9) {
        Some(bits) => {
            let enough = bits.saturating_add(7) / 8 + 2;
            if enough < total { enough } else { total }
        }
        None => total,
    }
}

/// The most bytes any stream of `compressed` bytes can decompress to: eight longest matches from
/// every 25 bytes. A stored length above it is a lie that needs no buffer to be found out.
#[must_use]
pub const fn maximum_raw_size(compressed: u64) -> u64 {
    const GROUP: u64 = (1 + GROUP_ITEMS * ITEM_MAX) as u64;
    let tags = (compressed % GROUP).saturating_sub(1).div_ceil(ITEM_MAX as u64);
    let groups = compressed / GROUP;
    groups.saturating_mul((GROUP_ITEMS * MATCH_MAX) as u64).saturating_add(tags * MATCH_MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_needs_nine_bits_a_byte_and_one_tag_more() {
        for (raw, total, enough) in [
            (0, 100, 2),
            (1, 100, 4),
            (7, 100, 10),
            (8, 100, 11),
            (100, 1000, 115),
            (100, 50, 50),
            (0x3fff_fffb, u64::MAX, 1_207_959_549),
            (u64::MAX, 77, 77),
            (u64::MAX / 9, u64::MAX, u64::MAX / 8 + 2),
        ] {
            assert_eq!(maximum_compressed_size(raw, total), enough, "raw {raw} of {total}");
        }
    }

    #[test]
    fn a_group_holds_at_most_eight_longest_matches() {
        for (compressed, raw) in
            [(0, 0), (1, 0), (2, 273), (4, 273), (5, 546), (25, 2184), (26, 2184), (27, 2457)]
        {
            assert_eq!(maximum_raw_size(compressed), raw, "compressed {compressed}");
        }
        assert_eq!(maximum_raw_size(u64::MAX), u64::MAX);
    }
}
