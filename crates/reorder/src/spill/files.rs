//! Spill files in a directory.
use std::format;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::vec::Vec;

use pgtoast_base::Xid;

use super::{SpillStore, StoreError};

/// A store of files in a directory, `xid-<number>.spill`, which is for nobody else. They are never synced:
/// after a crash the log is read again.
#[derive(Debug)]
pub struct SpillFiles {
    directory: PathBuf,
    /// The files that were used last, the latest at the end.
    open: Vec<(Xid, File)>,
}

/// How many files are kept open.
const MOST_OPEN: usize = 32;

impl SpillFiles {
    /// In a directory that is there. Files that an earlier run left are removed first.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(directory: &Path) -> io::Result<Self> {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let is_ours = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
                let number = name.strip_prefix("xid-").and_then(|rest| rest.strip_suffix(".spill"));
                number.is_some_and(|number| number.parse::<u32>().is_ok())
            });
            if is_ours {
                fs::remove_file(path)?;
            }
        }
        Ok(Self { directory: directory.to_path_buf(), open: Vec::new() })
    }

    /// Where a transaction's file is, if it has one.
    #[must_use]
    pub fn path(&self, xid: Xid) -> PathBuf {
        self.directory.join(format!("xid-{xid}.spill"))
    }

    fn file(&mut self, xid: Xid) -> io::Result<&mut File> {
        let file = match self.open.iter().position(|(open, _)| *open == xid) {
            Some(at) => self.open.remove(at).1,
            None => {
                if self.open.len() == MOST_OPEN {
                    self.open.remove(0);
                }
                let path = self.path(xid);
                File::options().read(true).write(true).create(true).truncate(false).open(path)?
            }
        };
        self.open.push((xid, file));
        let last = self.open.len() - 1;
        Ok(&mut self.open[last].1)
    }
}

impl SpillStore for SpillFiles {
    fn write_at(&mut self, xid: Xid, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let file = self.file(xid)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(file.write_all(bytes)?)
    }

    fn read_at(&mut self, xid: Xid, offset: u64, target: &mut [u8]) -> Result<usize, StoreError> {
        let file = self.file(xid)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut len = 0;
        while len < target.len() {
            match file.read(&mut target[len..]) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(len)
    }

    fn remove(&mut self, xid: Xid) -> Result<(), StoreError> {
        self.open.retain(|(open, _)| *open != xid);
        match fs::remove_file(self.path(xid)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self { os_error: error.raw_os_error() }
    }
}
