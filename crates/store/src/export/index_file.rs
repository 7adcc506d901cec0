//! An index that is packed straight into its file.
use core::cell::RefCell;
use core::ops::{Deref, DerefMut};

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_nbtree::{IndexPages, Meta};

use super::relation_file::RelationFile;
use crate::StoreError;

/// Pages of a file, each read and written as it is asked for: who packs an index asks for each page a few
/// times, and holds the open ones himself.
pub(super) struct IndexFile {
    file: RefCell<RelationFile>,
    block_size: BlockSize,
    /// A page could not be written when it was let go.
    failure: RefCell<Option<StoreError>>,
}

impl IndexFile {
    pub(super) fn new(file: RelationFile) -> Self {
        let block_size = file.shape.block_size;
        Self { file: RefCell::new(file), block_size, failure: RefCell::new(None) }
    }

    /// Changes the metapage.
    pub(super) fn change_meta(&self, change: impl FnOnce(Meta) -> Meta) -> Result<(), StoreError> {
        let block = Meta::BLOCK;
        let mut page = self.page(block)?;
        let broken = |error| StoreError::Index {
            file: crate::StoreFile::Export { kind: crate::RelationKind::ToastIndex },
            error,
        };
        let meta = Meta::parse(&page).map_err(broken)?;
        change(meta).init(&mut page, self.block_size);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<RelationFile, StoreError> {
        match self.failure.into_inner() {
            Some(error) => Err(error),
            None => Ok(self.file.into_inner()),
        }
    }

    fn page(&self, block: BlockNumber) -> Result<FilePage<'_>, StoreError> {
        let bytes = self.file.borrow().read(block)?;
        Ok(FilePage { file: self, block, bytes, is_changed: false })
    }
}

/// A page that is written when it is let go, if it was changed.
pub(super) struct FilePage<'a> {
    file: &'a IndexFile,
    block: BlockNumber,
    bytes: Vec<u8>,
    is_changed: bool,
}

impl Deref for FilePage<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for FilePage<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.is_changed = true;
        &mut self.bytes
    }
}

impl Drop for FilePage<'_> {
    fn drop(&mut self) {
        if self.is_changed
            && let Err(error) = self.file.file.borrow().write(self.block, &mut self.bytes)
        {
            self.file.failure.borrow_mut().get_or_insert(error);
        }
    }
}

impl IndexPages for IndexFile {
    type Error = StoreError;
    type Read<'a> = FilePage<'a>;
    type Write<'a> = FilePage<'a>;

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn block_count(&self) -> Result<u32, StoreError> {
        Ok(self.file.borrow().blocks())
    }

    fn read(&self, block: BlockNumber) -> Result<Option<FilePage<'_>>, StoreError> {
        if block.get() < self.file.borrow().blocks() {
            self.page(block).map(Some)
        } else {
            Ok(None)
        }
    }

    fn write(&self, block: BlockNumber) -> Result<Option<FilePage<'_>>, StoreError> {
        self.read(block)
    }

    fn try_write(&self, block: BlockNumber) -> Result<Option<FilePage<'_>>, StoreError> {
        self.read(block)
    }

    fn extend(&self) -> Result<(BlockNumber, FilePage<'_>), StoreError> {
        let block = self.file.borrow_mut().extend()?;
        let bytes = vec![0; self.block_size.bytes()];
        Ok((block, FilePage { file: self, block, bytes, is_changed: false }))
    }

    fn take_free(&self) -> Option<BlockNumber> {
        None
    }

    fn put_free(&self, _: BlockNumber) {}

    fn next_xid(&self) -> u64 {
        0
    }

    fn is_past(&self, _: u64) -> bool {
        true
    }
}
