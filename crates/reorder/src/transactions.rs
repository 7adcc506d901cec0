use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use pgtoast_base::Xid;

use crate::sizes_heap::SizesHeap;
use crate::transaction::{Transaction, TransactionId};
use crate::{Layout, ReorderStats};

/// All transactions that are not over, and what is accounted for them.
///
/// Every account is changed here, by checked arithmetic: none can fall below zero, and the sum over all is
/// what the statistics say.
#[derive(Debug)]
pub(crate) struct Transactions<L: Layout> {
    slots: Vec<Option<Transaction<L>>>,
    free: Vec<TransactionId>,
    by_xid: BTreeMap<u32, TransactionId>,
    /// Whose record was the last: mostly the next is of the same.
    latest: Option<(Xid, TransactionId)>,
    sizes: SizesHeap,
    /// Bytes of the lists of changes.
    pub(crate) list_bytes: usize,
}

impl<L: Layout> Transactions<L> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_xid: BTreeMap::new(),
            latest: None,
            sizes: SizesHeap::default(),
            list_bytes: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_xid.len()
    }

    pub(crate) fn find(&mut self, xid: Xid) -> Option<TransactionId> {
        if let Some((latest, id)) = self.latest
            && latest == xid
        {
            return Some(id);
        }
        let id = *self.by_xid.get(&xid.get())?;
        self.latest = Some((xid, id));
        Some(id)
    }

    pub(crate) fn get(&self, xid: Xid) -> Option<&Transaction<L>> {
        self.by_xid.get(&xid.get()).map(|id| &self[*id])
    }

    pub(crate) fn find_or_add(&mut self, xid: Xid) -> TransactionId {
        if let Some(id) = self.find(xid) {
            return id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            let last = u32::try_from(self.slots.len() - 1);
            TransactionId(last.expect("as many transactions as there are ids at most"))
        });
        self.slots[id.0 as usize] = Some(Transaction::new(xid));
        self.by_xid.insert(xid.get(), id);
        self.latest = Some((xid, id));
        id
    }

    /// Forgets one that holds nothing any more.
    pub(crate) fn remove(&mut self, id: TransactionId) {
        let Some(gone) = self.slots[id.0 as usize].take() else { return };
        assert_eq!(gone.size, 0, "the account of {} is settled before it goes", gone.xid);
        self.list_bytes -= gone.list_bytes();
        if let Some(top) = gone.top {
            self.leave(top, gone.child_index);
        }
        self.by_xid.remove(&gone.xid.get());
        self.latest = None;
        self.free.push(id);
    }

    /// The one at the top.
    pub(crate) fn top_of(&self, id: TransactionId) -> TransactionId {
        self[id].top.unwrap_or(id)
    }

    /// Those at the top.
    pub(crate) fn tops(&self) -> impl Iterator<Item = (TransactionId, &Transaction<L>)> {
        let numbers = (0..).map(TransactionId);
        let all = numbers.zip(&self.slots).filter_map(|(id, slot)| Some((id, slot.as_ref()?)));
        all.filter(|(_, transaction)| transaction.top.is_none())
    }

    /// The one with the most of its own in memory.
    pub(crate) fn largest(&self) -> Option<TransactionId> {
        self.sizes.largest().map(|(_, number)| TransactionId(number))
    }

    /// Accounts for a change that came.
    pub(crate) fn add(&mut self, id: TransactionId, bytes: usize, stats: &mut ReorderStats) {
        const COUNTED: &str = "what is in memory can be counted";
        let top = self.top_of(id);
        let transaction = &mut self[id];
        transaction.size = transaction.size.checked_add(bytes).expect(COUNTED);
        let size = transaction.size;
        let top = &mut self[top].total_size;
        *top = top.checked_add(bytes).expect(COUNTED);
        self.sizes.set(id.0, size);
        stats.accounted_bytes = stats.accounted_bytes.checked_add(bytes).expect(COUNTED);
        stats.peak_accounted_bytes = stats.peak_accounted_bytes.max(stats.accounted_bytes);
        stats.held_changes += 1;
    }

    /// Takes back what [`add`](Self::add) accounted for so many changes.
    pub(crate) fn subtract(
        &mut self,
        id: TransactionId,
        bytes: usize,
        changes: usize,
        stats: &mut ReorderStats,
    ) {
        const ADDED: &str = "no more is taken back than was accounted for";
        let top = self.top_of(id);
        let transaction = &mut self[id];
        transaction.size = transaction.size.checked_sub(bytes).expect(ADDED);
        let size = transaction.size;
        let top = &mut self[top].total_size;
        *top = top.checked_sub(bytes).expect(ADDED);
        self.sizes.set(id.0, size);
        stats.accounted_bytes = stats.accounted_bytes.checked_sub(bytes).expect(ADDED);
        stats.held_changes = stats.held_changes.checked_sub(changes).expect(ADDED);
    }

    /// Makes one a subtransaction of another, which then accounts for it too.
    pub(crate) fn adopt(&mut self, top: TransactionId, child: TransactionId) {
        let child_total = core::mem::take(&mut self[child].total_size);
        let parent = &mut self[top];
        let child_index = parent.children.len();
        parent.children.push(child);
        parent.total_size += child_total;
        let child = &mut self[child];
        (child.top, child.child_index) = (Some(top), child_index);
    }

    /// Takes a subtransaction that is gone out of the list of the one at the top, if that is there.
    fn leave(&mut self, top: TransactionId, child_index: usize) {
        let Some(Some(parent)) = self.slots.get_mut(top.0 as usize) else { return };
        parent.children.swap_remove(child_index);
        if let Some(&moved) = parent.children.get(child_index) {
            self[moved].child_index = child_index;
        }
    }
}

impl<L: Layout> Index<TransactionId> for Transactions<L> {
    type Output = Transaction<L>;

    #[inline]
    fn index(&self, id: TransactionId) -> &Transaction<L> {
        self.slots[id.0 as usize].as_ref().expect("ids are of transactions that are known")
    }
}

impl<L: Layout> IndexMut<TransactionId> for Transactions<L> {
    #[inline]
    fn index_mut(&mut self, id: TransactionId) -> &mut Transaction<L> {
        self.slots[id.0 as usize].as_mut().expect("ids are of transactions that are known")
    }
}
