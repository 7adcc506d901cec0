use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::open_files::{OpenFiles, SystemFile};
use super::{Disk, DiskFile, DiskLock, OpenMode};

/// Files of the operating system.
///
/// However many files a store has, no more than a given number are open at the system at once: one
/// that was not used for long is closed, and opened again when it is.
#[derive(Clone, Debug)]
pub struct FileDisk {
    directory: PathBuf,
    files: Arc<OpenFiles>,
}

impl FileDisk {
    /// Well below what a process may have open by default.
    const OPEN_FILES: usize = 400;

    /// The disk in that directory, which is there.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self::with_open_files(directory, Self::OPEN_FILES)
    }

    /// [`new`](Self::new), with at most that many files open at the system, at least 1; a few more
    /// while threads use them all.
    #[doc(alias = "max_files_per_process")]
    #[must_use]
    pub fn with_open_files(directory: impl Into<PathBuf>, limit: usize) -> Self {
        Self { directory: directory.into(), files: Arc::new(OpenFiles::new(limit)) }
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }
}

impl Disk for FileDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let path = self.path(path);
        let mut options = File::options();
        options.read(true).write(true);
        options.create(mode == OpenMode::Create).create_new(mode == OpenMode::CreateNew);
        let file = options.open(&path)?;
        Ok(Box::new(self.files.add(path, file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(self.path(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(self.path(path)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(self.path(path))?.map(|entry| Ok(entry?.file_name().into())).collect()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(self.path(path))?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        // The lock belongs to the open file, not to the process: a second one here is refused too.
        let file =
            File::options().write(true).create(true).truncate(false).open(self.path(path))?;
        file.try_lock()?;
        Ok(Box::new(SystemLock { _file: file }))
    }
}

impl DiskFile for Arc<SystemFile> {
    fn read_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        self.with(|file| Ok(rustix::io::preadv(file, buffers, offset)?))
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.with(|file| Ok(rustix::io::pwritev(file, buffers, offset)?))
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|file| Ok(file.metadata()?.len()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|file| file.set_len(len))
    }

    fn sync(&self) -> io::Result<()> {
        // Of the file, whoever wrote to it: also through what was closed since.
        self.with(File::sync_data)
    }
}

/// The system unlocks a file when it is closed.
#[derive(Debug)]
struct SystemLock {
    _file: File,
}

impl DiskLock for SystemLock {}
