use std::io::{ErrorKind, IoSliceMut};
use std::path::Path;
use std::sync::Arc;

use pgtoast_base::BlockNumber;
use pgtoast_page::Page;

use super::counters::{Class, Counters, add};
use super::fork::{ForkTable, OpenFork};
use super::frame::{Frame, Tag};
use super::map::FrameMap;
use super::memory::{PageBytes, PageMemory};
use super::{ForkId, PageRead, PageWrite, PoolOptions, PoolStatistics};
use crate::disk::Disk;
use crate::file::{DIRECTORY, ForkFile};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Mutex, RwLockWriteGuard, downgrade, mutated};
use crate::{Fork, RelationId, RelationKind, StoreError, StoreFile};

/// Pages of relations in memory, within a fixed budget; threads share it.
///
/// A page asked for is read from its file, unless it is there. What was changed is written when its
/// room is needed, and by [`flush`](Self::flush); only that makes it durable. A pool that is dropped
/// writes nothing.
#[derive(Debug)]
pub struct BufferPool {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: PoolOptions,
    pub(super) frames: Box<[Frame]>,
    pub(super) map: FrameMap,
    /// A name in the directory of relations came or went, and is not durable.
    pub(super) names_changed: AtomicBool,
    memory: PageMemory,
    /// Frames without a block. A frame with no tag is here, or in the hands of one thread.
    pub(super) free: Mutex<Vec<u32>>,
    /// Where the sweep is.
    pub(super) hand: AtomicUsize,
    pub(super) forks: ForkTable,
    pub(super) counters: Counters,
}

/// Where a page is.
pub(super) enum Place<'p> {
    /// In this frame, a moment ago.
    Cached(u32),
    /// In this frame, just read, and latched.
    Loaded(u32, RwLockWriteGuard<'p, PageBytes>),
}

