//! Rows are deleted and updated.
//!
//! ```text
//! the version that is seen was ended by    then
//!   nobody, or somebody who was undone     it is ended now
//!   somebody who is at work                wait, and look again
//!   somebody who committed                 read committed: say by whom, and what follows
//!                                          repeatable read: an error
//!   this very command                      say so
//! ```
//! Source: `heapam.c`, `heap_delete`, `heap_update`; `heapam_visibility.c`,
//! `HeapTupleSatisfiesUpdate` (REL_18).
use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Xid, maxalign};
use pgtoast_page::{
    HeapTupleMut, Infomask, Page, PageFlags, PageMut, RowUpdate, TransactionStatus, TupleHeader,
    XidStatus,
};

use super::chain::Chain;
use super::relation::Relation;
use super::target::Reserve;
use crate::StoreError;
use crate::buffer::PageWrite;
use crate::transaction::{Isolation, TransactionCore, View};

/// What came of changing a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Modified {
    /// Another transaction changed the row and committed, after the statement began. Nothing was
    /// done.
    ByOther {
        /// Who it was.
        by: Xid,
        /// Where the next version is; `None` if the row was deleted. [`Relation::follow`] goes
        /// there.
        next: Option<ItemPointer>,
    },
    /// The same command changed the row before. Nothing was done.
    BySelf,
    /// It is done. The row is at this address now, which after a deletion is where it was.
    Done(ItemPointer),
    /// The transaction sees no row at this address.
    NotVisible,
}

impl Relation {
    /// Deletes a row, as of the current command. Waits for whoever is at work on the row.
    ///
    /// # Errors
    /// [`StoreError::Deadlock`], [`StoreError::SerializationFailure`]; those of
    /// [`TransactionCore::xid`]; [`StoreError::Io`], [`StoreError::Page`].
    #[doc(alias = "heap_delete")]
    pub fn delete(
        &self,
        transaction: &mut TransactionCore,
        tid: ItemPointer,
    ) -> Result<Modified, StoreError> {
        let xid = transaction.xid()?;
        loop {
            if tid.block.get() >= self.blocks() {
                return Ok(Modified::NotVisible);
            }
            let mut bytes = self.pool.write(self.main, tid.block)?;
            let free = match self.version(&bytes, tid, transaction)? {
                Version::Free(free) => free,
                taken => {
                    drop(bytes);
                    match self.settle(transaction, tid, taken)? {
                        Some(modified) => return Ok(modified),
                        None => continue,
                    }
                }
            };
            self.before_change(&mut bytes)?;
            let ending = Ending::of(transaction, xid, free);
            let mut page = self.open_page(&mut bytes)?;
            page.delete_tuple(ItemPointer::new(tid.block, free.item), xid, ending.command)
                .and_then(|()| ending.mark(&mut page))
                .map_err(|error| self.page_error(tid.block, error))?;
            return Ok(Modified::Done(tid));
        }
    }

    /// Puts another version in a row's place, as of the current command. Waits for whoever is at
    /// work on the row. The row keeps its address if its page has room for the version; room is made
    /// by whoever looks at rows, as in a server: [`fetch`](Self::fetch) the row first.
    ///
    /// # Errors
    /// [`StoreError::TupleTooLong`], and those of [`delete`](Self::delete).
    #[doc(alias = "heap_update")]
    pub fn update(
        &self,
        transaction: &mut TransactionCore,
        tid: ItemPointer,
        mut tuple: HeapTupleMut<'_>,
    ) -> Result<Modified, StoreError> {
        let len = tuple.bytes().len();
        self.expect_fits(len)?;
        let xid = transaction.xid()?;
        loop {
            if tid.block.get() >= self.blocks() {
                return Ok(Modified::NotVisible);
            }
            let mut bytes = self.pool.write(self.main, tid.block)?;
            let free = match self.version(&bytes, tid, transaction)? {
                Version::Free(free) => free,
                taken => {
                    drop(bytes);
                    match self.settle(transaction, tid, taken)? {
                        Some(modified) => return Ok(modified),
                        None => continue,
                    }
                }
            };
            if maxalign(len) <= self.heap_free_bytes(&bytes) {
                self.before_change(&mut bytes)?;
                let ending = Ending::of(transaction, xid, free);
                let mut page = self.open_page(&mut bytes)?;
                self.replace(&mut page, tid.block, transaction, ending, &mut tuple)
                    .map_err(|error| self.page_error(tid.block, error))?;
                return Ok(Modified::Done(tid));
            }
            drop(bytes);
            if let Some(modified) = self.move_away(transaction, tid, xid, &mut tuple)? {
                return Ok(modified);
            }
        }
    }

