use alloc::vec::Vec;

use pgtoast_base::{Lsn, Xid};

use crate::spill::{Extent, FILE_HEADER, SpillStore, encode_record, file_header};
use crate::stored_change::{accounted_bytes, encode};
use crate::transaction::{State, TransactionId};
use crate::transactions::Transactions;
use crate::{
    Action, Catalog, Change, Eviction, InsertFlags, Layout, Message, Options, Output, Record,
    ReorderError, ReorderStats, TransactionInfo,
};

/// Collects the changes of transactions that run at the same time, and hands each transaction out whole when
/// it commits; or in part before, when memory is short. Its memory is a [`Layout`]'s, and what has no room
/// there goes to a [`SpillStore`].
#[derive(Debug)]
pub struct ReorderBuffer<L: Layout, S> {
    pub(crate) layout: L,
    pub(crate) store: S,
    pub(crate) options: Options,
    pub(crate) transactions: Transactions<L>,
    pub(crate) stats: ReorderStats,
    encoded: Vec<u8>,
}

/// Spilled changes are written in pieces of about so many bytes.
const WRITE_BYTES: usize = 64 << 10;

impl<L: Layout, S: SpillStore> ReorderBuffer<L, S> {
    /// An empty one.
    pub fn new(layout: L, store: S, options: Options) -> Self {
        let (transactions, stats) = (Transactions::new(), ReorderStats::default());
        Self { layout, store, options, transactions, stats, encoded: Vec::new() }
    }

