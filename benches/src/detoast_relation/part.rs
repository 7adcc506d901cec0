//! One thread's part of the walk over a TOAST table.
use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result};
use pgtoast_base::{BlockNumber, BlockSize, Oid8};
use pgtoast_page::Page;
use pgtoast_toast::{
    Assembler, ChunkOrder, ChunkPlan, ChunkSize, Value, ValueIdWidth, page_chunks,
};

use super::{READ_BYTES, Wanted};
use crate::RelationFile;

/// A scan over some blocks, and what came of it.
pub(super) struct Part<'w> {
    wanted: &'w [Wanted],
    block_size: BlockSize,
    /// The value of the chunk before, if it lacks some.
    current: Option<UnderWay>,
    /// Others that lack some.
    waiting: BTreeMap<Oid8, UnderWay>,
    /// Those wanted that were handed on.
    handed: Vec<Range<usize>>,
    raw_bytes: usize,
    /// Buffers of values that are done.
    spare: Vec<Vec<u8>>,
}

/// A value that has some of its chunks.
struct UnderWay {
    /// Those in `wanted` that point to it.
    rows: Range<usize>,
    assembler: Assembler,
    stored: Vec<u8>,
    /// Where its chunks were so far.
    blocks: Range<u32>,
}

impl<'w> Part<'w> {
    pub(super) fn new(wanted: &'w [Wanted], block_size: BlockSize) -> Self {
        let (waiting, handed, spare) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { wanted, block_size, current: None, waiting, handed, raw_bytes: 0, spare }
    }

    /// Takes in the chunks of some blocks, and gives `each` the values that are complete with them.
    pub(super) fn read(
        &mut self,
        toast: &RelationFile,
        blocks: Range<u32>,
        each: &impl Fn(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        toast.read(blocks, &mut buffer, |first, bytes| {
            for (block, bytes) in (first.get()..).zip(bytes.chunks_exact(self.block_size.bytes())) {
                let page = Page::parse(bytes, self.block_size)
                    .with_context(|| format!("TOAST table, block {block}"))?;
                self.page(&page, block, each)?;
            }
            Ok(())
        })
    }

    fn page(
        &mut self,
        page: &Page<'_>,
        block: u32,
        each: &impl Fn(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        for chunk in page_chunks(page, BlockNumber::new(block), ValueIdWidth::Oid) {
            let chunk = chunk?;
            let is_its = |value: &UnderWay| value.value_id() == chunk.value_id;
            if !self.current.as_ref().is_some_and(is_its) {
                self.turn_to(chunk.value_id, block)?;
            }
            let Some(value) = &mut self.current else { continue };
            value.assembler.accept(&chunk, &mut value.stored)?;
            value.blocks.end = block + 1;
            if value.assembler.is_complete() {
                self.hand_on(each)?;
            }
        }
        Ok(())
    }

    /// Makes a value the current one; none if nothing points to it.
    fn turn_to(&mut self, value_id: Oid8, block: u32) -> Result<()> {
        if let Some(value) = self.current.take() {
            self.waiting.insert(value.value_id(), value);
        }
        self.current = self.waiting.remove(&value_id);
        if self.current.is_some() {
            return Ok(());
        }
        let rows = rows_of(self.wanted, value_id);
        let Some(Wanted { pointer, .. }) = self.wanted.get(rows.clone()).and_then(<[_]>::first)
        else {
            return Ok(());
        };
        let chunk_size = ChunkSize::of(self.block_size, ValueIdWidth::Oid);
        let plan = ChunkPlan::new(pointer, chunk_size)?;
        let mut stored = self.spare.pop().unwrap_or_default();
        stored.resize(plan.len(), 0);
        let assembler = Assembler::new(plan, ChunkOrder::Any);
        self.current = Some(UnderWay { rows, assembler, stored, blocks: block..block + 1 });
        Ok(())
    }

    /// Gives the current value, which is complete, to every row that points to it.
    fn hand_on(&mut self, each: &impl Fn(usize, &[u8]) -> Result<()>) -> Result<()> {
        let Some(UnderWay { rows, assembler, stored, .. }) = self.current.take() else {
            return Ok(());
        };
        assembler.finish()?;
        let pointing = &self.wanted[rows.clone()];
        let value = Value::of_stored(&pointing[0].pointer, &stored)?;
        for wanted in pointing {
            each(wanted.row, value.as_bytes())?;
            self.raw_bytes += value.len();
        }
        self.handed.push(rows);
        self.spare.push(stored);
        Ok(())
    }

    /// Those wanted that were handed on, by their index.
    pub(super) fn handed(&self) -> impl Iterator<Item = usize> {
        self.handed.iter().cloned().flatten()
    }

    /// The bytes that were handed on.
    pub(super) fn raw_bytes(&self) -> usize {
        self.raw_bytes
    }

    /// What came not whole: those wanted, and the blocks where some of its chunks were.
    pub(super) fn incomplete(&self) -> impl Iterator<Item = (Range<usize>, Range<u32>)> {
        let values = self.current.iter().chain(self.waiting.values());
        values.map(|value| (value.rows.clone(), value.blocks.clone()))
    }

    /// Says that no more chunks will come: whatever is not whole now is broken.
    pub(super) fn finish(&self) -> Result<()> {
        let mut values = self.current.iter().chain(self.waiting.values());
        Ok(values.try_for_each(|value| value.assembler.finish())?)
    }
}

impl UnderWay {
    fn value_id(&self) -> Oid8 {
        self.assembler.plan().value_id()
    }
}

/// Which of those wanted, sorted by value, point to a value.
fn rows_of(wanted: &[Wanted], value_id: Oid8) -> Range<usize> {
    let start = wanted.partition_point(|wanted| wanted.value_id < value_id);
    let same = wanted[start..].iter().take_while(|wanted| wanted.value_id == value_id);
    start..start + same.count()
}
