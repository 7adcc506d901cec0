//! Chunks that came before the row which points to them.
//!
//! ```text
//! value id -> | chunk 0 | chunk 1 | ...        tid -> chunk of a direct value
//!               `- held in memory, or where in a spill file it is
//! ```
//! A chunk that was spilled stays in its file: only where it is is kept, so that chunks to which no row ever
//! points take a few bytes each, and a value takes memory when it is put together.
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::{ControlFlow, Range};

use pgtoast_base::{ItemPointer, Oid, Oid8};
use pgtoast_toast::{
    Chunk, ChunkOrder, ChunkSize, ChunkSource, Detoaster, ReadError, ValueIdWidth, ValueKey,
};
use pgtoast_varlena::{ToastPointer, Varlena};

use crate::merge::Taken;
use crate::row::Rebuild;
use crate::spill::{SpillStore, read_record};
use crate::stored_change::{StoredAction, StoredChange};
use crate::transaction::TransactionId;
use crate::{DirectChunks, DirectValues, Layout, ReorderError, SpillFault};

/// Chunks by what points to them; a TOAST relation's id comes first.
pub(crate) struct PendingToast<H> {
    values: BTreeMap<(u32, u64), PendingValue<H>>,
    direct: BTreeMap<(u32, u64), PendingChunk<H>>,
    chunks: u64,
}

struct PendingValue<H> {
    width: ValueIdWidth,
    /// Bytes of chunk 0, which is full if another follows.
    first_len: usize,
    /// By number.
    chunks: Vec<PendingChunk<H>>,
}

/// A chunk, and whose change it is.
pub(crate) struct PendingChunk<H> {
    pub(crate) id: TransactionId,
    pub(crate) taken: Taken<H>,
}

/// Under what a chunk is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChunkKey {
    Plain { relation: Oid, width: ValueIdWidth, value_id: Oid8, len: usize },
    Direct { relation: Oid, tid: ItemPointer },
}

impl<H> PendingToast<H> {
    pub(crate) fn new() -> Self {
        Self { values: BTreeMap::new(), direct: BTreeMap::new(), chunks: 0 }
    }

    /// Under what a chunk that came is to be kept; `None` for a piece of a direct value of which nobody says
    /// where it is.
    pub(crate) fn key_of(
        &self,
        relation: Oid,
        width: ValueIdWidth,
        tuple: &[u8],
        tid: Option<ItemPointer>,
    ) -> Result<Option<ChunkKey>, ReorderError> {
        let Some(chunk) = Chunk::parse(tuple, width, tid)? else {
            return Ok(tid.map(|tid| ChunkKey::Direct { relation, tid }));
        };
        let value_id = chunk.value_id;
        let value = self.values.get(&(relation.get(), value_id.get()));
        let expected = value.map_or(0, |value| value.chunks.len());
        let expected = i32::try_from(expected).unwrap_or(i32::MAX);
        if chunk.seq != expected {
            return Err(ReorderError::ChunkNumber {
                relation,
                value_id,
                found: chunk.seq,
                expected,
            });
        }
        Ok(Some(ChunkKey::Plain { relation, width, value_id, len: chunk.data.len() }))
    }

    pub(crate) fn keep(&mut self, key: ChunkKey, chunk: PendingChunk<H>) {
        self.chunks += 1;
        match key {
            ChunkKey::Plain { relation, width, value_id, len } => {
                let value = self.values.entry((relation.get(), value_id.get()));
                let new = || PendingValue { width, first_len: len, chunks: Vec::new() };
                value.or_insert_with(new).chunks.push(chunk);
            }
            ChunkKey::Direct { relation, tid } => {
                self.direct.insert((relation.get(), packed(tid)), chunk);
            }
        }
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> u64 {
        self.chunks
    }

    /// Takes all of them out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = PendingChunk<H>> + use<H> {
        let Self { values, direct, .. } = core::mem::replace(self, Self::new());
        values.into_values().flat_map(|value| value.chunks).chain(direct.into_values())
    }
}

fn packed(tid: ItemPointer) -> u64 {
    u64::from(tid.block.get()) << 16 | u64::from(tid.item.get())
}

/// Puts values together for one row.
pub(crate) struct Rebuilder<'r, L: Layout, S> {
    pub(crate) layout: &'r L,
    pub(crate) store: &'r mut S,
    pub(crate) pending: &'r PendingToast<L::Held>,
    pub(crate) direct: Option<&'r dyn DirectValues>,
    pub(crate) longest_bytes: &'r mut usize,
}

