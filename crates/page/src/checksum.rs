//! The checksum of a page: 32 lanes of a 32-bit FNV-1a variant, folded to 16 bits.
//!
//! ```text
//! page  | word 0 | word 1 | … | word 31 |   row 0, with the stored checksum taken as 0
//!       | word 32 …                     |   row 1
//!         …                                 to the last row, then two rows of zeros
//!           |        |            |
//!         lane 0   lane 1  …   lane 31      each: t = lane ^ word; lane = t * prime ^ t >> 17
//!           `--------^-----…------'-----> ^ block number, modulo 65535, plus 1
//! ```
//! The lanes do not depend on each other, so one plain loop over a row is compiled several times and
//! [`dispatch`] takes the widest version that the processor runs.
//!
//! Source: `storage/checksum_impl.h` (REL_18); the same since 9.3.
use pgtoast_base::{BlockNumber, BlockSize};

use crate::{Page, PageError, PageHeader};

mod dispatch;

/// Words side by side in a row.
const LANES: usize = 32;
/// Bytes of a row. Every block size is a multiple of it.
const ROW: usize = LANES * size_of::<u32>();
/// The FNV prime.
const PRIME: u32 = 16_777_619;
/// Where the lanes start.
#[rustfmt::skip]
const BASE: [u32; LANES] = [
    0x5b1f_36e9, 0xb852_5960, 0x02ab_50aa, 0x1de6_6d2a, 0x79ff_467a, 0x9bb9_f8a3, 0x217e_7cd2, 0x83e1_3d2c,
    0xf8d4_474f, 0xe39e_b970, 0x42c6_ae16, 0x9932_16fa, 0x7b09_3b5d, 0x98da_ff3c, 0xf718_902a, 0x0b1c_9cdb,
    0xe58f_764b, 0x1876_36bc, 0x5d7b_3bb1, 0xe73d_e7de, 0x92be_c979, 0xcca6_c0b2, 0x304a_0979, 0x85aa_43d4,
    0x7831_25bb, 0x6ca8_eaa2, 0xe407_eac6, 0x4b5c_fc3e, 0x9fbf_8c76, 0x15ca_20be, 0xf2ca_9fd3, 0x959b_d756,
];

impl Page<'_> {
    /// The checksum that the page should carry as block `block` of its fork: `1..=65535`.
    ///
    /// Blocks are counted through all segments of a fork: the first of the second 1 GiB file of
    /// 8 KiB blocks is 131072. A new page has no checksum; what comes out for one means nothing.
    #[doc(alias = "pg_checksum_page")]
    #[must_use]
    pub fn checksum(&self, block: BlockNumber) -> u16 {
        fold(dispatch::mix(self.bytes()), block)
    }

    /// Compares the stored checksum with the computed one. A new page passes: it has none.
    ///
    /// # Errors
    /// [`PageError::Checksum`] when they differ.
    pub fn verify_checksum(&self, block: BlockNumber) -> Result<(), PageError> {
        if self.is_new() {
            return Ok(());
        }
        let (expected, found) = (self.checksum(block), self.header().checksum());
        if expected == found { Ok(()) } else { Err(PageError::Checksum { expected, found }) }
    }

    /// [`checksum`](Self::checksum) as the build's own target compiles it, for benchmarks.
    #[doc(hidden)]
    #[must_use]
    pub fn checksum_baseline(&self, block: BlockNumber) -> u16 {
        fold(dispatch::mix_baseline(self.bytes()), block)
    }
}

/// Stores the checksum that `page` should carry as block `block` of its fork, and returns it. A new
/// page is left alone, as the server does: it has none.
///
/// # Errors
/// [`PageError::Length`] when `page` is not as long as a block.
#[doc(alias = "PageSetChecksumInplace")]
pub fn set_checksum(
    page: &mut [u8],
    block_size: BlockSize,
    block: BlockNumber,
) -> Result<Option<u16>, PageError> {
    let view = Page::new(page, block_size)?;
    if view.is_new() {
        return Ok(None);
    }
    let checksum = view.checksum(block);
    page[PageHeader::CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    Ok(Some(checksum))
}

/// All rows of a page, then two rows of zeros. Inlined into each of [`dispatch`]'s versions, so that
/// each compiles it for its own processor; written so that a row becomes a few vector operations.
#[inline(always)]
fn mix(page: &[u8]) -> u32 {
    let mut lanes = BASE;
    if let Some((first, rest)) = page.as_chunks::<ROW>().0.split_first() {
        let mut first = *first;
        first[PageHeader::CHECKSUM].fill(0);
        row(&mut lanes, &first);
        for bytes in rest {
            row(&mut lanes, bytes);
        }
    }
    row(&mut lanes, &[0; ROW]);
    row(&mut lanes, &[0; ROW]);
    // Upper half into lower half, so that this is vector work to the end.
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] ^= lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// One row. Words are little-endian wherever this runs and may lie at any address.
#[inline(always)]
fn row(lanes: &mut [u32; LANES], bytes: &[u8; ROW]) {
    for (lane, word) in lanes.iter_mut().zip(bytes.as_chunks().0) {
        *lane = step(*lane, u32::from_le_bytes(*word));
    }
}

/// One word into one lane.
#[inline(always)]
fn step(lane: u32, word: u32) -> u32 {
    let mixed = lane ^ word;
    mixed.wrapping_mul(PRIME) ^ (mixed >> 17)
}

/// 16 bits that are never zero, and differ when a page is read from another place than its own.
#[expect(clippy::cast_possible_truncation, reason = "at most 65535")]
fn fold(mixed: u32, block: BlockNumber) -> u16 {
    ((mixed ^ block.get()) % 65_535 + 1) as u16
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    /// The rule lane by lane, with nothing shared with the code above but the table.
    fn twin(page: &[u8], block: u32) -> u16 {
        let mut all = 0;
        for (lane, base) in BASE.into_iter().enumerate() {
            let mut hash = base;
            let rows = page.len() / 128;
            for at in (0..rows).map(|row| row * 128 + lane * 4) {
                let mut word = [page[at], page[at + 1], page[at + 2], page[at + 3]];
                if at == 8 {
                    (word[0], word[1]) = (0, 0);
                }
                let mixed = hash ^ u32::from_le_bytes(word);
                hash = mixed.wrapping_mul(16_777_619) ^ (mixed >> 17);
            }
            for _ in 0..2 {
                hash = hash.wrapping_mul(16_777_619) ^ (hash >> 17);
            }
            all ^= hash;
        }
        u16::try_from((all ^ block) % 65_535 + 1).unwrap()
    }

    #[test]
    fn every_compiled_version_answers_like_the_lane_by_lane_twin() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        // An interpreter takes its time.
        let sizes = if cfg!(miri) { &BlockSize::ALL[..1] } else { &BlockSize::ALL };
        for &size in sizes {
            // Eight starting offsets, so that every alignment of the buffer is read.
            let mut buffer = Vec::new();
            buffer.resize_with(size.bytes() + 8, || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                seed.to_le_bytes()[7]
            });
            for start in 0..8 {
                let bytes = &buffer[start..start + size.bytes()];
                let page = Page::new(bytes, size).unwrap();
                for block in [0, u32::MAX - 1] {
                    let expected = twin(bytes, block);
                    let block = BlockNumber::new(block);
                    assert_eq!(page.checksum(block), expected);
                    assert_eq!(page.checksum_baseline(block), expected);
                    for version in dispatch::versions() {
                        assert_eq!(fold(version(bytes), block), expected);
                    }
                }
            }
        }
    }
}
