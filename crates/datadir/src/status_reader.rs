//! One thread's questions about many tuples.
use core::cell::{Cell, RefCell};
use std::sync::Arc;

use pgtoast_base::Xid;
use pgtoast_page::{Snapshot, TransactionStatus, TupleHeader, VacuumState, XidStatus};

use crate::slru_pages::{PageKey, bytes_at};
use crate::{DatadirError, Slru, Transactions};

/// Answers [`TransactionStatus`] from the logs, for one thread. It keeps the page it used last.
#[derive(Debug)]
pub struct StatusReader<'a> {
    transactions: &'a Transactions,
    page: RefCell<Option<(PageKey, Arc<[u8]>)>>,
    /// The multixact that was asked for last, and its updater: rows locked together share one.
    multi: Cell<Option<(Xid, Option<Xid>)>>,
    error: Cell<Option<DatadirError>>,
}

impl<'a> StatusReader<'a> {
    pub(crate) fn new(transactions: &'a Transactions) -> Self {
        Self {
            transactions,
            page: RefCell::default(),
            multi: Cell::new(None),
            error: Cell::new(None),
        }
    }

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

    pub(crate) fn logged(&self, xid: Xid) -> Result<XidStatus, DatadirError> {
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