impl BufferPool {
    /// A pool without pages.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, mut options: PoolOptions) -> Self {
        options.io_combine_limit = options.io_combine_limit.max(1);
        options.segment_blocks = options.segment_blocks.max(1);
        let count = options.frames();
        Self {
            disk,
            options,
            memory: PageMemory::new(options.block_size.bytes(), count),
            frames: (0..count).map(|_| Frame::new()).collect(),
            map: FrameMap::new(count),
            names_changed: AtomicBool::new(false),
            free: Mutex::new((0..frame_number(count)).rev().collect()),
            hand: AtomicUsize::new(0),
            forks: ForkTable::new(),
            counters: Counters::new(),
        }
    }

    /// As it was made.
    #[must_use]
    pub fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// How many pages the pool has room for.
    #[must_use]
    pub fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// Opens a fork of a relation; the same one again, if it is open. With `create`, it is made if it
    /// is not there. `kind` is what its pages are counted as.
    ///
    /// # Errors
    /// [`StoreError::Io`], of kind `NotFound` if there is no such file and none is made;
    /// [`StoreError::FileLength`]; [`StoreError::Full`] after 2^30 forks.
    pub fn open_fork(
        &self,
        relation: RelationId,
        kind: RelationKind,
        fork: Fork,
        create: bool,
    ) -> Result<ForkId, StoreError> {
        let name = StoreFile::Relation { relation, fork };
        let open = || {
            if create {
                let made = self.disk.create_dir(Path::new(DIRECTORY));
                made.map_err(|error| StoreError::io(name, 0, &error))?;
                self.names_changed.store(true, Ordering::Release);
            }
            let sizes = (self.options.block_size, self.options.segment_blocks);
            ForkFile::open(Arc::clone(&self.disk), (relation, fork), sizes, create)
        };
        let class = Class::new(kind, fork);
        self.forks.get_or_open((relation, fork), class, open, || StoreError::Full { file: name })
    }

    /// How many blocks a fork has.
    ///
    /// # Panics
    /// This and every other call may, if another pool gave out the identifier.
    #[inline]
    #[must_use]
    pub fn block_count(&self, fork: ForkId) -> u32 {
        self.forks.get(fork).blocks()
    }

    /// The page, to read.
    ///
    /// # Errors
    /// [`StoreError::BlockMissing`] past the end; [`StoreError::Page`] if the file's bytes are no page
    /// or the checksum is not theirs; [`StoreError::Io`]; [`StoreError::NoFrame`].
    #[inline]
    pub fn read(&self, fork: ForkId, block: BlockNumber) -> Result<PageRead<'_>, StoreError> {
        let tag = Tag::new(fork, block.get());
        if let Some(frame) = self.frames.get(self.map.hinted(tag))
            && let Some(page) = self.read_frame(fork, frame, tag)
        {
            return Ok(page);
        }
        self.read_by_map(fork, tag)
    }

    #[cold]
    fn read_by_map(&self, fork: ForkId, tag: Tag) -> Result<PageRead<'_>, StoreError> {
        loop {
            match self.locate(fork, tag)? {
                Place::Cached(index) => {
                    if let Some(page) = self.read_frame(fork, self.frame(index), tag) {
                        self.map.set_hint(tag, index);
                        return Ok(page);
                    }
                }
                Place::Loaded(index, page) => {
                    let frame = self.frame(index);
                    let page = downgrade(&frame.page, page);
                    if frame.holds(tag) {
                        return Ok(PageRead { page, block: BlockNumber::new(tag.block()) });
                    }
                }
            }
        }
    }

    #[inline]
    fn read_frame<'p>(&self, fork: ForkId, frame: &'p Frame, tag: Tag) -> Option<PageRead<'p>> {
        // Before the latch, so that nobody waits for a page that is not the one.
        if !frame.holds(tag) {
            return None;
        }
        let page = frame.page.read();
        if !frame.holds(tag) && !mutated!(TrustHint) {
            return None;
        }
        frame.touch();
        self.counters.hit(fork.class());
        Some(PageRead { page, block: BlockNumber::new(tag.block()) })
    }

    /// The page, to change. All zeros is a page.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[inline]
    pub fn write(&self, fork: ForkId, block: BlockNumber) -> Result<PageWrite<'_>, StoreError> {
        let tag = Tag::new(fork, block.get());
        if let Some(frame) = self.frames.get(self.map.hinted(tag))
            && let Some(page) = self.write_frame(fork, frame, tag)
        {
            return Ok(page);
        }
        self.write_by_map(fork, tag)
    }

    #[cold]
    fn write_by_map(&self, fork: ForkId, tag: Tag) -> Result<PageWrite<'_>, StoreError> {
        loop {
            match self.locate(fork, tag)? {
                Place::Cached(index) => {
                    if let Some(page) = self.write_frame(fork, self.frame(index), tag) {
                        self.map.set_hint(tag, index);
                        return Ok(page);
                    }
                }
                Place::Loaded(index, page) => return Ok(self.page_write(index, page, tag)),
            }
        }
    }

    #[inline]
    fn write_frame<'p>(&self, fork: ForkId, frame: &'p Frame, tag: Tag) -> Option<PageWrite<'p>> {
        if !frame.holds(tag) {
            return None;
        }
        let page = frame.page.write();
        if !frame.holds(tag) && !mutated!(TrustHint) {
            return None;
        }
        frame.touch();
        self.counters.hit(fork.class());
        Some(PageWrite { page, frame, block: BlockNumber::new(tag.block()) })
    }

    /// The page, to change, unless that means to wait for another thread's latch.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn try_write(
        &self,
        fork: ForkId,
        block: BlockNumber,
    ) -> Result<Option<PageWrite<'_>>, StoreError> {
        let tag = Tag::new(fork, block.get());
        loop {
            let hinted = self.map.hinted(tag);
            let index = match self.frames.get(hinted) {
                Some(frame) if frame.holds(tag) => frame_number(hinted),
                _ => match self.locate(fork, tag)? {
                    Place::Cached(index) => index,
                    Place::Loaded(index, page) => {
                        return Ok(Some(self.page_write(index, page, tag)));
                    }
                },
            };
            let frame = self.frame(index);
            let Some(page) = frame.page.try_write() else {
                if frame.holds(tag) {
                    return Ok(None);
                }
                // It was put to other use meanwhile: it is not this page that is held.
                continue;
            };
            if frame.holds(tag) {
                frame.touch();
                self.counters.hit(fork.class());
                return Ok(Some(PageWrite { page, frame, block }));
            }
        }
    }

    /// Makes the fork `count` blocks longer, at least one, with pages of zeros. Returns the first of
    /// them, to change. No system call is made: files grow as pages are written, and a full disk shows
    /// then.
    ///
    /// # Errors
    /// [`StoreError::Full`]; [`StoreError::NoFrame`]; [`StoreError::Io`] of kind `NotFound` if the
    /// relation was dropped.
    pub fn extend(
        &self,
        fork: ForkId,
        count: u32,
    ) -> Result<(BlockNumber, PageWrite<'_>), StoreError> {
        let count = count.max(1);
        let open = self.forks.get(fork);
        let (index, mut page) = self.vacate()?;
        self.clear(&mut page);
        match self.add_blocks(open, index, count) {
            Ok(tag) => {
                self.map.set_hint(tag, index);
                add(&self.counters.of(fork.class()).extends, u64::from(count));
                let page = self.page_write(index, page, tag);
                Ok((page.block(), page))
            }
            Err(error) => {
                self.give_back(index, page);
                Err(error)
            }
        }
    }

    /// Makes the fork longer, and enters a latched frame without a tag as its first new block.
    fn add_blocks(&self, open: &OpenFork, index: u32, count: u32) -> Result<Tag, StoreError> {
        let file = open.file.name();
        let _extension = open.extension.lock();
        if open.is_dropped() {
            return Err(StoreError::io(file, 0, &ErrorKind::NotFound.into()));
        }
        let first = open.blocks();
        let blocks = first.checked_add(count).ok_or(StoreError::Full { file })?;
        if open.has_surplus() {
            self.set_file_blocks(open, first)?;
        }
        let tag = Tag::new(open.id, first);
        if mutated!(CountBeforeMap) {
            open.set_blocks(blocks);
        }
        // In the map before it is counted: nobody may find it missing and make a page of it.
        self.frame(index).set_tag(tag);
        let entered = self.map.insert(tag, index);
        debug_assert_eq!(entered, Ok(()), "a block past the end is in nobody's hands");
        open.set_blocks(blocks);
        Ok(tag)
    }

    /// Gives the files of a fork the length that the fork has. The caller holds its extension lock.
    ///
    /// What the files had past that is gone then; what they get is zeros.
    pub(super) fn set_file_blocks(&self, open: &OpenFork, blocks: u32) -> Result<(), StoreError> {
        add(&self.counters.length_calls, 1);
        open.set_surplus(true);
        open.file.set_blocks(blocks)?;
        open.set_surplus(false);
        open.set_written(blocks);
        Ok(())
    }

    /// What the pool did so far.
    #[must_use]
    pub fn statistics(&self) -> PoolStatistics {
        self.counters.read()
    }

    pub(super) fn frame(&self, index: u32) -> &Frame {
        &self.frames[index as usize]
    }

    fn page_write<'p>(
        &'p self,
        index: u32,
        page: RwLockWriteGuard<'p, PageBytes>,
        tag: Tag,
    ) -> PageWrite<'p> {
        let frame = self.frame(index);
        frame.set_usage(1);
        PageWrite { page, frame, block: BlockNumber::new(tag.block()) }
    }

    /// Finds the page by the map, or reads it into a frame.
    fn locate(&self, fork: ForkId, tag: Tag) -> Result<Place<'_>, StoreError> {
        if let Some(index) = self.map.get(tag) {
            return Ok(Place::Cached(index));
        }
        let open = self.forks.get(fork);
        self.check_block(open, tag)?;
        let (index, mut page) = self.vacate()?;
        if let Err(other) = self.enter(open, tag, index) {
            self.give_back(index, page);
            return other.map(Place::Cached);
        }
        match self.load(open, tag.block(), &mut page) {
            Ok(()) => {
                self.frame(index).set_usage(1);
                self.map.set_hint(tag, index);
                Ok(Place::Loaded(index, page))
            }
            Err(error) => {
                self.leave(index, tag, page);
                Err(error)
            }
        }
    }

    fn check_block(&self, open: &OpenFork, tag: Tag) -> Result<(), StoreError> {
        let blocks = open.blocks();
        if tag.block() < blocks {
            return Ok(());
        }
        let block = BlockNumber::new(tag.block());
        Err(StoreError::BlockMissing { file: open.file.name(), block, blocks })
    }

    /// Enters a frame, latched and without a tag, as the block's. If another is entered, that one.
    pub(super) fn enter(
        &self,
        open: &OpenFork,
        tag: Tag,
        index: u32,
    ) -> Result<(), Result<u32, StoreError>> {
        // The tag first: what is in the map is in its frame.
        self.frame(index).set_tag(tag);
        if let Err(other) = self.map.insert(tag, index) {
            self.frame(index).set_tag(Tag::NONE);
            return Err(Ok(other));
        }
        if mutated!(NoSecondLook) {
            return Ok(());
        }
        // Again, now that a truncation would find it in the map.
        self.check_block(open, tag).map_err(|error| {
            self.map.remove(tag);
            self.frame(index).set_tag(Tag::NONE);
            Err(error)
        })
    }

    /// Takes the block out of the map, and out of its frame.
    pub(super) fn leave(&self, index: u32, tag: Tag, page: RwLockWriteGuard<'_, PageBytes>) {
        self.map.remove(tag);
        let frame = self.frame(index);
        frame.set_dirty(false);
        frame.set_tag(Tag::NONE);
        self.give_back(index, page);
    }

    /// Makes a frame without a tag free.
    pub(super) fn give_back(&self, index: u32, page: RwLockWriteGuard<'_, PageBytes>) {
        drop(page);
        self.free.lock().push(index);
    }

    /// Reads a block into a page.
    fn load(&self, open: &OpenFork, block: u32, page: &mut PageBytes) -> Result<(), StoreError> {
        if block >= open.written() {
            self.clear(page);
            return Ok(());
        }
        self.allocate(page);
        let calls = open.file.read_blocks(block, &mut [IoSliceMut::new(page)])?;
        let counts = self.counters.of(open.id.class());
        add(&counts.reads, 1);
        add(&counts.read_calls, calls);
        self.verify(open, block, page)
    }

    /// Gives a page its bytes, if its frame is used for the first time.
    pub(super) fn allocate(&self, page: &mut PageBytes) {
        if page.is_empty() {
            *page = self.memory.page();
        }
    }

    /// Makes a page all zeros.
    fn clear(&self, page: &mut PageBytes) {
        if page.is_empty() {
            self.allocate(page);
        } else {
            page.fill(0);
        }
    }

    pub(super) fn verify(
        &self,
        open: &OpenFork,
        block: u32,
        page: &[u8],
    ) -> Result<(), StoreError> {
        let page = Page::parse(page, self.options.block_size);
        let verified = page.and_then(|page| {
            if self.options.checksums {
                page.verify_checksum(BlockNumber::new(block))
            } else {
                Ok(())
            }
        });
        verified.map_err(|error| open.file.page_error(block, error))
    }
}

pub(super) fn frame_number(index: usize) -> u32 {
    u32::try_from(index).expect("there are fewer than 2^32 frames")
}
