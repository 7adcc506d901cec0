//! The records that a server's log would hold, made by whoever knows what was done.
use pgtoast_base::{Lsn, Oid, Xid};
use pgtoast_reorder::{Action, Change, InsertFlags, Record};

/// A record that owns what it says.
#[derive(Clone, Debug)]
pub(crate) struct OwnedRecord {
    pub(crate) lsn: u64,
    pub(crate) xid: u32,
    pub(crate) action: OwnedAction,
}

#[derive(Clone, Debug)]
pub(crate) enum OwnedAction {
    Abort(Vec<Xid>),
    Assign(u32),
    Commit(Vec<Xid>),
    Delete { relation: Oid, old: Option<Vec<u8>> },
    Insert { relation: Oid, new: Vec<u8>, flags: InsertFlags },
    Message { is_transactional: bool, prefix: String, content: Vec<u8> },
    Truncate { relations: Vec<Oid>, cascade: bool, restart_identity: bool },
    Update { relation: Oid, old: Option<Vec<u8>>, new: Vec<u8> },
}

impl OwnedRecord {
    pub(crate) fn record(&self) -> Record<'_> {
        let action = match &self.action {
            OwnedAction::Abort(subtransactions) => Action::Abort { subtransactions },
            OwnedAction::Assign(top) => Action::Assign { top: Xid::new(*top) },
            OwnedAction::Commit(subtransactions) => Action::Commit { subtransactions },
            OwnedAction::Delete { relation, old } => {
                Action::Change(Change::Delete { relation: *relation, old: old.as_deref() })
            }
            OwnedAction::Insert { relation, new, flags } => Action::Change(Change::Insert {
                relation: *relation,
                new: Some(new),
                tid: None,
                flags: *flags,
            }),
            OwnedAction::Message { is_transactional, prefix, content } => {
                let is_transactional = *is_transactional;
                Action::Change(Change::Message { is_transactional, prefix, content })
            }
            OwnedAction::Truncate { relations, cascade, restart_identity } => {
                let (cascade, restart_identity) = (*cascade, *restart_identity);
                Action::Change(Change::Truncate { relations, cascade, restart_identity })
            }
            OwnedAction::Update { relation, old, new } => Action::Change(Change::Update {
                relation: *relation,
                old: old.as_deref(),
                new: Some(new),
            }),
        };
        Record { lsn: Lsn::new(self.lsn), xid: Xid::new(self.xid), action }
    }
}

/// A log that is written, and who gets the next number.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) records: Vec<OwnedRecord>,
    next_xid: u32,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { records: Vec::new(), next_xid: 1000 }
    }

    pub(crate) fn new_xid(&mut self) -> u32 {
        self.next_xid += 1;
        self.next_xid
    }

    pub(crate) fn push(&mut self, xid: u32, action: OwnedAction) {
        let lsn = 1 << 24 | (self.records.len() as u64) << 3;
        self.records.push(OwnedRecord { lsn, xid, action });
    }
}
