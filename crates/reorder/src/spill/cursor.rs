use alloc::vec::Vec;

use pgtoast_base::{Lsn, Xid};

use super::{
    Extent, FILE_HEADER, RECORD_HEADER, SpillStore, file_header, parse_record_header, verify,
};
use crate::stored_change::{LSN_LEN, lsn_of};
use crate::{ReorderError, SpillFault};

/// Reads what was spilled of one transaction, from the first change to the last.
#[derive(Debug)]
pub(crate) struct SpillCursor {
    xid: Xid,
    extent: Extent,
    /// Records that were read.
    number: u64,
    /// Where the next one starts in the file, and in `ahead`.
    offset: u64,
    start: usize,
    /// Bytes of the file that were read ahead.
    ahead: Vec<u8>,
    /// How much is read ahead.
    ahead_bytes: usize,
}

/// Where a record is, to be read again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPlace {
    pub(crate) xid: Xid,
    pub(crate) offset: u64,
    pub(crate) number: u64,
    /// Of the change.
    pub(crate) len: usize,
}

impl SpillCursor {
    /// From the start of the file, reading so much at once.
    pub(crate) fn new(xid: Xid, extent: Extent, ahead_bytes: usize) -> Self {
        let ahead_bytes = ahead_bytes.max(RECORD_HEADER + LSN_LEN);
        Self { xid, extent, number: 0, offset: 0, start: 0, ahead: Vec::new(), ahead_bytes }
    }

    /// Where in the log the next change is, `None` behind the last.
    pub(crate) fn peek<S: SpillStore>(
        &mut self,
        store: &mut S,
    ) -> Result<Option<Lsn>, ReorderError> {
        if self.offset == 0 && self.extent.records > 0 {
            self.fill(store, FILE_HEADER)?;
            if self.ahead[..FILE_HEADER] != file_header(self.xid) {
                return Err(self.fault(SpillFault::Header));
            }
            self.skip(FILE_HEADER);
        }
        if self.number == self.extent.records {
            self.ahead = Vec::new();
            self.start = 0;
            return match self.left() {
                0 => Ok(None),
                bytes => Err(self.fault(SpillFault::Rest { bytes })),
            };
        }
        self.fill(store, RECORD_HEADER + LSN_LEN)?;
        Ok(Some(lsn_of(&self.ahead[self.start + RECORD_HEADER..])))
    }

    /// The next change, whole and checked, and where it is. There is one: [`peek`](Self::peek) saw it.
    pub(crate) fn next<S: SpillStore>(
        &mut self,
        store: &mut S,
        change: &mut Vec<u8>,
    ) -> Result<RecordPlace, ReorderError> {
        self.fill(store, RECORD_HEADER)?;
        let header = header_at(&self.ahead[self.start..]);
        let (found, _) = parse_record_header(header);
        let limit = self.left() - RECORD_HEADER as u64;
        let len = usize::try_from(found).ok().filter(|_| u64::from(found) <= limit);
        let len = len.ok_or_else(|| self.fault(SpillFault::Length { found, limit }))?;
        self.fill(store, RECORD_HEADER + len)?;
        let bytes = &self.ahead[self.start + RECORD_HEADER..][..len];
        verify(header, self.number, bytes).map_err(|fault| self.fault(fault))?;
        change.clear();
        change.extend_from_slice(bytes);
        let Self { xid, offset, number, .. } = *self;
        self.skip(RECORD_HEADER + len);
        self.number += 1;
        Ok(RecordPlace { xid, offset, number, len })
    }

    /// Bytes of the file from here on.
    const fn left(&self) -> u64 {
        self.extent.bytes - self.offset
    }

    fn skip(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Sees to it that so many bytes are read.
    fn fill<S: SpillStore>(&mut self, store: &mut S, needed: usize) -> Result<(), ReorderError> {
        let have = self.ahead.len() - self.start;
        if have >= needed {
            return Ok(());
        }
        let (xid, offset) = (self.xid, self.offset);
        let left = usize::try_from(self.left()).unwrap_or(usize::MAX);
        self.ahead.drain(..self.start);
        self.start = 0;
        self.ahead.resize(needed.max(self.ahead_bytes).min(left).max(have), 0);
        let from = offset + have as u64;
        let read = store.read_at(xid, from, &mut self.ahead[have..]);
        let available = have + read.map_err(|error| error.at(xid, from))?;
        self.ahead.truncate(available);
        if available < needed {
            return Err(ReorderError::SpillTruncated { xid, offset, needed, available });
        }
        Ok(())
    }

    const fn fault(&self, fault: SpillFault) -> ReorderError {
        ReorderError::Spill { xid: self.xid, offset: self.offset, fault }
    }
}

fn header_at(bytes: &[u8]) -> [u8; RECORD_HEADER] {
    bytes.first_chunk().copied().unwrap_or_default()
}

/// Reads a record that was read before.
pub(crate) fn read_record<S: SpillStore>(
    store: &mut S,
    place: RecordPlace,
    change: &mut Vec<u8>,
) -> Result<(), ReorderError> {
    let RecordPlace { xid, offset, number, len } = place;
    let needed = RECORD_HEADER + len;
    change.clear();
    change.resize(needed, 0);
    let available = store.read_at(xid, offset, change).map_err(|error| error.at(xid, offset))?;
    if available < needed {
        return Err(ReorderError::SpillTruncated { xid, offset, needed, available });
    }
    let header = header_at(change);
    change.drain(..RECORD_HEADER);
    let (found, _) = parse_record_header(header);
    let verdict = if usize::try_from(found) == Ok(len) {
        verify(header, number, change)
    } else {
        Err(SpillFault::Length { found, limit: len as u64 })
    };
    verdict.map_err(|fault| ReorderError::Spill { xid, offset, fault })
}
