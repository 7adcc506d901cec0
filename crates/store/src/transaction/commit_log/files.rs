//! The commit log in files: one for each segment, named and filled as the server's, in a seal.
use core::ops::Range;
use std::path::Path;

use zerocopy::IntoBytes as _;
use zerocopy::little_endian::U64;

use super::size::{SEGMENT_BITS, SEGMENTS, XIDS_PER_PAGE};
use super::{CommitLog, Place, Segment, WORDS_PER_PAGE, WORDS_PER_SEGMENT, XIDS_PER_WORD};
use crate::disk::Disk;
use crate::file::SealedFile;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::transaction::full_xid;
use crate::{StoreError, StoreFile};

const DIRECTORY: &str = "pg_xact";
const PAGE_BYTES: u16 = 1 << (XIDS_PER_PAGE / 4).ilog2();

impl CommitLog {
    /// The log of the transactions of those ids, which are 64 bits wide: from the oldest that a
    /// tuple may hold to the next that is given out. None of them runs, so the ones that did not
    /// end are aborted.
    ///
    /// # Errors
    /// [`StoreError::Io`], of kind `NotFound` too; the errors of [`SealedFile::read`];
    /// [`StoreError::FileLength`].
    pub fn load(disk: &dyn Disk, ids: Range<u64>) -> Result<Self, StoreError> {
        let mut log = Self::new();
        // More than the circle has are none, whatever the caller read where.
        let first = full_xid::at_least(ids.start.max(ids.end.saturating_sub(1 << 31)));
        if first < ids.end {
            // What was never given out has no segment either.
            let last = full_xid::before(ids.end);
            for number in first >> SEGMENT_BITS..=last >> SEGMENT_BITS {
                let number = Place::of(full_xid::xid(number << SEGMENT_BITS)).segment;
                log.segments[number as usize] = Segment::read(disk, number)?.into();
            }
            log.abort_all(first..last + 1);
        }
        log.oldest = Some(first);
        Ok(log)
    }

    /// Aborts all of those that are in progress.
    fn abort_all(&self, ids: Range<u64>) {
        let per_word = u64::from(XIDS_PER_WORD);
        let mut full = ids.start;
        while full < ids.end {
            let end = ids.end.min(full - full % per_word + per_word);
            let place = Place::of(full_xid::xid(full));
            let asked = u64::MAX >> (u64::from(u64::BITS) - 2 * (end - full)) << place.shift;
            let segment = self.segment(place.segment);
            let word = &segment.words[place.word];
            let ended = word.load(Ordering::Relaxed);
            let in_progress = !(ended | ended >> 1) & (u64::MAX / 3) & asked;
            if in_progress != 0 {
                word.store(ended | in_progress << 1, Ordering::Relaxed);
                segment.mark();
            }
            full = end;
        }
    }

    /// Writes what changed since it was last written, and removes what no tuple needs any more.
    ///
    /// # Errors
    /// [`StoreError::Io`]: the next call tries again.
    pub(in crate::transaction) fn save(
        &self,
        disk: &dyn Disk,
        ids: Range<u64>,
    ) -> Result<(), StoreError> {
        let directory = Path::new(DIRECTORY);
        let error = |error| StoreError::io(StoreFile::CommitLog { segment: 0 }, 0, &error);
        disk.create_dir(directory).map_err(error)?;
        let segment = |full| Place::of(full_xid::xid(full)).segment;
        let (first, last) = (segment(ids.start), segment(ids.end));
        let is_needed = |number: u32| {
            let of_first = |number: u32| number.wrapping_sub(first) % SEGMENTS;
            of_first(number) <= of_first(last)
        };
        for (number, segment) in (0..).zip(&self.segments) {
            if let Some(segment) = segment.get()
                && is_needed(number)
                && segment.dirty.swap(false, Ordering::SeqCst)
            {
                segment.write(disk, number).inspect_err(|_| segment.mark())?;
            }
        }
        for name in disk.list(directory).map_err(error)? {
            let number = name.to_str().and_then(|name| u32::from_str_radix(name, 16).ok());
            if number.is_some_and(|number| !is_needed(number)) {
                disk.remove(&directory.join(name)).map_err(error)?;
            }
        }
        Ok(())
    }
}

impl Segment {
    fn read(disk: &dyn Disk, number: u32) -> Result<Self, StoreError> {
        let file = StoreFile::CommitLog { segment: number };
        let bytes = SealedFile::read(disk, file)?;
        let limit = WORDS_PER_SEGMENT as usize * size_of::<u64>();
        if bytes.len() > limit || bytes.len() % usize::from(PAGE_BYTES) != 0 {
            return Err(StoreError::FileLength {
                file,
                bytes: bytes.len() as u64,
                block_bytes: PAGE_BYTES,
                limit: limit as u64,
            });
        }
        let segment = Self::empty();
        for (word, bytes) in segment.words.iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        Ok(segment)
    }

    /// Pages of zeros at the end are left out, as they are in the server's.
    fn write(&self, disk: &dyn Disk, number: u32) -> Result<(), StoreError> {
        let load = |word: &AtomicU64| U64::new(word.load(Ordering::SeqCst));
        let mut words: Vec<_> = self.words.iter().map(load).collect();
        let used = words.iter().rposition(|word| word.get() != 0).map_or(0, |last| last + 1);
        words.truncate(used.next_multiple_of(WORDS_PER_PAGE as usize));
        SealedFile::replace(disk, StoreFile::CommitLog { segment: number }, words.as_bytes())
    }
}
