//! Forks that get shorter, or go.
use core::cmp::Reverse;

use super::fork::OpenFork;
use super::{BufferPool, ForkId};
use crate::file::ForkFile;
use crate::sync::atomic::Ordering;
use crate::sync::pause;
use crate::{Fork, RelationId, StoreError};

impl BufferPool {
    /// Cuts a fork to that many blocks; it is not made longer. What was changed in the rest is given
    /// up.
    ///
    /// The caller sees to it that nobody uses the relation: a thread that still holds a page of the
    /// rest is waited for.
    ///
    /// # Errors
    /// [`StoreError::Io`]: the fork then has the blocks asked for, and its files may be longer until
    /// the next flush or extension.
    pub fn truncate(&self, fork: ForkId, blocks: u32) -> Result<(), StoreError> {
        let open = self.forks.get(fork);
        let _extension = open.extension.lock();
        if blocks >= open.blocks() {
            return Ok(());
        }
        self.discard(open, blocks);
        if blocks < open.written() || open.has_surplus() {
            self.set_file_blocks(open, blocks)?;
        }
        Ok(())
    }

    /// Removes a relation, with all its forks and files. Identifiers of its forks are then of forks
    /// without blocks.
    ///
    /// The caller sees to it that nobody uses the relation.
    ///
    /// # Errors
    /// [`StoreError::Io`]: some files are then left.
    pub fn drop_relation(&self, relation: RelationId) -> Result<(), StoreError> {
        let mut result = Ok(());
        // The main fork last: without it, what is left has no owner.
        for fork in [Fork::VisibilityMap, Fork::FreeSpaceMap, Fork::Main] {
            result = result.and(self.drop_fork(relation, fork));
        }
        result
    }

    fn drop_fork(&self, relation: RelationId, fork: Fork) -> Result<(), StoreError> {
        self.names_changed.store(true, Ordering::Release);
        match self.forks.forget((relation, fork)) {
            Some(open) => {
                let _extension = open.extension.lock();
                open.set_dropped();
                self.discard(open, 0);
                open.set_written(0);
                open.file.remove()
            }
            None => ForkFile::remove_closed(&*self.disk, relation, fork),
        }
    }

    /// Takes blocks from `blocks` on out of the fork and out of memory.
    fn discard(&self, open: &OpenFork, blocks: u32) {
        // First, so that none of them is read again: whoever enters one in the map looks again.
        open.set_blocks(blocks);
        let slot = open.id.slot();
        let mut entries = self.map.entries(|tag| tag.slot() == slot && tag.block() >= blocks);
        // Frames are given out again from the last one on: so in the order in which they lie in memory.
        entries.sort_unstable_by_key(|(_, index)| Reverse(*index));
        for (tag, index) in entries {
            let frame = self.frame(index);
            for round in 0.. {
                // Not to wait for a latch while the fork's lock is held, in case it is not the page's.
                if !frame.holds(tag) {
                    break;
                }
                match frame.page.try_write() {
                    Some(page) if frame.holds(tag) => {
                        self.leave(index, tag, page);
                        break;
                    }
                    Some(_) => break,
                    None => pause(round),
                }
            }
        }
    }
}
