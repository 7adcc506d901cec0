//! Several bytes at once.

/// The four bytes from `at`, the first the lowest.
#[inline(always)]
pub(crate) fn four_bytes(source: &[u8], at: usize) -> u32 {
    source[at..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four))
}

/// The eight bytes from `at`, the first the lowest, if there are so many.
#[inline(always)]
pub(crate) fn eight_bytes(source: &[u8], at: usize) -> Option<u64> {
    source[at..].first_chunk().map(|eight| u64::from_le_bytes(*eight))
}

/// How many bytes two slices have in common at their start.
#[inline(always)]
pub(crate) fn common_len(here: &[u8], there: &[u8]) -> usize {
    let mut len = 0;
    while let Some(a) = here[len..].first_chunk::<8>()
        && let Some(b) = there[len..].first_chunk::<8>()
    {
        let unlike = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if unlike != 0 {
            return len + unlike.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    len + here[len..].iter().zip(&there[len..]).take_while(|(a, b)| a == b).count()
}
