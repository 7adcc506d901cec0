//! What became of each transaction, in two bits.
//!
//! ```text
//! xid     3    2    1    0
//!       | .. | .. | .. | .. |    one byte; bits 00 in progress, 01 committed, 10 aborted
//! ```
//!
//! A page of 8 KiB holds 32 768 of them, a segment 32 pages. All segments that were ever asked for
//! stay in memory: two bits for each transaction that may still have a tuple.
//!
//! Source: `clog.c` (REL_18).
use core::fmt;
// The model checker does not follow these: whether a segment was written out decides nothing else.
use core::sync::atomic::AtomicBool;
use std::sync::OnceLock;

use pgtoast_base::Xid;
use pgtoast_page::XidStatus;

use crate::sync::atomic::{AtomicU64, Ordering};

mod files;

/// What became of each transaction; shared by all threads, without a lock.
///
/// An id that says in progress may be one that was never given out: only who knows what runs can
/// tell them apart.
#[doc(alias = "pg_xact")]
pub struct CommitLog {
    segments: Box<[OnceLock<Segment>]>,
    /// The oldest that it knows of, 64 bits wide, if it came from files.
    oldest: Option<u64>,
}

struct Segment {
    words: Box<[AtomicU64]>,
    /// Whether its file does not have all of it.
    dirty: AtomicBool,
}

const XIDS_PER_WORD: u32 = 32;

#[cfg(not(pgtoast_loom))]
mod size {
    /// Of a segment: 32 pages of 32 768.
    pub(super) const SEGMENT_BITS: u32 = 20;
    pub(super) const SEGMENTS: u32 = 1 << (32 - SEGMENT_BITS);
    pub(super) const XIDS_PER_PAGE: u32 = 1 << 15;
}

/// Small, because the model checker follows each atomic. Few ids are in use at a time.
#[cfg(pgtoast_loom)]
mod size {
    pub(super) const SEGMENT_BITS: u32 = 5;
    pub(super) const SEGMENTS: u32 = 4;
    pub(super) const XIDS_PER_PAGE: u32 = 32;
}

use size::{SEGMENT_BITS, SEGMENTS, XIDS_PER_PAGE};

const WORDS_PER_SEGMENT: u32 = (1 << SEGMENT_BITS) / XIDS_PER_WORD;
const WORDS_PER_PAGE: u32 = XIDS_PER_PAGE / XIDS_PER_WORD;

/// Where the two bits of an id are.
struct Place {
    segment: u32,
    word: usize,
    shift: u32,
}

impl Place {
    fn of(xid: Xid) -> Self {
        let xid = xid.get();
        Self {
            segment: (xid >> SEGMENT_BITS) % SEGMENTS,
            word: (xid / XIDS_PER_WORD % WORDS_PER_SEGMENT) as usize,
            shift: xid % XIDS_PER_WORD * 2,
        }
    }
}

impl CommitLog {
    /// A log that knows of no transaction.
    #[must_use]
    pub fn new() -> Self {
        Self { segments: (0..SEGMENTS).map(|_| OnceLock::new()).collect(), oldest: None }
    }

    /// The oldest transaction that it knows of, if it came from files.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.oldest
    }

    /// What became of `xid`: two loads.
    #[inline]
    #[must_use]
    pub fn status(&self, xid: Xid) -> XidStatus {
        let place = Place::of(xid);
        let Some(segment) = self.segments[place.segment as usize].get() else {
            return XidStatus::InProgress;
        };
        match segment.words[place.word].load(Ordering::Acquire) >> place.shift & 0b11 {
            0 => XidStatus::InProgress,
            1 => XidStatus::Committed,
            2 => XidStatus::Aborted,
            _ => XidStatus::SubCommitted,
        }
    }

    /// Notes what became of `xid`, which was in progress.
    pub(super) fn set(&self, xid: Xid, status: XidStatus) {
        let place = Place::of(xid);
        let segment = self.segment(place.segment);
        let bits = (status as u64) << place.shift;
        segment.words[place.word].fetch_or(bits, Ordering::SeqCst);
        segment.mark();
    }

    /// Makes place for `xid`, which is about to be given out: the first of a page finds there what
    /// the same numbers came to a round ago.
    pub(super) fn prepare(&self, xid: Xid) {
        let place = Place::of(xid);
        let segment = self.segment(place.segment);
        if xid.get().is_multiple_of(XIDS_PER_PAGE) || xid == Xid::FIRST_NORMAL {
            let first = place.word - place.word % WORDS_PER_PAGE as usize;
            for word in &segment.words[first..][..WORDS_PER_PAGE as usize] {
                word.store(0, Ordering::Relaxed);
            }
        }
        segment.mark();
    }

    fn segment(&self, number: u32) -> &Segment {
        self.segments[number as usize].get_or_init(Segment::empty)
    }
}

impl Segment {
    fn empty() -> Self {
        let words = (0..WORDS_PER_SEGMENT).map(|_| AtomicU64::new(0)).collect();
        Self { words, dirty: AtomicBool::new(false) }
    }

    /// Says that the file does not have all of it, after that was changed. Whoever writes it out
    /// takes the mark away before it reads: in the one order of all these accesses, either it reads
    /// the change or the mark is there after.
    fn mark(&self) {
        if !self.dirty.load(Ordering::SeqCst) {
            self.dirty.store(true, Ordering::SeqCst);
        }
    }
}

impl Default for CommitLog {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CommitLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loaded = self.segments.iter().filter(|segment| segment.get().is_some()).count();
        f.debug_struct("CommitLog").field("segments", &loaded).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(pgtoast_loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_id_has_bits_of_its_own() {
        let log = CommitLog::new();
        let ids = [3, 4, 31, 32, 32_767, 32_768, 1_048_575, 1_048_576, u32::MAX].map(Xid::new);
        for (i, &xid) in ids.iter().enumerate() {
            log.prepare(xid);
            log.set(xid, if i % 2 == 0 { XidStatus::Committed } else { XidStatus::Aborted });
        }
        for (i, &xid) in ids.iter().enumerate() {
            let status = if i % 2 == 0 { XidStatus::Committed } else { XidStatus::Aborted };
            // The first of a page clears what was there: nothing of this test.
            assert_eq!(log.status(xid), status, "{xid}");
        }
        assert_eq!(log.status(Xid::new(5)), XidStatus::InProgress);
        assert_eq!(log.status(Xid::new(77_000_000)), XidStatus::InProgress);
    }

    #[test]
    fn a_page_begun_anew_forgets_the_round_before() {
        let log = CommitLog::new();
        for xid in [32_768, 65_535, 65_536].map(Xid::new) {
            log.set(xid, XidStatus::Committed);
        }
        log.prepare(Xid::new(32_768));
        assert_eq!(log.status(Xid::new(32_768)), XidStatus::InProgress);
        assert_eq!(log.status(Xid::new(65_535)), XidStatus::InProgress);
        assert_eq!(log.status(Xid::new(65_536)), XidStatus::Committed);
        log.set(Xid::new(7), XidStatus::Aborted);
        log.prepare(Xid::FIRST_NORMAL);
        assert_eq!(log.status(Xid::new(7)), XidStatus::InProgress);
    }
}
