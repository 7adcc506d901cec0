//! Where a server's chunks are.
use core::ops::{ControlFlow, Range};

use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Oid8};
use pgtoast_page::{HeapTuple, Item, TransactionStatus};
use pgtoast_toast::{Chunk, ChunkOrder, ChunkSize, ChunkSource, ReadError, ValueIdWidth, ValueKey};

use super::is_live;
use super::source_file::SourceFile;
use crate::finding::{Finding, told};
use crate::{RelationKind, StoreError, StoreFile};

/// The chunks of a TOAST relation, found by one pass over it.
pub(crate) struct SourceChunks<'a> {
    file: Option<SourceFile>,
    width: ValueIdWidth,
    chunk_size: ChunkSize,
    transactions: &'a dyn TransactionStatus,
    /// By value and number.
    places: Vec<(Oid8, i32, ItemPointer)>,
    /// The page that was read last.
    page: Vec<u8>,
    block: Option<BlockNumber>,
}

impl<'a> SourceChunks<'a> {
    pub(super) fn new(
        file: Option<SourceFile>,
        width: ValueIdWidth,
        chunk_size: ChunkSize,
        transactions: &'a dyn TransactionStatus,
    ) -> Self {
        let (places, page, block) = (Vec::new(), Vec::new(), None);
        Self { file, width, chunk_size, transactions, places, page, block }
    }

    pub(super) fn chunk_size(&self) -> ChunkSize {
        self.chunk_size
    }

    /// Finds the chunks that a new session would see. A page that is broken costs its chunks.
    pub(super) fn find(
        &mut self,
        tell: &mut dyn FnMut(Finding) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let Some(source) = &self.file else { return Ok(()) };
        let file = StoreFile::Import { kind: RelationKind::Toast };
        for block in source.blocks() {
            let page = match source.read(block, &mut self.page) {
                Ok(page) => page,
                Err(error) => {
                    told(tell, Finding::of_block(file, block, error))?;
                    continue;
                }
            };
            for item in (1..=page.item_count()).map(OffsetNumber::new) {
                let tid = ItemPointer::new(block, item);
                let bytes = match page.item(item) {
                    Ok(Item::Normal(bytes)) => bytes,
                    Ok(_) => continue,
                    Err(error) => {
                        let error = StoreError::Page { file, block, error };
                        told(tell, Finding::of_tuple(file, tid, error))?;
                        continue;
                    }
                };
                let is_live =
                    HeapTuple::new(bytes).is_ok_and(|tuple| is_live(&tuple, self.transactions));
                if !is_live {
                    continue;
                }
                match Chunk::parse(bytes, self.width, Some(tid)) {
                    Ok(Some(chunk)) => self.places.push((chunk.value_id, chunk.seq, tid)),
                    Ok(None) => {}
                    Err(error) => {
                        let error = StoreError::Toast(error);
                        told(tell, Finding::of_tuple(file, tid, error))?;
                    }
                }
            }
        }
        self.block = None;
        self.places.sort_unstable();
        Ok(())
    }
}

impl ChunkSource for SourceChunks<'_> {
    type Error = StoreError;

    fn order(&self) -> ChunkOrder {
        ChunkOrder::Index
    }

    fn visit(
        &mut self,
        key: ValueKey,
        chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<StoreError>> {
        let Self { file: Some(source), width, places, page, block, .. } = self else {
            return Ok(());
        };
        let first = places.partition_point(|(id, _, _)| *id < key.value_id);
        let of_value = places[first..].iter().take_while(|(id, _, _)| *id == key.value_id);
        for (_, seq, tid) in of_value {
            // Numbers below zero are for the reader of the whole value to wonder at.
            let is_wanted = match u32::try_from(*seq) {
                Ok(number) => chunks.contains(&number),
                Err(_) => chunks == (0..u32::MAX),
            };
            if !is_wanted {
                continue;
            }
            if *block != Some(tid.block) {
                *block = None;
                source.read(tid.block, page).map_err(ReadError::Source)?;
                *block = Some(tid.block);
            }
            let file = StoreFile::Import { kind: RelationKind::Toast };
            let located =
                |error| ReadError::Source(StoreError::Page { file, block: tid.block, error });
            let view = pgtoast_page::Page::new(page, source.block_size()).map_err(located)?;
            let Item::Normal(tuple) = view.item(tid.item).map_err(located)? else { continue };
            let Some(chunk) = Chunk::parse(tuple, *width, Some(*tid))? else { continue };
            if visit(&chunk).is_break() {
                break;
            }
        }
        Ok(())
    }
}
