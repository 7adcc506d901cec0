//! Where bytes come from.
use core::fmt;
use std::io::IoSliceMut;
use std::sync::Arc;

use crate::{DataFile, DatadirError, Folder};

/// The bytes of a data directory. Everything this crate reads comes through one.
///
/// It reads and never writes. Several threads may read at once. A file may change or vanish between
/// two calls; that is an error that names the file, or fewer bytes.
pub trait Source: fmt::Debug + Send + Sync {
    /// How long the file is, in bytes; `None` if there is no such file.
    ///
    /// # Errors
    /// [`DatadirError::Io`], [`DatadirError::FileKind`].
    fn file_len(&self, file: DataFile) -> Result<Option<u64>, DatadirError>;

    /// Reads from byte `offset` on into the buffers, one behind the other, and says how many bytes
    /// came. Fewer than asked for is the end of the file, as it is now.
    ///
    /// # Errors
    /// [`DatadirError::FileMissing`], [`DatadirError::FileKind`], [`DatadirError::Io`].
    fn read_vectored_at(
        &self,
        file: DataFile,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<usize, DatadirError>;

    /// The names in a folder, in no order. Anything may be among them.
    ///
    /// # Errors
    /// [`DatadirError::FolderIo`], also when there is no such folder.
    fn list(&self, folder: Folder) -> Result<Vec<String>, DatadirError>;

    /// Reads from byte `offset` on into one buffer; otherwise as
    /// [`read_vectored_at`](Self::read_vectored_at).
    ///
    /// # Errors
    /// As there.
    fn read_at(
        &self,
        file: DataFile,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, DatadirError> {
        self.read_vectored_at(file, offset, &mut [IoSliceMut::new(buffer)])
    }

    /// Fills the buffer from byte `offset` on.
    ///
    /// # Errors
    /// Those of [`read_at`](Self::read_at), and [`DatadirError::FileShort`].
    fn read_exact_at(
        &self,
        file: DataFile,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), DatadirError> {
        let (needed, found) = (buffer.len(), self.read_at(file, offset, buffer)?);
        if found == needed {
            Ok(())
        } else {
            Err(DatadirError::FileShort { file, offset, needed, found })
        }
    }

    /// All of a small file, or its first `limit` bytes.
    ///
    /// # Errors
    /// Those of [`read_at`](Self::read_at).
    fn read_start(&self, file: DataFile, limit: usize) -> Result<Vec<u8>, DatadirError> {
        let len = self.file_len(file)?.ok_or(DatadirError::FileMissing { file })?;
        let mut bytes = vec![0; usize::try_from(len).map_or(limit, |len| len.min(limit))];
        let found = self.read_at(file, 0, &mut bytes)?;
        bytes.truncate(found);
        Ok(bytes)
    }
}

impl<S: Source + ?Sized> Source for Arc<S> {
    fn file_len(&self, file: DataFile) -> Result<Option<u64>, DatadirError> {
        (**self).file_len(file)
    }

    fn read_vectored_at(
        &self,
        file: DataFile,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<usize, DatadirError> {
        (**self).read_vectored_at(file, offset, buffers)
    }

    fn list(&self, folder: Folder) -> Result<Vec<String>, DatadirError> {
        (**self).list(folder)
    }
}
