use alloc::collections::VecDeque;
use alloc::vec::Vec;

use pgtoast_base::{Lsn, Xid};

use crate::Layout;
use crate::spill::Extent;

/// A transaction or subtransaction that is not over.
#[derive(Debug)]
pub(crate) struct Transaction<L: Layout> {
    pub(crate) xid: Xid,
    /// Of a subtransaction, the one at the top.
    pub(crate) top: Option<TransactionId>,
    /// Of one at the top, its subtransactions, in no order.
    pub(crate) children: Vec<TransactionId>,
    /// Of a subtransaction, where it is among them.
    pub(crate) child_index: usize,
    pub(crate) place: Option<L::Place>,
    /// Those in memory, behind all that were spilled.
    pub(crate) changes: VecDeque<L::Held>,
    /// Accounted bytes of its own changes in memory, those held as chunks of values counted.
    pub(crate) size: usize,
    /// The same, of one at the top with all its subtransactions.
    pub(crate) total_size: usize,
    pub(crate) spilled: Extent,
    pub(crate) last_lsn: Lsn,
    pub(crate) state: State,
}

/// Its number in the table of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransactionId(pub(crate) u32);

bitflags::bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct State: u8 {
        /// Some of it was streamed, so that it ends in the stream too.
        const STREAMED = 1;
        /// It was spilled at least once.
        const WAS_SPILLED = 2;
        /// Of one at the top: chunks have come, and their row has not.
        const PARTIAL = 4;
        /// Of one at the top: it has changes that a stream would carry.
        const STREAMABLE = 8;
        /// It was found aborted: nothing of it is kept any more.
        const ABORTED = 16;
        /// It may have a file, even if what was written there failed.
        const HAS_FILE = 32;
    }
}

impl<L: Layout> Transaction<L> {
    pub(crate) fn new(xid: Xid) -> Self {
        Self {
            xid,
            top: None,
            children: Vec::new(),
            child_index: 0,
            place: None,
            changes: VecDeque::new(),
            size: 0,
            total_size: 0,
            spilled: Extent::default(),
            last_lsn: Lsn::INVALID,
            state: State::empty(),
        }
    }

    /// Bytes of its list of changes.
    pub(crate) fn list_bytes(&self) -> usize {
        self.changes.capacity() * size_of::<L::Held>()
    }
}
