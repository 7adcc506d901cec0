//! Every value of a column, whole, from the files of its table and of the TOAST table: each read once,
//! from front to back.
//!
//! ```text
//! table        | page | page | …      1. its pointers, sorted by value id
//! TOAST table  | page | page | …      2. chunk after chunk, each copied once: from the read buffer
//!                | | |                   to its place in its value's buffer
//!                v v v
//! value under way | 0 | 1 | 2 |  |    3. complete: checked, decompressed if it is compressed, handed on
//! ```
//! The chunks of a value mostly lie side by side, so one value is under way at a time and memory is
//! a few buffers. But the last chunk of a value is short, and the server likes to put it into a gap that
//! it left on an earlier page: no order is relied on, and a value whose chunks are mixed with others'
//! waits with its buffer. All of that is [`ValueScan`]'s. The read buffer is small enough to stay in the second-level cache,
//! so a chunk's copy reads from there what the kernel has just written.
//!
//! Several threads each take a part of the TOAST table. In the end the first part takes in what the others
//! have of values that lie on both sides of a border. So every value is judged with all of its chunks.
mod part;

use std::panic::resume_unwind;
use std::thread;

use anyhow::{Context, Result, ensure};
use pgtoast_base::{BlockSize, Oid, Oid8};
use pgtoast_page::{HeapTuple, Item, Page, TupleDescriptor, Value};
use pgtoast_toast::{ChunkSize, ValueIdWidth, ValueScan};
use pgtoast_varlena::{ToastPointer, Varlena};

use crate::RelationFile;
use part::Part;

/// What one read of a file asks for.
const READ_BYTES: usize = 512 << 10;

/// A table with one column to read.
#[derive(Clone, Copy, Debug)]
pub struct ToastedColumn<'a> {
    /// The table's main fork.
    pub heap: &'a RelationFile,
    /// Its columns.
    pub descriptor: TupleDescriptor<'a>,
    /// Which of them, from 0.
    pub column: usize,
    /// The main fork of its TOAST table.
    pub toast: &'a RelationFile,
    /// The TOAST table's object id, which every pointer must name.
    pub toast_rel_id: Oid,
    /// Of both files.
    pub block_size: BlockSize,
}

/// How much was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detoasted {
    /// Values handed on.
    pub values: usize,
    /// Their bytes.
    pub raw_bytes: usize,
}

/// A pointer, and the row it stands in.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    value_id: Oid8,
    row: usize,
    pointer: ToastPointer,
}

impl ToastedColumn<'_> {
    /// Calls `each` with every value that is stored out of line, and with the number of its row among
    /// the table's tuples. Values come in the order in which they are complete, from `threads` threads
    /// at a time.
    ///
    /// # Errors
    /// When a file cannot be read; when a page, tuple, pointer or chunk is broken; when a row is not
    /// frozen, because whether it counts is then for its transaction to say, which this does not ask;
    /// when a value lacks chunks or has too many; and what `each` fails with.
    pub fn detoast(
        &self,
        threads: u32,
        each: impl Fn(usize, &[u8]) -> Result<()> + Sync,
    ) -> Result<Detoasted> {
        let wanted = self.pointers()?;
        self.check_claims(&wanted)?;
        let pointers = wanted.iter().map(|wanted| wanted.pointer);
        let scan = ValueScan::new(pointers, ChunkSize::of(self.block_size, ValueIdWidth::Oid))?;
        let part = |_| Part::new(&wanted, self.block_size, scan.clone());
        let mut parts: Vec<_> = (0..threads.max(1)).map(part).collect();
        self.read(&mut parts, &each)?;
        let mut parts = parts.into_iter();
        let mut whole = parts.next().context("a part")?;
        parts.try_for_each(|part| whole.absorb(part, &each))?;
        whole.finish()
    }

    /// A pointer can claim a gigabyte. All values together can have no more bytes than there are in
    /// the TOAST table, and pointers to one value must agree, before memory is taken on their word.
    fn check_claims(&self, wanted: &[Wanted]) -> Result<()> {
        let mut claimed = 0;
        for same in wanted.chunk_by(|one, next| one.value_id == next.value_id) {
            let Wanted { value_id, pointer, .. } = same[0];
            let agree = same.iter().all(|other| other.pointer == pointer);
            ensure!(agree, "two pointers differ over value {value_id}");
            claimed += pointer.stored_len();
        }
        let there = self.toast.bytes();
        ensure!(claimed <= there, "pointers claim {claimed} of {there} bytes");
        Ok(())
    }

    /// The pointers of the column, sorted by value.
    fn pointers(&self) -> Result<Vec<Wanted>> {
        let mut buffer = vec![0; READ_BYTES];
        let mut wanted = Vec::new();
        let mut row = 0;
        self.heap.read(0..self.heap.blocks(), &mut buffer, |first, bytes| {
            let mut values = vec![Value::Null; self.descriptor.attributes().len()];
            for (block, bytes) in (first.get()..).zip(bytes.chunks_exact(self.block_size.bytes())) {
                let page = Page::parse(bytes, self.block_size)
                    .with_context(|| format!("table, block {block}"))?;
                for (item, _) in page.items() {
                    let Item::Normal(tuple) = page.item(item)? else { continue };
                    let tuple = HeapTuple::parse(tuple)?;
                    ensure!(tuple.header().is_frozen(), "row {block}/{item} is not frozen");
                    tuple.deform_into(self.descriptor, &mut values)?;
                    if let Value::Stored(datum) = values[self.column]
                        && let Varlena::External(pointer) = datum.varlena()?
                    {
                        wanted.push(self.wanted(pointer, row)?);
                    }
                    row += 1;
                }
            }
            Ok(())
        })?;
        wanted.sort_by_key(|wanted: &Wanted| (wanted.value_id, wanted.row));
        Ok(wanted)
    }

    fn wanted(&self, pointer: ToastPointer, row: usize) -> Result<Wanted> {
        let found = pointer.toast_rel_id();
        ensure!(found == self.toast_rel_id, "a pointer into relation {found}");
        let value_id = pointer.value_id().context("a pointer to a direct value")?;
        Ok(Wanted { value_id, row, pointer })
    }

    /// Reads the TOAST table in so many parts; the first is this thread's.
    fn read(
        &self,
        parts: &mut [Part<'_>],
        each: &(impl Fn(usize, &[u8]) -> Result<()> + Sync),
    ) -> Result<()> {
        let part_blocks = self.toast.blocks().div_ceil(u32::try_from(parts.len())?);
        let read = |(number, part): (u32, &mut Part<'_>)| {
            let start = number * part_blocks;
            part.read(self.toast, start..start + part_blocks, each)
        };
        let mut parts = (0..).zip(parts);
        let first = parts.next().context("a part")?;
        thread::scope(|scope| {
            let read = &read;
            let others: Vec<_> = parts.map(|part| scope.spawn(move || read(part))).collect();
            read(first)?;
            others
                .into_iter()
                .try_for_each(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    }
}
