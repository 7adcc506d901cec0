use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use pgtoast_base::Xid;

use super::{SpillStore, StoreError};

/// A store in memory, for tests, and for whoever has no files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySpill {
    files: BTreeMap<u32, Vec<u8>>,
}

impl MemorySpill {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self { files: BTreeMap::new() }
    }

    /// A transaction's file.
    #[must_use]
    pub fn file(&self, xid: Xid) -> Option<&[u8]> {
        self.files.get(&xid.get()).map(Vec::as_slice)
    }

    /// A transaction's file, to be damaged.
    pub fn file_mut(&mut self, xid: Xid) -> Option<&mut Vec<u8>> {
        self.files.get_mut(&xid.get())
    }

    /// Whose files there are.
    pub fn xids(&self) -> impl Iterator<Item = Xid> {
        self.files.keys().copied().map(Xid::new)
    }
}

impl SpillStore for MemorySpill {
    fn write_at(&mut self, xid: Xid, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let file = self.files.entry(xid.get()).or_default();
        let at = usize::try_from(offset).map_err(|_| StoreError::default())?;
        if at > file.len() {
            return Err(StoreError::default());
        }
        file.truncate(at);
        file.extend_from_slice(bytes);
        Ok(())
    }

    fn read_at(&mut self, xid: Xid, offset: u64, target: &mut [u8]) -> Result<usize, StoreError> {
        let at = usize::try_from(offset).map_err(|_| StoreError::default())?;
        let file = self.files.get(&xid.get()).map(Vec::as_slice).unwrap_or_default();
        let rest = file.get(at..).unwrap_or_default();
        let len = rest.len().min(target.len());
        target[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn remove(&mut self, xid: Xid) -> Result<(), StoreError> {
        self.files.remove(&xid.get());
        Ok(())
    }
}
