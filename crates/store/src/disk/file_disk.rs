use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};

use super::{Disk, DiskFile, DiskLock, OpenMode};

/// Files of the operating system.
#[derive(Clone, Debug)]
pub struct FileDisk {
    directory: PathBuf,
}

impl FileDisk {
    /// The disk in that directory, which is there.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
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
        let mut options = File::options();
        options.read(true).write(true);
        options.create(mode == OpenMode::Create).create_new(mode == OpenMode::CreateNew);
        Ok(Box::new(SystemFile(options.open(self.path(path))?)))
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
        // The lock belongs to the open file, not to the process: a second one here waits as well.
        let file =
            File::options().write(true).create(true).truncate(false).open(self.path(path))?;
        file.try_lock()?;
        Ok(Box::new(SystemLock { _file: file }))
    }
}

#[derive(Debug)]
struct SystemFile(File);

impl DiskFile for SystemFile {
    fn read_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::preadv(&self.0, buffers, offset)?)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&self.0, buffers, offset)?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// The system unlocks a file when it is closed.
#[derive(Debug)]
struct SystemLock {
    _file: File,
}

impl DiskLock for SystemLock {}
