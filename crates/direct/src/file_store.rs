//! A chunk relation in a file: heap pages, one after the other, read with positioned reads.
use std::cell::{Cell, RefCell};
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Deref, Range};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::vec::Vec;

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, ItemPointerData, OffsetNumber};
use pgtoast_page::{Item, Page, PageError, PageMut, set_checksum};

use crate::memory::insert_frozen;
use crate::{ChunkStore, StoreCounts, runs};

/// Heap pages in one file, as a relation's first segment has them, filled from front to back with frozen
/// tuples. There is no cache: each fetch is a read, and leaves in adjacent blocks are one read of up to
/// `io_combine_limit` blocks. The last page is kept in memory until it is full or [`flush`](Self::flush)ed.
///
/// For tests, benchmarks and tools; it has neither log nor locks.
pub struct FileStore {
    file: File,
    block_size: BlockSize,
    io_combine_limit: u32,
    /// The last page, and its block; not written since it was changed.
    last: Option<(BlockNumber, Vec<u8>)>,
    block_count: u32,
    counts: Cell<StoreCounts>,
    /// What runs of blocks are read into.
    run: RefCell<Vec<u8>>,
}

impl FileStore {
    /// The pages in `file`, none if it is empty. What is in them is looked at when they are fetched.
    ///
    /// # Errors
    /// Those of the file; [`io::ErrorKind::InvalidData`] if its length is no whole number of blocks.
    pub fn new(file: File, block_size: BlockSize) -> io::Result<Self> {
        let (len, block_bytes) = (file.metadata()?.len(), block_size.bytes() as u64);
        let block_count = u32::try_from(len / block_bytes).ok().filter(|_| len % block_bytes == 0);
        let Some(block_count) = block_count else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no whole number of blocks"));
        };
        Ok(Self {
            file,
            block_size,
            io_combine_limit: 16,
            last: None,
            block_count,
            counts: Cell::default(),
            run: RefCell::default(),
        })
    }

    /// Reads of up to so many blocks; 16 at first, as servers have it.
    #[doc(alias = "io_combine_limit")]
    pub const fn set_io_combine_limit(&mut self, blocks: u32) {
        self.io_combine_limit = blocks;
    }

    /// Writes the last page, with its checksum.
    ///
    /// # Errors
    /// Those of the file.
    pub fn flush(&mut self) -> io::Result<()> {
        let Some((block, _)) = self.last else { return Ok(()) };
        let place = self.place(block);
        let Some((_, page)) = &mut self.last else { return Ok(()) };
        set_checksum(page, self.block_size, block).map_err(broken(block))?;
        self.file.write_all_at(page, place)
    }

    /// What was done so far. Here reads are those of the file.
    #[must_use]
    pub const fn counts(&self) -> StoreCounts {
        self.counts.get()
    }

    fn place(&self, block: BlockNumber) -> u64 {
        u64::from(block.get()) * self.block_size.bytes() as u64
    }

    fn count(&self, change: impl FnOnce(&mut StoreCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// The page in memory, if it is block `block`.
    fn in_memory(&self, block: BlockNumber) -> Option<&[u8]> {
        self.last.as_ref().filter(|(last, _)| *last == block).map(|(_, page)| page.as_slice())
    }

    fn read(&self, block: BlockNumber, target: &mut [u8]) -> io::Result<()> {
        if let Some(page) = self.in_memory(block) {
            target.copy_from_slice(page);
            return Ok(());
        }
        if block.get() >= self.block_count {
            return Err(missing(ItemPointer::new(block, OffsetNumber::INVALID)));
        }
        self.count(|counts| counts.reads += 1);
        self.file.read_exact_at(target, self.place(block))
    }

    /// Hands out tuples of blocks that follow each other.
    fn fetch_run(
        &self,
        tids: &[ItemPointerData],
        mut visit: impl FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        let (Some(first), Some(last)) = (tids.first(), tids.last()) else {
            return Ok(ControlFlow::Continue(()));
        };
        let (first, last) = (first.get().block, last.get().block);
        let size = self.block_size.bytes();
        let block_count = last.get().saturating_sub(first.get()) as usize + 1;
        let mut run = self.run.borrow_mut();
        run.resize(block_count * size, 0);
        if self.in_memory(last).is_some() {
            // What is before it in the file is read, and itself is not there yet.
            let (front, back) = run.split_at_mut((block_count - 1) * size);
            if !front.is_empty() {
                self.count(|counts| counts.reads += 1);
                self.file.read_exact_at(front, self.place(first))?;
            }
            self.read(last, back)?;
        } else {
            if last.get() >= self.block_count {
                return Err(missing(ItemPointer::new(last, OffsetNumber::INVALID)));
            }
            self.count(|counts| counts.reads += 1);
            self.file.read_exact_at(&mut run, self.place(first))?;
        }
        for (index, tid) in tids.iter().enumerate() {
            let tid = tid.get();
            let start = (tid.block.get() - first.get()) as usize * size;
            let page = &run[start..start + size];
            let tuple = &page[tuple_range(page, self.block_size, tid)?];
            self.count_fetch(tuple.len());
            if visit(index, tuple).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn count_fetch(&self, len: usize) {
        self.count(|counts| {
            counts.fetches += 1;
            counts.fetched_bytes += len as u64;
        });
    }
}

impl ChunkStore for FileStore {
    type Error = io::Error;
    type Tuple<'s> = FileTuple;

    fn insert_with(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> io::Result<ItemPointer> {
        let size = self.block_size;
        let needed = pgtoast_base::maxalign(len);
        let has_room = |page: &Vec<u8>| {
            Page::parse(page, size).is_ok_and(|page| usize::from(page.heap_free_bytes()) >= needed)
        };
        if !self.last.as_ref().is_some_and(|(_, page)| has_room(page)) {
            let block = BlockNumber::new(self.block_count);
            let most = usize::from(Page::max_tuple_len(size));
            if needed > most || !block.is_valid() {
                return Err(io::Error::new(io::ErrorKind::StorageFull, "no page has the room"));
            }
            self.flush()?;
            let mut page = std::vec![0; size.bytes()];
            PageMut::init(&mut page, size, 0).map_err(broken(block))?;
            self.last = Some((block, page));
            self.block_count += 1;
        }
        let Some((block, page)) = &mut self.last else {
            return Err(io::ErrorKind::StorageFull.into());
        };
        let mut page = PageMut::open(page, size).map_err(broken(*block))?;
        let tid = insert_frozen(&mut page, *block, len, fill).map_err(broken(*block))?;
        self.count(|counts| {
            counts.inserts += 1;
            counts.inserted_bytes += len as u64;
        });
        Ok(tid)
    }

    fn fetch(&self, tid: ItemPointer) -> io::Result<FileTuple> {
        let mut page: Arc<[u8]> = std::iter::repeat_n(0, self.block_size.bytes()).collect();
        if let Some(page) = Arc::get_mut(&mut page) {
            self.read(tid.block, page)?;
        }
        let range = tuple_range(&page, self.block_size, tid)?;
        self.count_fetch(range.len());
        Ok(FileTuple { page, range })
    }

    fn fetch_many(
        &self,
        tids: &[ItemPointerData],
        mut visit: impl FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for run in runs(tids, self.io_combine_limit) {
            let start = run.start;
            if self.fetch_run(&tids[run], |index, tuple| visit(start + index, tuple))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn delete(&mut self, tid: ItemPointer) -> io::Result<()> {
        let size = self.block_size;
        self.count(|counts| counts.deletes += 1);
        if let Some((block, page)) = &mut self.last
            && *block == tid.block
        {
            let mut page = PageMut::open(page, size).map_err(broken(tid.block))?;
            return page.set_unused(tid.item).map_err(broken(tid.block));
        }
        let mut page = std::vec![0; size.bytes()];
        self.read(tid.block, &mut page)?;
        PageMut::open(&mut page, size)
            .and_then(|mut page| page.set_unused(tid.item))
            .map_err(broken(tid.block))?;
        set_checksum(&mut page, size, tid.block).map_err(broken(tid.block))?;
        self.file.write_all_at(&page, self.place(tid.block))
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        let _ = self.flush(); // whoever wants to know of an error flushes before
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore")
            .field("file", &self.file)
            .field("block_count", &self.block_count)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

/// A tuple and the page that it is in; derefs to the tuple.
#[derive(Clone, Debug)]
pub struct FileTuple {
    page: Arc<[u8]>,
    range: Range<usize>,
}

impl Deref for FileTuple {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.page[self.range.clone()]
    }
}

/// Where a tuple is in its page.
fn tuple_range(bytes: &[u8], size: BlockSize, tid: ItemPointer) -> io::Result<Range<usize>> {
    let page = Page::parse(bytes, size).map_err(broken(tid.block))?;
    match (page.item(tid.item).map_err(broken(tid.block))?, page.line_pointer(tid.item)) {
        (Item::Normal(tuple), Some(pointer)) => {
            let start = usize::from(pointer.offset());
            Ok(start..start + tuple.len())
        }
        _ => Err(missing(tid)),
    }
}

fn broken(block: BlockNumber) -> impl Fn(PageError) -> io::Error {
    move |error| io::Error::new(io::ErrorKind::InvalidData, std::format!("block {block}: {error}"))
}

fn missing(tid: ItemPointer) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, std::format!("no tuple at {tid}"))
}
