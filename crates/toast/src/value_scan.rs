//! Every value of a relation in one pass over it.
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use pgtoast_base::Oid8;
use pgtoast_varlena::ToastPointer;

use crate::{Chunk, ChunkOrder, ChunkPlan, ChunkSize, Collector, ToastError};

/// Takes the chunks of a TOAST relation as they lie in it and hands out each value that was asked for
/// once its last chunk has come.
///
/// One sequential pass, however the values' chunks are mixed, and no index. It holds the bytes of
/// values that have begun and are not complete yet, in buffers that are used again: for a relation
/// whose values lie one behind the other, those of one value.
///
/// A fault costs its value only; the scan goes on with the others.
#[derive(Debug)]
pub struct ValueScan {
    chunk_size: ChunkSize,
    states: BTreeMap<Oid8, State>,
    /// The value of the chunk before, which most often is the value of the next chunk too.
    current: Option<Box<Open>>,
    buffers: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum State {
    /// No chunk has come.
    Waiting(ToastPointer),
    /// Some have. `None` while it is the current one.
    Open(Option<Box<Open>>),
    /// All have.
    Done,
    /// Its fault has been reported.
    Faulty,
}

#[derive(Debug)]
struct Open {
    pointer: ToastPointer,
    collector: Collector,
}

impl ValueScan {
    /// To find the values of `pointers`, which lead to one relation with chunks of `chunk_size`. Of
    /// several pointers to one value the first counts.
    ///
    /// # Errors
    /// [`ToastError::Direct`] if one is a direct pointer.
    pub fn new(
        pointers: impl IntoIterator<Item = ToastPointer>,
        chunk_size: ChunkSize,
    ) -> Result<Self, ToastError> {
        let mut states = BTreeMap::new();
        for pointer in pointers {
            let value_id = pointer.value_id().ok_or(ToastError::Direct)?;
            states.entry(value_id).or_insert(State::Waiting(pointer));
        }
        Ok(Self { chunk_size, states, current: None, buffers: Vec::new() })
    }

    /// Takes a chunk in. If it completes its value, `visit` gets the pointer and the stored bytes:
    /// [`Value::of_stored`](crate::Value::of_stored) makes the value of them. Chunks of values that
    /// nobody asked for are left.
    ///
    /// # Errors
    /// Those of [`Collector::accept`] and [`Collector::finish`], once for a value; what comes of it
    /// afterwards is left.
    #[inline]
    pub fn accept(
        &mut self,
        chunk: &Chunk<'_>,
        visit: impl FnOnce(&ToastPointer, &[u8]),
    ) -> Result<(), ToastError> {
        let is_current = |open: &Open| open.collector.plan().value_id() == chunk.value_id;
        if !self.current.as_deref().is_some_and(is_current) {
            self.switch_to(chunk)?;
        }
        let Some(open) = &mut self.current else { return Ok(()) };
        match open.collector.accept(chunk) {
            Ok(()) if open.collector.is_complete() => self.complete(visit),
            Ok(()) => Ok(()),
            Err(error) => {
                self.current = None;
                self.states.insert(chunk.value_id, State::Faulty);
                Err(error)
            }
        }
    }

    /// Says that no more chunks will come, and what is wrong with each value that is not complete.
    /// One without any chunk lacks chunk 0.
    pub fn finish(mut self) -> impl Iterator<Item = (ToastPointer, ToastError)> {
        self.set_aside();
        let chunk_size = self.chunk_size;
        self.states.into_values().filter_map(move |state| {
            let open = match state {
                State::Waiting(pointer) => Open::new(pointer, chunk_size, Vec::new()).ok()?,
                State::Open(open) => *open?,
                State::Done | State::Faulty => return None,
            };
            Some((open.pointer, open.collector.finish().err()?))
        })
    }

    /// Makes the chunk's value the current one, or none if the chunk is to be left.
    fn switch_to(&mut self, chunk: &Chunk<'_>) -> Result<(), ToastError> {
        self.set_aside();
        let Some(state) = self.states.get_mut(&chunk.value_id) else { return Ok(()) };
        match state {
            State::Waiting(pointer) => {
                let buffer = self.buffers.pop().unwrap_or_default();
                let open = Open::new(*pointer, self.chunk_size, buffer)?;
                self.current = Some(Box::new(open));
                *state = State::Open(None);
            }
            State::Open(open) => self.current = open.take(),
            State::Done => {
                *state = State::Faulty;
                return Err(ToastError::ChunkNumber {
                    value_id: chunk.value_id,
                    found: chunk.seq,
                    expected: u32::try_from(chunk.seq).map_or(0, |number| number + 1),
                    tid: chunk.tid,
                });
            }
            State::Faulty => {}
        }
        Ok(())
    }

    /// Puts the current value back among the others that are open.
    fn set_aside(&mut self) {
        if let Some(open) = self.current.take() {
            let value_id = open.collector.plan().value_id();
            self.states.insert(value_id, State::Open(Some(open)));
        }
    }

    fn complete(&mut self, visit: impl FnOnce(&ToastPointer, &[u8])) -> Result<(), ToastError> {
        let Some(open) = self.current.take() else { return Ok(()) };
        let Open { pointer, collector } = *open;
        let value_id = collector.plan().value_id();
        let (state, verdict) = match collector.finish() {
            Ok(stored) => {
                visit(&pointer, &stored);
                self.buffers.push(stored);
                (State::Done, Ok(()))
            }
            Err(error) => (State::Faulty, Err(error)),
        };
        self.states.insert(value_id, state);
        verdict
    }
}

impl Open {
    fn new(
        pointer: ToastPointer,
        chunk_size: ChunkSize,
        buffer: Vec<u8>,
    ) -> Result<Self, ToastError> {
        let plan = ChunkPlan::new(&pointer, chunk_size)?;
        Ok(Self { pointer, collector: Collector::with_buffer(plan, ChunkOrder::Any, buffer) })
    }
}
