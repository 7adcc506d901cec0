//! A heap in memory, as pages.

use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use core::ops::ControlFlow;

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, ItemPointerData, OffsetNumber, Xid};
use pgtoast_page::{Item, LineState, Page, PageError, PageMut, set_checksum};

use crate::ChunkStore;

/// A chunk relation in memory: heap pages filled one after the other, as a server fills them, with every
/// tuple frozen. It counts what is done with it.
///
/// Deleting frees a tuple's item, not its space, and no item is used twice: a stale id leads to an error
/// and never to another value's bytes.
pub struct MemoryStore {
    block_size: BlockSize,
    /// So many blocks each, but where there is one only: nothing is moved when there are more. What is
    /// behind the last page is zeros.
    segments: Vec<Vec<u8>>,
    block_count: u32,
    counters: Counters,
}

/// What was done with a store.
#[derive(Clone, Debug, Default)]
struct Counters {
    fetches: Cell<u64>,
    fetched_bytes: Cell<u64>,
    inserts: u64,
    inserted_bytes: u64,
    deletes: u64,
}

/// What was done with a store since it was made or its counts were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Tuples fetched.
    pub fetches: u64,
    /// Their bytes, headers included.
    pub fetched_bytes: u64,
    /// Reads of a device; 0 in memory.
    pub reads: u64,
    /// Tuples inserted.
    pub inserts: u64,
    /// Their bytes, headers included.
    pub inserted_bytes: u64,
    /// Tuples deleted.
    pub deletes: u64,
}

const SEGMENT_BLOCKS: u32 = 1024;
/// Tuples that are found together.
const BATCH: usize = 16;

impl MemoryStore {
    /// Without a page.
    #[must_use]
    pub const fn new(block_size: BlockSize) -> Self {
        Self {
            block_size,
            segments: Vec::new(),
            block_count: 0,
            counters: Counters {
                fetches: Cell::new(0),
                fetched_bytes: Cell::new(0),
                inserts: 0,
                inserted_bytes: 0,
                deletes: 0,
            },
        }
    }

    /// These pages, one after the other: a relation as some server left it.
    ///
    /// # Errors
    /// [`PageError::Length`] if the last page is not whole. What is in the pages is not looked at.
    pub fn from_pages(bytes: &[u8], block_size: BlockSize) -> Result<Self, PageError> {
        let mut store = Self::new(block_size);
        for page in bytes.chunks(block_size.bytes()) {
            Page::new(page, block_size)?;
            store.extend().copy_from_slice(page);
        }
        Ok(store)
    }

    /// The pages, block 0 first.
    pub fn pages(&self) -> impl Iterator<Item = &[u8]> {
        let pages =
            self.segments.iter().flat_map(|segment| segment.chunks_exact(self.block_size.bytes()));
        pages.take(self.block_count as usize)
    }

    /// All pages as the file of a relation has them, each with its checksum.
    ///
    /// # Errors
    /// Those of [`set_checksum`], which pages made here do not give.
    pub fn to_file(&self) -> Result<Vec<u8>, PageError> {
        let mut file = Vec::with_capacity(self.block_count as usize * self.block_size.bytes());
        for (block, page) in (0..).zip(self.pages()) {
            let start = file.len();
            file.extend_from_slice(page);
            set_checksum(&mut file[start..], self.block_size, BlockNumber::new(block))?;
        }
        Ok(file)
    }

    /// How many pages there are.
    #[must_use]
    pub const fn block_count(&self) -> u32 {
        self.block_count
    }

    /// Every stored tuple, in the order of the pages. A broken page has none.
    pub fn tuples(&self) -> impl Iterator<Item = (ItemPointer, &[u8])> {
        (0..).zip(self.pages()).flat_map(move |(block, bytes)| {
            let page = Page::parse(bytes, self.block_size).ok();
            page.into_iter().flat_map(move |page| {
                page.items().filter_map(move |(item, pointer)| {
                    let tid = ItemPointer::new(BlockNumber::new(block), item);
                    match (pointer.state(), page.item(item)) {
                        (LineState::Normal, Ok(Item::Normal(tuple))) => Some((tid, tuple)),
                        _ => None,
                    }
                })
            })
        })
    }

