//! Rows without pages: headers that transactions write and look at.
#![allow(dead_code, reason = "each test uses a part of it")]
use std::sync::Arc;

use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Xid};
use pgtoast_page::{HeapTupleMut, Infomask, TupleHeader, VacuumState};
use pgtoast_store::StoreError;
use pgtoast_store::transaction::{CommitLog, Isolation, TransactionCore, Transactions};

pub(crate) const ROUND: u64 = 1 << 32;

/// Transactions whose counter stands at `next`.
pub(crate) fn transactions(next: u64) -> Arc<Transactions> {
    Transactions::new(next, CommitLog::new())
}

/// A transaction that has an id.
pub(crate) fn writer(transactions: &Arc<Transactions>) -> (TransactionCore, Xid) {
    let mut writer = transactions.begin(Isolation::ReadCommitted);
    let xid = writer.xid().expect("there are ids");
    (writer, xid)
}

/// One version of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row(pub(crate) TupleHeader);

impl Row {
    pub(crate) fn insert(writer: &mut TransactionCore) -> Self {
        let mut bytes = [0; 24];
        let mut tuple = HeapTupleMut::new(&mut bytes).expect("long enough");
        let header = tuple.header_mut();
        header.set_inserted(writer.xid().expect("there are ids"), writer.command());
        Self(*header)
    }

    /// Ends it; whoever it is knows that nobody else has.
    pub(crate) fn delete(&mut self, writer: &mut TransactionCore) {
        let xid = writer.xid().expect("there are ids");
        let (made, command) = (self.0.field3(), writer.command());
        let own = writer.is_own(self.0.xmin()) && !self.0.infomask().contains(Infomask::COMBO_CID);
        let tid = ItemPointer::new(BlockNumber::new(0), OffsetNumber::FIRST);
        if own {
            let combined = writer.combined_command(made, command);
            self.0.set_deleted(xid, combined, tid);
            self.0.set_infomask(self.0.infomask() | Infomask::COMBO_CID);
        } else if writer.is_own(self.0.xmin()) {
            // Ended before, by a subtransaction that was undone: the combined id still tells who
            // made it.
            let made = pgtoast_page::TransactionStatus::own_commands(&writer.view(), made).0;
            let combined = writer.combined_command(made, command);
            self.0.set_deleted(xid, combined, tid);
            self.0.set_infomask(self.0.infomask() | Infomask::COMBO_CID);
        } else {
            self.0.set_deleted(xid, command, tid);
        }
    }

    pub(crate) fn is_seen(&self, reader: &TransactionCore) -> bool {
        let view = reader.view();
        self.0.is_visible(&view.snapshot(), &view)
    }

    /// What a vacuum makes of it.
    pub(crate) fn state(&self, transactions: &Arc<Transactions>) -> VacuumState {
        let vacuum = transactions.begin(Isolation::ReadCommitted);
        self.0.vacuum_state(transactions.horizon(), &vacuum.view())
    }
}

/// What is awaited, if that was refused.
pub(crate) fn is_deadlock(result: Result<(), StoreError>) -> bool {
    match result {
        Ok(()) => false,
        Err(StoreError::Deadlock { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}
