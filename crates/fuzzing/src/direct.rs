//! Direct values: pointers and tuples of any bytes, trees of any shape, edits in any order.
use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber, Oid};
use pgtoast_direct::{
    ChunkStore, ChunkTuple, DirectError, DirectRelation, MemoryStore, Parameters, Rebuild, ValueTag,
};
use pgtoast_varlena::{CompressionInfo, DirectPointer, ToastPointer};

use crate::input::Input;

/// Any bytes as a tuple of a chunk relation, and as a pointer to it: what parses encodes to a tuple that
/// parses to the same, and reading a value of that one tuple ends.
pub fn direct_pointer(data: &[u8]) {
    let (pointer, tuple) = data.split_at(data.len().min(22));
    let tid = ItemPointer::new(BlockNumber::new(0), OffsetNumber::FIRST);
    if let Ok(chunk) = ChunkTuple::parse(tuple, tid) {
        let mut encoded = vec![0xee; chunk.encoded_len()];
        chunk.encode(&mut encoded);
        assert_eq!(ChunkTuple::parse(&encoded, tid), Ok(chunk));
    }
    let Ok(ToastPointer::Direct(pointer)) = ToastPointer::parse(pointer, 0) else { return };
    let relation =
        DirectRelation::new(ToastPointer::Direct(pointer).toast_rel_id(), Parameters::default());
    let store = Tuples(vec![tuple.to_vec()]);
    read_all(&relation, &store, &pointer);
}

/// Tuples at items 1, 2, … of block 0.
struct Tuples(Vec<Vec<u8>>);

impl ChunkStore for Tuples {
    type Error = ItemPointer;
    type Tuple<'s> = &'s [u8];

