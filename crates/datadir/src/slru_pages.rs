//! Pages of the logs about transactions.
//!
//! ```text
//! pg_xact                 2 bits a transaction     | 3 2 1 0 | 7 6 5 4 | …   4 a byte
//! pg_subtrans             4 bytes a transaction    | parent |
//! pg_multixact/offsets    4 bytes a multixact      | first member |
//! pg_multixact/members    20 bytes for 4 members   | 4 flag bytes | xid | xid | xid | xid |
//! ```
//! A segment is 32 pages of the block size, without headers and without checksums.
//!
//! Source: `slru.c`, `clog.c`, `subtrans.c`, `multixact.c` (REL_18).
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pgtoast_base::BlockSize;

use crate::{DataFile, DatadirError, Slru, Source};

/// Reads pages of the logs and keeps some.
#[derive(Debug)]
pub(crate) struct SlruPages {
    source: Arc<dyn Source>,
    block_size: BlockSize,
    kept: Mutex<HashMap<PageKey, Arc<[u8]>>>,
}

/// Which page of which log.
pub(crate) type PageKey = (Slru, u32);

/// How many pages are kept: 8 MiB of the usual size.
const KEPT_PAGES: usize = 1024;

impl SlruPages {
    pub(crate) fn new(source: Arc<dyn Source>, block_size: BlockSize) -> Self {
        Self { source, block_size, kept: Mutex::default() }
    }

    pub(crate) const fn block_bytes(&self) -> u32 {
        self.block_size.bytes_u16() as u32
    }

    /// `N` bytes at `offset` of a page, which are about `id`.
    pub(crate) fn bytes<const N: usize>(
        &self,
        key: PageKey,
        offset: usize,
        id: u32,
    ) -> Result<[u8; N], DatadirError> {
        bytes_at(&self.page(key, id)?, key, offset, id)
    }

    /// The page, as much of it as there is.
    pub(crate) fn page(&self, key: PageKey, id: u32) -> Result<Arc<[u8]>, DatadirError> {
        // Pages are put in whole, so a panic elsewhere does not spoil the map.
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = lock().get(&key) {
            return Ok(Arc::clone(page));
        }
        let page: Arc<[u8]> = self.read(key, id)?.into();
        let mut kept = lock();
        if kept.len() >= KEPT_PAGES {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&page));
        Ok(page)
    }

    fn read(&self, key: PageKey, id: u32) -> Result<Vec<u8>, DatadirError> {
        let (file, index) = place(key);
        let mut bytes = vec![0; self.block_size.bytes()];
        let offset = u64::from(index) * self.block_size.bytes() as u64;
        match self.source.read_at(file, offset, &mut bytes) {
            Ok(found) => {
                bytes.truncate(found);
                Ok(bytes)
            }
            Err(DatadirError::FileMissing { file }) => {
                Err(DatadirError::StatusMissing { log: key.0, id, file })
            }
            Err(error) => Err(error),
        }
    }
}

/// `N` bytes at `offset` of a page that may be cut off.
pub(crate) fn bytes_at<const N: usize>(
    page: &[u8],
    key: PageKey,
    offset: usize,
    id: u32,
) -> Result<[u8; N], DatadirError> {
    match page.get(offset..).and_then(<[u8]>::first_chunk) {
        Some(bytes) => Ok(*bytes),
        None => Err(DatadirError::StatusMissing { log: key.0, id, file: place(key).0 }),
    }
}

/// The segment that a page is in, and which page of it.
fn place((log, page): PageKey) -> (DataFile, u32) {
    let segment = page / Slru::PAGES_PER_SEGMENT;
    (DataFile::Slru { log, segment }, page % Slru::PAGES_PER_SEGMENT)
}
