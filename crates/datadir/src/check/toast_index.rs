//! The index of a TOAST relation against the chunks that are there.
//!
//! Both come in the order of value ids: the index's entries leaf by leaf, the chunks as the runs of
//! [`runs`](super::runs). A run keeps a sum over the places of its chunks, so the two are compared without
//! reading the heap again; only where they differ is it asked.
use core::cell::RefCell;
use core::fmt;
use core::ops::{ControlFlow, Deref, DerefMut, Range};

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, Oid, Oid8};
use pgtoast_nbtree::{Index, IndexError, IndexPages, Key, KeyWidth};
use pgtoast_page::{Item, Page};
use pgtoast_toast::{Chunk, ValueIdWidth};

use super::report::Report;
use super::runs::{Run, place_sum};
use super::target::Target;
use super::value_table::ValueTable;
use super::{Coverage, Finding, FindingKind, Readable};
use crate::{DatadirError, RelationFork};

/// Holds an index to its own rules, and says whether it keeps to them. One that cannot be read at all is
/// told with its pages.
pub(super) fn is_sound(target: &Target, report: &Report<'_>, coverage: &mut Coverage) -> bool {
    // An index of zeros has no metapage either, and is told as such.
    let Some(index) = open(target) else { return false };
    let mut is_sound = true;
    let checked = index.check_each(|error| {
        is_sound = false;
        report.tell(target.of_file(FindingKind::Index(error), Readable::All));
    });
    coverage.bytes +=
        u64::from(target.fork.block_count()) * target.fork.block_size().bytes() as u64;
    checked.is_ok() && is_sound
}

/// Compares the entries of an index that is sound, those with ids in a range, with the chunks that are
/// there.
pub(super) fn compare(
    target: &Target,
    heap: &RelationFork,
    table: &ValueTable,
    ids: Range<u64>,
    report: &Report<'_>,
) {
    if let Some(index) = open(target) {
        ToastIndex { target, index }.compare(heap, table, ids, report);
    }
}

fn open(target: &Target) -> Option<Index<ForkPages<'_>>> {
    let pages =
        ForkPages { fork: &target.fork, spare: RefCell::default(), ahead: RefCell::default() };
    Index::open(pages, KeyWidth::Oid).ok()
}

/// An index that is sound by itself.
struct ToastIndex<'a> {
    target: &'a Target,
    index: Index<ForkPages<'a>>,
}

impl ToastIndex<'_> {
    fn compare(
        &self,
        heap: &RelationFork,
        table: &ValueTable,
        ids: Range<u64>,
        report: &Report<'_>,
    ) {
        let mut heap =
            HeapPage { fork: heap, bytes: vec![0; heap.block_size().bytes()], block: None };
        let mut suspects = Vec::new();
        let runs = table.runs_of(ids.clone());
        let mut join = Join { runs, next: 0, group: 0..0, sums: Vec::new() };
        let range =
            Key::new(Oid8::new(ids.start), i32::MIN)..=Key::new(Oid8::new(ids.end - 1), i32::MAX);
        let walked = self.index.visit(range, |key, tid| {
            if !join.take(key, tid, &mut suspects) && heap.leads_astray(key, tid) {
                let kind = FindingKind::IndexEntryStray { chunk: key.chunk_seq, tid };
                self.tell(key.chunk_id, kind, report);
            }
            ControlFlow::Continue(())
        });
        if let Err(IndexError::Index(error)) = walked {
            report.tell(self.target.of_file(FindingKind::Index(error), Readable::All));
            return;
        }
        join.finish(&mut suspects);
        // Old entries may stand beside those that count, so what looks wrong is looked at entry by
        // entry.
        for run in suspects {
            if let Some(chunk) = self.first_missing(&run, &mut heap) {
                let kind = FindingKind::IndexEntryMissing { chunk };
                self.tell(Oid::new(run.value_id).into(), kind, report);
            }
        }
    }

    /// The first chunk of a run that no entry leads to.
    fn first_missing(&self, run: &Run, heap: &mut HeapPage<'_>) -> Option<i32> {
        let numbers = run.numbers();
        let id = Oid::new(run.value_id);
        let mut next = numbers.start;
        let range = Key::new(id, next.cast_signed())
            ..=Key::new(id, numbers.end.wrapping_sub(1).cast_signed());
        let walked = self.index.visit(range, |key, tid| {
            if key.chunk_seq.cast_unsigned() == next && heap.has(key, tid) {
                next += 1;
            }
            ControlFlow::Continue(())
        });
        (walked.is_ok() && next < numbers.end).then_some(next.cast_signed())
    }

    fn tell(&self, value_id: Oid8, kind: FindingKind, report: &Report<'_>) {
        let finding = self.target.of_file(kind, Readable::All);
        report.tell(Finding { value_id: Some(value_id), ..finding });
    }
}

