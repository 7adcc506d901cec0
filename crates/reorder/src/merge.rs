//! The changes of a transaction and its subtransactions in the log's order.
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use pgtoast_base::Lsn;

use crate::spill::{RecordPlace, SpillCursor, SpillStore};
use crate::stored_change::lsn_of;
use crate::transaction::TransactionId;
use crate::transactions::Transactions;
use crate::{Layout, ReorderError};

/// Where the next change comes from: a heap of where each transaction's next one is in the log.
pub(crate) struct Merge {
    streams: Vec<Stream>,
    next: BinaryHeap<Reverse<(Lsn, usize)>>,
}

/// The changes of one: those that were spilled, then those in memory.
struct Stream {
    id: TransactionId,
    cursor: Option<SpillCursor>,
}

/// A change on its way out.
pub(crate) enum Taken<H> {
    /// It is in memory, still accounted for.
    Held(H),
    /// It was read again from a file.
    Spilled(RecordPlace),
}

/// The next change, and whose it is.
pub(crate) type Next<H> = (TransactionId, Taken<H>);

/// Bytes that are read ahead of all spilled files together, as a part of the limit, and of each.
const AHEAD_PART: usize = 4;
const LEAST_AHEAD: usize = 256;
const MOST_AHEAD: usize = 64 << 10;

impl Merge {
    /// Of a transaction with all its subtransactions.
    pub(crate) fn new<L: Layout, S: SpillStore>(
        top: TransactionId,
        transactions: &Transactions<L>,
        layout: &L,
        store: &mut S,
        work_mem: usize,
    ) -> Result<Self, ReorderError> {
        let all = || core::iter::once(&top).chain(&transactions[top].children);
        let spilled = all().filter(|id| transactions[**id].spilled.records > 0).count();
        let ahead = (work_mem / AHEAD_PART / spilled.max(1)).clamp(LEAST_AHEAD, MOST_AHEAD);
        let streams = all()
            .map(|&id| {
                let transaction = &transactions[id];
                let extent = transaction.spilled;
                let cursor =
                    (extent.records > 0).then(|| SpillCursor::new(transaction.xid, extent, ahead));
                Stream { id, cursor }
            })
            .collect();
        let mut merge = Self { streams, next: BinaryHeap::new() };
        for index in 0..merge.streams.len() {
            merge.look(index, transactions, layout, store)?;
        }
        Ok(merge)
    }

    /// The next change, and whose it is. The bytes of one that was spilled are in `spilled`.
    pub(crate) fn next<L: Layout, S: SpillStore>(
        &mut self,
        transactions: &mut Transactions<L>,
        layout: &L,
        store: &mut S,
        spilled: &mut Vec<u8>,
    ) -> Result<Option<Next<L::Held>>, ReorderError> {
        let Some(Reverse((_, index))) = self.next.pop() else { return Ok(None) };
        let Stream { id, cursor } = &mut self.streams[index];
        let id = *id;
        let taken = match cursor {
            Some(cursor) => Taken::Spilled(cursor.next(store, spilled)?),
            None => match transactions[id].changes.pop_front() {
                Some(held) => Taken::Held(held),
                None => return Ok(None),
            },
        };
        if let Err(error) = self.look(index, transactions, layout, store) {
            if let Taken::Held(held) = taken {
                transactions[id].changes.push_front(held);
            }
            return Err(error);
        }
        Ok(Some((id, taken)))
    }

    /// Notes where the next change of a stream is, if it has one.
    fn look<L: Layout, S: SpillStore>(
        &mut self,
        index: usize,
        transactions: &Transactions<L>,
        layout: &L,
        store: &mut S,
    ) -> Result<(), ReorderError> {
        let stream = &mut self.streams[index];
        let mut lsn = None;
        if let Some(cursor) = &mut stream.cursor {
            lsn = cursor.peek(store)?;
            if lsn.is_none() {
                stream.cursor = None;
            }
        }
        if lsn.is_none()
            && let Some(held) = transactions[stream.id].changes.front()
        {
            lsn = Some(lsn_of(layout.bytes(held)?));
        }
        self.next.extend(lsn.map(|lsn| Reverse((lsn, index))));
        Ok(())
    }
}