    /// Where the row of an address is now, after a change of it by another transaction: the
    /// address of the version that the current snapshot sees; `None` if it was deleted.
    ///
    /// So [`TransactionCore::renew_snapshot`] comes first, and not another statement: the versions
    /// in between must not have been cleared away.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Page`].
    #[doc(alias = "EvalPlanQual")]
    pub fn follow(
        &self,
        transaction: &TransactionCore,
        by: Xid,
        next: ItemPointer,
    ) -> Result<Option<ItemPointer>, StoreError> {
        let view = transaction.view();
        let snapshot = view.snapshot();
        let (mut by, mut next) = (by, next);
        while next.block.get() < self.blocks() {
            let bytes = self.pool.read(self.main, next.block)?;
            let page = self.view_page(&bytes, next.block)?;
            let mut last = None;
            for (item, tuple) in Chain::new(page, next.block, next.item).inserted_by(by) {
                if tuple.header().is_visible(&snapshot, &view) {
                    return Ok(Some(self.address(page, next.block, item)));
                }
                last = Some((item, *tuple.header()));
            }
            let Some((item, header)) = last else { return Ok(None) };
            let here = ItemPointer::new(next.block, item);
            match standing(&header, here, &view) {
                Standing::Committed { by: xid, next: Some(further) } => (by, next) = (xid, further),
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The address of the row that an item is a version of.
    fn address(&self, page: Page<'_>, block: BlockNumber, item: OffsetNumber) -> ItemPointer {
        let mut addresses = Vec::new();
        super::chain::addresses(page, block, &mut addresses);
        let address = item.index().and_then(|index| addresses.get(index)).copied().unwrap_or(0);
        let address = if address == 0 { item } else { OffsetNumber::new(address) };
        ItemPointer::new(block, address)
    }

    /// The version of a row that the transaction sees, and whether it may end it.
    fn version(
        &self,
        bytes: &[u8],
        tid: ItemPointer,
        transaction: &TransactionCore,
    ) -> Result<Version, StoreError> {
        let page = self.view_page(bytes, tid.block)?;
        let view = transaction.view();
        let snapshot = view.snapshot();
        let mut versions = Chain::new(page, tid.block, tid.item);
        let seen = versions.find(|(_, tuple)| tuple.header().is_visible(&snapshot, &view));
        let Some((item, tuple)) = seen else { return Ok(Version::None) };
        let (header, here) = (tuple.header(), ItemPointer::new(tid.block, item));
        Ok(match standing(header, here, &view) {
            Standing::Free => Version::Free(Free { item, own_command: own_command(header, &view) }),
            Standing::Committed { by, next } => Version::Changed { by, next },
            Standing::InProgress(by) => Version::Busy(by),
            Standing::Own => Version::Own,
        })
    }

    /// What there is to do about a version that is not free, once nothing is latched: wait and look
    /// again, or nothing.
    fn settle(
        &self,
        transaction: &mut TransactionCore,
        tid: ItemPointer,
        version: Version,
    ) -> Result<Option<Modified>, StoreError> {
        match version {
            Version::Busy(by) => {
                transaction.wait_for(by)?;
                Ok(None)
            }
            Version::Changed { by, next } => match transaction.isolation() {
                Isolation::ReadCommitted => {
                    // It may be in the commit log and yet be running, for a moment.
                    transaction.wait_for(by)?;
                    Ok(Some(Modified::ByOther { by, next }))
                }
                Isolation::RepeatableRead => Err(StoreError::SerializationFailure { tid, by }),
            },
            Version::Own => Ok(Some(Modified::BySelf)),
            Version::None => Ok(Some(Modified::NotVisible)),
            Version::Free(_) => Ok(None),
        }
    }

    /// Adds the next version to the page that has the one before.
    fn replace(
        &self,
        page: &mut PageMut<'_>,
        block: BlockNumber,
        transaction: &TransactionCore,
        ending: Ending,
        tuple: &mut HeapTupleMut<'_>,
    ) -> Result<(), pgtoast_page::PageError> {
        let command = transaction.command();
        tuple.header_mut().set_inserted_by_update(ending.xid, command, RowUpdate::Hot);
        let next = page.insert_tuple(block, tuple.bytes())?;
        page.update_tuple(ending.item, ending.xid, ending.command, next, RowUpdate::Hot)?;
        ending.mark(page)
    }

    /// Puts the next version into another page. `None` if things have changed meanwhile.
    ///
    /// The page with room is found while nothing is latched. Then the two pages are latched in the
    /// order of their blocks, as by everybody, and both are looked at again.
    fn move_away(
        &self,
        transaction: &mut TransactionCore,
        tid: ItemPointer,
        xid: Xid,
        tuple: &mut HeapTupleMut<'_>,
    ) -> Result<Option<Modified>, StoreError> {
        let len = tuple.bytes().len();
        let mut reserve = Reserve::none(self);
        let target = self.page_for(transaction.slot(), len, 1, &mut reserve)?.block();
        if target == tid.block {
            return Ok(None); // It has room now.
        }
        let (mut old, mut new) = self.latch_both(tid.block, target)?;
        let Version::Free(free) = self.version(&old, tid, transaction)? else { return Ok(None) };
        if maxalign(len) > self.heap_free_bytes(&new) {
            return Ok(None);
        }
        self.before_change(&mut old)?;
        self.before_change(&mut new)?;
        let ending = Ending::of(transaction, xid, free);
        tuple.header_mut().set_inserted_by_update(xid, transaction.command(), RowUpdate::SameKey);
        let mut old_page = self.open_page(&mut old)?;
        let next = self
            .open_page(&mut new)?
            .insert_tuple(target, tuple.bytes())
            .map_err(|error| self.page_error(target, error))?;
        old_page.set_flags(PageFlags::PAGE_FULL, true);
        old_page
            .update_tuple(free.item, xid, ending.command, next, RowUpdate::SameKey)
            .and_then(|()| ending.mark(&mut old_page))
            .map_err(|error| self.page_error(tid.block, error))?;
        Ok(Some(Modified::Done(next)))
    }

    /// Latches two pages, the one with the lower number first.
    fn latch_both(
        &self,
        one: BlockNumber,
        other: BlockNumber,
    ) -> Result<(PageWrite<'_>, PageWrite<'_>), StoreError> {
        if one < other {
            let first = self.pool.write(self.main, one)?;
            Ok((first, self.pool.write(self.main, other)?))
        } else {
            let first = self.pool.write(self.main, other)?;
            Ok((self.pool.write(self.main, one)?, first))
        }
    }
}

/// The version of a row that a transaction sees, as far as changing it goes.
enum Version {
    /// There is none.
    None,
    /// It may be ended.
    Free(Free),
    /// Somebody is about to end it.
    Busy(Xid),
    /// Somebody has ended it, and the snapshot does not know.
    Changed { by: Xid, next: Option<ItemPointer> },
    /// The same command has ended it.
    Own,
}

/// A version that may be ended.
#[derive(Clone, Copy)]
struct Free {
    item: OffsetNumber,
    /// The command that inserted it, if the transaction itself did.
    own_command: Option<u32>,
}

/// What the end of a version is marked with.
#[derive(Clone, Copy)]
struct Ending {
    item: OffsetNumber,
    xid: Xid,
    command: u32,
    combined: bool,
}

impl Ending {
    /// A tuple has room for one command id: one that the same transaction inserted gets a number
    /// that stands for both.
    #[doc(alias = "HeapTupleHeaderAdjustCmax")]
    fn of(transaction: &mut TransactionCore, xid: Xid, free: Free) -> Self {
        let command = transaction.command();
        let (command, combined) = match free.own_command {
            Some(inserted) => (transaction.combined_command(inserted, command), true),
            None => (command, false),
        };
        Self { item: free.item, xid, command, combined }
    }

    fn mark(self, page: &mut PageMut<'_>) -> Result<(), pgtoast_page::PageError> {
        if self.combined {
            let mut tuple = page.tuple_mut(self.item)?;
            let infomask = tuple.tuple().header().infomask();
            tuple.header_mut().set_infomask(infomask.union(Infomask::COMBO_CID));
        }
        Ok(())
    }
}

/// Who has ended a tuple that is seen.
enum Standing {
    Free,
    InProgress(Xid),
    Committed { by: Xid, next: Option<ItemPointer> },
    Own,
}

fn standing(header: &TupleHeader, here: ItemPointer, view: &View<'_>) -> Standing {
    let infomask = header.infomask();
    if infomask.contains(Infomask::XMAX_INVALID) || header.is_locked_only() {
        return Standing::Free;
    }
    let xmax = if infomask.contains(Infomask::XMAX_IS_MULTI) {
        view.update_xid(header.xmax()).unwrap_or(Xid::INVALID)
    } else {
        header.xmax()
    };
    if !xmax.is_valid() {
        return Standing::Free;
    }
    let next = (header.ctid() != here).then_some(header.ctid());
    if infomask.contains(Infomask::XMAX_COMMITTED) {
        return Standing::Committed { by: xmax, next };
    }
    if view.is_own(xmax) {
        return Standing::Own;
    }
    match view.status(xmax) {
        XidStatus::Aborted => Standing::Free,
        XidStatus::Committed => Standing::Committed { by: xmax, next },
        XidStatus::InProgress | XidStatus::SubCommitted => Standing::InProgress(xmax),
    }
}

/// The command that inserted a tuple, if the transaction itself did.
fn own_command(header: &TupleHeader, view: &View<'_>) -> Option<u32> {
    let infomask = header.infomask();
    if infomask.contains(Infomask::XMIN_COMMITTED) || !view.is_own(header.xmin()) {
        None
    } else if infomask.contains(Infomask::COMBO_CID) {
        Some(view.own_commands(header.field3()).0)
    } else {
        Some(header.field3())
    }
}
