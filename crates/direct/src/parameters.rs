//! How a chunk relation cuts its values and shapes their trees.
//!
//! ```text
//!                     1 KiB   2 KiB   4 KiB   8 KiB  16 KiB  32 KiB
//! chunk, oid            204     460     972    1996    4044    8140
//! chunk, oid8           200     456     968    1992    4040    8136
//! chunk, resilient      192     448     960    1984    4032    8128     16 more bytes are a trailer
//! ```
//! Four full leaves fill a page. The null `chunk_id` frees the bytes of an id in each leaf; a trailer
//! goes there, a longer chunk does not, so that plain and direct values are cut alike.
//!
//! Source: the Direct TOAST proposal (`DIRECT_TOAST_TREE_THRESHOLD`, `DIRECT_TOAST_FANOUT`,
//! `DIRECT_TOAST_MAX_DEPTH`); `heaptoast.h`, `TOAST_MAX_CHUNK_SIZE` (REL_18).
use pgtoast_base::{BlockSize, maxalign, maxalign_down};
use pgtoast_page::Page;
use pgtoast_varlena::MAX_PAYLOAD_LEN;

use crate::DirectError;
use crate::chunk_tuple::{flat_root_len, leaf_len, node_len};
use crate::group::GROUP_HEADER_LEN;
use crate::trailer::TRAILER_LEN;

/// What all values of a relation have in common. One relation, one set of parameters: readers check
/// what they read against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    chunk_bytes: u16,
    fanout: u16,
    flat_chunks: u16,
    has_trailer: bool,
    block_size: BlockSize,
}

impl Parameters {
    /// The most levels of interior nodes above the leaves.
    #[doc(alias = "DIRECT_TOAST_MAX_DEPTH")]
    pub const MAX_DEPTH: usize = 16;
    /// The least bytes of a full leaf: chunk numbers stay well inside 30 bits.
    pub const MIN_CHUNK_BYTES: usize = 16;

    /// What a relation with 32-bit value ids uses.
    #[must_use]
    pub const fn oid(block_size: BlockSize) -> Self {
        Self::of(block_size, 4)
    }

    /// What a relation with 64-bit value ids uses.
    #[must_use]
    pub const fn oid8(block_size: BlockSize) -> Self {
        Self::of(block_size, 8)
    }

    /// Values that survive the loss of their roots and interior nodes: each leaf ends in a trailer that
    /// says whose it is, and no root of several chunks holds data of its own.
    #[must_use]
    pub const fn resilient(block_size: BlockSize) -> Self {
        let plain = Self::of(block_size, 4);
        Self { chunk_bytes: plain.chunk_bytes - 12, flat_chunks: 1, has_trailer: true, ..plain }
    }

    const fn of(block_size: BlockSize, id_len: usize) -> Self {
        // Four tuples share what the page header and their line pointers leave.
        let tuple = maxalign_down((block_size.bytes() - maxalign(24 + 4 * 4)) / 4);
        #[expect(clippy::cast_possible_truncation, reason = "a quarter of at most 32 KiB")]
        let chunk_bytes = (tuple - 24 - id_len - 4 - 4) as u16;
        Self { chunk_bytes, fanout: 50, flat_chunks: 100, has_trailer: false, block_size }
    }

    /// Full leaves of so many bytes of the value.
    ///
    /// # Errors
    /// [`DirectError::Parameter`] for fewer than [`MIN_CHUNK_BYTES`](Self::MIN_CHUNK_BYTES), or when a
    /// tuple would not fit a page.
    pub fn with_chunk_bytes(self, chunk_bytes: usize) -> Result<Self, DirectError> {
        let limit = Page::max_tuple_len(self.block_size);
        let error = |least, most| {
            Err(DirectError::Parameter { name: "chunk bytes", found: chunk_bytes, least, most })
        };
        match u16::try_from(chunk_bytes) {
            Ok(bytes) if chunk_bytes >= Self::MIN_CHUNK_BYTES => {
                Self { chunk_bytes: bytes, ..self }.validated()
            }
            _ => error(Self::MIN_CHUNK_BYTES, limit.into()),
        }
    }

    /// Interior nodes of up to so many children.
    ///
    /// # Errors
    /// [`DirectError::Parameter`] for fewer than 2, or when a tuple would not fit a page.
    pub fn with_fanout(self, fanout: usize) -> Result<Self, DirectError> {
        let most = usize::from(Page::max_tuple_len(self.block_size)) / 14;
        match u16::try_from(fanout) {
            Ok(count) if count >= 2 => Self { fanout: count, ..self }.validated(),
            _ => Err(DirectError::Parameter { name: "fanout", found: fanout, least: 2, most }),
        }
    }

