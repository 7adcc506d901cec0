//! A value of variable length, wherever it is: in its row, compressed, or out of line.
mod reader;

use core::fmt;
use core::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;

use pgtoast_base::{ItemPointer, Oid8};
use pgtoast_codec::CompressionMethod;
use pgtoast_toast::{
    Assembler, ByteSlice, ChunkOrder, ChunkPlan, ChunkSource as _, Collector, Detoaster, ReadError,
    ToastError, ValueKey, column_compression, column_size, raw_len,
};
use pgtoast_varlena::{ToastPointer, Varlena};

pub use self::reader::ValueReader;
use crate::StoreError;
use crate::toast::{ChunkReader, ToastStore};

/// A value of variable length, of which nothing was read yet but what its row says.
///
/// Its bytes are fetched when they are asked for, and only those: a slice of a value that is not compressed
/// reads the chunks that it touches, a slice of a compressed one a prefix.
#[derive(Clone, Copy)]
pub struct Value<'r> {
    datum: Varlena<'r>,
    toast: Option<&'r ToastStore>,
    tid: ItemPointer,
    column: u16,
}

impl<'r> Value<'r> {
    pub(crate) fn new(
        datum: Varlena<'r>,
        toast: Option<&'r ToastStore>,
        tid: ItemPointer,
        column: u16,
    ) -> Self {
        Self { datum, toast, tid, column }
    }

