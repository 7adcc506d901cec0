//! One thread's part of the walk over a TOAST table.
use std::ops::Range;

use anyhow::{Context, Result};
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::Page;
use pgtoast_toast::{Value, ValueIdWidth, ValueScan, page_chunks};
use pgtoast_varlena::ToastPointer;

use super::{Detoasted, READ_BYTES, Wanted};
use crate::RelationFile;

/// A scan over some blocks, and what came of it.
pub(super) struct Part<'w> {
    wanted: &'w [Wanted],
    block_size: BlockSize,
    scan: ValueScan,
    done: Detoasted,
}

impl<'w> Part<'w> {
    /// A part of a walk that looks for what `scan` does, and hands it to the rows that point to it.
    pub(super) const fn new(wanted: &'w [Wanted], block_size: BlockSize, scan: ValueScan) -> Self {
        Self { wanted, block_size, scan, done: Detoasted { values: 0, raw_bytes: 0 } }
    }

    /// Takes in the chunks of some blocks, and gives `each` the values that are complete with them.
    pub(super) fn read(
        &mut self,
        toast: &RelationFile,
        blocks: Range<u32>,
        each: &impl Fn(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let Self { wanted, block_size, scan, done } = self;
        let mut buffer = vec![0; READ_BYTES];
        toast.read(blocks, &mut buffer, |first, bytes| {
            for (block, bytes) in (first.get()..).zip(bytes.chunks_exact(block_size.bytes())) {
                let page = Page::parse(bytes, *block_size)
                    .with_context(|| format!("TOAST table, block {block}"))?;
                for chunk in page_chunks(&page, BlockNumber::new(block), ValueIdWidth::Oid) {
                    let mut handed = Ok(());
                    scan.accept(&chunk?, |pointer, stored| {
                        handed = hand_on(wanted, pointer, stored, done, each);
                    })?;
                    handed?;
                }
            }
            Ok(())
        })
    }

    /// Adds what another part has, and gives `each` the values that are complete with it.
    pub(super) fn absorb(
        &mut self,
        other: Self,
        each: &impl Fn(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let Self { wanted, scan, done, .. } = self;
        done.values += other.done.values;
        done.raw_bytes += other.done.raw_bytes;
        let mut handed = Ok(());
        let faults = scan.absorb(other.scan, |pointer, stored| {
            if handed.is_ok() {
                handed = hand_on(wanted, pointer, stored, done, each);
            }
        });
        handed?;
        faults.into_iter().try_for_each(|(_, fault)| Err(fault.into()))
    }

    /// Says that no more chunks will come: whatever is not whole now is broken.
    pub(super) fn finish(self) -> Result<Detoasted> {
        match self.scan.finish().next() {
            Some((_, fault)) => Err(fault.into()),
            None => Ok(self.done),
        }
    }
}

/// Gives a value to every row that points to it.
fn hand_on(
    wanted: &[Wanted],
    pointer: &ToastPointer,
    stored: &[u8],
    done: &mut Detoasted,
    each: &impl Fn(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let value = Value::of_stored(pointer, stored)?;
    let value_id = pointer.value_id().context("a value id")?;
    let start = wanted.partition_point(|wanted| wanted.value_id < value_id);
    for wanted in wanted[start..].iter().take_while(|wanted| wanted.value_id == value_id) {
        each(wanted.row, value.as_bytes())?;
        done.values += 1;
        done.raw_bytes += value.len();
    }
    Ok(())
}
