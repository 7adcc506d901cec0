use super::block::{BlockHeader, BlockList, BlockRef};
use crate::{Account, MemoryError};

/// Where a context's blocks come from: those that a reset kept, then the system.
#[derive(Debug)]
pub(super) struct Supply {
    pub(super) account: Account,
    /// Bytes of each block that are not for chunks.
    header: usize,
    counted: bool,
    kept: BlockList<BlockHeader>,
}

impl Supply {
    pub(super) fn new(account: Account, header: usize, counted: bool) -> Self {
        Self { account, header, counted, kept: BlockList::new() }
    }

    /// A block of `bytes`, or one that was kept and has `need` at least. It is in no list.
    pub(super) fn take(
        &self,
        need: usize,
        bytes: usize,
    ) -> Result<BlockRef<BlockHeader>, MemoryError> {
        let mut kept = self.kept.first();
        while let Some(block) = kept {
            if block.size() >= need {
                self.kept.remove(block);
                self.account.tally().tails.subtract(block.size() - self.header);
                self.account.tally().empty.subtract(1);
                block.set_tail(0);
                if self.counted {
                    block.set_chunks(0);
                    block.set_freed(0);
                }
                return Ok(block);
            }
            kept = block.next();
        }
        self.take_new(bytes)
    }

    pub(super) fn take_new(&self, bytes: usize) -> Result<BlockRef<BlockHeader>, MemoryError> {
        let block = BlockRef::acquire(&self.account, bytes, self.counted)?;
        self.account.tally().blocks.add(1);
        self.account.tally().overhead.add(self.header);
        Ok(block)
    }

    /// Gives a block back to the system.
    ///
    /// # Safety
    /// As for [`BlockRef::release`].
    pub(super) unsafe fn release(&self, block: BlockRef<BlockHeader>) {
        self.account.tally().blocks.subtract(1);
        self.account.tally().overhead.subtract(self.header);
        // SAFETY: it came from `take`, the rest is this function's contract.
        unsafe { block.release(&self.account) };
    }

    /// Takes all blocks of a list but one back, at a reset: keeps them as long as `keep_bytes` last,
    /// and gives the others to the system.
    ///
    /// # Safety
    /// None of the blocks is referred to from elsewhere, nor any of their chunks.
    pub(super) unsafe fn take_back(
        &self,
        blocks: &BlockList<BlockHeader>,
        but: Option<BlockRef<BlockHeader>>,
        mut keep_bytes: usize,
    ) {
        while let Some(block) = self.kept.pop() {
            self.account.tally().empty.subtract(1);
            blocks.push(block);
        }
        self.account.tally().tails.set(0);
        while let Some(block) = blocks.pop() {
            if Some(block) == but {
                continue;
            }
            match keep_bytes.checked_sub(block.size()) {
                Some(less) => {
                    keep_bytes = less;
                    let tail = block.size() - self.header;
                    self.account.tally().tails.add(tail);
                    self.account.tally().empty.add(1);
                    self.kept.push(block);
                }
                // SAFETY: it is out of the list, and not referred to from elsewhere.
                None => unsafe { self.release(block) },
            }
        }
        if let Some(but) = but {
            blocks.push(but);
        }
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        while let Some(block) = self.kept.pop() {
            // SAFETY: kept blocks are in no other place and have no chunks.
            unsafe { self.release(block) };
        }
    }
}
