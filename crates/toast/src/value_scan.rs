//! Every value of a relation in one pass over it.
use alloc::boxed::Box;
use alloc::vec::Vec;

use pgtoast_base::{ItemPointer, Oid8};
use pgtoast_varlena::ToastPointer;

use crate::{Chunk, ChunkOrder, ChunkPlan, ChunkSize, Collector, ToastError};

/// Takes the chunks of a TOAST relation as they lie in it and hands out each value that was asked for
/// once its last chunk has come.
///
/// One sequential pass, however the values' chunks are mixed, and no index. It holds the bytes of
/// values that have begun and are not complete yet, in buffers that are used again: for a relation
/// whose values lie one behind the other, those of one value. A chunk is copied once, but for those that
/// lie before others that they follow.
///
/// Several scans can share a relation, each with its part of the pages and on its own thread:
/// [`absorb`](Self::absorb) puts together what parts have of values that lie across their borders.
///
/// A fault costs its value only; the scan goes on with the others.
#[derive(Clone, Debug)]
pub struct ValueScan {
    chunk_size: ChunkSize,
    /// Sorted by id, each of which is there once.
    values: Vec<Wanted>,
    /// That of the chunk before, which most often is that of the next chunk too.
    current: usize,
    buffers: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Wanted {
    value_id: Oid8,
    pointer: ToastPointer,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// No chunk has come.
    Waiting,
    /// Some have.
    Open(Box<Collector>),
    /// All have.
    Done,
    /// Its fault has been reported.
    Faulty,
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
        let mut values = Vec::new();
        for pointer in pointers {
            let value_id = pointer.value_id().ok_or(ToastError::Direct)?;
            values.push(Wanted { value_id, pointer, state: State::Waiting });
        }
        values.sort_by_key(|value| value.value_id);
        values.dedup_by_key(|value| value.value_id);
        Ok(Self { chunk_size, values, current: 0, buffers: Vec::new() })
    }

    /// Takes a chunk in. If it completes its value, `visit` gets the pointer and the stored bytes:
    /// [`Value::of_stored`](crate::Value::of_stored) makes the value of them. Chunks of values that
    /// nobody asked for are left.
    ///
    /// # Errors
    /// Those of [`Collector::accept`], once for a value; what comes of it afterwards is left.
    #[inline]
    pub fn accept(
        &mut self,
        chunk: &Chunk<'_>,
        visit: impl FnOnce(&ToastPointer, &[u8]),
    ) -> Result<(), ToastError> {
        let is_current =
            self.values.get(self.current).is_some_and(|value| value.value_id == chunk.value_id);
        if !is_current && !self.turn_to(chunk.value_id) {
            return Ok(());
        }
        let value = &mut self.values[self.current];
        let accepted = match &mut value.state {
            State::Open(collector) => collector.accept(chunk),
            state => begin(state, &value.pointer, chunk, self.chunk_size, &mut self.buffers),
        };
        match accepted {
            Ok(()) => {
                if let State::Open(collector) = &value.state
                    && collector.is_complete()
                {
                    self.complete(visit);
                }
                Ok(())
            }
            Err(error) => {
                value.state = State::Faulty;
                Err(error)
            }
        }
    }

    /// Takes in what a scan of another part of the relation has, and hands out the values that are
    /// complete with it. The faults of the other have been reported; what is wrong with the two together
    /// comes with the pointer to its value.
    pub fn absorb(
        &mut self,
        other: Self,
        mut visit: impl FnMut(&ToastPointer, &[u8]),
    ) -> Vec<(ToastPointer, ToastError)> {
        let mut faults = Vec::new();
        self.buffers.extend(other.buffers);
        for theirs in other.values {
            if matches!(theirs.state, State::Waiting) || !self.turn_to(theirs.value_id) {
                continue;
            }
            let ours = &mut self.values[self.current];
            let verdict = match (&ours.state, theirs.state) {
                (State::Faulty, _) => Ok(()),
                (State::Waiting, state) => {
                    ours.state = state;
                    Ok(())
                }
                (_, State::Open(collector)) => {
                    collector.chunks().try_for_each(|chunk| self.accept(&chunk, &mut visit))
                }
                (_, State::Done) => Err(again(theirs.value_id, 0, None)),
                (_, _) => {
                    ours.state = State::Faulty;
                    Ok(())
                }
            };
            if let Err(error) = verdict {
                self.values[self.current].state = State::Faulty;
                faults.push((theirs.pointer, error));
            }
        }
        faults
    }

    /// Says that no more chunks will come, and what is wrong with each value that is not complete.
    /// One without any chunk lacks chunk 0.
    pub fn finish(self) -> impl Iterator<Item = (ToastPointer, ToastError)> {
        let chunk_size = self.chunk_size;
        self.values.into_iter().filter_map(move |Wanted { pointer, state, .. }| {
            let fault = match state {
                State::Waiting => collector(&pointer, chunk_size, Vec::new()).ok()?.finish().err(),
                State::Open(collector) => collector.finish().err(),
                State::Done | State::Faulty => None,
            };
            Some((pointer, fault?))
        })
    }

    /// Makes a value the current one, if it was asked for. Mostly it is the next.
    fn turn_to(&mut self, value_id: Oid8) -> bool {
        let is_next =
            self.values.get(self.current + 1).is_some_and(|value| value.value_id == value_id);
        let found = if is_next {
            Ok(self.current + 1)
        } else {
            self.values.binary_search_by_key(&value_id, |value| value.value_id)
        };
        if let Ok(index) = found {
            self.current = index;
        }
        found.is_ok()
    }

    /// Hands out the current value, all of whose chunks have come.
    fn complete(&mut self, visit: impl FnOnce(&ToastPointer, &[u8])) {
        let value = &mut self.values[self.current];
        let state = core::mem::replace(&mut value.state, State::Done);
        if let State::Open(collector) = state
            && let Ok(stored) = collector.finish()
        {
            visit(&value.pointer, &stored);
            self.buffers.push(stored);
        }
    }
}

/// The first chunk of a value, or one of a value that is not open any more.
fn begin(
    state: &mut State,
    pointer: &ToastPointer,
    chunk: &Chunk<'_>,
    chunk_size: ChunkSize,
    buffers: &mut Vec<Vec<u8>>,
) -> Result<(), ToastError> {
    match state {
        State::Waiting => {
            let buffer = buffers.pop().unwrap_or_default();
            let mut collector = Box::new(collector(pointer, chunk_size, buffer)?);
            collector.accept(chunk)?;
            *state = State::Open(collector);
            Ok(())
        }
        State::Done => Err(again(chunk.value_id, chunk.seq, chunk.tid)),
        State::Open(_) | State::Faulty => Ok(()),
    }
}

fn collector(
    pointer: &ToastPointer,
    chunk_size: ChunkSize,
    buffer: Vec<u8>,
) -> Result<Collector, ToastError> {
    let plan = ChunkPlan::new(pointer, chunk_size)?;
    Ok(Collector::with_buffer(plan, ChunkOrder::Any, buffer))
}

/// A chunk came again after its value was complete.
fn again(value_id: Oid8, found: i32, tid: Option<ItemPointer>) -> ToastError {
    let expected = u32::try_from(found).map_or(0, |number| number + 1);
    ToastError::ChunkNumber { value_id, found, expected, tid }
}
