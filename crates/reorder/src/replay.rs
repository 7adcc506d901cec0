//! A transaction on its way out: its changes in order, values out of line put together, chunks dropped when
//! their row is through.
use alloc::vec::Vec;

use pgtoast_base::{Lsn, Oid};

use crate::merge::{Merge, Taken};
use crate::pending_toast::{ChunkKey, PendingChunk, PendingToast, Rebuilder};
use crate::spill::SpillStore;
use crate::stored_change::{StoredAction, StoredChange};
use crate::transaction::{State, TransactionId};
use crate::{
    Catalog, Layout, Message, Output, Relation, RelationKind, ReorderBuffer, ReorderError,
    RowAction, RowChange, SpillFault, TransactionInfo, Truncate,
};

/// How a transaction goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Whole,
    Streamed,
}

/// What becomes of a change that is through.
enum Fate {
    /// It is given back; and the chunks that were kept for it, if it is the last row that may use them.
    Done { is_last_of_toast: bool },
    /// It is a chunk, kept until its row comes.
    Kept(ChunkKey),
}

impl<L: Layout, S: SpillStore> ReorderBuffer<L, S> {
    /// Hands out a transaction that is committed, or what is left of it to stream.
    pub(crate) fn send_commit<C: Catalog + ?Sized, O: Output + ?Sized>(
        &mut self,
        id: TransactionId,
        lsn: Lsn,
        catalog: &C,
        output: &mut O,
    ) -> Result<(), O::Error> {
        let transaction = &self.transactions[id];
        let info = TransactionInfo { xid: transaction.xid, change_xid: transaction.xid, lsn };
        if transaction.state.contains(State::ABORTED) {
            return Ok(());
        }
        if transaction.state.contains(State::STREAMED) {
            self.stream(id, lsn, catalog, output)?;
            output.stream_commit(&info)?;
        } else {
            let is_empty = |id: &TransactionId| {
                let one = &self.transactions[*id];
                one.changes.is_empty() && one.spilled.records == 0
            };
            if is_empty(&id) && transaction.children.iter().all(is_empty) {
                return Ok(());
            }
            output.begin(&info)?;
            self.replay(id, Way::Whole, catalog, output)?;
            output.commit(&info)?;
        }
        self.stats.committed_transactions += 1;
        Ok(())
    }

    /// Hands out what there is of a transaction that is not over, with its subtransactions.
    pub(crate) fn stream<C: Catalog + ?Sized, O: Output + ?Sized>(
        &mut self,
        top: TransactionId,
        lsn: Lsn,
        catalog: &C,
        output: &mut O,
    ) -> Result<(), O::Error> {
        let xid = self.transactions[top].xid;
        let info = TransactionInfo { xid, change_xid: xid, lsn };
        let sent = output
            .stream_start(&info)
            .and_then(|()| self.replay(top, Way::Streamed, catalog, output))
            .and_then(|()| output.stream_stop(&info));
        if let Err(error) = sent {
            self.give_up(top)?;
            return Err(error);
        }
        let first = !self.transactions[top].state.contains(State::STREAMED);
        self.stats.streamed_transactions += u64::from(first);
        self.stats.stream_count += 1;
        self.transactions[top].state.insert(State::STREAMED);
        for index in 0..self.transactions[top].children.len() {
            self.drop_changes(self.transactions[top].children[index])?;
        }
        Ok(self.drop_changes(top)?)
    }

    fn replay<C: Catalog + ?Sized, O: Output + ?Sized>(
        &mut self,
        top: TransactionId,
        way: Way,
        catalog: &C,
        output: &mut O,
    ) -> Result<(), O::Error> {
        let mut pending = PendingToast::new();
        let sent = self.replay_keeping(top, way, &mut pending, catalog, output);
        self.stats.orphan_chunks += pending.len();
        let dropped = self.drop_pending(&mut pending);
        sent.and(dropped.map_err(Into::into))
    }

    fn replay_keeping<C: Catalog + ?Sized, O: Output + ?Sized>(
        &mut self,
        top: TransactionId,
        way: Way,
        pending: &mut PendingToast<L::Held>,
        catalog: &C,
        output: &mut O,
    ) -> Result<(), O::Error> {
        let mut spilled = Vec::new();
        let xid = self.transactions[top].xid;
        let mut merge = {
            let Self { layout, store, transactions, options, .. } = self;
            Merge::new(top, transactions, layout, store, options.work_mem)?
        };
        loop {
            let Self { layout, store, transactions, stats, .. } = self;
            let next = merge.next(transactions, layout, store, &mut spilled)?;
            let Some((id, taken)) = next else { return Ok(()) };
            if way == Way::Streamed {
                transactions[id].state.insert(State::STREAMED);
            }
            let sent = parse(&taken, layout, &spilled).map_err(Into::into).and_then(|change| {
                let info =
                    TransactionInfo { xid, change_xid: transactions[id].xid, lsn: change.lsn };
                let longest_bytes = &mut stats.longest_rebuilt_bytes;
                let mut sender = Sender { layout, store, pending, catalog, longest_bytes, way };
                sender.send(&info, &change, output)
            });
            match sent {
                Ok(Fate::Kept(key)) => pending.keep(key, PendingChunk { id, taken }),
                Ok(Fate::Done { is_last_of_toast }) => {
                    self.stats.sent_changes += 1;
                    self.give_back_taken(id, taken)?;
                    if is_last_of_toast {
                        self.drop_pending(pending)?;
                    }
                }
                Err(error) => {
                    self.give_back_taken(id, taken)?;
                    return Err(error);
                }
            }
        }
    }

