//! What became of transactions, from the logs that servers keep about them.
//!
//! Nothing runs in a cold directory. So a transaction that no log says has ended was cut off by a crash
//! and counts as aborted; only a prepared one is still in progress. In a directory that must be
//! replayed first the log may be older than the tables, so there it counts as in progress.
//!
//! Source: `transam.c`, `clog.c`, `subtrans.c`, `multixact.c` (REL_18).
use core::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

use pgtoast_base::{BlockSize, Xid};
use pgtoast_page::{Snapshot, TransactionStatus, TupleHeader, VacuumState, XidStatus};

use crate::prepared::PreparedTransaction;
use crate::slru_pages::{PageKey, SlruPages, bytes_at};
use crate::{Consistency, ControlFile, DatadirError, Slru, Source};

/// What became of every transaction. Threads ask at once, each best through a
/// [`reader`](Self::reader) of its own.
#[derive(Debug)]
pub struct Transactions {
    /// `None` where there is no data directory: then hint bits are all there is.
    log: Option<Log>,
    prepared: Vec<PreparedTransaction>,
    /// Ids of prepared transactions and their subtransactions.
    in_progress: BTreeSet<u32>,
    problems: Vec<DatadirError>,
    /// From this id on nothing is over.
    snapshot_end: Xid,
    horizon: Xid,
    /// What a transaction is that the log says nothing of.
    unended: XidStatus,
}

#[derive(Debug)]
struct Log {
    pages: SlruPages,
    next_multi: u32,
    next_multi_offset: u32,
}

impl Transactions {
    /// Those of a data directory. Nothing of the logs is read yet.
    #[must_use]
    pub fn open(source: Arc<dyn Source>, control: &ControlFile, consistency: Consistency) -> Self {
        let (prepared, mut problems) =
            PreparedTransaction::read_all(&source, control.version.major);
        // Trimmed copies have no such folder, and nothing was prepared in them.
        problems.retain(|problem| !matches!(problem, DatadirError::FolderIo { .. }));
        let ids = |one: &PreparedTransaction| {
            let subtransactions = one.subtransactions.iter().map(|xid| xid.get());
            subtransactions.chain([one.xid.get()]).collect::<Vec<_>>()
        };
        let in_progress = prepared.iter().flat_map(ids).collect();
        let next = control.next_xid();
        let is_clean = consistency == Consistency::Clean;
        // The tables may be ahead of a control file whose log was not replayed.
        let ahead = if is_clean { 0 } else { MOST_AHEAD };
        let oldest = |oldest: Xid, one: &PreparedTransaction| {
            if one.xid.precedes(oldest) { one.xid } else { oldest }
        };
        Self {
            horizon: prepared.iter().fold(next, oldest),
            log: Some(Log {
                pages: SlruPages::new(source, control.block_size),
                next_multi: control.next_multi,
                next_multi_offset: control.next_multi_offset,
            }),
            prepared,
            in_progress,
            problems,
            snapshot_end: Xid::new(next.get().wrapping_add(ahead).max(Xid::FIRST_NORMAL.get())),
            unended: if is_clean { XidStatus::Aborted } else { XidStatus::InProgress },
        }
    }

    /// For tables without a data directory: what hint bits do not say is taken to be `assumed`.
    #[must_use]
    pub fn assume(assumed: XidStatus) -> Self {
        Self {
            log: None,
            prepared: Vec::new(),
            in_progress: BTreeSet::new(),
            problems: Vec::new(),
            snapshot_end: Xid::FROZEN,
            horizon: Xid::FIRST_NORMAL,
            unended: assumed,
        }
    }

    /// What became of a transaction.
    ///
    /// # Errors
    /// [`DatadirError::StatusMissing`] where the log ends before it or lacks the segment, and those of
    /// reading.
    #[doc(alias = "TransactionIdGetStatus")]
    pub fn status(&self, xid: Xid) -> Result<XidStatus, DatadirError> {
        self.reader().try_status(xid)
    }

