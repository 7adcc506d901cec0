//! A disk in memory that fails on demand.
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use pgtoast_store::disk::{Disk, DiskFile, DiskLock, OpenMode};

type Bytes = Arc<Mutex<Vec<u8>>>;

/// A clone is the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Bytes>,
    /// So many calls are still well, and so many then not.
    well: u32,
    failing: u32,
    is_locked: bool,
}

impl Files {
    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        self.state().files.insert(path.into(), Arc::new(Mutex::new(bytes.to_vec())));
    }

    /// From now on, calls but for syncs fail, after `well` of them, `failing` times.
    pub(crate) fn fail(&self, well: u32, failing: u32) {
        let mut state = self.state();
        (state.well, state.failing) = (well, failing);
    }

    pub(crate) fn heal(&self) {
        self.fail(0, 0);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }

    fn call(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.well > 0 {
            state.well -= 1;
        } else if state.failing > 0 {
            state.failing -= 1;
            return Err(ErrorKind::Other.into());
        }
        Ok(())
    }
}

impl Disk for Files {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        self.call()?;
        let mut state = self.state();
        match (mode, state.files.contains_key(path)) {
            (OpenMode::Existing, false) => return Err(ErrorKind::NotFound.into()),
            (OpenMode::CreateNew, true) => return Err(ErrorKind::AlreadyExists.into()),
            _ => {}
        }
        let bytes = state.files.entry(path.into()).or_default().clone();
        Ok(Box::new(OpenFile { disk: self.clone(), bytes }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call()?;
        let mut state = self.state();
        let bytes = state.files.remove(from).ok_or(ErrorKind::NotFound)?;
        state.files.insert(to.into(), bytes);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call()?;
        self.state().files.remove(path).map(drop).ok_or(ErrorKind::NotFound.into())
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.state();
        let inside = state.files.keys().filter(|file| file.parent() == Some(path));
        Ok(inside.filter_map(|file| Some(file.file_name()?.into())).collect())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn DiskLock>> {
        if core::mem::replace(&mut self.state().is_locked, true) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock(self.clone())))
    }
}

/// Free again when dropped.
#[derive(Debug)]
struct Lock(Files);

impl DiskLock for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.state().is_locked = false;
    }
}

#[derive(Debug)]
struct OpenFile {
    disk: Files,
    bytes: Bytes,
}

impl OpenFile {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().expect("no panic")
    }
}

impl DiskFile for OpenFile {
    fn read_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        self.disk.call()?;
        let bytes = self.bytes();
        let start = usize::try_from(offset).expect("small").min(bytes.len());
        let mut rest = &bytes[start..];
        for buffer in buffers {
            let count = buffer.len().min(rest.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
        }
        Ok(bytes.len() - start - rest.len())
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let called = self.disk.call();
        let start = usize::try_from(offset).expect("small");
        let mut all: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
        if called.is_err() {
            // A part is written all the same.
            all.truncate(all.len() / 2);
        }
        let mut bytes = self.bytes();
        let end = start + all.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(&all);
        called.map(|()| all.len())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.call()?;
        self.bytes().resize(usize::try_from(len).expect("small"), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