/// Walks entries and runs side by side.
struct Join<'t> {
    runs: &'t [Run],
    /// The first run behind the value at hand.
    next: usize,
    /// The runs of the value at hand.
    group: Range<usize>,
    /// For each of them, how many entries led into it, and the sum over their places.
    sums: Vec<(u32, u32)>,
}

impl Join<'_> {
    /// Whether there is a run that the entry leads into. Runs that turn out to lack entries go to
    /// `suspects`.
    fn take(&mut self, key: Key, tid: ItemPointer, suspects: &mut Vec<Run>) -> bool {
        let id = key.chunk_id.get();
        let current = self.runs.get(self.group.start).filter(|_| !self.group.is_empty());
        if current.is_none_or(|run| u64::from(run.value_id) != id) {
            self.go_to(id, suspects);
        }
        let number = key.chunk_seq.cast_unsigned();
        let group = &self.runs[self.group.clone()];
        // A value may be in very many runs.
        let behind = group.partition_point(|run| run.numbers().start <= number);
        let Some(index) = behind.checked_sub(1) else { return false };
        let is_led_to = group.get(index).is_some_and(|run| run.numbers().contains(&number));
        if is_led_to && let Some((count, sum)) = self.sums.get_mut(index) {
            *count += 1;
            *sum = sum.wrapping_add(place_sum(tid, number));
        }
        is_led_to
    }

    /// Leaves the value at hand and all before that id behind.
    fn go_to(&mut self, id: u64, suspects: &mut Vec<Run>) {
        self.leave(suspects);
        while let Some(run) = self.runs.get(self.next)
            && u64::from(run.value_id) < id
        {
            // No entry leads to it.
            if run.must_be_indexed() {
                suspects.push(*run);
            }
            self.next += 1;
        }
        let rest = &self.runs[self.next..];
        let len = rest.iter().take_while(|run| u64::from(run.value_id) == id).count();
        self.group = self.next..self.next + len;
        self.next += len;
        self.sums.clear();
        self.sums.resize(len, (0, 0));
    }

    fn leave(&mut self, suspects: &mut Vec<Run>) {
        for (run, (count, sum)) in self.runs[self.group.clone()].iter().zip(&self.sums) {
            let is_led_to = *count == run.count() && *sum == run.places;
            if run.must_be_indexed() && !is_led_to {
                suspects.push(*run);
            }
        }
        self.group = self.next..self.next;
    }

    fn finish(mut self, suspects: &mut Vec<Run>) {
        self.go_to(u64::MAX, suspects);
    }
}

/// A page of the TOAST relation, kept for the next question.
struct HeapPage<'a> {
    fork: &'a RelationFork,
    bytes: Vec<u8>,
    block: Option<BlockNumber>,
}

impl HeapPage<'_> {
    fn item(&mut self, tid: ItemPointer) -> Option<Item<'_>> {
        if self.block != Some(tid.block) {
            self.block = None;
            self.fork.read_block(tid.block, &mut self.bytes).ok()?;
            self.block = Some(tid.block);
        }
        Page::new(&self.bytes, self.fork.block_size()).ok()?.item(tid.item).ok()
    }

    /// Whether that chunk is there.
    fn has(&mut self, key: Key, tid: ItemPointer) -> bool {
        let Some(Item::Normal(tuple)) = self.item(tid) else { return false };
        let chunk = Chunk::parse(tuple, ValueIdWidth::Oid, None);
        chunk.is_ok_and(|chunk| {
            chunk.is_some_and(|one| one.value_id == key.chunk_id && one.seq == key.chunk_seq)
        })
    }

    /// Whether an entry leads to something else than its chunk or the remains of one. Of a block that
    /// is broken itself nobody knows.
    fn leads_astray(&mut self, key: Key, tid: ItemPointer) -> bool {
        if tid.block.get() >= self.fork.block_count() {
            return true;
        }
        match self.item(tid) {
            Some(Item::Dead(_)) | None => false,
            Some(Item::Normal(_)) => !self.has(key, tid),
            Some(Item::Unused | Item::Redirect(_)) => true,
        }
    }
}