    /// The two bits that `pg_xact` has of a transaction, whatever they mean by now.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn logged_status(&self, xid: Xid) -> Result<XidStatus, DatadirError> {
        self.reader().logged(xid)
    }

    /// The transaction that a subtransaction is part of, as far as `pg_subtrans` still knows it: servers
    /// keep only what they may need.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(alias = "SubTransGetParent")]
    pub fn parent(&self, xid: Xid) -> Result<Option<Xid>, DatadirError> {
        let Some(log) = &self.log else { return Ok(None) };
        let a_page = log.pages.block_bytes() / 4;
        let key = (Slru::Subtrans, xid.get() / a_page);
        let offset = (xid.get() % a_page) as usize * 4;
        let parent = Xid::new(u32::from_le_bytes(log.pages.bytes(key, offset, xid.get())?));
        Ok(parent.is_valid().then_some(parent))
    }

    /// The members of a multixact.
    ///
    /// # Errors
    /// [`DatadirError::StatusMissing`], [`DatadirError::MultiXactMembers`], and those of reading.
    #[doc(alias = "GetMultiXactIdMembers")]
    pub fn members(&self, multi: u32) -> Result<Vec<MultiXactMember>, DatadirError> {
        let Some(log) = &self.log else { return Ok(Vec::new()) };
        let start = log.member_offset(multi)?;
        // Zero is no multixact, so the one before it is followed by the one behind it.
        let next = multi.wrapping_add(1).max(1);
        let end =
            if next == log.next_multi { log.next_multi_offset } else { log.member_offset(next)? };
        let count = end.wrapping_sub(start);
        if start == 0 || end == 0 || count == 0 || count > MOST_MEMBERS {
            return Err(DatadirError::MultiXactMembers { multi, start, end });
        }
        let mut members = Vec::new();
        for index in 0..count {
            let member = log.member(start.wrapping_add(index), multi)?;
            // Where member numbers wrap, number 0 is left out.
            members.extend(member.filter(|member| member.xid.is_valid()));
        }
        Ok(members)
    }

    /// The prepared transactions, oldest number first.
    #[must_use]
    pub fn prepared(&self) -> &[PreparedTransaction] {
        &self.prepared
    }

    /// What was wrong with the state files of prepared transactions.
    #[must_use]
    pub fn problems(&self) -> &[DatadirError] {
        &self.problems
    }

    /// Transactions older than this are over for whoever will ever look.
    #[must_use]
    pub const fn horizon(&self) -> Xid {
        self.horizon
    }

    /// For one thread's questions about many tuples.
    #[must_use]
    pub fn reader(&self) -> StatusReader<'_> {
        StatusReader {
            transactions: self,
            page: RefCell::default(),
            multi: Cell::new(None),
            error: Cell::new(None),
        }
    }
}

/// Answers [`TransactionStatus`] from the logs, for one thread. It keeps the page it used last.
#[derive(Debug)]
pub struct StatusReader<'a> {
    transactions: &'a Transactions,
    page: RefCell<Option<(PageKey, Arc<[u8]>)>>,
    /// The multixact that was asked for last, and its updater: rows locked together share one.
    multi: Cell<Option<(Xid, Option<Xid>)>>,
    error: Cell<Option<DatadirError>>,
}

impl StatusReader<'_> {
    /// Whether a new session would see the tuple.
    ///
    /// # Errors
    /// Those of [`Transactions::status`] and [`Transactions::members`].
    #[inline]
    pub fn is_visible(&self, tuple: &TupleHeader) -> Result<bool, DatadirError> {
        self.sound(tuple.is_visible(&self.snapshot(tuple), self))
    }

    /// What vacuum would make of the tuple.
    ///
    /// # Errors
    /// As [`is_visible`](Self::is_visible).
    #[inline]
    pub fn vacuum_state(&self, tuple: &TupleHeader) -> Result<VacuumState, DatadirError> {
        self.sound(tuple.vacuum_state(self.transactions.horizon, self))
    }

    /// Whether a chunk of a value may be read by whoever may see the value's row.
    ///
    /// # Errors
    /// As [`is_visible`](Self::is_visible).
    #[inline]
    pub fn is_toast_visible(&self, tuple: &TupleHeader) -> Result<bool, DatadirError> {
        self.sound(tuple.is_toast_visible(self))
    }

    /// What a new session would take for over: everything up to the newest transaction there is.
    fn snapshot(&self, tuple: &TupleHeader) -> Snapshot<'static> {
        let end = if self.transactions.log.is_some() {
            self.transactions.snapshot_end
        } else {
            // Nobody knows how far the ids have come; behind both of the tuple's own will do.
            let (xmin, xmax) = (tuple.xmin(), tuple.xmax());
            let newer = if xmin.precedes(xmax) { xmax } else { xmin };
            Xid::new(newer.get().wrapping_add(1).max(Xid::FIRST_NORMAL.get()))
        };
        Snapshot { xmin: end, xmax: end, in_progress: &[], command: 0 }
    }

    /// The answer, unless a log failed on the way to it.
    fn sound<T>(&self, answer: T) -> Result<T, DatadirError> {
        match self.error.take() {
            None => Ok(answer),
            Some(error) => Err(error),
        }
    }

    pub(crate) fn try_status(&self, xid: Xid) -> Result<XidStatus, DatadirError> {
        let transactions = self.transactions;
        if !xid.is_normal() {
            let status = if xid.is_valid() { XidStatus::Committed } else { XidStatus::Aborted };
            return Ok(status);
        }
        let mut xid = xid;
        // Parents are older than their children; whatever the log says, the walk ends.
        loop {
            if transactions.in_progress.contains(&xid.get()) {
                return Ok(XidStatus::InProgress);
            }
            match self.logged(xid)? {
                XidStatus::InProgress => return Ok(transactions.unended),
                XidStatus::SubCommitted => match transactions.parent(xid)? {
                    Some(parent) if parent.is_normal() && parent.precedes(xid) => xid = parent,
                    _ => return Ok(transactions.unended),
                },
                ended => return Ok(ended),
            }
        }
    }

    fn logged(&self, xid: Xid) -> Result<XidStatus, DatadirError> {
        let Some(log) = &self.transactions.log else { return Ok(self.transactions.unended) };
        let number = xid.get();
        let a_page = log.pages.block_bytes() * 4;
        let key = (Slru::Xact, number / a_page);
        let index = (number % a_page) as usize;
        let mut kept = self.page.borrow_mut();
        if kept.as_ref().is_none_or(|(kept, _)| *kept != key) {
            *kept = Some((key, log.pages.page(key, number)?));
        }
        let page = kept.as_ref().map_or(&[][..], |(_, page)| page);
        let [byte] = bytes_at(page, key, index / 4, number)?;
        Ok(match byte >> (index % 4 * 2) & 3 {
            0 => XidStatus::InProgress,
            1 => XidStatus::Committed,
            2 => XidStatus::Aborted,
            _ => XidStatus::SubCommitted,
        })
    }

    fn note(&self, error: DatadirError) {
        // The first one is what the others follow from.
        self.error.set(self.error.get().or(Some(error)));
    }
}

