//! What comes in: the records of a log, already taken apart, in the log's order.
use pgtoast_base::{ItemPointer, Lsn, Oid, Xid};

/// A record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where it is in the log. The records of a transaction come in this order; some may share one place.
    pub lsn: Lsn,
    /// Whose it is: a transaction's or a subtransaction's.
    pub xid: Xid,
    /// What it says.
    pub action: Action<'a>,
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// The transaction, or the subtransaction alone, was undone, and these of its subtransactions with it.
    #[doc(alias = "ReorderBufferAbort")]
    Abort {
        /// Those that it had at the time.
        subtransactions: &'a [Xid],
    },
    /// It is a subtransaction of `top`. May come more than once, and after its first changes.
    #[doc(alias = "ReorderBufferAssignChild")]
    Assign {
        /// The transaction at the top.
        top: Xid,
    },
    /// It changed something.
    Change(Change<'a>),
    /// The transaction is committed, with these subtransactions, known before or not.
    #[doc(alias = "ReorderBufferCommit")]
    Commit {
        /// Those that were not undone.
        subtransactions: &'a [Xid],
    },
}

/// A change. Tuples are whole heap tuples, header and all; what the header says of transactions is not
/// looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A row was deleted.
    Delete {
        /// Its table.
        relation: Oid,
        /// What the replica identity keeps of it; its values are here, none is out of line.
        old: Option<&'a [u8]>,
    },
    /// A row was inserted, or a chunk into a TOAST relation.
    Insert {
        /// Its table.
        relation: Oid,
        /// The row.
        new: Option<&'a [u8]>,
        /// Where it went, which pointers to direct values name.
        tid: Option<ItemPointer>,
        /// More about it.
        flags: InsertFlags,
    },
    /// A message that somebody wrote into the log.
    #[doc(alias = "pg_logical_emit_message")]
    Message {
        /// Whether it is part of the transaction, or goes out at once whatever becomes of that.
        is_transactional: bool,
        /// Whose it is.
        prefix: &'a str,
        /// Any bytes.
        content: &'a [u8],
    },
    /// Tables were emptied.
    Truncate {
        /// Which.
        relations: &'a [Oid],
        /// And those that refer to them, which are among `relations`.
        cascade: bool,
        /// Their sequences start again.
        restart_identity: bool,
    },
    /// A row was updated.
    Update {
        /// Its table.
        relation: Oid,
        /// What the replica identity keeps of the old row, if that changed or all of it is kept.
        old: Option<&'a [u8]>,
        /// The new row.
        new: Option<&'a [u8]>,
    },
}

bitflags::bitflags! {
    /// What else the log says of an insert.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct InsertFlags: u8 {
        /// It is a chunk: until its row has come, the transaction is not streamed.
        #[doc(alias = "XLH_INSERT_ON_TOAST_RELATION")]
        const ON_TOAST_RELATION = 1;
        /// More rows of the same command follow, whose chunks may have come already: those that this row
        /// does not use are kept.
        #[doc(alias = "XLH_INSERT_LAST_IN_MULTI")]
        const KEEPS_TOAST = 2;
        /// A table is being rewritten; it is no change, and is left out.
        #[doc(alias = "XLH_INSERT_NO_LOGICAL")]
        const NO_LOGICAL = 4;
    }
}