    /// Values of up to so many chunks have one root that holds the last of them and the ids of the
    /// others; 1 for no such values.
    ///
    /// # Errors
    /// [`DirectError::Parameter`] for 0, or when a tuple would not fit a page.
    pub fn with_flat_chunks(self, flat_chunks: usize) -> Result<Self, DirectError> {
        let most = usize::from(Page::max_tuple_len(self.block_size)) / 6;
        match u16::try_from(flat_chunks) {
            Ok(count) if count >= 1 => Self { flat_chunks: count, ..self }.validated(),
            _ => Err(DirectError::Parameter {
                name: "flat chunks",
                found: flat_chunks,
                least: 1,
                most,
            }),
        }
    }

    fn validated(self) -> Result<Self, DirectError> {
        let most = usize::from(Page::max_tuple_len(self.block_size));
        let data = self.chunk_bytes() + self.trailer_len() + GROUP_HEADER_LEN;
        let flat = flat_root_len(data, self.flat_chunks().saturating_sub(1));
        let node = node_len(Some(GROUP_HEADER_LEN + self.trailer_len()), self.fanout());
        let longest = leaf_len(data).max(flat).max(node);
        if longest > most {
            let least = leaf_len(Self::MIN_CHUNK_BYTES);
            return Err(DirectError::Parameter {
                name: "tuple bytes",
                found: longest,
                least,
                most,
            });
        }
        Ok(self)
    }

    /// The bytes of the value in every leaf but the last.
    #[doc(alias = "TOAST_MAX_CHUNK_SIZE")]
    #[must_use]
    pub const fn chunk_bytes(&self) -> usize {
        self.chunk_bytes as usize
    }

    /// The most children of an interior node.
    #[doc(alias = "DIRECT_TOAST_FANOUT")]
    #[must_use]
    pub const fn fanout(&self) -> usize {
        self.fanout as usize
    }

    /// The most chunks of a value whose root is its last chunk.
    #[doc(alias = "DIRECT_TOAST_TREE_THRESHOLD")]
    #[must_use]
    pub const fn flat_chunks(&self) -> usize {
        self.flat_chunks as usize
    }

    /// Whether each leaf ends in a trailer.
    #[must_use]
    pub const fn has_trailer(&self) -> bool {
        self.has_trailer
    }

    /// The page size that tuples have to fit.
    #[must_use]
    pub const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// How many chunks hold so many stored bytes.
    #[must_use]
    pub const fn chunk_count(&self, stored_len: usize) -> usize {
        stored_len.div_ceil(self.chunk_bytes())
    }

    /// The most stored bytes of a value: what a datum can have, or what the deepest tree can.
    #[must_use]
    pub fn max_stored_len(&self) -> usize {
        let mut reach = self.chunk_bytes();
        for _ in 0..Self::MAX_DEPTH {
            reach = reach.saturating_mul(self.fanout());
        }
        reach.min(MAX_PAYLOAD_LEN)
    }

    pub(crate) const fn trailer_len(&self) -> usize {
        if self.has_trailer { TRAILER_LEN } else { 0 }
    }
}

impl Default for Parameters {
    /// [`oid`](Self::oid) on 8 KiB pages: chunks of 1996 bytes.
    fn default() -> Self {
        Self::oid(BlockSize::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_proposals() {
        let parameters = Parameters::default();
        assert_eq!(parameters.chunk_bytes(), 1996);
        assert_eq!((parameters.fanout(), parameters.flat_chunks()), (50, 100));
        assert_eq!(Parameters::oid8(BlockSize::KIB_8).chunk_bytes(), 1992);
        assert_eq!(Parameters::resilient(BlockSize::KIB_8).chunk_bytes(), 1984);
        assert_eq!(parameters.max_stored_len(), (1 << 30) - 5);
        // 537 946 leaves, and levels of 10 759, 216, 5 and 1 above them.
        assert_eq!(parameters.chunk_count((1 << 30) - 5), 537_947);
    }

    #[test]
    fn every_default_fits_its_page_and_four_leaves_share_one() {
        for size in BlockSize::ALL {
            for parameters in
                [Parameters::oid(size), Parameters::oid8(size), Parameters::resilient(size)]
            {
                assert_eq!(parameters.validated(), Ok(parameters), "{size}");
                let leaf = leaf_len(parameters.chunk_bytes() + parameters.trailer_len());
                assert!(4 * (maxalign(leaf) + 4) + 24 <= size.bytes(), "{size}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let defaults = Parameters::default();
        let is_parameter = |made: Result<Parameters, DirectError>| {
            matches!(made, Err(DirectError::Parameter { .. }))
        };
        assert!(is_parameter(defaults.with_chunk_bytes(15)));
        assert!(is_parameter(defaults.with_chunk_bytes(8000)));
        assert!(is_parameter(defaults.with_chunk_bytes(70_000)));
        assert!(is_parameter(defaults.with_fanout(1)));
        assert!(is_parameter(defaults.with_fanout(600)));
        assert!(is_parameter(defaults.with_flat_chunks(0)));
        assert!(is_parameter(defaults.with_flat_chunks(2000)));
        let deep = defaults.with_chunk_bytes(16).and_then(|it| it.with_fanout(2)).unwrap();
        assert_eq!(deep.max_stored_len(), 16 << 16);
    }
}