/// An index's blocks in its file, for reading.
struct ForkPages<'a> {
    fork: &'a RelationFork,
    /// Buffers that were used and can be again.
    spare: RefCell<Vec<Vec<u8>>>,
    ahead: RefCell<ReadAhead>,
}

/// Blocks that were read before anybody asked for them. An index that was built at once has its leaves
/// one behind the other.
#[derive(Default)]
struct ReadAhead {
    buffer: Vec<u8>,
    held: Range<u32>,
    /// The block that would be next.
    next: u32,
}

/// How many blocks are read at once when they are asked for in order.
const AHEAD_BLOCKS: u32 = 16;

impl ReadAhead {
    fn read(
        &mut self,
        fork: &RelationFork,
        block: BlockNumber,
        target: &mut [u8],
    ) -> Result<(), DatadirError> {
        let number = block.get();
        let is_in_order = number == self.next;
        self.next = number.saturating_add(1);
        if !self.held.contains(&number) {
            let end = number.saturating_add(AHEAD_BLOCKS).min(fork.block_count());
            if !is_in_order || end <= self.next {
                return fork.read_block(block, target);
            }
            self.held = 0..0;
            self.buffer.resize((end - number) as usize * target.len(), 0);
            // What lies behind may be unreadable and nobody's business.
            if fork.read_blocks(block, &mut self.buffer).is_err() {
                return fork.read_block(block, target);
            }
            self.held = number..end;
        }
        let start = (number - self.held.start) as usize * target.len();
        target.copy_from_slice(&self.buffer[start..start + target.len()]);
        Ok(())
    }
}

/// A block, in a buffer that goes back when it is no longer needed.
struct Block<'a> {
    bytes: Vec<u8>,
    home: &'a RefCell<Vec<Vec<u8>>>,
}

impl Deref for Block<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Block<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        self.home.borrow_mut().push(core::mem::take(&mut self.bytes));
    }
}

/// Why a block could not be had.
#[derive(Clone, Copy, Debug)]
enum BlockError {
    /// It could not be read.
    Read(DatadirError),
    /// It was to be changed, which nobody does here.
    ReadOnly,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::ReadOnly => f.write_str("the index is only read"),
        }
    }
}

impl IndexPages for ForkPages<'_> {
    type Error = BlockError;
    type Read<'b>
        = Block<'b>
    where
        Self: 'b;
    type Write<'b>
        = Block<'b>
    where
        Self: 'b;

    fn block_size(&self) -> BlockSize {
        self.fork.block_size()
    }

    fn block_count(&self) -> Result<u32, BlockError> {
        Ok(self.fork.block_count())
    }

    fn read(&self, block: BlockNumber) -> Result<Option<Block<'_>>, BlockError> {
        if block.get() >= self.fork.block_count() {
            return Ok(None);
        }
        let mut bytes = self.spare.borrow_mut().pop().unwrap_or_default();
        bytes.resize(self.fork.block_size().bytes(), 0);
        let mut ahead = self.ahead.borrow_mut();
        ahead.read(self.fork, block, &mut bytes).map_err(BlockError::Read)?;
        Ok(Some(Block { bytes, home: &self.spare }))
    }

    fn write(&self, _: BlockNumber) -> Result<Option<Block<'_>>, BlockError> {
        Err(BlockError::ReadOnly)
    }

    fn try_write(&self, _: BlockNumber) -> Result<Option<Block<'_>>, BlockError> {
        Err(BlockError::ReadOnly)
    }

    fn extend(&self) -> Result<(BlockNumber, Block<'_>), BlockError> {
        Err(BlockError::ReadOnly)
    }

    fn take_free(&self) -> Option<BlockNumber> {
        None
    }

    fn put_free(&self, _: BlockNumber) {}

    fn next_xid(&self) -> u64 {
        0
    }

    fn is_past(&self, _: u64) -> bool {
        false
    }
}