    /// How long it is, in bytes. Nothing is fetched to know that.
    #[doc(alias = "octet_length")]
    #[must_use]
    pub fn len(&self) -> usize {
        // A pointer that claims more than there can be is told when the value is read.
        raw_len(&self.datum).unwrap_or_default()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether its row has a pointer in its place.
    #[must_use]
    pub fn is_out_of_line(&self) -> bool {
        matches!(self.datum, Varlena::External(_))
    }

    /// How it is compressed, in its row or out of line; `None` if it is not.
    #[doc(alias = "pg_column_compression")]
    #[must_use]
    pub fn compression(&self) -> Option<CompressionMethod> {
        column_compression(&self.datum).ok().flatten()
    }

    /// The bytes it takes where it is stored, in bytes: as `pg_column_size` counts them.
    #[doc(alias = "pg_column_size")]
    #[must_use]
    pub fn stored_len(&self) -> usize {
        column_size(&self.datum)
    }

    /// Its id, if it is out of line.
    #[doc(alias = "pg_column_toast_chunk_id")]
    #[must_use]
    pub fn value_id(&self) -> Option<Oid8> {
        match &self.datum {
            Varlena::External(pointer) => pointer.value_id(),
            _ => None,
        }
    }

    /// All of it.
    ///
    /// # Errors
    /// [`StoreError::Row`] for a value that is broken, and those of files.
    pub fn to_vec(&self) -> Result<Vec<u8>, StoreError> {
        let mut bytes = Vec::new();
        self.read_into(&mut bytes)?;
        Ok(bytes)
    }

    /// All of it as a text.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec), and [`ToastError::Utf8`].
    pub fn to_text(&self) -> Result<String, StoreError> {
        String::from_utf8(self.to_vec()?).map_err(|error| {
            let offset = error.utf8_error().valid_up_to();
            self.located(ToastError::Utf8 { offset }.into())
        })
    }

    /// All of it in place of what `target` holds, whose memory is used again.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec); `target` is empty then.
    pub fn read_into(&self, target: &mut Vec<u8>) -> Result<(), StoreError> {
        let read = self.read(target);
        if read.is_err() {
            target.clear();
        }
        read.map_err(|error| self.located(error))
    }

    /// The bytes in a range; what is beyond the end is left out, and is no error.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec). What is not read is not checked.
    #[doc(alias = "substring")]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Vec<u8>, StoreError> {
        let offset = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => usize::MAX,
        };
        let wanted = ByteSlice::new(offset, end.saturating_sub(offset)).of(self.len());
        let mut target = Vec::new();
        match self.pointer_to_plain() {
            Some((pointer, toast)) => {
                let plan = ChunkPlan::new(pointer, toast.chunk_size)
                    .map(|plan| plan.slice(wanted.start, wanted.len()));
                let plan = plan.map_err(|error| self.located(error.into()))?;
                if !plan.is_empty() {
                    let collected = collect(toast, pointer, plan);
                    target = collected.map_err(|error| self.located(error))?;
                }
            }
            None => self.slice_other(ByteSlice::new(wanted.start, wanted.len()), &mut target)?,
        }
        Ok(target)
    }

    /// Fills `target` with the bytes from `offset` on, and says how many those were: fewer than there is room
    /// for only at the end of the value.
    ///
    /// # Errors
    /// As [`slice`](Self::slice). What `target` holds then means nothing.
    pub fn slice_into(&self, offset: usize, target: &mut [u8]) -> Result<usize, StoreError> {
        let wanted = ByteSlice::new(offset, target.len()).of(self.len());
        let target = &mut target[..wanted.len()];
        match self.pointer_to_plain() {
            Some((pointer, toast)) if !target.is_empty() => {
                assemble(toast, pointer, wanted.start, target)
                    .map_err(|error| self.located(error))?;
            }
            _ => {
                let mut bytes = Vec::new();
                self.slice_other(ByteSlice::new(wanted.start, wanted.len()), &mut bytes)?;
                target.copy_from_slice(&bytes);
            }
        }
        Ok(wanted.len())
    }

    /// Reads it as a file is read.
    #[must_use]
    pub fn reader(&self) -> ValueReader<'r> {
        ValueReader::new(*self)
    }

    /// Its pointer, if its bytes are in chunks as they are.
    fn pointer_to_plain(&self) -> Option<(&ToastPointer, &'r ToastStore)> {
        match &self.datum {
            Varlena::External(pointer) if !pointer.is_compressed() => Some((pointer, self.toast?)),
            _ => None,
        }
    }

    fn read(&self, target: &mut Vec<u8>) -> Result<(), StoreError> {
        let (pointer, toast) = match (&self.datum, self.toast) {
            (Varlena::External(pointer), Some(toast)) => (pointer, toast),
            (datum, _) => {
                let value = Detoaster::new(NoChunks, pgtoast_toast::ChunkSize::default());
                let value = { value }.detoast(datum)?;
                target.clear();
                target.extend_from_slice(value.as_bytes());
                return Ok(());
            }
        };
        if let Some(cached) = self.cached(pointer, toast) {
            target.clear();
            target.extend_from_slice(&cached);
            return Ok(());
        }
        if pointer.is_compressed() {
            let stored = read_whole(toast, pointer, Vec::new())?;
            let value = pgtoast_toast::Value::of_stored(pointer, &stored)?;
            target.clear();
            target.extend_from_slice(value.as_bytes());
        } else {
            *target = read_whole(toast, pointer, core::mem::take(target))?;
            // Says whether the lengths of the pointer agree.
            pgtoast_toast::Value::of_stored(pointer, target)?;
        }
        self.keep(pointer, toast, target);
        Ok(())
    }

    /// A slice of a value that is in its row, or compressed.
    fn slice_other(&self, slice: ByteSlice, target: &mut Vec<u8>) -> Result<(), StoreError> {
        let sliced = match (&self.datum, self.toast) {
            (Varlena::External(pointer), Some(toast)) => {
                self.slice_compressed(pointer, toast, slice, target)
            }
            (datum, _) => Detoaster::new(NoChunks, pgtoast_toast::ChunkSize::default())
                .slice_bytes(datum, slice)
                .map(|value| target.extend_from_slice(value.as_bytes()))
                .map_err(StoreError::from),
        };
        sliced.map_err(|error| self.located(error))
    }

    fn slice_compressed(
        &self,
        pointer: &ToastPointer,
        toast: &ToastStore,
        slice: ByteSlice,
        target: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let wanted = slice.of(self.len());
        let is_cacheable = toast.cache.as_ref().is_some_and(|cache| cache.takes(self.len()));
        if is_cacheable {
            let whole = match self.cached(pointer, toast) {
                Some(cached) => cached,
                None => {
                    let mut whole = Vec::new();
                    self.read(&mut whole)?;
                    whole.into()
                }
            };
            target.extend_from_slice(whole.get(wanted).unwrap_or_default());
            return Ok(());
        }
        let value = Detoaster::new(ChunkReader::new(toast), toast.chunk_size)
            .slice_bytes(&self.datum, slice)?;
        target.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn cached(&self, pointer: &ToastPointer, toast: &ToastStore) -> Option<Arc<[u8]>> {
        let cache = toast.cache.as_ref()?;
        let cached = cache.get(toast.heap.id(), pointer.value_id()?)?;
        (cached.len() == self.len() && pointer.toast_rel_id() == toast.oid()).then_some(cached)
    }

    fn keep(&self, pointer: &ToastPointer, toast: &ToastStore, value: &[u8]) {
        if let (Some(cache), Some(value_id)) = (&toast.cache, pointer.value_id())
            && cache.takes(value.len())
        {
            cache.put(toast.heap.id(), value_id, value.into());
        }
    }

    /// Says of which row and column it is.
    fn located(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Toast(error) => {
                StoreError::Row { tid: self.tid, column: self.column, error }
            }
            other => other,
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value")
            .field("len", &self.len())
            .field("is_out_of_line", &self.is_out_of_line())
            .field("compression", &self.compression())
            .finish_non_exhaustive()
    }
}

