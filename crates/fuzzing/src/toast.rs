//! Chunks in any order are the value, or a located error; never other bytes.
use std::convert::Infallible;
use std::ops::{ControlFlow, Range};

use pgtoast_base::{Oid, Oid8};
use pgtoast_toast::{
    ByteSlice, CharSlice, Chunk, ChunkOrder, ChunkSize, ChunkSource, Detoaster, ReadError,
    ValueKey, raw_len,
};
use pgtoast_varlena::{CompressionInfo, OidPointer, ToastPointer, Varlena};

use crate::input::Input;

const VALUE: u32 = 7;

/// A list of chunks that may be anything.
struct Chunks {
    chunks: Vec<(i32, Vec<u8>)>,
    order: ChunkOrder,
}

impl ChunkSource for Chunks {
    type Error = Infallible;

    fn order(&self) -> ChunkOrder {
        self.order
    }

    fn visit(
        &mut self,
        key: ValueKey,
        wanted: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<Infallible>> {
        for (seq, data) in &self.chunks {
            let is_wanted = u32::try_from(*seq).is_ok_and(|seq| wanted.contains(&seq));
            let chunk = Chunk { value_id: key.value_id, seq: *seq, data, tid: None };
            if (is_wanted || self.order == ChunkOrder::Any) && visit(&chunk).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Choices, a stored value, then what to do to its chunks: move one, drop one, double one, change a
/// number or a length.
///
/// Read in any order, the value comes back if and only if each number from 0 is there once with the
/// length it must have. Whatever is done, whole value, buffer and slices tell the same story.
pub fn toast_assembly(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = input.u8();
    let chunk_bytes = usize::from(input.u8() % 40) + 1;
    let (raw_len_word, slice_at, slice_len) = (input.u16(), input.u16(), input.u16());
    let edits: Vec<_> = (0..input.u8() % 6).map(|_| (input.u8(), input.u8(), input.u8())).collect();
    let stored = input.rest();
    if stored.is_empty() {
        return; // The server stores no value of no bytes.
    }

    let mut chunks: Vec<_> = (0..).zip(stored.chunks(chunk_bytes).map(<[u8]>::to_vec)).collect();
    for (what, which, how) in edits {
        edit(&mut chunks, what, which.into(), how);
    }
    let is_compressed = choices & 1 == 1;
    let raw_bytes = if is_compressed {
        stored.len() + 1 + usize::from(raw_len_word % 4096)
    } else {
        stored.len()
    };
    let info = u32::try_from(stored.len()).expect("a small input") | u32::from(choices >> 6) << 30;
    let pointer = ToastPointer::Oid(OidPointer::new(
        i32::try_from(raw_bytes + 4).expect("a small input"),
        CompressionInfo::from_word(info),
        Oid::new(VALUE),
        Oid::new(1),
    ));
    assert_eq!(pointer.value_id(), Some(Oid8::new(VALUE.into())));
    assert_eq!(pointer.is_compressed(), is_compressed);
    let datum = Varlena::External(pointer);
    assert_eq!(raw_len(&datum), Ok(raw_bytes));

    let chunk_size = ChunkSize::new(chunk_bytes).expect("1 to 40");
    let index_order = choices & 2 == 2;
    if index_order {
        chunks.sort_by_key(|(seq, _)| *seq);
    }
    let is_sound = sound(&chunks, stored.len(), chunk_bytes, index_order);
    let order = if index_order { ChunkOrder::Index } else { ChunkOrder::Any };
    let mut detoaster = Detoaster::new(Chunks { chunks, order }, chunk_size);

    let fetched = detoaster.fetch_stored(&pointer);
    assert_eq!(fetched.is_ok(), is_sound, "{:?}", fetched.err());
    let whole = detoaster.detoast(&datum);
    let mut target = vec![0xee; raw_bytes];
    let into = detoaster.detoast_into(&datum, &mut target);
    assert_eq!(whole.as_ref().err(), into.as_ref().err());

    let slice = ByteSlice::new(usize::from(slice_at) % (raw_bytes + 2), slice_len.into());
    let part = detoaster.slice_bytes(&datum, slice);
    match (&whole, &part) {
        (Ok(whole), Ok(part)) => {
            assert_eq!(target, whole.as_bytes());
            assert_eq!(part.as_bytes(), whole.bytes(slice));
        }
        (Ok(_), Err(error)) => panic!("whole, but a slice: {error}"),
        (Err(_), _) => assert!(!is_sound || is_compressed),
    }
    let chars = CharSlice::new(slice.offset / 4, usize::from(slice_len % 9));
    if let (Ok(whole), Ok(part)) = (&whole, detoaster.slice_chars(&datum, chars)) {
        assert_eq!(whole.chars(chars).as_deref(), Ok(&*part));
    }
}

fn edit(chunks: &mut Vec<(i32, Vec<u8>)>, what: u8, which: usize, how: u8) {
    if chunks.is_empty() {
        return;
    }
    let at = which % chunks.len();
    match what % 6 {
        0 => chunks.swap(0, at),
        1 => drop(chunks.remove(at)),
        2 => chunks.push(chunks[at].clone()),
        3 => chunks[at].0 = i32::from(how.cast_signed()),
        4 => chunks[at].0 = i32::from_le_bytes([how; 4]),
        _ => chunks[at].1.resize(usize::from(how), 0xab),
    }
}

/// Whether the chunks are the value, decided the slow way. A chunk numbered beyond the value's is one
/// too many; below zero it is nothing that an index can be asked for.
fn sound(
    chunks: &[(i32, Vec<u8>)],
    stored_len: usize,
    chunk_bytes: usize,
    index_order: bool,
) -> bool {
    let count = stored_len.div_ceil(chunk_bytes);
    let expected = |seq: usize| chunk_bytes.min(stored_len - seq * chunk_bytes);
    let mut times = vec![0; count];
    for (seq, data) in chunks {
        match usize::try_from(*seq).ok().filter(|seq| *seq < count) {
            Some(seq) if data.len() == expected(seq) => times[seq] += 1,
            Some(_) => return false,
            None if index_order && *seq < 0 => {}
            None => return false,
        }
    }
    times.iter().all(|times| *times == 1)
}
