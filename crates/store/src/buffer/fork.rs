//! The forks that a pool has open.
use std::sync::OnceLock;

use hashbrown::HashMap;

use super::counters::Class;
use super::frame::Tag;
use crate::file::ForkFile;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::{Fork, RelationId};

/// A fork that a pool has open.
///
/// It stays valid as long as the pool; of a relation that was dropped, it is a fork without blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForkId {
    slot: u32,
    class: Class,
}

impl ForkId {
    #[inline]
    pub(super) fn slot(self) -> u32 {
        self.slot
    }

    #[inline]
    pub(super) fn class(self) -> Class {
        self.class
    }
}

/// An open fork.
#[derive(Debug)]
pub(super) struct OpenFork {
    pub(super) id: ForkId,
    pub(super) file: ForkFile,
    /// How many blocks there are.
    blocks: AtomicU32,
    /// How many blocks the files have: what is past them was never written, and is zeros.
    written: AtomicU32,
    /// Held while the number of blocks is changed.
    pub(super) extension: Mutex<()>,
    dropped: AtomicBool,
    /// The files may have bytes past the end that were not written as such: a write or a cut failed.
    surplus: AtomicBool,
    /// A sync failed: the system may have given up pages that it had taken.
    sync_failed: AtomicBool,
}

impl OpenFork {
    #[inline]
    pub(super) fn blocks(&self) -> u32 {
        self.blocks.load(Ordering::Acquire)
    }

    pub(super) fn set_blocks(&self, blocks: u32) {
        self.blocks.store(blocks, Ordering::Release);
    }

    pub(super) fn written(&self) -> u32 {
        self.written.load(Ordering::Acquire)
    }

    pub(super) fn wrote_up_to(&self, blocks: u32) {
        self.written.fetch_max(blocks, Ordering::AcqRel);
    }

    pub(super) fn set_written(&self, blocks: u32) {
        self.written.store(blocks, Ordering::Release);
    }

    pub(super) fn has_surplus(&self) -> bool {
        self.surplus.load(Ordering::Acquire)
    }

    pub(super) fn set_surplus(&self, surplus: bool) {
        self.surplus.store(surplus, Ordering::Release);
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub(super) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    pub(super) fn sync_failed(&self) -> bool {
        self.sync_failed.load(Ordering::Acquire)
    }

    pub(super) fn set_sync_failed(&self) {
        self.sync_failed.store(true, Ordering::Release);
    }
}

/// Forks by their slots. A slot is never given to another fork: tags of the old one may be about.
#[derive(Debug)]
pub(super) struct ForkTable {
    /// Of 64, 128, 256, … slots, so that none ever moves and no lock is needed to read one.
    chunks: [OnceLock<Box<[OnceLock<OpenFork>]>>; ForkTable::CHUNKS],
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
pub(super) struct Names {
    open: HashMap<(RelationId, Fork), ForkId>,
    count: u32,
}

impl ForkTable {
    const FIRST: u32 = 64;
    const CHUNKS: usize = 25;

    pub(super) fn new() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; Self::CHUNKS],
            names: Mutex::new(Names::default()),
        }
    }

    #[inline]
    fn place(slot: u32) -> (usize, usize) {
        let shifted = slot.saturating_add(Self::FIRST);
        let chunk = shifted.ilog2() - Self::FIRST.ilog2();
        (chunk as usize, (shifted - (Self::FIRST << chunk)) as usize)
    }

    /// The fork of a page that is or was in the pool.
    #[inline]
    pub(super) fn of_tag(&self, tag: Tag) -> Option<&OpenFork> {
        let (chunk, index) = Self::place(tag.slot());
        self.chunks.get(chunk)?.get()?.get(index)?.get()
    }

    /// The fork.
    ///
    /// # Panics
    /// If another pool gave out the identifier, and this one has opened fewer forks.
    #[inline]
    pub(super) fn get(&self, fork: ForkId) -> &OpenFork {
        self.of_tag(Tag::new(fork, 0)).expect("a fork that this pool has opened")
    }

    /// The fork of that name; opens it if it is not open.
    pub(super) fn get_or_open<E>(
        &self,
        name: (RelationId, Fork),
        class: Class,
        open: impl FnOnce() -> Result<(ForkFile, u32), E>,
        full: impl FnOnce() -> E,
    ) -> Result<ForkId, E> {
        let mut names = self.names.lock();
        if let Some(fork) = names.open.get(&name) {
            return Ok(*fork);
        }
        let (chunk, index) = Self::place(names.count);
        let Some(chunk_slots) = self.chunks.get(chunk) else { return Err(full()) };
        let (file, blocks) = open()?;
        let id = ForkId { slot: names.count, class };
        let fork = OpenFork {
            id,
            file,
            blocks: AtomicU32::new(blocks),
            written: AtomicU32::new(blocks),
            extension: Mutex::new(()),
            dropped: AtomicBool::new(false),
            surplus: AtomicBool::new(false),
            sync_failed: AtomicBool::new(false),
        };
        let slots = chunk_slots
            .get_or_init(|| (0..Self::FIRST << chunk).map(|_| OnceLock::new()).collect());
        if slots[index].set(fork).is_err() {
            unreachable!("slots are filled in order, under the lock");
        }
        names.count += 1;
        names.open.insert(name, id);
        Ok(id)
    }

    /// Forgets the name; the fork of it, if it was open.
    pub(super) fn forget(&self, name: (RelationId, Fork)) -> Option<&OpenFork> {
        let fork = self.names.lock().open.remove(&name)?;
        Some(self.get(fork))
    }

    /// All forks that are open.
    pub(super) fn all(&self) -> Vec<ForkId> {
        self.names.lock().open.values().copied().collect()
    }
}
