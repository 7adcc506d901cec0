//! How a TOAST relation cuts its values: the width of their ids, and the bytes of a full chunk.
use core::num::NonZeroU16;

use pgtoast_base::{BlockSize, Oid8};

use crate::{ToastError, thresholds};

/// The width of a relation's value ids, its `chunk_id` column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ValueIdWidth {
    /// 32 bits: every release so far.
    #[default]
    Oid,
    /// 64 bits: the coming release, where the table asks for it.
    Oid8,
}

impl ValueIdWidth {
    /// In bytes: 4 or 8.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Oid => 4,
            Self::Oid8 => 8,
        }
    }

    /// Whether a value can have this id.
    ///
    /// # Errors
    /// [`ToastError::ValueId`] for 0, which stands for none, and for an id that is too wide.
    pub const fn check(self, value_id: Oid8) -> Result<(), ToastError> {
        let id = value_id.get();
        let is_narrow = id <= u32::MAX as u64;
        match self {
            Self::Oid if id == 0 || !is_narrow => {
                Err(ToastError::ValueId { found: value_id, bits: 32 })
            }
            Self::Oid8 if id == 0 => Err(ToastError::ValueId { found: value_id, bits: 64 }),
            _ => Ok(()),
        }
    }
}

/// The payload bytes of every chunk of a value but its last: 1..=65535.
///
/// Servers compile it in and note it in their control file. Some that were upgraded from an older
/// build hold relations with another size, so it is never taken for granted here: see
/// [`infer_chunk_size`](crate::infer_chunk_size).
#[doc(alias = "TOAST_MAX_CHUNK_SIZE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkSize(NonZeroU16);

impl ChunkSize {
    /// So many bytes, or `None` for zero and for more than any page holds.
    #[must_use]
    pub fn new(bytes: usize) -> Option<Self> {
        u16::try_from(bytes).ok().and_then(NonZeroU16::new).map(Self)
    }

    /// What a server uses: four chunks with their headers and columns fill a page.
    #[must_use]
    pub const fn of(block_size: BlockSize, width: ValueIdWidth) -> Self {
        let header_seq_and_length = 24 + 4 + 4;
        let bytes = thresholds::chunk_tuple_len(block_size) - header_seq_and_length - width.bytes();
        #[expect(clippy::cast_possible_truncation, reason = "a block has at most 32 KiB")]
        match NonZeroU16::new(bytes as u16) {
            Some(bytes) => Self(bytes),
            None => panic!("the smallest block has room for four chunks"),
        }
    }

    /// In bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0.get() as usize
    }
}

impl Default for ChunkSize {
    /// Of 8 KiB blocks and 32-bit ids.
    fn default() -> Self {
        Self::of(BlockSize::default(), ValueIdWidth::Oid)
    }
}
