//! A disk in memory that fails when it is told to, and pages that know their number.
#![allow(dead_code, reason = "each test uses a part of it")]
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::PageMut;
use pgtoast_store::RelationId;
use pgtoast_store::disk::{Disk, DiskFile, DiskLock, OpenMode};

pub(crate) const RELATION: RelationId = RelationId::new(16384);

/// A page that is one by its header, with a number in it.
pub(crate) fn fill(page: &mut [u8], block_size: BlockSize, mark: u32) {
    let mut page = PageMut::init(page, block_size, 8).expect("as long as a block");
    page.special_space_mut()[..4].copy_from_slice(&mark.to_le_bytes());
}

/// The number in a page.
pub(crate) fn mark(page: &[u8]) -> u32 {
    let bytes = page[page.len() - 8..page.len() - 4].try_into();
    u32::from_le_bytes(bytes.expect("four bytes"))
}

pub(crate) fn block(number: u32) -> BlockNumber {
    BlockNumber::new(number)
}

/// What a disk is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Open,
    Read,
    Write,
    Length,
    Sync,
    Rename,
    Remove,
}

#[derive(Debug)]
struct Lock;

impl DiskLock for Lock {}

/// Files in memory. A clone is the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Arc<Mutex<Vec<u8>>>>,
    calls: BTreeMap<Call, u64>,
    /// Fails these calls, from the `skip`th on, `count` of them.
    failing: Option<Failing>,
    /// The most bytes that one call reads or writes.
    most_bytes: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    call: Option<Call>,
    skip: u64,
    count: u64,
    kind: ErrorKind,
}

impl MemoryDisk {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// From now on `count` calls of that sort, or of any, fail, after `skip` that do not.
    pub(crate) fn fail(&self, call: Option<Call>, skip: u64, count: u64, kind: ErrorKind) {
        self.state().failing = Some(Failing { call, skip, count, kind });
    }

    pub(crate) fn heal(&self) {
        self.state().failing = None;
    }

    /// Reads and writes that are cut short, as a signal does.
    pub(crate) fn cut(&self, most_bytes: usize) {
        self.state().most_bytes = Some(most_bytes);
    }

    pub(crate) fn calls(&self, call: Call) -> u64 {
        self.state().calls.get(&call).copied().unwrap_or(0)
    }

    pub(crate) fn files(&self) -> Vec<String> {
        self.state().files.keys().map(|path| path.display().to_string()).collect()
    }

    /// The bytes of a file, to look at or to change.
    pub(crate) fn file(&self, path: &str) -> Arc<Mutex<Vec<u8>>> {
        self.state().files[Path::new(path)].clone()
    }

    /// Makes a file, or changes it.
    pub(crate) fn put(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let file = self.state().files.entry(path.into()).or_default().clone();
        change(&mut file.lock().expect("no panic"));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }

    fn call(&self, call: Call) -> io::Result<()> {
        let mut state = self.state();
        *state.calls.entry(call).or_default() += 1;
        let Some(failing) = &mut state.failing else { return Ok(()) };
        if failing.call.is_some_and(|only| only != call) {
            return Ok(());
        }
        if failing.skip > 0 {
            failing.skip -= 1;
            return Ok(());
        }
        if failing.count == 0 {
            return Ok(());
        }
        failing.count -= 1;
        Err(failing.kind.into())
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        self.call(Call::Open)?;
        let mut state = self.state();
        let there = state.files.contains_key(path);
        match (mode, there) {
            (OpenMode::Existing, false) => return Err(ErrorKind::NotFound.into()),
            (OpenMode::CreateNew, true) => return Err(ErrorKind::AlreadyExists.into()),
            _ => {}
        }
        let bytes = state.files.entry(path.into()).or_default().clone();
        Ok(Box::new(MemoryFile { disk: self.clone(), bytes }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Call::Rename)?;
        let mut state = self.state();
        let bytes = state.files.remove(from).ok_or(ErrorKind::NotFound)?;
        state.files.insert(to.into(), bytes);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(Call::Remove)?;
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
        self.call(Call::Sync)
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn DiskLock>> {
        // Nobody else has a disk in memory; the test uses it for one store at a time.
        Ok(Box::new(Lock))
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl MemoryFile {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().expect("no panic")
    }
}

impl DiskFile for MemoryFile {
    fn read_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        self.disk.call(Call::Read)?;
        let mut left = self.disk.state().most_bytes.unwrap_or(usize::MAX);
        let bytes = self.bytes();
        let offset = usize::try_from(offset).expect("small").min(bytes.len());
        let mut rest = &bytes[offset..];
        let mut done = 0;
        for buffer in buffers {
            let count = buffer.len().min(rest.len()).min(left);
            buffer[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            left -= count;
            done += count;
        }
        Ok(done)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let called = self.disk.call(Call::Write);
        let mut left = self.disk.state().most_bytes.unwrap_or(usize::MAX);
        if called.is_err() {
            // Some of it is written all the same.
            left = left.min(1500);
        }
        let mut bytes = self.bytes();
        let start = usize::try_from(offset).expect("small");
        let mut end = start;
        for buffer in buffers {
            let count = buffer.len().min(left);
            if bytes.len() < end + count {
                bytes.resize(end + count, 0);
            }
            bytes[end..end + count].copy_from_slice(&buffer[..count]);
            end += count;
            left -= count;
        }
        called.map(|()| end - start)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.call(Call::Length)?;
        self.bytes().resize(usize::try_from(len).expect("small"), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.call(Call::Sync)
    }
}

/// Xorshift: the same numbers in every run, apart for each seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from(self.0 % u64::from(limit)).expect("below the limit")
    }
}