    fn insert_with(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<ItemPointer, ItemPointer> {
        let mut tuple = vec![0xee; len];
        fill(&mut tuple);
        self.0.push(tuple);
        Ok(place(self.0.len()))
    }

    fn fetch(&self, tid: ItemPointer) -> Result<&[u8], ItemPointer> {
        let index = tid.item.index().filter(|_| tid.block.get() == 0).ok_or(tid)?;
        self.0.get(index).filter(|tuple| !tuple.is_empty()).map(Vec::as_slice).ok_or(tid)
    }

    fn delete(&mut self, tid: ItemPointer) -> Result<(), ItemPointer> {
        self.fetch(tid)?;
        if let Some(tuple) = tid.item.index().and_then(|index| self.0.get_mut(index)) {
            tuple.clear();
        }
        Ok(())
    }
}

fn place(item: usize) -> ItemPointer {
    let item = OffsetNumber::new(u16::try_from(item).unwrap_or(u16::MAX));
    ItemPointer::new(BlockNumber::new(0), item)
}

/// A value that is read from a few tuples costs no more than this, in stored bytes: an edited tree may share a
/// leaf many times, and then its length is what it takes to read.
const MOST_BYTES: usize = 1 << 16;

/// Reads a value in every way, and checks that they agree.
fn read_all(relation: &DirectRelation, store: &Tuples, pointer: &DirectPointer) -> Option<Vec<u8>> {
    let datum = ToastPointer::Direct(*pointer);
    let found = relation.verify(store, pointer, |_| {});
    assert!(found <= store.0.len() + 64 * store.0.len().max(1) * 64, "bounded by the tuples");
    if datum.stored_len() > MOST_BYTES || datum.raw_payload_len().is_ok_and(|len| len > MOST_BYTES)
    {
        return None;
    }
    let whole = relation.read(store, pointer);
    let mut target = vec![0xee; datum.raw_payload_len().unwrap_or_default()];
    let into = relation.read_into(store, pointer, &mut target);
    assert_eq!(whole.is_ok(), into.is_ok(), "{whole:?} {into:?}");
    let mut streamed = Vec::new();
    let streaming = relation.source(store, pointer).and_then(|mut source| {
        let mut piece = [0; 100];
        loop {
            let read = source.read(&mut piece)?;
            if read == 0 {
                return Ok(());
            }
            streamed.extend_from_slice(&piece[..read]);
        }
    });
    assert_eq!(whole.is_ok(), streaming.is_ok(), "{whole:?} {streaming:?}");
    let _ = relation.tuples(store, pointer);
    let value = whole.ok()?;
    assert_eq!(value, target);
    assert_eq!(value, streamed);
    let (at, len) = (value.len() / 3, value.len() / 2);
    let mut slice = vec![0xee; len];
    relation.slice_into(store, pointer, at, &mut slice).expect("a part of what was read");
    assert_eq!(slice, value[at..at + len]);
    Some(value)
}

/// A relation of small chunks, so that few bytes make a tall tree.
fn relation(choice: u8) -> DirectRelation {
    let (fanout, flat_chunks) = [(2, 1), (3, 4), (5, 100), (50, 5)][usize::from(choice % 4)];
    let base = if choice & 4 == 0 {
        Parameters::default()
    } else {
        Parameters::resilient(BlockSize::default())
    };
    let parameters = base
        .with_chunk_bytes(16)
        .and_then(|it| it.with_fanout(fanout))
        .and_then(|it| it.with_flat_chunks(flat_chunks))
        .expect("in range");
    DirectRelation::new(Oid::new(1), parameters).with_tag(ValueTag::new(5))
}

/// Writes a value, then breaks its tuples: numbers, children, bounds, lengths, single bytes; and then
/// points at any of them. Whatever is read comes to an end; where nothing was broken it is the value.
pub fn direct_graph(data: &[u8]) {
    let mut input = Input::new(data);
    let relation = relation(input.u8());
    let mut value = vec![0; usize::from(input.u16() % 1200) + 1];
    let (mut state, edits, pointed, len_change) =
        (input.u8(), input.u8() % 8, input.u8(), input.u8());
    for byte in &mut value {
        state = state.wrapping_mul(5).wrapping_add(3);
        *byte = state;
    }
    let mut store = Tuples(Vec::new());
    let mut pointer = relation.write(&mut store, &value).expect("room");
    if edits & 1 == 1 {
        pointer = relation
            .insert_range(&mut store, &pointer, value.len() / 2, b"x")
            .expect("room")
            .pointer;
        value.insert(value.len() / 2, b'x');
    }
    let sound = store.0.clone();
    let rest = input.rest();
    for edit in rest.chunks_exact(5) {
        let [which, what, at_low, at_high, byte] = *edit else { continue };
        let count = store.0.len();
        // The last tuples are the root and its nodes.
        let index = count - 1 - usize::from(which) % count;
        let other = place(usize::from(at_low) % count + 1);
        let tuple = &mut store.0[index];
        let at = usize::from(u16::from_le_bytes([at_low, at_high])) % tuple.len().max(1);
        match what % 5 {
            0 => tuple[at] = byte,
            1 => {
                // Its number, unless it was cut off before.
                if let Some(number) = tuple.get_mut(24) {
                    *number = byte;
                }
            }
            2 if tuple.len() >= 58 && tuple[23] == 0x1a => {
                // One of its children is another tuple.
                let child = 52 + usize::from(byte % 4) * 6;
                if let Some(slot) = tuple.get_mut(child..child + 6) {
                    slot.copy_from_slice(&other.to_bytes());
                }
            }
            3 => {
                let len = tuple.len();
                tuple.truncate(len.saturating_sub(usize::from(byte % 9)).max(1));
            }
            4 => {
                // A bound, somewhere near the end of a node.
                let len = tuple.len();
                if let Some(slot) = len.checked_sub(8 * (1 + usize::from(byte % 4))) {
                    tuple[slot] = at_low;
                }
            }
            _ => {}
        }
    }
    let is_sound = store.0 == sound;
    match read_all(&relation, &store, &pointer) {
        Some(read) if is_sound => assert_eq!(read, value),
        None if is_sound => panic!("a sound value does not read"),
        _ => {}
    }
    // Any tuple as a root, under any length.
    let root = place(usize::from(pointed) % store.0.len() + 1);
    let len = u32::from(len_change) * 7 + 1;
    let info = CompressionInfo::from_word(len | u32::from(pointed) << 30);
    let stray = DirectPointer::new(i32::try_from(len + 4).expect("small"), info, Oid::new(1), root);
    read_all(&relation, &store, &stray);
    let shrunk = DirectPointer::new(60_000, info, Oid::new(1), root);
    read_all(&relation, &store, &shrunk);
    let mut edited = Tuples(store.0.clone());
    let count = edited.0.len();
    if relation.patch(&mut edited, &pointer, value.len() / 2, b"y").is_err() {
        assert!(edited.0.iter().skip(count).all(Vec::is_empty), "nothing is left of a failed edit");
    }
    let _ = relation.delete(&mut store, &pointer);
    // And what its leaves say of it.
    let mut rebuild = Rebuild::new(relation);
    for (index, tuple) in sound.iter().enumerate() {
        rebuild.add(place(index + 1), tuple);
    }
    if relation.parameters().has_trailer()
        && edits & 1 == 0
        && relation.parameters().flat_chunks() == 1
    {
        let mut store = Tuples(sound);
        let restored = rebuild.restore(&mut store, 5).expect("all leaves are there");
        assert_eq!(relation.read(&store, &restored), Ok(value));
    }
}

/// Edits in any order against a flat array of bytes. Old versions read as before, a refused edit leaves
/// nothing, and in the end the store holds the value's tuples and no others.
pub fn direct_edits(data: &[u8]) {
    let mut input = Input::new(data);
    let relation = relation(input.u8());
    let mut model = vec![0xa5; usize::from(input.u16() % 600) + 1];
    let mut store = MemoryStore::new(BlockSize::default());
    let mut pointer = relation.write(&mut store, &model).expect("room");
    for bytes in input.rest().chunks(6).take(24) {
        let mut op = Input::new(bytes);
        let (kind, at, len, fill) = (op.u8(), op.u16(), op.u8(), op.u8());
        let offset = usize::from(at) % (model.len() + 1);
        let piece: Vec<u8> = (0..len).map(|index| fill.wrapping_add(index)).collect();
        let room = piece.len().min(model.len() - offset);
        let old = (pointer, model.clone());
        let before = store.tuples().count();
        let done = match kind % 5 {
            0 => {
                model[offset..offset + room].copy_from_slice(&piece[..room]);
                relation.patch(&mut store, &pointer, offset, &piece[..room])
            }
            1 => {
                model.extend_from_slice(&piece);
                relation.append(&mut store, &pointer, &piece)
            }
            2 => {
                model.truncate(offset);
                relation.truncate(&mut store, &pointer, offset)
            }
            3 => {
                model.splice(offset..offset, piece.iter().copied());
                relation.insert_range(&mut store, &pointer, offset, &piece)
            }
            _ => {
                model.drain(offset..offset + room);
                relation.remove_range(&mut store, &pointer, offset, room)
            }
        };
        match done {
            Ok(edited) => {
                assert_eq!(store.tuples().count(), before + edited.written);
                assert_eq!(relation.read(&store, &old.0).as_ref(), Ok(&old.1));
                assert_eq!(relation.read(&store, &edited.pointer).as_ref(), Ok(&model));
                relation.verify(&store, &edited.pointer, |fault| panic!("{fault}"));
                pointer = edited.pointer;
                for tid in edited.retired {
                    store.delete(tid).expect("it is there, once");
                }
            }
            Err(error) => {
                assert_eq!(error, DirectError::Empty.into());
                assert!(model.is_empty());
                assert_eq!(store.tuples().count(), before);
                (pointer, model) = old;
            }
        }
        if model.len() > 20_000 {
            break;
        }
    }
    let tuples = relation.delete(&mut store, &pointer).expect("a sound value");
    assert!(tuples > 0);
    assert_eq!(store.tuples().count(), 0);
}