/// A whole value, in place of what a vector holds. It is made as long as the relation justifies.
fn read_whole(
    toast: &ToastStore,
    pointer: &ToastPointer,
    mut buffer: Vec<u8>,
) -> Result<Vec<u8>, StoreError> {
    let plan = ChunkPlan::new(pointer, toast.chunk_size)?;
    if !is_justified(toast, plan.len()) {
        return collect(toast, pointer, plan);
    }
    if buffer.capacity() < plan.len() {
        buffer = vec![0; plan.len()];
    } else {
        // What it holds is written over: only what it lacks is filled up.
        buffer.resize(plan.len(), 0);
    }
    // Whoever reads the chunks one after the other can say what is wrong.
    let is_read = pointer.toast_rel_id() == toast.oid() && toast.read_whole(&plan, &mut buffer)?;
    if is_read { Ok(buffer) } else { collect(toast, pointer, plan) }
}

/// What a plan asks for, in a vector that is made as long as the relation justifies.
fn collect(
    toast: &ToastStore,
    pointer: &ToastPointer,
    plan: ChunkPlan,
) -> Result<Vec<u8>, StoreError> {
    let len = if is_justified(toast, plan.len()) { plan.len() } else { 0 };
    let mut collector = Collector::with_buffer(plan, ChunkOrder::Index, Vec::with_capacity(len));
    visit(ChunkReader::new(toast), pointer, &plan, |chunk| collector.accept(chunk))?;
    Ok(collector.finish()?)
}

/// Whether the relation is large enough to hold so much.
fn is_justified(toast: &ToastStore, len: usize) -> bool {
    let page_len = toast.pool.options().block_size.bytes() as u64;
    len as u64 <= u64::from(toast.heap.blocks()) * page_len
}

/// The bytes from `offset` on, straight to their places.
fn assemble(
    toast: &ToastStore,
    pointer: &ToastPointer,
    offset: usize,
    target: &mut [u8],
) -> Result<(), StoreError> {
    let plan = ChunkPlan::new(pointer, toast.chunk_size)?.slice(offset, target.len());
    if plan.len() != target.len() {
        // The pointer's lengths disagree: whoever reads it whole is told how.
        let (found, expected) = (plan.len(), target.len());
        return Err(ToastError::TargetLength { found, expected }.into());
    }
    let mut assembler = Assembler::new(plan, ChunkOrder::Index);
    let reader = ChunkReader::new(toast);
    visit(reader, pointer, &plan, |chunk| assembler.accept(chunk, target))?;
    Ok(assembler.finish()?)
}

fn visit(
    mut reader: ChunkReader<'_>,
    pointer: &ToastPointer,
    plan: &ChunkPlan,
    mut accept: impl FnMut(&pgtoast_toast::Chunk<'_>) -> Result<(), ToastError>,
) -> Result<(), StoreError> {
    let chunks = plan.chunks();
    // Of a whole value all there are, so that none too many goes unnoticed.
    let chunks = if chunks == (0..plan.chunk_count()) { 0..u32::MAX } else { chunks };
    let mut verdict = Ok(());
    reader.visit(ValueKey::of(pointer)?, chunks, &mut |chunk| {
        verdict = accept(chunk);
        if verdict.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(verdict?)
}

/// For values that have no chunks.
struct NoChunks;

impl pgtoast_toast::ChunkSource for NoChunks {
    type Error = StoreError;

    fn visit(
        &mut self,
        _: ValueKey,
        _: core::ops::Range<u32>,
        _: &mut dyn FnMut(&pgtoast_toast::Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<StoreError>> {
        Ok(())
    }
}