    fn give_back_taken(
        &mut self,
        id: TransactionId,
        taken: Taken<L::Held>,
    ) -> Result<(), ReorderError> {
        match taken {
            Taken::Held(held) => self.give_back(id, held),
            Taken::Spilled(_) => Ok(()),
        }
    }

    fn drop_pending(&mut self, pending: &mut PendingToast<L::Held>) -> Result<(), ReorderError> {
        let mut result = Ok(());
        for PendingChunk { id, taken } in pending.drain() {
            result = result.and(self.give_back_taken(id, taken));
        }
        result
    }
}

/// The change in its bytes, in memory or as they were read.
fn parse<'t, L: Layout>(
    taken: &'t Taken<L::Held>,
    layout: &'t L,
    spilled: &'t [u8],
) -> Result<StoredChange<'t>, ReorderError> {
    match taken {
        Taken::Held(held) => {
            let change = StoredChange::parse(layout.bytes(held)?);
            Ok(change.expect("what is in memory is as it was encoded"))
        }
        Taken::Spilled(place) => StoredChange::parse(spilled).map_err(|at| {
            let (xid, offset) = (place.xid, place.offset);
            ReorderError::Spill { xid, offset, fault: SpillFault::Change { at } }
        }),
    }
}

/// Hands one change out.
struct Sender<'s, L: Layout, S, C: ?Sized> {
    layout: &'s L,
    store: &'s mut S,
    pending: &'s PendingToast<L::Held>,
    catalog: &'s C,
    longest_bytes: &'s mut usize,
    way: Way,
}

impl<L: Layout, S: SpillStore, C: Catalog + ?Sized> Sender<'_, L, S, C> {
    fn send<O: Output + ?Sized>(
        &mut self,
        info: &TransactionInfo,
        change: &StoredChange<'_>,
        output: &mut O,
    ) -> Result<Fate, O::Error> {
        let lsn = change.lsn;
        match change.action {
            StoredAction::Delete { relation, old } => {
                let relation = self.relation(relation, lsn)?;
                self.row(info, RowAction::Delete, relation, (old, None), false, output)
            }
            StoredAction::Insert { relation, new, tid, keeps_toast } => {
                let relation = self.relation(relation, lsn)?;
                if let (RelationKind::Toast(width), Some(tuple)) = (relation.kind(), new) {
                    let key = self.pending.key_of(relation.id(), width, tuple, tid)?;
                    return Ok(key.map_or(Fate::Done { is_last_of_toast: false }, Fate::Kept));
                }
                self.row(info, RowAction::Insert, relation, (None, new), keeps_toast, output)
            }
            StoredAction::Message { prefix, content } => {
                let message = Message { prefix, content };
                match self.way {
                    Way::Whole => output.message(Some(info), &message)?,
                    Way::Streamed => output.stream_message(info, &message)?,
                }
                Ok(Fate::Done { is_last_of_toast: false })
            }
            StoredAction::Truncate { relations, cascade, restart_identity } => {
                let relations = relations
                    .iter()
                    .map(|id| self.relation(Oid::new(u32::from_le_bytes(*id)), lsn))
                    .collect::<Result<_, _>>()?;
                let truncate = Truncate { relations, cascade, restart_identity };
                match self.way {
                    Way::Whole => output.truncate(info, &truncate)?,
                    Way::Streamed => output.stream_truncate(info, &truncate)?,
                }
                Ok(Fate::Done { is_last_of_toast: false })
            }
            StoredAction::Update { relation, old, new } => {
                let relation = self.relation(relation, lsn)?;
                self.row(info, RowAction::Update, relation, (old, new), false, output)
            }
        }
    }

    fn row<O: Output + ?Sized>(
        &mut self,
        info: &TransactionInfo,
        action: RowAction,
        relation: &Relation,
        (old, new): (Option<&[u8]>, Option<&[u8]>),
        keeps_toast: bool,
        output: &mut O,
    ) -> Result<Fate, O::Error> {
        // Chunks that go are nobody's concern but the server's own.
        if relation.kind() != RelationKind::Table {
            return Ok(Fate::Done { is_last_of_toast: false });
        }
        let mut rebuilder = Rebuilder {
            layout: self.layout,
            store: self.store,
            pending: self.pending,
            direct: self.catalog.direct_values(),
            longest_bytes: self.longest_bytes,
        };
        let mut change = RowChange::new(action, relation, old, new, &mut rebuilder)?;
        match self.way {
            Way::Whole => output.change(info, &mut change)?,
            Way::Streamed => output.stream_change(info, &mut change)?,
        }
        Ok(Fate::Done { is_last_of_toast: !keeps_toast })
    }
}

impl<'s, L: Layout, S, C: Catalog + ?Sized> Sender<'s, L, S, C> {
    fn relation(&self, id: Oid, lsn: Lsn) -> Result<&'s Relation, ReorderError> {
        self.catalog.relation(id, lsn).ok_or(ReorderError::Relation { relation: id, lsn })
    }
}
