//! Where a store's bytes are: a directory of files that are read and written by position. The real
//! one is [`FileDisk`]; a test brings one of its own, to fail where it wants.
use core::fmt::Debug;
use std::io::{self, IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};

mod file_disk;
mod open_files;

pub use file_disk::FileDisk;

/// A directory. Paths are relative to it.
///
/// A failed call may have happened in part. None may panic or wait for another.
pub trait Disk: Debug + Send + Sync {
    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// Those of the system.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name. A file that has it already is replaced, at once or not at all.
    ///
    /// # Errors
    /// Those of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Those of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory; none is made if it is there.
    ///
    /// # Errors
    /// Those of the system.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no order.
    ///
    /// # Errors
    /// Those of the system.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;

    /// Makes durable which names a directory has.
    ///
    /// # Errors
    /// Those of the system.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Takes a lock that one holder has at a time, in this process or another, and that ends with
    /// the holder at the latest. The file is made if it is not there.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it is held; else those of the system.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// It must be there.
    Existing,
    /// It is made if it is not there.
    Create,
    /// It must not be there.
    CreateNew,
}

/// An open file.
pub trait DiskFile: Debug + Send + Sync {
    /// Reads from that byte on into the buffers, in their order. Returns how many bytes it read:
    /// fewer than asked for at the end of the file, and also before it.
    ///
    /// # Errors
    /// Those of the system.
    fn read_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize>;

    /// Writes the buffers in their order from that byte on. Returns how many bytes it wrote.
    ///
    /// # Errors
    /// Those of the system.
    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;

    /// The length in bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file to that length, or makes it longer with zeros.
    ///
    /// # Errors
    /// Those of the system.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes all that was written durable, and the length.
    ///
    /// # Errors
    /// Those of the system.
    fn sync(&self) -> io::Result<()>;
}

/// Held until dropped.
pub trait DiskLock: Debug + Send + Sync {}