    /// Takes all records in, and hands out what is complete.
    ///
    /// # Errors
    /// As [`apply`](Self::apply), at the first record that has one.
    pub fn decode<'r, C: Catalog + ?Sized, O: Output + ?Sized>(
        &mut self,
        records: impl IntoIterator<Item = Record<'r>>,
        catalog: &C,
        output: &mut O,
    ) -> Result<(), O::Error> {
        records.into_iter().try_for_each(|record| self.apply(&record, catalog, output))
    }

    /// Takes a record in. What it completes is handed to `output` before this returns, and where memory is
    /// short, other transactions are streamed or spilled.
    ///
    /// # Errors
    /// [`ReorderError::Family`], [`LsnOrder`](ReorderError::LsnOrder), [`TooLong`](ReorderError::TooLong) and
    /// [`Memory`](ReorderError::Memory) leave everything as it was. When spilling fails, the change is in, and
    /// what could not be spilled is in memory: the next change tries again. Any error while a transaction is
    /// handed out ends it: it is dropped, and if it was not over, so are its later changes.
    pub fn apply<C: Catalog + ?Sized, O: Output + ?Sized>(
        &mut self,
        record: &Record<'_>,
        catalog: &C,
        output: &mut O,
    ) -> Result<(), O::Error> {
        let Record { lsn, xid, action } = *record;
        let result = match action {
            Action::Abort { subtransactions } => self.abort(xid, subtransactions, lsn, output),
            Action::Assign { top } => self.assign(top, xid).map_err(Into::into),
            Action::Change(Change::Message { is_transactional: false, prefix, content }) => {
                output.message(None, &Message { prefix, content })
            }
            Action::Change(change) => self.queue(xid, lsn, &change, catalog, output),
            Action::Commit { subtransactions } => {
                self.commit(xid, subtransactions, lsn, catalog, output)
            }
        };
        let allocated = self.allocated_bytes();
        self.stats.peak_allocated_bytes = self.stats.peak_allocated_bytes.max(allocated);
        result
    }

    /// What it has done, and what it holds.
    #[must_use]
    pub fn stats(&self) -> ReorderStats {
        ReorderStats {
            allocated_bytes: self.allocated_bytes(),
            open_transactions: self.transactions.len(),
            ..self.stats
        }
    }

    /// Accounted bytes of a transaction's or subtransaction's own changes in memory; `None` for one that is
    /// not known.
    #[must_use]
    pub fn accounted_bytes_of(&self, xid: Xid) -> Option<usize> {
        self.transactions.get(xid).map(|one| one.size)
    }

    /// Where changes lie in memory.
    #[must_use]
    pub const fn layout(&self) -> &L {
        &self.layout
    }

    /// Where spilled changes lie.
    #[must_use]
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Where spilled changes lie, to be looked after.
    pub const fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    fn allocated_bytes(&self) -> usize {
        self.layout.account().subtree_allocated() + self.transactions.list_bytes
    }

    fn queue<C: Catalog + ?Sized, O: Output + ?Sized>(
        &mut self,
        xid: Xid,
        lsn: Lsn,
        change: &Change<'_>,
        catalog: &C,
        output: &mut O,
    ) -> Result<(), O::Error> {
        if let Change::Insert { flags, .. } = change
            && flags.contains(InsertFlags::NO_LOGICAL)
        {
            self.stats.rewrite_inserts += 1;
            return Ok(());
        }
        let id = self.transactions.find_or_add(xid);
        let top = self.transactions.top_of(id);
        let last = self.transactions[id].last_lsn;
        if lsn < last {
            return Err(ReorderError::LsnOrder { xid, found: lsn, last }.into());
        }
        let states = self.transactions[id].state | self.transactions[top].state;
        if states.contains(State::ABORTED) {
            return Ok(());
        }
        self.hold(id, top, lsn, change)?;
        let state = &mut self.transactions[top].state;
        state.insert(State::STREAMABLE);
        state.set(State::PARTIAL, is_partial_after(state.contains(State::PARTIAL), change));
        let is_whole = !state.contains(State::PARTIAL);
        if output.streams() && is_whole && self.transactions[id].spilled.records > 0 {
            self.stream(top, lsn, catalog, output)?;
        }
        self.evict(lsn, catalog, output)
    }

    /// Puts a change into memory.
    fn hold(
        &mut self,
        id: TransactionId,
        top: TransactionId,
        lsn: Lsn,
        change: &Change<'_>,
    ) -> Result<(), ReorderError> {
        self.encoded.clear();
        encode(lsn, change, &mut self.encoded)?;
        for id in [top, id] {
            if self.transactions[id].place.is_none() {
                let place = match &self.transactions[top].place {
                    Some(place) => self.layout.share(place),
                    None => self.layout.open()?,
                };
                self.transactions[id].place = Some(place);
            }
        }
        let Some(place) = &self.transactions[id].place else { return Ok(()) };
        let held = self.layout.hold(place, &self.encoded)?;
        let transaction = &mut self.transactions[id];
        let before = transaction.list_bytes();
        if transaction.changes.capacity() == 0 {
            transaction.changes.reserve_exact(1);
        }
        transaction.changes.push_back(held);
        transaction.last_lsn = lsn;
        let grown = transaction.list_bytes() - before;
        self.transactions.list_bytes += grown;
        self.transactions.add(id, accounted_bytes(change), &mut self.stats);
        Ok(())
    }

    /// Streams, spills or drops transactions until what is accounted for is below the limit.
    fn evict<C: Catalog + ?Sized, O: Output + ?Sized>(
        &mut self,
        lsn: Lsn,
        catalog: &C,
        output: &mut O,
    ) -> Result<(), O::Error> {
        while self.is_over_limit() {
            let streamed = if output.streams() { self.largest_streamable() } else { None };
            let Some(id) = streamed.or_else(|| self.transactions.largest()) else { break };
            let transaction = &self.transactions[id];
            if self.options.drops_aborted && catalog.is_aborted(transaction.xid) {
                self.stats.dropped_transactions += 1;
                self.give_up(id)?;
            } else if streamed.is_some() {
                self.stream(id, lsn, catalog, output)?;
            } else {
                self.spill(id)?;
            }
        }
        Ok(())
    }

    fn is_over_limit(&self) -> bool {
        let accounted = self.stats.accounted_bytes;
        let is_over = accounted >= self.options.work_mem;
        accounted > 0 && (is_over || self.options.eviction == Eviction::Immediate)
    }

    /// The one at the top with the most in memory, its subtransactions counted, of those that can be streamed.
    fn largest_streamable(&self) -> Option<TransactionId> {
        let can_be = |state: State| {
            let states = State::STREAMABLE | State::PARTIAL | State::ABORTED;
            state & states == State::STREAMABLE
        };
        self.transactions
            .tops()
            .filter(|(_, one)| one.total_size > 0 && can_be(one.state))
            .max_by_key(|(_, one)| one.total_size)
            .map(|(id, _)| id)
    }

    /// Spills one, and if it is at the top its subtransactions before it.
    fn spill(&mut self, id: TransactionId) -> Result<(), ReorderError> {
        for index in 0..self.transactions[id].children.len() {
            self.spill_one(self.transactions[id].children[index])?;
        }
        self.spill_one(id)
    }

    fn spill_one(&mut self, id: TransactionId) -> Result<(), ReorderError> {
        let transaction = &self.transactions[id];
        if transaction.changes.is_empty() {
            return Ok(());
        }
        let (was_spilled, size) =
            (transaction.state.contains(State::WAS_SPILLED), transaction.size);
        while !self.transactions[id].changes.is_empty() {
            self.spill_piece(id)?;
        }
        self.free_list(id);
        self.transactions[id].state.insert(State::WAS_SPILLED);
        self.stats.spilled_transactions += u64::from(!was_spilled);
        self.stats.spill_count += 1;
        self.stats.spilled_bytes += size as u64;
        Ok(())
    }

    /// Writes some of the first changes to the file, and gives them back once they are there.
    fn spill_piece(&mut self, id: TransactionId) -> Result<(), ReorderError> {
        let Self { layout, store, transactions, encoded, .. } = self;
        let transaction = &transactions[id];
        let (xid, Extent { bytes: offset, mut records }) = (transaction.xid, transaction.spilled);
        encoded.clear();
        if offset == 0 {
            encoded.extend_from_slice(&file_header(xid));
        }
        let mut count = 0;
        for held in &transaction.changes {
            encode_record(records, layout.bytes(held)?, encoded);
            records += 1;
            count += 1;
            if encoded.len() >= WRITE_BYTES {
                break;
            }
        }
        transactions[id].state.insert(State::HAS_FILE);
        store.write_at(xid, offset, encoded).map_err(|error| error.at(xid, offset))?;
        let bytes = offset + encoded.len() as u64;
        debug_assert!(bytes > FILE_HEADER as u64);
        transactions[id].spilled = Extent { bytes, records };
        if self.encoded.capacity() > 2 * WRITE_BYTES {
            self.encoded = Vec::new();
        }
        self.give_back_first(id, count)
    }

    /// Gives so many of the first changes back, and what was accounted for them.
    fn give_back_first(&mut self, id: TransactionId, count: usize) -> Result<(), ReorderError> {
        for _ in 0..count {
            let Some(held) = self.transactions[id].changes.pop_front() else { break };
            self.give_back(id, held)?;
        }
        Ok(())
    }

    /// Gives a change back, and what was accounted for it.
    pub(crate) fn give_back(
        &mut self,
        id: TransactionId,
        held: L::Held,
    ) -> Result<(), ReorderError> {
        let bytes = held_bytes(self.layout.bytes(&held)?);
        self.layout.give_back(held)?;
        self.transactions.subtract(id, bytes, 1, &mut self.stats);
        Ok(())
    }

    fn free_list(&mut self, id: TransactionId) {
        let transaction = &mut self.transactions[id];
        let bytes = transaction.list_bytes();
        transaction.changes = alloc::collections::VecDeque::new();
        self.transactions.list_bytes -= bytes;
    }

    /// Drops all that is held of one, in memory and in its file.
    pub(crate) fn drop_changes(&mut self, id: TransactionId) -> Result<(), ReorderError> {
        self.give_back_first(id, usize::MAX)?;
        self.free_list(id);
        let transaction = &mut self.transactions[id];
        transaction.spilled = Extent::default();
        if transaction.state.contains(State::HAS_FILE) {
            transaction.state.remove(State::HAS_FILE);
            let xid = transaction.xid;
            self.store.remove(xid).map_err(|error| error.at(xid, 0))?;
        }
        Ok(())
    }

    /// Drops one and its subtransactions, and whatever comes of them later.
    pub(crate) fn give_up(&mut self, id: TransactionId) -> Result<(), ReorderError> {
        let mut result = Ok(());
        for index in 0..self.transactions[id].children.len() {
            result = result.and(self.drop_changes(self.transactions[id].children[index]));
        }
        self.transactions[id].state.insert(State::ABORTED);
        result.and(self.drop_changes(id))
    }

    /// Forgets one, and if it is at the top its subtransactions. What can be removed is, whatever fails.
    fn remove(&mut self, id: TransactionId) -> Result<(), ReorderError> {
        let mut result = Ok(());
        while let Some(&child) = self.transactions[id].children.last() {
            result = result.and(self.remove_one(child));
        }
        result.and(self.remove_one(id))
    }

    fn remove_one(&mut self, id: TransactionId) -> Result<(), ReorderError> {
        let mut result = self.drop_changes(id);
        if let Some(place) = self.transactions[id].place.take() {
            result = result.and(self.layout.close(place).map_err(Into::into));
        }
        self.transactions.remove(id);
        result
    }

    /// Makes one a subtransaction of another.
    fn assign(&mut self, top: Xid, xid: Xid) -> Result<(), ReorderError> {
        let family = |of| Err(ReorderError::Family { xid, top: of, found: top });
        if top == xid {
            return family(top);
        }
        let known = self.transactions.find(xid);
        if let Some(parent) = self.transactions.find(top)
            && let Some(above) = self.transactions[parent].top
        {
            return family(self.transactions[above].xid);
        }
        if let Some(child) = known {
            match self.transactions[child].top {
                Some(above) if self.transactions[above].xid == top => return Ok(()),
                Some(above) => return family(self.transactions[above].xid),
                None if !self.transactions[child].children.is_empty() => return family(xid),
                None => {}
            }
        }
        let (child, parent) =
            (self.transactions.find_or_add(xid), self.transactions.find_or_add(top));
        self.transactions.adopt(parent, child);
        let inherited = self.transactions[child].state & (State::PARTIAL | State::STREAMABLE);
        self.transactions[child].state.remove(inherited);
        self.transactions[parent].state.insert(inherited);
        // What it gets from now on lies beside the other changes of the whole.
        match self.transactions[child].place.take() {
            Some(place) => Ok(self.layout.close(place)?),
            None => Ok(()),
        }
    }

    fn commit<C: Catalog + ?Sized, O: Output + ?Sized>(
        &mut self,
        xid: Xid,
        subtransactions: &[Xid],
        lsn: Lsn,
        catalog: &C,
        output: &mut O,
    ) -> Result<(), O::Error> {
        for &subtransaction in subtransactions {
            if self.transactions.find(subtransaction).is_some() {
                self.assign(xid, subtransaction)?;
            }
        }
        let Some(id) = self.transactions.find(xid) else { return Ok(()) };
        if let Some(above) = self.transactions[id].top {
            let top = self.transactions[above].xid;
            return Err(ReorderError::Family { xid, top, found: xid }.into());
        }
        let sent = self.send_commit(id, lsn, catalog, output);
        let removed = self.remove(id);
        sent.and(removed.map_err(Into::into))
    }

    fn abort<O: Output + ?Sized>(
        &mut self,
        xid: Xid,
        subtransactions: &[Xid],
        lsn: Lsn,
        output: &mut O,
    ) -> Result<(), O::Error> {
        let mut result = Ok(());
        for &one in subtransactions.iter().chain([&xid]) {
            let Some(id) = self.transactions.find(one) else { continue };
            if self.transactions[id].state.contains(State::STREAMED) {
                let xid = self.transactions[self.transactions.top_of(id)].xid;
                let info = TransactionInfo { xid, change_xid: one, lsn };
                result = result.and(output.stream_abort(&info));
            }
            result = result.and(self.remove(id).map_err(Into::into));
        }
        result
    }
}

/// What was accounted for a change, from its bytes in memory.
fn held_bytes(bytes: &[u8]) -> usize {
    let change = crate::stored_change::StoredChange::parse(bytes);
    change.expect("what is in memory is as it was encoded").accounted_bytes()
}

/// Whether chunks wait for their row after a change.
fn is_partial_after(is_partial: bool, change: &Change<'_>) -> bool {
    match change {
        Change::Insert { flags, .. } if flags.contains(InsertFlags::ON_TOAST_RELATION) => true,
        Change::Insert { flags, .. } if flags.contains(InsertFlags::KEEPS_TOAST) => is_partial,
        Change::Insert { .. } | Change::Update { .. } => false,
        _ => is_partial,
    }
}