    /// What was done since the counts were reset.
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        let counters = &self.counters;
        StoreCounts {
            fetches: counters.fetches.get(),
            fetched_bytes: counters.fetched_bytes.get(),
            reads: 0,
            inserts: counters.inserts,
            inserted_bytes: counters.inserted_bytes,
            deletes: counters.deletes,
        }
    }

    /// Has all counts start from 0.
    pub fn reset_counts(&mut self) {
        self.counters = Counters::default();
    }

    /// The bytes of a tuple, to be changed: for tests that break things.
    ///
    /// # Errors
    /// As [`fetch`](ChunkStore::fetch).
    pub fn tuple_mut(&mut self, tid: ItemPointer) -> Result<&mut [u8], MemoryError> {
        let page = self.page(tid)?;
        let start = match page.line_pointer(tid.item) {
            Some(pointer) => usize::from(pointer.offset()),
            None => return Err(MemoryError { tid, error: None }),
        };
        let len = tuple_of(page, tid)?.len();
        let (segment, at) = self.place(tid.block);
        Ok(&mut self.segments[segment][at + start..at + start + len])
    }

    #[inline]
    fn place(&self, block: BlockNumber) -> (usize, usize) {
        let block = block.get();
        let (segment, within) = (block / SEGMENT_BLOCKS, block % SEGMENT_BLOCKS);
        (segment as usize, within as usize * self.block_size.bytes())
    }

    #[inline]
    fn page(&self, tid: ItemPointer) -> Result<Page<'_>, MemoryError> {
        let (segment, at) = self.place(tid.block);
        let bytes = self.segments.get(segment).and_then(|bytes| bytes.get(at..));
        let bytes = bytes.and_then(|bytes| bytes.get(..self.block_size.bytes()));
        match bytes.map(|bytes| Page::new(bytes, self.block_size)) {
            Some(Ok(page)) => Ok(page),
            _ => Err(MemoryError { tid, error: None }),
        }
    }

    /// The tuple at `tid`; what is wrong where there is none is for [`missing`](Self::missing) to say.
    #[inline(always)]
    fn find(&self, tid: ItemPointer) -> Option<&[u8]> {
        let (segment, at) = self.place(tid.block);
        let bytes = self.segments.get(segment)?.get(at..at + self.block_size.bytes())?;
        let page = Page::new(bytes, self.block_size).ok()?;
        let pointer = page.line_pointer(tid.item)?;
        let start = usize::from(pointer.offset());
        let tuple = bytes.get(start..start + usize::from(pointer.len()))?;
        (pointer.state() == LineState::Normal).then_some(tuple)
    }

    #[cold]
    fn missing(&self, tid: ItemPointer) -> MemoryError {
        match self.page(tid).and_then(|page| tuple_of(page, tid)) {
            Ok(_) => MemoryError { tid, error: None },
            Err(error) => error,
        }
    }

    #[inline]
    fn page_mut(&mut self, tid: ItemPointer) -> Result<PageMut<'_>, MemoryError> {
        self.page(tid)?;
        let (segment, at) = self.place(tid.block);
        let bytes = &mut self.segments[segment][at..at + self.block_size.bytes()];
        PageMut::open(bytes, self.block_size)
            .map_err(|error| MemoryError { tid, error: Some(error) })
    }

    /// One more page, all zeros.
    fn extend(&mut self) -> &mut [u8] {
        let len = self.block_size.bytes();
        let within = (self.block_count % SEGMENT_BLOCKS) as usize * len;
        if within == 0 {
            // A small store takes no more than it needs; a big one takes zeroed memory by the segment.
            let blocks = if self.block_count == 0 { 1 } else { SEGMENT_BLOCKS as usize };
            self.segments.push(vec![0; blocks * len]);
        }
        self.block_count += 1;
        let segment = match self.segments.last_mut() {
            Some(segment) => segment,
            None => unreachable!("pushed above"),
        };
        if segment.len() < within + len {
            segment.resize((2 * within).min(SEGMENT_BLOCKS as usize * len), 0);
        }
        &mut segment[within..within + len]
    }

    fn last_block(&self) -> Option<ItemPointer> {
        let last = self.block_count.checked_sub(1)?;
        Some(ItemPointer::new(BlockNumber::new(last), OffsetNumber::INVALID))
    }
}

impl ChunkStore for MemoryStore {
    type Error = MemoryError;
    type Tuple<'s> = &'s [u8];

