//! How a store is made and opened.
use core::fmt;
use std::sync::Arc;

use pgtoast_base::BlockSize;

use crate::buffer::PoolOptions;
use crate::toast::{ValueIdEvent, ValueIdListener};

/// How a store is made, and how it is opened.
#[derive(Clone)]
pub struct StoreOptions {
    pub(crate) block_size: Option<BlockSize>,
    pub(crate) checksums: bool,
    pub(crate) segment_blocks: Option<u32>,
    pub(crate) buffer_bytes: usize,
    pub(crate) io_combine_limit: u32,
    pub(crate) cache_bytes: u64,
    pub(crate) next_value_id: Option<u64>,
    pub(crate) listener: Option<Arc<ValueIdListener>>,
}

impl Default for StoreOptions {
    /// A store of 8 KiB pages with checksums, as servers have them by default, and 128 MiB of them in memory.
    fn default() -> Self {
        let pool = PoolOptions::default();
        Self {
            block_size: None,
            checksums: pool.checksums,
            segment_blocks: None,
            buffer_bytes: pool.bytes,
            io_combine_limit: pool.io_combine_limit,
            cache_bytes: 0,
            next_value_id: None,
            listener: None,
        }
    }
}

impl StoreOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The length of pages. A store keeps what it was made with; asked for anything else, it is not opened.
    #[doc(alias = "BLCKSZ")]
    #[must_use]
    pub fn block_size(mut self, block_size: BlockSize) -> Self {
        self.block_size = Some(block_size);
        self
    }

    /// Whether the pages of a new store carry checksums. One that is there keeps what it has.
    #[must_use]
    pub fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// How many blocks a file of a new store has at most; 1 GiB of them by default.
    #[doc(alias = "RELSEG_SIZE")]
    #[must_use]
    pub fn segment_blocks(mut self, blocks: u32) -> Self {
        self.segment_blocks = Some(blocks.max(1));
        self
    }

    /// How many bytes of pages are in memory at most.
    #[doc(alias = "shared_buffers")]
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// How many adjacent blocks one system call reads or writes at most.
    #[must_use]
    pub fn io_combine_limit(mut self, blocks: u32) -> Self {
        self.io_combine_limit = blocks.max(1);
        self
    }

    /// How many bytes of values that were fetched are kept for the next time; 0, which is none, by default.
    #[must_use]
    pub fn detoast_cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Where the counter of value ids goes on, instead of where it was.
    #[doc(alias = "pg_resetwal -o")]
    #[must_use]
    pub fn next_value_id(mut self, next: u64) -> Self {
        self.next_value_id = Some(next);
        self
    }

    /// Whom to tell when the search for a value id takes long: after a million ids that are taken, and then
    /// each time that they have doubled.
    #[must_use]
    pub fn on_value_id_search(
        mut self,
        listener: impl Fn(ValueIdEvent) + Send + Sync + 'static,
    ) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("block_size", &self.block_size)
            .field("checksums", &self.checksums)
            .field("segment_blocks", &self.segment_blocks)
            .field("buffer_bytes", &self.buffer_bytes)
            .field("io_combine_limit", &self.io_combine_limit)
            .field("cache_bytes", &self.cache_bytes)
            .field("next_value_id", &self.next_value_id)
            .finish_non_exhaustive()
    }
}