impl TransactionStatus for StatusReader<'_> {
    fn status(&self, xid: Xid) -> XidStatus {
        self.try_status(xid).unwrap_or_else(|error| {
            self.note(error);
            XidStatus::InProgress
        })
    }

    fn update_xid(&self, multi: Xid) -> Option<Xid> {
        if let Some((kept, updater)) = self.multi.get()
            && kept == multi
        {
            return updater;
        }
        match self.transactions.members(multi.get()) {
            Ok(members) => {
                let updater = members.iter().find(|one| one.status.is_update()).map(|one| one.xid);
                self.multi.set(Some((multi, updater)));
                updater
            }
            Err(error) => {
                self.note(error);
                None
            }
        }
    }
}

impl Log {
    /// Where the members of a multixact start.
    fn member_offset(&self, multi: u32) -> Result<u32, DatadirError> {
        let a_page = self.pages.block_bytes() / 4;
        let key = (Slru::MultiXactOffsets, multi / a_page);
        let offset = (multi % a_page) as usize * 4;
        Ok(u32::from_le_bytes(self.pages.bytes(key, offset, multi)?))
    }

    /// The member of that number, counted through all multixacts; `None` for a status that none has.
    fn member(&self, number: u32, multi: u32) -> Result<Option<MultiXactMember>, DatadirError> {
        let groups_a_page = self.pages.block_bytes() / MEMBER_GROUP_BYTES;
        let (group, index) = (number / 4, number % 4);
        let key = (Slru::MultiXactMembers, group / groups_a_page);
        let start = ((group % groups_a_page) * MEMBER_GROUP_BYTES) as usize;
        let page = self.pages.page(key, multi)?;
        let [flags] = bytes_at(&page, key, start + index as usize, multi)?;
        let xid = bytes_at(&page, key, start + 4 + index as usize * 4, multi)?;
        let status = MemberStatus::from_flags(flags);
        Ok(status.map(|status| MultiXactMember { xid: Xid::new(u32::from_le_bytes(xid)), status }))
    }
}

/// A transaction that has to do with a tuple beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiXactMember {
    /// Its id.
    pub xid: Xid,
    /// What it did.
    pub status: MemberStatus,
}

/// What a member of a multixact did to the tuple.
#[doc(alias = "MultiXactStatus")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberStatus {
    /// Locked it for key share.
    ForKeyShare,
    /// Locked it for share.
    ForShare,
    /// Locked it for an update that leaves the key alone.
    ForNoKeyUpdate,
    /// Locked it for update.
    ForUpdate,
    /// Updated it, but for its key.
    NoKeyUpdate,
    /// Updated its key, or deleted it.
    Update,
}

impl MemberStatus {
    /// From the member's flag byte; `None` for a number that means nothing.
    #[must_use]
    pub const fn from_flags(flags: u8) -> Option<Self> {
        Some(match flags {
            0 => Self::ForKeyShare,
            1 => Self::ForShare,
            2 => Self::ForNoKeyUpdate,
            3 => Self::ForUpdate,
            4 => Self::NoKeyUpdate,
            5 => Self::Update,
            _ => return None,
        })
    }

    /// Whether it made a new version or none, rather than only locking.
    #[doc(alias = "ISUPDATE_from_mxstatus")]
    #[must_use]
    pub const fn is_update(self) -> bool {
        matches!(self, Self::NoKeyUpdate | Self::Update)
    }
}

/// Four flag bytes and four ids.
#[doc(alias = "MULTIXACT_MEMBERGROUP_SIZE")]
const MEMBER_GROUP_BYTES: u32 = 20;
/// More members than a multixact can have: each is of a session of its own, or an updater of before.
#[doc(alias = "MAX_BACKENDS")]
const MOST_MEMBERS: u32 = 1 << 18;
/// How many ids a server gives out, at most, between a checkpoint and the end of a backup.
const MOST_AHEAD: u32 = 1 << 21;

const _: () = assert!(BlockSize::KIB_1.bytes_u16() as u32 >= MEMBER_GROUP_BYTES);
