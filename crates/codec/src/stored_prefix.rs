//! How much of what is stored has to be fetched for the start of a value.
use pgtoast_varlena::CompressionMethod;

/// The compression info in front of a stored stream, in bytes.
#[doc(alias = "va_tcinfo")]
pub const COMPRESSION_INFO_LEN: usize = 4;

/// How many of the `stored_len` bytes of a value stored out of line are enough for its first
/// `raw_prefix_len` bytes, as the server reckons it. Both stored lengths count the 4 bytes of compression
/// info in front of the stream.
///
/// For pglz a share that grows with the prefix; for lz4 all of it, because the server has no bound
/// there. Ours is [`lz4::stored_prefix_len`](crate::lz4::stored_prefix_len), and
/// [`decompress_prefix`](crate::decompress_prefix) is content with it.
///
/// Source: `detoast.c`, `detoast_attr_slice` and `toast_fetch_datum_slice` (REL_18).
#[must_use]
pub fn stored_prefix_len(
    method: CompressionMethod,
    raw_prefix_len: usize,
    stored_len: usize,
) -> usize {
    match method {
        CompressionMethod::Pglz => {
            let stream_len =
                pgtoast_pglz::maximum_compressed_size(raw_prefix_len as u64, stored_len as u64);
            usize::try_from(stream_len)
                .unwrap_or(usize::MAX)
                .saturating_add(COMPRESSION_INFO_LEN)
                .min(stored_len)
        }
        CompressionMethod::Lz4 => stored_len,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pglz_needs_nine_bits_a_byte_a_tag_and_the_info_and_lz4_everything() {
        for (raw_prefix_len, stored_len, enough) in [
            (0, 100, 6),
            (1, 100, 8),
            (100, 1000, 119),
            (100, 119, 119),
            (100, 118, 118),
            (usize::MAX, 118, 118),
            (1, 3, 3),
        ] {
            let found = stored_prefix_len(CompressionMethod::Pglz, raw_prefix_len, stored_len);
            assert_eq!(found, enough, "{raw_prefix_len} of {stored_len}");
            let found = stored_prefix_len(CompressionMethod::Lz4, raw_prefix_len, stored_len);
            assert_eq!(found, stored_len);
        }
    }
}
