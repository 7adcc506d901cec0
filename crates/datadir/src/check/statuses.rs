//! What became of a tuple, for whoever judges it.
use pgtoast_base::Xid;
use pgtoast_page::{Infomask, TupleHeader, XidStatus};

use super::{Bound, FindingKind, XidField};
use crate::{ControlFile, DatadirError, Relation, StatusReader, Transactions};

/// The ids that tuples of a relation may name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    next: Xid,
    oldest: Xid,
    relation: Xid,
    next_multi: u32,
    oldest_multi: u32,
    relation_multi: u32,
    /// Whether the control file and the catalogs are as new as the tables.
    is_known: bool,
}

impl Bounds {
    pub(super) fn of(control: &ControlFile, relation: &Relation, is_consistent: bool) -> Self {
        Self {
            next: control.next_xid(),
            oldest: control.oldest_xid,
            relation: relation.frozen_xid,
            next_multi: control.next_multi,
            oldest_multi: control.oldest_multi,
            relation_multi: relation.minimum_multi,
            is_known: is_consistent,
        }
    }

    /// Whether the directory is one that was stopped cleanly.
    pub(super) const fn is_known(&self) -> bool {
        self.is_known
    }

    #[inline]
    fn xid(&self, field: XidField, found: Xid) -> Result<(), FindingKind> {
        if !self.is_known || !found.is_normal() {
            return Ok(());
        }
        let outside = |bound, limit| Err(FindingKind::XidOutside { field, found, bound, limit });
        if !found.precedes(self.next) {
            outside(Bound::Next, self.next)
        } else if self.oldest.is_normal() && found.precedes(self.oldest) {
            outside(Bound::Oldest, self.oldest)
        } else if self.relation.is_normal() && found.precedes(self.relation) {
            outside(Bound::Relation, self.relation)
        } else {
            Ok(())
        }
    }

    fn multi(&self, found: u32) -> Result<(), FindingKind> {
        let outside = |bound, limit| Err(FindingKind::MultiOutside { found, bound, limit });
        if found == 0 {
            outside(Bound::Zero, 0)
        } else if !self.is_known {
            Ok(())
        } else if !precedes(found, self.next_multi) {
            outside(Bound::Next, self.next_multi)
        } else if precedes(found, self.oldest_multi) {
            outside(Bound::Oldest, self.oldest_multi)
        } else if self.relation_multi != 0 && precedes(found, self.relation_multi) {
            outside(Bound::Relation, self.relation_multi)
        } else {
            Ok(())
        }
    }
}

/// Multixact ids go round in a circle, too.
const fn precedes(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}

/// What became of the insertion, or of the deletion or update, of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It never happened.
    Undone,
    /// It goes on: of a prepared transaction, or in a directory that must be replayed.
    InProgress,
    /// It is over.
    Committed,
}

/// Asks the logs, for one thread, and remembers the last answer.
pub(super) struct Statuses<'a> {
    pub(super) bounds: Bounds,
    transactions: &'a Transactions,
    reader: StatusReader<'a>,
    last: (Xid, Fate),
}

impl<'a> Statuses<'a> {
    pub(super) fn new(bounds: Bounds, transactions: &'a Transactions) -> Self {
        let reader = transactions.reader();
        Self { bounds, transactions, reader, last: (Xid::INVALID, Fate::Undone) }
    }

    /// What became of the insertion.
    #[inline]
    pub(super) fn inserted(&mut self, header: &TupleHeader) -> Result<Fate, FindingKind> {
        let infomask = header.infomask();
        if infomask.contains(Infomask::XMIN_FROZEN) {
            return Ok(Fate::Committed);
        }
        let xmin = header.xmin();
        self.bounds.xid(XidField::Xmin, xmin)?;
        if infomask.contains(Infomask::XMIN_COMMITTED) {
            Ok(Fate::Committed)
        } else if infomask.contains(Infomask::XMIN_INVALID) {
            Ok(Fate::Undone)
        } else if infomask.intersects(Infomask::MOVED) {
            self.moved(header)
        } else {
            self.fate(xmin)
        }
    }

    /// What became of the end that xmax puts to the tuple; a lock puts none.
    #[inline]
    pub(super) fn ended(&mut self, header: &TupleHeader) -> Result<Fate, FindingKind> {
        let infomask = header.infomask();
        let is_multi = infomask.contains(Infomask::XMAX_IS_MULTI);
        if is_multi {
            // Freezing looks at the id whatever the flags say, so it must be sound in any case.
            self.bounds.multi(header.xmax().get())?;
        }
        if infomask.contains(Infomask::XMAX_INVALID) || header.is_locked_only() {
            return Ok(Fate::Undone);
        }
        let xmax = self.update_xid(header)?;
        if is_multi && !xmax.is_valid() {
            let (bound, limit) = (Bound::Zero, Xid::INVALID);
            return Err(FindingKind::XidOutside {
                field: XidField::Xmax,
                found: xmax,
                bound,
                limit,
            });
        }
        self.bounds.xid(XidField::Xmax, xmax)?;
        if !is_multi && infomask.contains(Infomask::XMAX_COMMITTED) {
            return Ok(Fate::Committed);
        }
        self.fate(xmax)
    }

    /// Who updated or deleted the tuple, through its multixact if that is what xmax is.
    pub(super) fn update_xid(&self, header: &TupleHeader) -> Result<Xid, FindingKind> {
        let infomask = header.infomask();
        let is_multi = infomask.contains(Infomask::XMAX_IS_MULTI)
            && !infomask.contains(Infomask::XMAX_INVALID)
            && !header.is_locked_only();
        if !is_multi {
            return Ok(header.xmax());
        }
        let multi = header.xmax().get();
        match self.transactions.members(multi) {
            Ok(members) => {
                let update = members.iter().find(|member| member.status.is_update());
                Ok(update.map_or(Xid::INVALID, |member| member.xid))
            }
            Err(error) => Err(unknown(error)),
        }
    }

    #[cold]
    fn moved(&mut self, header: &TupleHeader) -> Result<Fate, FindingKind> {
        let mover = Xid::new(header.field3());
        self.bounds.xid(XidField::Xvac, mover)?;
        let is_off = header.infomask().contains(Infomask::MOVED_OFF);
        Ok(match (self.fate(mover)?, is_off) {
            (Fate::InProgress, _) => Fate::InProgress,
            (Fate::Undone, false) | (Fate::Committed, true) => Fate::Undone,
            (Fate::Undone, true) | (Fate::Committed, false) => Fate::Committed,
        })
    }

    #[inline]
    pub(super) fn fate(&mut self, xid: Xid) -> Result<Fate, FindingKind> {
        if xid == self.last.0 {
            return Ok(self.last.1);
        }
        let fate = match self.reader.try_status(xid) {
            Ok(XidStatus::Committed) => Fate::Committed,
            Ok(XidStatus::Aborted) => Fate::Undone,
            Ok(XidStatus::InProgress | XidStatus::SubCommitted) => Fate::InProgress,
            Err(error) => return Err(unknown(error)),
        };
        self.last = (xid, fate);
        Ok(fate)
    }
}

const fn unknown(error: DatadirError) -> FindingKind {
    FindingKind::CommitStatus { error }
}
