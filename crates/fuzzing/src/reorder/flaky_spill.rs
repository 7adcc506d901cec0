//! A store for spilled changes that fails now and then.
use pgtoast_base::Xid;
use pgtoast_reorder::{MemorySpill, SpillStore, StoreError};

/// What the system calls a disk that is full.
pub(super) const NO_SPACE: i32 = 28;

/// A store in memory, every third write to which fails if it is flaky.
#[derive(Debug)]
pub(super) struct FlakySpill {
    pub(super) inner: MemorySpill,
    is_flaky: bool,
    writes: u32,
}

impl FlakySpill {
    pub(super) fn new(is_flaky: bool) -> Self {
        Self { inner: MemorySpill::new(), is_flaky, writes: 0 }
    }
}

impl SpillStore for FlakySpill {
    fn write_at(&mut self, xid: Xid, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.writes += 1;
        if self.is_flaky && self.writes.is_multiple_of(3) {
            // Some of it may have been written.
            self.inner.write_at(xid, offset, &bytes[..bytes.len() / 2])?;
            return Err(StoreError { os_error: Some(NO_SPACE) });
        }
        self.inner.write_at(xid, offset, bytes)
    }

    fn read_at(&mut self, xid: Xid, offset: u64, target: &mut [u8]) -> Result<usize, StoreError> {
        self.inner.read_at(xid, offset, target)
    }

    fn remove(&mut self, xid: Xid) -> Result<(), StoreError> {
        self.inner.remove(xid)
    }
}
