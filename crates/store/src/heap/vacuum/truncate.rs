//! Empty pages at the end of a heap go back to the system.
use std::time::Instant;

use pgtoast_base::BlockNumber;
use pgtoast_page::LineState;

use super::VacuumOptions;
use crate::StoreError;
use crate::heap::Relation;
use crate::transaction::{Isolation, LockMode, TransactionCore};

impl Relation {
    /// Cuts off empty pages behind the first `used` ones, if they are worth it and nobody uses the
    /// relation. Says how many it were.
    #[doc(alias = "lazy_truncate_heap")]
    pub(in crate::heap) fn cut_off(
        &self,
        blocks: u32,
        used: u32,
        options: &VacuumOptions,
    ) -> Result<u32, StoreError> {
        let empty = blocks - used.min(blocks);
        if !options.truncate || empty == 0 || (empty < WORTH_IT && empty < blocks / 16) {
            return Ok(0);
        }
        let mut transaction = self.transactions.begin(Isolation::ReadCommitted);
        if !self.lock_alone(&mut transaction, options) {
            return Ok(0);
        }
        let _end = self.writers.extension.lock();
        if self.blocks() != blocks {
            return Ok(0);
        }
        let mut end = blocks;
        while end > used && self.is_unused(BlockNumber::new(end - 1))? {
            end -= 1;
        }
        if end < blocks {
            self.writers.forget_from(end);
            self.free.truncate(end);
            self.visibility.truncate(&self.pool, end)?;
            self.pool.truncate(self.main, end)?;
        }
        Ok(blocks - end)
    }

    fn lock_alone(&self, transaction: &mut TransactionCore, options: &VacuumOptions) -> bool {
        let began = Instant::now();
        loop {
            if transaction.try_lock_relation(self.id, LockMode::Exclusive) {
                return true;
            }
            if began.elapsed() >= options.truncate_wait {
                return false;
            }
            std::thread::sleep(PAUSE.min(options.truncate_wait));
        }
    }

    /// Whether a page has no line pointer in use, not even a dead one.
    fn is_unused(&self, block: BlockNumber) -> Result<bool, StoreError> {
        let bytes = self.pool.read(self.main, block)?;
        let page = self.view_page(&bytes, block)?;
        Ok(page.is_new()
            || page.line_pointers().iter().all(|pointer| pointer.state() == LineState::Unused))
    }
}

/// Empty pages that are worth a lock, however long the relation is.
#[doc(alias = "REL_TRUNCATE_MINIMUM")]
const WORTH_IT: u32 = 1000;
/// Between two tries for the lock.
const PAUSE: core::time::Duration = core::time::Duration::from_millis(50);