    #[inline]
    fn insert_with(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<ItemPointer, MemoryError> {
        let needed = pgtoast_base::maxalign(len);
        let last = match self.last_block() {
            Some(last) if usize::from(self.page(last)?.heap_free_bytes()) >= needed => last,
            _ => {
                let size = self.block_size;
                let block = BlockNumber::new(self.block_count);
                let tid = ItemPointer::new(block, OffsetNumber::INVALID);
                let limit = Page::max_tuple_len(size);
                if needed > usize::from(limit) || !block.is_valid() {
                    let free = limit;
                    return Err(MemoryError {
                        tid,
                        error: Some(PageError::Full { needed: len, free }),
                    });
                }
                PageMut::init(self.extend(), size, 0)
                    .map_err(|error| MemoryError { tid, error: Some(error) })?;
                tid
            }
        };
        let mut page = self.page_mut(last)?;
        let at = |error| MemoryError { tid: last, error: Some(error) };
        let tid = insert_frozen(&mut page, last.block, len, fill).map_err(at)?;
        self.counters.inserts += 1;
        self.counters.inserted_bytes += len as u64;
        Ok(tid)
    }

    #[inline]
    fn fetch(&self, tid: ItemPointer) -> Result<&[u8], MemoryError> {
        let Some(tuple) = self.find(tid) else { return Err(self.missing(tid)) };
        let counters = &self.counters;
        counters.fetches.set(counters.fetches.get() + 1);
        counters.fetched_bytes.set(counters.fetched_bytes.get() + tuple.len() as u64);
        Ok(tuple)
    }

    #[inline]
    fn fetch_many(
        &self,
        tids: &[ItemPointerData],
        mut visit: impl FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), MemoryError> {
        let (mut fetched, mut fetched_bytes) = (0, 0);
        let mut result = Ok(());
        'all: for (batch, tids) in tids.chunks(BATCH).enumerate() {
            // All tuples of a batch are found and their headers touched before the first is copied: so the
            // memory is waited for once and not for each of them.
            let (mut found, mut count, mut touched) = ([[].as_slice(); BATCH], 0, 0);
            for (slot, tid) in found.iter_mut().zip(tids) {
                let Some(tuple) = self.find(tid.get()) else {
                    result = Err(self.missing(tid.get()));
                    break;
                };
                touched ^= tuple.first().copied().unwrap_or_default();
                *slot = tuple;
                count += 1;
            }
            core::hint::black_box(touched);
            for (index, tuple) in found.iter().take(count).enumerate() {
                fetched += 1;
                fetched_bytes += tuple.len() as u64;
                if visit(batch * BATCH + index, tuple).is_break() {
                    result = Ok(());
                    break 'all;
                }
            }
            if result.is_err() {
                break;
            }
        }
        let counters = &self.counters;
        counters.fetches.set(counters.fetches.get() + fetched);
        counters.fetched_bytes.set(counters.fetched_bytes.get() + fetched_bytes);
        result
    }

    fn delete(&mut self, tid: ItemPointer) -> Result<(), MemoryError> {
        self.page_mut(tid)?
            .set_unused(tid.item)
            .map_err(|error| MemoryError { tid, error: Some(error) })?;
        self.counters.deletes += 1;
        Ok(())
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("block_size", &self.block_size)
            .field("block_count", &self.block_count)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

/// Adds a tuple that everyone sees, as if a vacuum had been there.
#[inline]
pub(crate) fn insert_frozen(
    page: &mut PageMut<'_>,
    block: BlockNumber,
    len: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Result<ItemPointer, PageError> {
    let tid = page.insert_tuple_with(block, len, fill)?;
    let mut tuple = page.tuple_mut(tid.item)?;
    let header = tuple.header_mut();
    header.set_inserted(Xid::FROZEN, 0);
    header.set_frozen();
    Ok(tid)
}

#[inline]
fn tuple_of(page: Page<'_>, tid: ItemPointer) -> Result<&[u8], MemoryError> {
    match page.item(tid.item) {
        Ok(Item::Normal(tuple)) => Ok(tuple),
        Ok(_) => Err(MemoryError { tid, error: None }),
        Err(error) => Err(MemoryError { tid, error: Some(error) }),
    }
}

/// There is no such tuple, or no room for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryError {
    /// Which tuple; for a tuple that was to be inserted, item 0 of the page.
    pub tid: ItemPointer,
    /// What is wrong with the page; `None` when there is no such block, or nothing in the item.
    pub error: Option<PageError>,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error {
            Some(error) => write!(f, "block {}: {error}", self.tid.block),
            None => write!(f, "no tuple at {}", self.tid),
        }
    }
}

#[cfg(feature = "std")]
impl From<MemoryError> for std::io::Error {
    fn from(error: MemoryError) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, error)
    }
}

impl core::error::Error for MemoryError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.error {
            Some(error) => Some(error),
            None => None,
        }
    }
}
