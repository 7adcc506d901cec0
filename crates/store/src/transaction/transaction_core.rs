//! One transaction.
use pgtoast_base::Xid;
use pgtoast_page::XidStatus;

use super::registered::{Kept, Level, Registered};
use super::view::{View, is_own};
use super::{Isolation, LockMode, full_xid};
use crate::sync::{is_taken_down, mutated};
use crate::{RelationId, StoreError};

/// A transaction that is open. Dropped it is aborted, by a panic too.
///
/// It begins with a snapshot, so that there is something to see from the start; call
/// [`begin_statement`](Self::begin_statement) before each statement.
#[derive(Debug)]
pub struct TransactionCore {
    registered: Registered,
    isolation: Isolation,
    command: u32,
    serials: u64,
}

/// A place in a transaction to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    depth: usize,
    serial: u64,
}

impl TransactionCore {
    pub(super) fn new(mut registered: Registered, isolation: Isolation) -> Self {
        registered.kept_mut().levels.push(Level { first: 0, locks: 0, xid: None, serial: 0 });
        Self { registered, isolation, command: 0, serials: 0 }
    }

    /// The level that was asked for.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// A small number that no other transaction has at the same time.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.kept().number
    }

    /// Begins a statement: it sees what the ones before it changed, and if the transaction is
    /// [`Isolation::ReadCommitted`] what others have committed by now.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooManyCommands`] after `2^32 - 1` statements of a transaction that writes.
    #[doc(alias = "CommandCounterIncrement")]
    #[inline]
    pub fn begin_statement(&mut self) -> Result<(), StoreError> {
        if !self.kept().xids.is_empty() {
            self.command = self.command.checked_add(1).ok_or(StoreError::TooManyCommands)?;
        }
        if self.isolation == Isolation::ReadCommitted {
            self.registered.renew();
        }
        Ok(())
    }

    /// Within a statement of a [`Isolation::ReadCommitted`] transaction: sees what others have
    /// committed by now. What the snapshot before kept from being cleared away is kept until the
    /// next statement, so that a row can be followed from the version that it was found at to the
    /// newest.
    #[doc(alias = "EvalPlanQual")]
    pub fn renew_snapshot(&mut self) {
        if self.isolation == Isolation::ReadCommitted {
            self.registered.renew_behind();
        }
    }

    /// The number of the statement: what is stamped on the tuples that it makes and ends.
    #[inline]
    #[must_use]
    pub fn command(&self) -> u32 {
        self.command
    }

    /// What the statement sees.
    #[inline]
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View::new(self.kept(), self.registered.snapshot(self.command))
    }

    /// The id of the transaction, or of its innermost savepoint: given out at the first call, for
    /// whoever is about to write.
    ///
    /// # Errors
    ///
    /// [`StoreError::XidWraparound`] if no id is left.
    #[doc(alias = "GetCurrentTransactionId")]
    pub fn xid(&mut self) -> Result<Xid, StoreError> {
        let Kept { shared, number, xids, levels, .. } = self.registered.kept_mut();
        let level = levels.last_mut().expect("the transaction itself is a level");
        if let Some(xid) = level.xid {
            return Ok(xid);
        }
        let full = shared.start(*number)?;
        xids.push(full);
        Ok(*level.xid.insert(full_xid::xid(full)))
    }

    /// Whether `xid` is this transaction or a part of it that was not undone.
    #[doc(alias = "TransactionIdIsCurrentTransactionId")]
    #[must_use]
    pub fn is_own(&self, xid: Xid) -> bool {
        is_own(&self.kept().xids, xid)
    }

    /// A number for a tuple that this transaction made in command `cmin` and ended in command
    /// `cmax`, to store with `Infomask::COMBO_CID`.
    #[doc(alias = "GetComboCommandId")]
    pub fn combined_command(&mut self, cmin: u32, cmax: u32) -> u32 {
        self.registered.kept_mut().combined.number(cmin, cmax)
    }

    /// Begins a subtransaction. It gets an id of its own when it writes.
    pub fn savepoint(&mut self) -> Savepoint {
        self.serials += 1;
        let serial = self.serials;
        let Kept { xids, locks, levels, .. } = self.registered.kept_mut();
        let depth = levels.len();
        levels.push(Level { first: xids.len(), locks: locks.len(), xid: None, serial });
        Savepoint { depth, serial }
    }

    /// Undoes all since that savepoint, and whoever waits for it goes on. The savepoint stays;
    /// those within it are gone, and so are the relation locks that were taken since.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSavepoint`] if it is not open in this transaction.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), StoreError> {
        let Savepoint { depth, serial } = self.open(savepoint)?;
        let levels = &mut self.registered.kept_mut().levels;
        let Level { first, locks, .. } = levels[depth];
        levels.truncate(depth);
        levels.push(Level { first, locks, xid: None, serial });
        self.end(first, XidStatus::Aborted);
        // What was done under them is undone by now.
        self.registered.unlock_from(locks);
        Ok(())
    }

    /// Makes what was done since that savepoint part of what is around it. The savepoint is gone,
    /// and so are those within it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSavepoint`] if it is not open in this transaction.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<(), StoreError> {
        let Savepoint { depth, .. } = self.open(savepoint)?;
        let levels = &mut self.registered.kept_mut().levels;
        // What is around may use the id as its own: either is undone if and only if the other is.
        let xid = levels[depth].xid;
        levels.truncate(depth);
        let around = levels.last_mut().expect("the transaction itself is a level");
        around.xid = around.xid.or(xid);
        Ok(())
    }

    /// Ends it well: all others see what it did, at once.
    ///
    /// # Errors
    ///
    /// None yet: there is no log to write to.
    pub fn commit(mut self) -> Result<(), StoreError> {
        self.end(0, XidStatus::Committed);
        Ok(())
    }

    /// Undoes it.
    pub fn abort(self) {
        drop(self);
    }

    /// Waits until a transaction is over; a subtransaction, until it is undone or all of its
    /// transaction is over. What it came to, the commit log says then, and a snapshot taken from
    /// now on shows.
    ///
    /// A transaction can be in the commit log before it is over: whoever finds there that another
    /// one changed a row, and will look at what it left with a new snapshot, must wait all the
    /// same. That is quick. No latch may be held.
    ///
    /// # Errors
    ///
    /// [`StoreError::Deadlock`] if that one waits, directly or not, for this one. It goes on
    /// waiting: undo this transaction, or what of it others wait for.
    #[doc(alias = "XactLockTableWait")]
    pub fn wait_for(&mut self, xid: Xid) -> Result<(), StoreError> {
        self.kept().shared.wait_for(self.kept().number, xid)
    }

    /// Locks a relation until the transaction ends, or is rolled back to a savepoint that it had
    /// before; waits for it if need be.
    ///
    /// # Errors
    ///
    /// [`StoreError::Deadlock`] if who has it, or asked for it before, waits for this transaction.
    pub fn lock_relation(
        &mut self,
        relation: RelationId,
        mode: LockMode,
    ) -> Result<(), StoreError> {
        self.lock(relation, mode, true).map(|_| ())
    }

    /// The same, if that can be done without waiting. Says whether it was.
    pub fn try_lock_relation(&mut self, relation: RelationId, mode: LockMode) -> bool {
        self.lock(relation, mode, false).unwrap_or(false)
    }

    #[inline]
    fn lock(
        &mut self,
        relation: RelationId,
        mode: LockMode,
        wait: bool,
    ) -> Result<bool, StoreError> {
        let Kept { shared, number, locks, .. } = self.registered.kept_mut();
        if locks.iter().any(|&(held, held_mode)| held == relation && held_mode >= mode) {
            return Ok(true);
        }
        let locked = shared.lock_relation(*number, relation, mode, wait)?;
        if locked {
            locks.push((relation, mode));
        }
        Ok(locked)
    }

    /// Ends its ids from the one at `first` on.
    fn end(&mut self, first: usize, status: XidStatus) {
        let Kept { shared, number, xids, .. } = self.registered.kept_mut();
        let Some(&oldest) = xids.get(first) else { return };
        let log = || {
            for &full in xids[first..].iter().rev() {
                shared.log.set(full_xid::xid(full), status);
            }
        };
        if mutated!(LogLate) {
            shared.end(*number, oldest);
            log();
        } else {
            log();
            shared.end(*number, oldest);
        }
        xids.truncate(first);
        shared.wake();
    }

    fn open(&self, savepoint: Savepoint) -> Result<Savepoint, StoreError> {
        let level = self.kept().levels.get(savepoint.depth);
        match level {
            Some(level) if level.serial == savepoint.serial => Ok(savepoint),
            _ => Err(StoreError::NoSavepoint),
        }
    }

    #[inline]
    fn kept(&self) -> &Kept {
        self.registered.kept()
    }
}

impl Drop for TransactionCore {
    fn drop(&mut self) {
        if is_taken_down() {
            return;
        }
        self.end(0, XidStatus::Aborted);
    }
}
