//! Chunks of new values in, and of those that nothing points to any more out.
use core::ops::{ControlFlow, Range};

use pgtoast_base::{ItemPointer, Oid8};
use pgtoast_nbtree::Key;
use pgtoast_page::HeapTupleMut;
use pgtoast_toast::{Chunk, ChunkOrder, ChunkSource, ReadError, ToastRelation, ValueKey};
use pgtoast_varlena::ToastPointer;
use smallvec::SmallVec;

use super::{ChunkReader, ToastStore};
use crate::StoreError;
use crate::heap::Modified;
use crate::transaction::TransactionCore;

/// Where a row's values come from that are not its table's own.
pub(crate) type OtherSource<'o> = dyn ChunkSource<Error = StoreError> + 'o;

/// What a transaction writes of one row to a TOAST relation.
///
/// Values that the row no longer points to are only noted: they go when the row's new version is in its
/// place, because until then another transaction may turn out to have been there first.
pub(crate) struct ToastWriter<'a, 'o> {
    pub(crate) toast: Option<&'a ToastStore>,
    pub(crate) core: &'a mut TransactionCore,
    /// Values to be deleted.
    pub(crate) deleted: &'a mut Vec<ToastPointer>,
    /// Values that were written.
    pub(crate) inserted: &'a mut Vec<Oid8>,
    /// Set when something cannot be taken back.
    pub(crate) has_failed: &'a mut bool,
    pub(crate) other: Option<&'a mut OtherSource<'o>>,
}

impl ToastWriter<'_, '_> {
    fn toast(&self) -> Result<&ToastStore, StoreError> {
        self.toast.ok_or(StoreError::TableMissing)
    }
}

impl ChunkSource for ToastWriter<'_, '_> {
    type Error = StoreError;

    fn order(&self) -> ChunkOrder {
        self.other.as_ref().map_or(ChunkOrder::Index, |other| other.order())
    }

    fn visit(
        &mut self,
        key: ValueKey,
        chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<StoreError>> {
        match (&mut self.other, self.toast) {
            (Some(other), _) => other.visit(key, chunks, visit),
            (None, Some(toast)) => ChunkReader::new(toast).visit(key, chunks, visit),
            (None, None) => Ok(()),
        }
    }
}

impl ToastRelation for ToastWriter<'_, '_> {
    fn new_value_id(&mut self) -> Result<Oid8, StoreError> {
        let value_id = self.toast()?.new_value_id()?;
        self.inserted.push(value_id);
        Ok(value_id)
    }

    fn insert_chunk(
        &mut self,
        chunk: &Chunk<'_>,
        tuple: HeapTupleMut<'_>,
    ) -> Result<(), StoreError> {
        let Some(toast) = self.toast else { return Err(StoreError::TableMissing) };
        let tid = toast.heap.insert(self.core, tuple)?;
        let entered = toast.insert_entry(Key::new(chunk.value_id, chunk.seq), tid);
        if entered.is_err() && delete_chunk(toast, self.core, tid).is_err() {
            *self.has_failed = true;
        }
        entered
    }

    fn delete_value(&mut self, pointer: &ToastPointer) -> Result<(), StoreError> {
        self.deleted.push(*pointer);
        Ok(())
    }

    fn take_back(&mut self, _: &[ToastPointer], _: &[ToastPointer]) {
        self.deleted.clear();
        let Some(toast) = self.toast else { return };
        if take_back(toast, self.core, self.inserted).is_err() {
            *self.has_failed = true;
        }
    }
}

/// Deletes values that the transaction has just written, for a row that came to nothing.
pub(crate) fn take_back(
    toast: &ToastStore,
    core: &mut TransactionCore,
    inserted: &mut Vec<Oid8>,
) -> Result<(), StoreError> {
    if inserted.is_empty() {
        return Ok(());
    }
    // What a command wrote is seen by those after it.
    core.begin_statement()?;
    for value_id in inserted.drain(..) {
        delete_value(toast, core, value_id)?;
    }
    Ok(())
}

/// Deletes a chunk that the transaction has just written, and that nothing leads to.
fn delete_chunk(
    toast: &ToastStore,
    core: &mut TransactionCore,
    tid: ItemPointer,
) -> Result<(), StoreError> {
    core.begin_statement()?;
    toast.heap.delete(core, tid).map(|_| ())
}

/// Deletes all chunks of a value. Their entries stay until a vacuum.
#[doc(alias = "toast_delete_datum")]
pub(crate) fn delete_value(
    toast: &ToastStore,
    core: &mut TransactionCore,
    value_id: Oid8,
) -> Result<(), StoreError> {
    const BATCH: usize = 128;
    let mut next = i32::MIN;
    let mut places = SmallVec::<[ItemPointer; BATCH]>::new();
    loop {
        places.clear();
        let range = Key::new(value_id, next)..=Key::new(value_id, i32::MAX);
        let mut reached = next;
        let read = toast.index.visit(range, |entry, tid| {
            places.push(tid);
            reached = entry.chunk_seq;
            if places.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        read.map_err(|error| toast.index_error(error))?;
        for tid in &places {
            match toast.heap.delete(core, *tid)? {
                Modified::Done(_) => {}
                // A chunk that is gone is for a check to find: the row that goes has no use for it.
                Modified::ByOther { .. } | Modified::BySelf | Modified::NotVisible => {}
            }
        }
        if places.len() < BATCH || reached == i32::MAX {
            return Ok(());
        }
        next = reached + 1;
    }
}