impl<L: Layout, S: SpillStore> Rebuild for Rebuilder<'_, L, S> {
    fn rebuild(&mut self, pointer: &ToastPointer) -> Result<Option<Vec<u8>>, ReorderError> {
        let value = match pointer {
            ToastPointer::Direct(_) => match self.direct {
                Some(direct) => {
                    direct.rebuild(pointer, &mut Fetch(self, pointer.toast_rel_id()))?
                }
                None => None,
            },
            _ => self.rebuild_plain(pointer)?,
        };
        let len = value.as_ref().map_or(0, Vec::len);
        *self.longest_bytes = len.max(*self.longest_bytes);
        Ok(value)
    }
}

impl<L: Layout, S: SpillStore> Rebuilder<'_, L, S> {
    fn rebuild_plain(&mut self, pointer: &ToastPointer) -> Result<Option<Vec<u8>>, ReorderError> {
        let key = ValueKey::of(pointer)?;
        let key = (key.toast_rel_id.get(), key.value_id.get());
        let Some(value) = self.pending.values.get(&key) else { return Ok(None) };
        let chunk_size = ChunkSize::new(value.first_len).unwrap_or_default();
        let (layout, store) = (self.layout, &mut *self.store);
        let mut detoaster = Detoaster::new(Chunks { layout, store, value }, chunk_size);
        match detoaster.detoast(&Varlena::External(*pointer)) {
            Ok(value) => Ok(Some(value.into_vec())),
            Err(ReadError::Source(error)) => Err(error),
            Err(ReadError::Toast(error)) => Err(error.into()),
        }
    }
}

/// The chunks of one value.
struct Chunks<'r, L: Layout, S> {
    layout: &'r L,
    store: &'r mut S,
    value: &'r PendingValue<L::Held>,
}

impl<L: Layout, S: SpillStore> ChunkSource for Chunks<'_, L, S> {
    type Error = ReorderError;

    fn order(&self) -> ChunkOrder {
        ChunkOrder::Index
    }

    fn visit(
        &mut self,
        _key: ValueKey,
        chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<ReorderError>> {
        let end = self.value.chunks.len().min(chunks.end as usize);
        let range = (chunks.start as usize).min(end)..end;
        let mut spilled = Vec::new();
        for chunk in &self.value.chunks[range] {
            let tuple = tuple_of(self.layout, self.store, chunk, &mut spilled);
            let tuple = tuple.map_err(ReadError::Source)?;
            let Some(chunk) = Chunk::parse(tuple, self.value.width, None)? else { continue };
            if visit(&chunk).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The tuple of a chunk, read into `spilled` if it is not in memory.
fn tuple_of<'t, L: Layout, S: SpillStore>(
    layout: &'t L,
    store: &mut S,
    chunk: &'t PendingChunk<L::Held>,
    spilled: &'t mut Vec<u8>,
) -> Result<&'t [u8], ReorderError> {
    let (bytes, place) = match &chunk.taken {
        Taken::Held(held) => (layout.bytes(held)?, None),
        Taken::Spilled(place) => {
            read_record(store, *place, spilled)?;
            (&spilled[..], Some(*place))
        }
    };
    let fault = |at| match place {
        Some(place) => {
            let (xid, offset) = (place.xid, place.offset);
            ReorderError::Spill { xid, offset, fault: SpillFault::Change { at } }
        }
        None => unreachable!("what is in memory is as it was encoded"),
    };
    match StoredChange::parse(bytes).map_err(fault)?.action {
        StoredAction::Insert { new: Some(tuple), .. } => Ok(tuple),
        _ => Err(fault(0)),
    }
}

/// The chunks of direct values in one TOAST relation.
struct Fetch<'f, 'r, L: Layout, S>(&'f mut Rebuilder<'r, L, S>, Oid);

impl<L: Layout, S: SpillStore> DirectChunks for Fetch<'_, '_, L, S> {
    fn fetch(&mut self, tid: ItemPointer, target: &mut Vec<u8>) -> Result<bool, ReorderError> {
        let Self(rebuilder, relation) = self;
        let key = (relation.get(), packed(tid));
        let Some(chunk) = rebuilder.pending.direct.get(&key) else { return Ok(false) };
        let mut spilled = Vec::new();
        let tuple = tuple_of(rebuilder.layout, rebuilder.store, chunk, &mut spilled)?;
        target.clear();
        target.extend_from_slice(tuple);
        Ok(true)
    }
}
