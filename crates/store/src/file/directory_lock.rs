use std::io::ErrorKind;

use crate::disk::{Disk, DiskLock};
use crate::{StoreError, StoreFile};

/// Says that a directory is open, until dropped or the process ends.
#[doc(alias = "postmaster.pid")]
#[derive(Debug)]
pub struct DirectoryLock {
    _lock: Box<dyn DiskLock>,
}

impl DirectoryLock {
    /// Takes the lock of the directory.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if it is open already, here or in another process; [`StoreError::Io`].
    pub fn take(disk: &dyn Disk) -> Result<Self, StoreError> {
        match disk.lock(&StoreFile::Lock.path()) {
            Ok(lock) => Ok(Self { _lock: lock }),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(StoreError::Locked),
            Err(error) => Err(StoreError::io(StoreFile::Lock, 0, &error)),
        }
    }
}
