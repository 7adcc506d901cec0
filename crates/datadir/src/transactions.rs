//! What became of transactions, from the logs that servers keep about them.
//!
//! Nothing runs in a cold directory. So a transaction that no log says has ended was cut off by a crash
//! and counts as aborted; only a prepared one is still in progress. In a directory that must be
//! replayed first the log may be older than the tables, so there it counts as in progress.
//!
//! Source: `transam.c`, `clog.c`, `subtrans.c` (REL_18).
use std::collections::BTreeSet;
use std::sync::Arc;

use pgtoast_base::Xid;
use pgtoast_page::XidStatus;

use crate::multixact::{MultiXactMember, MultiXacts};
use crate::slru_pages::SlruPages;
use crate::{
    Consistency, ControlFile, DatadirError, PreparedTransaction, Slru, Source, StatusReader,
};

/// What became of every transaction. Threads ask at once, each best through a
/// [`reader`](Self::reader) of its own.
#[derive(Debug)]
pub struct Transactions {
    /// `None` where there is no data directory: then hint bits are all there is.
    pub(crate) log: Option<Log>,
    prepared: Vec<PreparedTransaction>,
    /// Ids of prepared transactions and their subtransactions.
    pub(crate) in_progress: BTreeSet<u32>,
    problems: Vec<DatadirError>,
    /// From this id on nothing is over.
    pub(crate) snapshot_end: Xid,
    pub(crate) horizon: Xid,
    /// What a transaction is that the log says nothing of.
    pub(crate) unended: XidStatus,
}

#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) pages: SlruPages,
    multixacts: MultiXacts,
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
                multixacts: MultiXacts {
                    next: control.next_multi,
                    next_offset: control.next_multi_offset,
                },
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
        match &self.log {
            Some(log) => log.multixacts.members(&log.pages, multi),
            None => Ok(Vec::new()),
        }
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
        StatusReader::new(self)
    }
}

/// How many ids a server gives out, at most, between a checkpoint and the end of a backup.
const MOST_AHEAD: u32 = 1 << 21;
