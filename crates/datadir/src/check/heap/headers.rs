//! What the headers of tuples say of them.
use pgtoast_base::ItemPointer;
use pgtoast_page::{HeapTuple, Infomask, Infomask2, TupleError, TupleHeader, VisibilityBits};

use super::super::chains;
use super::super::statuses::Fate;
use super::super::{FindingKind, Readable};
use super::HeapCheck;

impl HeapCheck<'_, '_> {
    /// Judges the header of a tuple, and remembers what it says if there is nothing to say about it;
    /// `None` if it is too broken to say what became of it.
    pub(super) fn verdict(
        &mut self,
        tid: ItemPointer,
        tuple: &HeapTuple<'_>,
        promise: VisibilityBits,
    ) -> Option<Verdict> {
        let told = self.told.get();
        let verdict = self.judge(tid, tuple, promise)?;
        if told == self.told.get()
            && let Some(signature) = Signature::of(tuple, promise)
        {
            self.known = Some((signature, verdict));
        }
        Some(verdict)
    }

    /// The same, remembering nothing.
    fn judge(
        &mut self,
        tid: ItemPointer,
        tuple: &HeapTuple<'_>,
        promise: VisibilityBits,
    ) -> Option<Verdict> {
        let header = tuple.header();
        let may_be_chained = chains::may_be_chained(header);
        if self.is_first_pass
            && let Err(kind) = self.header(tid, tuple)
        {
            return self.unreadable(tid, kind);
        }
        let inserted = match self.statuses.inserted(header) {
            Ok(fate) => fate,
            Err(kind) => return self.unreadable(tid, kind),
        };
        // Nobody reads what was never inserted, and a change of the table may have been undone too.
        if inserted == Fate::Undone {
            if promise.contains(VisibilityBits::ALL_VISIBLE) {
                self.tell(self.target.of_item(tid, FindingKind::NotVisible, Readable::All));
            }
            let fate = RowFate { inserted, ended: Fate::Undone };
            return Some(Verdict { fate, may_be_chained });
        }
        let ended = match self.statuses.ended(header) {
            Ok(fate) => fate,
            Err(kind) => {
                self.told_once(tid, kind);
                // Another one like it is no better known.
                self.told.set(self.told.get() + 1);
                Fate::InProgress
            }
        };
        if !promise.is_empty() {
            self.hold_to(tid, header, promise, inserted, ended);
        }
        Some(Verdict { fate: RowFate { inserted, ended }, may_be_chained })
    }

    /// A tuple that cannot be judged any further.
    #[cold]
    fn unreadable(&mut self, tid: ItemPointer, kind: FindingKind) -> Option<Verdict> {
        self.broken += 1;
        self.told_once(tid, kind);
        None
    }

    /// Tells a fault of a header, but that a log is missing only once: it is missing for all.
    fn told_once(&mut self, tid: ItemPointer, kind: FindingKind) {
        if !self.is_first_pass {
            return;
        }
        if matches!(kind, FindingKind::CommitStatus { .. }) {
            if self.status_told {
                return;
            }
            self.status_told = true;
        }
        self.tell(self.target.of_item(tid, kind, Readable::OtherItems));
    }

    /// What a header says for itself.
    #[inline]
    fn header(&self, tid: ItemPointer, tuple: &HeapTuple<'_>) -> Result<(), FindingKind> {
        let header = tuple.header();
        let (infomask, infomask2) = (header.infomask(), header.infomask2());
        if usize::from(header.hoff()) > tuple.bytes().len() {
            let (hoff, len) = (header.hoff(), tuple.bytes().len());
            return Err(FindingKind::Tuple(TupleError::DataPastEnd { hoff, len }));
        }
        let tell = |kind| self.tell(self.target.of_item(tid, kind, Readable::All));
        if infomask.contains(Infomask::XMAX_COMMITTED.union(Infomask::XMAX_IS_MULTI)) {
            tell(FindingKind::MultiCommitted);
        }
        if infomask2.contains(Infomask2::HOT_UPDATED)
            && header.is_hot_updated()
            && self.statuses.update_xid(header).is_ok_and(|xmax| !xmax.is_valid())
        {
            tell(FindingKind::HotWithoutXmax);
        }
        if infomask2.contains(Infomask2::HEAP_ONLY) && !infomask.contains(Infomask::UPDATED) {
            tell(FindingKind::HeapOnlyWithoutUpdate);
        }
        let (expected, found) = (header.expected_hoff(), header.hoff());
        if expected != usize::from(found) {
            return Err(FindingKind::Tuple(TupleError::DataStart { expected, found }));
        }
        Ok(())
    }

    /// Holds a tuple to what is promised of its block.
    #[inline]
    fn hold_to(
        &self,
        tid: ItemPointer,
        header: &TupleHeader,
        promise: VisibilityBits,
        inserted: Fate,
        ended: Fate,
    ) {
        let kind = if inserted != Fate::Committed || ended != Fate::Undone {
            FindingKind::NotVisible
        } else if promise.contains(VisibilityBits::ALL_FROZEN) && needs_freezing(header) {
            FindingKind::NotFrozen
        } else {
            return;
        };
        self.tell(self.target.of_item(tid, kind, Readable::All));
    }
}

/// All that a tuple's header is judged by, but its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    /// xmin and xmax.
    xids: u64,
    /// Both words of flags, and where the attributes start.
    flags: u64,
    pub(super) promise: VisibilityBits,
}

impl Signature {
    /// Of most tuples: the others have to be judged one by one.
    fn of(tuple: &HeapTuple<'_>, promise: VisibilityBits) -> Option<Self> {
        let (xids, flags) = words(tuple.bytes().first_chunk()?);
        // The others name a transaction in another field, too.
        let is_usual = !tuple.header().infomask().intersects(Infomask::MOVED);
        is_usual.then_some(Self { xids, flags, promise })
    }

    /// Whether a tuple's header says the same, and its attributes begin within the tuple.
    #[inline]
    pub(super) fn is_of(&self, tuple: &HeapTuple<'_>) -> bool {
        let Some(header) = tuple.bytes().first_chunk() else { return false };
        let is_within = usize::from(tuple.header().hoff()) <= tuple.bytes().len();
        words(header) == (self.xids, self.flags) && is_within
    }
}

/// xmin and xmax, and all flags with the start of the attributes: without the item number in front of them
/// and whatever is behind.
#[inline]
fn words(header: &[u8; 24]) -> (u64, u64) {
    let [xids, _, flags] = header.as_chunks().0 else { return (0, 0) };
    (u64::from_le_bytes(*xids), u64::from_le_bytes(*flags) & 0x00ff_ffff_ffff_0000)
}

/// What a header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    pub(super) fate: RowFate,
    pub(super) may_be_chained: bool,
}

/// What became of a row's insertion and of its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowFate {
    pub(super) inserted: Fate,
    pub(super) ended: Fate,
}

/// Whether vacuum would still have something to freeze.
fn needs_freezing(header: &TupleHeader) -> bool {
    let infomask = header.infomask();
    let xmin_needs = header.xmin().is_normal() && !infomask.contains(Infomask::XMIN_FROZEN);
    let xmax = header.xmax();
    let xmax_needs =
        if infomask.contains(Infomask::XMAX_IS_MULTI) { xmax.get() != 0 } else { xmax.is_normal() };
    xmin_needs || xmax_needs || infomask.intersects(Infomask::MOVED)
}
